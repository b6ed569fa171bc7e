//===- Pool.cpp - A device's memory, kept when it is freed ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Pool.h"

#include <cassert>
#include <iterator>

namespace cleave::device {

size_t Pool::sizeOfBlock(size_t bytes) { return (bytes / 64 + 1) * 64; }

Status Pool::reserve(size_t bytes) {
  Result<Memory> memory = device->allocate(bytes);
  if (!memory) {
    return memory.status();
  }
  auto slab = std::make_shared<Memory>(std::move(*memory));
  heldBytes += slab->size();
  // Slabs may adjoin by chance; a block across two of them is as good.
  usedBytes += slab->size();
  Block all{slab->data(), slab->size()};
  slabs.push_back(std::move(slab));
  release(all);
  return Status();
}

Result<Block> Pool::allocate(size_t bytes) {
  size_t size = sizeOfBlock(bytes);
  // The smallest gap that fits: large ones stay for large blocks.
  auto best = gaps.end();
  for (auto gap = gaps.begin(); gap != gaps.end(); ++gap) {
    if (gap->second >= size &&
        (best == gaps.end() || gap->second < best->second)) {
      best = gap;
    }
  }
  if (best == gaps.end()) {
    CLEAVE_TRY(reserve(size));
    return allocate(bytes);
  }
  auto [address, room] = *best;
  gaps.erase(best);
  if (room > size) {
    gaps.emplace(address + size, room - size);
  }
  usedBytes += size;
  return Block{address, size};
}

void Pool::release(const Block &block) {
  assert(block.bytes <= usedBytes && "a block that is not of this pool");
  usedBytes -= block.bytes;
  auto next = gaps.lower_bound(block.data);
  auto [gap, added] = gaps.emplace(block.data, block.bytes);
  assert(added && "a block is released twice");
  if (next != gaps.end() && block.data + block.bytes == next->first) {
    gap->second += next->second;
    gaps.erase(next);
  }
  if (gap != gaps.begin()) {
    auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps.erase(gap);
    }
  }
}

} // namespace cleave::device
