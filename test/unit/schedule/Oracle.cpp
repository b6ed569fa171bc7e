//===- Oracle.cpp - Schedules, carried out step by step -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Oracle.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

namespace cleave::oracle {

using schedule::Action;
using schedule::Kind;
using schedule::Operation;
using schedule::Placement;
using schedule::Schedule;
using schedule::Streams;

namespace {

/// `F` activations that left a position, `G` the gradient that goes to the
/// position before, `W` the weights' gradient; with position and microbatch.
using Fact = std::tuple<char, int, int>;

} // namespace

/// Round by round: which position each stage gets.
static int positionOf(const Schedule &schedule, int stage, int chunk) {
  int position = 0;
  for (int round = 0;; ++round) {
    bool backwards = schedule.placement == Placement::Folded && round % 2 != 0;
    for (int i = 0; i < schedule.stages; ++i, ++position) {
      if (round == chunk &&
          (backwards ? schedule.stages - 1 - i : i) == stage) {
        return position;
      }
    }
  }
}

static std::vector<Fact> needed(const Action &action, int position,
                                int positions) {
  std::vector<Fact> facts;
  if (action.kind == Kind::Forward && position > 0) {
    facts.push_back({'F', position - 1, action.micro});
  }
  if (action.kind == Kind::Backward || action.kind == Kind::InputGradient) {
    facts.push_back({'F', position, action.micro});
    if (position < positions - 1) {
      facts.push_back({'G', position + 1, action.micro});
    }
  }
  if (action.kind == Kind::WeightGradient) {
    facts.push_back({'G', position, action.micro});
  }
  return facts;
}

static std::vector<Fact> made(const Action &action, int position) {
  switch (action.kind) {
  case Kind::Forward:
    return {{'F', position, action.micro}};
  case Kind::Backward:
    return {{'G', position, action.micro}, {'W', position, action.micro}};
  case Kind::InputGradient:
    return {{'G', position, action.micro}};
  case Kind::WeightGradient:
    return {{'W', position, action.micro}};
  }
  return {};
}

static bool holdsAll(const std::set<Fact> &known,
                     const std::vector<Fact> &facts) {
  return std::all_of(facts.begin(), facts.end(),
                     [&](const Fact &fact) { return known.count(fact) != 0; });
}

std::string judge(const Schedule &schedule) {
  int positions = schedule.stages * schedule.chunks;
  std::set<Fact> done;
  std::vector<size_t> next(schedule.stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      if (next[stage] == schedule.actions[stage].size()) {
        continue;
      }
      const Action &action = schedule.actions[stage][next[stage]];
      int position = positionOf(schedule, stage, action.chunk);
      if (!holdsAll(done, needed(action, position, positions))) {
        continue;
      }
      for (const Fact &fact : made(action, position)) {
        if (!done.insert(fact).second) {
          return "stage " + std::to_string(stage) + " does something twice";
        }
      }
      ++next[stage];
      moved = true;
    }
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (next[stage] != schedule.actions[stage].size()) {
      return "stage " + std::to_string(stage) + " does not end";
    }
  }
  size_t all = size_t(3) * positions * schedule.micros;
  return done.size() == all ? "" : "something is never done";
}

namespace {

/// The stages of one run.
class Run {
public:
  Run(const Schedule &schedule, const Streams &streams)
      : schedule(schedule), streams(streams), next(schedule.stages, 0),
        known(schedule.stages), posted(schedule.stages),
        computed(schedule.stages, 0) {}

  std::string go() {
    checkOrder();
    for (bool moved = true; moved && problem.empty();) {
      moved = false;
      for (int stage = 0; stage < schedule.stages; ++stage) {
        moved |= step(stage);
      }
    }
    return end();
  }

  std::string goAtRandom(uint64_t seed) {
    std::mt19937_64 random(seed);
    isPatient = false;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      post(stage);
    }
    // Until none can go on, from whatever stage is looked at first.
    for (int stuck = 0; stuck < schedule.stages && problem.empty();) {
      int first = static_cast<int>(random() % schedule.stages);
      stuck = 0;
      while (stuck < schedule.stages && problem.empty() &&
             !step((first + stuck) % schedule.stages)) {
        ++stuck;
      }
    }
    return end();
  }

private:
  std::string end() {
    for (int stage = 0; stage < schedule.stages && problem.empty(); ++stage) {
      if (!current(stage)) {
        if (computed[stage] != schedule.actions[stage].size()) {
          problem = "stage " + std::to_string(stage) + " leaves actions out";
        }
      } else {
        problem = "stage " + std::to_string(stage) + " hangs at " +
                  schedule::describe(*current(stage), schedule, stage);
      }
    }
    return problem;
  }

  const Operation *current(int stage) const {
    return next[stage] < streams.stages[stage].size()
               ? &streams.stages[stage][next[stage]]
               : nullptr;
  }

  Fact carried(const Operation &operation) const {
    bool up = operation.kind == Operation::Kind::SendActivation ||
              operation.kind == Operation::Kind::ReceiveActivation;
    return {up ? 'F' : 'G', up ? operation.boundary : operation.boundary + 1,
            operation.micro};
  }

  bool step(int stage) {
    const Operation *operation = current(stage);
    if (!operation) {
      return false;
    }
    if (!operation->isMessage()) {
      return compute(stage, *operation);
    }
    return operation->isSend() ? deliver(stage, *operation) : post(stage);
  }

  /// All receives that stand next.
  bool post(int stage) {
    bool moved = false;
    while (current(stage) && current(stage)->isMessage() &&
           !current(stage)->isSend()) {
      if (!posted[stage].insert(carried(*current(stage))).second) {
        problem = "stage " + std::to_string(stage) + " receives twice";
      }
      ++next[stage];
      moved = true;
    }
    return moved;
  }

  /// What each stage has for another is sent and received in one order.
  void checkOrder() {
    std::map<std::pair<int, int>, std::vector<Fact>> ways[2];
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (const Operation &operation : streams.stages[stage]) {
        if (operation.isMessage()) {
          std::pair<int, int> way = {stage, operation.peer};
          if (!operation.isSend()) {
            std::swap(way.first, way.second);
          }
          ways[operation.isSend()][way].push_back(carried(operation));
        }
      }
    }
    if (ways[0] != ways[1]) {
      problem = "sends and receives stand in another order";
    }
  }

  bool compute(int stage, const Operation &operation) {
    if (operation.action != computed[stage]) {
      problem = "actions out of order";
      return false;
    }
    const Action &action = schedule.actions[stage][operation.action];
    int position = positionOf(schedule, stage, action.chunk);
    if (!holdsAll(known[stage], needed(action, position,
                                       schedule.stages * schedule.chunks))) {
      return false; // waits
    }
    for (const Fact &fact : made(action, position)) {
      known[stage].insert(fact);
    }
    ++computed[stage];
    ++next[stage];
    if (!isPatient) {
      post(stage);
    }
    return true;
  }

  bool deliver(int stage, const Operation &send) {
    if (!known[stage].count(carried(send))) {
      problem = "stage " + std::to_string(stage) + " sends what it has not";
      return false;
    }
    if (send.peer == stage || !posted[send.peer].count(carried(send))) {
      if (!isPatient) {
        problem = "stage " + std::to_string(stage) + " would wait in " +
                  schedule::describe(send, schedule, stage);
      }
      return false;
    }
    if (!known[send.peer].insert(carried(send)).second) {
      problem = "stage " + std::to_string(send.peer) + " gets it twice";
      return false;
    }
    ++next[stage];
    return true;
  }

  const Schedule &schedule;
  const Streams &streams;
  std::vector<size_t> next;
  std::vector<std::set<Fact>> known;  ///< what each stage has in its memory
  std::vector<std::set<Fact>> posted; ///< what it may receive
  bool isPatient = true;              ///< a send may wait
  std::vector<size_t> computed;
  std::string problem;
};

} // namespace

std::string rendezvous(const Schedule &schedule, const Streams &streams) {
  return Run(schedule, streams).go();
}

std::string waiting(const Schedule &schedule, const Streams &streams,
                    uint64_t seed) {
  return Run(schedule, streams).goAtRandom(seed);
}

std::vector<int64_t> held(const Schedule &schedule) {
  std::vector<int64_t> most;
  for (const std::vector<Action> &actions : schedule.actions) {
    std::set<std::pair<int, int>> live;
    size_t peak = 0;
    for (const Action &action : actions) {
      std::pair<int, int> which{action.chunk, action.micro};
      if (action.kind == Kind::Forward) {
        live.insert(which);
      } else if (action.kind != Kind::InputGradient) {
        live.erase(which);
      }
      peak = std::max(peak, live.size());
    }
    most.push_back(static_cast<int64_t>(peak));
  }
  return most;
}

} // namespace cleave::oracle
