//===- HopBench.cpp - How long hops take ----------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// hop-bench PLANFILE FROM TO ROUNDS: hops there and back and prints, as one
// line of JSON, what moved, the seconds of each hop, and how fast this machine
// copies between memories that were touched before: with one thread, and with
// as many as there are devices. Copies and hops take turns.
//
// hop-bench PLANFILE FROM TO ROUNDS overlapped MILLISECONDS: hops there and
// back, plainly and while a step runs, and prints what the hops took, how long
// steps are and how long those with a hop. Each iteration over layers sleeps so
// long besides what it computes.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Crew.h"
#include "runtime/executor/Session.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

namespace {

constexpr size_t copiedBytes = size_t(256) << 20; ///< in all

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// Threads that each copy their share of `copiedBytes`.
class Copies {
public:
  explicit Copies(int64_t threads)
      : crew(threads), share(copiedBytes / threads) {
    for (int64_t i = 0; i < threads; ++i) {
      from.emplace_back(share, 'a');
      to.emplace_back(share, 'b');
    }
  }
  /// Bytes a second of all together.
  double rate() {
    auto begin = std::chrono::steady_clock::now();
    Status status = crew.all([&](int64_t i) {
      std::memcpy(to[i].data(), from[i].data(), share);
      return Status();
    });
    return status ? double(copiedBytes) / secondsSince(begin) : 0;
  }

private:
  executor::Crew crew;
  size_t share;
  std::vector<std::vector<char>> from, to;
};

void print(const char *name, const std::vector<double> &values,
           const char *end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%.9g", i ? ", " : "", values[i]);
  }
  std::printf("]%s", end);
}

int fail(const Status &status) {
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}

} // namespace

namespace {

/// Tokens of a step, all of them 0.
class Zeros {
public:
  explicit Zeros(const format::ProgramT &program) {
    for (const auto &input : program.inputs) {
      if (input->source == format::InputSource::Tokens) {
        size_t count = 1;
        for (int64_t size : input->sizes) {
          count *= static_cast<size_t>(size);
        }
        tokens.emplace_back(count, 0);
        names.push_back(input->name);
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      feeds.push_back({names[i], tokens[i]});
    }
  }
  std::vector<executor::Feed> feeds;

private:
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::string> names;
};

/// Alternates steps, hops between steps and hops while one runs.
Status benchOverlapped(executor::Session &session, const char *from,
                       const char *to, int rounds) {
  executor::HopOptions options{.memory = int64_t(1) << 40};
  Zeros zeros(session.program("train"));
  std::vector<double> plain, visible, steps, whole;
  executor::HopReport report;
  // The first round makes ready what later ones find.
  for (int round = -1; round < rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    CLEAVE_TRY(session.train(zeros.feeds));
    double step = secondsSince(begin);
    Result<executor::HopReport> out = session.hop(to, options);
    if (!out) {
      return out.status();
    }
    begin = std::chrono::steady_clock::now();
    CLEAVE_TRY(session.train(zeros.feeds));
    step = (step + secondsSince(begin)) / 2;
    CLEAVE_TRY(session.hop(from, options).status());
    begin = std::chrono::steady_clock::now();
    Result<executor::HopReport> during =
        session.trainAndHop(zeros.feeds, to, options);
    if (!during) {
      return during.status();
    }
    double all = secondsSince(begin) - during->planning;
    CLEAVE_TRY(session.hop(from, options).status());
    report = *during;
    if (round >= 0) {
      steps.push_back(step);
      plain.push_back(out->seconds);
      visible.push_back(during->seconds);
      whole.push_back(all);
    }
  }
  std::printf("{\"gradients\": %lld, \"hidden\": %lld, \"copied\": %lld, ",
              static_cast<long long>(report.gradientBytes),
              static_cast<long long>(report.hidden),
              static_cast<long long>(report.copied));
  print("plain", plain, ", ");
  print("visible", visible, ", ");
  print("step", steps, ", ");
  print("whole", whole, "}\n");
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  bool overlapped = argc == 7 && std::string(argv[5]) == "overlapped";
  if ((argc != 5 && !overlapped) || std::atoi(argv[4]) < 1) {
    std::fprintf(stderr, "usage: hop-bench PLANFILE FROM TO ROUNDS "
                         "[overlapped MILLISECONDS]\n");
    return 2;
  }
  Result<format::PlanFile> file = format::PlanFile::open(argv[1]);
  if (!file) {
    return fail(file.status());
  }
  executor::SessionOptions sleeping;
  if (overlapped && std::atoi(argv[6]) > 0) {
    sleeping.iterationDelay = [pause = std::atoi(argv[6])](int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    };
  }
  Result<std::unique_ptr<executor::Session>> session = executor::Session::open(
      std::make_shared<const format::PlanFile>(std::move(*file)), argv[2],
      sleeping);
  if (!session) {
    return fail(session.status());
  }
  (*session)->state().initialise(1);
  if (overlapped) {
    Status status =
        benchOverlapped(**session, argv[2], argv[3], std::atoi(argv[4]));
    return status ? 0 : fail(status);
  }
  executor::HopOptions options{.memory = int64_t(1) << 40};
  // The first hop makes ready what later ones find.
  executor::HopReport report;
  for (const char *plan : {argv[3], argv[2]}) {
    Result<executor::HopReport> first = (*session)->hop(plan, options);
    if (!first) {
      return fail(first.status());
    }
    report = *first;
  }
  int64_t devices = (*session)->devices();
  Copies one(1), all(devices);
  one.rate(), all.rate();
  std::vector<double> there, back, planning, single, together;
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    single.push_back(one.rate());
    together.push_back(all.rate());
    Result<executor::HopReport> out = (*session)->hop(argv[3], options);
    Result<executor::HopReport> home = (*session)->hop(argv[2], options);
    if (!out || !home) {
      return fail(out ? home.status() : out.status());
    }
    there.push_back(out->seconds);
    back.push_back(home->seconds);
    planning.push_back(out->planning);
    report = *out;
  }
  int64_t state = 0;
  for (size_t leaf = 0; leaf < (*session)->state().leaves(); ++leaf) {
    state += state::bytesOf((*session)->state().leaf(leaf));
  }
  std::printf(
      "{\"state\": %lld, \"bytes\": %lld, \"busiest\": %lld, "
      "\"kept\": %lld, \"copied\": %lld, \"devices\": %lld, ",
      static_cast<long long>(state), static_cast<long long>(report.bytes),
      static_cast<long long>(report.busiest),
      static_cast<long long>(report.keptBytes),
      static_cast<long long>(report.copied), static_cast<long long>(devices));
  print("there", there, ", ");
  print("back", back, ", ");
  print("planning", planning, ", ");
  print("one", single, ", ");
  print("all", together, "}\n");
  return 0;
}
