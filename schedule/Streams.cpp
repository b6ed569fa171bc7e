//===- Streams.cpp - Where a schedule's messages go -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Streams.h"

#include "schedule/Simulate.h"

#include <algorithm>
#include <tuple>

namespace cleave::schedule {

namespace {

/// A message and the moment when its producer ends.
struct Message {
  double moment = 0;
  int32_t boundary = 0;
  bool isGradient = false;
  int32_t micro = 0;
  int32_t from = 0; ///< position
  int32_t to = 0;   ///< position

  bool operator<(const Message &other) const {
    return std::tie(moment, boundary, isGradient, micro) <
           std::tie(other.moment, other.boundary, other.isGradient,
                    other.micro);
  }
};

} // namespace

/// Every message of the schedule, in the one global order.
static std::vector<Message> messagesOf(const Schedule &schedule,
                                       const Timeline &timeline) {
  std::vector<Message> messages;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (size_t i = 0; i < timeline.actions[stage].size(); ++i) {
      const Action &action = schedule.actions[stage][i];
      int32_t position = schedule.positionOf(stage, action);
      double moment = timeline.actions[stage][i].finish;
      if (action.kind == Kind::WeightGradient) {
        continue;
      }
      bool isGradient = action.kind != Kind::Forward;
      int32_t to = isGradient ? position - 1 : position + 1;
      int32_t boundary = std::min(position, to);
      if (to >= 0 && to < schedule.positions() && schedule.crosses(boundary)) {
        messages.push_back(
            {moment, boundary, isGradient, action.micro, position, to});
      }
    }
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

static Operation operationOf(const Schedule &schedule, const Message &message,
                             bool isSend) {
  using Is = Operation::Kind;
  Operation operation;
  operation.kind = message.isGradient
                       ? (isSend ? Is::SendGradient : Is::ReceiveGradient)
                       : (isSend ? Is::SendActivation : Is::ReceiveActivation);
  int32_t own = isSend ? message.from : message.to;
  operation.chunk = static_cast<uint16_t>(schedule.chunkAt(own));
  operation.micro = message.micro;
  operation.boundary = message.boundary;
  operation.peer = schedule.owner(isSend ? message.to : message.from);
  return operation;
}

Streams placeMessages(const Schedule &schedule) {
  Timeline timeline =
      simulate(schedule, equalTimes(schedule, schedule.chunks, schedule.chunks,
                                    schedule.chunks, 0));
  Streams streams;
  streams.stages.resize(schedule.stages);
  std::vector<uint32_t> next(schedule.stages, 0);
  // The stage's actions that begin before `moment`.
  auto compute = [&](int32_t stage, double moment) {
    const std::vector<Interval> &actions = timeline.actions[stage];
    for (uint32_t &i = next[stage];
         i < actions.size() && actions[i].start < moment; ++i) {
      const Action &action = schedule.actions[stage][i];
      Operation operation;
      operation.chunk = action.chunk;
      operation.micro = action.micro;
      operation.action = i;
      streams.stages[stage].push_back(operation);
    }
  };
  for (const Message &message : messagesOf(schedule, timeline)) {
    for (bool isSend : {true, false}) {
      int32_t stage = schedule.owner(isSend ? message.from : message.to);
      compute(stage, message.moment);
      streams.stages[stage].push_back(operationOf(schedule, message, isSend));
    }
  }
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    compute(stage, timeline.makespan + 1);
  }
  return streams;
}

/// Whether an action takes what a message brought.
static bool usesMessage(const Schedule &schedule, int32_t stage,
                        const Action &action) {
  int32_t position = schedule.positionOf(stage, action);
  switch (action.kind) {
  case Kind::Forward:
    return position > 0 && schedule.crosses(position - 1);
  case Kind::Backward:
  case Kind::InputGradient:
    return position + 1 < schedule.positions() && schedule.crosses(position);
  case Kind::WeightGradient:
    return false;
  }
  return false;
}

std::vector<int64_t> pendingPeaks(const Schedule &schedule,
                                  const Streams &streams) {
  std::vector<int64_t> peaks(schedule.stages, 0);
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    int64_t pending = 0;
    for (const Operation &operation : streams.stages[stage]) {
      if (!operation.isMessage()) {
        pending -= usesMessage(schedule, stage,
                               schedule.actions[stage][operation.action]);
      } else if (!operation.isSend()) {
        peaks[stage] = std::max(peaks[stage], ++pending);
      }
    }
  }
  return peaks;
}

std::string describe(const Operation &operation, const Schedule &schedule,
                     int32_t stage) {
  if (!operation.isMessage()) {
    return describe(schedule.actions[stage][operation.action], schedule.chunks);
  }
  bool isGradient = operation.kind == Operation::Kind::SendGradient ||
                    operation.kind == Operation::Kind::ReceiveGradient;
  return std::string(operation.isSend() ? "send " : "receive ") +
         (isGradient ? "gradient" : "activation") + " of " +
         std::to_string(operation.micro) +
         (operation.isSend() ? " to stage " : " from stage ") +
         std::to_string(operation.peer);
}

} // namespace cleave::schedule
