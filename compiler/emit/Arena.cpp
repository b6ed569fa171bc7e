//===- Arena.cpp - Where buffers lie in the arena -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Arena.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

namespace cleave::emit {

/// The next multiple of 64, of numbers below 0 too.
static int64_t aligned(int64_t bytes) {
  return (bytes > 0 ? bytes + 63 : bytes) / 64 * 64;
}

int64_t trailDistance(int64_t n, int64_t old, int64_t next, bool lags) {
  int64_t most = -n * next; // where they never live together
  // The difference is linear in the iteration: one of the ends is the most.
  for (int64_t l : {lags ? int64_t(0) : int64_t(1), n - 1}) {
    int64_t alive = l + (lags ? 1 : 0);
    if (alive > 0 && l < n) {
      most = std::max(most, alive * old - l * next);
    }
  }
  return aligned(most);
}

namespace {

/// Offsets in (low, high) are taken.
struct Range {
  int64_t low = 0, high = 0;
};

/// One that an interval meets, at an offset o: then the interval's own is at
/// most o - below, or at least o + above.
struct Neighbour {
  size_t index = 0;
  int64_t below = 0, above = 0;
};

using Order = std::vector<size_t>;

/// Placements of intervals in some order, each in the smallest gap that holds
/// it, or in the lowest.
class Arena {
public:
  Arena(const std::vector<Interval> &intervals,
        const std::vector<Trail> &trails);

  /// Returns the bytes that it needs.
  int64_t place(const Order &order, bool lowest);
  const std::vector<int64_t> &offsets() const { return result; }

private:
  const std::vector<Interval> &intervals;
  std::vector<std::vector<Neighbour>> neighbours; ///< by interval
  std::vector<int64_t> result;                    ///< -1: not placed yet
  std::vector<Range> ranges;

  int64_t findOffset(size_t index, bool lowest);
};

} // namespace

Arena::Arena(const std::vector<Interval> &intervals,
             const std::vector<Trail> &trails)
    : intervals(intervals), neighbours(intervals.size()),
      result(intervals.size(), -1) {
  std::map<std::pair<size_t, size_t>, int64_t> distances; // (old, next)
  for (const Trail &trail : trails) {
    distances[{trail.old, trail.next}] = trail.distance;
  }
  auto distance = [&](size_t old, size_t next, int64_t otherwise) {
    auto found = distances.find({old, next});
    return found == distances.end() ? otherwise
                                    : std::min(found->second, otherwise);
  };
  for (size_t a = 0; a < intervals.size(); ++a) {
    for (size_t b = 0; b < intervals.size(); ++b) {
      if (a != b && intervals[b].end >= intervals[a].begin &&
          intervals[a].end >= intervals[b].begin) {
        neighbours[a].push_back({b, distance(a, b, aligned(intervals[a].bytes)),
                                 distance(b, a, aligned(intervals[b].bytes))});
      }
    }
  }
}

int64_t Arena::findOffset(size_t index, bool lowest) {
  ranges.clear();
  for (const Neighbour &other : neighbours[index]) {
    int64_t offset = result[other.index];
    if (offset >= 0 && other.below + other.above > 0) {
      ranges.push_back({offset - other.below, offset + other.above});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::pair(a.low, a.high) < std::pair(b.low, b.high);
  });
  int64_t best = -1, bestGap = 0, free = 0;
  for (const Range &range : ranges) {
    int64_t gap = range.low - free;
    if (gap >= 0 && (best < 0 || gap < bestGap)) {
      best = free;
      bestGap = gap;
      if (lowest) {
        break;
      }
    }
    free = std::max(free, range.high);
  }
  return best >= 0 ? best : free;
}

int64_t Arena::place(const Order &order, bool lowest) {
  int64_t arena = 0;
  std::fill(result.begin(), result.end(), -1);
  for (size_t index : order) {
    result[index] = findOffset(index, lowest);
    arena = std::max(arena, result[index] + aligned(intervals[index].bytes));
  }
  return arena;
}

/// The most bytes that live at one position; what trails something may do
/// without memory of its own.
static int64_t mostAlive(const std::vector<Interval> &intervals,
                         const std::vector<Trail> &trails) {
  std::set<size_t> trailing;
  for (const Trail &trail : trails) {
    trailing.insert(trail.next);
  }
  std::map<int64_t, int64_t> changes;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (!trailing.count(i)) {
      changes[intervals[i].begin] += aligned(intervals[i].bytes);
      changes[intervals[i].end + 1] -= aligned(intervals[i].bytes);
    }
  }
  int64_t alive = 0, most = 0;
  for (auto [position, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

using Key = std::pair<int64_t, int64_t>;

/// By falling keys; equal ones as they stand.
template <typename KeyOf>
static Order sortedBy(const std::vector<Interval> &intervals, KeyOf keyOf) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    Key first = keyOf(intervals[a]), second = keyOf(intervals[b]);
    return first != second ? first > second : a < b;
  });
  return order;
}

/// Those that trail something, the largest first, each right behind the one to
/// which it adds least, which no other has; then all others.
static Order pairsFirst(const std::vector<Interval> &intervals,
                        const std::vector<Trail> &trails) {
  // How far the second reaches beyond the first, and how far they differ.
  auto added = [&](const Trail &trail) {
    int64_t old = intervals[trail.old].bytes,
            next = intervals[trail.next].bytes;
    int64_t end = std::max(trail.distance, int64_t(0)) + next;
    return Key(std::max<int64_t>(0, end - old), std::abs(next - old));
  };
  std::map<size_t, std::vector<Trail>> byNext;
  for (const Trail &trail : trails) {
    byNext[trail.next].push_back(trail);
  }
  Order order, bySize = sortedBy(intervals, [](const Interval &interval) {
                 return Key(interval.bytes, 0);
               });
  std::vector<bool> taken(intervals.size());
  for (size_t next : bySize) {
    const Trail *best = nullptr;
    for (const Trail &trail : byNext[next]) {
      if (!taken[trail.old] && added(trail).first < intervals[next].bytes &&
          (!best || added(trail) < added(*best))) {
        best = &trail;
      }
    }
    if (best) {
      order.insert(order.end(), {best->old, next});
      taken[best->old] = taken[next] = true;
    }
  }
  std::copy_if(bySize.begin(), bySize.end(), std::back_inserter(order),
               [&](size_t index) { return !taken[index]; });
  return order;
}

/// The orders in which intervals are tried: pairs, the largest, those that
/// take most bytes for longest, those that live longest.
static std::vector<Order> ordersOf(const std::vector<Interval> &intervals,
                                   const std::vector<Trail> &trails) {
  auto length = [](const Interval &i) { return i.end - i.begin + 1; };
  return {
      pairsFirst(intervals, trails),
      sortedBy(intervals, [&](const Interval &i) { return Key(i.bytes, 0); }),
      sortedBy(intervals,
               [&](const Interval &i) { return Key(i.bytes * length(i), 0); }),
      sortedBy(intervals,
               [&](const Interval &i) { return Key(length(i), i.bytes); })};
}

namespace {

/// Tries placements and keeps the best.
class Search {
public:
  Search(std::vector<Interval> &intervals, const std::vector<Trail> &trails)
      : intervals(intervals), arena(intervals, trails),
        enough(mostAlive(intervals, trails)) {}

  int64_t run(const std::vector<Trail> &trails) {
    Order best;
    bool bestLowest = false;
    for (const Order &order : ordersOf(intervals, trails)) {
      for (bool lowest : {false, true}) {
        if (least > enough && place(order, lowest)) {
          best = order;
          bestLowest = lowest;
        }
      }
    }
    constexpr int tries = 12;
    for (int i = 0; i < tries && least > enough; ++i) {
      place(best, bestLowest);
      best = highestFirst(best);
    }
    return least;
  }

private:
  std::vector<Interval> &intervals;
  Arena arena;
  int64_t enough;
  int64_t least = INT64_MAX, last = 0;

  /// Whether it is better than all before; then it is the result.
  bool place(const Order &order, bool lowest) {
    last = arena.place(order, lowest);
    if (last >= least) {
      return false;
    }
    least = last;
    for (size_t i = 0; i < intervals.size(); ++i) {
      intervals[i].offset = arena.offsets()[i];
    }
    return true;
  }

  /// What ends where the last arena does came too late.
  Order highestFirst(const Order &order) const {
    auto ends = [&](size_t i) {
      return arena.offsets()[i] + aligned(intervals[i].bytes) == last;
    };
    Order next;
    std::copy_if(order.begin(), order.end(), std::back_inserter(next), ends);
    std::copy_if(order.begin(), order.end(), std::back_inserter(next),
                 [&](size_t i) { return !ends(i); });
    return next;
  }
};

} // namespace

int64_t placeInArena(std::vector<Interval> &intervals,
                     const std::vector<Trail> &trails) {
  return Search(intervals, trails).run(trails);
}

} // namespace cleave::emit
