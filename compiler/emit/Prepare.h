//===- Prepare.h - Removes what has no instruction --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_PREPARE_H
#define CLEAVE_COMPILER_EMIT_PREPARE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace cleave::emit {

/// Removes identities (edges, weights, gradients, stops) and dead operations,
/// and writes `extreme` as a reduction, so that it joins kernels. Refuses what
/// has no code: compositions and f64 tensors.
llvm::Error prepare(mlir::func::FuncOp function);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_PREPARE_H
