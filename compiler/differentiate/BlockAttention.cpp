//===- BlockAttention.cpp - Attention that keeps no scores ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"

#include "dialects/clv/Clv.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

/// Attention as it is spelled out.
struct Spelled {
  DotOp last; ///< weights with values
  SoftmaxOp soft;
  DotOp scores; ///< queries with keys
  Value query, key, value;
  StringRef seq, keys;
  double scale = 1;
  bool causal = false;
  int64_t ahead = 0;
};

/// What a hidden score must be below, so that its weight is 0 beside any score
/// that is seen.
constexpr double kHidden = -1e29;

} // namespace

static Value behindBroadcasts(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    value = broadcast.getX();
  }
  return value;
}

static std::optional<double> numberOf(Value value) {
  auto constant = behindBroadcasts(value).getDefiningOp<ConstantOp>();
  auto number =
      constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  return number ? std::optional<double>(number.getValueAsDouble())
                : std::nullopt;
}

static bool has(Value value, StringRef dim) {
  return findDim(value.getType(), dim) >= 0;
}

static StringRef onlyName(ArrayAttr names) {
  return names.size() == 1 ? cast<StringAttr>(names[0]).getValue() : "";
}

/// Takes off a mask: index(keys) <= index(seq), with each index alone.
static bool takeMask(Spelled &pattern, Value &score) {
  auto select = score.getDefiningOp<SelectOp>();
  if (!select) {
    return true;
  }
  std::optional<double> fill = numberOf(select.getRhs());
  auto test =
      behindBroadcasts(select.getCondition()).getDefiningOp<LessEqualOp>();
  if (!fill || *fill > kHidden || !test || !select->hasOneUse()) {
    return false;
  }
  auto later = behindBroadcasts(test.getLhs()).getDefiningOp<IndexOp>();
  auto own = behindBroadcasts(test.getRhs()).getDefiningOp<IndexOp>();
  if (!later || !own || dimsOf(later.getResult())[0] != pattern.keys) {
    return false;
  }
  pattern.causal = true;
  pattern.seq = dimsOf(own.getResult())[0];
  pattern.ahead = static_cast<int64_t>(own.getFirst()) -
                  static_cast<int64_t>(later.getFirst());
  score = select.getLhs();
  // Each query must see a key: a row of hidden scores has even weights.
  return pattern.ahead >= 0;
}

/// Takes off a factor.
static bool takeScale(Spelled &pattern, Value &score) {
  Operation *op = score.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op)) {
    return true;
  }
  std::optional<double> left = numberOf(op->getOperand(0));
  std::optional<double> right = numberOf(op->getOperand(1));
  if (!score.hasOneUse() || (isa<DivOp>(op) ? !right : !left && !right)) {
    return false;
  }
  pattern.scale = isa<DivOp>(op) ? 1 / *right : right ? *right : *left;
  score = op->getOperand(right ? 0 : 1);
  return true;
}

/// Tells queries from keys, and finds the dim of the queries: that of the mask,
/// else the largest that queries alone have.
static bool findSides(Spelled &pattern) {
  pattern.query = pattern.scores.getLhs();
  pattern.key = pattern.scores.getRhs();
  if (has(pattern.query, pattern.keys)) {
    std::swap(pattern.query, pattern.key);
  }
  if (has(pattern.query, pattern.keys) || !has(pattern.key, pattern.keys)) {
    return false;
  }
  auto isOfQueries = [&](StringRef name) {
    return has(pattern.query, name) && !has(pattern.key, name) &&
           !has(pattern.value, name);
  };
  if (pattern.causal) {
    return isOfQueries(pattern.seq);
  }
  int64_t largest = 0;
  for (StringRef name : dimsOf(pattern.query)) {
    int64_t size = sizeOf(pattern.query.getType(), name);
    if (isOfQueries(name) && size > largest) {
      pattern.seq = name;
      largest = size;
    }
  }
  return largest > 0;
}

static std::optional<Spelled> match(DotOp last) {
  Spelled pattern;
  pattern.last = last;
  pattern.keys = onlyName(last.getOver());
  pattern.soft = last.getLhs().getDefiningOp<SoftmaxOp>();
  pattern.value = last.getRhs();
  if (!pattern.soft) {
    pattern.soft = last.getRhs().getDefiningOp<SoftmaxOp>();
    pattern.value = last.getLhs();
  }
  if (!pattern.soft || pattern.keys.empty() || !pattern.soft->hasOneUse() ||
      onlyName(pattern.soft.getOver()) != pattern.keys ||
      !cast<RankedTensorType>(last.getType()).getElementType().isF32()) {
    return std::nullopt;
  }
  Value score = pattern.soft.getX();
  if (!takeMask(pattern, score) || !takeScale(pattern, score)) {
    return std::nullopt;
  }
  pattern.scores = score.getDefiningOp<DotOp>();
  if (!pattern.scores || !score.hasOneUse() || !findSides(pattern)) {
    return std::nullopt;
  }
  return pattern;
}

/// The scope of a value of the same region, without a label.
static ScopeAttr unlabelled(ScopeAttr scope) {
  return scope ? ScopeAttr::get(scope.getContext(), scope.getRole(),
                                scope.getPhase(), scope.getPath(), StringAttr(),
                                scope.getReader())
               : scope;
}

static void replace(Spelled pattern) {
  DotOp last = pattern.last;
  OpBuilder builder(last);
  SmallVector<NamedAttribute> attributes = {
      builder.getNamedAttr("seq", builder.getStringAttr(pattern.seq)),
      builder.getNamedAttr("keys", builder.getStringAttr(pattern.keys)),
      builder.getNamedAttr("over", pattern.scores.getOver()),
      builder.getNamedAttr("scale", builder.getF64FloatAttr(pattern.scale)),
      builder.getNamedAttr("ahead", builder.getI64IntegerAttr(pattern.ahead))};
  if (pattern.causal) {
    attributes.push_back(builder.getNamedAttr("causal", builder.getUnitAttr()));
  }
  SmallVector<StringRef> dims;
  SmallVector<int64_t> sizes;
  auto type = cast<RankedTensorType>(pattern.scores.getType());
  for (auto [name, size] : llvm::zip(dimsOf(type), type.getShape())) {
    if (name != pattern.keys) {
      dims.push_back(name);
      sizes.push_back(size);
    }
  }
  auto sum = builder.create<AttentionSumOp>(
      pattern.soft.getLoc(), tensorType(type.getElementType(), dims, sizes),
      ValueRange{pattern.query, pattern.key}, attributes);
  setScope(sum, unlabelled(scopeOf(pattern.soft)));
  auto attention = builder.create<AttentionOp>(
      last.getLoc(), last.getType(),
      ValueRange{pattern.query, pattern.key, pattern.value, sum}, attributes);
  setScope(attention, scopeOf(last));
  last.getResult().replaceAllUsesWith(attention.getResult());
  last.erase();
  pattern.soft->erase(); // what led to it is dead, and simplify removes it
}

void cleave::blockAttention(Operation *root) {
  SmallVector<DotOp> dots;
  root->walk([&](DotOp dot) { dots.push_back(dot); });
  for (DotOp dot : dots) {
    if (std::optional<Spelled> pattern = match(dot)) {
      replace(*pattern);
    }
  }
}
