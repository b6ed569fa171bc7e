//===- Exec.h - Between plan sets and the exec dialect ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec dialect is the plan file as text: what a build prints of its last
// phase is what it writes, because it writes what it made of the text's
// operations. fromExec(toExec(set)) has the bytes of `set`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EXEC_EXEC_H
#define CLEAVE_COMPILER_EXEC_EXEC_H

#include "dialects/exec/Exec.h"
#include "runtime/format/Plan_generated.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// A module with one `exec.set`. Instructions are located where their sites
/// say. Refuses what the loader of plan files would refuse, and numbers that
/// mean nothing (the index of a value in the arena).
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
toExec(mlir::MLIRContext &context, const format::PlanSetT &set);

/// The plan set of a verified module that holds one `exec.set` and nothing
/// else.
llvm::Expected<format::PlanSetT> fromExec(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_EXEC_EXEC_H
