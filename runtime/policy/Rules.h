//===- Rules.h - What a run does between steps ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of a plan file's run, looked at after each step. A rule fires where
// its condition has held for `during` steps in a row, once, and again only
// after it has not held. What changes the plan waits until `apart` steps were
// made since the last hop.
//
// A number that is not there (NaN), a division by zero and all that is computed
// of them are neither true nor false: `and` with what is false is false, `or`
// with what is true is true, and else the rule does not hold, which is noted
// once. A window that is not full yet is not there either, without a note.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_POLICY_RULES_H
#define CLEAVE_RUNTIME_POLICY_RULES_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cleave::policy {

/// What a run knows after a step: bytes, seconds and counts; NaN where it does
/// not know.
struct Readings {
  Readings() { values.fill(std::numeric_limits<double>::quiet_NaN()); }
  double &operator[](format::Metric metric) {
    return values[static_cast<size_t>(metric)];
  }
  double operator[](format::Metric metric) const {
    return values[static_cast<size_t>(metric)];
  }

  /// What each stage computed in the step, in seconds: StageTime, of which a
  /// rule reads a statistic over the stages.
  std::vector<double> stages;
  /// Of Bytes and Time: what Rules::traffic asks for, in its order.
  std::vector<double> traffic;

private:
  std::array<double, static_cast<size_t>(format::Metric::MAX) + 1> values;
};

class Rules {
public:
  /// Of a verified run that outlives the rules.
  explicit Rules(const format::RunT &run);

  /// Those that fire after this step, in their order. `notes` gets a sentence
  /// for each rule that could not be computed for the first time.
  std::vector<const format::RuleT *> after(const Readings &readings,
                                           std::vector<std::string> &notes);
  /// The plan was changed, by whomever.
  void hopped() { sinceHop = 0; }

  /// Whether any rule reads the metric.
  bool reads(format::Metric metric) const;
  /// What rules read of bytes and times, each kind and axis once.
  const std::vector<const format::MeasureT *> &traffic() const {
    return trafficRead;
  }

  /// All that decides what fires next, as one line of text: for snapshots.
  std::string text() const;
  /// Goes on from such a text. Fails, and begins anew, where it is of other
  /// rules.
  Status restore(const std::string &text);

private:
  /// The last readings of what is measured over a window.
  struct Window {
    const format::MeasureT *measure = nullptr;
    std::vector<double> values; ///< a ring
    uint64_t count = 0;         ///< readings so far
  };
  struct Rule {
    const format::RuleT *table = nullptr;
    uint32_t held = 0;  ///< steps in a row
    bool fired = false; ///< since it began to hold
    bool noted = false;
  };

  /// Of the last step.
  double current(const format::MeasureT &measure,
                 const Readings &readings) const;
  double valueOf(const format::MeasureT &measure, const Readings &readings,
                 bool &filling) const;
  double evaluate(const format::RuleT &rule, const Readings &readings,
                  bool &filling);

  const format::RunT &run;
  std::vector<Rule> rules;
  std::vector<Window> windows;
  std::vector<double> stack;
  std::vector<const format::MeasureT *> trafficRead;
  int64_t sinceHop = std::numeric_limits<int32_t>::max(); ///< steps
};

/// The batch of the step that begins with this sample, or 0 where the run has
/// one batch only.
int64_t batchAt(const format::RunT &run, int64_t samples);

} // namespace cleave::policy

#endif // CLEAVE_RUNTIME_POLICY_RULES_H
