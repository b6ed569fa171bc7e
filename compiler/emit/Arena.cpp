//===- Arena.cpp - Where buffers lie in the arena -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace cleave::emit {

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t trailDistance(int64_t n, int64_t old, int64_t next) {
  int64_t slices = old > next ? n - 1 : 1;
  // Of one slice there is no iteration in which both live.
  return n > 1 ? aligned(std::max<int64_t>(0, slices * (old - next))) : 0;
}

namespace {

/// Offsets in (low, high) are taken.
struct Range {
  int64_t low = 0, high = 0;
};

class Arena {
public:
  Arena(std::vector<Interval> &intervals, const std::vector<Trail> &trails)
      : intervals(intervals) {
    for (const Trail &trail : trails) {
      distances[{trail.old, trail.next}] = trail.distance;
    }
  }

  int64_t place();

private:
  std::vector<Interval> &intervals;
  std::map<std::pair<size_t, size_t>, int64_t> distances; ///< (old, next)
  std::vector<size_t> placed;

  Range taken(size_t index, size_t other) const;
  int64_t findOffset(size_t index) const;
};

} // namespace

/// What another interval takes from one that meets it.
Range Arena::taken(size_t index, size_t other) const {
  int64_t offset = intervals[other].offset;
  Range range = {offset - aligned(intervals[index].bytes),
                 offset + aligned(intervals[other].bytes)};
  if (auto trails = distances.find({other, index}); trails != distances.end()) {
    range.high = std::min(range.high, offset + trails->second);
  }
  if (auto leads = distances.find({index, other}); leads != distances.end()) {
    range.low = std::max(range.low, offset - leads->second);
  }
  return range;
}

int64_t Arena::findOffset(size_t index) const {
  const Interval &interval = intervals[index];
  std::vector<Range> ranges;
  for (size_t other : placed) {
    if (intervals[other].end >= interval.begin &&
        interval.end >= intervals[other].begin) {
      ranges.push_back(taken(index, other));
    }
  }
  std::stable_sort(
      ranges.begin(), ranges.end(),
      [](const Range &a, const Range &b) { return a.low < b.low; });
  int64_t best = -1, bestGap = 0, free = 0;
  for (const Range &range : ranges) {
    int64_t gap = range.low - free;
    if (gap >= 0 && (best < 0 || gap < bestGap)) {
      best = free;
      bestGap = gap;
    }
    free = std::max(free, range.high);
  }
  return best >= 0 ? best : free;
}

int64_t Arena::place() {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return intervals[a].bytes != intervals[b].bytes
               ? intervals[a].bytes > intervals[b].bytes
               : a < b;
  });
  int64_t arena = 0;
  for (size_t index : order) {
    Interval &interval = intervals[index];
    interval.offset = findOffset(index);
    arena = std::max(arena, interval.offset + aligned(interval.bytes));
    placed.push_back(index);
  }
  return arena;
}

int64_t placeInArena(std::vector<Interval> &intervals,
                     const std::vector<Trail> &trails) {
  return Arena(intervals, trails).place();
}

} // namespace cleave::emit
