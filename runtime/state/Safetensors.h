//===- Safetensors.h - Tensors by name in a file ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The safetensors format: eight bytes of header length, little endian; a JSON
// object of tensors (dtype, shape, data_offsets) and `__metadata__` of strings;
// then the data, without a gap. Only F32, I32 and BOOL are read.
//
// Files that are written with a data hash have a `checksum` in their metadata:
// 16 hexadecimal digits of XXH64 over the header without it, seeded with XXH64
// over the data. Other readers take it as one string more.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_SAFETENSORS_H
#define CLEAVE_RUNTIME_STATE_SAFETENSORS_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/File.h"

#include <map>
#include <memory>
#include <optional>

namespace cleave::state {

using Metadata = std::map<std::string, std::string>;

struct TensorInfo {
  std::string name;
  format::ElementType type = format::ElementType::F32;
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< bytes from the start of the data; set by the reader
  uint64_t bytes = 0;  ///< set by both
};

/// XXH64 over data that comes piece by piece.
class DataHash {
public:
  DataHash();
  ~DataHash();
  DataHash(const DataHash &) = delete;
  DataHash &operator=(const DataHash &) = delete;
  void add(const void *data, size_t bytes);
  uint64_t value() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// A verified, mapped file: every tensor lies within it.
class SafetensorsReader {
public:
  static Result<SafetensorsReader> open(const std::string &path);

  const std::vector<TensorInfo> &tensors() const { return infos; }
  const Metadata &metadata() const { return strings; }
  const TensorInfo *find(const std::string &name) const;
  const void *data(const TensorInfo &info) const;
  /// Reads all of it: whether it is what was written. Files without a checksum
  /// pass.
  Status check() const;

private:
  explicit SafetensorsReader(MappedFile file) : file(std::move(file)) {}
  MappedFile file;
  uint64_t dataAt = 0;
  std::vector<TensorInfo> infos;
  Metadata strings;
};

/// Writes the tensors' data in the order of `tensors`, each by one `write`;
/// `commit` puts the file in place.
class SafetensorsWriter {
public:
  /// With the hash of all data, in the order of `tensors`, the file has a
  /// checksum.
  static Result<SafetensorsWriter>
  create(const std::string &path, std::vector<TensorInfo> tensors,
         const Metadata &metadata, std::optional<uint64_t> dataHash = {});
  Status write(const void *data);
  Status commit();

private:
  SafetensorsWriter(ReplacedFile file, std::vector<TensorInfo> tensors)
      : file(std::move(file)), infos(std::move(tensors)) {}
  ReplacedFile file;
  std::vector<TensorInfo> infos;
  size_t next = 0;
};

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_SAFETENSORS_H
