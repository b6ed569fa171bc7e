//===- Check.h - The proof that a schedule is right -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule can change speed and memory, never the result. `check` proves it:
//
//   1. every microbatch goes through every position once forward, and once
//      backward: whole, or as an input gradient and a weight gradient;
//   2. every action's inputs exist when its turn comes. An action waits for its
//      inputs, so this fails only where stages wait for each other in a circle;
//   3. sends meet receives in order, even if every send waits for its receiver
//      (Streams.h gives that order);
//   4. how much a stage holds: the peak of activations, in *chunk-microbatches*
//      (a chunk's activations of one microbatch; v of them are a microbatch's),
//      held from the begin of the forward to the end of the backward or of the
//      weight gradient.
//
// What it refuses it explains: the first action that is wrong or missing, or
// the circle of waits, and a picture of the timeline up to there (unit times:
// forward, input and weight gradient take 1, a whole backward 2).
//
// Time and memory are linear in the number of actions.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SCHEDULE_CHECK_H
#define CLEAVE_SCHEDULE_CHECK_H

#include "schedule/Schedule.h"
#include "schedule/Streams.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cleave::schedule {

struct Proof {
  Streams streams; ///< what each stage does, messages included
  /// For each stage, in chunk-microbatches.
  std::vector<int64_t> activationPeaks;
  /// For each stage: see `pendingPeaks`.
  std::vector<int64_t> pendingPeaks;
};

/// An action of a stage, by its index in `Schedule::actions[stage]`.
struct Place {
  int32_t stage = 0;
  uint32_t action = 0;
  bool operator==(const Place &) const = default;
};

/// `waiting` cannot go on before `needed`. On the same stage: because it stands
/// after it, or needs what it makes; on different ones: because it needs what
/// it makes.
struct Wait {
  Place waiting;
  Place needed;
  bool operator==(const Wait &) const = default;
};

struct Violation {
  enum class Kind : uint8_t {
    BadShape,   ///< sizes that cannot be: see `message`
    Empty,      ///< no stage does anything
    OutOfRange, ///< `place`: a microbatch or chunk that is not there
    Repeated,   ///< `place` does what `other` has done
    Missing,    ///< `stage` never does `missing`
    TooEarly,   ///< `place` needs `other`, which stands later on its stage
    Deadlock    ///< `cycle`: stages wait for each other in a circle
  };
  Kind kind = Kind::BadShape;
  int32_t stage = 0;
  bool hasPlace = false;
  Place place; ///< where hasPlace: the action that is wrong
  bool hasOther = false;
  Place other;             ///< where hasOther
  Action missing;          ///< of Missing
  std::vector<Wait> cycle; ///< of Deadlock: each needs the next's; the last
                           ///< needs the first's
  std::string message;     ///< a line, in the words of the language
  std::string timeline;    ///< what ran before it: a picture, a row per stage
};

/// The proof, or the first violation.
std::variant<Proof, Violation> check(const Schedule &schedule);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_CHECK_H
