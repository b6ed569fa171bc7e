//===- Checkpoint.cpp - The state in a file -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Checkpoint.h"
#include "runtime/format/Convert.h"

#include <charconv>
#include <functional>
#include <set>

namespace cleave::state {

static constexpr uint64_t formatVersion = 1;

static std::vector<TensorInfo> infosOf(const State &state) {
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < state.leaves(); ++i) {
    const format::LeafT &leaf = state.leaf(i);
    infos.push_back({nameOf(leaf), leaf.type, leaf.sizes});
  }
  return infos;
}

static Metadata metadataOf(const std::string &model, uint64_t step,
                           uint64_t cursor, uint64_t seed,
                           const Metadata &extra) {
  Metadata metadata = extra;
  metadata["format"] = std::to_string(formatVersion);
  metadata["model"] = model;
  metadata["step"] = std::to_string(step);
  metadata["cursor"] = std::to_string(cursor);
  metadata["seed"] = std::to_string(seed);
  return metadata;
}

/// A leaf at a time, so that no second state is needed; the hash, which stands
/// before the data, takes a pass of its own. `gather` gives a leaf's array.
static Status save(const std::string &path,
                   const std::vector<TensorInfo> &infos,
                   const Metadata &metadata,
                   const std::function<Status(size_t, char *)> &gather) {
  std::vector<char> global;
  auto read = [&](size_t leaf) {
    size_t elements = 1;
    for (int64_t size : infos[leaf].shape) {
      elements *= static_cast<size_t>(size);
    }
    global.resize(elements * format::elementSize(infos[leaf].type));
    return gather(leaf, global.data());
  };
  DataHash hash;
  for (size_t leaf = 0; leaf < infos.size(); ++leaf) {
    CLEAVE_TRY(read(leaf));
    hash.add(global.data(), global.size());
  }
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, infos, metadata, hash.value());
  if (!writer) {
    return writer.status();
  }
  for (size_t leaf = 0; leaf < infos.size(); ++leaf) {
    CLEAVE_TRY(read(leaf));
    CLEAVE_TRY(writer->write(global.data()));
  }
  return writer->commit();
}

Status saveCheckpoint(const std::string &path, const StateCopy &state,
                      const std::string &model, const Metadata &extra) {
  return save(
      path, state.leaves(),
      metadataOf(model, state.step(), state.cursor(), state.seed(), extra),
      [&](size_t leaf, char *global) { return state.gather(leaf, global); });
}

Status saveCheckpoint(const std::string &path, const State &state,
                      const std::string &model, const Metadata &extra) {
  return save(path, infosOf(state),
              metadataOf(model, state.step, state.cursor, state.seed, extra),
              [&](size_t leaf, char *global) {
                state.gather(leaf, global);
                return Status();
              });
}

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

/// Whether the file has what the state needs, and nothing else.
static Status compare(const SafetensorsReader &reader, const State &state,
                      const LoadOptions &options) {
  std::set<std::string> known;
  for (size_t i = 0; i < state.leaves(); ++i) {
    const format::LeafT &leaf = state.leaf(i);
    std::string name = nameOf(leaf);
    known.insert(name);
    if (options.paramsOnly && !leaf.state.empty()) {
      continue;
    }
    const TensorInfo *info = reader.find(name);
    if (!info) {
      return Status::error("it lacks `" + name + "`, which the model has");
    }
    if (info->type != leaf.type) {
      return Status::error("`" + name + "` is " + format::nameOf(info->type) +
                           " in it and " + format::nameOf(leaf.type) +
                           " in the model");
    }
    if (info->shape != leaf.sizes) {
      return Status::error("`" + name + "` is " + shapeText(info->shape) +
                           " in it and " + shapeText(leaf.sizes) +
                           " in the model");
    }
  }
  for (const TensorInfo &info : reader.tensors()) {
    bool ignored = options.paramsOnly && info.name.starts_with("optimizer/");
    if (!ignored && !known.contains(info.name)) {
      return Status::error("it has `" + info.name + "`, which the model lacks");
    }
  }
  return Status();
}

static Result<uint64_t> number(const Metadata &metadata,
                               const std::string &key) {
  auto found = metadata.find(key);
  uint64_t value = 0;
  if (found != metadata.end()) {
    const std::string &text = found->second;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) {
      return value;
    }
  }
  return Status::error("its metadata has no number `" + key +
                       "`; it is not a checkpoint of a run");
}

/// Files of before there were versions have none.
static Status checkFormat(const Metadata &metadata) {
  if (!metadata.contains("format")) {
    return Status();
  }
  Result<uint64_t> version = number(metadata, "format");
  if (!version) {
    return version.status();
  }
  return *version <= formatVersion
             ? Status()
             : Status::error("it is of format version " +
                             std::to_string(*version) +
                             "; this program reads up to " +
                             std::to_string(formatVersion));
}

Status checkCheckpoint(const std::string &path) {
  Result<SafetensorsReader> reader = SafetensorsReader::open(path);
  if (!reader) {
    return reader.status();
  }
  std::string context = "cannot load `" + path + "`";
  CLEAVE_TRY(checkFormat(reader->metadata()).in(context));
  return reader->check().in(context);
}

Result<Metadata> loadCheckpoint(const std::string &path, State &state,
                                const LoadOptions &options) {
  Result<SafetensorsReader> reader = SafetensorsReader::open(path);
  if (!reader) {
    return reader.status();
  }
  std::string context = "cannot load `" + path + "`";
  CLEAVE_TRY(checkFormat(reader->metadata()).in(context));
  CLEAVE_TRY(compare(*reader, state, options).in(context));
  Result<uint64_t> step = number(reader->metadata(), "step");
  Result<uint64_t> cursor = number(reader->metadata(), "cursor");
  Result<uint64_t> seed = number(reader->metadata(), "seed");
  for (const Result<uint64_t> *value : {&step, &cursor, &seed}) {
    if (!value->ok()) {
      return value->status().in(context);
    }
  }
  CLEAVE_TRY(reader->check().in(context));
  for (size_t i = 0; i < state.leaves(); ++i) {
    const format::LeafT &leaf = state.leaf(i);
    if (options.paramsOnly && !leaf.state.empty()) {
      continue;
    }
    state.scatter(i, reader->data(*reader->find(nameOf(leaf))));
  }
  state.step = *step;
  state.cursor = *cursor;
  state.seed = *seed;
  return reader->metadata();
}

Result<Metadata> readCheckpointMetadata(const std::string &path) {
  Result<SafetensorsReader> reader = SafetensorsReader::open(path);
  if (!reader) {
    return reader.status();
  }
  return reader->metadata();
}

} // namespace cleave::state
