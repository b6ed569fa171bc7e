//===- Exec.h - The dialect of plan files -----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_EXEC_EXEC_H
#define CLEAVE_DIALECTS_EXEC_EXEC_H

#include "dialects/spmd/Spmd.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/exec/ExecDialect.h.inc"
#include "dialects/exec/ExecEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.h.inc"

namespace cleave::exec {

/// A buffer, or its slice at an iteration of an enclosing loop: then the first
/// dim is dropped.
struct View {
  mlir::Value buffer;
  mlir::Value iteration; ///< null: the whole buffer
};

/// The views in an operand list that a verifier has seen.
llvm::SmallVector<View> viewsIn(mlir::OperandRange operands);

/// The number of loops around the loop that has this iteration.
unsigned depthOf(mlir::Value iteration);

} // namespace cleave::exec

#endif // CLEAVE_DIALECTS_EXEC_EXEC_H
