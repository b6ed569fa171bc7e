//===- SinkGradients.cpp - Gradients of stacks, after their repeats -------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Pipeline.h"
#include "dialects/clv/Clv.h"

using namespace mlir;
using namespace cleave;

static void sink(clv::RepeatOp repeat) {
  Operation *yield = repeat.getYield();
  OpBuilder builder(repeat->getContext());
  builder.setInsertionPointAfter(repeat);
  for (unsigned i = repeat.getCarried().size(); i < repeat.getNumResults();
       ++i) {
    auto gradient = yield->getOperand(i).getDefiningOp<clv::GradientOp>();
    if (!gradient || gradient->getBlock() != repeat.getBlock() ||
        !gradient->hasOneUse()) {
      continue;
    }
    Value stack = repeat.getResult(i);
    auto sunk = builder.create<clv::GradientOp>(gradient.getLoc(),
                                                stack.getType(), stack);
    sunk->setAttrs(gradient->getAttrs());
    stack.replaceAllUsesExcept(sunk.getResult(), sunk);
    yield->setOperand(i, gradient.getX());
    gradient.erase();
  }
}

void cleave::sinkGradients(ModuleOp module) {
  module.walk([](clv::RepeatOp repeat) { sink(repeat); });
}
