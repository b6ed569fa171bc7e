//===- KernelCache.h - Compiled kernels kept across builds ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder of objects by key. A key is the hash of all that an object depends
// on: the kernel's loops, its name, what the processor has, and the compiler
// itself, as linked. So nobody counts versions by hand.
//
// The folder may be deleted at any time, and several builds may use it at once:
// an entry is written beside its place and renamed. Each carries the hash of
// its key and bytes, so that a damaged one, or one under another's name, counts
// as absent. A folder that cannot be read or written makes builds slower,
// nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_KERNELCACHE_H
#define CLEAVE_COMPILER_CODEGEN_KERNELCACHE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::codegen {

/// BLAKE3 in hexadecimal digits.
std::string digest(llvm::StringRef text);

/// The build ids of this program and of the libraries of LLVM and MLIR that it
/// runs with, and LLVM's version: changes with anything that may compile the
/// same kernel differently. Empty where the program was linked without an id.
std::string compilerIdentity();

/// $CLEAVE_KERNEL_CACHE, else $XDG_CACHE_HOME/cleave/kernels, else
/// $HOME/.cache/cleave/kernels; empty (no cache) where none is set, or the
/// first is `off`.
std::string defaultCacheFolder();

class KernelCache {
public:
  /// An empty folder: nothing is kept.
  explicit KernelCache(std::string folder, uint64_t mostBytes = 64u << 20);

  /// Whether anything is kept.
  explicit operator bool() const { return !folder.empty(); }

  /// The object that was stored under `key`, a digest.
  std::optional<std::vector<char>> find(const std::string &key) const;
  /// False where it could not be written.
  bool store(const std::string &key, const std::vector<char> &object) const;
  /// Removes what was used longest ago, down to `mostBytes`, and what was not
  /// used for a month.
  void trim() const;

private:
  std::string pathOf(const std::string &key) const;

  std::string folder;
  uint64_t mostBytes;
};

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_KERNELCACHE_H
