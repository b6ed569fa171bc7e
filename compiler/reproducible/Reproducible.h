//===- Reproducible.h - The same bits under every plan ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float addition is not associative, so a sum has the same bits under two plans
// only if both add its terms in the same tree. In a reproducible program the
// tree is fixed by the global index alone, and is the same in every plan there
// can be, not only in those of one set:
//
//  * a sum over a dim is made where the dim is whole: partitioning gathers the
//    terms (never a pending sum), and each device adds, by index, those of the
//    elements that it holds of the result;
//  * contractions and sums are `ordered`: the runtime adds their terms in one
//    order that depends neither on the sizes of the piece nor on its place in
//    memory (runtime/contraction/Ordered.h);
//  * a written sum of several values is added as it is written;
//  * kernels are grouped as before, since no elementwise result depends on its
//    neighbours; but what single numbers compute in f64 is grouped before
//    anything else, which a plan has no part in.
//
// Example. dot(x[batch: data, ff: tensor], w[ff: tensor, embed]) over ff: x and
// w are gathered over `tensor`, and the result stays split over `data`. Its
// gradient dot(x, dy) over batch gathers both over `data`.
//
// The price: terms are more bytes than sums of them, what was split over a
// summed dim is computed by every device that keeps the result, and the library
// for contractions is faster.
//
// Not covered: microbatches, and so stages. Their terms come one after the
// other, so that they cannot be gathered.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_REPRODUCIBLE_REPRODUCIBLE_H
#define CLEAVE_COMPILER_REPRODUCIBLE_REPRODUCIBLE_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Of a module whose programs give the same bits under every plan.
inline constexpr llvm::StringLiteral kReproducible = "clv.reproducible";
/// Of its operations that add floats.
inline constexpr llvm::StringLiteral kOrdered = "clv.ordered";

/// Marks a decomposed global program. An error, at the operation, where there
/// is one that adds in an order of its own.
mlir::LogicalResult makeReproducible(mlir::ModuleOp module);

/// Takes the marks away: the same program, added in any order.
void forgetOrder(mlir::ModuleOp module);

/// Of a partitioned reproducible program: an error where a sum is pending.
mlir::LogicalResult verifyReproducible(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_REPRODUCIBLE_REPRODUCIBLE_H
