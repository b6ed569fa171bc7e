//===- Timeline.cpp - A measured pipeline and its simulation --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Timeline.h"

#include "runtime/format/Convert.h"
#include "runtime/format/Pipeline.h"

#include <algorithm>
#include <map>

namespace cleave::tools {

using executor::Event;
using executor::EventKind;
using executor::EventList;
using format::StepKind;

schedule::Schedule scheduleOf(const format::PipelineT &pipeline,
                              const layout::Mesh &mesh) {
  format::PipelineShape shape(pipeline, mesh);
  schedule::Schedule schedule;
  schedule.stages = static_cast<int32_t>(shape.stages);
  schedule.micros = static_cast<int32_t>(shape.micros);
  schedule.chunks = static_cast<int32_t>(shape.chunks);
  schedule.placement = static_cast<schedule::Placement>(shape.placement);
  for (const auto &stream : pipeline.streams) {
    std::vector<schedule::Action> &actions = schedule.actions.emplace_back();
    for (const format::Step &step : stream->steps) {
      if (!format::isMessage(step.kind())) {
        schedule::Action action;
        action.micro = static_cast<int32_t>(step.micro());
        action.chunk = step.chunk();
        action.kind = static_cast<schedule::Kind>(step.kind());
        actions.push_back(action);
      }
    }
  }
  return schedule;
}

namespace {

struct Mean {
  double sum = 0;
  int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const {
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }
};

/// A training step: the events of each device, and what they span.
struct MeasuredStep {
  uint64_t begin = UINT64_MAX, end = 0; ///< of the pipeline's work
  std::vector<std::pair<size_t, const Event *>> events; ///< with their stages
  size_t works = 0;                                     ///< of all devices
};

class Measurement {
public:
  Measurement(const format::PlanT &plan, const format::PipelineT &pipeline,
              const std::vector<EventList> &devices)
      : plan(plan), mesh(format::toLayout(*plan.mesh)), pipe(pipeline.pipe),
        devices(devices) {
    result.schedule = scheduleOf(pipeline, mesh);
  }

  std::optional<Prediction> run();

private:
  void collect();
  size_t worksOfStep() const;
  void measureTimes();
  double link(int32_t boundary) const;

  const format::PlanT &plan;
  layout::Mesh mesh;
  std::vector<layout::AtomId> pipe;
  const std::vector<EventList> &devices;
  std::vector<MeasuredStep> steps;
  Prediction result;
  /// The quickest receive over each boundary: it did not wait.
  std::map<int32_t, double> links;
};

} // namespace

/// Sorts events by the training step that they are of.
void Measurement::collect() {
  for (size_t device = 0; device < devices.size(); ++device) {
    size_t stage =
        static_cast<size_t>(mesh.rankAlong(static_cast<int64_t>(device), pipe));
    size_t count = 0;
    bool isTraining = false;
    for (const Event &event : devices[device]) {
      if (event.kind == EventKind::Step) {
        isTraining = plan.programs[event.site]->name == "train";
        count += isTraining;
        steps.resize(std::max(steps.size(), count));
      } else if (event.kind == EventKind::PipelineStep && isTraining) {
        MeasuredStep &step = steps[count - 1];
        step.events.push_back({stage, &event});
        if (!format::isMessage(event.step)) {
          step.begin = std::min(step.begin, event.begin);
          step.end = std::max(step.end, event.end);
          ++step.works;
        }
      }
    }
  }
}

/// What all devices together do in a step.
size_t Measurement::worksOfStep() const {
  size_t works = 0;
  for (const auto &actions : result.schedule.actions) {
    works += actions.size();
  }
  return works * devices.size() / result.schedule.actions.size();
}

double Measurement::link(int32_t boundary) const {
  auto found = links.find(boundary);
  return found == links.end() ? 0 : found->second;
}

void Measurement::measureTimes() {
  const schedule::Schedule &schedule = result.schedule;
  std::map<std::pair<StepKind, int32_t>, Mean> means;
  for (const MeasuredStep &step : steps) {
    for (auto [stage, event] : step.events) {
      int32_t position =
          schedule.position(static_cast<int32_t>(stage), event->chunk);
      double took = static_cast<double>(event->end - event->begin) * 1e-9;
      if (!format::isMessage(event->step)) {
        means[{event->step, position}].add(took);
      } else if (event->step == StepKind::ReceiveActivation ||
                 event->step == StepKind::ReceiveGradient) {
        bool isGradient = event->step == StepKind::ReceiveGradient;
        int32_t boundary = isGradient ? position : position - 1;
        auto [at, isNew] = links.insert({boundary, took});
        at->second = std::min(at->second, took);
      }
    }
  }
  for (int32_t at = 0; at < schedule.positions(); ++at) {
    auto mean = [&](StepKind kind) { return means[{kind, at}].value(); };
    result.times.forward.push_back(mean(StepKind::Forward));
    // A whole backward, where a schedule has no other, is one time.
    bool isSplit = means[{StepKind::InputGradient, at}].count > 0;
    result.times.input.push_back(
        mean(isSplit ? StepKind::InputGradient : StepKind::Backward));
    result.times.weight.push_back(mean(StepKind::WeightGradient));
    if (at + 1 < schedule.positions()) {
      result.times.link.push_back(link(at));
    }
  }
}

std::optional<Prediction> Measurement::run() {
  collect();
  // A list of events that was full ends within a step.
  size_t works = worksOfStep();
  std::erase_if(steps, [&](const MeasuredStep &step) {
    return step.works != works || works == 0;
  });
  if (steps.empty()) {
    return std::nullopt;
  }
  if (steps.size() > 1) {
    steps.erase(steps.begin());
  }
  measureTimes();
  result.timeline = schedule::simulate(result.schedule, result.times);
  Mean makespan;
  for (const MeasuredStep &step : steps) {
    makespan.add(static_cast<double>(step.end - step.begin) * 1e-9);
    result.begins.push_back(step.begin);
  }
  result.measured = makespan.value();
  return std::move(result);
}

std::optional<Prediction> predict(const format::PlanT &plan,
                                  const std::vector<EventList> &devices) {
  for (const auto &program : plan.programs) {
    const format::PipelineT *pipeline = format::pipelineOf(*program);
    if (program->name == "train" && pipeline && pipeline->streams.size() > 1) {
      return Measurement(plan, *pipeline, devices).run();
    }
  }
  return std::nullopt;
}

executor::TraceGroup simulatedRows(const format::PlanT &plan,
                                   const Prediction &prediction) {
  const schedule::Schedule &schedule = prediction.schedule;
  executor::TraceGroup group;
  group.name = "plan " + plan.name + ", simulated from the stages' times";
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    executor::TraceGroup::Row &row = group.rows.emplace_back();
    row.name = "stage " + std::to_string(stage);
    for (uint64_t begin : prediction.begins) {
      const auto &intervals = prediction.timeline.actions[stage];
      for (size_t i = 0; i < intervals.size(); ++i) {
        const schedule::Action &action = schedule.actions[stage][i];
        format::Step step(static_cast<StepKind>(action.kind), action.chunk,
                          static_cast<uint32_t>(action.micro));
        auto at = [&](double seconds) {
          return begin + static_cast<uint64_t>(seconds * 1e9);
        };
        row.slices.push_back({format::describe(step, schedule.chunks > 1),
                              at(intervals[i].start), at(intervals[i].finish)});
      }
    }
  }
  return group;
}

} // namespace cleave::tools
