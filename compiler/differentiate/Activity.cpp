//===- Activity.cpp - Which values depend on parameters -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Activity.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

void Activity::visit(Block &block) {
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      visit(repeat);
    } else if (!isa<StopGradientOp>(op) &&
               llvm::any_of(op.getOperands(),
                            [&](Value v) { return has(v); })) {
      for (Value result : op.getResults()) {
        auto type = cast<RankedTensorType>(result.getType());
        if (isa<FloatType>(type.getElementType())) {
          add(result);
        }
      }
    }
  }
}

void Activity::visit(RepeatOp repeat) {
  for (auto [operand, argument] :
       llvm::zip(repeat.getStacked(), repeat.getStackedArguments())) {
    if (has(operand)) {
      add(argument);
    }
  }
  // Until no carried value becomes active through the loop.
  auto arguments = repeat.getCarriedArguments();
  for (bool changed = true; changed;) {
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      if (has(repeat.getCarried()[i]) ||
          has(repeat.getYield()->getOperand(i))) {
        add(argument);
      }
    }
    visit(*repeat.getBlock());
    changed = false;
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      changed |= !has(argument) && has(repeat.getYield()->getOperand(i));
    }
  }
  for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
    bool isCarried = i < arguments.size();
    if (has(repeat.getYield()->getOperand(i)) ||
        (isCarried && has(arguments[i]))) {
      add(result);
    }
  }
}
