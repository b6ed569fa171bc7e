//===- Simulate.cpp - The timeline of a schedule --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Simulate.h"

#include <algorithm>

namespace cleave::schedule {

double Times::of(Kind kind, int32_t position) const {
  switch (kind) {
  case Kind::Forward:
    return forward[position];
  case Kind::Backward:
    return input[position] + weight[position];
  case Kind::InputGradient:
    return input[position];
  case Kind::WeightGradient:
    return weight[position];
  }
  return 0;
}

Times equalTimes(const Schedule &schedule, double forward, double input,
                 double weight, double link) {
  size_t positions = static_cast<size_t>(schedule.positions());
  double chunks = schedule.chunks;
  return {std::vector<double>(positions, forward / chunks),
          std::vector<double>(positions, input / chunks),
          std::vector<double>(positions, weight / chunks),
          std::vector<double>(positions - 1, link)};
}

namespace {

/// Lets every stage go on as far as it can, until none can.
class Simulator {
public:
  Simulator(const Schedule &schedule, const Times &times)
      : schedule(schedule), times(times),
        forward(static_cast<size_t>(schedule.positions()) * schedule.micros,
                never),
        gradient(forward) {
    timeline.actions.resize(schedule.stages);
    timeline.stages.resize(schedule.stages);
  }

  Timeline run() {
    isQueued.assign(schedule.stages, false);
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      wake(stage);
    }
    while (!queue.empty()) {
      int32_t stage = queue.back();
      queue.pop_back();
      isQueued[stage] = false;
      advance(stage);
    }
    measure();
    return std::move(timeline);
  }

private:
  /// Of what has not happened.
  static constexpr double never = -1;

  size_t cell(int32_t position, int32_t micro) const {
    return static_cast<size_t>(position) * schedule.micros + micro;
  }

  void wake(int32_t stage) {
    if (!isQueued[stage]) {
      isQueued[stage] = true;
      queue.push_back(stage);
    }
  }

  /// When what crosses the boundary above `position` arrives; `never` where it
  /// was not sent.
  double arrival(double finish, int32_t position) const {
    return finish == never || !schedule.crosses(position)
               ? finish
               : finish + times.link[position];
  }

  /// When the action's inputs are there; `never` where one is not.
  double ready(int32_t position, const Action &action) const {
    size_t own = cell(position, action.micro);
    if (action.kind == Kind::Forward) {
      return position == 0
                 ? 0
                 : arrival(forward[own - schedule.micros], position - 1);
    }
    if (action.kind == Kind::WeightGradient) {
      return gradient[own];
    }
    if (position + 1 == schedule.positions() || forward[own] == never) {
      return forward[own];
    }
    double above = arrival(gradient[own + schedule.micros], position);
    return above == never ? never : std::max(above, forward[own]);
  }

  void advance(int32_t stage) {
    std::vector<Interval> &done = timeline.actions[stage];
    const std::vector<Action> &todo = schedule.actions[stage];
    while (done.size() < todo.size()) {
      const Action &action = todo[done.size()];
      int32_t position = schedule.positionOf(stage, action);
      double start = ready(position, action);
      if (start == never) {
        return;
      }
      start = std::max(start, done.empty() ? 0 : done.back().finish);
      double finish = start + times.of(action.kind, position);
      done.push_back({start, finish});
      finished(position, action, finish);
    }
  }

  void finished(int32_t position, const Action &action, double finish) {
    size_t own = cell(position, action.micro);
    if (action.kind == Kind::Forward) {
      forward[own] = finish;
      if (position + 1 < schedule.positions()) {
        wake(schedule.owner(position + 1));
      }
    } else if (action.kind != Kind::WeightGradient) {
      gradient[own] = finish;
      if (position > 0) {
        wake(schedule.owner(position - 1));
      }
    }
  }

  void measure() {
    timeline.complete = true;
    const StageTimes *longest = nullptr;
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      const std::vector<Interval> &done = timeline.actions[stage];
      timeline.complete &= done.size() == schedule.actions[stage].size();
      if (done.empty()) {
        continue;
      }
      StageTimes &own = timeline.stages[stage];
      own.start = done.front().start;
      own.finish = done.back().finish;
      for (size_t i = 0; i < done.size(); ++i) {
        const Action &action = schedule.actions[stage][i];
        own.work += times.of(action.kind, schedule.positionOf(stage, action));
      }
      timeline.makespan = std::max(timeline.makespan, own.finish);
      if (!longest || own.span() > longest->span()) {
        longest = &own;
      }
    }
    timeline.longestSpan = longest ? longest->span() : 0;
    if (timeline.longestSpan > 0) {
      // Sums of many times differ by their rounding.
      timeline.bubble = std::max(0.0, longest->idle() / timeline.longestSpan);
    }
  }

  const Schedule &schedule;
  const Times &times;
  Timeline timeline;
  // When each cell (position, microbatch) ended.
  std::vector<double> forward, gradient;
  std::vector<int32_t> queue;
  std::vector<bool> isQueued;
};

} // namespace

Timeline simulate(const Schedule &schedule, const Times &times) {
  return Simulator(schedule, times).run();
}

} // namespace cleave::schedule
