//===- ResolvePipeline.cpp - A pipeline as one stage runs it --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Neither sends nor receives wait: each microbatch has channels of its own. A
// receive ends at the latest before the step that uses it, a send when its slot
// is taken for another cell, and at the end of the pipeline.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Resolver.h"

#include <algorithm>

namespace cleave::executor {

using format::Step;
using format::StepKind;

class PipelineResolver {
public:
  PipelineResolver(Resolver &resolver, const format::PipelineT &pipeline)
      : r(resolver), pipeline(pipeline), shape(pipeline, r.env.placement->mesh),
        stage(
            r.env.placement->mesh.rankAlong(r.env.deviceNumber, pipeline.pipe)),
        stages(
            r.env.placement->mesh.groupOf(r.env.deviceNumber, pipeline.pipe)),
        use(r.program, shape, stage) {}

  Status resolve();

private:
  using Operation = DeviceProgram::Operation;
  using Messages = std::vector<std::unique_ptr<format::MessageT>>;

  Resolver &r;
  const format::PipelineT &pipeline;
  format::PipelineShape shape;
  int64_t stage;
  std::vector<int64_t> stages; ///< the devices that differ in the stage alone
  /// By kind, by chunk: what this stage does.
  std::vector<std::vector<const format::SectionT *>> sections[3];
  format::SlotUse use;
  std::vector<std::vector<int64_t>> owners; ///< by group, by slot: a cell
  std::vector<std::vector<uint32_t>> sends; ///< by cell: not yet waited for
  /// Of activations, of gradients; by cell: what was posted and not waited for.
  std::vector<std::vector<uint32_t>> receives[2];

  void collectSections();
  Status resolveStep(const Step &step);
  Status resolveWork(const Step &step);
  Status resolveSections(format::SectionKind kind, int64_t chunk);
  Status resolveMessages(const Step &step);
  void handOver(const Step &step);
  void takeSlots(const Step &step);
  void finishSends(int64_t cell);
  void finishReceives(const Step &step);
  Result<transport::Channel> open(const format::MessageT &message,
                                  size_t number, int64_t from, int64_t to,
                                  int64_t micro);
};

void PipelineResolver::collectSections() {
  for (auto &byChunk : sections) {
    byChunk.resize(shape.chunks);
  }
  for (const auto &section : pipeline.sections) {
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      int64_t position = shape.position(stage, chunk);
      if (position >= section->begin && position < section->end) {
        sections[static_cast<size_t>(section->kind)][chunk].push_back(
            section.get());
      }
    }
  }
}

Status PipelineResolver::resolveSections(format::SectionKind kind,
                                         int64_t chunk) {
  for (const format::SectionT *one :
       sections[static_cast<size_t>(kind)][chunk]) {
    CLEAVE_TRY(r.resolveBody(one->body));
  }
  return Status();
}

void PipelineResolver::finishSends(int64_t cell) {
  for (uint32_t index : sends[cell]) {
    r.result.code.push_back({Operation::Wait, noSite, index});
  }
  sends[cell].clear();
}

/// What a computing step is about to use. To a trace it is that receive.
void PipelineResolver::finishReceives(const Step &step) {
  if (step.kind() == StepKind::WeightGradient) {
    return;
  }
  bool gradient = step.kind() != StepKind::Forward;
  std::vector<uint32_t> &posted = receives[gradient][r.cell];
  if (posted.empty()) {
    return;
  }
  uint32_t number = static_cast<uint32_t>(r.result.steps.size());
  Step receive(gradient ? StepKind::ReceiveGradient
                        : StepKind::ReceiveActivation,
               step.chunk(), step.micro());
  r.emit(Operation::StepBegin, r.result.steps,
         DeviceProgram::StepCall{receive, 0}, 0);
  for (uint32_t index : posted) {
    r.result.code.push_back({Operation::Wait, noSite, index});
  }
  r.result.code.push_back({Operation::StepEnd, 0, number});
  posted.clear();
}

/// The cell that had a slot before may still be read by a neighbour.
void PipelineResolver::takeSlots(const Step &step) {
  for (auto [group, cell] : use.of(step)) {
    int64_t &owner = owners[group][r.env.slots->groups[group].numbers[cell]];
    if (owner >= 0 && owner != cell && use.isSource(group)) {
      finishSends(owner);
    }
    owner = cell;
  }
}

/// Message `number` of all from position `from` to `to`, of one microbatch.
Result<transport::Channel>
PipelineResolver::open(const format::MessageT &message, size_t number,
                       int64_t from, int64_t to, int64_t micro) {
  transport::Description description;
  size_t count = pipeline.activations.size() + pipeline.gradients.size();
  description.id =
      uint64_t(1) << 63 | uint64_t(r.env.program) << 48 |
      ((std::min(from, to) * shape.micros + micro) * count + number);
  description.name = from < to ? "activation" : "gradient";
  description.type = r.valueOf(*message.source).type;
  transport::Box boxes[2];
  for (int side : {0, 1}) {
    int64_t position = side == 0 ? from : to;
    int64_t device = stages[shape.stageAt(position)];
    int64_t instant =
        r.env.placement->instantOf(pipeline, micro, shape.chunkAt(position));
    description.group.push_back(device);
    boxes[side] = r.env.placement->boxOf(
        r.valueOf(side == 0 ? *message.source : *message.target), device,
        instant);
    // A leading dim that the other side lacks, so that scalars may be sent.
    boxes[side].dims.insert(boxes[side].dims.begin(), {0, 1});
  }
  description.sources = {boxes[0], boxes[0]};
  description.targets = {boxes[1], boxes[1]};
  description.sources[1].dims[0].end = 0;
  description.targets[0].dims[0].end = 0;
  description.partial = {0, 0};
  return r.env.transport->open(description,
                               description.group[1] == r.env.deviceNumber);
}

Status PipelineResolver::resolveMessages(const Step &step) {
  bool gradient = step.kind() >= StepKind::SendGradient;
  bool isSend = step.kind() == StepKind::SendActivation ||
                step.kind() == StepKind::SendGradient;
  int64_t own = shape.position(stage, step.chunk());
  int64_t other = isSend != gradient ? own + 1 : own - 1;
  const Messages &messages =
      gradient ? pipeline.gradients : pipeline.activations;
  for (size_t i = 0; i < messages.size(); ++i) {
    const format::MessageT &message = *messages[i];
    if (!format::crosses(message, std::min(own, other))) {
      continue;
    }
    size_t number = i + (gradient ? pipeline.activations.size() : 0);
    Result<transport::Channel> channel =
        open(message, number, isSend ? own : other, isSend ? other : own,
             step.micro());
    if (!channel) {
      return channel.status();
    }
    uint32_t index = static_cast<uint32_t>(r.result.collectives.size());
    r.emit(Operation::Start, r.result.collectives,
           DeviceProgram::CollectiveCall{
               *channel, isSend ? r.addressOf(*message.source) : Address(),
               isSend ? Address() : r.addressOf(*message.target),
               r.trafficOf(format::TrafficKind::Send, pipeline.pipe)},
           noSite, {0, isSend ? 0 : 2 * r.bytesOf(*message.target)});
    (isSend ? sends : receives[gradient])[r.cell].push_back(index);
  }
  return Status();
}

/// To a neighbouring position on this stage.
void PipelineResolver::handOver(const Step &step) {
  int64_t target = shape.neighbour(step, stage);
  if (target < 0) {
    return;
  }
  const Messages &messages = step.kind() == StepKind::Forward
                                 ? pipeline.activations
                                 : pipeline.gradients;
  int64_t own = shape.position(stage, step.chunk());
  int64_t boundary = step.kind() == StepKind::Forward ? own : own - 1;
  for (const auto &message : messages) {
    if (!format::crosses(*message, boundary)) {
      continue;
    }
    const format::ValueT &value = r.valueOf(*message->source);
    r.emitMove(value.type, r.boxOf(*message->source), r.boxOf(*message->target),
               r.addressOf(*message->source),
               {r.baseOf(message->target->value(), target), -1, 0}, noSite);
  }
}

Status PipelineResolver::resolveWork(const Step &step) {
  using format::SectionKind;
  switch (step.kind()) {
  case StepKind::Forward:
    return resolveSections(SectionKind::Forward, step.chunk());
  case StepKind::InputGradient:
    return resolveSections(SectionKind::Backward, step.chunk());
  case StepKind::WeightGradient:
    return resolveSections(SectionKind::WeightGradient, step.chunk());
  case StepKind::Backward:
    CLEAVE_TRY(resolveSections(SectionKind::Backward, step.chunk()));
    return resolveSections(SectionKind::WeightGradient, step.chunk());
  default:
    return resolveMessages(step);
  }
}

/// What has to be waited for stands before the step, so that the step lasts as
/// long as its work. A step that posts takes no time, and is none to a trace.
Status PipelineResolver::resolveStep(const Step &step) {
  takeSlots(step);
  r.cell = shape.cell(step.micro(), step.chunk());
  r.instant = r.env.placement->instantOf(pipeline, step.micro(), step.chunk());
  if (step.kind() == StepKind::ReceiveActivation ||
      step.kind() == StepKind::ReceiveGradient) {
    return resolveMessages(step);
  }
  if (!format::isMessage(step.kind())) {
    finishReceives(step);
  }
  uint32_t index = static_cast<uint32_t>(r.result.steps.size());
  r.emit(Operation::StepBegin, r.result.steps, DeviceProgram::StepCall{step, 0},
         0);
  CLEAVE_TRY(resolveWork(step));
  handOver(step);
  r.result.code.push_back({Operation::StepEnd, 0, index});
  return Status();
}

Status PipelineResolver::resolve() {
  collectSections();
  sends.resize(shape.cells());
  receives[0].resize(shape.cells());
  receives[1].resize(shape.cells());
  for (const format::Slots::Group &group : r.env.slots->groups) {
    owners.emplace_back(group.count, -1);
  }
  for (const Step &step : pipeline.streams[stage]->steps) {
    CLEAVE_TRY(resolveStep(step).in(format::describe(step, shape.chunks > 1)));
  }
  for (int64_t cell = 0; cell < shape.cells(); ++cell) {
    finishSends(cell);
  }
  r.cell = -1;
  r.instant = 0;
  return Status();
}

Status Resolver::resolvePipeline(const format::PipelineT &pipeline) {
  return PipelineResolver(*this, pipeline).resolve();
}

} // namespace cleave::executor
