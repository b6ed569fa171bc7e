//===- Resolver.cpp - Saved or recomputed ---------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Resolver.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

/// Chains of recomputed operations are followed so far; then a value is saved.
static constexpr unsigned kDeepest = 64;

bool cleave::entersRegion(EdgeOp edge) {
  ScopeAttr scope = scopeOf(edge);
  StringRef path = scope ? scope.getPath() : StringRef();
  return scope && path.consume_front(edge.getInner()) &&
         (path.empty() || path.starts_with("/") || edge.getInner().empty());
}

void Resolver::run(llvm::iterator_range<Block::iterator> ops) {
  for (Operation &op : llvm::make_early_inc_range(ops)) {
    op.walk([&](Operation *user) {
      for (OpOperand &operand : user->getOpOperands()) {
        if (isForward(operand.get())) {
          operand.set(resolve(operand.get(), &op, 0));
        }
      }
    });
  }
}

Value Resolver::resolve(Value value, Operation *before, unsigned depth) {
  if (Value known = done.lookup(value)) {
    return known;
  }
  Value result;
  Operation *op = value.getDefiningOp();
  if (op && depth < kDeepest && isRecomputed(op)) {
    OpBuilder builder(before);
    IRMapping map;
    for (Value operand : op->getOperands()) {
      if (isForward(operand)) {
        map.map(operand, resolve(operand, before, depth + 1));
      }
    }
    Operation *copy = builder.clone(*op, map);
    if (ScopeAttr scope = scopeOf(op)) {
      setScope(copy, ScopeAttr::get(scope.getContext(), scope.getRole(),
                                    Phase::Backward, scope.getPath(),
                                    scope.getLabel(), scope.getReader()));
    }
    result = copy->getResult(0);
  } else {
    result = save(value);
  }
  done[value] = result;
  return result;
}

bool Resolver::isRecomputed(Operation *op) {
  if (auto edge = dyn_cast<EdgeOp>(op); edge && !entersRegion(edge)) {
    return isFree(edge.getResult(), 0);
  }
  return isa<ConstantOp, IndexOp, RandomOp, WeightOp, BroadcastOp, RenameOp,
             EdgeOp, StopGradientOp>(op) ||
         isFree(op->getResult(0), 0);
}

/// Whether elementwise operations alone make `value` from values that cost
/// nothing to keep: the loop's index and slices, inputs of a function, weights.
bool Resolver::isFree(Value value, unsigned depth) {
  if (!isForward(value)) {
    return outerIsFree;
  }
  Operation *op = value.getDefiningOp();
  if (!op) {
    auto repeat = dyn_cast<RepeatOp>(value.getParentBlock()->getParentOp());
    return !repeat || !llvm::is_contained(repeat.getCarriedArguments(), value);
  }
  if (isa<ConstantOp, IndexOp, RandomOp, WeightOp>(op)) {
    return true;
  }
  if (auto found = free.find(value); found != free.end()) {
    return found->second;
  }
  bool result = depth < kDeepest &&
                isa<ElementwiseInterface, BroadcastOp, RenameOp, EdgeOp>(op) &&
                llvm::all_of(
                    op->getOperands(),
                    [&](Value operand) { return isFree(operand, depth + 1); });
  free[value] = result;
  return result;
}
