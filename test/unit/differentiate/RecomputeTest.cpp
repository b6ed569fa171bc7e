//===- RecomputeTest.cpp - The same step with less saved ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Recompute.h"
#include "test/unit/differentiate/Check.h"

using namespace cleave;
using namespace cleave::test;
using clv::RepeatOp;

namespace {

/// Layers with a region, a nonlinearity, dropout that depends on the layer, and
/// a softmax outside the region.
const char *kLayers = R"(
!x = tensor<2x3xf32, #clv.dims<batch, embed>>
!ws = tensor<3x3x4xf32, #clv.dims<layer, embed, ff>>
!w = tensor<3x4xf32, #clv.dims<embed, ff>>
!h = tensor<2x4xf32, #clv.dims<batch, ff>>
!s = tensor<f32>
!i = tensor<i32>
#top = #clv.scope<activations, forward, path = "">
#layer = #clv.scope<activations, forward, path = "layer">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">
func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                %ws: !ws {clv.role = "param", clv.path = "layer/mlp/w"},
                %p: !x {clv.role = "param", clv.path = "start"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %pw = clv.weight %p {clv.scope = #clv.scope<weights, forward, path = "start", reader = "">} : (!x) -> !x
  %x0 = clv.mul %x, %pw {clv.scope = #top} : (!x, !x) -> !x
  %r = clv.repeat %i of "layer" from FIRST count 3 REVERSE carried(%c = %x0 : !x) stacked(%wp = %ws : !ws slice !w) -> !x
      attributes {clv.scope = #top} {
    %in = clv.edge %c {inner = "layer/mlp", clv.scope = #mlp} : (!x) -> !x
    %w = clv.weight %wp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">} : (!w) -> !w
    %h = clv.dot %in, %w over ["embed"] {clv.scope = #clv.scope<activations, forward, path = "layer/mlp", label = "h">} : (!x, !w) -> !h
    %g = clv.gelu %h {clv.scope = #mlp} : (!h) -> !h
    %u = clv.random %seed, %step, %i at "drop" {clv.scope = #mlp} : (!i, !i, !i) -> !h
    %d = clv.mul %g, %u {clv.scope = #mlp} : (!h, !h) -> !h
    %o = clv.dot %d, %w over ["ff"] {clv.scope = #mlp} : (!h, !w) -> !x
    %e = clv.edge %o {inner = "layer/mlp", clv.scope = #layer} : (!x) -> !x
    %sm = clv.softmax %e over ["embed"] {clv.scope = #layer} : (!x) -> !x
    %t = clv.mul %sm, %x0 {clv.scope = #layer} : (!x, !x) -> !x
    %n = clv.add %c, %t {clv.scope = #layer} : (!x, !x) -> !x
    clv.yield %n : !x
  }
  %q = clv.mul %r, %r {clv.scope = #top} : (!x, !x) -> !x
  %l = clv.reduce sum %q over ["batch", "embed"] {clv.scope = #top} : (!x) -> !s
  return %l : !s
})";

/// A loop in a loop, whose stack the outer body reads.
const char *kNested = R"(
!x = tensor<2xf32, #clv.dims<a>>
!ws = tensor<3x2x2xf32, #clv.dims<outer, inner, a>>
!w = tensor<2x2xf32, #clv.dims<inner, a>>
!s = tensor<f32>
!i = tensor<i32>
#top = #clv.scope<activations, forward, path = "">
#o = #clv.scope<activations, forward, path = "outer">
#n = #clv.scope<activations, forward, path = "outer/inner">
func.func @loss(%ws: !ws {clv.role = "param", clv.path = "w"},
                %p: !x {clv.role = "param", clv.path = "p"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %x = clv.weight %p {clv.scope = #clv.scope<weights, forward, path = "p", reader = "">} : (!x) -> !x
  %r = clv.repeat %i of "outer" from 0 count 3 carried(%c = %x : !x)
      stacked(%wo = %ws : !ws slice !w) -> !x attributes {clv.scope = #top} {
    %k = clv.sin %c {clv.scope = #o} : (!x) -> !x
    %y:2 = clv.repeat %j of "inner" from 1 count 2 carried(%d = %k : !x)
        stacked(%wi = %wo : !w slice !x) -> (!x, !w) attributes {clv.scope = #o} {
      %v = clv.weight %wi {clv.scope = #clv.scope<weights, forward, path = "w", reader = "outer/inner">} : (!x) -> !x
      %e = clv.mul %d, %v {clv.scope = #n} : (!x, !x) -> !x
      %f = clv.mul %e, %k {clv.scope = #n} : (!x, !x) -> !x
      %g = clv.add %f, %c {clv.scope = #n} : (!x, !x) -> !x
      %h = clv.tanh %g {clv.scope = #n} : (!x) -> !x
      clv.yield %h, %e : !x, !x
    }
    %m = clv.reduce sum %y#1 over ["inner"] {clv.scope = #o} : (!w) -> !x
    %z = clv.mul %y#0, %m {clv.scope = #o} : (!x, !x) -> !x
    %oo = clv.add %z, %k {clv.scope = #o} : (!x, !x) -> !x
    clv.yield %oo : !x
  }
  %q = clv.mul %r, %r {clv.scope = #top} : (!x, !x) -> !x
  %l = clv.reduce sum %q over ["a"] {clv.scope = #top} : (!x) -> !s
  return %l : !s
})";

std::string layers(const std::string &first = "0",
                   const std::string &reverse = "") {
  std::string text = kLayers;
  text.replace(text.find("FIRST"), 5, first);
  text.replace(text.find("REVERSE"), 7, reverse);
  return text;
}

using Paths = std::vector<std::string>;

bool liesIn(const layout::ValueInfo &value, const Paths &paths) {
  std::string path = value.path + "/" + value.label;
  return llvm::any_of(paths, [&](const std::string &outer) {
    return path.compare(0, outer.size(), outer) == 0;
  });
}

/// Elements of the stacks that forward loops give to be read backwards.
int64_t savedElements(mlir::Operation *root) {
  int64_t count = 0;
  root->walk([&](RepeatOp op) {
    clv::ScopeAttr scope = clv::scopeOf(op);
    for (mlir::Value stack : op.getStackedResults()) {
      if (scope.getPhase() == clv::Phase::Forward) {
        count += mlir::cast<mlir::RankedTensorType>(stack.getType())
                     .getNumElements();
      }
    }
  });
  return count;
}

int64_t countOf(mlir::Operation *root, llvm::StringRef name, bool recomputed) {
  int64_t count = 0;
  root->walk([&](mlir::Operation *op) {
    count += op->getName().stripDialect() == name &&
             op->hasAttr(kRecomputed) == recomputed;
  });
  return count;
}

/// @train of `text`, as it is and with `paths` (less `saved`) made again: the
/// same numbers. Gives the program, and how much is saved in each.
struct Compared {
  Program program;
  int64_t before = 0, after = 0;

  Compared(const std::string &text, const Paths &paths, const Paths &saved = {})
      : program(text) {
    decompose(*program.module);
    simplify(*program.module);
    std::vector<Tensor> arguments = argumentsOf();
    std::vector<Tensor> plain = program.evaluate("train", arguments);
    before = savedElements(program.function("train"));
    bool done = succeeded(
        recompute(*program.module, [&](const layout::ValueInfo &value) {
          return liesIn(value, paths) && !liesIn(value, saved);
        }));
    EXPECT_TRUE(done && succeeded(mlir::verify(*program.module)));
    after = savedElements(program.function("train"));
    std::vector<Tensor> again = program.evaluate("train", arguments);
    EXPECT_EQ(plain.size(), again.size());
    EXPECT_FALSE(plain.empty());
    for (auto [a, b] : llvm::zip(plain, again)) {
      EXPECT_EQ(a.shape, b.shape);
      EXPECT_EQ(a.values, b.values); // the same operations in the same order
    }
  }
  std::vector<Tensor> argumentsOf() {
    std::vector<Tensor> arguments;
    uint32_t state = 99;
    for (mlir::Type type : program.function("loss").getArgumentTypes()) {
      arguments.push_back(fill(type, -1, 1, state));
    }
    arguments.resize(arguments.size() - 2);
    Program::withCounters(arguments);
    return arguments;
  }
};

} // namespace

TEST(Recompute, ALayerKeepsWhatItCarries) {
  for (auto [first, reverse] :
       {std::pair("0", ""), {"2", ""}, {"0", "reverse"}}) {
    Compared c(layers(first, reverse), {"layer"});
    EXPECT_EQ(c.after, 3 * 2 * 3) << first << reverse;
    EXPECT_GT(c.before, c.after);
    // Dots of the forward pass again; those of gradients are not marked.
    EXPECT_EQ(countOf(*c.program.module, "dot", true), 2);
    EXPECT_EQ(countOf(*c.program.module, "softmax", true), 0);
    EXPECT_EQ(countOf(*c.program.module, "exp", true), 1);
  }
}

TEST(Recompute, ARegionKeepsWhatStandsOutside) {
  // The mlp's own values go; the softmax, outside of it, is saved.
  Compared c(layers(), {"layer/mlp"});
  EXPECT_LT(c.after, c.before);
  EXPECT_EQ(countOf(*c.program.module, "exp", true), 0);
  EXPECT_EQ(countOf(*c.program.module, "gelu", true) +
                countOf(*c.program.module, "dot", true),
            2);
}

TEST(Recompute, WhatIsSavedEndsTheWay) {
  Compared whole(layers(), {"layer"});
  Compared c(layers(), {"layer"}, {"layer/mlp/h"});
  // Six elements more for each of the three layers, and one dot less.
  EXPECT_EQ(c.after, whole.after + 3 * 2 * 4);
  EXPECT_EQ(countOf(*c.program.module, "dot", true), 1);
}

TEST(Recompute, LoopsInLoops) {
  Compared c(kNested, {"outer"});
  // What the outer loop carries, and the stack that its body reads itself.
  EXPECT_EQ(c.after, 3 * 2 + 2 * 2);
  // Once in the outer backward body, and in the inner one that stands in it.
  EXPECT_EQ(countOf(*c.program.module, "tanh", true), 2);
  EXPECT_GT(c.before, c.after);
  Compared inner(kNested, {"outer/inner"});
  EXPECT_LT(inner.after, inner.before);
}

TEST(Recompute, NothingIsSelectedNothingChanges) {
  Compared c(layers(), {"elsewhere"});
  EXPECT_EQ(c.after, c.before);
  EXPECT_EQ(countOf(*c.program.module, "dot", true), 0);
  // Values outside repeats are left.
  Compared top(layers(), {"/"});
  EXPECT_EQ(top.after, top.before);
}

TEST(Recompute, APlansSelections) {
  Program program(layers());
  decompose(*program.module);
  simplify(*program.module);
  layout::Plan plan;
  int64_t before = savedElements(*program.module);
  ASSERT_TRUE(succeeded(recompute(*program.module, plan)));
  EXPECT_EQ(savedElements(*program.module), before);
  layout::Selection all;
  plan.recomputed.push_back(all);
  ASSERT_TRUE(succeeded(recompute(*program.module, plan)));
  EXPECT_EQ(savedElements(*program.module), 3 * 2 * 3);
}
