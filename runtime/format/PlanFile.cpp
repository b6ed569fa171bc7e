//===- PlanFile.cpp - The frame around a plan set -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/PlanFile.h"
#include "runtime/format/Processor.h"
#include "runtime/format/Verify.h"
#include "runtime/support/File.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>

namespace cleave::format {

namespace {

constexpr char magic[8] = {'C', 'L', 'E', 'A', 'V', 'E', 'P', 'L'};

struct Frame {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t checksum; ///< of all that follows
  uint64_t fileBytes;
  uint64_t metadataBytes;
  uint64_t kernelsBytes;
  uint64_t zeros[2];
};
static_assert(sizeof(Frame) == 64);
constexpr size_t checkedFrom = 24;

uint64_t align64(uint64_t size) { return (size + 63) & ~uint64_t(63); }

uint64_t checksumOf(const char *bytes, size_t size) {
  return XXH64(bytes + checkedFrom, size - checkedFrom, formatVersion);
}

/// The frame of a file that is whole and unaltered.
Result<Frame> readFrame(const std::vector<char> &bytes) {
  if (bytes.size() < sizeof(magic) ||
      std::memcmp(bytes.data(), magic, sizeof(magic)) != 0) {
    return Status::error("it is not a plan file");
  }
  if (bytes.size() < sizeof(Frame)) {
    return Status::error("it is cut short; build it again");
  }
  Frame frame;
  std::memcpy(&frame, bytes.data(), sizeof(frame));
  if (frame.version > formatVersion) {
    return Status::error(
        "it is of format version " + std::to_string(frame.version) +
        ", this program reads version " + std::to_string(formatVersion) +
        "; run a later version, or build it again");
  }
  if (frame.version != formatVersion) {
    return Status::error(
        "it is of format version " + std::to_string(frame.version) +
        ", which this program no longer reads; build it again");
  }
  if (frame.fileBytes > bytes.size()) {
    return Status::error("it is cut short: " + std::to_string(bytes.size()) +
                         " bytes of " + std::to_string(frame.fileBytes) +
                         "; build it again");
  }
  if (frame.zero != 0 ||
      frame.checksum != checksumOf(bytes.data(), bytes.size())) {
    return Status::error("it was altered after it was built (its checksum "
                         "differs); build it again");
  }
  uint64_t limit = bytes.size();
  if (frame.metadataBytes > limit || frame.kernelsBytes > limit ||
      frame.fileBytes != limit ||
      sizeof(Frame) + align64(frame.metadataBytes) + frame.kernelsBytes !=
          limit ||
      frame.zeros[0] != 0 || frame.zeros[1] != 0) {
    return Status::error("its sizes do not add up; build it again");
  }
  return frame;
}

Result<std::unique_ptr<PlanSetT>> readMetadata(const char *bytes, size_t size) {
  // Loops nest at most `deepestLoop` deep, each three tables.
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes), size,
                                 /*max_depth=*/96, /*max_tables=*/1 << 22);
  if (!VerifyPlanSetBuffer(verifier)) {
    return Status::error("its metadata is malformed; build it again");
  }
  try {
    std::unique_ptr<PlanSetT> set(GetPlanSet(bytes)->UnPack());
    CLEAVE_TRY(verify(*set).in("its metadata is wrong"));
    return set;
  } catch (const std::bad_alloc &) {
    return Status::error("its metadata does not fit into memory");
  }
}

} // namespace

Result<PlanFile> PlanFile::parse(std::vector<char> bytes,
                                 const std::string &name,
                                 const OpenOptions &options) {
  std::string context = "cannot use `" + name + "`";
  Result<Frame> frame = readFrame(bytes);
  if (!frame) {
    return frame.status().in(context);
  }
  PlanFile file;
  file.bytes = std::move(bytes);
  const char *metadata = file.bytes.data() + sizeof(Frame);
  file.image = {metadata + align64(frame->metadataBytes), frame->kernelsBytes};
  Result<std::unique_ptr<PlanSetT>> set =
      readMetadata(metadata, frame->metadataBytes);
  if (!set) {
    return set.status().in(context);
  }
  file.unpacked = std::move(*set);
  if (!file.unpacked->symbols.empty() && file.image.empty()) {
    return Status::error("it names kernels and holds none; build it again")
        .in(context);
  }
  if (options.forThisProcessor) {
    std::vector<std::string> missing =
        missingFeatures(file.unpacked->target_features);
    if (!missing.empty()) {
      std::string list;
      for (const std::string &feature : missing) {
        list += (list.empty() ? "" : ", ") + feature;
      }
      return Status::error("it was built for a processor with " + list +
                           ", which this one lacks; build it here")
          .in(context);
    }
  }
  return file;
}

Result<PlanFile> PlanFile::open(const std::string &path,
                                const OpenOptions &options) {
  Result<std::vector<char>> bytes = readFile(path);
  if (!bytes) {
    return bytes.status();
  }
  return parse(std::move(*bytes), path, options);
}

int PlanFile::findPlan(const std::string &name) const {
  for (size_t i = 0; i < unpacked->plans.size(); ++i) {
    if (unpacked->plans[i]->name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Result<size_t> PlanFile::plan(const std::string &name) const {
  int found = findPlan(name);
  return found >= 0 ? Result<size_t>(static_cast<size_t>(found))
                    : Status::error("the plan file has no plan called `" +
                                    name + "`; it has " + planNames(set()));
}

const std::string &familyOf(const PlanT &plan) {
  return plan.of.empty() ? plan.name : plan.of;
}

std::string planNames(const PlanSetT &set) {
  std::string names;
  for (const auto &plan : set.plans) {
    if (plan->of.empty()) {
      names += (names.empty() ? "`" : ", `") + plan->name + "`";
    }
  }
  return names;
}

std::vector<char> encodePlanFile(const PlanSetT &set,
                                 std::span<const char> kernels) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(PlanSet::Pack(builder, &set));
  Frame frame = {};
  std::memcpy(frame.magic, magic, sizeof(magic));
  frame.version = formatVersion;
  frame.metadataBytes = builder.GetSize();
  frame.kernelsBytes = kernels.size();
  frame.fileBytes =
      sizeof(Frame) + align64(frame.metadataBytes) + frame.kernelsBytes;
  std::vector<char> bytes(frame.fileBytes, 0);
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  std::memcpy(bytes.data() + sizeof(Frame), builder.GetBufferPointer(),
              builder.GetSize());
  if (!kernels.empty()) {
    std::memcpy(bytes.data() + sizeof(Frame) + align64(frame.metadataBytes),
                kernels.data(), kernels.size());
  }
  frame.checksum = checksumOf(bytes.data(), bytes.size());
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  return bytes;
}

Status writePlanFile(const std::string &path, const PlanSetT &set,
                     std::span<const char> kernels) {
  std::vector<char> bytes = encodePlanFile(set, kernels);
  OpenOptions options;
  options.forThisProcessor = false;
  Result<PlanFile> readable = PlanFile::parse(bytes, path, options);
  if (!readable) {
    return readable.status();
  }
  Result<ReplacedFile> file = ReplacedFile::create(path);
  if (!file) {
    return file.status();
  }
  CLEAVE_TRY(file->write(bytes.data(), bytes.size()));
  return file->commit();
}

} // namespace cleave::format
