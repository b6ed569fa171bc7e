//===- PlanFile.h - The frame around a plan set -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan file is, little endian:
//
//   offset  bytes
//        0      8  magic: CLEAVEPL
//        8      4  version of the format
//       12      4  zero
//       16      8  checksum: xxhash64 (seed: the version) of all that follows
//       24      8  size of the file
//       32      8  size of the metadata
//       40      8  size of the kernels
//       48     16  zero
//       64         the metadata: a FlatBuffers PlanSet (Plan.fbs), padded to 64
//                  the kernels: an ELF shared object, may be empty
//
// `open` trusts nothing: the frame, the checksum, FlatBuffers' verifier, then a
// verifier of meaning (Verify.h). A file that passes can be run without any
// further check of an index or a bound.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_PLANFILE_H
#define CLEAVE_RUNTIME_FORMAT_PLANFILE_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cleave::format {

inline constexpr uint32_t formatVersion = 1;

struct OpenOptions {
  /// Whether the file is to be run here: then the processor must have what the
  /// kernels were compiled for. `inspect` says no.
  bool forThisProcessor = true;
};

/// An open, verified plan file; immutable.
class PlanFile {
public:
  static Result<PlanFile> open(const std::string &path,
                               const OpenOptions &options = {});
  /// The same of bytes in memory; `name` is for messages.
  static Result<PlanFile> parse(std::vector<char> bytes,
                                const std::string &name,
                                const OpenOptions &options = {});

  const PlanSetT &set() const { return *unpacked; }
  /// The kernels' ELF image; empty where the set has no kernels.
  std::span<const char> kernels() const { return image; }
  uint64_t size() const { return bytes.size(); }
  /// The position of the plan called `name`, or -1.
  int findPlan(const std::string &name) const;
  /// The same, or what to say where there is none.
  Result<size_t> plan(const std::string &name) const;

private:
  PlanFile() = default;
  std::vector<char> bytes;
  std::unique_ptr<PlanSetT> unpacked;
  std::span<const char> image;
};

/// The plan of the run that a plan is, or is a variant of.
const std::string &familyOf(const PlanT &plan);
/// `wide`, `deep`, `odd`: a set's plans without their variants, for messages.
std::string planNames(const PlanSetT &set);

/// The bytes of a plan file.
std::vector<char> encodePlanFile(const PlanSetT &set,
                                 std::span<const char> kernels);

/// Writes beside `path` and renames. Refuses a set that `open` would refuse.
Status writePlanFile(const std::string &path, const PlanSetT &set,
                     std::span<const char> kernels);

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_PLANFILE_H
