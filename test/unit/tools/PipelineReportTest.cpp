//===- PipelineReportTest.cpp - What a pipeline does and costs ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/PipelineReport.h"
#include "layout/Stored.h"
#include "tools/cleave/Explain.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::tools;

namespace {

/// All forwards, then all backwards.
schedule::Schedule forwardsFirst(int32_t stages, int32_t micros) {
  schedule::Schedule schedule;
  schedule.name = "gpipe";
  schedule.stages = stages;
  schedule.micros = micros;
  schedule.actions.resize(stages);
  for (auto &actions : schedule.actions) {
    for (schedule::Kind kind :
         {schedule::Kind::Forward, schedule::Kind::Backward}) {
      for (int32_t micro = 0; micro < micros; ++micro) {
        schedule::Action action;
        action.micro = micro;
        action.kind = kind;
        actions.push_back(action);
      }
    }
  }
  return schedule;
}

PipelineReport reportOf(const schedule::Schedule &schedule, PipelineWork work,
                        const Rates &rates) {
  auto checked = schedule::check(schedule);
  EXPECT_TRUE(std::holds_alternative<schedule::Proof>(checked));
  return makePipelineReport("pipe", schedule,
                            std::get<schedule::Proof>(checked), std::move(work),
                            rates);
}

} // namespace

TEST(PipelineReport, workTakesTheLongerOfComputingAndReading) {
  Rates rates{1e9, 1e8, 1e7, 1e-3};
  EXPECT_DOUBLE_EQ(secondsOf({2e9, 1e8, 0}, rates), 2);
  EXPECT_DOUBLE_EQ(secondsOf({1e9, 3e8, 0}, rates), 3);
  EXPECT_DOUBLE_EQ(secondsOf({1e9, 3e8, 5e6}, rates), 3.5);
  EXPECT_DOUBLE_EQ(secondsOfMessage(2e7, rates), 2.001);
}

// GPipe, 4 stages, 8 microbatches, F = I = W = 1: 33 (11 of them a stage
// waits).
TEST(PipelineReport, timelineOfEqualStages) {
  PipelineWork work;
  work.dims = {"layer"};
  work.positions.resize(4);
  for (PositionWork &position : work.positions) {
    position.forward = position.input = position.weight = {1e9, 0, 0};
  }
  PipelineReport report =
      reportOf(forwardsFirst(4, 8), work, {1e9, 1e8, 1e7, 0});
  EXPECT_DOUBLE_EQ(report.timeline.makespan, 33);
  EXPECT_DOUBLE_EQ(report.timeline.bubble, 9.0 / 33);
  EXPECT_DOUBLE_EQ(report.bubble, 9.0 / 33);
  EXPECT_EQ(report.held, (std::vector<int64_t>{8, 8, 8, 8}));

  // A slow stage adds to the simulated bubble, not to the schedule's own.
  for (Work *one : {&work.positions[3].forward, &work.positions[3].input,
                    &work.positions[3].weight}) {
    *one = {2e9, 0, 0};
  }
  report = reportOf(forwardsFirst(4, 8), work, {1e9, 1e8, 1e7, 1e-3});
  EXPECT_DOUBLE_EQ(report.bubble, 9.0 / 33);
  EXPECT_GT(report.timeline.bubble, 0.5);
}

// A message of 10 bytes at 10 bytes a second after 1 s takes 2 s. Two stages, a
// microbatch: forward 1, message 2, forward 1, backward 3, message 2,
// backward 3.
TEST(PipelineReport, messagesTakeTheirTimeAndCrossBoundaries) {
  PipelineWork work;
  work.positions.resize(2);
  for (PositionWork &position : work.positions) {
    position.forward = {1, 0, 0};
    position.input = {0, 3, 0};
  }
  MessageWork activation;
  activation.largest = 10;
  activation.total = 25;
  activation.end = 1;
  MessageWork gradient = activation;
  gradient.isGradient = true;
  gradient.largest = 4;
  gradient.total = 8;
  work.messages = {activation, gradient};
  PipelineReport report = reportOf(forwardsFirst(2, 1), work, {1, 1, 10, 1});
  EXPECT_DOUBLE_EQ(report.timeline.makespan, 12);
  ASSERT_EQ(report.crossings.size(), 1u);
  EXPECT_EQ(report.crossings[0].activations, 25);
  EXPECT_EQ(report.crossings[0].gradients, 8);
}

TEST(PipelineReport, layersOfChunks) {
  PipelineReport report;
  report.schedule.stages = 2;
  report.schedule.chunks = 2;
  report.schedule.placement = schedule::Placement::Folded;
  report.work.positions.resize(4);
  report.work.dims = {"layer"};
  int64_t cuts[] = {0, 2, 3, 3, 7};
  for (int position = 0; position < 4; ++position) {
    report.work.positions[position].layers = {
        {cuts[position], cuts[position + 1]}};
  }
  EXPECT_EQ(layersOf(report, 0), "6 (0 .. 2, 3 .. 7)");
  EXPECT_EQ(layersOf(report, 1), "1 (2 .. 3)");
  report.work.positions[1].layers = {{2, 2}};
  EXPECT_EQ(layersOf(report, 1), "0");
  // Several repeats, and a region that the plan places: at position 3, which is
  // the second chunk of stage 0.
  report.work.dims.push_back("block");
  for (int position = 0; position < 4; ++position) {
    report.work.positions[position].layers.push_back({position, position + 1});
  }
  report.regions = {{"output", 3}};
  EXPECT_EQ(layersOf(report, 0),
            "6 layer (0 .. 2, 3 .. 7), 2 block (0 .. 1, 3 .. 4), output");
  EXPECT_EQ(layersOf(report, 1), "0 layer, 2 block (1 .. 2, 2 .. 3)");
}

TEST(PipelineReport, secondsHaveUnits) {
  EXPECT_EQ(formatSeconds(2.5), "2.5 s");
  EXPECT_EQ(formatSeconds(0.0123456), "12.35 ms");
  EXPECT_EQ(formatSeconds(1e-9), "0.001 us");
}

// 5 layers on 2 stages: 3 and 2. A leaf of the last stage is nowhere else.
TEST(PipelineReport, memoryIsThatOfStages) {
  PlanReport report;
  report.plan.mesh.atoms = {{"pipe", 2}, {"data", 2}, {"micro", 3}};
  report.plan.mesh.times = 1;
  report.plan.pipeline = layout::PipelineStatement{};
  report.plan.pipeline->atoms = {0};
  layout::ProgramRecord program;
  program.entry = "train";
  layout::LeafRecord layers;
  layers.value.role = layout::Role::Params;
  layers.value.dims = {{"layer", 5}, {"embed", 7}};
  layers.layout.dims.resize(2);
  layers.layout.dims[0].atoms = {0};
  layers.layout.dims[1].atoms = {1}; // embed: 4 and 3
  layout::LeafRecord head = layers;
  head.value.dims = {{"embed", 100}};
  head.layout.dims = {{}};
  head.layout.residence = {{0, 1, 2}};
  layout::LeafRecord moment = layers;
  moment.value.role = layout::Role::Optimizer;
  program.leaves = {layers, head, moment};
  report.programs = {program};
  report.memory = leafMemory(report);
  ASSERT_EQ(report.memory.size(), 2u);
  EXPECT_EQ(report.memory[0].params, 3 * 4 * 4);
  EXPECT_EQ(report.memory[1].params, 2 * 4 * 4 + 400);
  EXPECT_EQ(report.memory[0].optimizer, 3 * 4 * 4);
  EXPECT_EQ(leafBytes(report, layout::Role::Params), 432);
  EXPECT_EQ(report.peak(), -1);
  report.memory[0].arena = report.memory[1].arena = 1000;
  report.memory[0].slots = 600;
  EXPECT_EQ(report.peak(), 48 + 48 + 1000 + 600);
}

TEST(Stored, residenceIsSaidInCoordinates) {
  layout::Mesh mesh;
  mesh.atoms = {{"pipe", 4}};
  EXPECT_EQ(layout::describe({{0, 0, 1}, {0, 3, 4}}, mesh),
            "pipe[0], pipe[last]");
  EXPECT_EQ(layout::describe({{0, 1, 3}}, mesh), "pipe[1 .. 3]");
  EXPECT_EQ(layout::describe({{0, 1, 4}}, mesh), "pipe[1 .. ]");
  EXPECT_TRUE(layout::livesOn({{0, 0, 1}, {0, 3, 4}}, {{0}, 3}, mesh));
  EXPECT_FALSE(layout::livesOn({{0, 0, 1}, {0, 3, 4}}, {{0}, 2}, mesh));
}

TEST(Stored, noDeviceSendsForTwoStages) {
  layout::CollectiveRecord first, second, both;
  first.stageBytes = {100, 30};
  second.stageBytes = {20, 80};
  both.bytesBusiest = 5;
  both.iterations = 3;
  layout::BusiestDevice busiest;
  for (const auto *record : {&first, &second, &both}) {
    busiest.add(*record);
  }
  EXPECT_EQ(busiest.bytes(), 120 + 15);
  layout::BusiestDevice twice = busiest;
  twice.add(busiest);
  EXPECT_EQ(twice.bytes(), 2 * 135);
}
