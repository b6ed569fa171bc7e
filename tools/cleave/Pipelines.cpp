//===- Pipelines.cpp - How each entry of a plan runs in time --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Pipelines.h"

#include "lang/schedule/Schedules.h"

namespace cleave::tools {

StageStreams Pipelined::streamsOf(const std::string &entry) const {
  if (entry != "train") {
    return forwardStreams(schedule->stages, schedule->chunks,
                          schedule->placement);
  }
  return schedule ? cleave::streamsOf(*schedule, proof.streams)
                  : sequentialStreams(micros);
}

/// Evaluates and proves the plan's schedule.
static bool prove(Frontend &frontend, const plan::Elaborated &elaborated,
                  Pipelined &result) {
  const layout::PipelineStatement &pipeline = *elaborated.plan.pipeline;
  scheduling::Sizes sizes;
  sizes.stages = elaborated.plan.mesh.sizeOf(pipeline.atoms);
  sizes.micros = result.micros;
  sizes.chunks = pipeline.chunks;
  const plan::ScheduleCall &call = *elaborated.schedule;
  std::optional<scheduling::Evaluated> evaluated = scheduling::evaluateSchedule(
      *call.decl, call.call, sizes, plan::rangeOf(pipeline.source),
      frontend.sources, frontend.diags, &call.scope->environment);
  if (!evaluated) {
    return false;
  }
  std::optional<schedule::Proof> proof =
      scheduling::proveSchedule(*evaluated, frontend.diags);
  if (!proof) {
    return false;
  }
  result.schedule = std::move(evaluated->schedule);
  result.proof = std::move(*proof);
  return true;
}

/// A time that counts the chunks of a stage.
static void countChunks(layout::Plan &plan) {
  if (plan.pipeline->chunks > 1) {
    plan.pipeline->chunkAtom =
        static_cast<layout::AtomId>(plan.mesh.atoms.size());
    plan.mesh.atoms.push_back({"chunk", plan.pipeline->chunks});
    ++plan.mesh.times;
  }
}

std::optional<Pipelined> makePipelined(Frontend &frontend,
                                       const plan::Elaborated &elaborated,
                                       const std::string &samples) {
  Pipelined result;
  const layout::Plan &plan = elaborated.plan;
  result.train = plan;
  result.whole = plan::withoutMicro(plan);
  result.micros = static_cast<int32_t>(plan.micros());
  if (!plan.pipeline) {
    return result;
  }
  // Both have one mesh, so that their programs share its extents.
  const std::string &dim = plan.micro ? plan.micro->dim : samples;
  result.whole = withOneMicrobatch(std::move(result.whole), dim);
  if (plan.micro) {
    result.train.mesh = result.whole.mesh;
  } else {
    result.train = result.whole;
  }
  countChunks(result.train);
  countChunks(result.whole);
  if (!prove(frontend, elaborated, result)) {
    return std::nullopt;
  }
  return result;
}

} // namespace cleave::tools
