//===- BlockAttentionTest.cpp - Attention that keeps no scores ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/differentiate/Check.h"

using namespace cleave;
using namespace cleave::test;

namespace {

/// Attention of queries %x along `a` to keys along `c`, with `between` from %d
/// to %z, the scores.
std::string spelled(const std::string &between) {
  return "%k = clv.rename %y : (!ab) -> !cb\n"
         "%m = clv.mul %x, %y : (!ab, !ab) -> !ab\n"
         "%v = clv.rename %m : (!ab) -> !cb\n"
         "%d = clv.dot %x, %k over [\"b\"] : (!ab, !cb) -> !ac\n" +
         between +
         "%p = clv.softmax %z over [\"c\"] : (!ac) -> !ac\n"
         "%r = clv.dot %p, %v over [\"c\"] : (!ac, !cb) -> !ab\n";
}

std::string mask(const char *fill, const char *first = "0",
                 const char *test = "%j, %i") {
  return "%i = clv.index {first = " + std::string(first) +
         " : i64} -> tensor<2xi32, #clv.dims<a>>\n"
         "%j = clv.index -> tensor<2xi32, #clv.dims<c>>\n"
         "%i2 = clv.broadcast %i : (tensor<2xi32, #clv.dims<a>>) -> "
         "tensor<2x2xi32, #clv.dims<a, c>>\n"
         "%j2 = clv.broadcast %j : (tensor<2xi32, #clv.dims<c>>) -> "
         "tensor<2x2xi32, #clv.dims<a, c>>\n"
         "%t = clv.less_equal " +
         std::string(test == std::string("%j, %i") ? "%j2, %i2" : "%i2, %j2") +
         " : (tensor<2x2xi32, #clv.dims<a, c>>, tensor<2x2xi32, #clv.dims<a, "
         "c>>) -> tensor<2x2xi1, #clv.dims<a, c>>\n"
         "%h = clv.constant " +
         fill +
         " : f32 -> !s\n"
         "%z = clv.select %t, %e, %h : (tensor<2x2xi1, #clv.dims<a, c>>, !ac, "
         "!s) -> !ac\n";
}

const char *const kScale = "%f = clv.constant 0.75 : f32 -> !s\n"
                           "%e = clv.mul %d, %f : (!ac, !s) -> !ac\n";

/// The step of a program whose attention was replaced, and whether one was.
struct Blocked {
  explicit Blocked(const std::string &body) {
    std::string text = textOf(body, "!ab");
    mlir::MLIRContext context;
    context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context));
    EXPECT_TRUE(module) << text;
    blockAttention(*module);
    EXPECT_TRUE(succeeded(mlir::verify(*module)));
    module->walk([&](clv::AttentionOp op) {
      found = true;
      causal = op.getCausal();
      scale = op.getScale().convertToDouble();
      ahead = static_cast<int64_t>(op.getAhead());
    });
    llvm::raw_string_ostream(after) << *module;
    before = text;
  }

  bool found = false, causal = false;
  double scale = 0;
  int64_t ahead = 0;
  std::string before, after;
};

/// Loss and gradients are those of what was written.
void expectSame(const Blocked &blocked) {
  Program before(blocked.before), after(blocked.after);
  std::vector<Tensor> arguments = {{{2, 3}, {0.5, -1, 2, 1.5, 0.25, -0.75}},
                                   {{2, 3}, {1, 0.5, -0.25, -1, 2, 0.125}}};
  auto wanted = before.gradients(arguments), found = after.gradients(arguments);
  ASSERT_EQ(wanted.size(), found.size());
  for (auto [a, b] : llvm::zip(wanted, found)) {
    for (auto [x, y] : llvm::zip(a.values, b.values)) {
      EXPECT_NEAR(x, y, 1e-12);
    }
  }
}

} // namespace

TEST(BlockAttention, IsFoundAndMeansTheSame) {
  Blocked masked(spelled(kScale + mask("-1.0e+30")));
  EXPECT_TRUE(masked.found && masked.causal);
  EXPECT_EQ(masked.scale, 0.75);
  expectSame(masked);

  Blocked later(spelled(kScale + mask("-1.0e+30", "1")));
  EXPECT_TRUE(later.found);
  EXPECT_EQ(later.ahead, 1);
  expectSame(later);

  Blocked open(spelled("%f = clv.constant 2.0 : f32 -> !s\n"
                       "%z = clv.div %d, %f : (!ac, !s) -> !ac\n"));
  EXPECT_TRUE(open.found && !open.causal);
  EXPECT_EQ(open.scale, 0.5);
  expectSame(open);
}

TEST(BlockAttention, OtherThingsStayAsTheyAre) {
  // A hidden score that counts, and a mask of the earlier keys.
  EXPECT_FALSE(Blocked(spelled(kScale + mask("-5.0"))).found);
  EXPECT_FALSE(Blocked(spelled(kScale + mask("-1.0e+30", "0", "other"))).found);
  // Scores that somebody else reads.
  EXPECT_FALSE(
      Blocked(spelled("%z = clv.mul %d, %d : (!ac, !ac) -> !ac\n")).found);
}
