//===- RandomTest.cpp - Known answers of the counter-based generator ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "numerics/Random.h"

#include <gtest/gtest.h>

using namespace cleave::numerics;

// The vectors that Random123 ships (kat_vectors: philox4x32 10).
TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                   {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, FnvKnownAnswers) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

TEST(Random, UniformIsExactInSinglePrecision) {
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    double u = uniform(1, "drop", i, 3, 5);
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
    EXPECT_EQ(u, static_cast<double>(static_cast<float>(u)));
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

TEST(Random, EveryCounterMatters) {
  double base = uniform(1, "a", 2, 3, 4);
  EXPECT_NE(base, uniform(2, "a", 2, 3, 4));
  EXPECT_NE(base, uniform(1, "b", 2, 3, 4));
  EXPECT_NE(base, uniform(1, "a", 3, 3, 4));
  EXPECT_NE(base, uniform(1, "a", 2, 4, 4));
  EXPECT_NE(base, uniform(1, "a", 2, 3, 5));
}

TEST(Random, NormalHasItsMoments) {
  const int count = 20000;
  double sum = 0, squares = 0, fourths = 0;
  for (uint64_t i = 0; i < count; ++i) {
    double x = normal(7, "layer/mlp/up", i);
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.03);
  EXPECT_NEAR(fourths / count, 3, 0.2);
}
