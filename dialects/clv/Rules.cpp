//===- Rules.cpp - The sharding rule of each operation --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only place that knows how an operation may be split. Rule.h says what the
// words mean.
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

static FactorKind kindOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return FactorKind::Sum;
  case Reduction::Max:
    return FactorKind::Max;
  case Reduction::Min:
    return FactorKind::Min;
  }
  llvm_unreachable("unknown reduction");
}

/// One factor for each dim name of the operands and results, all Parallel.
static Rule byName(Operation *op) {
  Rule rule;
  auto collect = [&](Value value) {
    for (StringRef name : dimsOf(value)) {
      if (!llvm::any_of(rule.factors,
                        [&](const Factor &f) { return f.name == name; })) {
        Factor factor;
        factor.name = name.str();
        for (Value operand : op->getOperands()) {
          factor.operands.push_back(findDim(operand.getType(), name));
        }
        for (Value result : op->getResults()) {
          factor.results.push_back(findDim(result.getType(), name));
        }
        rule.factors.push_back(std::move(factor));
      }
    }
  };
  llvm::for_each(op->getOperands(), collect);
  llvm::for_each(op->getResults(), collect);
  rule.passesSum.assign(op->getNumOperands(), false);
  return rule;
}

static Rule identity(Operation *op) {
  Rule rule = byName(op);
  rule.passesSum[0] = true;
  return rule;
}

static void setKind(Rule &rule, StringRef name, FactorKind kind) {
  for (Factor &factor : rule.factors) {
    if (factor.name == name) {
      factor.kind = kind;
    }
  }
}

static void setKinds(Rule &rule, ArrayAttr names, FactorKind kind) {
  for (Attribute name : names) {
    setKind(rule, cast<StringAttr>(name).getValue(), kind);
  }
}

static bool isZero(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    return isZero(broadcast.getX());
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  auto number =
      constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  return number && number.getValue().isZero();
}

Rule clv::elementwiseRule(Operation *op, Elementwise function) {
  Rule rule = byName(op);
  switch (function) {
  case Elementwise::Add:
  case Elementwise::Sub:
    rule.additive = true;
    break;
  case Elementwise::Mul:
    rule.passesSum = {true, true};
    break;
  case Elementwise::Div:
    rule.passesSum = {true, false};
    break;
  case Elementwise::Neg:
  case Elementwise::Identity:
    rule.passesSum = {true};
    break;
  case Elementwise::Select:
    // Linear in both branches together, and in one where the other is zero.
    rule.additive = true;
    rule.passesSum = {false, isZero(op->getOperand(2)),
                      isZero(op->getOperand(1))};
    break;
  default:
    break;
  }
  return rule;
}

Rule ConstantOp::getRule() { return byName(*this); }
Rule IndexOp::getRule() { return byName(*this); }
Rule RandomOp::getRule() { return byName(*this); }
Rule BroadcastOp::getRule() { return identity(*this); }
Rule EdgeOp::getRule() { return identity(*this); }
Rule WeightOp::getRule() { return identity(*this); }
Rule GradientOp::getRule() { return identity(*this); }

Rule ReduceOp::getRule() {
  Rule rule = byName(*this);
  setKinds(rule, getOver(), kindOf(getKind()));
  rule.passesSum[0] = getKind() == Reduction::Sum;
  return rule;
}

Rule DotOp::getRule() {
  Rule rule = byName(*this);
  setKinds(rule, getOver(), FactorKind::Sum);
  rule.passesSum = {true, true};
  return rule;
}

Rule LookupOp::getRule() {
  Rule rule = byName(*this);
  setKind(rule, getDim(), FactorKind::Sum);
  rule.passesSum = {true, false};
  return rule;
}

Rule ScatterAddOp::getRule() {
  Rule rule = byName(*this);
  for (StringRef name : dimsOf(getIds())) {
    setKind(rule, name, FactorKind::Sum);
  }
  rule.passesSum = {true, false};
  return rule;
}

Rule CumsumOp::getRule() {
  Rule rule = byName(*this);
  setKind(rule, getDim(), FactorKind::Whole);
  rule.passesSum = {true};
  return rule;
}

Rule ExtremeOp::getRule() {
  Rule rule = byName(*this);
  setKind(rule, getDim(), FactorKind::Min);
  return rule;
}

Rule SoftmaxOp::getRule() {
  Rule rule = byName(*this);
  setKinds(rule, getOver(), FactorKind::Whole);
  return rule;
}

Rule LogsumexpOp::getRule() {
  Rule rule = byName(*this);
  setKinds(rule, getOver(), FactorKind::Whole);
  return rule;
}

/// Of attention: dims that the result lacks are summed; a score needs all of
/// `over`, and its gradient all of the features.
static Rule attentionRule(AttentionInterface op, bool wantsFeatures) {
  Rule rule = byName(op);
  for (Factor &factor : rule.factors) {
    if (factor.results.front() < 0) {
      factor.kind = FactorKind::Sum;
    }
  }
  if (wantsFeatures) {
    for (StringRef name : featureDims(op)) {
      setKind(rule, name, FactorKind::Whole);
    }
  }
  setKinds(rule, op.getOver(), FactorKind::Whole);
  return rule;
}

Rule AttentionSumOp::getRule() {
  Rule rule = attentionRule(*this, false);
  setKind(rule, getKeys(), FactorKind::Whole);
  return rule;
}
Rule AttentionOp::getRule() {
  Rule rule = attentionRule(*this, false);
  rule.passesSum[2] = true;
  return rule;
}
Rule AttentionQueryGradientOp::getRule() { return attentionRule(*this, true); }
Rule AttentionKeyGradientOp::getRule() { return attentionRule(*this, true); }
Rule AttentionValueGradientOp::getRule() {
  Rule rule = attentionRule(*this, false);
  rule.passesSum[3] = true;
  return rule;
}

Rule RenameOp::getRule() {
  // Position by position: a factor has one name in x and another in the result.
  Rule rule;
  SmallVector<StringRef> names = dimsOf(getResult());
  for (auto [position, name] : llvm::enumerate(names)) {
    int at = static_cast<int>(position);
    rule.factors.push_back({name.str(), FactorKind::Parallel, {at}, {at}});
  }
  rule.passesSum = {true};
  return rule;
}

/// Of slice and pad, position by position: the dim they change is a window.
static Rule windowRule(Operation *op, StringRef dim, int64_t offset) {
  Rule rule;
  for (auto [position, name] : llvm::enumerate(dimsOf(op->getOperand(0)))) {
    int at = static_cast<int>(position);
    rule.factors.push_back({name.str(), FactorKind::Parallel, {at}, {at}});
    if (name == dim) {
      rule.factors.back().kind = FactorKind::Window;
      rule.factors.back().offset = offset;
    }
  }
  rule.passesSum = {true};
  return rule;
}

Rule SliceOp::getRule() {
  return windowRule(*this, getDim(), -static_cast<int64_t>(getFirst()));
}
Rule PadOp::getRule() {
  return windowRule(*this, getDim(), static_cast<int64_t>(getFirst()));
}
