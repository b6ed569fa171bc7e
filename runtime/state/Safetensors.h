//===- Safetensors.h - Tensors by name in a file ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The safetensors format: eight bytes of header length, little endian; a JSON
// object of tensors (dtype, shape, data_offsets) and `__metadata__` of strings;
// then the data, without a gap. Only F32, I32 and BOOL are read.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_SAFETENSORS_H
#define CLEAVE_RUNTIME_STATE_SAFETENSORS_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/File.h"

#include <map>

namespace cleave::state {

using Metadata = std::map<std::string, std::string>;

struct TensorInfo {
  std::string name;
  format::ElementType type = format::ElementType::F32;
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< bytes from the start of the data; set by the reader
  uint64_t bytes = 0;  ///< set by both
};

/// A verified, mapped file: every tensor lies within it.
class SafetensorsReader {
public:
  static Result<SafetensorsReader> open(const std::string &path);

  const std::vector<TensorInfo> &tensors() const { return infos; }
  const Metadata &metadata() const { return strings; }
  const TensorInfo *find(const std::string &name) const;
  const void *data(const TensorInfo &info) const;

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
  static Result<SafetensorsWriter> create(const std::string &path,
                                          std::vector<TensorInfo> tensors,
                                          const Metadata &metadata);
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
