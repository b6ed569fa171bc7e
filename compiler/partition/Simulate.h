//===- Simulate.h - A partitioned program on all devices at once *- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a partitioned function means, said plainly: every device has its piece
// of every value, operations run on each device's pieces by the reference
// evaluator, and a collective takes each element of a device's new box from a
// device of its group whose old box has it, adding up (or taking the maximum
// of) what the coordinates of the reduced atoms hold. In double precision, with
// true extents, empty pieces included. For tests: it shares no code with code
// generation and the runtime.
//
// It refuses programs that are wrong in themselves: a collective whose group
// does not hold an element, and replicas of a result that differ.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_SIMULATE_H
#define CLEAVE_COMPILER_PARTITION_SIMULATE_H

#include "compiler/reference/Reference.h"
#include "layout/Layout.h"

namespace cleave::partitioning {

/// What each device holds of a value, by device number.
using Pieces = std::vector<reference::Tensor>;

/// A value's global sizes, and where its pieces live.
struct Placed {
  std::vector<int64_t> sizes;
  layout::Layout layout;
};

/// The pieces of a global value. Of a pending one each device gets the piece of
/// the whole value: which part of the sum is whose, the caller says.
Pieces piecesOf(const reference::Tensor &value, const Placed &placed,
                const layout::Mesh &mesh);

/// One collective along `atoms`; an error where its group lacks an element.
llvm::Expected<Pieces>
simulateCollective(const Pieces &sources, const Placed &from, const Placed &to,
                   const std::vector<layout::AtomId> &atoms,
                   const layout::Mesh &mesh);

/// One operation on local types, on the pieces of its operands.
llvm::Expected<Pieces> simulateOperation(mlir::Operation *op,
                                         llvm::ArrayRef<Pieces> operands,
                                         const layout::Mesh &mesh);

/// Runs a partitioned function on global arguments; gives its global results.
/// Arguments and results may not be pending.
llvm::Expected<std::vector<reference::Tensor>>
simulate(mlir::func::FuncOp function,
         llvm::ArrayRef<reference::Tensor> arguments);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_SIMULATE_H
