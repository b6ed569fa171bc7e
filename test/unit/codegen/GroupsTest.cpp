//===- GroupsTest.cpp - Groups of operations as single kernels ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::test;

namespace {

/// Every width of e, then with b and k split unevenly over 3 x 2 devices.
/// `kernels` is how many the operations must become; -1: any number.
void checkGroup(const std::string &text, int kernels, Options options = {}) {
  for (int64_t n : {1, 15, 16, 17, 100}) {
    Instructions plan = check(text, {{"b", 3}, {"k", 5}, {"e", n}}, options);
    if (kernels >= 0) {
      EXPECT_EQ(plan.kernels, kernels);
    }
  }
  options.mesh.atoms = {{"data", 3}, {"tensor", 2}};
  options.splits = {{"b", {0}}, {"k", {1}}};
  check(text, {{"b", 2}, {"k", 5}, {"e", 33}}, options);
}

const char *layerNorm = R"(
    %n = clv.constant 0.03125 : f32 -> {f:}
    %eps = clv.constant 1.0e-5 : f32 -> {f:}
    %s = clv.reduce sum %x over ["e"] : ({b k e}) -> {b k}
    %mean = clv.mul %s, %n : ({b k}, {f:}) -> {b k}
    %d = clv.sub %x, %mean : ({b k e}, {b k}) -> {b k e}
    %d2 = clv.mul %d, %d : ({b k e}, {b k e}) -> {b k e}
    %v = clv.reduce sum %d2 over ["e"] : ({b k e}) -> {b k}
    %v1 = clv.mul %v, %n : ({b k}, {f:}) -> {b k}
    %v2 = clv.add %v1, %eps : ({b k}, {f:}) -> {b k}
    %r = clv.rsqrt %v2 : ({b k}) -> {b k}
    %h = clv.mul %d, %r : ({b k e}, {b k}) -> {b k e}
)";

TEST(Groups, AddAndLayerNormForward) {
  checkGroup(std::string(R"(func.func @f(%a: {b k e}, %c: {b k e}, %g: {e},
      %t: {e}) -> ({b k e}, {b k e}, {b k}) {
    %x = clv.add %a, %c : ({b k e}, {b k e}) -> {b k e}
  )") + layerNorm +
                 R"(
    %hg = clv.mul %h, %g : ({b k e}, {e}) -> {b k e}
    %y = clv.add %hg, %t : ({b k e}, {e}) -> {b k e}
    return %x, %y, %r : {b k e}, {b k e}, {b k}
  })",
             1);
}

TEST(Groups, LayerNormBackward) {
  // dx, and the gradients of gain and shift, in one kernel.
  std::string text = R"(func.func @f(%h: {b k e}, %r: {b k}, %g: {e},
      %dy: {b k e}, %res: {b k e}) -> ({b k e}, {e}, {e}) {
    %n = clv.constant 0.03125 : f32 -> {f:}
    %dh = clv.mul %dy, %g : ({b k e}, {e}) -> {b k e}
    %s1 = clv.reduce sum %dh over ["e"] : ({b k e}) -> {b k}
    %m1 = clv.mul %s1, %n : ({b k}, {f:}) -> {b k}
    %p = clv.mul %dh, %h : ({b k e}, {b k e}) -> {b k e}
    %s2 = clv.reduce sum %p over ["e"] : ({b k e}) -> {b k}
    %m2 = clv.mul %s2, %n : ({b k}, {f:}) -> {b k}
    %q = clv.mul %h, %m2 : ({b k e}, {b k}) -> {b k e}
    %u = clv.sub %dh, %m1 : ({b k e}, {b k}) -> {b k e}
    %w = clv.sub %u, %q : ({b k e}, {b k e}) -> {b k e}
    %dx0 = clv.mul %w, %r : ({b k e}, {b k}) -> {b k e}
    %dx = clv.add %dx0, %res : ({b k e}, {b k e}) -> {b k e}
    %gg = clv.mul %dy, %h : ({b k e}, {b k e}) -> {b k e}
    %dg = clv.reduce sum %gg over ["b", "k"] : ({b k e}) -> {e}
    %dt = clv.reduce sum %dy over ["b", "k"] : ({b k e}) -> {e}
    return %dx, %dg, %dt : {b k e}, {e}, {e}
  })";
  for (int64_t n : {1, 15, 16, 17, 100}) {
    Instructions plan = check(text, {{"b", 3}, {"k", 5}, {"e", n}});
    EXPECT_EQ(plan.kernels, 1);
  }
}

TEST(Groups, CausalSoftmaxForward) {
  checkGroup(R"(func.func @f(%x: {b k e}) -> {b k e} {
    %scale = clv.constant 0.25 : f32 -> {f:}
    %no = clv.constant -1.0e30 : f32 -> {f:}
    %i = clv.index -> {i: k}
    %j = clv.index -> {i: e}
    %ok = clv.less_equal %j, %i : ({i: e}, {i: k}) -> {p: e k}
    %mm = clv.mul %x, %scale : ({b k e}, {f:}) -> {b k e}
    %nn = clv.broadcast %no : ({f:}) -> {b k e}
    %okb = clv.broadcast %ok : ({p: e k}) -> {p: b k e}
    %m = clv.select %okb, %mm, %nn : ({p: b k e}, {b k e}, {b k e}) -> {b k e}
    %top = clv.reduce max %m over ["e"] : ({b k e}) -> {b k}
    %z = clv.sub %m, %top : ({b k e}, {b k}) -> {b k e}
    %ex = clv.exp %z : ({b k e}) -> {b k e}
    %sum = clv.reduce sum %ex over ["e"] : ({b k e}) -> {b k}
    %p = clv.div %ex, %sum : ({b k e}, {b k}) -> {b k e}
    return %p : {b k e}
  })",
             1);
}

TEST(Groups, SoftmaxBackward) {
  checkGroup(R"(func.func @f(%p: {b k e}, %g: {b k e}) -> {b k e} {
    %scale = clv.constant 0.25 : f32 -> {f:}
    %zero = clv.constant 0.0 : f32 -> {f:}
    %i = clv.index -> {i: k}
    %j = clv.index -> {i: e}
    %ok = clv.less_equal %j, %i : ({i: e}, {i: k}) -> {p: e k}
    %okb = clv.broadcast %ok : ({p: e k}) -> {p: b k e}
    %gp = clv.mul %g, %p : ({b k e}, {b k e}) -> {b k e}
    %s = clv.reduce sum %gp over ["e"] : ({b k e}) -> {b k}
    %d = clv.sub %g, %s : ({b k e}, {b k}) -> {b k e}
    %x = clv.mul %p, %d : ({b k e}, {b k e}) -> {b k e}
    %m = clv.select %okb, %x, %zero : ({p: b k e}, {b k e}, {f:}) -> {b k e}
    %y = clv.mul %m, %scale : ({b k e}, {f:}) -> {b k e}
    return %y : {b k e}
  })",
             1);
}

TEST(Groups, CrossEntropyWithIgnoredTargets) {
  // Loss of each row, its mean over the rows that count, and the gradient of
  // the logits. The mean is a kernel of its own: it sums over all rows first.
  Options options;
  options.data = [](unsigned argument, int64_t n) {
    return argument == 1 ? double(n % 4) - 1 : ((n * 29) % 17) * 0.3 - 2;
  };
  checkGroup(R"(func.func @f(%x: {b k e}, %t: {i: b k}, %g: {b k}) ->
      ({b k}, {b k e}, {b k}) {
    %zero = clv.constant 0 : i32 -> {i:}
    %fz = clv.constant 0.0 : f32 -> {f:}
    %valid = clv.less_equal %zero, %t : ({i:}, {i: b k}) -> {p: b k}
    %j = clv.index -> {i: e}
    %hit = clv.equal %t, %j : ({i: b k}, {i: e}) -> {p: b k e}
    %top = clv.reduce max %x over ["e"] : ({b k e}) -> {b k}
    %z = clv.sub %x, %top : ({b k e}, {b k}) -> {b k e}
    %ex = clv.exp %z : ({b k e}) -> {b k e}
    %sum = clv.reduce sum %ex over ["e"] : ({b k e}) -> {b k}
    %l = clv.log %sum : ({b k}) -> {b k}
    %lse = clv.add %l, %top : ({b k}, {b k}) -> {b k}
    %pk = clv.select %hit, %x, %fz : ({p: b k e}, {b k e}, {f:}) -> {b k e}
    %pick = clv.reduce sum %pk over ["e"] : ({b k e}) -> {b k}
    %raw = clv.sub %lse, %pick : ({b k}, {b k}) -> {b k}
    %loss = clv.select %valid, %raw, %fz : ({p: b k}, {b k}, {f:}) -> {b k}
    %gv = clv.select %valid, %g, %fz : ({p: b k}, {b k}, {f:}) -> {b k}
    %q = clv.div %ex, %sum : ({b k e}, {b k}) -> {b k e}
    %one = clv.cast %hit : ({p: b k e}) -> {b k e}
    %qd = clv.sub %q, %one : ({b k e}, {b k e}) -> {b k e}
    %dx = clv.mul %qd, %gv : ({b k e}, {b k}) -> {b k e}
    return %loss, %dx, %lse : {b k}, {b k e}, {b k}
  })",
             1, options);
}

TEST(Groups, SumOfLossesAndCounts) {
  std::string text = R"(func.func @f(%x: {b k e}, %t: {i: b k}) ->
      ({f:}, {f:}) {
    %zero = clv.constant 2 : i32 -> {i:}
    %fz = clv.constant 0.0 : f32 -> {f:}
    %valid = clv.less_equal %zero, %t : ({i:}, {i: b k}) -> {p: b k}
    %s = clv.reduce sum %x over ["e"] : ({b k e}) -> {b k}
    %sq = clv.mul %s, %s : ({b k}, {b k}) -> {b k}
    %l = clv.select %valid, %sq, %fz : ({p: b k}, {b k}, {f:}) -> {b k}
    %total = clv.reduce sum %l over ["b", "k"] : ({b k}) -> {f:}
    %c = clv.cast %valid : ({p: b k}) -> {b k}
    %count = clv.reduce sum %c over ["k", "b"] : ({b k}) -> {f:}
    %mean = clv.div %total, %count : ({f:}, {f:}) -> {f:}
    return %mean, %total : {f:}, {f:}
  })";
  for (int64_t n : {1, 15, 16, 17, 100}) {
    check(text, {{"b", 3}, {"k", 5}, {"e", n}});
  }
}

TEST(Groups, GeluForwardAndBackward) {
  checkGroup(R"(func.func @f(%x: {b k e}, %g: {b k e}) ->
      ({b k e}, {b k e}) {
    %y = clv.gelu %x : ({b k e}) -> {b k e}
    %a = clv.constant 0.70710678 : f32 -> {f:}
    %h = clv.constant 0.5 : f32 -> {f:}
    %c = clv.constant 0.39894228 : f32 -> {f:}
    %one = clv.constant 1.0 : f32 -> {f:}
    %xa = clv.mul %x, %a : ({b k e}, {f:}) -> {b k e}
    %er = clv.erf %xa : ({b k e}) -> {b k e}
    %e1 = clv.add %er, %one : ({b k e}, {f:}) -> {b k e}
    %cdf = clv.mul %e1, %h : ({b k e}, {f:}) -> {b k e}
    %xx = clv.mul %x, %x : ({b k e}, {b k e}) -> {b k e}
    %xh = clv.mul %xx, %h : ({b k e}, {f:}) -> {b k e}
    %xn = clv.neg %xh : ({b k e}) -> {b k e}
    %ex = clv.exp %xn : ({b k e}) -> {b k e}
    %pd = clv.mul %ex, %c : ({b k e}, {f:}) -> {b k e}
    %xp = clv.mul %x, %pd : ({b k e}, {b k e}) -> {b k e}
    %dd = clv.add %cdf, %xp : ({b k e}, {b k e}) -> {b k e}
    %dx = clv.mul %g, %dd : ({b k e}, {b k e}) -> {b k e}
    return %y, %dx : {b k e}, {b k e}
  })",
             1);
}

TEST(Groups, GradientNorm) {
  checkGroup(R"(func.func @f(%x: {b k e}, %y: {e}) -> ({f:}, {b k e}) {
    %xx = clv.mul %x, %x : ({b k e}, {b k e}) -> {b k e}
    %yy = clv.mul %y, %y : ({e}, {e}) -> {e}
    %sy = clv.reduce sum %yy over ["e"] : ({e}) -> {f:}
    %n = clv.sqrt %sy : ({f:}) -> {f:}
    %z = clv.mul %x, %n : ({b k e}, {f:}) -> {b k e}
    return %n, %z : {f:}, {b k e}
  })",
             -1);
}

TEST(Groups, ReductionsThatDoNotFitTogether) {
  // Over e, then over k of the result, then back: several kernels, right.
  for (int64_t n : {1, 15, 16, 17, 100}) {
    check(R"(func.func @f(%x: {b k e}) -> ({b k e}, {b e}) {
      %s = clv.reduce sum %x over ["e"] : ({b k e}) -> {b k}
      %a = clv.add %x, %s : ({b k e}, {b k}) -> {b k e}
      %m = clv.reduce max %a over ["k"] : ({b k e}) -> {b e}
      %c = clv.sub %a, %m : ({b k e}, {b e}) -> {b k e}
      %u = clv.exp %m : ({b e}) -> {b e}
      return %c, %u : {b k e}, {b e}
    })",
          {{"b", 3}, {"k", 5}, {"e", n}});
  }
}

TEST(Groups, NoKernelWaitsForItself) {
  // b depends on a through the contraction: they cannot be one kernel.
  Instructions plan = check(R"(func.func @f(%x: {b e}, %w: {e k}) ->
      ({b e}, {b k}) {
    %a = clv.exp %x : ({b e}) -> {b e}
    %d = clv.dot %a, %w over ["e"] : ({b e}, {e k}) -> {b k}
    %s = clv.reduce sum %d over ["k"] : ({b k}) -> {b}
    %c = clv.mul %a, %s : ({b e}, {b}) -> {b e}
    return %c, %d : {b e}, {b k}
  })",
                            {{"b", 3}, {"e", 20}, {"k", 5}});
  EXPECT_EQ(plan.contractions, 1);
}

TEST(Groups, RepeatWithCarriedStackedAndCaptured) {
  for (std::string reverse : {"", " reverse"}) {
    Instructions plan =
        check(R"(func.func @f(%x: {b e}, %w: {l e}, %g: {b e}) ->
        ({b e}, {l b e}, {b e}, {e}) {
      %zero = clv.constant 0.0 : f32 -> {f:}
      %z = clv.broadcast %zero : ({f:}) -> {b e}
      %r:4 = clv.repeat %i of "l" from 3 count 4)" +
                  reverse + R"(
          carried(%c = %x : {b e}, %d = %z : {b e})
          stacked(%ws = %w : {l e} slice {e})
          -> ({b e}, {b e}, {l b e}, {l e}) {
        %k = clv.cast %i : ({i:}) -> {f:}
        %0 = clv.mul %c, %ws : ({b e}, {e}) -> {b e}
        %1 = clv.add %0, %g : ({b e}, {b e}) -> {b e}
        %2 = clv.mul %1, %k : ({b e}, {f:}) -> {b e}
        %3 = clv.add %d, %2 : ({b e}, {b e}) -> {b e}
        %4 = clv.reduce sum %2 over ["b"] : ({b e}) -> {e}
        clv.yield %1, %3, %2, %4 : {b e}, {b e}, {b e}, {e}
      }
      %s = clv.reduce sum %r#3 over ["l"] : ({l e}) -> {e}
      return %r#0, %r#2, %r#1, %s : {b e}, {l b e}, {b e}, {e}
    })",
              {{"b", 3}, {"e", 20}, {"l", 4}});
    // Only the input is copied: it must not be written.
    EXPECT_EQ(plan.moves, 1);
  }
}

TEST(Groups, RepeatThatSwaps) {
  check(R"(func.func @f(%x: {b}, %y: {b}) -> ({b}, {b}, {l b}, {l b}) {
    %r:4 = clv.repeat %i of "l" from 0 count 4
        carried(%c = %x : {b}, %d = %y : {b})
        -> ({b}, {b}, {l b}, {l b}) {
      %0 = clv.add %c, %d : ({b}, {b}) -> {b}
      clv.yield %d, %0, %c, %0 : {b}, {b}, {b}, {b}
    }
    return %r#0, %r#1, %r#2, %r#3 : {b}, {b}, {l b}, {l b}
  })",
        {{"b", 20}, {"l", 4}});
}

TEST(Groups, NotInPlaceWhatALaterPhaseReads) {
  // y could take the memory of c in the first phase, but z reads c in the
  // second.
  check(R"(func.func @f(%x: {b e}) -> ({b e}, {l b e}) {
    %two = clv.constant 0.5 : f32 -> {f:}
    %r:2 = clv.repeat %i of "l" from 0 count 4
        carried(%c = %x : {b e}) -> ({b e}, {l b e}) {
      %y = clv.mul %c, %two : ({b e}, {f:}) -> {b e}
      %s = clv.reduce sum %c over ["e"] : ({b e}) -> {b}
      %z = clv.sub %c, %s : ({b e}, {b}) -> {b e}
      clv.yield %y, %z : {b e}, {b e}
    }
    return %r#0, %r#1 : {b e}, {l b e}
  })",
        {{"b", 3}, {"e", 20}, {"l", 4}});
}

TEST(Groups, AdamW) {
  // One kernel for the scalars of the step, one for the parameter.
  Options options;
  options.data = [](unsigned argument, int64_t n) {
    return argument == 4 ? 3 : 0.1 + (n * 7 + argument) % 11 * 0.05;
  };
  std::string text = R"(func.func @f(%p: {b k e}, %g: {b k e}, %m: {b k e},
      %v: {b k e}, %step: {i:}) -> ({b k e}, {b k e}, {b k e}) {
    %b1 = clv.constant 0.9 : f32 -> {f:}
    %b2 = clv.constant 0.999 : f32 -> {f:}
    %o1 = clv.constant 0.1 : f32 -> {f:}
    %o2 = clv.constant 0.001 : f32 -> {f:}
    %one = clv.constant 1.0 : f32 -> {f:}
    %lr = clv.constant 0.01 : f32 -> {f:}
    %eps = clv.constant 1.0e-8 : f32 -> {f:}
    %t = clv.cast %step : ({i:}) -> {f:}
    %m1 = clv.mul %m, %b1 : ({b k e}, {f:}) -> {b k e}
    %m2 = clv.mul %g, %o1 : ({b k e}, {f:}) -> {b k e}
    %mn = clv.add %m1, %m2 : ({b k e}, {b k e}) -> {b k e}
    %v1 = clv.mul %v, %b2 : ({b k e}, {f:}) -> {b k e}
    %v2 = clv.mul %g, %o2 : ({b k e}, {f:}) -> {b k e}
    %v3 = clv.mul %v2, %g : ({b k e}, {b k e}) -> {b k e}
    %vn = clv.add %v1, %v3 : ({b k e}, {b k e}) -> {b k e}
    %p1 = clv.pow %b1, %t : ({f:}, {f:}) -> {f:}
    %p2 = clv.sub %one, %p1 : ({f:}, {f:}) -> {f:}
    %p3 = clv.pow %b2, %t : ({f:}, {f:}) -> {f:}
    %p4 = clv.sub %one, %p3 : ({f:}, {f:}) -> {f:}
    %mh = clv.div %mn, %p2 : ({b k e}, {f:}) -> {b k e}
    %vh = clv.div %vn, %p4 : ({b k e}, {f:}) -> {b k e}
    %sq = clv.sqrt %vh : ({b k e}) -> {b k e}
    %se = clv.add %sq, %eps : ({b k e}, {f:}) -> {b k e}
    %q = clv.div %mh, %se : ({b k e}, {b k e}) -> {b k e}
    %dp = clv.mul %p, %o1 : ({b k e}, {f:}) -> {b k e}
    %u = clv.add %q, %dp : ({b k e}, {b k e}) -> {b k e}
    %ul = clv.mul %u, %lr : ({b k e}, {f:}) -> {b k e}
    %pn = clv.sub %p, %ul : ({b k e}, {b k e}) -> {b k e}
    return %pn, %mn, %vn : {b k e}, {b k e}, {b k e}
  })";
  checkGroup(text, 2, options);
  options.native = false;
  checkGroup(text, 2, options);
}

TEST(Groups, NestedRepeats) {
  check(R"(func.func @f(%x: {b}, %w: {l m b}) -> ({b}, {l m b}) {
    %r:2 = clv.repeat %i of "l" from 0 count 4
        carried(%c = %x : {b}) stacked(%s = %w : {l m b} slice {m b})
        -> ({b}, {l m b}) {
      %q:2 = clv.repeat %j of "m" from 0 count 3 reverse
          carried(%cc = %c : {b}) stacked(%t = %s : {m b} slice {b})
          -> ({b}, {m b}) {
        %k = clv.add %i, %j : ({i:}, {i:}) -> {i:}
        %kf = clv.cast %k : ({i:}) -> {f:}
        %0 = clv.mul %cc, %t : ({b}, {b}) -> {b}
        %1 = clv.add %0, %kf : ({b}, {f:}) -> {b}
        clv.yield %1, %0 : {b}, {b}
      }
      clv.yield %q#0, %q#1 : {b}, {m b}
    }
    return %r#0, %r#1 : {b}, {l m b}
  })",
        {{"b", 20}, {"l", 4}, {"m", 3}});
}

} // namespace
