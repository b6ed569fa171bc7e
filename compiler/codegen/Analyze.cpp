//===- Analyze.cpp - The loops of a group of operations -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Group.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

/// A reduction longer than this sums block by block in memory: one chain of
/// additions would lose digits.
static constexpr int64_t longestChain = int64_t(1) << 18;

bool codegen::isFusable(Operation *op) {
  if (isOrderedSum(op)) {
    return false;
  }
  return isa<clv::ElementwiseInterface, clv::ConstantOp, clv::BroadcastOp,
             clv::IndexOp, clv::RandomOp, clv::ReduceOp, clv::EdgeOp,
             clv::WeightOp, clv::GradientOp>(op);
}

bool codegen::isCheap(Operation *op) {
  if (isa<clv::ConstantOp, clv::IndexOp>(op)) {
    return true;
  }
  if (!isFusable(op) || isa<clv::RandomOp, clv::ReduceOp>(op)) {
    return false;
  }
  auto cheapOperand = [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return def && isCheap(def);
  };
  if (llvm::all_of(op->getOperands(), cheapOperand)) {
    return isa<clv::BroadcastOp, clv::SelectOp, clv::AddOp, clv::SubOp,
               clv::MulOp, clv::NegOp, clv::CastOp, clv::LessOp,
               clv::LessEqualOp, clv::EqualOp, clv::NotEqualOp, clv::AndOp,
               clv::OrOp, clv::NotOp>(op);
  }
  // Of values in memory: those whose result is no larger to compute than load.
  if (!isa<clv::BroadcastOp, clv::LessOp, clv::LessEqualOp, clv::EqualOp,
           clv::NotEqualOp, clv::AndOp, clv::OrOp, clv::NotOp>(op)) {
    return false;
  }
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return !def || def->getBlock() != op->getBlock() || !isFusable(def) ||
           isCheap(def);
  });
}

bool codegen::isIteration(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getArgNumber() == 0 &&
         isa<clv::RepeatOp>(argument.getOwner()->getParentOp());
}

namespace {

/// The dims of the loops that compute an operation.
Extents iterationOf(Operation *op) {
  if (auto reduce = dyn_cast<clv::ReduceOp>(op)) {
    return extentsOf(reduce.getX());
  }
  return extentsOf(op->getResult(0));
}

bool sameSet(ArrayRef<Extent> a, ArrayRef<Extent> b) {
  return a.size() == b.size() && isSubset(a, b);
}

/// The dims that a reduction sums over.
Extents overOf(clv::ReduceOp reduce) {
  return minus(extentsOf(reduce.getX()), extentsOf(reduce.getResult()));
}

class Analyzer {
public:
  explicit Analyzer(ArrayRef<Operation *> members) {
    result.members.assign(members.begin(), members.end());
    inside.insert(members.begin(), members.end());
  }

  std::optional<Analysis> run() {
    if (!findSpace() || !findOperands()) {
      return std::nullopt;
    }
    if (space.empty()) {
      return std::move(result);
    }
    if (!fixColumns() || !(fixed.empty() ? chooseColumns() : orderColumns())) {
      return std::nullopt;
    }
    chooseRows();
    return std::move(result);
  }

private:
  Analysis result;
  llvm::SmallPtrSet<Operation *, 32> inside;
  Extents space;                    ///< the dims of the whole nest
  Extents fixed;                    ///< the column dims, where decided
  llvm::SetVector<Value> evaluated; ///< operands, cheap ones included
  SmallVector<Extents> memory;      ///< dims of inputs and outputs
  SmallVector<Extents> reductions;  ///< what each reduction is over
  Extents positions;                ///< dims whose index is asked for

  bool findSpace();
  bool findOperands();
  void visit(Value value);
  void notePositions(Operation *op);
  bool fixColumns();
  bool fix(const Extents &dims);
  bool fits(ArrayRef<Extent> columns);
  bool orderColumns();
  bool chooseColumns();
  void chooseRows();
  const Extents *primary(ArrayRef<Extent> columns);
};

} // namespace

bool Analyzer::findSpace() {
  for (Operation *op : result.members) {
    Extents dims = iterationOf(op);
    if (dims.size() > space.size()) {
      space = dims;
    }
  }
  return llvm::all_of(result.members, [&](Operation *op) {
    return isSubset(iterationOf(op), space);
  });
}

void Analyzer::notePositions(Operation *op) {
  if (isa<clv::IndexOp, clv::RandomOp>(op)) {
    llvm::append_range(positions, extentsOf(op->getResult(0)));
  }
}

/// Finds the values in memory behind an operand.
void Analyzer::visit(Value value) {
  Operation *def = value.getDefiningOp();
  if ((def && inside.contains(def)) || !evaluated.insert(value)) {
    return;
  }
  if (def && isCheap(def)) {
    notePositions(def);
    llvm::for_each(def->getOperands(), [&](Value v) { visit(v); });
    return;
  }
  result.inputs.push_back(value);
  memory.push_back(extentsOf(value));
}

bool Analyzer::findOperands() {
  for (Operation *op : result.members) {
    notePositions(op);
    llvm::for_each(op->getOperands(), [&](Value v) { visit(v); });
  }
  for (Value value : evaluated) {
    if (!isSubset(extentsOf(value), space)) {
      return false; // one name, two splits
    }
  }
  for (Operation *op : result.members) {
    auto reads = [&](Operation *user) { return !inside.contains(user); };
    bool reduces = isa<clv::ReduceOp>(op);
    if (reduces) {
      reductions.push_back(overOf(cast<clv::ReduceOp>(op)));
    }
    if (llvm::any_of(op->getUsers(), reads)) {
      result.outputs.push_back(op->getResult(0));
      memory.push_back(extentsOf(op->getResult(0)));
    }
  }
  return true;
}

bool Analyzer::fix(const Extents &dims) {
  if (fixed.empty()) {
    fixed = dims;
  }
  return sameSet(fixed, dims);
}

/// The column dims that reductions read inside, and row values, leave no choice
/// about. False where they contradict one another.
bool Analyzer::fixColumns() {
  for (Operation *op : result.members) {
    auto reduce = dyn_cast<clv::ReduceOp>(op);
    bool readInside = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return inside.contains(user); });
    Extents dims = iterationOf(op);
    bool full = dims.size() == space.size();
    if (dims.empty()) {
      return false; // scalars compute in f64, in kernels of their own
    }
    if (reduce && readInside && (!full || !fix(overOf(reduce)))) {
      return false;
    }
    if (!full && !fix(minus(space, dims))) {
      return false;
    }
  }
  if (fixed.size() == space.size() && !fixed.empty()) {
    // One long row, whose sums are read in the same kernel.
    int64_t length = 1;
    for (const Extent &dim : fixed) {
      length *= dim.largest;
    }
    return length <= longestChain;
  }
  return true;
}

/// Whether every value can be walked along `columns` as one loop.
bool Analyzer::fits(ArrayRef<Extent> columns) {
  auto has = [&](ArrayRef<Extent> dims) {
    return llvm::count_if(columns,
                          [&](const Extent &c) { return contains(dims, c); });
  };
  auto allOrNone = [&](ArrayRef<Extent> dims) {
    size_t count = has(dims);
    return count == 0 || count == columns.size();
  };
  if (columns.size() > 1 && has(positions)) {
    return false;
  }
  for (Value value : evaluated) {
    if (!allOrNone(extentsOf(value))) {
      return false;
    }
  }
  for (const Extents &dims : memory) {
    if (!allOrNone(dims)) {
      return false;
    }
    const auto *at = llvm::find(dims, columns.front());
    if (at != dims.end() &&
        (static_cast<size_t>(dims.end() - at) < columns.size() ||
         !std::equal(columns.begin(), columns.end(), at))) {
      return false;
    }
  }
  return llvm::all_of(reductions, allOrNone);
}

/// The first value in memory that has every dim and ends in `columns`.
const Extents *Analyzer::primary(ArrayRef<Extent> columns) {
  for (const Extents &dims : memory) {
    if (dims.size() == space.size() &&
        (columns.empty() || dims.back() == columns.back())) {
      return &dims;
    }
  }
  return nullptr;
}

bool Analyzer::orderColumns() {
  const Extents *order = nullptr;
  for (const Extents &dims : memory) {
    if (isSubset(fixed, dims) && (!order || contains(fixed, dims.back()))) {
      order = &dims;
      if (contains(fixed, dims.back())) {
        break;
      }
    }
  }
  for (const Extent &dim : order ? *order : space) {
    if (contains(fixed, dim)) {
      result.columns.push_back(dim);
    }
  }
  // Not along a large operand's strides: two kernels walk it faster.
  for (const Extents &dims : memory) {
    if (dims.size() == space.size() &&
        !(dims.back() == result.columns.back())) {
      return false;
    }
  }
  return fits(result.columns);
}

bool Analyzer::chooseColumns() {
  // The dim that is last, thus contiguous, in most operands.
  Extent best = space.back();
  int most = 0;
  for (const Extents &candidate : memory) {
    if (candidate.empty()) {
      continue;
    }
    int votes = 0;
    for (const Extents &dims : memory) {
      votes += !dims.empty() && dims.back() == candidate.back()
                   ? static_cast<int>(dims.size())
                   : 0;
    }
    if (votes > most) {
      most = votes;
      best = candidate.back();
    }
  }
  result.columns = {best};
  const Extents *order = primary(result.columns);
  if (!order) {
    return true;
  }
  for (size_t i = order->size() - 1; i-- > 0;) {
    Extents wider(order->begin() + i, order->end());
    if (!fits(wider)) {
      break;
    }
    result.columns = wider;
  }
  return true;
}

/// The other dims, those that are adjacent in every operand as one loop.
void Analyzer::chooseRows() {
  const Extents *order = primary(result.columns);
  if (!order) {
    order = primary({});
  }
  Extents rest = minus(order ? *order : space, result.columns);
  for (const Extent &dim : rest) {
    bool joins = !result.rows.empty() && !contains(positions, dim) &&
                 !contains(positions, result.rows.back().back());
    if (joins) {
      const Extent &last = result.rows.back().back();
      joins = llvm::all_of(memory, [&](const Extents &dims) {
        const auto *a = llvm::find(dims, last);
        const auto *b = llvm::find(dims, dim);
        return (a == dims.end() && b == dims.end()) ||
               (a != dims.end() && b != dims.end() && b == a + 1);
      });
    }
    if (joins) {
      result.rows.back().push_back(dim);
    } else {
      result.rows.push_back({dim});
    }
  }
}

std::optional<Analysis> codegen::analyze(ArrayRef<Operation *> members) {
  return Analyzer(members).run();
}
