//===- SeparateSums.cpp - Auxiliary sums that repeats carry ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"
#include "compiler/pipeline/Pipeline.h"
#include "dialects/clv/Clv.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;

namespace {

/// One repeat's carried sums.
class Separator {
public:
  Separator(clv::RepeatOp repeat, StringRef micro)
      : repeat(repeat), micro(micro), builder(repeat.getOperation()) {}

  void run() {
    for (unsigned i = 0; i < repeat.getCarried().size(); ++i) {
      separate(i);
    }
  }

private:
  clv::RepeatOp repeat;
  StringRef micro;
  OpBuilder builder;

  bool isOfMicrobatch(Value value) const {
    return llvm::is_contained(clv::dimsOf(value), micro);
  }
  void findTerms(Value value, SmallVectorImpl<Value> &terms);
  Value own(Value value, bool isShared = false);
  void startAtZero(unsigned carried);
  void separate(unsigned carried);
};

} // namespace

/// The terms of a sum that is written as several additions.
void Separator::findTerms(Value value, SmallVectorImpl<Value> &terms) {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    auto add = next.getDefiningOp<clv::AddOp>();
    bool isInner = add && add->getBlock() == repeat.getBlock() &&
                   add->hasOneUse() &&
                   clv::dimsOf(add.getLhs()) == clv::dimsOf(next) &&
                   clv::dimsOf(add.getRhs()) == clv::dimsOf(next);
    if (isInner) {
      open.push_back(add.getRhs());
      open.push_back(add.getLhs());
    } else {
      terms.push_back(next);
    }
  }
}

/// A term that nothing else reads. Of one that something does, what it is made
/// of is made again, from the values that microbatches have apart.
Value Separator::own(Value value, bool isShared) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != repeat.getBlock() || isOfMicrobatch(value) ||
      op->getNumRegions() > 0 || op->getNumResults() != 1) {
    return value;
  }
  isShared |= !op->hasOneUse();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(own(operand, isShared));
  }
  if (isShared) {
    builder.setInsertionPointAfter(op);
    op = builder.clone(*op);
  }
  op->setOperands(operands);
  return op->getResult(0);
}

/// start + (0 + terms): the start need not be known before.
void Separator::startAtZero(unsigned carried) {
  Value start = repeat.getCarried()[carried];
  Value result = repeat.getResult(carried);
  clv::ScopeAttr scope = clv::scopeOfValue(start);
  auto scoped = [&](Operation *op) {
    if (scope) {
      clv::setScope(op, scope);
    }
    return op->getResult(0);
  };
  auto type = cast<RankedTensorType>(start.getType());
  Location loc = repeat.getLoc();
  builder.setInsertionPoint(repeat);
  Value zero = scoped(builder.create<clv::ConstantOp>(
      loc, RankedTensorType::get({}, type.getElementType()),
      builder.getFloatAttr(type.getElementType(), 0)));
  if (type.getRank() > 0) {
    zero = scoped(builder.create<clv::BroadcastOp>(loc, type, zero));
  }
  builder.setInsertionPointAfter(repeat);
  Value sum = scoped(builder.create<clv::AddOp>(loc, type, start, result));
  result.replaceAllUsesExcept(sum, sum.getDefiningOp());
  repeat->setOperand(carried, zero);
}

void Separator::separate(unsigned carried) {
  BlockArgument argument = repeat.getCarriedArguments()[carried];
  Value yielded = repeat.getYield()->getOperand(carried);
  if (yielded == argument) { // nothing changes it: as it started
    repeat.getResult(carried).replaceAllUsesWith(repeat.getCarried()[carried]);
    return;
  }
  if (isOfMicrobatch(argument) || !argument.hasOneUse() ||
      !isa<FloatType>(
          cast<RankedTensorType>(argument.getType()).getElementType()) ||
      !yielded.hasOneUse()) {
    return;
  }
  SmallVector<Value> terms;
  findTerms(yielded, terms);
  auto found = llvm::find(terms, argument);
  if (found == terms.end() || terms.size() == 1) {
    return;
  }
  terms.erase(found);
  bool startsAtZero = partitioning::isZero(repeat.getCarried()[carried]);
  if (startsAtZero && terms.size() == 1 && terms.front().hasOneUse()) {
    return; // it is as it should be
  }
  Operation *yield = repeat.getYield();
  clv::ScopeAttr scope = clv::scopeOfValue(yielded);
  Value total;
  for (Value term : terms) {
    Value one = own(term);
    builder.setInsertionPoint(yield);
    total = total ? builder.create<clv::AddOp>(yielded.getLoc(),
                                               yielded.getType(), total, one)
                  : one;
    if (total != one && scope) {
      clv::setScope(total.getDefiningOp(), scope);
    }
  }
  builder.setInsertionPoint(yield);
  auto sum = builder.create<clv::AddOp>(yielded.getLoc(), yielded.getType(),
                                        argument, total);
  if (scope) {
    clv::setScope(sum, scope);
  }
  yield->setOperand(carried, sum);
  // The additions that were there, the last first.
  SmallVector<Operation *> unused = {yielded.getDefiningOp()};
  while (!unused.empty()) {
    Operation *op = unused.pop_back_val();
    if (op && op->use_empty() && isa<clv::AddOp>(op)) {
      for (Value operand : op->getOperands()) {
        unused.push_back(operand.getDefiningOp());
      }
      op->erase();
    }
  }
  if (!startsAtZero) {
    startAtZero(carried);
  }
}

void cleave::separateSums(ModuleOp module, StringRef micro) {
  module.walk([&](clv::RepeatOp repeat) { Separator(repeat, micro).run(); });
}
