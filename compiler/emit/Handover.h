//===- Handover.h - What a step's update reads of the rest ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step is two parts: the gradients, and the update of the state by
// them (codegen::updatesOf). Where the second reads nothing of the first but
// gradients it can run under another plan than the first: an overlapped hop
// (docs/hops.md) hands the gradients over in between.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_HANDOVER_H
#define CLEAVE_COMPILER_EMIT_HANDOVER_H

#include "compiler/emit/Program.h"

namespace cleave::emit {

/// One gradient, and the parameter that it is of.
struct Handover {
  mlir::Value value; ///< as the update reads it
  llvm::StringRef path;
};

/// What the update of a function reads, by path. Nothing where it reads
/// something else too, or where the rest of the step uses the optimizer's
/// leaves; nor where the function has no update.
llvm::SmallVector<Handover> handoversOf(mlir::func::FuncOp function);

/// The last action that writes a value, among those of the function's block.
size_t makerOf(mlir::Value value, const Actions &actions);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_HANDOVER_H
