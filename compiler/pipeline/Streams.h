//===- Streams.h - What each stage does, as a plan file says it -*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_STREAMS_H
#define CLEAVE_COMPILER_PIPELINE_STREAMS_H

#include "compiler/pipeline/Pipeline.h"
#include "schedule/Streams.h"

namespace cleave::pipe {
class MicroOp;
} // namespace cleave::pipe

namespace cleave {

/// Of a schedule that was proven, with its messages.
StageStreams streamsOf(const schedule::Schedule &schedule,
                       const schedule::Streams &streams);

/// One microbatch forward through all positions: for what is not trained.
StageStreams forwardStreams(int32_t stages, int32_t chunks,
                            schedule::Placement placement);

/// Microbatches one after the other on one stage.
StageStreams sequentialStreams(int32_t micros);

/// Which stage and chunk each position of `micro` is: its sizes and placement,
/// without actions.
schedule::Schedule lineOf(pipe::MicroOp micro, const layout::Mesh &mesh);

/// Atoms as layouts number them.
std::vector<layout::AtomId> atomsOf(llvm::ArrayRef<int64_t> atoms);

/// The plan for entries that take the batch whole, as one microbatch of a time
/// of size 1 that follows the mesh's others; `dim` is that of samples.
layout::Plan withOneMicrobatch(layout::Plan plan, const std::string &dim);

} // namespace cleave

#endif // CLEAVE_COMPILER_PIPELINE_STREAMS_H
