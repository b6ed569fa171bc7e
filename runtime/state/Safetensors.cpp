//===- Safetensors.cpp - Tensors by name in a file ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Safetensors.h"
#include "runtime/format/Convert.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cleave::state {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

static constexpr uint64_t longestHeader = uint64_t(100) << 20;

static const char *const typeNames[] = {"F32", "I32", "BOOL"};

static const char *const checksumKey = "checksum";

struct DataHash::State {
  XXH64_state_t state;
};

DataHash::DataHash() : state(std::make_unique<State>()) {
  XXH64_reset(&state->state, 0);
}
DataHash::~DataHash() = default;
void DataHash::add(const void *data, size_t bytes) {
  XXH64_update(&state->state, data, bytes);
}
uint64_t DataHash::value() const { return XXH64_digest(&state->state); }

static std::string textOf(const OrderedJson &json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// The checksum as it stands in a header, last of the metadata.
static std::string entryOf(const std::string &checksum) {
  return std::string(",\"") + checksumKey + "\":\"" + checksum + "\"";
}

static std::string checksumOf(const std::string &header, uint64_t dataHash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(
                    XXH64(header.data(), header.size(), dataHash)));
  return text;
}

namespace {

bool isCount(const Json &json) {
  return json.is_number_unsigned() &&
         json.get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max());
}

/// One entry of the header; `dataBytes` is what the file has.
Result<TensorInfo> readInfo(const std::string &name, const Json &entry,
                            uint64_t dataBytes) {
  Status malformed = Status::error("its entry of `" + name + "` is malformed");
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    return malformed;
  }
  TensorInfo info;
  info.name = name;
  std::string type = entry["dtype"].get<std::string>();
  auto found = std::find(std::begin(typeNames), std::end(typeNames), type);
  if (found == std::end(typeNames)) {
    return Status::error("`" + name + "` is of type " + type +
                         "; only F32, I32 and BOOL are read");
  }
  info.type = static_cast<format::ElementType>(found - std::begin(typeNames));
  uint64_t bytes = format::elementSize(info.type);
  for (const Json &size : entry["shape"]) {
    if (!isCount(size)) {
      return malformed;
    }
    info.shape.push_back(size.get<int64_t>());
    if (__builtin_mul_overflow(bytes, size.get<uint64_t>(), &bytes)) {
      return malformed;
    }
  }
  const Json &offsets = entry["data_offsets"];
  if (!isCount(offsets[0]) || !isCount(offsets[1])) {
    return malformed;
  }
  info.offset = offsets[0].get<uint64_t>();
  uint64_t end = offsets[1].get<uint64_t>();
  if (end < info.offset || end - info.offset != bytes) {
    return Status::error("the data of `" + name + "` has another size than " +
                         "its shape says");
  }
  if (end > dataBytes) {
    return Status::error("it is cut short: `" + name + "` ends at byte " +
                         std::to_string(end) + " of the data, which has " +
                         std::to_string(dataBytes));
  }
  info.bytes = bytes;
  return info;
}

} // namespace

Result<SafetensorsReader> SafetensorsReader::open(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.status();
  }
  std::string context = "cannot load `" + path + "`";
  SafetensorsReader reader(std::move(*mapped));
  uint64_t size = reader.file.size(), length = 0;
  if (size < sizeof(length)) {
    return Status::error("it is not a safetensors file").in(context);
  }
  std::memcpy(&length, reader.file.data(), sizeof(length));
  if (length > longestHeader || length > size - sizeof(length)) {
    return Status::error("it is cut short, or not a safetensors file")
        .in(context);
  }
  const char *text =
      reinterpret_cast<const char *>(reader.file.data()) + sizeof(length);
  Json header = Json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) {
    return Status::error("its header is not a JSON object").in(context);
  }
  reader.dataAt = sizeof(length) + length;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) {
        return Status::error("its metadata is malformed").in(context);
      }
      for (const auto &[key, value] : entry.items()) {
        if (!value.is_string()) {
          return Status::error("its metadata is malformed").in(context);
        }
        reader.strings[key] = value.get<std::string>();
      }
      continue;
    }
    Result<TensorInfo> info = readInfo(name, entry, size - reader.dataAt);
    if (!info) {
      return info.status().in(context);
    }
    reader.infos.push_back(std::move(*info));
  }
  // The data are the tensors, without a gap or an overlap.
  std::sort(reader.infos.begin(), reader.infos.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::pair(a.offset, a.bytes) <
                     std::pair(b.offset, b.bytes);
            });
  uint64_t at = 0;
  for (const TensorInfo &info : reader.infos) {
    if (info.offset != at) {
      return Status::error("the data of `" + info.name +
                           "` overlaps another tensor's or leaves a gap")
          .in(context);
    }
    at += info.bytes;
  }
  if (at != size - reader.dataAt) {
    return Status::error("it has data that no tensor names").in(context);
  }
  return reader;
}

const TensorInfo *SafetensorsReader::find(const std::string &name) const {
  for (const TensorInfo &info : infos) {
    if (info.name == name) {
      return &info;
    }
  }
  return nullptr;
}

const void *SafetensorsReader::data(const TensorInfo &info) const {
  return file.data() + dataAt + info.offset;
}

Status SafetensorsReader::check() const {
  auto found = strings.find(checksumKey);
  if (found == strings.end()) {
    return Status();
  }
  constexpr size_t lengthBytes = sizeof(uint64_t);
  std::string header(reinterpret_cast<const char *>(file.data()) + lengthBytes,
                     dataAt - lengthBytes);
  header.erase(header.find_last_not_of(' ') + 1);
  std::string entry = entryOf(found->second);
  if (size_t at = header.find(entry); at != std::string::npos) {
    header.erase(at, entry.size());
  }
  DataHash hash;
  hash.add(file.data() + dataAt, file.size() - dataAt);
  return checksumOf(header, hash.value()) == found->second
             ? Status()
             : Status::error("its checksum says that it is not as it was "
                             "written");
}

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string &path, std::vector<TensorInfo> tensors,
    const Metadata &metadata, std::optional<uint64_t> dataHash) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  uint64_t at = 0;
  for (TensorInfo &info : tensors) {
    info.bytes = format::elementSize(info.type);
    for (int64_t size : info.shape) {
      info.bytes *= static_cast<uint64_t>(size);
    }
    info.offset = at;
    header[info.name] = {{"dtype", typeNames[static_cast<size_t>(info.type)]},
                         {"shape", info.shape},
                         {"data_offsets", {at, at + info.bytes}}};
    at += info.bytes;
  }
  std::string text = textOf(header);
  if (dataHash) {
    assert(!metadata.empty() && "the checksum stands behind something");
    header["__metadata__"][checksumKey] = checksumOf(text, *dataHash);
    text = textOf(header);
  }
  text.resize((text.size() + 7) / 8 * 8, ' '); // aligns the data
  Result<ReplacedFile> file = ReplacedFile::create(path);
  if (!file) {
    return file.status();
  }
  uint64_t length = text.size();
  CLEAVE_TRY(file->write(&length, sizeof(length)));
  CLEAVE_TRY(file->write(text.data(), text.size()));
  return SafetensorsWriter(std::move(*file), std::move(tensors));
}

Status SafetensorsWriter::write(const void *data) {
  assert(next < infos.size() && "more data than tensors");
  return file.write(data, infos[next++].bytes);
}

Status SafetensorsWriter::commit() {
  assert(next == infos.size() && "less data than tensors");
  return file.commit();
}

} // namespace cleave::state
