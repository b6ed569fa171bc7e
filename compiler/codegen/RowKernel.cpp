//===- RowKernel.cpp - The loops of a row kernel --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/RowKernel.h"
#include "compiler/codegen/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

void RowKernel::addOperands() {
  for (Value value : analysis.inputs) {
    if (isIteration(value)) {
      continue;
    }
    Memory memory = w.addMemory(value, elementOf(value), extentsOf(value));
    w.kernel.inputs.push_back(value);
    w.setStrides(memory, analysis.rows, analysis.columns);
    inputs[value] = memory;
  }
  for (Value value : analysis.outputs) {
    Memory memory = w.addMemory(value, elementOf(value), extentsOf(value));
    w.kernel.outputs.push_back(value);
    w.setStrides(memory, analysis.rows, analysis.columns);
    outputs[value] = memory;
  }
}

void RowKernel::fillAccumulated() {
  for (auto &[value, memory] : outputs) {
    if (isAccumulated(value)) {
      clv::Reduction kind = value.getDefiningOp<clv::ReduceOp>().getKind();
      w.fill(memory, neutral(b, kind, memory.element));
    }
  }
}

/// Moves every operand to the row that the loops are at.
void RowKernel::placeRows() {
  auto place = [&](Memory &memory) {
    Value offset;
    auto add = [&](Value index, Value stride) {
      Value term = w.mul(index, stride);
      offset = offset ? w.add(offset, term) : term;
    };
    for (auto [index, stride] : llvm::zip(rowIndices, memory.rowStrides)) {
      if (stride) {
        add(index, stride);
      }
    }
    if (blocked && memory.hasColumns()) {
      add(columnBase, memory.columnStride);
    }
    memory.row =
        offset ? w.address(memory.base, memory.element, offset) : memory.base;
  };
  for (Value value : w.kernel.inputs) {
    place(inputs[value]);
  }
  for (auto &[value, memory] : outputs) {
    place(memory);
  }
  for (auto &[value, memory] : saved) {
    if (auto output = outputs.find(value); output != outputs.end()) {
      memory = output->second;
    } else {
      memory.row = memory.base;
    }
  }
}

void RowKernel::accumulateRow(clv::ReduceOp reduce, Value scalar) {
  Memory &memory = outputs.find(reduce.getResult())->second;
  w.storeScalar(memory,
                combine(b, reduce.getKind(), w.loadScalar(memory), scalar));
}

/// One vector loop over the columns, for the current phase.
void RowKernel::emitPhase() {
  SmallVector<Value> stores;
  SmallVector<clv::ReduceOp> sums, accumulations;
  llvm::SetVector<Value> keeps;
  for (Operation *op : analysis.members) {
    Value result = op->getResult(0);
    auto reduce = dyn_cast<clv::ReduceOp>(op);
    if (reduce && isFull(reduce.getX()) && levelOf(reduce.getX()) == phase) {
      (isRowReduction(reduce) ? sums : accumulations).push_back(reduce);
    }
    if (!reduce && isFull(result) && outputs.contains(result) &&
        levelOf(result) == phase) {
      stores.push_back(result);
    }
  }
  for (auto &[value, memory] : saved) {
    if (firstPhase.lookup(value) == phase && !outputs.contains(value)) {
      keeps.insert(value);
    }
  }
  if (stores.empty() && sums.empty() && accumulations.empty()) {
    return;
  }
  llvm::DenseSet<Value> seen;
  for (Value value : stores) {
    prepare(value, seen);
  }
  for (clv::ReduceOp reduce :
       llvm::concat<clv::ReduceOp>(sums, accumulations)) {
    prepare(reduce.getX(), seen);
  }
  SmallVector<Value> initial;
  for (clv::ReduceOp reduce : sums) {
    initial.push_back(
        neutral(b, reduce.getKind(),
                VectorType::get({lanes}, elementOf(reduce.getX()))));
  }
  auto body = [&](Value index, Value tailMask, ValueRange values) {
    column = index;
    mask = tailMask;
    vectorValues.clear();
    SmallVector<Value> next, results, added;
    for (auto [reduce, so_far] : llvm::zip(sums, values)) {
      Value x = fullValue(reduce.getX());
      if (mask) {
        x = b.create<arith::SelectOp>(
            mask, x, neutral(b, reduce.getKind(), x.getType()));
      }
      next.push_back(combine(b, reduce.getKind(), so_far, x));
    }
    for (Value value : stores) {
      results.push_back(fullValue(value));
    }
    for (clv::ReduceOp reduce : accumulations) {
      Memory &memory = outputs.find(reduce.getResult())->second;
      added.push_back(combine(b, reduce.getKind(),
                              w.loadVector(memory, index, mask),
                              fullValue(reduce.getX())));
    }
    for (Value value : keeps) {
      if (vectorValues.contains(value)) {
        w.storeVector(saved[value], index, mask, vectorValues[value]);
      }
    }
    for (auto [value, result] : llvm::zip(stores, results)) {
      w.storeVector(outputs.find(value)->second, index, mask, result);
    }
    for (auto [reduce, result] : llvm::zip(accumulations, added)) {
      w.storeVector(outputs.find(reduce.getResult())->second, index, mask,
                    result);
    }
    return next;
  };
  SmallVector<Value> totals = w.vectors(columnCount, initial, body);
  for (auto [reduce, total] : llvm::zip(sums, totals)) {
    Value scalar = w.reduceLanes(reduce.getKind(), total);
    if (isAccumulated(reduce.getResult())) {
      accumulateRow(reduce, scalar);
    } else {
      rowValues[reduce.getResult()] = scalar;
    }
  }
}

void RowKernel::emitRow() {
  rowValues.clear();
  placeRows();
  if (!analysis.columns.empty()) {
    for (phase = 0; phase < phases; ++phase) {
      emitPhase();
    }
  }
  // Everything is computed before anything is stored: an output may be the
  // same memory as an input.
  SmallVector<std::pair<Value, Value>> stores;
  for (auto &[value, memory] : outputs) {
    if (isFull(value)) {
      continue;
    }
    auto reduce = value.getDefiningOp<clv::ReduceOp>();
    if (reduce && isAccumulated(value)) {
      if (!isFull(reduce.getX())) {
        accumulateRow(reduce, rowValue(reduce.getX()));
      }
      continue;
    }
    stores.push_back({value, rowValue(value)});
  }
  for (auto [value, scalar] : stores) {
    if (isWide && scalar.getType().isF64()) {
      scalar = b.create<arith::TruncFOp>(b.getF32Type(), scalar);
    }
    w.storeScalar(outputs.find(value)->second, scalar);
  }
}

std::string RowKernel::hint() {
  std::string text;
  for (Operation *op : analysis.members) {
    StringRef name = op->getName().stripDialect();
    bool isRoot = llvm::is_contained(analysis.outputs, op->getResult(0));
    if (isRoot && text.size() + name.size() < 40) {
      text += (text.empty() ? "" : "_") + name.str();
    }
  }
  return text;
}

llvm::Expected<Kernel> RowKernel::build() {
  members.insert(analysis.members.begin(), analysis.members.end());
  isWide = analysis.columns.empty();
  addOperands();
  // A sum that nothing here reads is cut in blocks where rows are long.
  int64_t longest = 1;
  for (const Extent &dim : analysis.columns) {
    longest *= dim.largest;
  }
  bool sumsRows = false, readsSums = false;
  for (Operation *op : analysis.members) {
    auto reduce = dyn_cast<clv::ReduceOp>(op);
    if (reduce && isRowReduction(reduce)) {
      sumsRows = true;
      readsSums |= llvm::any_of(op->getUsers(), [&](Operation *user) {
        return members.contains(user);
      });
    }
  }
  blocked = sumsRows && !readsSums && longest > 4 * blockColumns;
  findPhases();
  for (auto &[value, memory] : saved) {
    if (outputs.contains(value)) {
      continue;
    }
    memory = w.addMemory({}, elementOf(value), analysis.columns);
    memory.columnStride = w.i64(1);
    memory.contiguous = true;
    w.kernel.scratch.push_back(longest * elementBytes(value.getType()));
  }
  fillAccumulated();
  SmallVector<Value> counts;
  for (const Extents &row : analysis.rows) {
    counts.push_back(w.countOf(row));
  }
  Value allColumns = w.countOf(analysis.columns);
  if (blocked) {
    counts.push_back(b.create<arith::DivUIOp>(
        w.add(allColumns, w.i64(blockColumns - 1)), w.i64(blockColumns)));
  }
  w.rows(counts, [&](ValueRange indices) {
    columnBase = w.i64(0);
    columnCount = allColumns;
    if (blocked) {
      columnBase = w.mul(indices.back(), w.i64(blockColumns));
      columnCount = b.create<arith::MinSIOp>(
          w.i64(blockColumns), b.create<arith::SubIOp>(allColumns, columnBase));
      indices = indices.drop_back();
    }
    rowIndices = SmallVector<Value>(indices);
    emitRow();
  });
  if (!error.empty()) {
    return llvm::createStringError(error);
  }
  findInPlace();
  return w.finish(hint());
}

llvm::Expected<Kernel> codegen::buildRowKernel(const Analysis &analysis,
                                               KernelLibrary &library) {
  return RowKernel(analysis, library).build();
}
