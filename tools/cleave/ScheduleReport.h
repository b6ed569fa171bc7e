//===- ScheduleReport.h - A proven schedule, and what it costs --*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times are in the unit in which they were given. Peaks are in microbatches: a
// chunk's activations of one microbatch count as one part of it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_SCHEDULEREPORT_H
#define CLEAVE_TOOLS_CLEAVE_SCHEDULEREPORT_H

#include "schedule/Check.h"
#include "schedule/Simulate.h"

#include <iosfwd>
#include <vector>

namespace cleave::tools {

struct ScheduleReport {
  schedule::Schedule schedule;
  schedule::Proof proof;
  schedule::Timeline timeline;
};

/// The picture, cut at `columns` (0: never), then the measures.
void scheduleText(const ScheduleReport &report, int64_t columns,
                  std::ostream &out);
/// An array, an object for each schedule.
void scheduleJson(const std::vector<ScheduleReport> &reports,
                  std::ostream &out);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_SCHEDULEREPORT_H
