//===- File.cpp - Reading, mapping and safely replacing files -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/File.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cleave {

static Status failed(const std::string &what, const std::string &path) {
  return Status::error("cannot " + what + " `" + path +
                       "`: " + std::strerror(errno));
}

/// Opens a regular file and gives its size.
static Result<std::pair<int, size_t>> openRegular(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return failed("open", path);
  }
  struct stat info;
  if (::fstat(descriptor, &info) != 0) {
    Status status = failed("open", path);
    ::close(descriptor);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return Status::error("`" + path + "` is not a regular file");
  }
  return std::pair(descriptor, static_cast<size_t>(info.st_size));
}

Result<std::vector<char>> readFile(const std::string &path) {
  Result<std::pair<int, size_t>> file = openRegular(path);
  if (!file) {
    return file.status();
  }
  auto [descriptor, size] = *file;
  std::vector<char> bytes(size);
  size_t at = 0;
  while (at < size) {
    ssize_t got = ::read(descriptor, bytes.data() + at, size - at);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      Status status = failed("read", path);
      ::close(descriptor);
      return status;
    }
    if (got == 0) {
      break; // it shrank: what is there is what the caller checks
    }
    at += static_cast<size_t>(got);
  }
  ::close(descriptor);
  bytes.resize(at);
  return bytes;
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Result<std::pair<int, size_t>> file = openRegular(path);
  if (!file) {
    return file.status();
  }
  auto [descriptor, size] = *file;
  MappedFile mapped;
  mapped.descriptor = descriptor;
  if (size > 0) {
    void *address =
        ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      return failed("map", path);
    }
    mapped.bytes = static_cast<const uint8_t *>(address);
    mapped.length = size;
  }
  return mapped;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)),
      descriptor(std::exchange(other.descriptor, -1)) {}

MappedFile::~MappedFile() {
  if (bytes) {
    ::munmap(const_cast<uint8_t *>(bytes), length);
  }
  if (descriptor >= 0) {
    ::close(descriptor);
  }
}

Status MappedFile::checkSize() const {
  struct stat info;
  if (::fstat(descriptor, &info) != 0 ||
      static_cast<size_t>(info.st_size) < length) {
    return Status::error("it was cut short while it was in use");
  }
  return Status();
}

/// What a path leads to, behind symbolic links; itself where there is nothing.
static std::string resolve(const std::string &path) {
  char *found = ::realpath(path.c_str(), nullptr);
  std::string target = found ? found : path;
  std::free(found);
  return target;
}

Result<ReplacedFile> ReplacedFile::create(const std::string &path) {
  ReplacedFile file;
  file.path = path;
  file.target = resolve(path);
  struct stat info;
  bool exists = ::stat(file.target.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return Status::error("cannot write `" + path + "`: it is a directory");
  }
  if (exists && !S_ISREG(info.st_mode)) {
    file.descriptor = ::open(file.target.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.descriptor < 0) {
      return failed("write", path);
    }
    return file;
  }
  file.part = file.target + ".part-XXXXXX";
  file.descriptor = ::mkostemp(file.part.data(), O_CLOEXEC);
  if (file.descriptor < 0) {
    Status status = failed("write", path);
    file.part.clear();
    return status;
  }
  // mkostemp gives 0600; a new file gets what the user's mask allows, a
  // replaced one keeps its mode.
  mode_t mask = ::umask(0);
  ::umask(mask);
  mode_t mode = exists ? info.st_mode & 07777 : 0666 & ~mask;
  if (::fchmod(file.descriptor, mode) != 0) {
    return failed("write", path);
  }
  return file;
}

Status ReplacedFile::check(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
      !S_ISDIR(info.st_mode)) {
    // Opening a pipe would wait for its reader.
    return ::access(path.c_str(), W_OK) == 0 ? Status() : failed("write", path);
  }
  return create(path).status();
}

ReplacedFile::ReplacedFile(ReplacedFile &&other) noexcept
    : path(std::move(other.path)), target(std::move(other.target)),
      part(std::move(other.part)),
      descriptor(std::exchange(other.descriptor, -1)) {
  other.part.clear();
}

ReplacedFile::~ReplacedFile() {
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (!part.empty()) {
    ::unlink(part.c_str());
  }
}

Status ReplacedFile::write(const void *data, size_t size) {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written =
        ::write(descriptor, bytes, std::min<size_t>(size, 1 << 30));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return failed("write", path);
    }
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return Status();
}

Status ReplacedFile::commit() {
  // Pipes and devices have nothing to bring to a disk.
  if (::fsync(descriptor) != 0 && !part.empty()) {
    return failed("write", path);
  }
  int closing = std::exchange(descriptor, -1);
  if (::close(closing) != 0) {
    return failed("write", path);
  }
  if (part.empty()) {
    return Status();
  }
  if (::rename(part.c_str(), target.c_str()) != 0) {
    return failed("replace", path);
  }
  part.clear();
  // The rename itself reaches the disk with the folder.
  size_t slash = target.rfind('/');
  std::string folder = slash == std::string::npos ? "."
                       : slash == 0               ? "/"
                                                  : target.substr(0, slash);
  int parent = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    ::fsync(parent);
    ::close(parent);
  }
  return Status();
}

} // namespace cleave
