//===- PipelineReport.cpp - What a pipeline does and costs ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/PipelineReport.h"

#include "tools/cleave/Explain.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace cleave::tools {

using nlohmann::json;

//===----------------------------------------------------------------------===//
// What follows from a schedule and the work of its positions
//===----------------------------------------------------------------------===//

static schedule::Times timesOf(const PipelineWork &work, const Rates &rates) {
  schedule::Times times;
  for (const PositionWork &position : work.positions) {
    times.forward.push_back(secondsOf(position.forward, rates));
    times.input.push_back(secondsOf(position.input, rates));
    times.weight.push_back(secondsOf(position.weight, rates));
  }
  // Activations and gradients share a link's time: that of the larger.
  auto positions = static_cast<int32_t>(work.positions.size());
  for (int32_t boundary = 0; boundary + 1 < positions; ++boundary) {
    double sent[2] = {0, 0};
    for (const MessageWork &message : work.messages) {
      if (message.crosses(boundary)) {
        sent[message.isGradient] += static_cast<double>(message.largest);
      }
    }
    times.link.push_back(secondsOfMessage(std::max(sent[0], sent[1]), rates));
  }
  return times;
}

PipelineReport makePipelineReport(const std::string &axis,
                                  const schedule::Schedule &schedule,
                                  const schedule::Proof &proof,
                                  PipelineWork work, const Rates &rates) {
  PipelineReport report;
  report.axis = axis;
  report.schedule = schedule;
  report.held = proof.activationPeaks;
  report.bubble =
      simulate(schedule,
               schedule::equalTimes(schedule, schedule.chunks, schedule.chunks,
                                    schedule.chunks, 0))
          .bubble;
  report.rates = rates;
  report.times = timesOf(work, rates);
  report.timeline = schedule::simulate(schedule, report.times);
  for (int32_t at = 0; at + 1 < schedule.positions(); ++at) {
    if (!schedule.crosses(at)) {
      continue;
    }
    Crossing crossing{at, schedule.owner(at), schedule.owner(at + 1)};
    for (const MessageWork &message : work.messages) {
      if (!message.crosses(at)) {
        continue;
      }
      ++crossing.messages;
      (message.isGradient ? crossing.gradients : crossing.activations) +=
          message.total;
    }
    report.crossings.push_back(crossing);
  }
  report.work = std::move(work);
  return report;
}

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

std::string formatSeconds(double seconds) {
  struct Unit {
    double size;
    const char *name;
  };
  static constexpr Unit units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
  const Unit *unit = units;
  while (unit + 1 != std::end(units) && seconds < unit->size) {
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", seconds / unit->size, unit->name);
  return text;
}

/// `3 (0 .. 1, 4 .. 6)`, of one repeat.
static std::string layersOf(const PipelineReport &report, int32_t stage,
                            size_t repeat, const std::string &name) {
  int64_t count = 0;
  std::string pieces;
  for (int32_t chunk = 0; chunk < report.schedule.chunks; ++chunk) {
    int32_t position = report.schedule.position(stage, chunk);
    const layout::Piece &piece = report.work.positions[position].layers[repeat];
    if (piece.size() > 0) {
      count += piece.size();
      pieces += (pieces.empty() ? "" : ", ") + std::to_string(piece.begin) +
                " .. " + std::to_string(piece.end);
    }
  }
  return std::to_string(count) + name + (count ? " (" + pieces + ")" : "");
}

std::string layersOf(const PipelineReport &report, int32_t stage) {
  std::string text;
  auto add = [&](const std::string &item) {
    text += (text.empty() ? "" : ", ") + item;
  };
  size_t repeats = report.work.dims.size();
  for (size_t repeat = 0; repeat < repeats; ++repeat) {
    add(layersOf(report, stage, repeat,
                 repeats > 1 ? " " + report.work.dims[repeat] : ""));
  }
  for (const layout::StagedRegion &region : report.regions) {
    if (report.schedule.owner(static_cast<int32_t>(region.position)) == stage) {
      add(region.path);
    }
  }
  return text;
}

void printCrossings(const PipelineReport &report, std::ostream &out) {
  char row[160];
  std::snprintf(row, sizeof row, "\n    %-10s %8s %12s %12s\n", "stages",
                "messages", "activations", "gradients");
  out << row;
  for (const Crossing &crossing : report.crossings) {
    std::string stages =
        std::to_string(crossing.from) + " -> " + std::to_string(crossing.to);
    // A microbatch passes once forward, and once backward.
    int32_t messages = report.schedule.micros * crossing.messages;
    std::snprintf(row, sizeof row, "    %-10s %8d %12s %12s\n", stages.c_str(),
                  messages, formatBytes(crossing.activations).c_str(),
                  formatBytes(crossing.gradients).c_str());
    out << row;
  }
}

/// What a picture stays readable with.
static constexpr int32_t mostPicturedStages = 16;
static constexpr size_t mostColumns = 120;

static size_t widthOf(const std::string &text) {
  size_t width = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    width = std::max(width, end - begin);
    begin = end + 1;
  }
  return width;
}

/// To scale, where that is not too wide; else the order of work.
static void printPicture(const PipelineReport &report, std::ostream &out) {
  const schedule::Schedule &schedule = report.schedule;
  std::string picture = schedule::picture(schedule, report.timeline);
  if (widthOf(picture) > mostColumns) {
    schedule::Timeline units =
        simulate(schedule, schedule::equalTimes(schedule, 1, 1, 1, 0));
    picture = schedule::picture(schedule, units, mostColumns);
    out << "    not to scale: a forward takes 1, a backward 2\n";
  }
  for (size_t begin = 0; begin < picture.size();) {
    size_t end = picture.find('\n', begin);
    out << "    " << picture.substr(begin, end - begin) << "\n";
    begin = end + 1;
  }
}

static int32_t longestStage(const schedule::Timeline &timeline) {
  int32_t longest = 0;
  for (size_t stage = 1; stage < timeline.stages.size(); ++stage) {
    if (timeline.stages[stage].span() > timeline.stages[longest].span()) {
      longest = static_cast<int32_t>(stage);
    }
  }
  return longest;
}

void printTimeline(const PipelineReport &report, std::ostream &out) {
  const schedule::Timeline &timeline = report.timeline;
  char text[256];
  std::snprintf(text, sizeof text,
                "\n    bubble %.4f where all chunks take equal time\n",
                report.bubble);
  out << text;
  std::snprintf(text, sizeof text,
                "    simulated: makespan %s, longest span %s (stage %d), "
                "bubble %.4f\n",
                formatSeconds(timeline.makespan).c_str(),
                formatSeconds(timeline.longestSpan).c_str(),
                longestStage(timeline), timeline.bubble);
  out << text;
  std::snprintf(text, sizeof text,
                "    a device computes %.4g GFLOP/s and reads %.4g GB/s; a "
                "message takes %s and 1 s for %.4g GB\n",
                report.rates.flops / 1e9, report.rates.bytes / 1e9,
                formatSeconds(report.rates.linkDelay).c_str(),
                report.rates.linkBytes / 1e9);
  out << text;
  if (report.schedule.stages <= mostPicturedStages) {
    printPicture(report, out);
  }
}

//===----------------------------------------------------------------------===//
// As JSON
//===----------------------------------------------------------------------===//

static json toJson(const Work &work) {
  return {{"flops", work.flops}, {"bytes", work.bytes}, {"sent", work.sent}};
}

static json positionsOf(const PipelineReport &report) {
  json positions = json::array();
  for (int32_t at = 0; at < report.schedule.positions(); ++at) {
    const PositionWork &work = report.work.positions[at];
    json layers = json::object();
    for (size_t repeat = 0; repeat < work.layers.size(); ++repeat) {
      layers[report.work.dims[repeat]] = {work.layers[repeat].begin,
                                          work.layers[repeat].end};
    }
    json regions = json::array();
    for (const layout::StagedRegion &region : report.regions) {
      if (region.position == at) {
        regions.push_back(region.path);
      }
    }
    positions.push_back({{"stage", report.schedule.owner(at)},
                         {"chunk", report.schedule.chunkAt(at)},
                         {"layers", std::move(layers)},
                         {"regions", std::move(regions)},
                         {"forward", toJson(work.forward)},
                         {"input_gradient", toJson(work.input)},
                         {"weight_gradient", toJson(work.weight)},
                         {"forward_seconds", report.times.forward[at]},
                         {"input_gradient_seconds", report.times.input[at]},
                         {"weight_gradient_seconds", report.times.weight[at]}});
  }
  return positions;
}

static json timelineOf(const PipelineReport &report) {
  const schedule::Timeline &timeline = report.timeline;
  json stages = json::array();
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const schedule::StageTimes &times = timeline.stages[stage];
    json actions = json::array();
    for (size_t i = 0; i < timeline.actions[stage].size(); ++i) {
      actions.push_back({{"name", describe(report.schedule.actions[stage][i],
                                           report.schedule.chunks)},
                         {"start", timeline.actions[stage][i].start},
                         {"finish", timeline.actions[stage][i].finish}});
    }
    stages.push_back({{"start", times.start},
                      {"finish", times.finish},
                      {"work", times.work},
                      {"actions", std::move(actions)}});
  }
  return {{"makespan", timeline.makespan},
          {"longest_span", timeline.longestSpan},
          {"bubble", timeline.bubble},
          {"stages", std::move(stages)}};
}

json toJson(const PipelineReport &report) {
  const schedule::Schedule &schedule = report.schedule;
  json crossings = json::array();
  for (const Crossing &crossing : report.crossings) {
    crossings.push_back({{"from", crossing.from},
                         {"to", crossing.to},
                         {"activations", crossing.activations},
                         {"gradients", crossing.gradients}});
  }
  json held = json::array();
  for (int64_t peak : report.held) {
    held.push_back(static_cast<double>(peak) / schedule.chunks);
  }
  return {{"schedule", schedule.name},
          {"dims", report.work.dims},
          {"why", report.why},
          {"axis", report.axis},
          {"stages", schedule.stages},
          {"microbatches", schedule.micros},
          {"chunks", schedule.chunks},
          {"placement", spelling(schedule.placement)},
          {"held", std::move(held)},
          {"bubble", report.bubble},
          {"positions", positionsOf(report)},
          {"boundaries", std::move(crossings)},
          {"rates",
           {{"flops", report.rates.flops},
            {"bytes", report.rates.bytes},
            {"link_bytes", report.rates.linkBytes},
            {"link_delay", report.rates.linkDelay}}},
          {"link_seconds", report.times.link.empty()
                               ? 0
                               : *std::max_element(report.times.link.begin(),
                                                   report.times.link.end())},
          {"timeline", timelineOf(report)}};
}

} // namespace cleave::tools
