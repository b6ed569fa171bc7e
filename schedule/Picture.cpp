//===- Picture.cpp - A timeline as text -----------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Simulate.h"

#include <algorithm>
#include <cmath>

namespace cleave::schedule {

/// What no picture is wider than.
static constexpr int64_t mostColumns = 1 << 16;

/// Characters for one unit of time.
static double scaleOf(const Schedule &schedule, const Timeline &timeline) {
  size_t widest = 1;
  double shortest = 0;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (size_t i = 0; i < timeline.actions[stage].size(); ++i) {
      const Interval &interval = timeline.actions[stage][i];
      double length = interval.finish - interval.start;
      if (length > 0 && (shortest == 0 || length < shortest)) {
        shortest = length;
      }
      widest = std::max(
          widest, label(schedule.actions[stage][i], schedule.chunks).size());
    }
  }
  return shortest > 0 ? static_cast<double>(widest + 1) / shortest : 0;
}

namespace {

/// One row: labels at columns, cut where it gets too wide.
struct Row {
  std::string text;
  size_t start = 0; ///< where times begin
  size_t limit = 0;
  bool isCut = false;

  void add(double column, const std::string &label) {
    // A rounding error must not move a label by a column.
    double at = std::floor(column + 1e-6);
    size_t end = text.size() + (text.size() > start ? 1 : 0);
    if (isCut || at >= static_cast<double>(mostColumns)) {
      isCut = true;
      return;
    }
    size_t place = std::max(start + static_cast<size_t>(at), end);
    if (place + label.size() > limit) {
      isCut = true;
      return;
    }
    text.append(place - text.size(), ' ');
    text += label;
  }
};

} // namespace

std::string picture(const Schedule &schedule, const Timeline &timeline,
                    int64_t columns, double from) {
  double scale = scaleOf(schedule, timeline);
  size_t digits = std::to_string(schedule.stages - 1).size();
  std::string text;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    std::string number = std::to_string(stage);
    Row row;
    row.text = "stage " + std::string(digits - number.size(), ' ') + number +
               (from > 0 ? " …" : "  ");
    row.start = row.text.size() + 1;
    row.text += ' ';
    row.limit = static_cast<size_t>(columns > 0 ? std::min(columns, mostColumns)
                                                : mostColumns);
    const std::vector<Action> &actions = schedule.actions[stage];
    const std::vector<Interval> &done = timeline.actions[stage];
    for (size_t i = 0; i < done.size(); ++i) {
      if (done[i].start >= from && done[i].finish > done[i].start) {
        row.add((done[i].start - from) * scale,
                label(actions[i], schedule.chunks));
      }
    }
    if (done.size() < actions.size()) {
      double end = done.empty() ? 0 : done.back().finish;
      row.add(std::max(0.0, end - from) * scale,
              label(actions[done.size()], schedule.chunks) + "?");
    }
    if (row.isCut) {
      row.text += " …";
    }
    row.text.erase(row.text.find_last_not_of(' ') + 1);
    text += row.text + '\n';
  }
  return text;
}

} // namespace cleave::schedule
