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

/// For each score, `overs` sums of products over `over` and `features` sums
/// over the features, and `others`. The first of the operations that go over a
/// block together counts what they share. A hidden key costs nothing.
static int64_t attentionFlops(AttentionInterface op, int64_t overs,
                              int64_t features, int64_t others) {
  int64_t each = others, over = 1, width = 1, scores = 1;
  auto sizeIn = [&](StringRef name) {
    for (Value operand : op->getOperands()) {
      if (findDim(operand.getType(), name) >= 0) {
        return sizeOf(operand.getType(), name);
      }
    }
    return int64_t(1);
  };
  for (StringRef name : op.getOver().getAsValueRange<StringAttr>()) {
    over *= sizeIn(name);
  }
  for (StringRef name : featureDims(op)) {
    width *= sizeIn(name);
  }
  for (StringRef name : scoreDims(op)) {
    scores *= sizeIn(name);
  }
  each += 2 * (overs * over + features * width);
  return op.getCausal() ? scores * each / 2 : scores * each;
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
      // scores, and their logsumexp
      .Case<AttentionSumOp>([](auto op) { return attentionFlops(op, 1, 0, 5); })
      .Case<AttentionOp>([](auto op) { return attentionFlops(op, 0, 1, 0); })
      // scores and their gradients
      .Case<AttentionQueryGradientOp>(
          [](auto op) { return attentionFlops(op, 2, 1, 5); })
      .Case<AttentionKeyGradientOp>(
          [](auto op) { return attentionFlops(op, 1, 0, 0); })
      .Case<AttentionValueGradientOp>(
          [](auto op) { return attentionFlops(op, 0, 1, 0); })
      .Case<ConstantOp, BroadcastOp, IndexOp, LookupOp, RenameOp, SliceOp,
            PadOp, EdgeOp, WeightOp, GradientOp, StopGradientOp>(
          [](auto) { return 0; })
      .Default([](Operation *op) { return elementsOf(op->getResult(0)); });
}
