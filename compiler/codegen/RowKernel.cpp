//===- RowKernel.cpp - A group of operations as loops ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Group.h says what row kernels are. A full value that several phases need is
// computed again if that is cheap, else kept in its output's row or in a row of
// scratch that stays in the first-level cache.
//
// Kernels without dims compute in f64: they are a handful of scalars, such as a
// learning rate, where digits matter and time does not.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Kernel.h"
#include "compiler/codegen/Scalar.h"
#include "compiler/codegen/Writer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

namespace {

/// A phase that recomputes costs at most this much more than a load.
constexpr int cheapAgain = 3;
/// Columns of a block, where long sums are cut in blocks.
constexpr int64_t blockColumns = 4096;

class RowKernel {
public:
  RowKernel(const Analysis &analysis, KernelLibrary &library)
      : analysis(analysis), w(library, analysis.members.front()->getContext()),
        b(w.b) {}

  llvm::Expected<Kernel> build();

private:
  const Analysis &analysis;
  Writer w;
  ImplicitLocOpBuilder &b;

  llvm::DenseMap<Value, Memory> inputs;
  llvm::MapVector<Value, Memory> outputs;
  llvm::MapVector<Value, Memory> saved; ///< full values kept for later phases
  llvm::DenseSet<Operation *> members;
  llvm::DenseMap<Value, unsigned> levels;
  llvm::DenseMap<Value, unsigned> firstPhase;
  llvm::DenseMap<Value, unsigned> lastLoad; ///< phase, of inputs
  unsigned phases = 1;
  bool blocked = false;
  bool isWide = false; ///< floats are f64
  std::string error;

  // Where the loops stand.
  SmallVector<Value> rowIndices;
  Value columnBase;  ///< first column of the block
  Value columnCount; ///< of the block
  unsigned phase = 0;
  Value column, mask;                        ///< of the current vector
  llvm::DenseMap<Value, Value> rowValues;    ///< scalars of the current row
  llvm::DenseMap<Value, Value> vectorValues; ///< of the current vector

  bool isMember(Value value) {
    Operation *def = value.getDefiningOp();
    return def && members.contains(def);
  }
  bool isMemory(Value value) {
    return inputs.contains(value) || isIteration(value);
  }
  bool isFull(Value value) {
    return !analysis.columns.empty() &&
           contains(extentsOf(value), analysis.columns.front());
  }
  bool isRowReduction(clv::ReduceOp reduce) {
    return isFull(reduce.getX()) && !isFull(reduce.getResult());
  }
  bool isAccumulated(Value output);
  unsigned levelOf(Value value);
  int costAgain(Value value, int limit);
  void findPhases();
  void visit(Value value, unsigned phase, llvm::DenseSet<Value> &seen);
  void findInPlace();

  Type workType(Type element) {
    return isWide && element.isF32() ? b.getF64Type() : element;
  }
  Type elementOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  }
  Value positionOf(const Extent &dim);
  Value indexValue(clv::IndexOp op, bool full);
  Value randomValue(clv::RandomOp op, bool full);
  Value apply(Operation *op, function_ref<Value(Value)> operand, bool full);
  Value rowValue(Value value);
  Value fullValue(Value value);
  Value anyVector(Value value) {
    return isFull(value) ? fullValue(value) : w.splat(rowValue(value));
  }
  void prepare(Value value, llvm::DenseSet<Value> &seen);

  void addOperands();
  void fillAccumulated();
  void placeRows();
  void emitPhase();
  void accumulateRow(clv::ReduceOp reduce, Value scalar);
  void emitRow();
  std::string hint();
};

} // namespace

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

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

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

static Value laneRange(ImplicitLocOpBuilder &b, Type element) {
  auto type = VectorType::get({lanes}, element);
  SmallVector<Attribute> numbers;
  for (int64_t i = 0; i < lanes; ++i) {
    numbers.push_back(b.getIntegerAttr(element, i));
  }
  return b.create<arith::ConstantOp>(type,
                                     DenseElementsAttr::get(type, numbers));
}

Value RowKernel::indexValue(clv::IndexOp op, bool full) {
  Value position = positionOf(extentsOf(op.getResult()).front());
  position = w.add(position, w.i64(op.getFirst()));
  Value index = b.create<arith::TruncIOp>(b.getI32Type(), position);
  if (full) {
    index =
        b.create<arith::AddIOp>(w.splat(index), laneRange(b, b.getI32Type()));
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
        w.splat(linear), b.create<arith::MulIOp>(laneRange(b, wide),
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
  Value result = applyElementwise(b, elementwise.getFunction(), operands,
                                  workType(elementOf(op->getResult(0))));
  if (!result) {
    llvm::raw_string_ostream(error)
        << op->getName() << " has no kernel for " << op->getOperandTypes()[0];
    return constantLike(b,
                        shapedLike(operands[0].getType(),
                                   workType(elementOf(op->getResult(0)))),
                        0);
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
    if (isWide && elementOf(value).isF32()) {
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

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

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
