//===- Partition.h - From a global program to a local one -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In: a module of the clv dialect on global types, decomposed (no softmax), and
// a plan. Out: the same functions on local types with collectives between
// them, in the spmd dialect's form, the same for every device.
//
// Layouts follow from names: a value's declared layout is what the plan says of
// its scope and dims. One operation after the other is split by rule 3
// (Decide.h) and its result brought to its declared layout (Reshard.h).
//
// When a pending sum is reduced. A result that is a pending sum stays pending
// where its only reader can take it so; Decide.h chooses there by bytes sent.
// It is reduced at the latest
//
//  * where a reader is not linear in it, or two operations read it;
//  * at an `edge` where the layout changes, a `gradient` and a function's
//    result, in one step with that change: a sum that leaves a region for a
//    sharded value is scattered, not reduced and sliced, however many regions
//    it leaves at once;
//  * where a repeat carries, saves or captures it.
//
// Pending maxima and minima are reduced at once.
//
// `weight`, `edge` and `gradient` operations are gone afterwards: what they
// meant are the collectives where they stood.
//
// Where a collective stands. Operands move once per layout (for each phase);
// a value from outside a repeat moves before it. A weight is gathered where it
// stands, once per iteration, unless `gather … per step` or `per micro` puts
// the gather of the whole stack before the repeat. Collectives on whole stacks
// (updated parameters, hoisted gathers) count once for each layer.
//
// Refused: splitting the dim of a repeat; places on axes without stages.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_PARTITION_H
#define CLEAVE_COMPILER_PARTITION_PARTITION_H

#include "dialects/clv/Rule.h"
#include "layout/Plan.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <vector>

namespace cleave {

/// Of what gathers a weight outside repeats: once for each microbatch.
inline constexpr llvm::StringLiteral kPerMicro = "clv.per_micro";

/// Of a collective in a mesh with times: the position of its record. Where it
/// stands in time, and on which stages, is known later.
inline constexpr llvm::StringLiteral kRecordNumber = "spmd.record";

struct PartitionOptions {
  /// Gives a value its layout; `layout::resolve` unless a test has its own.
  std::function<layout::Resolved(const layout::Plan &,
                                 const layout::ValueInfo &)>
      resolve;
  /// Gives an operation its rule; its own unless a test breaks it.
  std::function<clv::Rule(mlir::Operation *)> ruleOf;
};

/// Partitions every function of `module` in place and sets its `spmd.mesh`.
/// One record per function is appended to `records`, its entry the function's
/// name; `eval` for @loss where there is no @eval. Errors of the plan are
/// emitted at the operation that needs the value; `errors`, where given, gets
/// them as the resolver said them, each once.
mlir::LogicalResult
partition(mlir::ModuleOp module, const layout::Plan &plan,
          std::vector<layout::ProgramRecord> *records = nullptr,
          std::vector<layout::Resolved> *errors = nullptr,
          const PartitionOptions &options = {});

/// Registers `spmd-partition`.
void registerPartitionPasses();

} // namespace cleave

#endif // CLEAVE_COMPILER_PARTITION_PARTITION_H
