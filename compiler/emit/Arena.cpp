//===- Arena.cpp - Where buffers lie in the arena -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Arena.h"

#include <algorithm>
#include <numeric>

namespace cleave::emit {

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t placeInArena(std::vector<Interval> &intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return intervals[a].bytes != intervals[b].bytes
               ? intervals[a].bytes > intervals[b].bytes
               : a < b;
  });
  int64_t arena = 0;
  std::vector<const Interval *> placed; // by offset
  for (size_t index : order) {
    Interval &interval = intervals[index];
    int64_t bytes = aligned(interval.bytes);
    int64_t best = -1, bestGap = 0, free = 0;
    for (const Interval *other : placed) {
      if (other->end < interval.begin || interval.end < other->begin) {
        continue;
      }
      int64_t gap = other->offset - free;
      if (gap >= bytes && (best < 0 || gap < bestGap)) {
        best = free;
        bestGap = gap;
      }
      free = std::max(free, other->offset + aligned(other->bytes));
    }
    interval.offset = best >= 0 ? best : free;
    arena = std::max(arena, interval.offset + bytes);
    auto at = std::upper_bound(placed.begin(), placed.end(), &interval,
                               [](const Interval *a, const Interval *b) {
                                 return a->offset < b->offset;
                               });
    placed.insert(at, &interval);
  }
  return arena;
}

} // namespace cleave::emit
