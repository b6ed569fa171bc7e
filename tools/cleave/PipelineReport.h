//===- PipelineReport.h - What a pipeline does and costs --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The timeline is of the microbatches: what a step does once, before and after
// them, is not in it. Its times follow from what each position computes, reads
// and sends (Work.h) and from the rates of Rates.h.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H
#define CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H

#include "compiler/pipeline/Work.h"
#include "schedule/Check.h"
#include "schedule/Simulate.h"
#include "tools/cleave/Rates.h"

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cleave::tools {

/// Between two positions that lie on different stages.
struct Crossing {
  int32_t position = 0;     ///< the one before it
  int32_t from = 0, to = 0; ///< stages, as activations go
  /// Bytes that all devices of a stage send over it in a step.
  int64_t activations = 0, gradients = 0;
  int32_t messages = 0; ///< of a microbatch, there and back
};

struct PipelineReport {
  std::string axis; ///< of the stages
  schedule::Schedule schedule;
  std::vector<int64_t> held; ///< by stage: the peak, in chunk-microbatches
  PipelineWork work;
  Rates rates;
  double bubble = 0;     ///< where all chunks take equal time, messages none
  schedule::Times times; ///< in seconds
  schedule::Timeline timeline; ///< of these times
  std::vector<Crossing> crossings;
  std::vector<layout::StagedRegion> regions; ///< that the plan places
  std::string why; ///< the layers are cut as they are; empty: as written
};

PipelineReport makePipelineReport(const std::string &axis,
                                  const schedule::Schedule &schedule,
                                  const schedule::Proof &proof,
                                  PipelineWork work, const Rates &rates = {});

/// `2 (0 .. 2)`; of several chunks `3 (0 .. 1, 4 .. 6)`; of several repeats,
/// and where the plan places regions, `1 dense (0 .. 1), 2 layer (0 .. 2),
/// output`.
std::string layersOf(const PipelineReport &report, int32_t stage);

/// `1.5 ms`.
std::string formatSeconds(double seconds);

void printCrossings(const PipelineReport &report, std::ostream &out);
void printTimeline(const PipelineReport &report, std::ostream &out);
nlohmann::json toJson(const PipelineReport &report);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H
