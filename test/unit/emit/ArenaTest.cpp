//===- ArenaTest.cpp - Placing buffers in the arena -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Arena.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace cleave::emit;

namespace {

TEST(Arena, TheExample) {
  std::vector<Interval> intervals = {
      {64, 0, 4, -1}, {64, 2, 6, -1}, {128, 5, 9, -1}};
  EXPECT_EQ(placeInArena(intervals), 192);
  EXPECT_EQ(intervals[2].offset, 0);
  EXPECT_EQ(intervals[0].offset, 0);
  EXPECT_EQ(intervals[1].offset, 128);
}

TEST(Arena, TakesTheSmallestGapThatHolds) {
  // Gaps of 256 and 128 bytes between three that live throughout.
  std::vector<Interval> intervals = {
      {1024, 0, 9, -1}, {256, 0, 1, -1}, {512, 0, 9, -1},
      {128, 0, 1, -1},  {128, 0, 9, -1}, {100, 5, 6, -1},
  };
  placeInArena(intervals);
  EXPECT_EQ(intervals[5].offset % 64, 0);
  int64_t arena = 0;
  for (const Interval &interval : intervals) {
    arena = std::max(arena, interval.offset + interval.bytes);
  }
  EXPECT_EQ(arena, 1024 + 256 + 512 + 128 + 128);
}

TEST(Arena, AStackTrailsAnother) {
  EXPECT_EQ(trailDistance(3, 128, 64), 128);
  EXPECT_EQ(trailDistance(3, 64, 64), 0);
  EXPECT_EQ(trailDistance(3, 64, 256), -192);
  EXPECT_EQ(trailDistance(1, 512, 64), -64);
  EXPECT_EQ(trailDistance(3, 128, 64, /*lags=*/true), 256);
  EXPECT_EQ(trailDistance(3, 64, 256, /*lags=*/true), 64);
  EXPECT_EQ(trailDistance(1, 512, 64, /*lags=*/true), 512);
  std::vector<Interval> intervals = {{384, 0, 9, -1}, {192, 5, 12, -1}};
  EXPECT_EQ(placeInArena(intervals), 576);
  EXPECT_EQ(placeInArena(intervals, {{0, 1, 128}}), 384);
  EXPECT_EQ(intervals[1].offset, 128);
}

/// Stacks that trail others, taken apart into slices: no two that live in one
/// iteration overlap, on devices with the largest slices or smaller ones.
TEST(Arena, SlicesThatLiveTogetherNeverOverlap) {
  std::mt19937 random(5);
  size_t overlaps = 0;
  for (int round = 0; round < 300; ++round) {
    int64_t n = 1 + random() % 5;
    std::vector<Interval> intervals;
    std::vector<int64_t> slices, least;
    std::vector<Trail> trails;
    std::map<std::pair<size_t, size_t>, bool> lags; // of pairs that trail
    size_t olds = 1 + random() % 4, nexts = 1 + random() % 4;
    for (size_t i = 0; i < olds + nexts; ++i) {
      slices.push_back(4 * (1 + random() % 100));
      least.push_back(random() % 2 ? slices[i] : slices[i] / 2 / 4 * 4);
      bool isOld = i < olds;
      intervals.push_back({n * slices[i], isOld ? 0 : 5, isOld ? 9 : 12, 0});
      for (size_t old = 0; !isOld && old < olds; ++old) {
        if (random() % 3) {
          bool lag = lags[{old, i}] = random() % 2;
          trails.push_back(
              {old, i, trailDistance(n, slices[old], least[i], lag)});
        }
      }
    }
    placeInArena(intervals, trails);
    for (const std::vector<int64_t> &sizes : {slices, least}) {
      // In iteration l, once slice l is made: what lives of each pair.
      for (int64_t l = n; l-- > 0;) {
        for (size_t a = 0; a < intervals.size(); ++a) {
          for (size_t b = 0; b < intervals.size(); ++b) {
            if (a == b || lags.contains({b, a})) {
              continue;
            }
            int64_t aEnd = n, bBegin = 0;
            if (auto lag = lags.find({a, b}); lag != lags.end()) {
              aEnd = l + lag->second;
              bBegin = l;
            }
            int64_t aFrom = intervals[a].offset, aTo = aFrom + aEnd * sizes[a],
                    bFrom = intervals[b].offset + bBegin * sizes[b],
                    bTo = intervals[b].offset + n * sizes[b];
            EXPECT_FALSE(aFrom < aTo && bFrom < bTo && aFrom < bTo &&
                         bFrom < aTo);
            overlaps += intervals[a].offset < bTo &&
                        intervals[b].offset < aFrom + n * sizes[a];
          }
        }
      }
    }
  }
  EXPECT_GT(overlaps, 0u) << "nothing was put into another's place";
}

/// As in a model: gradients about as large as the activations that they may
/// trail, with a lag or without. The arena is near to what lives at one time.
TEST(Arena, StacksFindOthersToTrail) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    constexpr int64_t n = 12;
    size_t pairs = 1 + random() % 8;
    std::vector<Interval> intervals;
    std::vector<int64_t> slices;
    for (size_t i = 0; i < 2 * pairs; ++i) {
      int64_t like = i < pairs ? 64 * (100 + random() % 900)
                               : slices[i - pairs] * (90 + random() % 20) / 100;
      slices.push_back(like / 64 * 64);
      bool isOld = i < pairs;
      intervals.push_back({n * slices[i], isOld ? 0 : 50, isOld ? 99 : 120, 0});
    }
    bool lag = random() % 2;
    std::vector<Trail> trails;
    for (size_t old = 0; old < pairs; ++old) {
      for (size_t next = pairs; next < 2 * pairs; ++next) {
        trails.push_back(
            {old, next, trailDistance(n, slices[old], slices[next], lag)});
      }
    }
    int64_t least = 0; // before the loop, or after an iteration's writes
    for (int64_t l = 0; l <= n; ++l) {
      int64_t alive = 0;
      for (size_t i = 0; i < 2 * pairs; ++i) {
        alive += slices[i] * (i < pairs ? l + (lag && l < n) : n - l);
      }
      least = std::max(least, alive);
    }
    int64_t arena = placeInArena(intervals, trails);
    EXPECT_GE(arena, least);
    EXPECT_LE(static_cast<double>(arena), 1.1 * static_cast<double>(least));
  }
}

TEST(Arena, NothingNeedsNothing) {
  std::vector<Interval> none;
  EXPECT_EQ(placeInArena(none), 0);
  std::vector<Interval> empty = {{0, 0, 5, -1}, {0, 2, 3, -1}};
  EXPECT_EQ(placeInArena(empty), 0);
}

/// No two that live together overlap, every offset is aligned, and the arena
/// is at least what lives at one position.
TEST(Arena, NeverOverlaps) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals(1 + random() % 40);
    for (Interval &interval : intervals) {
      interval.bytes = random() % 1000;
      interval.begin = random() % 50;
      interval.end = interval.begin + random() % 20;
    }
    int64_t arena = placeInArena(intervals);
    auto rounded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    int64_t needed = 0;
    for (int64_t at = 0; at < 70; ++at) {
      int64_t live = 0;
      for (const Interval &a : intervals) {
        live += a.begin <= at && at <= a.end ? rounded(a.bytes) : 0;
      }
      needed = std::max(needed, live);
    }
    EXPECT_GE(arena, needed);
    for (const Interval &a : intervals) {
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, arena);
      for (const Interval &b : intervals) {
        bool together = a.begin <= b.end && b.begin <= a.end;
        bool overlap =
            a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(&a != &b && together && overlap);
      }
    }
  }
}

} // namespace
