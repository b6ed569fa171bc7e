//===- Share.h - How replicas share the sending -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A *pool* is an amount that any of some devices can send. The pools' amounts
// are to be dealt to their devices so that the largest sum of a device is
// least. No share can do better than max over sets D of devices of (what only
// devices of D can send) / |D|, and a flow reaches it.
//
// The search starts at equal shares, which most often are best and otherwise
// near, and a limit that no share can beat. It moves what is over the limit
// along shortest paths of pools to devices that are below (Dinic's method).
// Where the excess finds no way, the devices that it reaches are such a set D,
// and prove a higher limit; it goes on with that.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_SHARE_H
#define CLEAVE_TRANSFER_SHARE_H

#include <cstdint>
#include <vector>

namespace cleave::transfer {

struct Pool {
  std::vector<int64_t> devices; ///< not empty, all different
  int64_t amount = 0;
};

/// For each pool the amount of each of its devices, in its order: whole
/// numbers, not negative, that add up to the pool's amount.
std::vector<std::vector<int64_t>> share(const std::vector<Pool> &pools,
                                        int64_t devices);

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_SHARE_H
