//===- DecideTest.cpp - Rule 3, one operation at a time -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Decide.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::layout;
using namespace cleave::partitioning;
using clv::FactorKind;

namespace {

using Atoms = std::vector<AtomId>;

/// dot(x[batch, embed], w[embed, ff] over embed) or add(x, y), on a mesh of
/// atoms 0 and 1.
struct Case {
  Mesh mesh;
  reshard::Cache cache;
  Query query;

  Case() {
    mesh.atoms = {{"d", 2}, {"t", 4}};
    mesh.axes = {{"d", {0}}, {"t", {1}}};
  }

  static Layout layoutOf(std::vector<Atoms> dims, Atoms partial = {}) {
    Layout layout;
    for (Atoms &atoms : dims) {
      layout.dims.emplace_back();
      layout.dims.back().atoms = std::move(atoms);
    }
    layout.partial = std::move(partial);
    return layout;
  }
  void operand(const Layout &now, const Layout &declared = {}) {
    OperandState state;
    state.now = now;
    state.declared = now.isPartial() ? declared : now;
    state.subject = {std::vector<int64_t>(now.dims.size(), 8), 4, &mesh};
    query.operands.push_back(state);
  }
  void result(const Layout &layout) {
    query.result = layout;
    query.subject = {std::vector<int64_t>(layout.dims.size(), 8), 4, &mesh};
  }
  void dot() {
    query.rule.factors = {{"batch", FactorKind::Parallel, {0, -1}, {0}},
                          {"embed", FactorKind::Sum, {1, 0}, {-1}},
                          {"ff", FactorKind::Parallel, {-1, 1}, {1}}};
    query.rule.passesSum = {true, true};
  }
  void add() {
    query.rule.factors = {{"a", FactorKind::Parallel, {0, 0}, {0}},
                          {"b", FactorKind::Parallel, {1, 1}, {1}}};
    query.rule.passesSum = {false, false};
    query.rule.additive = true;
  }
  Decision decide() { return partitioning::decide(query, cache); }
};

Layout of(std::vector<Atoms> dims, Atoms partial = {}) {
  return Case::layoutOf(std::move(dims), std::move(partial));
}

} // namespace

TEST(Decide, SplitsWhereOperandsAreOrSlicesThem) {
  Case c;
  c.dot();
  c.operand(of({{0}, {}})); // x [batch: d, embed]
  c.operand(of({{1}, {}})); // w [embed: t, ff]
  c.result(of({{0}, {}}));  // [batch: d, ff]
  Decision found = c.decide();
  EXPECT_EQ(found.operands[0], of({{0}, {1}})) << "t is free in x: a slice";
  EXPECT_EQ(found.operands[1], of({{1}, {}}));
  EXPECT_EQ(found.natural, of({{0}, {}}, {1}));
}

TEST(Decide, WhatNoOperandSplitsFollowsTheResult) {
  Case c;
  c.dot();
  c.operand(of({{0}, {}}));
  c.operand(of({{}, {}}));
  c.result(of({{0}, {1}}));
  Decision found = c.decide();
  EXPECT_EQ(found.operands[1], of({{}, {1}}));
  EXPECT_EQ(found.natural, of({{0}, {1}}));
  EXPECT_EQ(found.total, 0);
}

TEST(Decide, TheResultTakesNoAtomFromAnOperand) {
  // embed keeps t; the sum is scattered. Gathering w would compute it all on
  // every device of t.
  Case c;
  c.dot();
  c.operand(of({{}, {1}}));
  c.operand(of({{1}, {}}));
  c.result(of({{1}, {}}));
  Decision found = c.decide();
  EXPECT_EQ(found.operands[0], of({{}, {1}}));
  EXPECT_EQ(found.natural, of({{}, {}}, {1}));
}

TEST(Decide, TwoFactorsThatWantOneAtom) {
  // x [batch: d, …] and w [embed: d, …]: the result has batch on d, so w moves.
  Case c;
  c.dot();
  c.operand(of({{0}, {}}));
  c.operand(of({{0}, {}}));
  c.result(of({{0}, {}}));
  EXPECT_EQ(c.decide().operands[1], of({{}, {}}));
  // ff on d in w and in the result: then x moves.
  Case e;
  e.dot();
  e.operand(of({{0}, {}}));
  e.operand(of({{}, {0}}));
  e.result(of({{}, {0}}));
  EXPECT_EQ(e.decide().operands[0], of({{}, {}}));
  // Neither: the earlier operand keeps it.
  Case n;
  n.dot();
  n.operand(of({{0}, {}}));
  n.operand(of({{}, {0}}));
  n.result(of({{}, {}}));
  EXPECT_EQ(n.decide().operands[1], of({{}, {}}));
}

TEST(Decide, OneFactorSplitInTwoWays) {
  // The longer split of the same major atoms wins.
  Case c;
  c.add();
  c.operand(of({{0}, {}}));
  c.operand(of({{0, 1}, {}}));
  c.result(of({{0}, {}}));
  EXPECT_EQ(c.decide().operands[0], of({{0, 1}, {}}));
  // Else the result decides, else the earlier operand.
  Case r;
  r.add();
  r.operand(of({{0}, {}}));
  r.operand(of({{1}, {}}));
  r.result(of({{1}, {}}));
  EXPECT_EQ(r.decide().operands[0], of({{1}, {}}));
  r.result(of({{}, {}}));
  EXPECT_EQ(r.decide().operands[1], of({{0}, {}}));
}

TEST(Decide, WholeFactorsAreGathered) {
  Case c;
  c.add();
  c.query.rule.factors[1].kind = FactorKind::Whole;
  c.operand(of({{0}, {1}}));
  c.operand(of({{0}, {}}));
  c.result(of({{0}, {1}}));
  Decision found = c.decide();
  EXPECT_EQ(found.operands[0], of({{0}, {}}));
  EXPECT_EQ(found.natural, of({{0}, {}}));
}

TEST(Decide, PendingTogether) {
  // One reduction of the sum instead of two.
  Case c;
  c.add();
  c.operand(of({{0}, {}}, {1}), of({{0}, {}}));
  c.operand(of({{0}, {}}, {1}), of({{0}, {}}));
  c.result(of({{0}, {}}));
  EXPECT_EQ(c.decide().natural, of({{0}, {}}, {1}));
  // Only what both are pending over.
  Case d;
  d.add();
  d.operand(of({{}, {}}, {0, 1}), of({{}, {}}));
  d.operand(of({{}, {}}, {1}), of({{}, {}}));
  d.result(of({{}, {}}));
  EXPECT_EQ(d.decide().operands[0], of({{}, {}}, {1}));
  EXPECT_EQ(d.decide().natural, of({{}, {}}, {1}));
  // Not with a value that is the same on every device.
  Case e;
  e.add();
  e.operand(of({{}, {}}, {1}), of({{}, {}}));
  e.operand(of({{}, {}}));
  e.result(of({{}, {}}));
  EXPECT_EQ(e.decide().operands[0], of({{}, {}}));
}

TEST(Decide, PendingIsPutOffOnlyIfThatSendsNoMore) {
  // w makes the result four times as large: reduce x first.
  Case c;
  c.dot();
  c.operand(of({{}, {}}, {1}), of({{}, {}}));
  c.operand(of({{}, {}}));
  c.result(of({{}, {}}));
  c.query.operands[1].subject.sizes = {8, 32};
  c.query.subject.sizes = {8, 32};
  EXPECT_EQ(c.decide().operands[0], of({{}, {}}));
  // It makes it smaller: after.
  c.query.operands[1].subject.sizes = {8, 2};
  c.query.subject.sizes = {8, 2};
  EXPECT_EQ(c.decide().operands[0], of({{}, {}}, {1}));
}

TEST(Decide, APendingAtomIsNotFree) {
  // w is split on the atom that x is pending over: x is reduced first.
  Case c;
  c.dot();
  c.operand(of({{}, {}}, {1}), of({{}, {}}));
  c.operand(of({{}, {1}}));
  c.result(of({{}, {1}}));
  EXPECT_EQ(c.decide().operands[0], of({{}, {}}));
  // The result follows on that atom only after it is reduced: scattered.
  Case d;
  d.dot();
  d.operand(of({{}, {}}, {1}), of({{}, {}}));
  d.operand(of({{}, {}}));
  d.result(of({{}, {1}}));
  EXPECT_EQ(d.decide().natural, of({{}, {}}, {1}));
}

TEST(Decide, MaximaArePendingToo) {
  Case c;
  c.query.rule.factors = {{"a", FactorKind::Parallel, {0}, {0}},
                          {"b", FactorKind::Max, {1}, {-1}}};
  c.query.rule.passesSum = {false};
  c.operand(of({{0}, {1}}));
  c.result(of({{0}}));
  Decision found = c.decide();
  EXPECT_EQ(found.natural.partial, Atoms{1});
  EXPECT_EQ(found.natural.reduction, Reduction::Max);
}

namespace {

/// A window of a dim of 16 elements, or on one, over the four devices of t.
Case windowCase(int64_t size, int64_t offset, int64_t resultSize,
                const Layout &now, const Layout &declared) {
  Case c;
  c.query.rule.factors = {{"m", FactorKind::Window, {0}, {0}, offset}};
  c.query.rule.passesSum = {true};
  c.operand(now);
  c.result(declared);
  c.query.operands[0].subject.sizes = {size};
  c.query.subject.sizes = {resultSize};
  return c;
}

Layout withCuts(std::vector<int64_t> cuts) {
  Layout layout = of({{1}});
  layout.dims[0].cuts = std::move(cuts);
  return layout;
}

} // namespace

TEST(Decide, AWindowIsCutAsItsOperand) {
  // slice(m, 1 .. 16), declared whole: the pieces of the window are gathered.
  Case c = windowCase(16, -1, 15, of({{1}}), of({{}}));
  c.query.operands[0].subject.mesh = c.query.subject.mesh = &c.mesh;
  Decision found = c.decide();
  EXPECT_EQ(found.operands[0], of({{1}}));
  EXPECT_EQ(found.natural, withCuts({0, 3, 7, 11, 15}));
  EXPECT_EQ(found.total, 15 * 3 * 2 * 4) << "not 16: twice, for d, over t";
  // Its readers are windows: nothing is sent.
  c.query.resultStays = true;
  EXPECT_EQ(c.decide().total, 0);
}

TEST(Decide, AWindowIsCutAsItsResult) {
  // pad(m[4: t], at 2 of 16): elements 1, 2 and 3 move before there are zeros
  // around them, not after.
  Case c = windowCase(4, 2, 16, of({{1}}), of({{1}}));
  c.query.operands[0].subject.mesh = c.query.subject.mesh = &c.mesh;
  Decision found = c.decide();
  EXPECT_EQ(found.natural, of({{1}}));
  EXPECT_EQ(found.operands[0], withCuts({0, 2, 4, 4, 4}));
  EXPECT_EQ(found.total, 3 * 2 * 4);
}

TEST(Decide, AWindowIsWholeWhereThatSendsLess) {
  // pad(m[4: t], of 16), declared whole: 4 elements are gathered, not 16.
  Case c = windowCase(4, 2, 16, of({{1}}), of({{}}));
  c.query.operands[0].subject.mesh = c.query.subject.mesh = &c.mesh;
  Decision found = c.decide();
  EXPECT_EQ(found.operands[0], of({{}}));
  EXPECT_EQ(found.natural, of({{}}));
  EXPECT_EQ(found.total, 4 * 3 * 2 * 4);
}
