//===- File.h - Reading, mapping and safely replacing files -----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SUPPORT_FILE_H
#define CLEAVE_RUNTIME_SUPPORT_FILE_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave {

/// The whole of a regular file.
Result<std::vector<char>> readFile(const std::string &path);

/// A file mapped for reading. The mapping lives as long as the object.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&) = delete;
  ~MappedFile();

  const uint8_t *data() const { return bytes; }
  size_t size() const { return length; }
  /// Fails where the file has become shorter than what is mapped.
  Status checkSize() const;

private:
  MappedFile() = default;
  const uint8_t *bytes = nullptr;
  size_t length = 0;
  int descriptor = -1;
};

/// Writes a file beside `path` and puts it in its place only when all of it is
/// on the disk: a reader sees the old file or the new one, never a part. Until
/// `commit` succeeds the old file is untouched, and the part is removed.
/// Through a symbolic link the file it leads to is replaced; what is no regular
/// file (a pipe, a device) is written directly.
class ReplacedFile {
public:
  static Result<ReplacedFile> create(const std::string &path);
  /// Whether `create` would succeed; leaves nothing.
  static Status check(const std::string &path);
  ReplacedFile(ReplacedFile &&other) noexcept;
  ReplacedFile &operator=(ReplacedFile &&) = delete;
  ~ReplacedFile();

  Status write(const void *data, size_t size);
  Status commit();

private:
  ReplacedFile() = default;
  std::string path;   ///< as given
  std::string target; ///< behind symbolic links
  std::string part;   ///< empty: written directly
  int descriptor = -1;
};

} // namespace cleave

#endif // CLEAVE_RUNTIME_SUPPORT_FILE_H
