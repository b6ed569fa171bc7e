//===- VerifyStreams.cpp - Whether the stages of a pipeline get done ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Verify.h"

#include <map>

namespace cleave::format {

namespace {

std::string number(int64_t value) { return std::to_string(value); }

/// A message as both of its sides would name it.
struct Meeting {
  int64_t from = -1, to = -1; ///< positions
  int64_t micro = 0;
  bool gradient = false;

  bool operator==(const Meeting &) const = default;
};

bool sends(StepKind kind) {
  return kind == StepKind::SendActivation || kind == StepKind::SendGradient;
}
bool isGradient(StepKind kind) { return kind >= StepKind::SendGradient; }

struct StreamVerifier {
  const PipelineT &pipeline;
  const PipelineShape &shape;
  /// Of the stage that is being looked at: by cell, a bit for each kind done.
  std::vector<uint8_t> done;

  Status verifyRange(const Step &step, int64_t stage) const;
  Status verifyOrder(const Step &step, int64_t stage);
  Meeting meetingOf(const Step &step, int64_t stage) const;
  bool has(int64_t cell, StepKind kind) const {
    return done[cell] >> static_cast<int>(kind) & 1;
  }
  bool crosses(int64_t a, int64_t b) const {
    return b >= 0 && b < shape.positions() &&
           shape.stageAt(a) != shape.stageAt(b);
  }
};

Meeting StreamVerifier::meetingOf(const Step &step, int64_t stage) const {
  int64_t own = shape.position(stage, step.chunk());
  bool gradient = isGradient(step.kind());
  int64_t other = sends(step.kind()) != gradient ? own + 1 : own - 1;
  return sends(step.kind()) ? Meeting{own, other, step.micro(), gradient}
                            : Meeting{other, own, step.micro(), gradient};
}

Status StreamVerifier::verifyRange(const Step &step, int64_t stage) const {
  if (step.kind() > StepKind::ReceiveGradient) {
    return Status::error("an unknown kind");
  }
  if (step.micro() >= shape.micros || step.chunk() >= shape.chunks) {
    return Status::error("a microbatch or chunk that is not there");
  }
  if (isMessage(step.kind())) {
    Meeting meeting = meetingOf(step, stage);
    if (!crosses(shape.position(stage, step.chunk()),
                 sends(step.kind()) ? meeting.to : meeting.from)) {
      return Status::error("a message that crosses to no other stage");
    }
  }
  return Status();
}

/// Each kind once in a cell, and after what it needs.
Status StreamVerifier::verifyOrder(const Step &step, int64_t stage) {
  int64_t cell = shape.cell(step.micro(), step.chunk());
  int64_t at = shape.position(stage, step.chunk());
  auto had = [&](StepKind kind) { return has(cell, kind); };
  bool propagated = had(StepKind::Backward) || had(StepKind::InputGradient);
  bool fine = true;
  switch (step.kind()) {
  case StepKind::Forward:
    fine = pipeline.activations.empty() || !crosses(at, at - 1) ||
           had(StepKind::ReceiveActivation);
    break;
  case StepKind::Backward:
  case StepKind::InputGradient:
    fine = had(StepKind::Forward) && !propagated &&
           (pipeline.gradients.empty() || !crosses(at, at + 1) ||
            had(StepKind::ReceiveGradient));
    break;
  case StepKind::WeightGradient:
    fine = had(StepKind::InputGradient);
    break;
  case StepKind::SendActivation:
    fine = had(StepKind::Forward);
    break;
  case StepKind::ReceiveActivation:
    fine = !had(StepKind::Forward);
    break;
  case StepKind::SendGradient:
    fine = propagated;
    break;
  case StepKind::ReceiveGradient:
    fine = !propagated;
    break;
  }
  if (!fine) {
    return Status::error("it comes before what it needs, or too late");
  }
  if (had(step.kind())) {
    return Status::error("it is there twice");
  }
  done[cell] |= 1u << static_cast<int>(step.kind());
  return Status();
}

/// Neighbours on one stage hand over without a message: then the order of their
/// steps matters too.
Status verifyNeighbours(const PipelineT &pipeline, const PipelineShape &shape,
                        int64_t stage) {
  std::vector<bool> given[2] = {std::vector<bool>(shape.cells()),
                                std::vector<bool>(shape.cells())};
  for (const Step &step : pipeline.streams[stage]->steps) {
    bool forward = step.kind() == StepKind::Forward;
    if (!forward && step.kind() != StepKind::Backward &&
        step.kind() != StepKind::InputGradient) {
      continue;
    }
    int64_t at = shape.position(stage, step.chunk());
    int64_t before = forward ? at - 1 : at + 1;
    if (before >= 0 && before < shape.positions() &&
        shape.stageAt(before) == stage &&
        !given[forward][shape.cell(step.micro(), step.chunk())]) {
      return Status::error("stage " + number(stage) + ": " +
                           describe(step, shape.chunks > 1) +
                           " comes before what it needs");
    }
    if (int64_t cell = shape.neighbour(step, stage); cell >= 0) {
      given[forward][cell] = true;
    }
  }
  return Status();
}

/// The stages side by side: a receive is posted and waits for nothing, a send
/// waits until it is, a computing step until what it needs was sent.
class Rendezvous {
public:
  Rendezvous(const PipelineT &pipeline, const PipelineShape &shape)
      : pipeline(pipeline), shape(shape), names{pipeline, shape, {}},
        next(shape.stages, 0) {
    for (int gradient : {0, 1}) {
      posted[gradient].resize(shape.positions() * shape.micros);
      sent[gradient].resize(shape.positions() * shape.micros);
    }
  }

  /// Linear in the steps: a stage is looked at again only when a neighbour did
  /// something for it.
  Status run() {
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      ready.push_back(stage);
    }
    while (!ready.empty()) {
      int64_t stage = ready.back();
      ready.pop_back();
      while (const Step *step = at(stage)) {
        if (!advance(stage, *step)) {
          break;
        }
        ++next[stage];
      }
    }
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      if (const Step *step = at(stage)) {
        return Status::error(stuck(stage, *step));
      }
    }
    return verifyWays();
  }

private:
  const PipelineT &pipeline;
  const PipelineShape &shape;
  StreamVerifier names;
  std::vector<size_t> next; ///< by stage
  std::vector<int64_t> ready;
  /// Of activations, of gradients: by receiving position and microbatch.
  std::vector<bool> posted[2], sent[2];

  const Step *at(int64_t stage) const {
    const std::vector<Step> &steps = pipeline.streams[stage]->steps;
    return next[stage] < steps.size() ? &steps[next[stage]] : nullptr;
  }
  /// The other stage of a message, or that which sends what a step needs.
  int64_t peerOf(int64_t stage, const Step &step) const {
    if (isMessage(step.kind())) {
      Meeting meeting = names.meetingOf(step, stage);
      return shape.stageAt(sends(step.kind()) ? meeting.to : meeting.from);
    }
    int64_t own = shape.position(stage, step.chunk());
    return shape.stageAt(step.kind() == StepKind::Forward ? own - 1 : own + 1);
  }
  size_t indexOf(int64_t position, int64_t micro) const {
    return position * shape.micros + micro;
  }

  bool advance(int64_t stage, const Step &step) {
    if (!isMessage(step.kind())) {
      return hasInputs(stage, step);
    }
    Meeting meeting = names.meetingOf(step, stage);
    size_t index = indexOf(meeting.to, meeting.micro);
    if (!sends(step.kind())) {
      posted[meeting.gradient][index] = true;
    } else if (posted[meeting.gradient][index]) {
      sent[meeting.gradient][index] = true;
    } else {
      return false;
    }
    ready.push_back(peerOf(stage, step));
    return true;
  }

  /// Whether a computing step waits for nothing that has to be sent.
  bool hasInputs(int64_t stage, const Step &step) const {
    int64_t own = shape.position(stage, step.chunk());
    bool gradient = step.kind() != StepKind::Forward;
    if (step.kind() == StepKind::WeightGradient ||
        !names.crosses(own, gradient ? own + 1 : own - 1)) {
      return true;
    }
    bool isSilent =
        gradient ? pipeline.gradients.empty() : pipeline.activations.empty();
    return isSilent || sent[gradient][indexOf(own, step.micro())];
  }

  /// What one stage has for another is sent and posted in one order.
  Status verifyWays() const {
    // By the two stages, from and to.
    std::map<std::pair<int64_t, int64_t>, std::vector<Meeting>> ways[2];
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      for (const Step &step : pipeline.streams[stage]->steps) {
        if (isMessage(step.kind())) {
          std::pair<int64_t, int64_t> way = {stage, peerOf(stage, step)};
          if (!sends(step.kind())) {
            std::swap(way.first, way.second);
          }
          ways[sends(step.kind())][way].push_back(names.meetingOf(step, stage));
        }
      }
    }
    for (bool isSend : {true, false}) {
      for (const auto &[way, meetings] : ways[isSend]) {
        auto other = ways[!isSend].find(way);
        if (other == ways[!isSend].end() || other->second != meetings) {
          return Status::error("what stage " + number(way.first) +
                               " sends to stage " + number(way.second) +
                               " is received in another order");
        }
      }
    }
    return Status();
  }

  std::string stuck(int64_t stage, const Step &step) const {
    int64_t peer = peerOf(stage, step);
    const Step *other = at(peer);
    bool several = shape.chunks > 1;
    return "stage " + number(stage) + " waits for ever in `" +
           describe(step, several) + "`: stage " + number(peer) +
           (other ? " stands at `" + describe(*other, several) + "`"
                  : " is done");
  }
};

} // namespace

Status verifyStreams(const PipelineT &pipeline, const PipelineShape &shape) {
  if (static_cast<int64_t>(pipeline.streams.size()) != shape.stages) {
    return Status::error("another number of streams than of stages");
  }
  bool several = shape.chunks > 1;
  StreamVerifier verifier{pipeline, shape, {}};
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    verifier.done.assign(shape.cells(), 0);
    std::string where = "stage " + number(stage);
    const std::vector<Step> &steps = pipeline.streams[stage]->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      CLEAVE_TRY(verifier.verifyRange(steps[i], stage)
                     .in(where + ": step " + number(i)));
      CLEAVE_TRY(verifier.verifyOrder(steps[i], stage)
                     .in(where + ": " + describe(steps[i], several)));
    }
    CLEAVE_TRY(verifyNeighbours(pipeline, shape, stage));
  }
  return Rendezvous(pipeline, shape).run();
}

} // namespace cleave::format
