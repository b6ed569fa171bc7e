//===- exposed.cpp - What collectives add to a step -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: exposed PLANFILE PLAN STEPS
//
// Trains with random ids, and in turns with a second session whose collectives
// move nothing and wait for nobody. Prints one line of JSON: the seconds of
// each step with and without them, and those of the processor, which tell
// copying from waiting.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace cleave;

namespace {

int fail(const Status &status) {
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}

double processorSeconds() {
  timespec time;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A session and its batch.
class Run {
public:
  Status open(std::shared_ptr<const format::PlanFile> file,
              const std::string &plan, bool withoutCollectives) {
    executor::SessionOptions options;
    options.withoutCollectives = withoutCollectives;
    Result<std::unique_ptr<executor::Session>> opened =
        executor::Session::open(std::move(file), plan, options);
    if (!opened) {
      return opened.status();
    }
    session = std::move(*opened);
    session->state().initialise(1);
    std::mt19937 random(1);
    for (const auto &input : session->program("train").inputs) {
      if (input->source != format::InputSource::Tokens) {
        continue;
      }
      size_t count = 1;
      for (int64_t size : input->sizes) {
        count *= static_cast<size_t>(size);
      }
      std::vector<int32_t> &ids = tokens.emplace_back(count);
      for (int32_t &id : ids) {
        id = static_cast<int32_t>(
            random() %
            static_cast<uint32_t>(std::max<int64_t>(1, input->bound)));
      }
      names.push_back(input->name);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      feeds.push_back({names[i], tokens[i]});
    }
    return Status();
  }

  Status step(bool counts) {
    auto begin = std::chrono::steady_clock::now();
    double used = processorSeconds();
    CLEAVE_TRY(session->train(feeds));
    if (counts) {
      seconds.push_back(std::chrono::duration<double>(
                            std::chrono::steady_clock::now() - begin)
                            .count());
      processor.push_back(processorSeconds() - used);
    }
    return Status();
  }

  std::vector<double> seconds;   ///< of each step
  std::vector<double> processor; ///< of all threads together

private:
  std::unique_ptr<executor::Session> session;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::string> names;
  std::vector<executor::Feed> feeds;
};

std::string listOf(const std::vector<double> &seconds) {
  std::string text;
  for (double value : seconds) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

} // namespace

int main(int count, char **words) {
  int steps = count == 4 ? std::atoi(words[3]) : 0;
  if (steps < 1) {
    std::fprintf(stderr, "usage: exposed PLANFILE PLAN STEPS\n");
    return 2;
  }
  Result<format::PlanFile> opened = format::PlanFile::open(words[1]);
  if (!opened) {
    return fail(opened.status());
  }
  auto file = std::make_shared<const format::PlanFile>(std::move(*opened));
  Run with, without;
  for (auto [run, stubbed] : {std::pair{&with, false}, {&without, true}}) {
    if (Status status = run->open(file, words[2], stubbed); !status) {
      return fail(status);
    }
  }
  for (int step = -2; step < steps; ++step) { // two to warm up
    for (Run *run : {&with, &without}) {
      if (Status status = run->step(step >= 0); !status) {
        return fail(status);
      }
    }
  }
  std::printf("{\"with\": %s, \"without\": %s, \"processor_with\": %s, "
              "\"processor_without\": %s}\n",
              listOf(with.seconds).c_str(), listOf(without.seconds).c_str(),
              listOf(with.processor).c_str(),
              listOf(without.processor).c_str());
  return 0;
}
