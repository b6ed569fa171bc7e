//===- Cost.cpp - Floating-point operations of operations -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

static int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

int64_t clv::flopsOf(Operation *op) {
  return TypeSwitch<Operation *, int64_t>(op)
      .Case<DotOp>([](DotOp dot) {
        int64_t contracted = 1;
        for (StringRef name : dot.getOver().getAsValueRange<StringAttr>()) {
          contracted *= sizeOf(dot.getLhs().getType(), name);
        }
        return 2 * contracted * elementsOf(dot.getResult());
      })
      .Case<ReduceOp, ExtremeOp, ScatterAddOp, CumsumOp>(
          [](auto op) { return elementsOf(op->getOperand(0)); })
      // max, subtract, exp, sum, and a division or an addition
      .Case<SoftmaxOp, LogsumexpOp>(
          [](auto op) { return 5 * elementsOf(op->getOperand(0)); })
      .Case<ConstantOp, BroadcastOp, IndexOp, LookupOp, RenameOp, SliceOp,
            PadOp, EdgeOp, WeightOp, GradientOp, StopGradientOp>(
          [](auto) { return 0; })
      .Default([](Operation *op) { return elementsOf(op->getResult(0)); });
}
