//===- Recompute.h - Less is saved for the backward pass --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `recompute layer`. Differentiation does not know plans: it saves, once for
// all of them, what the backward pass reads and costs something to make again.
// For a plan that says so this takes it back, value by value, after
// differentiation.
//
// In: a function with a repeat, and one that runs the other way and reads
// stacks that the first gives. Out: the second makes the slices that are
// selected itself, from the slices of what the first read.
//
//   repeat layer {             x        repeat layer {             x
//     h = f(x, w); y = g(h)               h = f(x, w); y = g(h)
//     yield y, stack h            ->      yield y, stack x
//   }                                   }
//   repeat layer reverse {     h        repeat layer reverse {     x
//     … g'(h) …                           h = f(x, w); … g'(h) …
//   }                                   }
//
// A value is made again if it is selected, or if differentiation would make it
// again (Differentiate.h: constants, weights, random numbers, edges into
// regions …); anything else on the way is saved. What an iteration carries
// cannot be made again: it is what stays saved. Random numbers depend on global
// indices, so they are the same the second time.
//
// What is made again stands before its first reader, in the backward phase and
// in its own region, so that its layouts are those that the plan says; and it
// is marked, so that its collectives can be told apart. Values outside repeats
// are left.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_DIFFERENTIATE_RECOMPUTE_H
#define CLEAVE_COMPILER_DIFFERENTIATE_RECOMPUTE_H

#include "layout/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace cleave {

/// The discardable attribute of operations that recomputation alone needs.
inline constexpr llvm::StringLiteral kRecomputed = "clv.recomputed";

/// Makes what `selected` holds again in every backward repeat of `root`, a
/// decomposed and simplified program. An error where a value that has to be
/// saved instead has the repeat's dim itself.
mlir::LogicalResult
recompute(mlir::Operation *root,
          llvm::function_ref<bool(const layout::ValueInfo &)> selected);

/// The same for what a plan selects; does nothing where that is nothing.
mlir::LogicalResult recompute(mlir::Operation *root, const layout::Plan &plan);

/// Registers `clv-recompute`.
void registerRecomputePass();

} // namespace cleave

#endif // CLEAVE_COMPILER_DIFFERENTIATE_RECOMPUTE_H
