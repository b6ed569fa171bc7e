//===- Pipeline.cpp - Positions and slots of a pipeline -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Pipeline.h"

#include <algorithm>
#include <deque>
#include <functional>

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

bool crosses(const MessageT &message, int64_t position) {
  return position >= message.begin && position < message.end;
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

//===----------------------------------------------------------------------===//
// Which slots are used
//===----------------------------------------------------------------------===//

namespace {

/// Calls `visit` for the views that instructions name. No deeper than the
/// verifier allows.
struct ViewWalker {
  std::function<void(const View &)> visit;
  /// Whether the body is done where it matters.
  std::function<bool(const OnlyT &)> runs = [](const OnlyT &) { return true; };

  void walk(const std::vector<std::unique_ptr<InstructionT>> &body) {
    for (const auto &instruction : body) {
      walk(instruction->action);
    }
  }
  void walk(const ActionUnion &action) {
    switch (action.type) {
    case Action::Kernel:
      for (const View &view : action.AsKernel()->views) {
        visit(view);
      }
      break;
    case Action::Contraction:
      visit(*action.AsContraction()->lhs);
      visit(*action.AsContraction()->rhs);
      visit(*action.AsContraction()->out);
      break;
    case Action::Fill:
      visit(*action.AsFill()->target);
      break;
    case Action::Move:
      visit(*action.AsMove()->source);
      visit(*action.AsMove()->target);
      break;
    case Action::Collective:
      visit(*action.AsCollective()->source);
      visit(*action.AsCollective()->target);
      break;
    case Action::Loop:
      walk(action.AsLoop()->body);
      break;
    case Action::Only:
      if (runs(*action.AsOnly())) {
        walk(action.AsOnly()->body);
      }
      break;
    case Action::Wait:
    case Action::Pipeline:
    case Action::NONE:
      break;
    }
  }
};

} // namespace

uint64_t arenaOf(const ProgramT &program, const layout::Mesh &mesh,
                 int64_t stage) {
  const PipelineT *pipeline = pipelineOf(program);
  if (!pipeline) {
    return program.arena_bytes;
  }
  PipelineShape shape(*pipeline, mesh);
  std::vector<int64_t> coordinate(mesh.atoms.size());
  int64_t rank = stage;
  for (auto atom = pipeline->pipe.rbegin(); atom != pipeline->pipe.rend();
       ++atom) {
    coordinate[*atom] = rank % mesh.atoms[*atom].size;
    rank /= mesh.atoms[*atom].size;
  }
  // On other axes than the stages' any coordinate may be meant.
  auto isOfStages = [&](const ResidenceT &part) {
    return std::find(pipeline->pipe.begin(), pipeline->pipe.end(), part.atom) !=
           pipeline->pipe.end();
  };
  uint64_t most = 0;
  ViewWalker walker;
  walker.visit = [&](const View &view) {
    const ValueT &value = *program.values[view.value()];
    if (value.storage == Storage::Arena) {
      most = std::max(most, value.offset + value.bytes);
    }
  };
  walker.runs = [&](const OnlyT &only) {
    return std::any_of(
        only.residence.begin(), only.residence.end(), [&](const auto &part) {
          return !isOfStages(*part) || (coordinate[part->atom] >= part->begin &&
                                        coordinate[part->atom] < part->end);
        });
  };
  walker.walk(program.body);
  for (const auto &section : pipeline->sections) {
    bool isDone = false;
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      int64_t position = shape.position(stage, chunk);
      isDone |= position >= section->begin && position < section->end;
    }
    if (isDone) {
      walker.walk(section->body);
    }
  }
  for (const auto &output : program.outputs) {
    walker.visit(View(output->value, -1));
  }
  return most;
}

SlotUse::SlotUse(const ProgramT &program, const PipelineShape &shape,
                 int64_t stage)
    : shape(shape), stage(stage) {
  const PipelineT &pipeline = *pipelineOf(program);
  for (auto &byChunk : sections) {
    byChunk.resize(shape.chunks);
  }
  for (const auto &section : pipeline.sections) {
    std::set<uint32_t> groups;
    ViewWalker walker;
    walker.visit = [&](const View &view) {
      const ValueT &value = *program.values[view.value()];
      if (value.storage == Storage::Slot) {
        groups.insert(value.index);
      }
    };
    walker.walk(section->body);
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      int64_t position = shape.position(stage, chunk);
      if (position >= section->begin && position < section->end) {
        sections[static_cast<size_t>(section->kind)][chunk].insert(
            groups.begin(), groups.end());
      }
    }
  }
  for (int gradient : {0, 1}) {
    sources[gradient].resize(shape.chunks);
    targets[gradient].resize(shape.chunks);
    for (const auto &message :
         gradient ? pipeline.gradients : pipeline.activations) {
      uint32_t from = program.values[message->source->value()]->index;
      uint32_t to = program.values[message->target->value()]->index;
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
        int64_t before = shape.position(stage, chunk) - 1, after = before + 1;
        if (crosses(*message, gradient ? before : after)) {
          sources[gradient][chunk].insert(from);
        }
        if (crosses(*message, gradient ? after : before)) {
          targets[gradient][chunk].insert(to);
        }
      }
    }
  }
}

bool SlotUse::isSource(uint32_t group) const {
  for (const auto &byChunk : sources) {
    for (const std::set<uint32_t> &groups : byChunk) {
      if (groups.contains(group)) {
        return true;
      }
    }
  }
  return false;
}

std::vector<SlotUse::Touch> SlotUse::of(const Step &step) const {
  std::set<uint32_t> groups;
  auto add = [&](const std::set<uint32_t> &more) {
    groups.insert(more.begin(), more.end());
  };
  auto addSections = [&](SectionKind kind) {
    add(sections[static_cast<size_t>(kind)][step.chunk()]);
  };
  int64_t other = shape.neighbour(step, stage);
  bool gradient = step.kind() != StepKind::Forward; // of a computing step
  switch (step.kind()) {
  case StepKind::Forward:
    addSections(SectionKind::Forward);
    break;
  case StepKind::Backward:
    addSections(SectionKind::Backward);
    addSections(SectionKind::WeightGradient);
    break;
  case StepKind::InputGradient:
    addSections(SectionKind::Backward);
    break;
  case StepKind::WeightGradient:
    addSections(SectionKind::WeightGradient);
    break;
  case StepKind::SendActivation:
  case StepKind::SendGradient:
    add(sources[step.kind() == StepKind::SendGradient][step.chunk()]);
    break;
  case StepKind::ReceiveActivation:
  case StepKind::ReceiveGradient:
    add(targets[step.kind() == StepKind::ReceiveGradient][step.chunk()]);
    break;
  }
  if (other >= 0) {
    add(sources[gradient][step.chunk()]);
  }
  std::vector<Touch> touches;
  for (uint32_t group : groups) {
    touches.push_back({group, shape.cell(step.micro(), step.chunk())});
  }
  if (other >= 0) {
    for (uint32_t group : targets[gradient][other % shape.chunks]) {
      touches.push_back({group, other});
    }
  }
  return touches;
}

//===----------------------------------------------------------------------===//
// How many are needed
//===----------------------------------------------------------------------===//

namespace {

/// Hands out the slots of one group. Of what is free that which has been so for
/// longest: a message out of it is then most likely over.
struct Pool {
  std::vector<int64_t> last; ///< by cell: the step that uses it last
  std::deque<int32_t> free;

  void use(Slots::Group &group, int64_t cell) {
    if (group.numbers[cell] >= 0) {
      return;
    }
    if (free.empty()) {
      free.push_back(static_cast<int32_t>(group.count++));
    }
    group.numbers[cell] = free.front();
    free.pop_front();
  }
};

} // namespace

Slots slotsOf(const ProgramT &program, const PipelineShape &shape,
              int64_t stage) {
  const PipelineT &pipeline = *pipelineOf(program);
  const std::vector<Step> &steps = pipeline.streams[stage]->steps;
  SlotUse use(program, shape, stage);
  Slots slots;
  slots.groups.resize(pipeline.groups.size());
  std::vector<Pool> pools(pipeline.groups.size());
  for (size_t group = 0; group < pools.size(); ++group) {
    slots.groups[group].numbers.assign(shape.cells(), -1);
    pools[group].last.assign(shape.cells(), -1);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    for (auto [group, cell] : use.of(steps[i])) {
      pools[group].last[cell] = static_cast<int64_t>(i);
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<SlotUse::Touch> touches = use.of(steps[i]);
    for (auto [group, cell] : touches) {
      pools[group].use(slots.groups[group], cell);
    }
    for (auto [group, cell] : touches) {
      if (pools[group].last[cell] == static_cast<int64_t>(i)) {
        pools[group].free.push_back(slots.groups[group].numbers[cell]);
      }
    }
  }
  for (size_t group = 0; group < pools.size(); ++group) {
    slots.groups[group].offset = slots.bytes;
    slots.groups[group].stride = (pipeline.groups[group]->bytes + 63) / 64 * 64;
    slots.bytes += slots.groups[group].stride * slots.groups[group].count;
  }
  return slots;
}

} // namespace cleave::format
