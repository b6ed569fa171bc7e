//===- Check.cpp - The proof that a schedule is right ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Check.h"

#include "schedule/Simulate.h"

#include <algorithm>
#include <optional>

namespace cleave::schedule {

namespace {

using Is = Violation::Kind;

/// Where each cell (position, microbatch) is worked on: an index in the list of
/// the position's stage, or `nowhere`.
struct Index {
  static constexpr int64_t nowhere = -1;

  explicit Index(const Schedule &schedule)
      : micros(schedule.micros),
        forward(static_cast<size_t>(schedule.positions()) * schedule.micros,
                nowhere),
        gradient(forward), weight(forward) {}

  size_t cell(int32_t position, int32_t micro) const {
    return static_cast<size_t>(position) * micros + micro;
  }

  int32_t micros;
  std::vector<int32_t> forward;
  std::vector<int32_t> gradient; ///< whole backward, or input gradient
  std::vector<int32_t> weight;   ///< whole backward, or weight gradient
};

class Checker {
public:
  explicit Checker(const Schedule &schedule) : schedule(schedule) {}

  std::variant<Proof, Violation> run() {
    if (std::optional<Violation> bad = checkShape()) {
      return *bad;
    }
    Index index(schedule);
    for (auto step : {&Checker::fill, &Checker::checkComplete,
                      &Checker::checkOrder, &Checker::checkDeadlock}) {
      if (std::optional<Violation> bad = (this->*step)(index)) {
        return *bad;
      }
    }
    Proof proof;
    proof.streams = placeMessages(schedule);
    proof.activationPeaks = activationPeaks();
    proof.pendingPeaks = pendingPeaks(schedule, proof.streams);
    return proof;
  }

private:
  std::optional<Violation> checkShape() const;
  std::optional<Violation> fill(Index &index);
  std::optional<Violation> checkComplete(Index &index);
  std::optional<Violation> checkOrder(Index &index);
  std::optional<Violation> checkDeadlock(Index &index);
  std::vector<int64_t> activationPeaks() const;

  std::optional<Violation> missing(Kind kind, int32_t position, int32_t micro,
                                   int32_t beside);
  /// The places that an action needs, at most two; for what has none, fewer.
  std::vector<Place> inputsOf(const Place &place, const Index &index) const;
  Violation violation(Is kind, Place place, std::string message);
  /// The timeline until the stage comes to that action.
  std::string timelineBefore(Place place) const;
  std::string pictureOf(const Schedule &shown) const;

  const Action &at(Place place) const {
    return schedule.actions[place.stage][place.action];
  }
  std::string quote(const Action &action) const {
    return "`" + describe(action, schedule.chunks) + "`";
  }

  const Schedule &schedule;
};

} // namespace

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

std::optional<Violation> Checker::checkShape() const {
  Violation bad;
  auto range = [&](const char *what, int64_t size, int64_t most) {
    if (bad.message.empty() && (size < 1 || size > most)) {
      bad.message = std::string("a schedule has 1 to ") + std::to_string(most) +
                    " " + what + ", not " + std::to_string(size);
    }
  };
  range("stages", schedule.stages, mostStages);
  range("microbatches", schedule.micros, mostMicros);
  range("chunks", schedule.chunks, mostChunks);
  if (bad.message.empty()) {
    range("cells (stages * microbatches * chunks)",
          int64_t(schedule.stages) * schedule.micros * schedule.chunks,
          mostCells);
  }
  if (bad.message.empty() && schedule.placement == Placement::Plain &&
      schedule.chunks > 1) {
    bad.message = "a schedule with " + std::to_string(schedule.chunks) +
                  " chunks for each stage is `dealt` or `folded`";
  }
  if (bad.message.empty() &&
      schedule.actions.size() != static_cast<size_t>(schedule.stages)) {
    bad.message = "actions of " + std::to_string(schedule.actions.size()) +
                  " stages, not " + std::to_string(schedule.stages);
  }
  if (bad.message.empty() &&
      std::all_of(schedule.actions.begin(), schedule.actions.end(),
                  [](const auto &list) { return list.empty(); })) {
    bad.kind = Is::Empty;
    bad.message = "no stage does anything";
  }
  return bad.message.empty() ? std::nullopt : std::optional(bad);
}

//===----------------------------------------------------------------------===//
// Each action once
//===----------------------------------------------------------------------===//

std::optional<Violation> Checker::fill(Index &index) {
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (uint32_t i = 0; i < schedule.actions[stage].size(); ++i) {
      Place place{stage, i};
      const Action &action = at(place);
      if (action.micro < 0 || action.micro >= schedule.micros ||
          action.chunk >= schedule.chunks) {
        return violation(Is::OutOfRange, place,
                         "stage " + std::to_string(stage) + " runs " +
                             quote(action) + " of " +
                             std::to_string(schedule.micros) +
                             " microbatches and " +
                             std::to_string(schedule.chunks) + " chunks");
      }
      size_t cell =
          index.cell(schedule.positionOf(stage, action), action.micro);
      int32_t before = Index::nowhere;
      auto take = [&](std::vector<int32_t> &list) {
        before = std::max(before, list[cell]);
        list[cell] = static_cast<int32_t>(i);
      };
      if (action.kind == Kind::Forward) {
        take(index.forward);
      }
      if (action.kind == Kind::Backward || action.kind == Kind::InputGradient) {
        take(index.gradient);
      }
      if (action.kind == Kind::Backward ||
          action.kind == Kind::WeightGradient) {
        take(index.weight);
      }
      if (before != Index::nowhere) {
        Place other{stage, static_cast<uint32_t>(before)};
        Violation bad = violation(
            Is::Repeated, place,
            "stage " + std::to_string(stage) + " runs " + quote(action) +
                (at(other) == action ? " twice"
                                     : " and " + quote(at(other)) +
                                           ", which do the same work"));
        bad.hasOther = true;
        bad.other = other;
        return bad;
      }
    }
  }
  return std::nullopt;
}

std::optional<Violation> Checker::checkComplete(Index &index) {
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (int32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      int32_t position = schedule.position(stage, chunk);
      for (int32_t micro = 0; micro < schedule.micros; ++micro) {
        size_t cell = index.cell(position, micro);
        int32_t forward = index.forward[cell];
        int32_t gradient = index.gradient[cell];
        int32_t weight = index.weight[cell];
        if (forward == Index::nowhere) {
          return missing(Kind::Forward, position, micro,
                         std::max(gradient, weight));
        }
        if (gradient == Index::nowhere) {
          return missing(weight == Index::nowhere ? Kind::Backward
                                                  : Kind::InputGradient,
                         position, micro, std::max(forward, weight));
        }
        if (weight == Index::nowhere) {
          return missing(Kind::WeightGradient, position, micro, gradient);
        }
      }
    }
  }
  return std::nullopt;
}

/// Whether any stage runs an action of that kind.
static bool hasAny(const Schedule &schedule, Kind kind) {
  for (const std::vector<Action> &list : schedule.actions) {
    if (std::any_of(list.begin(), list.end(), [&](const Action &action) {
          return action.kind == kind;
        })) {
      return true;
    }
  }
  return false;
}

std::optional<Violation> Checker::missing(Kind kind, int32_t position,
                                          int32_t micro, int32_t beside) {
  Violation bad;
  bad.kind = Is::Missing;
  bad.stage = schedule.owner(position);
  bad.missing.kind = kind;
  bad.missing.micro = micro;
  bad.missing.chunk = static_cast<uint16_t>(schedule.chunkAt(position));
  bad.message = "stage " + std::to_string(bad.stage) + " never runs " +
                quote(bad.missing);
  // What is left out everywhere is said once.
  if (kind == Kind::WeightGradient && !hasAny(schedule, kind)) {
    bad.message = "no stage runs a weight gradient, so " + bad.message;
  }
  if (beside != Index::nowhere) {
    bad.hasPlace = true;
    bad.place = {bad.stage, static_cast<uint32_t>(beside)};
  }
  bad.timeline = pictureOf(schedule);
  return bad;
}

//===----------------------------------------------------------------------===//
// Inputs in time
//===----------------------------------------------------------------------===//

std::vector<Place> Checker::inputsOf(const Place &place,
                                     const Index &index) const {
  const Action &action = at(place);
  int32_t position = schedule.positionOf(place.stage, action);
  std::vector<Place> inputs;
  auto needs = [&](int32_t where, const std::vector<int32_t> &list) {
    inputs.push_back(
        {schedule.owner(where),
         static_cast<uint32_t>(list[index.cell(where, action.micro)])});
  };
  if (action.kind == Kind::Forward) {
    if (position > 0) {
      needs(position - 1, index.forward);
    }
  } else if (action.kind == Kind::WeightGradient) {
    needs(position, index.gradient);
  } else {
    needs(position, index.forward);
    if (position + 1 < schedule.positions()) {
      needs(position + 1, index.gradient);
    }
  }
  return inputs;
}

std::optional<Violation> Checker::checkOrder(Index &index) {
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (uint32_t i = 0; i < schedule.actions[stage].size(); ++i) {
      Place place{stage, i};
      for (const Place &input : inputsOf(place, index)) {
        if (input.stage == stage && input.action > i) {
          Violation bad = violation(
              Is::TooEarly, place,
              "stage " + std::to_string(stage) + " runs " + quote(at(place)) +
                  " before " + quote(at(input)) + ", which it needs");
          bad.hasOther = true;
          bad.other = input;
          bad.timeline = pictureOf(schedule); // it waits there for ever
          return bad;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<Violation> Checker::checkDeadlock(Index &index) {
  Timeline timeline =
      simulate(schedule, equalTimes(schedule, schedule.chunks, schedule.chunks,
                                    schedule.chunks, 0));
  if (timeline.complete) {
    return std::nullopt;
  }
  auto isDone = [&](const Place &place) {
    return place.action < timeline.actions[place.stage].size();
  };
  auto nextOf = [&](int32_t stage) {
    return Place{stage, static_cast<uint32_t>(timeline.actions[stage].size())};
  };
  // Every stage that has not ended waits for another one, so this walk comes
  // back to a stage where it was.
  int32_t stage = 0;
  while (timeline.actions[stage].size() == schedule.actions[stage].size()) {
    ++stage;
  }
  std::vector<int32_t> visited;
  std::vector<Place> needed;
  while (std::find(visited.begin(), visited.end(), stage) == visited.end()) {
    visited.push_back(stage);
    for (const Place &input : inputsOf(nextOf(stage), index)) {
      if (!isDone(input)) {
        needed.push_back(input);
        stage = input.stage;
        break;
      }
    }
  }
  Violation bad;
  bad.kind = Is::Deadlock;
  bad.stage = stage;
  bad.hasPlace = true;
  bad.place = nextOf(stage);
  size_t first =
      std::find(visited.begin(), visited.end(), stage) - visited.begin();
  std::string names;
  for (size_t i = first; i < visited.size(); ++i) {
    names += (i == first                ? ""
              : i + 1 == visited.size() ? " and "
                                        : ", ") +
             std::to_string(visited[i]);
    bad.cycle.push_back({nextOf(visited[i]), needed[i]});
    Place turn = nextOf(needed[i].stage);
    if (!(turn == needed[i])) {
      bad.cycle.push_back({needed[i], turn});
    }
  }
  bad.message = "stages " + names + " wait for each other in a circle";
  bad.timeline = pictureOf(schedule);
  return bad;
}

//===----------------------------------------------------------------------===//
// Memory and messages
//===----------------------------------------------------------------------===//

std::vector<int64_t> Checker::activationPeaks() const {
  std::vector<int64_t> peaks(schedule.stages, 0);
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    int64_t held = 0;
    for (const Action &action : schedule.actions[stage]) {
      if (action.kind == Kind::Forward) {
        peaks[stage] = std::max(peaks[stage], ++held);
      } else if (action.kind != Kind::InputGradient) {
        --held;
      }
    }
  }
  return peaks;
}

Violation Checker::violation(Is kind, Place place, std::string message) {
  Violation bad;
  bad.kind = kind;
  bad.stage = place.stage;
  bad.hasPlace = true;
  bad.place = place;
  bad.message = std::move(message);
  bad.timeline = timelineBefore(place);
  return bad;
}

std::string Checker::timelineBefore(Place place) const {
  // What stands later may be out of range, on every stage.
  Schedule shown = schedule;
  for (std::vector<Action> &list : shown.actions) {
    auto bad = std::find_if(list.begin(), list.end(), [&](const Action &a) {
      return a.micro < 0 || a.micro >= schedule.micros ||
             a.chunk >= schedule.chunks;
    });
    list.erase(bad, list.end());
  }
  std::vector<Action> &own = shown.actions[place.stage];
  own.resize(std::min<size_t>(own.size(), place.action));
  return pictureOf(shown);
}

std::string Checker::pictureOf(const Schedule &shown) const {
  // As many of the last steps as fit a line.
  constexpr int64_t columns = 100;
  constexpr double steps = 16;
  Timeline timeline = simulate(
      shown, equalTimes(shown, shown.chunks, shown.chunks, shown.chunks, 0));
  return picture(shown, timeline, columns,
                 std::max(0.0, timeline.makespan - steps));
}

std::variant<Proof, Violation> check(const Schedule &schedule) {
  return Checker(schedule).run();
}

} // namespace cleave::schedule
