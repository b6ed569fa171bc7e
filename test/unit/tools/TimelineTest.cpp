//===- TimelineTest.cpp - A measured pipeline and its simulation ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Timeline.h"

#include "PipelinePlan.h"
#include "runtime/executor/Session.h"
#include "runtime/format/Convert.h"
#include "schedule/Check.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <set>
#include <thread>

using namespace cleave;
using namespace cleave::test;
using executor::Event;
using executor::EventKind;
using executor::EventList;
using format::StepKind;
using tools::Prediction;

namespace {

const format::PipelineT &trainOf(const format::PlanT &plan) {
  for (const auto &program : plan.programs) {
    if (program->name == "train") {
      return *format::pipelineOf(*program);
    }
  }
  ADD_FAILURE();
  std::abort();
}

uint32_t trainSite(const format::PlanT &plan) {
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    if (plan.programs[i]->name == "train") {
      return i;
    }
  }
  return 0;
}

/// Notes of two stages and two microbatches, one forward, one backward: forward
/// takes 1 ms on stage 0 and 2 ms on stage 1, backward 3 and 4 ms.
struct Notes {
  format::PlanSetT set = makePipelineSet({{"two", 1, 2, 1, 2}});
  std::vector<EventList> devices = std::vector<EventList>(2);

  const format::PlanT &plan() const { return *set.plans[0]; }

  void addStep(uint64_t begin, uint64_t slower = 1) {
    for (uint32_t device = 0; device < 2; ++device) {
      devices[device].push_back(
          {begin, begin + 100'000'000, trainSite(plan()), EventKind::Step});
    }
    uint64_t ms = 1'000'000 * slower;
    auto add = [&](int device, StepKind kind, uint32_t micro, uint64_t from,
                   uint64_t to) {
      devices[device].push_back({begin + from * ms, begin + to * ms, micro,
                                 EventKind::PipelineStep, kind, 0});
    };
    add(0, StepKind::Forward, 0, 0, 1);
    add(0, StepKind::Forward, 1, 1, 2);
    add(1, StepKind::ReceiveActivation, 0, 0, 1); // waits
    add(1, StepKind::Forward, 0, 1, 3);
    add(1, StepKind::Backward, 0, 3, 7);
    add(1, StepKind::ReceiveActivation, 1, 7, 7); // is there
    add(1, StepKind::Forward, 1, 7, 9);
    add(1, StepKind::Backward, 1, 9, 13);
    add(0, StepKind::ReceiveGradient, 0, 2, 7);
    add(0, StepKind::Backward, 0, 7, 10);
    add(0, StepKind::ReceiveGradient, 1, 10, 13);
    add(0, StepKind::Backward, 1, 13, 16);
  }
};

} // namespace

TEST(Timeline, schedulesOfStreams) {
  format::PlanSetT set = makePipelineSet({{"two", 1, 2, 1, 2}});
  const format::PlanT &plan = *set.plans[0];
  schedule::Schedule schedule =
      tools::scheduleOf(trainOf(plan), format::toLayout(*plan.mesh));
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_EQ(schedule.micros, 2);
  std::vector<std::string> names;
  for (const schedule::Action &action : schedule.actions[1]) {
    names.push_back(describe(action, 1));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"forward 0", "backward 0",
                                             "forward 1", "backward 1"}));
}

TEST(Timeline, timesAreTheMeansOfStagesAndKinds) {
  Notes notes;
  notes.addStep(1'000'000'000);
  std::optional<Prediction> found = tools::predict(notes.plan(), notes.devices);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->times.forward[0], 0.001);
  EXPECT_DOUBLE_EQ(found->times.forward[1], 0.002);
  EXPECT_DOUBLE_EQ(found->times.input[0], 0.003);
  EXPECT_DOUBLE_EQ(found->times.input[1], 0.004);
  EXPECT_EQ(found->times.weight, (std::vector<double>{0, 0}));
  EXPECT_EQ(found->times.link, std::vector<double>{0}); // the quickest
  EXPECT_DOUBLE_EQ(found->measured, 0.016);
  EXPECT_DOUBLE_EQ(found->timeline.makespan, 0.016);
}

TEST(Timeline, theFirstStepAndHalfStepsDoNotCount) {
  Notes notes;
  notes.addStep(0, 5);
  notes.addStep(1'000'000'000);
  notes.addStep(2'000'000'000);
  notes.addStep(3'000'000'000, 7);
  notes.devices[0].pop_back(); // the list was full
  std::optional<Prediction> found = tools::predict(notes.plan(), notes.devices);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->measured, 0.016);
  EXPECT_EQ(found->begins,
            (std::vector<uint64_t>{1'000'000'000, 2'000'000'000}));
}

TEST(Timeline, nothingWithoutStagesOrSteps) {
  Notes notes;
  EXPECT_FALSE(tools::predict(notes.plan(), notes.devices));
  format::PlanSetT one = makePipelineSet({{"one", 1, 1, 1, 3}});
  EXPECT_FALSE(tools::predict(*one.plans[0], {EventList()}));
}

TEST(Timeline, rowsStandBesideTheDevices) {
  Notes notes;
  notes.addStep(1'000'000'000);
  Prediction found = *tools::predict(notes.plan(), notes.devices);
  std::string text = executor::traceText(
      {{&notes.plan(), {0, 1}, notes.devices}}, {},
      tools::simulatedRows(notes.plan(), found));
  nlohmann::json trace = nlohmann::json::parse(text);
  std::map<std::string, std::set<int>> groups;
  std::map<int, std::map<std::string, double>> begins; // by group
  for (const auto &event : trace["traceEvents"]) {
    std::string name = event["name"];
    if (name == "process_name") {
      groups[event["args"]["name"]].insert(int(event["pid"]));
    } else if (event["ph"] == "X") {
      begins[event["pid"]][std::to_string(int(event["tid"])) + " " + name] =
          event["ts"];
    }
  }
  EXPECT_EQ(groups["plan two"], std::set<int>{1});
  EXPECT_EQ(groups["plan two, simulated from the stages' times"],
            std::set<int>{2});
  // The same names at the same times: 2 stages, 2 microbatches, there and back.
  EXPECT_EQ(begins[2].size(), 8u);
  for (const auto &[name, begin] : begins[2]) {
    ASSERT_TRUE(begins[1].contains(name)) << name;
    EXPECT_NEAR(begin, begins[1][name], 1e-3) << name;
  }
}

namespace {

schedule::Action actionOf(schedule::Kind kind, int32_t micro) {
  schedule::Action action;
  action.kind = kind;
  action.micro = micro;
  return action;
}

/// One forward, one backward; each stage begins with as many forwards as there
/// are stages from it on.
schedule::Schedule oneEach(int32_t stages, int32_t micros) {
  schedule::Schedule schedule;
  schedule.stages = stages;
  schedule.micros = micros;
  for (int32_t stage = 0; stage < stages; ++stage) {
    std::vector<schedule::Action> &actions = schedule.actions.emplace_back();
    int32_t warm = std::min(stages - stage - 1, micros);
    for (int32_t i = 0; i < micros + warm; ++i) {
      if (i < micros) {
        actions.push_back(actionOf(schedule::Kind::Forward, i));
      }
      if (i >= warm) {
        actions.push_back(actionOf(schedule::Kind::Backward, i - warm));
      }
    }
  }
  return schedule;
}

StepKind stepOf(const schedule::Operation &operation,
                const std::vector<schedule::Action> &actions) {
  using Kind = schedule::Operation::Kind;
  switch (operation.kind) {
  case Kind::Compute:
    return actions[operation.action].kind == schedule::Kind::Forward
               ? StepKind::Forward
               : StepKind::Backward;
  case Kind::SendActivation:
    return StepKind::SendActivation;
  case Kind::ReceiveActivation:
    return StepKind::ReceiveActivation;
  case Kind::SendGradient:
    return StepKind::SendGradient;
  case Kind::ReceiveGradient:
    return StepKind::ReceiveGradient;
  }
  return StepKind::Forward;
}

/// The streams of a proven schedule, as the compiler writes them.
std::vector<std::unique_ptr<format::StreamT>>
streamsOf(const schedule::Schedule &schedule) {
  auto checked = schedule::check(schedule);
  std::vector<std::unique_ptr<format::StreamT>> streams;
  const schedule::Streams &placed = std::get<schedule::Proof>(checked).streams;
  for (size_t stage = 0; stage < placed.stages.size(); ++stage) {
    auto stream = std::make_unique<format::StreamT>();
    for (const schedule::Operation &operation : placed.stages[stage]) {
      stream->steps.push_back(
          format::Step(stepOf(operation, schedule.actions[stage]),
                       operation.chunk, operation.micro));
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// Runs 3 steps of 1F1B on 3 stages whose work takes a given time.
std::optional<Prediction> sleepingRun(std::vector<int64_t> forward,
                                      std::vector<int64_t> backward) {
  int64_t stages = static_cast<int64_t>(forward.size());
  format::PlanSetT set = makePipelineSet({{"slow", 1, stages, 1, 4}});
  const_cast<format::PipelineT &>(trainOf(*set.plans[0])).streams =
      streamsOf(oneEach(static_cast<int32_t>(stages), 4));
  executor::SessionOptions options;
  options.stepDelay = [&](int64_t device, const format::Step &step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(
        step.kind() == StepKind::Forward ? forward[device] : backward[device]));
  };
  auto opened =
      executor::Session::open(fileOf(std::move(set)), "slow", options);
  EXPECT_TRUE(opened.ok()) << opened.message();
  executor::Session &session = **opened;
  session.state().initialise(7);
  session.startTrace();
  std::vector<int32_t> ids(rows * words, 3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(session.train({{"ids", ids}}).ok());
  }
  return tools::predict(session.plan(), session.events());
}

} // namespace

// Stages that sleep take what they should: the simulation then says how long a
// step takes. 1F1B with equal stages: (4 + 3 - 1) * (15 + 30) ms.
TEST(Timeline, sleepingStagesTakeAsLongAsSimulated) {
  // Never less; a busy machine may need several tries for no more than 3%.
  for (int tries = 5; tries > 0; --tries) {
    std::optional<Prediction> found = sleepingRun({15, 15, 15}, {30, 30, 30});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->begins.size(), 2u);
    EXPECT_GE(found->measured, 0.270);
    EXPECT_GE(found->timeline.makespan, 0.270);
    EXPECT_GE(found->measured, 0.97 * found->timeline.makespan);
    if (found->measured <= 1.03 * found->timeline.makespan) {
      return;
    }
  }
  FAIL() << "more than 3% slower than simulated";
}

// Messages are placed by unit times. Where stages differ, one may wait at a
// receive before work that does not need it, which the simulation leaves out: a
// step is never quicker than simulated, and not much slower.
TEST(Timeline, unequalStagesWaitLittleMore) {
  for (auto [forward, backward] :
       {std::pair(std::vector<int64_t>{15, 20, 25},
                  std::vector<int64_t>{30, 35, 40}),
        std::pair(std::vector<int64_t>{25, 15, 15},
                  std::vector<int64_t>{20, 40, 60}),
        std::pair(std::vector<int64_t>{30, 15, 10},
                  std::vector<int64_t>{60, 30, 10})}) {
    std::optional<Prediction> found = sleepingRun(forward, backward);
    ASSERT_TRUE(found);
    EXPECT_GE(found->measured, 0.97 * found->timeline.makespan);
    EXPECT_LE(found->measured, 1.25 * found->timeline.makespan);
  }
}
