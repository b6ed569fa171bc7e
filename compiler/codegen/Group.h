//===- Group.h - Which operations become one kernel -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. A *row kernel* is a nest of loops over row dims around vector
// loops over the column dims, which are one loop over contiguous memory where
// the order of dims allows it. Of the values it computes, relative to the
// column dims,
//
//   full values  have all of them; each lives in vector registers;
//   row values   have none of them; each is a scalar of one row.
//
// A reduction over exactly the column dims makes a row value of a full one, and
// splits the work on a row in *phases*: one vector loop for each. Any other
// reduction combines into its result in memory, row by row, and its result is
// not read in the same kernel.
//
//   layer norm of x[batch, seq, embed], columns = embed:
//     phase 0   sum x                     -> row value: mean
//     phase 1   sum (x - mean)^2          -> row value: 1 / deviation
//     phase 2   (x - mean) * that * gain  -> stored
//   its gradient: two sums over embed, then dx; the gain's gradient is added up
//     in memory, gain[embed] += ..., in the same loop.
//
// Constants, positions, comparisons and the like (`isCheap`) are never stored
// for a kernel's sake: each kernel that reads one computes it again.
//
// Grouping is greedy, in program order: an operation joins the newest kernel
// that makes or shares one of its operands and can hold it, unless that would
// make two kernels wait for each other. In a reproducible program single
// numbers that are not rounded come first, each with what reads it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_GROUP_H
#define CLEAVE_COMPILER_CODEGEN_GROUP_H

#include "compiler/codegen/Extent.h"

namespace cleave::codegen {

/// What a group of operations computes and in which loops.
struct Analysis {
  llvm::SmallVector<mlir::Operation *> members; ///< in program order
  llvm::SmallVector<mlir::Value> inputs;  ///< read from memory, by first use
  llvm::SmallVector<mlir::Value> outputs; ///< of members, read elsewhere
  llvm::SmallVector<Extents> rows;        ///< the row loops, outermost first
  Extents columns;                        ///< one loop; empty for scalars
};

/// The loops for `members`; nothing if one kernel cannot hold them all. One
/// alone always fits if `isFusable`.
std::optional<Analysis> analyze(llvm::ArrayRef<mlir::Operation *> members);

/// Operations that row kernels compute.
bool isFusable(mlir::Operation *op);
/// A sum that is a contraction's (compiler/reproducible).
bool isOrderedSum(mlir::Operation *op);
/// Fusable operations that every reader computes again.
bool isCheap(mlir::Operation *op);
/// The value that a repeat's body knows its iteration by.
bool isIteration(mlir::Value value);
/// The operations of a function's block that update the state, or read what
/// such ones make. They come last, in kernels of their own: so a step is two
/// parts, and the second can run under another plan.
llvm::DenseSet<mlir::Operation *> updatesOf(mlir::Block &block);
/// Whether an operation, or one inside it, is of the update's phase.
bool isOfUpdate(mlir::Operation *op);

/// What one step of a schedule does: a kernel, or another operation alone.
struct Step {
  llvm::SmallVector<mlir::Operation *> members; ///< of a kernel; else empty
  mlir::Operation *op = nullptr;                ///< otherwise
  bool isUpdate = false;                        ///< see updatesOf
};

/// The steps of a block in an order that respects dependences. Operations that
/// nobody reads are left out; so are renames (see emit) and the terminator.
llvm::SmallVector<Step> schedule(mlir::Block &block);

/// The values from outside that an operation reads, its regions included.
llvm::SmallVector<mlir::Value> readsOf(mlir::Operation *op);

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_GROUP_H
