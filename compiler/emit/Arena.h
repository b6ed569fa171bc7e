//===- Arena.h - Where buffers lie in the arena -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. A buffer has a size and a closed interval of positions of the
// program at which it must keep its bytes. Buffers whose intervals meet must
// not overlap in memory. Placing them in the least memory is NP-hard (dynamic
// storage allocation). A placement takes the buffers in an order, each into the
// smallest gap that holds it (or the lowest) among those already placed whose
// intervals meet its own. Several orders are tried, the largest first and so
// on, with stacks that trail others (below) right behind those; then some times
// more with what ended highest moved to the front. The best counts. Least.h
// says how good it could be.
//
// A loop that runs down frees the slices of one stack from the last on and may
// write those of another, as many, where the first had its: then the second
// *trails* the first, and may overlap it though their intervals meet. Let both
// have n slices, of a and of g bytes. If slice l of the first is dead when
// slice l of the second is written, then in iteration l the first lives up to
// l * a, else up to (l + 1) * a: the second trails with a *lag*. It lives from
// l * g on. For each iteration in which something of the first lives, the
// second's offset must be so much higher that they do not meet. The distance is
// the most of these; it is negative where the second may begin lower.
//
//   n = 3, a = 128, g = 64: distance 128. First at 0, second at 128: in
//   iteration 1 the first lives in [0, 128), the second from 192 on. With a lag
//   the distance is 3 * 128 - 2 * 64 = 256, of iteration 2.
//
// Where slices differ between devices a is the largest, g the smallest.
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

/// Interval `next` trails interval `old`; see above.
struct Trail {
  size_t old = 0, next = 0;
  int64_t distance = 0;
};

/// The distance of stacks of n slices of `old` and of `next` bytes, aligned.
int64_t trailDistance(int64_t n, int64_t old, int64_t next, bool lags = false);

/// Sets the offsets and returns the bytes of the arena.
int64_t placeInArena(std::vector<Interval> &intervals,
                     const std::vector<Trail> &trails = {});

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_ARENA_H
