//===- RowPhases.cpp - What happens in which phase ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A full value that several phases need is computed again if that is cheap,
// else kept in its output's row or in a row of scratch that stays in the
// first-level cache.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/RowKernel.h"
#include "compiler/codegen/Scalar.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

/// A phase that recomputes costs at most this much more than a load.
static constexpr int cheapAgain = 3;

/// Whether a result is combined into memory rather than stored once.
bool RowKernel::isAccumulated(Value output) {
  auto reduce = output.getDefiningOp<clv::ReduceOp>();
  if (!reduce) {
    return false;
  }
  if (!isRowReduction(reduce) || blocked) {
    return true;
  }
  Extents over = minus(extentsOf(reduce.getX()), extentsOf(output));
  return over.size() != analysis.columns.size();
}

unsigned RowKernel::levelOf(Value value) {
  if (isMemory(value)) {
    return 0;
  }
  if (auto found = levels.find(value); found != levels.end()) {
    return found->second;
  }
  unsigned level = 0;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands()) {
    level = std::max(level, levelOf(operand));
  }
  auto reduce = dyn_cast<clv::ReduceOp>(op);
  if (reduce && isRowReduction(reduce)) {
    ++level;
  }
  return levels[value] = level;
}

/// What computing a full value costs in a phase after its first.
int RowKernel::costAgain(Value value, int limit) {
  if (!isFull(value)) {
    return 0;
  }
  if (isMemory(value) || saved.contains(value)) {
    return 1;
  }
  int cost = costOf(value.getDefiningOp());
  for (Value operand : value.getDefiningOp()->getOperands()) {
    if (cost > limit) {
      break;
    }
    cost += costAgain(operand, limit - cost);
  }
  return cost;
}

/// Notes what phase `p` needs to compute `value`, and what earlier phases must
/// save for it.
void RowKernel::visit(Value value, unsigned p, llvm::DenseSet<Value> &seen) {
  if (!isFull(value) || !seen.insert(value).second) {
    return;
  }
  if (isMemory(value)) {
    lastLoad[value] = std::max(lastLoad.lookup(value), p);
    return;
  }
  auto found = firstPhase.find(value);
  if (found == firstPhase.end()) {
    firstPhase[value] = p;
  } else if (found->second < p) {
    if (saved.contains(value) || costAgain(value, cheapAgain) > cheapAgain) {
      saved.insert({value, Memory()});
      return;
    }
  }
  for (Value operand : value.getDefiningOp()->getOperands()) {
    visit(operand, p, seen);
  }
}

void RowKernel::findPhases() {
  for (Operation *op : analysis.members) {
    phases = std::max(phases, levelOf(op->getResult(0)) + 1);
  }
  for (unsigned p = 0; p < phases; ++p) {
    llvm::DenseSet<Value> seen;
    for (Operation *op : analysis.members) {
      auto reduce = dyn_cast<clv::ReduceOp>(op);
      if (reduce && levelOf(reduce.getX()) == p) {
        visit(reduce.getX(), p, seen);
      }
      if (!reduce && levelOf(op->getResult(0)) == p &&
          llvm::is_contained(analysis.outputs, op->getResult(0))) {
        visit(op->getResult(0), p, seen);
      }
    }
  }
}

/// An input may share an output's memory if every element is read before it is
/// written: at the same place, in the same phase or an earlier one.
void RowKernel::findInPlace() {
  for (auto [i, input] : llvm::enumerate(w.kernel.inputs)) {
    for (auto [j, output] : llvm::enumerate(w.kernel.outputs)) {
      bool same = input.getType() == output.getType() ||
                  (extentsOf(input) == extentsOf(output) &&
                   elementOf(input) == elementOf(output));
      if (!same || isAccumulated(output)) {
        continue;
      }
      if (!isFull(input) || lastLoad.lookup(input) <= levelOf(output)) {
        w.kernel.inPlace.push_back({i, j});
      }
    }
  }
}
