//===- Traffic.h - What programs in microbatches and stages send *- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partitioning records collectives before it is known which stage does what.
// Afterwards a collective of a layer is one of the stage that has the layer,
// and one of the embedding the first stage's. Counts stay: they are of the
// program. Bytes of a step become those of the stage that sends most, and of
// all stages.
//
// Two things are only sent because there are stages: messages between
// neighbours (kind `send`), and what one stage has and others read once a step,
// such as the gradient of a tied parameter (kind `broadcast`).
//
// Limits. The busiest device sends each microbatch as if it were the largest;
// what all devices send is exact.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_TRAFFIC_H
#define CLEAVE_COMPILER_PIPELINE_TRAFFIC_H

#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Work.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// What `move` sends, once, at all instants: by whom it sends.
struct Sent {
  int64_t busiest = 0; ///< by one device at one instant
  int64_t total = 0;   ///< by all devices, at all instants
};
/// Of a collective; nothing is sent by other operations.
Sent sentBy(mlir::Operation *op, const layout::Mesh &mesh);

/// Corrects and completes the records of a function that was outlined by
/// `plan`, whose stages do `streams`.
void recordTraffic(mlir::func::FuncOp function, const layout::Plan &plan,
                   const StageStreams &streams, layout::ProgramRecord &record);

} // namespace cleave

#endif // CLEAVE_COMPILER_PIPELINE_TRAFFIC_H
