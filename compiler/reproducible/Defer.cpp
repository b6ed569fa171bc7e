//===- Defer.cpp - Sums over samples, after the layers' repeats -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Group.h"
#include "compiler/reproducible/Repeats.h"
#include "compiler/reproducible/Reproducible.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::reproducible;
using clv::RepeatOp;

/// Whether an operation adds floats over `dim`.
static bool sumsOver(Operation *op, StringRef dim) {
  if (!op->hasAttr(kOrdered)) {
    return false;
  }
  clv::Rule rule = cast<clv::RuleInterface>(op).getRule();
  return llvm::any_of(rule.factors, [&](const clv::Factor &factor) {
    return factor.kind == clv::FactorKind::Sum && factor.name == dim;
  });
}

namespace {

/// Makes a second repeat of what a repeat does with sums over a dim.
class Deferrer {
public:
  Deferrer(RepeatOp repeat, StringRef dim)
      : repeat(repeat), body(repeat.getBlock()), dim(dim) {}

  void run();

private:
  RepeatOp repeat;
  Block *body;
  StringRef dim;
  llvm::SetVector<Operation *> late;
  llvm::SetVector<Operation *> again; ///< computed in both
  llvm::SetVector<Value> slices;      ///< what the second reads of the first
  llvm::SetVector<Value> stacked;     ///< arguments that it reads as well
  llvm::SetVector<Value> constants;   ///< carried, the same in all iterations
  llvm::DenseSet<Value> dropped;      ///< results that the second gives
  SmallVector<Value> given;           ///< by late operations, for them

  bool findLate();
  bool provide(Value value);
  RepeatOp buildSecond(RepeatOp first);
};

} // namespace

/// False where there is nothing to do, or the rest of the body reads a sum.
bool Deferrer::findLate() {
  for (Operation &op : body->without_terminator()) {
    bool isLate = sumsOver(&op, dim);
    for (Value value : codegen::readsOf(&op)) {
      isLate |= late.contains(value.getDefiningOp());
    }
    if (isLate) {
      if (op.getNumRegions() > 0) {
        return false;
      }
      late.insert(&op);
    }
  }
  unsigned carried = repeat.getCarried().size();
  for (Operation *op : late) {
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      bool isStack =
          user == repeat.getYield() && use.getOperandNumber() >= carried;
      if (isStack) {
        dropped.insert(repeat.getResult(use.getOperandNumber()));
      } else if (!late.contains(user)) {
        return false;
      }
    }
  }
  return !dropped.empty();
}

/// Notes how the second repeat gets a value of the first one's body: what has
/// samples is stacked, anything else computed again. False for what layers pass
/// on to one another without samples.
bool Deferrer::provide(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && op->getBlock() == body) {
    if (late.contains(op) || again.contains(op)) {
      return true;
    }
    if (clv::findDim(value.getType(), dim) >= 0 && !codegen::isCheap(op)) {
      slices.insert(value);
      return true;
    }
    again.insert(op);
    return llvm::all_of(codegen::readsOf(op),
                        [&](Value read) { return provide(read); });
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != body ||
      argument == repeat.getIndex()) {
    return true;
  }
  if (llvm::is_contained(repeat.getStackedArguments(), argument)) {
    stacked.insert(argument);
    return true;
  }
  if (repeat.getYield()->getOperand(argument.getArgNumber() - 1) == argument) {
    constants.insert(argument);
    return true;
  }
  slices.insert(argument);
  return clv::findDim(argument.getType(), dim) >= 0;
}

RepeatOp Deferrer::buildSecond(RepeatOp first) {
  SmallVector<Value> operands, arguments;
  for (auto [operand, argument] :
       llvm::zip(first.getStacked(), first.getStackedArguments())) {
    if (stacked.contains(argument)) {
      operands.push_back(operand);
      arguments.push_back(argument);
    }
  }
  llvm::append_range(operands, first.getResults().take_back(slices.size()));
  llvm::append_range(arguments, slices);
  SmallVector<Type> types;
  for (Value value : given) {
    types.push_back(stackOf(repeat, value.getType()));
  }
  OpBuilder builder(repeat);
  auto second = builder.create<RepeatOp>(
      repeat.getLoc(), types, ValueRange(), operands, repeat.getDim(),
      repeat.getCount(), repeat.getFirst(), repeat.getReverse());
  second->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  second->setAttr(kDeferred, builder.getUnitAttr());
  Block *block = new Block;
  second.getBody().push_back(block);
  IRMapping mapping;
  mapping.map(first.getIndex(),
              block->addArgument(first.getIndex().getType(), repeat.getLoc()));
  for (auto [argument, start] :
       llvm::zip(first.getCarriedArguments(), first.getCarried())) {
    if (constants.contains(argument)) {
      mapping.map(argument, start);
    }
  }
  for (Value argument : arguments) {
    mapping.map(argument,
                block->addArgument(argument.getType(), repeat.getLoc()));
  }
  OpBuilder inner = OpBuilder::atBlockEnd(block);
  for (Operation &op : body->without_terminator()) {
    if (late.contains(&op) || again.contains(&op)) {
      inner.clone(op, mapping);
    }
  }
  SmallVector<Value> yielded;
  for (Value value : given) {
    yielded.push_back(mapping.lookup(value));
  }
  inner.create<clv::YieldOp>(repeat.getLoc(), yielded);
  return second;
}

void Deferrer::run() {
  if (!findLate()) {
    return;
  }
  for (Operation *op : late) {
    if (!llvm::all_of(op->getOperands(),
                      [&](Value value) { return provide(value); })) {
      return;
    }
  }
  SmallVector<Value> results;
  for (auto [result, value] :
       llvm::zip(repeat.getResults(), repeat.getYield()->getOperands())) {
    if (dropped.contains(result)) {
      results.push_back(result);
      given.push_back(value);
    }
  }
  RepeatOp first = rebuild(repeat, dropped, slices.getArrayRef());
  RepeatOp second = buildSecond(first);
  for (auto [result, made] : llvm::zip(results, second.getResults())) {
    result.replaceAllUsesWith(made);
  }
  repeat.erase();
  for (Operation *op : llvm::reverse(late)) {
    op->erase();
  }
}

void cleave::deferSums(ModuleOp module, StringRef dim) {
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<RepeatOp> repeats(
        function.getBody().front().getOps<RepeatOp>());
    for (RepeatOp repeat : repeats) {
      Deferrer(repeat, dim).run();
    }
  }
}
