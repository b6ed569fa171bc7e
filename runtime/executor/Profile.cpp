//===- Profile.cpp - Where steps' time went -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Profile.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cleave::executor {

double ProfiledOperation::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

Profiler::Running &Profiler::runningOf(const Session &session) {
  for (Running &running : plans) {
    if (running.plan == &session.plan()) {
      return running;
    }
  }
  Running &running = plans.emplace_back();
  running.plan = running.profile.plan = &session.plan();
  running.work = session.work(program);
  running.profile.seconds.resize(running.work.size());
  return running;
}

static double secondsOf(const Event &event) {
  return static_cast<double>(event.end - event.begin) * 1e-9;
}

/// Of the program's last run; false where the events have none.
bool Profiler::addDevice(Running &running, size_t at, const EventList &events) {
  size_t begin = events.size();
  for (size_t i = events.size(); i-- > 0 && events[i].begin >= seen[at];) {
    if (events[i].kind == EventKind::Step &&
        running.plan->programs[events[i].site]->name == program) {
      begin = i;
      break;
    }
  }
  if (begin == events.size()) {
    return false;
  }
  seen[at] = events[begin].end;
  if (running.runs < skipped) {
    return true;
  }
  running.profile.seconds[at] += secondsOf(events[begin]);
  for (size_t i = begin + 1;
       i < events.size() && events[i].kind != EventKind::Step; ++i) {
    const Event &event = events[i];
    if (event.kind == EventKind::PipelineStep) {
      continue; // its instructions are here too
    }
    EventKind kind =
        event.kind == EventKind::Wait ? EventKind::Start : event.kind;
    ProfiledOperation &operation = running.operations[{kind, event.site}];
    operation.seconds.resize(running.work.size());
    operation.seconds[at] += secondsOf(event);
    ++running.profile.events;
  }
  return true;
}

void Profiler::add(const Session &session) {
  const std::vector<EventList> &events = session.events();
  Running &running = runningOf(session);
  seen.resize(std::max(seen.size(), events.size()));
  bool noted = true;
  for (size_t at = 0; at < events.size(); ++at) {
    noted &= addDevice(running, at, events[at]);
  }
  if (running.runs++ < skipped || !noted) {
    return; // warming up, or past the trace's limit
  }
  ++running.profile.steps;
  for (const std::vector<SiteWork> &device : running.work) {
    for (const SiteWork &work : device) {
      if (work.kind == EventKind::Wait) {
        continue;
      }
      SiteWork &sum = running.operations[{work.kind, work.site}].work;
      sum.kind = work.kind;
      sum.site = work.site;
      sum.calls += work.calls;
      sum.operations += work.operations;
      sum.bytes += work.bytes;
    }
  }
}

std::vector<PlanProfile> Profiler::profiles() const {
  std::vector<PlanProfile> result;
  for (const Running &running : plans) {
    if (running.profile.steps == 0) {
      continue;
    }
    PlanProfile &profile = result.emplace_back(running.profile);
    for (const auto &[key, operation] : running.operations) {
      profile.operations.push_back(operation);
      ProfiledOperation &last = profile.operations.back();
      last.work.kind = key.first;
      last.work.site = key.second;
      last.seconds.resize(running.work.size());
    }
    std::sort(profile.operations.begin(), profile.operations.end(),
              [](const auto &a, const auto &b) {
                auto keyOf = [](const ProfiledOperation &operation) {
                  return std::tuple(-operation.total(), operation.work.kind,
                                    operation.work.site);
                };
                return keyOf(a) < keyOf(b);
              });
  }
  return result;
}

} // namespace cleave::executor
