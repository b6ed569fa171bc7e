//===- RowValues.cpp - The values of a row kernel -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels without dims compute in f64: they are a handful of scalars, such as a
// learning rate, where digits matter and time does not. In a reproducible
// program those that are marked are rounded to f32 all the same.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/RowKernel.h"
#include "compiler/codegen/Scalar.h"
#include "compiler/reproducible/Reproducible.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

/// The global position of the loops along a dim: of the vector's first lane
/// where it is the column dim.
Value RowKernel::positionOf(const Extent &dim) {
  Value begin = w.beginOf(dim);
  for (auto [i, row] : llvm::enumerate(analysis.rows)) {
    if (row.back() == dim) {
      return w.add(begin, rowIndices[i]);
    }
  }
  return w.add(w.add(begin, columnBase), column);
}

Value RowKernel::indexValue(clv::IndexOp op, bool full) {
  Value position = positionOf(extentsOf(op.getResult()).front());
  position = w.add(position, w.i64(op.getFirst()));
  Value index = b.create<arith::TruncIOp>(b.getI32Type(), position);
  if (full) {
    index =
        b.create<arith::AddIOp>(w.splat(index), laneNumbers(b, b.getI32Type()));
  }
  return index;
}

Value RowKernel::randomValue(clv::RandomOp op, bool full) {
  Extents dims = extentsOf(op.getResult());
  Value linear = w.i64(0);
  int64_t stride = 1, columnStride = 0;
  for (const Extent &dim : llvm::reverse(dims)) {
    linear = w.add(linear, w.mul(positionOf(dim), w.i64(stride)));
    if (full && dim == analysis.columns.front()) {
      columnStride = stride;
    }
    stride *= dim.size;
  }
  Type word = b.getI32Type(), wide = b.getI64Type();
  if (full) {
    linear = b.create<arith::AddIOp>(
        w.splat(linear), b.create<arith::MulIOp>(laneNumbers(b, wide),
                                                 w.splat(w.i64(columnStride))));
  }
  Type words = shapedLike(linear.getType(), word);
  Value low = b.create<arith::TruncIOp>(words, linear);
  Value high = b.create<arith::TruncIOp>(
      words,
      b.create<arith::ShRUIOp>(linear, constantLike(b, linear.getType(), 32)));
  Value random =
      emitRandom(b, low, high, rowValue(op.getSeed()), rowValue(op.getStep()),
                 rowValue(op.getIteration()), op.getSite());
  return isWide ? Value(b.create<arith::ExtFOp>(b.getF64Type(), random))
                : random;
}

Value RowKernel::apply(Operation *op, function_ref<Value(Value)> operand,
                       bool full) {
  if (auto index = dyn_cast<clv::IndexOp>(op)) {
    return indexValue(index, full);
  }
  if (auto random = dyn_cast<clv::RandomOp>(op)) {
    return randomValue(random, full);
  }
  if (auto constant = dyn_cast<clv::ConstantOp>(op)) {
    Type type = workType(constant.getValue().getType());
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      return constantLike(b, type, number.getValueAsDouble());
    }
    // A boolean's APInt reads as -1 if taken as signed.
    APInt bits = cast<IntegerAttr>(constant.getValue()).getValue();
    return constantLike(b, type,
                        type.isInteger(1) ? double(bits.getZExtValue())
                                          : double(bits.getSExtValue()));
  }
  SmallVector<Value> operands;
  for (Value x : op->getOperands()) {
    operands.push_back(operand(x));
  }
  auto elementwise = dyn_cast<clv::ElementwiseInterface>(op);
  if (!elementwise) {
    return operands[0]; // broadcast, edge, weight, gradient
  }
  Type element = elementOf(op->getResult(0));
  if (element.isBF16() && !elementOf(op->getOperand(0)).isBF16()) {
    return roundToBF16(b, operands[0]);
  }
  Value result = applyElementwise(b, elementwise.getFunction(), operands,
                                  workType(element));
  if (!result) {
    llvm::raw_string_ostream(error)
        << op->getName() << " has no kernel for " << op->getOperandTypes()[0];
    return constantLike(b, shapedLike(operands[0].getType(), workType(element)),
                        0);
  }
  if (isWide && op->hasAttr(kRounded) && result.getType().isF64()) {
    result = b.create<arith::TruncFOp>(b.getF32Type(), result);
    result = b.create<arith::ExtFOp>(b.getF64Type(), result);
  }
  return result;
}

Value RowKernel::rowValue(Value value) {
  if (auto found = rowValues.find(value); found != rowValues.end()) {
    return found->second;
  }
  Value result;
  if (isIteration(value)) {
    Value index = w.integer({KernelInteger::Iteration, {}, value});
    auto repeat = cast<clv::RepeatOp>(value.getParentBlock()->getParentOp());
    result = b.create<arith::TruncIOp>(
        b.getI32Type(),
        w.add(index, w.i64(static_cast<int64_t>(repeat.getFirst()))));
  } else if (inputs.contains(value)) {
    result = w.loadScalar(inputs[value]);
    if (isWide && result.getType().isF32()) {
      result = b.create<arith::ExtFOp>(b.getF64Type(), result);
    }
  } else {
    assert(!isa<clv::ReduceOp>(value.getDefiningOp()) &&
           "a reduction read before its phase");
    result = apply(
        value.getDefiningOp(), [&](Value v) { return rowValue(v); },
        /*full=*/false);
  }
  return rowValues[value] = result;
}

Value RowKernel::fullValue(Value value) {
  if (auto found = vectorValues.find(value); found != vectorValues.end()) {
    return found->second;
  }
  Value result;
  if (inputs.contains(value)) {
    result = w.loadVector(inputs[value], column, mask);
  } else if (saved.contains(value) && firstPhase.lookup(value) < phase) {
    result = w.loadVector(saved[value], column, mask);
  } else {
    result = apply(
        value.getDefiningOp(), [&](Value v) { return anyVector(v); },
        /*full=*/true);
    // Of row values alone: a broadcast, or a comparison of two of them.
    if (!isa<VectorType>(result.getType())) {
      result = w.splat(result);
    }
  }
  return vectorValues[value] = result;
}

/// Computes, before the vector loop, the row values that a full value reads.
void RowKernel::prepare(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second) {
    return;
  }
  if (!isFull(value)) {
    rowValue(value);
    return;
  }
  if (isMemory(value) ||
      (saved.contains(value) && firstPhase.lookup(value) < phase)) {
    return;
  }
  for (Value operand : value.getDefiningOp()->getOperands()) {
    prepare(operand, seen);
  }
}
