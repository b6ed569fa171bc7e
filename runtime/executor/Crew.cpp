//===- Crew.cpp - One thread for each device ------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Crew.h"

#include <string>

#include <pthread.h>

namespace cleave::executor {

Crew::Crew(int64_t count) : results(count) {
  try {
    for (int64_t device = 0; device < count; ++device) {
      threads.emplace_back([this, device] { work(device); });
      std::string name = "device " + std::to_string(device);
      ::pthread_setname_np(threads.back().native_handle(), name.c_str());
    }
  } catch (...) {
    stop(); // of those that started
    throw;
  }
}

Crew::~Crew() { stop(); }

void Crew::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &thread : threads) {
    thread.join();
  }
}

void Crew::work(int64_t device) {
  uint64_t done = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || round != done; });
    if (stopping) {
      return;
    }
    done = round;
    const std::function<Status(int64_t)> &task = *job;
    lock.unlock();
    Status status = task(device);
    lock.lock();
    results[device] = std::move(status);
    if (--running == 0) {
      finished.notify_one();
    }
  }
}

Status Crew::all(const std::function<Status(int64_t)> &task) {
  std::unique_lock lock(mutex);
  job = &task;
  running = static_cast<int64_t>(threads.size());
  ++round;
  wake.notify_all();
  finished.wait(lock, [&] { return running == 0; });
  for (Status &status : results) {
    if (!status.ok()) {
      return status;
    }
  }
  return Status();
}

} // namespace cleave::executor
