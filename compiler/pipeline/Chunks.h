//===- Chunks.h - Several chunks of layers on each stage --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stage with several chunks holds several pieces of the layers, one after the
// other in memory. Before and after the microbatches they are one value. A
// section sees those of the chunk that runs: the same memory, cut over the time
// of chunks too.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_CHUNKS_H
#define CLEAVE_COMPILER_PIPELINE_CHUNKS_H

#include "dialects/pipe/Pipe.h"
#include "layout/Plan.h"

namespace cleave::pipelining {

/// Lets the sections of `micro` see chunks.
void viewChunks(pipe::MicroOp micro, const layout::PipelineStatement &pipeline,
                const layout::Mesh &mesh);

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_CHUNKS_H
