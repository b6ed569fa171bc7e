//===- Streams.cpp - What each stage does, as a plan file says it ---------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Streams.h"

#include "dialects/pipe/Pipe.h"
#include "runtime/format/Plan_generated.h"

namespace cleave {

using format::StepKind;
using schedule::Operation;

// An action's step has its number.
static_assert(int(StepKind::Forward) == int(schedule::Kind::Forward) &&
              int(StepKind::Backward) == int(schedule::Kind::Backward) &&
              int(StepKind::InputGradient) ==
                  int(schedule::Kind::InputGradient) &&
              int(StepKind::WeightGradient) ==
                  int(schedule::Kind::WeightGradient));

static StepKind kindOf(const Operation &operation,
                       const std::vector<schedule::Action> &actions) {
  switch (operation.kind) {
  case Operation::Kind::Compute:
    return static_cast<StepKind>(actions[operation.action].kind);
  case Operation::Kind::SendActivation:
    return StepKind::SendActivation;
  case Operation::Kind::ReceiveActivation:
    return StepKind::ReceiveActivation;
  case Operation::Kind::SendGradient:
    return StepKind::SendGradient;
  case Operation::Kind::ReceiveGradient:
    return StepKind::ReceiveGradient;
  }
  return StepKind::Forward;
}

static void add(std::vector<int32_t> &stream, StepKind kind, int32_t chunk,
                int32_t micro) {
  stream.insert(stream.end(), {static_cast<int32_t>(kind), chunk, micro});
}

StageStreams streamsOf(const schedule::Schedule &schedule,
                       const schedule::Streams &streams) {
  StageStreams result(streams.stages.size());
  for (size_t stage = 0; stage < streams.stages.size(); ++stage) {
    for (const Operation &operation : streams.stages[stage]) {
      add(result[stage], kindOf(operation, schedule.actions[stage]),
          operation.chunk, operation.micro);
    }
  }
  return result;
}

StageStreams forwardStreams(int32_t stages, int32_t chunks,
                            schedule::Placement placement) {
  schedule::Schedule line;
  line.stages = stages;
  line.chunks = chunks;
  line.placement = placement;
  StageStreams result(stages);
  for (int32_t position = 0; position < stages * chunks; ++position) {
    std::vector<int32_t> &stream = result[line.owner(position)];
    int32_t chunk = line.chunkAt(position);
    if (position > 0 && line.crosses(position - 1)) {
      add(stream, StepKind::ReceiveActivation, chunk, 0);
    }
    add(stream, StepKind::Forward, chunk, 0);
    if (position + 1 < stages * chunks && line.crosses(position)) {
      add(stream, StepKind::SendActivation, chunk, 0);
    }
  }
  return result;
}

StageStreams sequentialStreams(int32_t micros) {
  StageStreams result(1);
  for (int32_t micro = 0; micro < micros; ++micro) {
    add(result.front(), StepKind::Forward, 0, micro);
  }
  return result;
}

std::vector<layout::AtomId> atomsOf(llvm::ArrayRef<int64_t> atoms) {
  return {atoms.begin(), atoms.end()};
}

schedule::Schedule lineOf(pipe::MicroOp micro, const layout::Mesh &mesh) {
  schedule::Schedule line;
  line.stages = static_cast<int32_t>(mesh.sizeOf(atomsOf(micro.getPipe())));
  line.micros = static_cast<int32_t>(mesh.sizeOf(atomsOf(micro.getMicro())));
  line.chunks = static_cast<int32_t>(mesh.sizeOf(atomsOf(micro.getChunk())));
  line.placement = static_cast<schedule::Placement>(micro.getPlacement());
  return line;
}

layout::Plan withOneMicrobatch(layout::Plan plan, const std::string &dim) {
  layout::AtomId atom = static_cast<layout::AtomId>(plan.mesh.atoms.size());
  plan.mesh.atoms.push_back({"whole", 1});
  ++plan.mesh.times;
  layout::ShardStatement statement;
  statement.dims = {dim};
  statement.also = true;
  statement.alternatives.push_back({{atom}, {}, {}, "whole", {}});
  statement.source = plan.source;
  plan.shards.push_back(statement);
  plan.micro = layout::MicroStatement{dim, atom, plan.source};
  return plan;
}

} // namespace cleave
