//===- Pipe.h - The dialect of microbatches and stages ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_PIPE_PIPE_H
#define CLEAVE_DIALECTS_PIPE_PIPE_H

#include "dialects/spmd/Spmd.h"

#include "dialects/pipe/PipeDialect.h.inc"
#include "dialects/pipe/PipeEnums.h.inc"
#define GET_OP_CLASSES
#include "dialects/pipe/PipeOps.h.inc"

namespace cleave::pipe {

/// Whether an operation is a mere frame around others: what it yields is its
/// result, in the same memory.
inline bool isFrame(mlir::Operation *op) {
  return mlir::isa<SectionOp, OnlyOp>(op);
}

/// Whether an operation is another type for the memory of its operand.
inline bool isView(mlir::Operation *op) {
  return mlir::isa<PendingOp, ChunkOp, MergeOp>(op);
}

} // namespace cleave::pipe

#endif // CLEAVE_DIALECTS_PIPE_PIPE_H
