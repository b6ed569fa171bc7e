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
//    terms (never a pending sum), and each device adds, by index, those of its
//    share of the result, which is gathered where it is declared whole;
//  * contractions and sums are `ordered`: the runtime adds their terms in one
//    order that depends neither on the sizes of the piece nor on its place in
//    memory (runtime/contraction/Ordered.h);
//  * a written sum of several values is added as it is written;
//  * a sum over layers is the last level of its sum, by the layers' index, and
//    what repeats add to a carried zero is such a sum (Marks.h);
//  * single numbers, which kernels compute in f64, are rounded in places that
//  do
//    not depend on which of them one kernel computes (Marks.h).
//
// Example. dot(x[batch: data, ff: tensor], w[ff: tensor, embed]) over ff, the
// result split over `data`: x is gathered over `tensor`, w goes by an
// all_to_all from `ff` to `embed`, each device computes the columns that it
// then has, and these are gathered. The gradient dot(x, dy[batch: data, embed])
// over batch is made in shares over `data` likewise.
//
// Microbatches. Terms that come one after the other are gathered too: each
// microbatch stores its part of x and dy in its place, and the sum over `batch`
// is made once, when all parts are there (pipe.store). A repeat that sums over
// samples for each layer therefore becomes two: the first gives the terms, the
// second, after all microbatches, the sums (Defer.cpp). So the order in which a
// schedule runs microbatches plays no part, and a sum is the same operation
// with the same operands as on one device without microbatches.
//
// Stages. Sums over samples are made for each layer where it is. A sum over
// layers gathers one element for each layer, or for each element of a parameter
// that all layers read.
//
// The price: terms are more bytes than sums of them, the library for
// contractions is faster, a sum that gives one number is made by every device,
// and what weight gradients are made of is kept of all microbatches.
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
/// Of an operation on single numbers: its result is rounded to f32.
inline constexpr llvm::StringLiteral kRounded = "clv.rounded";
/// Of one whose result is not, and which has one reader, of the same kernel.
inline constexpr llvm::StringLiteral kExact = "clv.exact";
/// Of a repeat that runs once for all microbatches.
inline constexpr llvm::StringLiteral kDeferred = "clv.deferred";

/// Marks a decomposed global program. An error, at the operation, where there
/// is one that adds in an order of its own.
mlir::LogicalResult makeReproducible(mlir::ModuleOp module);

/// Of a marked program that will run in microbatches of `dim`: makes the sums
/// over it of every repeat in a repeat of their own, after it. One whose sums
/// the rest of its body reads is left as it is.
void deferSums(mlir::ModuleOp module, llvm::StringRef dim);

/// Of a partitioned reproducible program: an error where a sum is pending.
mlir::LogicalResult verifyReproducible(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_REPRODUCIBLE_REPRODUCIBLE_H
