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
//===----------------------------------------------------------------------===//

#include "runtime/executor/Crew.h"
#include "runtime/executor/Session.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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

int main(int argc, char **argv) {
  if (argc != 5 || std::atoi(argv[4]) < 1) {
    std::fprintf(stderr, "usage: hop-bench PLANFILE FROM TO ROUNDS\n");
    return 2;
  }
  Result<format::PlanFile> file = format::PlanFile::open(argv[1]);
  if (!file) {
    return fail(file.status());
  }
  Result<std::unique_ptr<executor::Session>> session = executor::Session::open(
      std::make_shared<const format::PlanFile>(std::move(*file)), argv[2]);
  if (!session) {
    return fail(session.status());
  }
  (*session)->state().initialise(1);
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
