//===- ScheduleReport.cpp - A proven schedule, and what it costs ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/ScheduleReport.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace cleave::tools {

using namespace schedule;

static std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

static std::string counted(int64_t n, const char *one, const char *many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

/// In microbatches.
static double peakOf(const ScheduleReport &report, int32_t stage) {
  return static_cast<double>(report.proof.activationPeaks[stage]) /
         report.schedule.chunks;
}

static void printStages(const ScheduleReport &report, std::ostream &out) {
  char line[160];
  std::snprintf(line, sizeof line, "%5s %12s %12s %12s %8s\n", "stage", "span",
                "idle", "activations", "pending");
  out << line;
  for (int32_t stage = 0; stage < report.schedule.stages; ++stage) {
    const StageTimes &times = report.timeline.stages[stage];
    std::snprintf(line, sizeof line, "%5d %12s %12s %12s %8lld\n", stage,
                  number(times.span()).c_str(), number(times.idle()).c_str(),
                  number(peakOf(report, stage)).c_str(),
                  static_cast<long long>(report.proof.pendingPeaks[stage]));
    out << line;
  }
}

void scheduleText(const ScheduleReport &report, int64_t columns,
                  std::ostream &out) {
  const Schedule &schedule = report.schedule;
  const Timeline &timeline = report.timeline;
  out << "schedule " << schedule.name << ": "
      << counted(schedule.stages, "stage", "stages") << ", "
      << counted(schedule.micros, "microbatch", "microbatches") << ", "
      << counted(schedule.chunks, "chunk", "chunks") << " a stage";
  if (schedule.placement != Placement::Plain) {
    out << ", " << spelling(schedule.placement);
  }
  out << ": proven\n\n" << picture(schedule, timeline, columns) << "\n";
  char bubble[32];
  std::snprintf(bubble, sizeof bubble, "%.2f%%", 100 * timeline.bubble);
  out << "makespan " << number(timeline.makespan) << ", longest span "
      << number(timeline.longestSpan) << ", bubble " << bubble << "\n\n";
  printStages(report, out);
  out << "\nactivations: the most microbatches held; pending: the most "
         "messages that may have come and are not yet used\n";
}

static nlohmann::json stageJson(const ScheduleReport &report, int32_t stage) {
  const Schedule &schedule = report.schedule;
  const StageTimes &times = report.timeline.stages[stage];
  nlohmann::json result = {{"stage", stage},
                           {"start", times.start},
                           {"finish", times.finish},
                           {"span", times.span()},
                           {"idle", times.idle()},
                           {"activation_peak", peakOf(report, stage)},
                           {"pending_peak", report.proof.pendingPeaks[stage]}};
  result["actions"] = nlohmann::json::array();
  for (size_t i = 0; i < schedule.actions[stage].size(); ++i) {
    const Action &action = schedule.actions[stage][i];
    const Interval &interval = report.timeline.actions[stage][i];
    result["actions"].push_back({{"action", spelling(action.kind)},
                                 {"micro", action.micro},
                                 {"chunk", action.chunk},
                                 {"start", interval.start},
                                 {"finish", interval.finish}});
  }
  return result;
}

void scheduleJson(const std::vector<ScheduleReport> &reports,
                  std::ostream &out) {
  nlohmann::json array = nlohmann::json::array();
  for (const ScheduleReport &report : reports) {
    const Schedule &schedule = report.schedule;
    nlohmann::json one = {{"schedule", schedule.name},
                          {"stages", schedule.stages},
                          {"micro", schedule.micros},
                          {"chunks", schedule.chunks},
                          {"placement", spelling(schedule.placement)},
                          {"makespan", report.timeline.makespan},
                          {"longest_span", report.timeline.longestSpan},
                          {"bubble", report.timeline.bubble}};
    one["by_stage"] = nlohmann::json::array();
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      one["by_stage"].push_back(stageJson(report, stage));
    }
    array.push_back(std::move(one));
  }
  out << array.dump(2) << "\n";
}

} // namespace cleave::tools
