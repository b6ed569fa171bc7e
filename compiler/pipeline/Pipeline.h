//===- Pipeline.h - Microbatches and stages of a local program --*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan with `micro` or `pipeline` cuts the batch over a time of its mesh, and
// perhaps a repeated dim over stages. Partitioning treats both as atoms. What
// it gives is then put into the order of a schedule, in the pipe dialect:
//
//   before     what is the same at all instants: gathered weights, counts;
//   micro      what is cut in time, in sections that stages run for each
//              microbatch in the schedule's order;
//   after      what needs sums over all microbatches: reductions of gradients,
//              clipping, updates.
//
// Which is which follows from types. A value whose layout uses the time is
// *timed*. An all_reduce over the time alone is where microbatches are added
// up: its operand is timed, its result comes after. An all_gather over it is
// where each microbatch stores its part of a value (of reproducible programs).
// A timed value that needs such a result could not be computed before all
// microbatches were, and is refused, unless the sum depends on inputs alone (a
// count of targets): inputs are there from the start, so the sum is then made
// of all of them before.
//
// With stages, work is put on positions (Sections.h): iterations of repeats
// where the plan cuts them, regions where it places them, the rest where what
// it reads is. A value that depends on inputs and indices alone is computed
// again wherever it is read; others pass from position to position (Route.h).
// A parameter lives on the stages that read it; where there are two, their
// gradients are added on both, in one order, so that they stay the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_PIPELINE_H
#define CLEAVE_COMPILER_PIPELINE_PIPELINE_H

#include "layout/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <vector>

namespace cleave {

/// What each stage does, three numbers for each step: its kind (StepKind of
/// runtime/format/Plan.fbs), chunk and microbatch.
using StageStreams = std::vector<std::vector<int32_t>>;

/// Takes the gradients of stacked parameters after the repeats that make them,
/// of the stack: they can then stay pending until all microbatches are done.
/// For @train, before partitioning.
void sinkGradients(mlir::ModuleOp module);

/// Lets sums that repeats carry without the dim `micro`, such as auxiliary
/// losses, stay pending until all microbatches are done: each is the sum of its
/// start and of what iterations add to zero, and no other value reads what they
/// add. What a repeat carries unchanged is read from before it. Before
/// partitioning.
void separateSums(mlir::ModuleOp module, llvm::StringRef micro);

/// Reorganises the functions of a partitioned module, as above. `plans` has for
/// each function the plan that it was partitioned by, `streams` what its stages
/// do. Emits what is refused.
struct PipelinedFunction {
  const layout::Plan *plan = nullptr;
  StageStreams streams;
};
mlir::LogicalResult
outlinePipeline(mlir::ModuleOp module,
                const llvm::StringMap<PipelinedFunction> &functions);

} // namespace cleave

#endif // CLEAVE_COMPILER_PIPELINE_PIPELINE_H
