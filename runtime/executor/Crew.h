//===- Crew.h - One thread for each device ----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_CREW_H
#define CLEAVE_RUNTIME_EXECUTOR_CREW_H

#include "runtime/support/Status.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cleave::executor {

/// Threads that all run one job and then wait for the next.
class Crew {
public:
  /// Throws std::system_error where the system has no more threads.
  explicit Crew(int64_t count);
  ~Crew();

  /// Runs `job(device)` on every thread; the first error by device number.
  /// Returns when all are done.
  Status all(const std::function<Status(int64_t device)> &job);

private:
  std::mutex mutex;
  std::condition_variable wake, finished;
  const std::function<Status(int64_t)> *job = nullptr;
  uint64_t round = 0;
  int64_t running = 0;
  bool stopping = false;
  std::vector<Status> results;
  std::vector<std::thread> threads;

  void work(int64_t device);
  void stop();
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_CREW_H
