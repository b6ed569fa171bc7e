//===- Marks.h - The parts of making a program reproducible -----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_REPRODUCIBLE_MARKS_H
#define CLEAVE_COMPILER_REPRODUCIBLE_MARKS_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::reproducible {

/// Sums over layers are the last level of a sum: what each layer has is summed
/// first, by itself. So stages send one element for each layer, not its terms;
/// and what iterations of a repeat add to a carried zero is stacked and summed
/// by the layer's index, whichever way and on whichever stages layers run.
void sumLayersLast(mlir::ModuleOp module);

/// Marks where single numbers are rounded, so that it does not matter which of
/// them one kernel computes: each result is (kRounded), but for those that lead
/// from the number of the step to one that others read (kExact): these stay in
/// f64, copied for each such root, and its kernel computes them all.
void roundSingleNumbers(mlir::ModuleOp module);

} // namespace cleave::reproducible

#endif // CLEAVE_COMPILER_REPRODUCIBLE_MARKS_H
