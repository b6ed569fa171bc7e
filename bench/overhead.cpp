//===- overhead.cpp - What an action of a pipeline costs ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: overhead STAGES MICROBATCHES STEPS
//
// Runs a hand-built pipeline whose microbatches, most of them empty, have next
// to nothing to do, so that a step's time is the executor's: one forward, one
// backward on each stage, each with a loop over its layers. Prints one line of
// JSON: the actions and the instructions of the stage that has most, and the
// seconds of each step.
//
//===----------------------------------------------------------------------===//

#include "PipelinePlan.h"
#include "runtime/executor/Session.h"
#include "runtime/format/Pipeline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace cleave;
using executor::EventKind;

/// Of one device's step: actions that compute, and instructions.
static std::pair<size_t, size_t> countsOf(const executor::EventList &events) {
  size_t actions = 0, instructions = 0;
  for (const executor::Event &event : events) {
    if (event.kind < EventKind::Step) {
      ++instructions;
    } else if (event.kind == EventKind::PipelineStep &&
               !format::isMessage(event.step)) {
      ++actions;
    }
  }
  return {actions, instructions};
}

static int run(int64_t stages, int64_t micros, int steps) {
  auto opened = executor::Session::open(
      test::fileOf(test::makePipelineSet({{"empty", 1, stages, 1, micros}})),
      "empty");
  if (!opened) {
    std::fprintf(stderr, "error: %s\n", opened.message().c_str());
    return 1;
  }
  executor::Session &session = **opened;
  session.state().initialise(1);
  std::vector<int32_t> ids(test::rows * test::words, 3);
  auto train = [&] {
    auto begin = std::chrono::steady_clock::now();
    Status status = session.train({{"ids", ids}});
    if (!status) {
      std::fprintf(stderr, "error: %s\n", status.message().c_str());
      std::exit(1);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  };
  std::string seconds;
  train(); // warms up
  for (int step = 0; step < steps; ++step) {
    seconds += (step ? ", " : "") + std::to_string(train());
  }
  session.startTrace();
  train();
  size_t actions = 0, instructions = 0;
  for (const executor::EventList &events : session.events()) {
    auto [own, all] = countsOf(events);
    actions = std::max(actions, own);
    instructions = std::max(instructions, all);
  }
  std::printf("{\"actions\": %zu, \"instructions\": %zu, \"seconds\": [%s]}\n",
              actions, instructions, seconds.c_str());
  return 0;
}

int main(int count, char **words) {
  int64_t stages = count == 4 ? std::atoll(words[1]) : 0;
  int64_t micros = count == 4 ? std::atoll(words[2]) : 0;
  int steps = count == 4 ? std::atoi(words[3]) : 0;
  if (stages < 1 || stages > test::depth || micros < 1 || micros > 1 << 16 ||
      steps < 1) {
    std::fprintf(stderr,
                 "usage: overhead STAGES MICROBATCHES STEPS\n"
                 "1 to %d stages, 1 to 65536 microbatches, a step at least\n",
                 int(test::depth));
    return 2;
  }
  return run(stages, micros, steps);
}
