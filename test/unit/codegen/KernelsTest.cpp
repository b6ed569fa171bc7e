//===- KernelsTest.cpp - Compiled operations against the reference --------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::test;

namespace {

const int64_t widths[] = {0, 1, 15, 16, 17, 100};

/// Two axes, and dims that do not divide by them.
Options uneven(std::map<std::string, std::vector<uint32_t>> splits) {
  Options options;
  options.mesh.atoms = {{"data", 3}, {"tensor", 2}};
  options.mesh.axes = {{"data", {0}}, {"tensor", {1}}};
  options.splits = std::move(splits);
  return options;
}

/// Every width, whole and split.
void checkWidths(const std::string &text, double tolerance = 1e-5) {
  for (int64_t n : widths) {
    Options options;
    options.tolerance = tolerance;
    check(text, {{"b", 3}, {"e", n}, {"k", 5}, {"t", 3}}, options);
  }
  Options options = uneven({{"b", {0}}, {"e", {1}}});
  options.tolerance = tolerance;
  check(text, {{"b", 2}, {"e", 33}, {"k", 5}, {"t", 3}}, options);
}

class Unary : public testing::TestWithParam<const char *> {};
TEST_P(Unary, MatchesReference) {
  std::string op = GetParam();
  bool positive = op == "log" || op == "sqrt" || op == "rsqrt";
  Options options;
  if (positive) {
    options.data = [](unsigned, int64_t n) { return 0.01 + n * 0.37; };
  } else {
    options.data = [](unsigned, int64_t n) {
      return (n % 2 ? 1 : -1) * n * 0.173;
    };
  }
  if (op == "exp") {
    options.data = [](unsigned, int64_t n) { return 5 - n * 0.173; };
  }
  for (bool native : {true, false}) {
    options.native = native;
    check("func.func @f(%x: {b e}) -> {b e} {\n %0 = clv." + op +
              " %x : ({b e}) -> {b e}\n return %0 : {b e}\n }",
          {{"b", 3}, {"e", 37}}, options);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, Unary,
                         testing::Values("neg", "exp", "log", "sqrt", "rsqrt",
                                         "sin", "cos", "tanh", "erf", "relu",
                                         "gelu", "silu", "sigmoid", "abs",
                                         "stop_gradient"));

class Binary : public testing::TestWithParam<const char *> {};
TEST_P(Binary, MatchesReference) {
  std::string op = GetParam();
  bool compares =
      op == "less" || op == "less_equal" || op == "equal" || op == "not_equal";
  std::string result = compares ? "{p: b e}" : "{b e}";
  Options options;
  if (op == "pow") {
    options.data = [](unsigned argument, int64_t n) {
      return argument == 0 ? 0.1 + 0.05 * n : 1.5 - 0.1 * n;
    };
  } else {
    options.data = [](unsigned argument, int64_t n) {
      return (n * 7 + argument * 3) % 5 - 2.5;
    };
  }
  check("func.func @f(%x: {b e}, %y: {e}) -> " + result + " {\n %0 = clv." +
            op + " %x, %y : ({b e}, {e}) -> " + result +
            "\n return %0 : " + result + "\n }",
        {{"b", 3}, {"e", 21}}, options);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Binary,
                         testing::Values("add", "sub", "mul", "div", "maximum",
                                         "minimum", "pow", "less", "less_equal",
                                         "equal", "not_equal"));

TEST(Kernels, ElementwiseWidths) {
  checkWidths(R"(func.func @f(%x: {b e}, %y: {e}, %z: {b}) -> {b e} {
    %0 = clv.add %x, %y : ({b e}, {e}) -> {b e}
    %1 = clv.mul %0, %z : ({b e}, {b}) -> {b e}
    %2 = clv.gelu %1 : ({b e}) -> {b e}
    return %2 : {b e}
  })");
}

TEST(Kernels, IntegersAndBooleans) {
  checkWidths(R"(func.func @f(%x: {i: b e}, %y: {i: e}, %p: {p: b e}) ->
      ({i: b e}, {p: b e}, {b e}, {i: b e}) {
    %0 = clv.mul %x, %y : ({i: b e}, {i: e}) -> {i: b e}
    %1 = clv.sub %0, %x : ({i: b e}, {i: b e}) -> {i: b e}
    %2 = clv.less %x, %y : ({i: b e}, {i: e}) -> {p: b e}
    %3 = clv.or %2, %p : ({p: b e}, {p: b e}) -> {p: b e}
    %4 = clv.not %3 : ({p: b e}) -> {p: b e}
    %5 = clv.cast %1 : ({i: b e}) -> {b e}
    %6 = clv.select %4, %1, %x : ({p: b e}, {i: b e}, {i: b e}) -> {i: b e}
    %7 = clv.maximum %6, %y : ({i: b e}, {i: e}) -> {i: b e}
    return %1, %4, %5, %7 : {i: b e}, {p: b e}, {b e}, {i: b e}
  })");
}

TEST(Kernels, Casts) {
  checkWidths(R"(func.func @f(%x: {b e}, %p: {p: b e}) ->
      ({i: b e}, {b e}, {p: b e}) {
    %0 = clv.cast %x : ({b e}) -> {i: b e}
    %1 = clv.cast %p : ({p: b e}) -> {b e}
    %2 = clv.cast %0 : ({i: b e}) -> {p: b e}
    return %0, %1, %2 : {i: b e}, {b e}, {p: b e}
  })");
}

TEST(Kernels, DimsInAnyOrder) {
  // y is transposed, z lacks the last dim: gathers and scalars.
  checkWidths(R"(func.func @f(%x: {b k e}, %y: {e b}, %z: {k b}) -> {b k e} {
    %0 = clv.mul %x, %y : ({b k e}, {e b}) -> {b k e}
    %1 = clv.add %0, %z : ({b k e}, {k b}) -> {b k e}
    return %1 : {b k e}
  })");
}

TEST(Kernels, Broadcast) {
  checkWidths(R"(func.func @f(%x: {e}, %s: {f:}) -> ({b e}, {e b}, {b e}) {
    %0 = clv.broadcast %x : ({e}) -> {b e}
    %1 = clv.broadcast %x : ({e}) -> {e b}
    %2 = clv.broadcast %s : ({f:}) -> {b e}
    return %0, %1, %2 : {b e}, {e b}, {b e}
  })");
}

TEST(Kernels, Index) {
  checkWidths(R"(func.func @f(%x: {b e}) -> ({i: e}, {p: b e}, {b e}) {
    %0 = clv.index {first = 3 : i64} -> {i: e}
    %1 = clv.index -> {i: b}
    %2 = clv.less_equal %1, %0 : ({i: b}, {i: e}) -> {p: b e}
    %3 = clv.constant -1.0e30 : f32 -> {f:}
    %4 = clv.select %2, %x, %3 : ({p: b e}, {b e}, {f:}) -> {b e}
    return %0, %2, %4 : {i: e}, {p: b e}, {b e}
  })");
}

class Reductions : public testing::TestWithParam<const char *> {};
TEST_P(Reductions, OverAnyDims) {
  std::string kind = GetParam();
  std::string text = R"(func.func @f(%x: {b k e}, %i: {i: b k e}) ->
      ({b k}, {b e}, {k e}, {k}, {e}, {f:}, {i: b k}, {i: e}, {i:}) {
    %0 = clv.reduce KIND %x over ["e"] : ({b k e}) -> {b k}
    %1 = clv.reduce KIND %x over ["k"] : ({b k e}) -> {b e}
    %2 = clv.reduce KIND %x over ["b"] : ({b k e}) -> {k e}
    %3 = clv.reduce KIND %x over ["b", "e"] : ({b k e}) -> {k}
    %4 = clv.reduce KIND %x over ["k", "b"] : ({b k e}) -> {e}
    %5 = clv.reduce KIND %x over ["e", "k", "b"] : ({b k e}) -> {f:}
    %6 = clv.reduce KIND %i over ["e"] : ({i: b k e}) -> {i: b k}
    %7 = clv.reduce KIND %i over ["k", "b"] : ({i: b k e}) -> {i: e}
    %8 = clv.reduce KIND %i over ["k", "b", "e"] : ({i: b k e}) -> {i:}
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : {b k}, {b e}, {k e}, {k}, {e},
      {f:}, {i: b k}, {i: e}, {i:}
  })";
  for (size_t at; (at = text.find("KIND")) != std::string::npos;) {
    text.replace(at, 4, kind);
  }
  Options options; // sums that do not cancel
  options.data = [](unsigned, int64_t n) { return (n * 37) % 101 - 20.0; };
  for (int64_t n : widths) {
    if (n == 0 && kind != "sum") {
      continue; // the reference has no neutral element for i32
    }
    check(text, {{"b", 3}, {"e", n}, {"k", 5}}, options);
  }
  // Nothing is reduced over a split dim: that would be a pending sum.
  check(R"(func.func @f(%x: {b k e}) -> {b e} {
    %0 = clv.reduce )" +
            kind + R"( %x over ["k"] : ({b k e}) -> {b e}
    return %0 : {b e}
  })",
        {{"b", 2}, {"e", 33}, {"k", 5}}, uneven({{"b", {0}}, {"e", {1}}}));
}
INSTANTIATE_TEST_SUITE_P(Kernels, Reductions,
                         testing::Values("sum", "max", "min"));

TEST(Kernels, LongSumsKeepDigits) {
  Options options;
  options.tolerance = 2e-6;
  options.data = [](unsigned, int64_t n) { return 1 + (n % 13) * 0.01; };
  check(R"(func.func @f(%x: {e}) -> {f:} {
    %0 = clv.mul %x, %x : ({e}, {e}) -> {e}
    %1 = clv.reduce sum %0 over ["e"] : ({e}) -> {f:}
    return %1 : {f:}
  })",
        {{"e", 3000001}}, options);
}

TEST(Kernels, LookupAndScatterAdd) {
  std::string text = R"(func.func @f(%t: {v e}, %s: {e v}, %i: {i: b k},
      %u: {b k e}) -> ({b k e}, {e b k}, {v e}, {e v}) {
    %0 = clv.lookup %t, %i along "v" : ({v e}, {i: b k}) -> {b k e}
    %1 = clv.lookup %s, %i along "v" : ({e v}, {i: b k}) -> {e b k}
    %2 = clv.scatter_add %u, %i along "v" : ({b k e}, {i: b k}) -> {v e}
    %3 = clv.scatter_add %u, %i along "v" : ({b k e}, {i: b k}) -> {e v}
    return %0, %1, %2, %3 : {b k e}, {e b k}, {v e}, {e v}
  })";
  for (int64_t n : widths) {
    check(text, {{"b", 3}, {"k", 5}, {"v", 9}, {"e", n}});
  }
  // An id out of range is nothing's.
  Options options;
  options.bound = 12;
  check(R"(func.func @f(%i: {i: b}, %u: {b}) -> {v} {
    %0 = clv.scatter_add %u, %i along "v" : ({b}, {i: b}) -> {v}
    return %0 : {v}
  })",
        {{"b", 40}, {"v", 9}}, options);
  check(text, {{"b", 2}, {"k", 5}, {"v", 9}, {"e", 33}}, uneven({{"e", {1}}}));
  check(R"(func.func @f(%i: {i: b}, %u: {b e}) -> {v e} {
    %0 = clv.scatter_add %u, %i along "v" : ({b e}, {i: b}) -> {v e}
    return %0 : {v e}
  })",
        {{"b", 40}, {"v", 7}, {"e", 20}}, uneven({{"v", {0}}, {"e", {1}}}));
}

TEST(Kernels, Cumsum) {
  // Along each dim, both ways; the last result has its dims in another order.
  checkWidths(R"(func.func @f(%x: {t k e b}) ->
      ({t k e b}, {t k e b}, {b e k t}) {
    %0 = clv.cumsum %x along "k" : ({t k e b}) -> {t k e b}
    %1 = clv.cumsum %x along "t" reverse : ({t k e b}) -> {t k e b}
    %2 = clv.cumsum %x along "k" reverse : ({t k e b}) -> {b e k t}
    return %0, %1, %2 : {t k e b}, {t k e b}, {b e k t}
  })");
  for (int64_t n : widths) {
    // The summed dim is the last, or the only one.
    check(R"(func.func @f(%x: {b e}, %y: {e}) -> ({b e}, {e}, {e}) {
      %0 = clv.cumsum %x along "e" : ({b e}) -> {b e}
      %1 = clv.cumsum %y along "e" : ({e}) -> {e}
      %2 = clv.cumsum %y along "e" reverse : ({e}) -> {e}
      return %0, %1, %2 : {b e}, {e}, {e}
    })",
          {{"b", 3}, {"e", n}});
  }
}

TEST(Kernels, LongCumsumsKeepDigits) {
  Options options;
  options.tolerance = 1e-7;
  options.data = [](unsigned, int64_t n) { return 1 + (n % 13) * 0.01; };
  for (const char *way : {"", " reverse"}) {
    check(
        "func.func @f(%x: {e b}) -> {e b} {\n %0 = clv.cumsum %x along \"e\"" +
            std::string(way) + " : ({e b}) -> {e b}\n return %0 : {e b}\n }",
        {{"e", 100003}, {"b", 3}}, options);
  }
}

TEST(Kernels, Extreme) {
  Options options;
  options.data = [](unsigned, int64_t n) { return (n * 5) % 7; };
  for (int64_t n : {1, 15, 16, 17, 100}) {
    check(R"(func.func @f(%x: {b e}) -> ({i: b}, {i: e}) {
      %0 = clv.reduce max %x over ["e"] : ({b e}) -> {b}
      %1 = clv.extreme %x, %0 along "e" : ({b e}, {b}) -> {i: b}
      %2 = clv.reduce min %x over ["b"] : ({b e}) -> {e}
      %3 = clv.extreme %x, %2 along "b" : ({b e}, {e}) -> {i: e}
      return %1, %3 : {i: b}, {i: e}
    })",
          {{"b", 3}, {"e", n}}, options);
  }
}

TEST(Kernels, Random) {
  std::string text = R"(func.func @f(%s: {i:}, %t: {i:}) -> ({b e}, {b k e}) {
    %c = clv.constant 0 : i32 -> {i:}
    %0 = clv.random %s, %t, %c at "layer/drop" :
      ({i:}, {i:}, {i:}) -> {b e}
    %1 = clv.random %s, %t, %c at "other" : ({i:}, {i:}, {i:}) -> {b k e}
    return %0, %1 : {b e}, {b k e}
  })";
  checkWidths(text, 0);
}

TEST(Kernels, ScalarsKeepDigits) {
  // 1 - 0.999 ** 1 in f32 has four digits.
  Options options;
  options.tolerance = 1e-7;
  options.data = [](unsigned argument, int64_t) { return argument ? 1 : .999; };
  check(R"(func.func @f(%b: {f:}, %s: {i:}) -> {f:} {
    %0 = clv.cast %s : ({i:}) -> {f:}
    %1 = clv.pow %b, %0 : ({f:}, {f:}) -> {f:}
    %2 = clv.constant 1.0 : f32 -> {f:}
    %3 = clv.sub %2, %1 : ({f:}, {f:}) -> {f:}
    %4 = clv.log %3 : ({f:}) -> {f:}
    %5 = clv.tanh %4 : ({f:}) -> {f:}
    %6 = clv.gelu %5 : ({f:}) -> {f:}
    return %6 : {f:}
  })",
        {}, options);
}

TEST(Kernels, SliceAndPad) {
  checkWidths(R"(func.func @f(%x: {b k e}) -> ({b t e}, {b k e}) {
    %0 = clv.slice %x from "k" to "t" at 2 : ({b k e}) -> {b t e}
    %1 = clv.pad %0 from "t" to "k" at 1 : ({b t e}) -> {b k e}
    return %0, %1 : {b t e}, {b k e}
  })");
}

TEST(Kernels, RenameIsTheSameMemory) {
  Instructions plan = check(R"(func.func @f(%x: {b e}, %y: {b e}) -> {b t} {
    %0 = clv.add %x, %y : ({b e}, {b e}) -> {b e}
    %1 = clv.rename %0 : ({b e}) -> {b t}
    %2 = clv.exp %1 : ({b t}) -> {b t}
    return %2 : {b t}
  })",
                            {{"b", 3}, {"e", 20}, {"t", 20}});
  EXPECT_EQ(plan.moves, 0);
}

/// Numbers that bf16 has, halves between two of them, the ends of its range.
double roundedData(unsigned, int64_t n) {
  const double some[] = {0,
                         -0.0,
                         1 + 0x1p-8, // a tie: down to even
                         1 + 0x3p-8, // a tie: up to even
                         1 + 0x1.01p-8,
                         -1.25 - 0x1p-9,
                         3.3961775292304957e38, // the next is infinite
                         0x1p-130,
                         INFINITY,
                         -INFINITY,
                         NAN};
  return n < 11 ? some[n] : (n % 2 ? 1 : -1) * n * 0.1737;
}

TEST(Kernels, CastToBF16RoundsAndIsStoredAsThat) {
  Options options;
  options.tolerance = 0;
  options.data = roundedData;
  const char *text = R"(func.func @f(%x: {b e}) -> ({h: b e}, {h: e b}, {b e}) {
    %0 = clv.cast %x : ({b e}) -> {h: b e}
    %1 = clv.broadcast %0 : ({h: b e}) -> {h: e b}
    %2 = clv.cast %0 : ({h: b e}) -> {b e}
    return %0, %1, %2 : {h: b e}, {h: e b}, {b e}
  })";
  for (bool native : {true, false}) {
    options.native = native;
    for (int64_t n : widths) {
      check(text, {{"b", 3}, {"e", n}}, options);
    }
  }
  Options split = uneven({{"b", {0}}, {"e", {1}}});
  split.tolerance = 0;
  split.data = roundedData;
  check(text, {{"b", 2}, {"e", 33}}, split);
}

TEST(Kernels, ContractionOfBF16) {
  // What a norm makes is stored once, as the contraction wants it.
  Instructions plan =
      check(R"(func.func @f(%x: {b e}, %w: {e k}) -> ({b k}, {h: b k}) {
    %0 = clv.reduce max %x over ["e"] : ({b e}) -> {b}
    %1 = clv.sub %x, %0 : ({b e}, {b}) -> {b e}
    %2 = clv.cast %1 : ({b e}) -> {h: b e}
    %3 = clv.cast %w : ({e k}) -> {h: e k}
    %4 = clv.dot %2, %3 over ["e"] : ({h: b e}, {h: e k}) -> {b k}
    %5 = clv.gelu %4 : ({b k}) -> {b k}
    %6 = clv.cast %5 : ({b k}) -> {h: b k}
    return %4, %6 : {b k}, {h: b k}
  })",
            {{"b", 3}, {"e", 37}, {"k", 21}});
  EXPECT_EQ(plan.kernels, 3);
  EXPECT_EQ(plan.contractions, 1);
}

TEST(Kernels, NaNStaysNaN) {
  Options options;
  options.data = [](unsigned, int64_t n) { return n == 3 ? NAN : double(n); };
  for (const char *op : {"exp", "gelu", "silu", "tanh"}) {
    check("func.func @f(%x: {e}) -> {e} {\n %0 = clv." + std::string(op) +
              " %x : ({e}) -> {e}\n return %0 : {e}\n }",
          {{"e", 20}}, options);
  }
}

} // namespace
