//===- Bound.cpp - What this machine does at best -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Bound.h"
#include "runtime/contraction/Contraction.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace cleave::executor {

using Clock = std::chrono::steady_clock;

/// How often `work` runs in a second, after a run that warms up.
template <typename Work>
static double rateOf(std::barrier<> &together, Work work) {
  constexpr double enough = 0.05; // seconds
  work();
  together.arrive_and_wait();
  Clock::time_point begin = Clock::now();
  double seconds = 0;
  int64_t runs = 0;
  while (seconds < enough) {
    work();
    ++runs;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return static_cast<double>(runs) / seconds;
}

static Bound measureThread(std::barrier<> &together) {
  contraction::Contractor::enterThread();
  Bound bound;
  {
    constexpr int64_t n = 768;
    std::vector<float> lhs(n * n, 1.0f), rhs(n * n, 1.0f), out(n * n);
    contraction::Contractor contractor;
    const contraction::Prepared *prepared =
        contractor.prepare({{n, n, contraction::Dim::absent, n},
                            {n, 1, n, contraction::Dim::absent},
                            {n, contraction::Dim::absent, 1, 1}});
    bound.operations =
        2.0 * n * n * n * rateOf(together, [&] {
          contractor.execute(prepared, lhs.data(), rhs.data(), out.data());
        });
  }
  constexpr size_t bytes = size_t(32) << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  bound.bytes =
      2.0 * bytes * rateOf(together, [&] {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" : : "r"(to.data()) : "memory"); // somebody may read it
      });
  return bound;
}

Bound measureBound(int64_t devices) {
  int64_t cores = std::max<int64_t>(
      1, static_cast<int64_t>(std::thread::hardware_concurrency()));
  int64_t threads = std::min(devices, cores);
  std::barrier<> together(threads);
  std::vector<Bound> bounds(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (Bound &bound : bounds) {
    running.emplace_back([&] { bound = measureThread(together); });
  }
  Bound total;
  for (size_t i = 0; i < running.size(); ++i) {
    running[i].join();
    total.operations += bounds[i].operations;
    total.bytes += bounds[i].bytes;
  }
  double share = static_cast<double>(devices);
  return {total.operations / share, total.bytes / share};
}

} // namespace cleave::executor
