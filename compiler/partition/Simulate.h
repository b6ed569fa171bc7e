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

/// Runs a partitioned function on global arguments; gives its global results.
/// Arguments and results may not be pending.
llvm::Expected<std::vector<reference::Tensor>>
simulate(mlir::func::FuncOp function,
         llvm::ArrayRef<reference::Tensor> arguments);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_SIMULATE_H
