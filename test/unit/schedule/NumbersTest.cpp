//===- NumbersTest.cpp - Published figures of pipeline schedules ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Closed forms and bubble rates as published: "Zero Bubble Pipeline
// Parallelism" (arXiv 2401.10241), tables of bubble rates and of memory;
// Megatron-LM (arXiv 2104.04473) for interleaved stages.
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include "schedule/Simulate.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave;
using namespace cleave::schedule;

namespace {

struct Simulated {
  Schedule schedule;
  Proof proof;
  Timeline timeline;
};

/// Times of one microbatch through a stage.
struct Cost {
  double forward = 1, input = 1, weight = 1, link = 0;
};

Simulated run(const std::string &name, int64_t stages, int64_t micros,
              std::optional<int64_t> chunks = std::nullopt, Cost cost = {}) {
  Source &source = librarySource();
  auto evaluated = source.evaluate(name, stages, micros, chunks);
  EXPECT_TRUE(evaluated) << source.diags.text();
  auto proof = scheduling::proveSchedule(*evaluated, source.diags);
  EXPECT_TRUE(proof) << source.diags.text();
  Simulated result;
  result.schedule = evaluated->schedule;
  result.proof = *proof;
  result.timeline =
      simulate(result.schedule, equalTimes(result.schedule, cost.forward,
                                           cost.input, cost.weight, cost.link));
  return result;
}

double round4(double x) { return std::round(x * 1e4) / 1e4; }

/// Sizes at which closed forms are compared: fewer, as many and more
/// microbatches than a schedule's warm-up needs.
const std::vector<std::pair<int64_t, int64_t>> sizes = {
    {2, 4}, {3, 9}, {4, 8}, {4, 16}, {5, 15}, {8, 24}, {8, 32}, {16, 48}};

const Cost costs[] = {{1, 1, 1, 0}, {3, 2.5, 1.25, 0}, {2, 3, 2, 0}};

} // namespace

TEST(Makespans, Table) {
  struct Row {
    int64_t p, m;
    double plain, two, four, h1, h2Span, h2;
  };
  const Row rows[] = {{4, 8, 33, 28.5, 26.25, 27, 24, 27},
                      {4, 16, 57, 52.5, 50.25, 51, 48, 51},
                      {8, 24, 93, 82.5, 77.25, 79, 72, 79},
                      {8, 32, 117, 106.5, 101.25, 103, 96, 103}};
  for (const Row &row : rows) {
    SCOPED_TRACE(std::to_string(row.p) + ", " + std::to_string(row.m));
    auto makespan = [&](const char *name,
                        std::optional<int64_t> chunks = std::nullopt) {
      return run(name, row.p, row.m, chunks).timeline.makespan;
    };
    EXPECT_EQ(makespan("gpipe"), row.plain);
    EXPECT_EQ(makespan("one_f_one_b"), row.plain);
    EXPECT_EQ(makespan("interleaved", 2), row.two);
    EXPECT_EQ(makespan("interleaved", 4), row.four);
    EXPECT_EQ(makespan("zb_h1"), row.h1);
    EXPECT_EQ(makespan("zb_h2"), row.h2);
    EXPECT_EQ(run("zb_h2", row.p, row.m).timeline.longestSpan, row.h2Span);
  }
}

TEST(BubbleRates, Table) {
  struct Row {
    int64_t p, m;
    double f, i, w, link, plain, h1, h2;
  };
  const Row rows[] = {
      {8, 24, 18.522, 18.086, 9.337, .601, .2431, .1585, .1083},
      {8, 32, 18.513, 18.086, 9.331, .626, .1985, .1242, .0837},
      {8, 64, 18.546, 18.097, 9.321, .762, .1240, .0674, .0444},
      {8, 24, 29.718, 29.444, 19.927, .527, .2347, .1323, .0698},
      {8, 32, 29.802, 29.428, 19.530, .577, .1898, .1045, .0559},
      {8, 64, 29.935, 29.621, 19.388, .535, .1091, .0554, .0294},
      {16, 48, 11.347, 11.248, 8.132, .377, .2552, .1397, .0672},
      {16, 64, 11.307, 11.254, 8.101, .379, .2082, .1088, .0516},
      {16, 128, 11.325, 11.308, 8.109, .378, .1251, .0576, .0266},
      {32, 96, 10.419, 10.207, 7.715, .408, .2646, .1421, .0641},
      {32, 128, 10.408, 10.204, 7.703, .408, .2168, .1106, .0490},
      {32, 256, 10.402, 10.248, 7.698, .460, .1352, .0594, .0257}};
  for (const Row &row : rows) {
    SCOPED_TRACE(std::to_string(row.p) + ", " + std::to_string(row.m));
    Cost cost{row.f, row.i, row.w, row.link};
    auto rate = [&](const char *name) {
      Timeline timeline = run(name, row.p, row.m, std::nullopt, cost).timeline;
      double work = row.m * (row.f + row.i + row.w);
      // The simulator's own measure, and the definition.
      EXPECT_NEAR(timeline.bubble,
                  (timeline.longestSpan - work) / timeline.longestSpan, 1e-9);
      return round4(timeline.bubble);
    };
    EXPECT_EQ(rate("one_f_one_b"), row.plain);
    EXPECT_EQ(rate("zb_h1"), row.h1);
    EXPECT_EQ(rate("zb_h2"), row.h2);
  }
}

TEST(ClosedForms, Idle) {
  for (auto [p, m] : sizes) {
    for (const Cost &cost : costs) {
      SCOPED_TRACE(std::to_string(p) + ", " + std::to_string(m) + ", " +
                   std::to_string(cost.weight));
      double f = cost.forward, i = cost.input, w = cost.weight, b = i + w;
      auto idle = [&](const char *name,
                      std::optional<int64_t> chunks = std::nullopt) {
        Timeline timeline = run(name, p, m, chunks, cost).timeline;
        return timeline.longestSpan - m * (f + b);
      };
      auto idleOf = [&](const char *name) { return idle(name); };
      EXPECT_NEAR(idleOf("gpipe"), (p - 1) * (f + b), 1e-9);
      EXPECT_NEAR(idleOf("one_f_one_b"), (p - 1) * (f + b), 1e-9);
      if (m % p == 0) { // Megatron's condition
        EXPECT_NEAR(idle("interleaved", 2), (p - 1) * (f + b) / 2, 1e-9);
        EXPECT_NEAR(idle("interleaved", 4), (p - 1) * (f + b) / 4, 1e-9);
        EXPECT_NEAR(idle("breadth_first", 2), (p - 1) * (f + b) / 2, 1e-9);
      }
      EXPECT_NEAR(idleOf("zb_h1"), (p - 1) * (f + i - w), 1e-9);
      if (m >= 2 * p - 1) {
        EXPECT_NEAR(idleOf("zb_h2"), (p - 1) * std::max(0.0, f + i - 2 * w),
                    1e-9);
      }
      if (f == i && i == w && m >= 2 * p) {
        EXPECT_NEAR(idleOf("zb_v"), 0, 1e-9);
      }
    }
  }
}

TEST(ClosedForms, ActivationPeaks) {
  for (auto [p, m] : sizes) {
    SCOPED_TRACE(std::to_string(p) + ", " + std::to_string(m));
    auto peaks = [&](const char *name,
                     std::optional<int64_t> chunks = std::nullopt) {
      return run(name, p, m, chunks).proof.activationPeaks;
    };
    auto gpipe = peaks("gpipe"), plain = peaks("one_f_one_b"),
         two = peaks("interleaved", 2), four = peaks("interleaved", 4),
         h1 = peaks("zb_h1"), h2 = peaks("zb_h2"), v = peaks("zb_v"),
         dual = peaks("dualpipe_v");
    for (int64_t r = 0; r < p; ++r) {
      EXPECT_EQ(gpipe[r], m);
      EXPECT_EQ(plain[r], p - r);
      if (m % p == 0) {
        EXPECT_EQ(two[r], std::min(2 * (p - r - 1) + p + 1, 2 * m));
        EXPECT_EQ(four[r], std::min(2 * (p - r - 1) + 3 * p + 1, 4 * m));
      }
      EXPECT_EQ(h1[r], p);
      if (m >= 2 * p - 1) {
        EXPECT_EQ(h2[r], 2 * p - 1);
        EXPECT_EQ(v[r], 2 * p); // of chunks, each half a microbatch
      }
      if (m >= 2 * p) {
        // One more than positions: forwards stand beside backwards.
        EXPECT_EQ(dual[r], 2 * p + 1);
      }
    }
  }
}
