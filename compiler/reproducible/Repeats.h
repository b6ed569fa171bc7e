//===- Repeats.h - Repeats that give other stacks ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_REPRODUCIBLE_REPEATS_H
#define CLEAVE_COMPILER_REPRODUCIBLE_REPEATS_H

#include "dialects/clv/Clv.h"

namespace cleave::reproducible {

/// The stack of a global value over the iterations of a repeat.
mlir::RankedTensorType stackOf(clv::RepeatOp repeat, mlir::Type slice);

/// Takes the body of `repeat` into a new one that stands before it, without the
/// results in `dropped` and with the stacks of `slices` after its other ones.
/// Uses of the results that stay are the new one's; `repeat` is left without a
/// body, for its caller to erase. Nothing reads what is carried for a dropped
/// result.
clv::RepeatOp rebuild(clv::RepeatOp repeat,
                      const llvm::DenseSet<mlir::Value> &dropped,
                      llvm::ArrayRef<mlir::Value> slices);

} // namespace cleave::reproducible

#endif // CLEAVE_COMPILER_REPRODUCIBLE_REPEATS_H
