//===- TimelineTest.cpp - A measured pipeline and its simulation ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Timeline.h"

#include "Library.h"
#include "PipelinePlan.h"
#include "runtime/executor/Session.h"
#include "runtime/format/Convert.h"
#include "schedule/Check.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <map>
#include <random>
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
  std::string text =
      executor::traceText({{&notes.plan(), {0, 1}, notes.devices}}, {},
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

/// The streams of a proven schedule, as the compiler writes them.
std::vector<std::unique_ptr<format::StreamT>>
streamsOf(const schedule::Schedule &schedule) {
  using Kind = schedule::Operation::Kind;
  static const std::map<Kind, StepKind> messages = {
      {Kind::SendActivation, StepKind::SendActivation},
      {Kind::ReceiveActivation, StepKind::ReceiveActivation},
      {Kind::SendGradient, StepKind::SendGradient},
      {Kind::ReceiveGradient, StepKind::ReceiveGradient}};
  auto checked = schedule::check(schedule);
  std::vector<std::unique_ptr<format::StreamT>> streams;
  const schedule::Streams &placed = std::get<schedule::Proof>(checked).streams;
  for (size_t stage = 0; stage < placed.stages.size(); ++stage) {
    auto stream = std::make_unique<format::StreamT>();
    for (const schedule::Operation &operation : placed.stages[stage]) {
      stream->steps.push_back(format::Step(
          operation.isMessage()
              ? messages.at(operation.kind)
              : static_cast<StepKind>(
                    schedule.actions[stage][operation.action].kind),
          operation.chunk, operation.micro));
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// Milliseconds of forward, input and weight gradient at each position.
using SleepTimes = std::vector<std::array<int64_t, 3>>;

int64_t sleepOf(const std::array<int64_t, 3> &times, StepKind kind) {
  return kind == StepKind::Forward         ? times[0]
         : kind == StepKind::InputGradient ? times[1]
         : kind == StepKind::Backward      ? times[1] + times[2]
                                           : times[2];
}

/// Runs 2 steps of a schedule on stages whose work takes a given time.
std::optional<Prediction> sleepingRun(const schedule::Schedule &schedule,
                                      const SleepTimes &times) {
  PipelineSize size{"slow", 1, schedule.stages, 1, schedule.micros};
  size.stacked = schedule.chunks == 1;
  size.chunks = schedule.chunks;
  size.placement = static_cast<format::Placement>(schedule.placement);
  format::PlanSetT set = makePipelineSet({size});
  const_cast<format::PipelineT &>(trainOf(*set.plans[0])).streams =
      streamsOf(schedule);
  executor::SessionOptions options;
  options.stepDelay = [&](int64_t device, const format::Step &step) {
    int32_t at = schedule.position(static_cast<int32_t>(device), step.chunk());
    std::this_thread::sleep_for(
        std::chrono::milliseconds(sleepOf(times[at], step.kind())));
  };
  auto opened =
      executor::Session::open(fileOf(std::move(set)), "slow", options);
  EXPECT_TRUE(opened.ok()) << opened.message();
  executor::Session &session = **opened;
  session.state().initialise(7);
  session.startTrace();
  std::vector<int32_t> ids(rows * words, 3);
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(session.train({{"ids", ids}}).ok());
  }
  return tools::predict(session.plan(), session.events());
}

/// Never more than 3% quicker than simulated; a busy machine may need several
/// tries for no more than 3% slower.
void expectAsSimulated(const schedule::Schedule &schedule,
                       const SleepTimes &times) {
  schedule::Times ideal;
  for (const auto &[forward, input, weight] : times) {
    ideal.forward.push_back(forward * 1e-3);
    ideal.input.push_back(input * 1e-3);
    ideal.weight.push_back(weight * 1e-3);
  }
  ideal.link.resize(times.size() - 1);
  double least = schedule::simulate(schedule, ideal).makespan;
  double measured = 0, simulated = 0;
  for (int tries = 5; tries > 0; --tries) {
    std::optional<Prediction> found = sleepingRun(schedule, times);
    ASSERT_TRUE(found);
    measured = found->measured;
    simulated = found->timeline.makespan;
    EXPECT_GE(simulated, least);
    EXPECT_GE(measured, 0.97 * simulated);
    if (measured <= 1.03 * simulated) {
      return;
    }
  }
  FAIL() << measured << " s, simulated " << simulated << " s";
}

} // namespace

// Stages that sleep take what they should; the simulation then says how long a
// step takes. 1F1B with equal stages: (4 + 3 - 1) * (15 + 30) ms.
TEST(Timeline, sleepingStagesTakeAsLongAsSimulated) {
  auto evaluated = librarySource().evaluate("one_f_one_b", 3, 4);
  ASSERT_TRUE(evaluated);
  expectAsSimulated(evaluated->schedule, SleepTimes(3, {15, 15, 15}));
}

// Also where stages differ, in every schedule of the library.
TEST(Timeline, unequalStagesTakeAsLongAsSimulated) {
  std::mt19937 random(5);
  for (const Known &known : library()) {
    for (int64_t chunks : known.chunks) {
      SCOPED_TRACE(known.name + ", chunks: " + std::to_string(chunks));
      auto evaluated = librarySource().evaluate(known.name, 3, 5, chunks);
      ASSERT_TRUE(evaluated);
      SleepTimes times(evaluated->schedule.positions());
      for (auto &position : times) {
        for (int64_t &time : position) {
          time = 3 + static_cast<int64_t>(random() % (20 / chunks));
        }
      }
      expectAsSimulated(evaluated->schedule, times);
    }
  }
}
