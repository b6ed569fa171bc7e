//===- Arena.h - Where buffers lie in the arena -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. A buffer has a size and a closed interval of positions of the
// program at which it must keep its bytes. Buffers whose intervals meet must
// not overlap in memory. Placing them in the least memory is NP-hard (dynamic
// storage allocation); here the largest buffer goes first, each into the
// smallest gap that holds it among those already placed whose intervals meet
// its own.
//
//   A [0,4] 64 bytes, B [2,6] 64, C [5,9] 128
//     C at 0; A at 0 (C begins after A ends); B at 128        arena: 192 bytes
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_ARENA_H
#define CLEAVE_COMPILER_EMIT_ARENA_H

#include <cstdint>
#include <vector>

namespace cleave::emit {

/// Of every value.
inline constexpr int64_t arenaAlignment = 64;

struct Interval {
  int64_t bytes = 0;
  int64_t begin = 0;  ///< first position
  int64_t end = 0;    ///< last position, included
  int64_t offset = 0; ///< the result, a multiple of 64
};

/// Sets the offsets and returns the bytes of the arena.
int64_t placeInArena(std::vector<Interval> &intervals);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_ARENA_H
