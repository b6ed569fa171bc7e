//===- Least.h - The least memory that lifetimes allow ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A lower bound of an arena, to judge what Arena.h made of it. Loops are
// unrolled in thought. A piece of memory, a buffer or one slice of a stack,
// lives from a write to the last read before the next one; the bound is the
// largest sum of what lives at one time. No placement of the same buffers and
// order of work can do with less, and one that does with as much need not
// exist.
//
// Work of microbatches is counted once, in the order in which it is written.
// Places are used to tell pieces apart; where they lie is not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_LEAST_H
#define CLEAVE_COMPILER_EMIT_LEAST_H

#include "compiler/emit/Program.h"

namespace cleave::emit {

/// In bytes; the length of unrolled programs bounds the time.
int64_t leastArena(mlir::func::FuncOp function, const Actions &actions,
                   const Placement &placement);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_LEAST_H
