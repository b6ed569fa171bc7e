//===- Simulate.h - The timeline of a schedule ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When each action begins and ends, if each begins as early as its stage and
// its inputs allow. A message takes its link's time and occupies neither stage.
//
// Measures, as in "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241): a
// stage's *span* goes from the begin of its first action to the end of its last
// one; what of it is not work is *idle*. The *bubble* is idle / span of the
// stage with the longest span: with equal stages (longest span - m(F + I + W))
// / longest span. The *makespan* goes from 0 to the end of the last action of
// all.
//
// A whole backward takes the sum of input and weight gradient.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SCHEDULE_SIMULATE_H
#define CLEAVE_SCHEDULE_SIMULATE_H

#include "schedule/Schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::schedule {

/// Times of one microbatch, at least 0, all in one unit.
struct Times {
  std::vector<double> forward; ///< for each position
  std::vector<double> input;   ///< for each position
  std::vector<double> weight;  ///< for each position
  /// For each boundary between positions; counts only where it crosses stages.
  std::vector<double> link;

  double of(Kind kind, int32_t position) const;
};

/// Times of whole stages, each cut into equal chunks; every link the same.
Times equalTimes(const Schedule &schedule, double forward, double input,
                 double weight, double link);

struct Interval {
  double start = 0;
  double finish = 0;
};

struct StageTimes {
  double start = 0;  ///< of its first action
  double finish = 0; ///< of its last one
  double work = 0;   ///< sum of its actions' times

  double span() const { return finish - start; }
  double idle() const { return span() - work; }
};

struct Timeline {
  /// For each stage, its actions in order. Of a schedule that is not proven
  /// only those that can run.
  std::vector<std::vector<Interval>> actions;
  std::vector<StageTimes> stages;
  double makespan = 0;
  double longestSpan = 0;
  double bubble = 0; ///< in [0, 1); 0 where nothing takes time
  bool complete = false;
};

/// Needs a schedule in shape (microbatches and chunks in range); of one that is
/// not proven it runs what can run.
Timeline simulate(const Schedule &schedule, const Times &times);

/// The timeline as text: a row for each stage, a label (`F3`, `B3`, `I3`, `W3`,
/// with several chunks `F3.1`) where each action begins. The shortest action is
/// as wide as the widest label; one that takes no time is left out. Of a
/// timeline that is not complete, each row ends with what it waits at, `F4?`.
/// Rows begin at the time `from` and are cut at `columns` characters (0: at
/// 65536) with an ellipsis.
std::string picture(const Schedule &schedule, const Timeline &timeline,
                    int64_t columns = 0, double from = 0);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_SIMULATE_H
