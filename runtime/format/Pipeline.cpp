//===- Pipeline.cpp - Positions and slots of a pipeline -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Pipeline.h"

#include <algorithm>
#include <deque>

namespace cleave::format {

const PipelineT *pipelineOf(const ProgramT &program) {
  for (const auto &instruction : program.body) {
    if (instruction->action.type == Action::Pipeline) {
      return instruction->action.AsPipeline();
    }
  }
  return nullptr;
}

PipelineShape::PipelineShape(const PipelineT &pipeline,
                             const layout::Mesh &mesh)
    : stages(mesh.sizeOf(pipeline.pipe)), micros(mesh.sizeOf(pipeline.micro)),
      chunks(mesh.sizeOf(pipeline.chunk)), placement(pipeline.placement) {}

int64_t PipelineShape::position(int64_t stage, int64_t chunk) const {
  bool backwards = placement == Placement::Folded && chunk % 2 == 1;
  return chunk * stages + (backwards ? stages - 1 - stage : stage);
}

// Within a round, places and stages mirror each other or are the same.
int64_t PipelineShape::stageAt(int64_t at) const {
  return position(at % stages, chunkAt(at)) % stages;
}

int64_t PipelineShape::receiver(StepKind kind, int64_t at) const {
  if (kind == StepKind::Forward) {
    return at + 1 < positions() ? at + 1 : -1;
  }
  return kind == StepKind::Backward || kind == StepKind::InputGradient ? at - 1
                                                                       : -1;
}

int64_t PipelineShape::neighbour(const Step &step, int64_t stage) const {
  int64_t to = receiver(step.kind(), position(stage, step.chunk()));
  return to >= 0 && stageAt(to) == stage ? cell(step.micro(), chunkAt(to)) : -1;
}

std::vector<int64_t> PipelineShape::touched(const Step &step,
                                            int64_t stage) const {
  std::vector<int64_t> cells = {cell(step.micro(), step.chunk())};
  if (int64_t other = neighbour(step, stage); other >= 0) {
    cells.push_back(other);
  }
  return cells;
}

bool isMessage(StepKind kind) { return kind >= StepKind::SendActivation; }

std::string describe(const Step &step, bool severalChunks) {
  static const char *const names[] = {"forward",         "backward",
                                      "input gradient",  "weight gradient",
                                      "send activation", "receive activation",
                                      "send gradient",   "receive gradient"};
  std::string micro = std::to_string(step.micro());
  return std::string(names[static_cast<size_t>(step.kind())]) + " " +
         (severalChunks
              ? "(" + micro + ", " + std::to_string(step.chunk()) + ")"
              : micro);
}

namespace {

/// The steps of a stage that touch a cell first and last.
struct Span {
  int64_t first = -1, last = -1;
};

} // namespace

/// Of what is free the slot that has been so for longest: a message out of it
/// is then most likely over.
static void assign(Slots::Group &group, const std::vector<Step> &steps,
                   const std::vector<Span> &spans, const PipelineShape &shape,
                   int64_t stage, const SlotGroupT &table) {
  std::deque<int32_t> free;
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t at = static_cast<int64_t>(i);
    std::vector<int64_t> cells = shape.touched(steps[i], stage);
    std::erase_if(cells, [&](int64_t cell) {
      int64_t position = shape.position(stage, cell % shape.chunks);
      return position < table.begin || position >= table.end;
    });
    for (int64_t cell : cells) {
      if (spans[cell].first != at) {
        continue;
      }
      if (free.empty()) {
        free.push_back(static_cast<int32_t>(group.count++));
      }
      group.numbers[cell] = free.front();
      free.pop_front();
    }
    for (int64_t cell : cells) {
      if (spans[cell].last == at) {
        free.push_back(group.numbers[cell]);
      }
    }
  }
}

Slots slotsOf(const PipelineT &pipeline, const PipelineShape &shape,
              int64_t stage) {
  const std::vector<Step> &steps = pipeline.streams[stage]->steps;
  std::vector<Span> spans(shape.cells());
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int64_t cell : shape.touched(steps[i], stage)) {
      int64_t at = static_cast<int64_t>(i);
      spans[cell] = {spans[cell].first < 0 ? at : spans[cell].first, at};
    }
  }
  Slots slots;
  for (const auto &table : pipeline.groups) {
    Slots::Group &group = slots.groups.emplace_back();
    group.numbers.assign(shape.cells(), -1);
    assign(group, steps, spans, shape, stage, *table);
    group.offset = slots.bytes;
    group.stride = (table->bytes + 63) / 64 * 64;
    slots.bytes += group.stride * group.count;
  }
  return slots;
}

} // namespace cleave::format
