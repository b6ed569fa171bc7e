//===- Trace.cpp - When each device did what ------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Trace.h"
#include "runtime/format/Convert.h"
#include "runtime/format/Pipeline.h"
#include "runtime/support/File.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <set>

namespace cleave::executor {

uint64_t traceClock() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

static std::string jsonText(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

/// `"name":…,"cat":…,"args":{…}` of an event.
static std::string describe(const format::PlanT &plan, const Event &event,
                            bool severalChunks) {
  static const char *const kinds[] = {"kernel", "contraction", "fill",
                                      "move",   "start",       "wait",
                                      "step",   "pipeline"};
  const char *kind = kinds[static_cast<size_t>(event.kind)];
  std::string category = kind;
  std::string name = kind, arguments;
  if (event.kind == EventKind::Step) {
    name = plan.programs[event.site]->name;
  } else if (event.kind == EventKind::PipelineStep) {
    name = format::describe(format::Step(event.step, event.chunk, event.site),
                            severalChunks);
  } else if (event.kind != EventKind::Fill && event.site < plan.sites.size()) {
    const format::SiteT &site = *plan.sites[event.site];
    name = site.name.empty() ? kind : site.name;
    if (event.kind == EventKind::Start) {
      name = "start " + name;
    }
    arguments = "\"path\":" + jsonText(site.path);
    if (!site.file.empty()) {
      arguments += ",\"source\":" +
                   jsonText(site.file + ":" + std::to_string(site.line));
    }
  }
  if (event.kind == EventKind::Start || event.kind == EventKind::Wait) {
    category = "collective," + category;
  }
  return "\"name\":" + jsonText(name) + ",\"cat\":" + jsonText(category) +
         ",\"args\":{" + arguments + "}";
}

/// The name of a group (`process_name`) or of a row of it (`thread_name`).
static std::string nameEvent(const char *what, const std::string &where,
                             const std::string &name) {
  return "{\"ph\":\"M\",\"name\":\"" + std::string(what) + "\"" + where +
         ",\"args\":{\"name\":" + jsonText(name) + "}}";
}

/// Where a row is, and that it stands in its place.
static std::string rowEvents(const std::string &row, size_t index,
                             const std::string &name) {
  return ",\n" + nameEvent("thread_name", row, name) +
         ",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\"" + row +
         ",\"args\":{\"sort_index\":" + std::to_string(index) + "}}";
}

static std::string rowOf(int group, size_t index) {
  return ",\"pid\":" + std::to_string(group) +
         ",\"tid\":" + std::to_string(index);
}

/// Nanoseconds become microseconds since `origin`.
static std::string timesOf(uint64_t begin, uint64_t end, uint64_t origin) {
  char times[96];
  std::snprintf(times, sizeof(times), ",\"ts\":%.3f,\"dur\":%.3f",
                double(begin - origin) / 1e3, double(end - begin) / 1e3);
  return times;
}

static std::string groupText(const TraceGroup &group, uint64_t origin) {
  if (group.name.empty()) {
    return "";
  }
  std::string text =
      ",\n" + nameEvent("process_name", ",\"pid\":2", group.name);
  for (size_t i = 0; i < group.rows.size(); ++i) {
    std::string row = rowOf(2, i);
    text += rowEvents(row, i, group.rows[i].name);
    for (const TraceGroup::Slice &slice : group.rows[i].slices) {
      text += ",\n{\"ph\":\"X\"" + row +
              timesOf(slice.begin, slice.end, origin) +
              ",\"name\":" + jsonText(slice.name) +
              ",\"cat\":\"simulated\",\"args\":{}}";
    }
  }
  return text;
}

/// Every event of a plan as a slice in the row of its device.
static std::string planText(const TracedPlan &traced, uint64_t origin) {
  bool severalChunks = false;
  for (const EventList &events : traced.events) {
    severalChunks |=
        std::any_of(events.begin(), events.end(),
                    [](const Event &event) { return event.chunk > 0; });
  }
  std::string text;
  for (size_t at = 0; at < traced.events.size(); ++at) {
    std::string row = rowOf(1, static_cast<size_t>(traced.devices[at]));
    for (const Event &event : traced.events[at]) {
      text += ",\n{\"ph\":\"X\"" + row +
              timesOf(event.begin, event.end, origin) + "," +
              describe(*traced.plan, event, severalChunks) + "}";
    }
  }
  return text;
}

static std::string hopText(const TracedHop &hop, uint64_t origin) {
  std::string text;
  for (int64_t device = 0; device < hop.devices; ++device) {
    text +=
        ",\n{\"ph\":\"X\"" + rowOf(1, static_cast<size_t>(device)) +
        timesOf(hop.begin, hop.end, origin) +
        ",\"name\":" + jsonText("hop to " + hop.to) +
        ",\"cat\":\"hop\",\"args\":{\"bytes\":" + std::to_string(hop.bytes) +
        "}}";
  }
  return text;
}

/// The first time of all; 0 where nothing was noted.
static uint64_t originOf(const std::vector<TracedPlan> &plans,
                         const std::vector<TracedHop> &hops) {
  uint64_t origin = UINT64_MAX;
  for (const TracedPlan &traced : plans) {
    for (const EventList &events : traced.events) {
      for (const Event &event : events) {
        origin = std::min(origin, event.begin);
      }
    }
  }
  for (const TracedHop &hop : hops) {
    origin = std::min(origin, hop.begin);
  }
  return origin == UINT64_MAX ? 0 : origin;
}

/// `plan wide`, or `plans wide, deep` in the order in which they ran.
static std::string namesOf(const std::vector<TracedPlan> &plans) {
  std::string names;
  std::set<std::string> known;
  for (const TracedPlan &traced : plans) {
    if (known.insert(traced.plan->name).second) {
      names += (names.empty() ? "" : ", ") + traced.plan->name;
    }
  }
  return (known.size() > 1 ? "plans " : "plan ") + names;
}

std::string traceText(const std::vector<TracedPlan> &plans,
                      const std::vector<TracedHop> &hops,
                      const TraceGroup &beside) {
  uint64_t origin = originOf(plans, hops);
  int64_t devices = 0;
  for (const TracedPlan &traced : plans) {
    for (int64_t device : traced.devices) {
      devices = std::max(devices, device + 1);
    }
  }
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" +
                     nameEvent("process_name", ",\"pid\":1", namesOf(plans));
  for (int64_t device = 0; device < devices; ++device) {
    size_t index = static_cast<size_t>(device);
    text +=
        rowEvents(rowOf(1, index), index, "device " + std::to_string(device));
  }
  for (const TracedPlan &traced : plans) {
    text += planText(traced, origin);
  }
  for (const TracedHop &hop : hops) {
    text += hopText(hop, origin);
  }
  return text + groupText(beside, origin) + "\n]}\n";
}

Status writeTrace(const std::string &path, const std::vector<TracedPlan> &plans,
                  const std::vector<TracedHop> &hops,
                  const TraceGroup &beside) {
  std::string text = traceText(plans, hops, beside);
  Result<ReplacedFile> file = ReplacedFile::create(path);
  if (!file) {
    return file.status();
  }
  CLEAVE_TRY(file->write(text.data(), text.size()));
  return file->commit();
}

} // namespace cleave::executor
