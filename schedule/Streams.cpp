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

/// A message, and where both of its sides stand.
struct Message {
  bool isGradient = false;
  int32_t boundary = 0;
  int32_t micro = 0;
  int32_t from = 0;      ///< position
  int32_t to = 0;        ///< position
  uint32_t producer = 0; ///< action of the sender
  int32_t posted = 0;    ///< after so many actions of the receiver
};

/// Finds every message of a schedule, and for each how many actions of its
/// receiver come before its producer.
///
/// Goes through all actions in an order that respects `before`, with a *clock*
/// for each stage: how many actions of each stage near it come before its next
/// one. A message carries its sender's clock.
class Precedence {
public:
  explicit Precedence(const Schedule &schedule)
      : schedule(schedule),
        cells(static_cast<size_t>(schedule.positions()) * schedule.micros),
        carried(2 * cells, none) {
    size_t affordable = mostNumbers / std::max<size_t>(2 * cells, 1);
    isWhole = affordable >= static_cast<size_t>(schedule.stages) ||
              schedule.stages <= 3;
    reach = isWhole ? 0 : std::max<int32_t>(1, (affordable - 1) / 2);
    width = isWhole ? schedule.stages : 2 * reach + 1;
    clocks.assign(schedule.stages, Clock(width, 0));
  }

  /// In the order in which a run with unit times makes them.
  std::vector<Message> run() {
    for (auto [stage, action] : order()) {
      visit(stage, action);
    }
    return std::move(messages);
  }

private:
  using Clock = std::vector<int32_t>;
  static constexpr int32_t none = -1;
  /// Of clocks that messages carry: 64 MiB.
  static constexpr size_t mostNumbers = size_t(1) << 24;

  const Schedule &schedule;
  size_t cells;
  bool isWhole = true; ///< a clock counts all stages, from stage 0 on
  int32_t reach = 0;   ///< else those so far around its own
  int32_t width = 0;
  std::vector<Clock> clocks; ///< by stage
  /// By kind and cell (position, microbatch): which of `pool`.
  std::vector<int32_t> carried;
  std::vector<Clock> pool;
  std::vector<int32_t> unused; ///< of `pool`
  std::vector<Message> messages;

  std::vector<std::pair<int32_t, uint32_t>> order() const;
  void visit(int32_t stage, uint32_t index);
  void receive(int32_t stage, int32_t sender, size_t key);
  void send(const Message &message, int32_t stage);

  size_t keyOf(bool isGradient, int32_t position, int32_t micro) const {
    return (isGradient ? cells : 0) +
           static_cast<size_t>(position) * schedule.micros + micro;
  }
  /// Where the clock of `stage` counts that of `other`, a stage beside it.
  int32_t indexOf(int32_t stage, int32_t other) const {
    return isWhole ? other : reach + distance(stage, other);
  }
  /// Stages are neighbours in a ring.
  int32_t distance(int32_t stage, int32_t other) const {
    int32_t ahead = (other - stage + schedule.stages) % schedule.stages;
    return ahead <= schedule.stages / 2 ? ahead : ahead - schedule.stages;
  }
};

} // namespace

/// All actions, by the end that they have with unit times: none takes none, so
/// each stands after what comes before it.
std::vector<std::pair<int32_t, uint32_t>> Precedence::order() const {
  Timeline timeline =
      simulate(schedule, equalTimes(schedule, schedule.chunks, schedule.chunks,
                                    schedule.chunks, 0));
  std::vector<std::tuple<double, int32_t, uint32_t>> ends;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (uint32_t i = 0; i < timeline.actions[stage].size(); ++i) {
      ends.push_back({timeline.actions[stage][i].finish, stage, i});
    }
  }
  std::sort(ends.begin(), ends.end());
  std::vector<std::pair<int32_t, uint32_t>> all;
  all.reserve(ends.size());
  for (auto [end, stage, action] : ends) {
    all.push_back({stage, action});
  }
  return all;
}

/// Takes over the clock that a message brought.
void Precedence::receive(int32_t stage, int32_t sender, size_t key) {
  int32_t at = carried[key];
  int32_t shift = isWhole ? 0 : distance(stage, sender);
  for (int32_t i = std::max(0, -shift); i < width - std::max(0, shift); ++i) {
    int32_t &own = clocks[stage][i + shift];
    own = std::max(own, pool[at][i]);
  }
  unused.push_back(at);
}

void Precedence::send(const Message &message, int32_t stage) {
  if (unused.empty()) {
    unused.push_back(static_cast<int32_t>(pool.size()));
    pool.emplace_back();
  }
  pool[unused.back()] = clocks[stage];
  carried[keyOf(message.isGradient, message.from, message.micro)] =
      unused.back();
  unused.pop_back();
  messages.push_back(message);
}

void Precedence::visit(int32_t stage, uint32_t index) {
  const Action &action = schedule.actions[stage][index];
  Clock &clock = clocks[stage];
  if (action.kind == Kind::WeightGradient) {
    ++clock[indexOf(stage, stage)];
    return;
  }
  bool isGradient = action.kind != Kind::Forward;
  int32_t position = schedule.positionOf(stage, action);
  int32_t before = isGradient ? position + 1 : position - 1;
  int32_t to = isGradient ? position - 1 : position + 1;
  auto isThere = [&](int32_t other) {
    return other >= 0 && other < schedule.positions() &&
           schedule.owner(other) != stage;
  };
  if (isThere(before)) {
    receive(stage, schedule.owner(before),
            keyOf(isGradient, before, action.micro));
  }
  Message message{
      isGradient, std::min(position, to), action.micro, position, to, index};
  if (isThere(to)) {
    message.posted = clock[indexOf(stage, schedule.owner(to))];
  }
  ++clock[indexOf(stage, stage)];
  if (isThere(to)) {
    send(message, stage);
  }
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
  std::vector<Message> messages = Precedence(schedule).run();
  // Of each stage: by the action that they stand after, in the order made.
  std::vector<std::vector<const Message *>> posts(schedule.stages);
  std::vector<std::vector<const Message *>> sends(schedule.stages);
  for (const Message &message : messages) {
    posts[schedule.owner(message.to)].push_back(&message);
    sends[schedule.owner(message.from)].push_back(&message);
  }
  Streams streams;
  streams.stages.resize(schedule.stages);
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    std::sort(posts[stage].begin(), posts[stage].end(),
              [](const Message *a, const Message *b) {
                return std::tie(a->posted, a) < std::tie(b->posted, b);
              });
    auto post = posts[stage].begin();
    auto send = sends[stage].begin();
    std::vector<Operation> &stream = streams.stages[stage];
    for (uint32_t done = 0; done <= schedule.actions[stage].size(); ++done) {
      for (; post != posts[stage].end() && (*post)->posted == int32_t(done);
           ++post) {
        stream.push_back(operationOf(schedule, **post, false));
      }
      for (; send != sends[stage].end() && (*send)->producer < done; ++send) {
        stream.push_back(operationOf(schedule, **send, true));
      }
      if (done < schedule.actions[stage].size()) {
        const Action &action = schedule.actions[stage][done];
        Operation operation;
        operation.chunk = action.chunk;
        operation.micro = action.micro;
        operation.action = done;
        stream.push_back(operation);
      }
    }
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
