//===- LayerSums.cpp - Sums over the iterations of a repeat ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"
#include "compiler/reproducible/Marks.h"
#include "compiler/reproducible/Repeats.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::reproducible;
using clv::RepeatOp;

/// What a carried value sums, of one that starts at zero and is read by the sum
/// alone; null of any other.
static clv::AddOp sumOf(RepeatOp repeat, unsigned carried) {
  BlockArgument argument = repeat.getCarriedArguments()[carried];
  Value start = repeat.getCarried()[carried];
  if (!argument.hasOneUse() || !partitioning::isZero(start)) {
    return {};
  }
  auto sum = dyn_cast<clv::AddOp>(*argument.getUsers().begin());
  bool isSum = sum && sum->getBlock() == repeat.getBlock() &&
               sum->hasOneUse() &&
               repeat.getYield()->getOperand(carried) == sum.getResult() &&
               sum.getLhs().getType() == sum.getRhs().getType();
  return isSum ? sum : clv::AddOp();
}

static Value reduceOver(OpBuilder &builder, Value x, ArrayRef<StringRef> over,
                        Location loc, clv::ScopeAttr scope) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<StringRef> dims;
  SmallVector<int64_t> sizes;
  for (auto [dim, size] : llvm::zip(clv::dimsOf(type), type.getShape())) {
    if (!llvm::is_contained(over, dim)) {
      dims.push_back(dim);
      sizes.push_back(size);
    }
  }
  auto reduce = builder.create<clv::ReduceOp>(
      loc, clv::tensorType(type.getElementType(), dims, sizes), x,
      clv::Reduction::Sum, builder.getStrArrayAttr(over));
  if (scope) {
    clv::setScope(reduce, scope);
  }
  return reduce.getResult();
}

/// The sums that a repeat carries, as sums over stacks.
static void stackSums(RepeatOp repeat) {
  llvm::DenseSet<Value> dropped;
  SmallVector<Value> sums, terms;
  SmallVector<clv::ScopeAttr> scopes;
  for (unsigned i = 0; i < repeat.getCarried().size(); ++i) {
    clv::AddOp sum = sumOf(repeat, i);
    if (!sum) {
      continue;
    }
    Value carried = repeat.getCarriedArguments()[i];
    Value term = sum.getLhs() == carried ? sum.getRhs() : sum.getLhs();
    dropped.insert(repeat.getResult(i));
    sums.push_back(repeat.getResult(i));
    terms.push_back(term);
    scopes.push_back(clv::scopeOf(sum));
    repeat.getYield()->setOperand(i, term);
    sum.erase();
  }
  if (sums.empty()) {
    return;
  }
  RepeatOp made = rebuild(repeat, dropped, terms);
  OpBuilder builder(repeat);
  ValueRange stacks = made.getResults().take_back(terms.size());
  for (auto [i, sum] : llvm::enumerate(sums)) {
    sum.replaceAllUsesWith(reduceOver(builder, stacks[i], {repeat.getDim()},
                                      repeat.getLoc(), scopes[i]));
  }
  repeat.erase();
}

/// `reduce`, over dims of which some are repeated, in two levels.
static void splitSum(clv::ReduceOp reduce, const llvm::StringSet<> &repeated) {
  SmallVector<StringRef> layers, others;
  for (StringRef dim : reduce.getOver().getAsValueRange<StringAttr>()) {
    (repeated.contains(dim) ? layers : others).push_back(dim);
  }
  if (layers.empty() || others.empty()) {
    return;
  }
  OpBuilder builder(reduce);
  Value one = reduceOver(builder, reduce.getX(), others, reduce.getLoc(),
                         clv::scopeOf(reduce));
  reduce.getResult().replaceAllUsesWith(
      reduceOver(builder, one, layers, reduce.getLoc(), clv::scopeOf(reduce)));
  reduce.erase();
}

void reproducible::sumLayersLast(ModuleOp module) {
  SmallVector<RepeatOp> repeats;
  llvm::StringSet<> repeated;
  module.walk([&](RepeatOp repeat) { // those inside others first
    repeats.push_back(repeat);
    repeated.insert(repeat.getDim());
  });
  llvm::for_each(repeats, stackSums);
  SmallVector<clv::ReduceOp> sums;
  module.walk([&](clv::ReduceOp reduce) {
    auto type = cast<RankedTensorType>(reduce.getX().getType());
    if (reduce.getKind() == clv::Reduction::Sum &&
        isa<FloatType>(type.getElementType())) {
      sums.push_back(reduce);
    }
  });
  for (clv::ReduceOp sum : sums) {
    splitSum(sum, repeated);
  }
}
