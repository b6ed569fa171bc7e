//===- Pool.h - A device's memory, kept when it is freed --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of memory of one device for what comes and goes while a run lasts.
// What is released is given out again: pages that were touched before cost
// nothing, while fresh ones are filled with zeros first, many times slower than
// a copy.
//
// A pool can be copied. Both then share their memory and each keeps books of
// its own, so that a sequence of allocations can be tried on a copy; whoever is
// kept replaces the other.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_POOL_H
#define CLEAVE_RUNTIME_DEVICE_POOL_H

#include "runtime/device/Device.h"

#include <map>
#include <memory>
#include <vector>

namespace cleave::device {

/// A part of a pool's memory, aligned to 64 bytes. What it holds at first is
/// undefined.
struct Block {
  char *data = nullptr;
  size_t bytes = 0;
};

class Pool {
public:
  /// `device` outlives the pool and its copies.
  explicit Pool(Device &device) : device(&device) {}

  /// At least `bytes`, never none: every block has an address of its own.
  Result<Block> allocate(size_t bytes);
  void release(const Block &block);
  /// Takes memory for blocks of that many bytes in all, in one piece.
  Status reserve(size_t bytes);

  Device &owner() const { return *device; }
  size_t used() const { return usedBytes; } ///< in blocks that are given out
  size_t held() const { return heldBytes; } ///< of the device
  /// What a block of `bytes` takes.
  static size_t sizeOfBlock(size_t bytes);

private:
  Device *device;
  std::vector<std::shared_ptr<Memory>> slabs;
  std::map<char *, size_t> gaps; ///< free bytes by address; none adjoin
  size_t usedBytes = 0, heldBytes = 0;
};

} // namespace cleave::device

#endif // CLEAVE_RUNTIME_DEVICE_POOL_H
