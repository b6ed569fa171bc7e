//===- RowKernel.h - A group of operations as loops -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The builder behind `buildRowKernel`. Group.h says what row kernels are.
// RowPhases.cpp decides what happens in which phase, RowValues.cpp computes
// values, RowKernel.cpp writes the loops.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_ROWKERNEL_H
#define CLEAVE_COMPILER_CODEGEN_ROWKERNEL_H

#include "compiler/codegen/Kernel.h"
#include "compiler/codegen/Writer.h"

namespace cleave::codegen {

/// Columns of a block, where long sums are cut in blocks.
inline constexpr int64_t blockColumns = 4096;

/// Builds one kernel.
class RowKernel {
public:
  RowKernel(const Analysis &analysis, KernelLibrary &library)
      : analysis(analysis), w(library, analysis.members.front()->getContext()),
        b(w.b) {}

  llvm::Expected<Kernel> build();

private:
  const Analysis &analysis;
  Writer w;
  mlir::ImplicitLocOpBuilder &b;

  llvm::DenseMap<mlir::Value, Memory> inputs;
  llvm::MapVector<mlir::Value, Memory> outputs;
  /// Full values kept for later phases.
  llvm::MapVector<mlir::Value, Memory> saved;
  llvm::DenseSet<mlir::Operation *> members;
  llvm::DenseMap<mlir::Value, unsigned> levels;
  llvm::DenseMap<mlir::Value, unsigned> firstPhase;
  llvm::DenseMap<mlir::Value, unsigned> lastLoad; ///< phase, of inputs
  unsigned phases = 1;
  bool blocked = false;
  bool isWide = false; ///< floats are f64
  std::string error;

  // Where the loops stand.
  llvm::SmallVector<mlir::Value> rowIndices;
  mlir::Value columnBase;  ///< first column of the block
  mlir::Value columnCount; ///< of the block
  unsigned phase = 0;
  mlir::Value column, mask;                           ///< of the current vector
  llvm::DenseMap<mlir::Value, mlir::Value> rowValues; ///< of the current row
  /// Of the current vector.
  llvm::DenseMap<mlir::Value, mlir::Value> vectorValues;

  bool isMemory(mlir::Value value) {
    return inputs.contains(value) || isIteration(value);
  }
  bool isFull(mlir::Value value) {
    return !analysis.columns.empty() &&
           contains(extentsOf(value), analysis.columns.front());
  }
  bool isRowReduction(clv::ReduceOp reduce) {
    return isFull(reduce.getX()) && !isFull(reduce.getResult());
  }
  bool isAccumulated(mlir::Value output);
  unsigned levelOf(mlir::Value value);
  int costAgain(mlir::Value value, int limit);
  void findPhases();
  void visit(mlir::Value value, unsigned phase,
             llvm::DenseSet<mlir::Value> &seen);
  void findInPlace();

  mlir::Type workType(mlir::Type element) {
    element = element.isBF16() ? b.getF32Type() : element;
    return isWide && element.isF32() ? b.getF64Type() : element;
  }
  mlir::Type elementOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
  mlir::Value positionOf(const Extent &dim);
  mlir::Value indexValue(clv::IndexOp op, bool full);
  mlir::Value randomValue(clv::RandomOp op, bool full);
  mlir::Value apply(mlir::Operation *op,
                    llvm::function_ref<mlir::Value(mlir::Value)> operand,
                    bool full);
  mlir::Value rowValue(mlir::Value value);
  mlir::Value fullValue(mlir::Value value);
  mlir::Value anyVector(mlir::Value value) {
    return isFull(value) ? fullValue(value) : w.splat(rowValue(value));
  }
  void prepare(mlir::Value value, llvm::DenseSet<mlir::Value> &seen);

  void addOperands();
  void fillAccumulated();
  void placeRows();
  void emitPhase();
  void accumulateRow(clv::ReduceOp reduce, mlir::Value scalar);
  void emitRow();
  std::string hint();
};

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_ROWKERNEL_H
