//===- ThreadTransport.cpp - Devices that are threads ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/ThreadTransport.h"
#include "runtime/format/Convert.h"
#include "runtime/transport/Exchange.h"
#include "runtime/transport/TransferTask.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <deque>
#include <linux/futex.h>
#include <map>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace cleave::transport {

namespace {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4);

void sleepWhile(Word &word, uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(Word &word, int count) {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void relax() { __builtin_ia32_pause(); }

/// Elements of a task: enough that taking it costs nothing, few enough that
/// threads share the work evenly.
constexpr int64_t taskElements = 16 * 1024;
constexpr uint32_t taskBits = 24;
/// What a collective writes, on all devices, from which on a core's own cache
/// does not hold it.
constexpr int64_t streamedBytes = int64_t(2) << 20;

int64_t bytesWritten(const std::vector<Region> &regions,
                     const Description &description) {
  int64_t bytes = 0;
  for (const Region &region : regions) {
    bytes += region.box.elements() *
             static_cast<int64_t>(region.targets.size() *
                                  format::elementSize(description.type));
  }
  return bytes;
}

/// One channel, as its group shares it. The n-th use is round n, from 1. A
/// device starts round n + 1 only after its wait of round n, hence after all
/// tasks of round n: `tensors` are never overwritten while they are read.
struct Meeting {
  Description description;
  std::vector<TransferTask> tasks;
  std::vector<Tensors> tensors; ///< by rank, of the current round
  std::vector<uint64_t> rounds; ///< by rank; each device's own
  alignas(64) std::atomic<uint64_t> arrived{0}; ///< starts, of all rounds
  alignas(64) std::atomic<uint64_t> claim{uint64_t(1) << taskBits};
  ///< round, and its next task
  alignas(64) std::atomic<uint64_t> finished{0}; ///< tasks of this round
  alignas(64) std::atomic<uint64_t> done{0};     ///< the last finished round
  Word word{0}; ///< changes at each event; for sleep

  uint64_t ranks() const { return tensors.size(); }
  void complete(uint64_t round) {
    finished.store(0, std::memory_order_relaxed);
    claim.store((round + 1) << taskBits, std::memory_order_relaxed);
    done.store(round, std::memory_order_release);
    if (ranks() > 1) {
      wake(word, INT_MAX);
    }
  }
  /// The next task of `round`, or -1.
  int64_t take(uint64_t round) {
    uint64_t now = claim.load(std::memory_order_relaxed);
    while ((now >> taskBits) == round) {
      uint64_t task = now & ((uint64_t(1) << taskBits) - 1);
      if (task >= tasks.size()) {
        return -1;
      }
      if (claim.compare_exchange_weak(now, now + 1,
                                      std::memory_order_relaxed)) {
        return static_cast<int64_t>(task);
      }
    }
    return -1;
  }
};

} // namespace

struct ThreadHub::Shared {
  std::mutex mutex; ///< of what follows, but for `failed`
  std::deque<Meeting> meetings;
  std::map<std::pair<uint64_t, int64_t>, Meeting *> byId;
  Status reason;
  std::atomic<bool> failed{false};
  int spins = 0;
  int cores = 1;
  std::function<void(int64_t)> delay;

  Result<Meeting *> meet(const Description &description);
  Status failure() {
    std::lock_guard lock(mutex);
    return reason;
  }
};

Result<Meeting *> ThreadHub::Shared::meet(const Description &description) {
  std::lock_guard lock(mutex);
  if (description.group.empty()) {
    return Status::error(description.name + ": an empty group");
  }
  // Groups of one channel are disjoint, so the first device tells them apart.
  auto [entry, fresh] =
      byId.try_emplace({description.id, description.group.front()}, nullptr);
  if (!fresh) {
    return entry->second;
  }
  Result<std::vector<Region>> regions = planExchange(description);
  if (!regions) {
    byId.erase(entry);
    return regions.status();
  }
  Meeting &meeting = meetings.emplace_back();
  int64_t total = 0;
  for (const Region &region : *regions) {
    total += region.box.elements();
  }
  // Very large transfers get larger tasks, so that their number is bounded.
  int64_t limit = std::max(taskElements, total >> 12);
  bool streams = bytesWritten(*regions, description) >= streamedBytes;
  for (const Region &region : cutRegions(std::move(*regions), limit)) {
    meeting.tasks.push_back(makeTask(region, description));
    meeting.tasks.back().streams = streams;
  }
  meeting.description = description;
  meeting.tensors.resize(description.group.size());
  meeting.rounds.resize(description.group.size());
  if (meeting.tasks.size() >= (size_t(1) << taskBits)) {
    return Status::error(description.name + ": too finely cut to run");
  }
  return entry->second = &meeting;
}

namespace {

class ThreadTransport : public Transport {
public:
  ThreadTransport(ThreadHub::Shared &shared, int64_t device)
      : shared(shared), device(device) {}

  Result<Channel> open(const Description &description, int64_t rank) override {
    assert(description.group[rank] == device && "another device's rank");
    Result<Meeting *> meeting = shared.meet(description);
    if (!meeting) {
      return meeting.status();
    }
    channels.push_back({*meeting, rank});
    return static_cast<Channel>(channels.size() - 1);
  }

  void start(Channel channel, const void *source, void *target) override {
    auto [meeting, rank] = channels[channel];
    delay();
    uint64_t round = ++meeting->rounds[rank];
    meeting->tensors[rank] = {source, target};
    uint64_t arrived =
        meeting->arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (arrived != round * meeting->ranks()) {
      return;
    }
    if (meeting->tasks.empty()) {
      meeting->complete(round);
    } else if (meeting->ranks() > 1) {
      wake(meeting->word, shared.cores);
    }
  }

  Status wait(Channel channel) override {
    auto [meeting, rank] = channels[channel];
    delay();
    uint64_t round = meeting->rounds[rank];
    int spins = shared.spins;
    while (true) {
      if (shared.failed.load(std::memory_order_acquire)) {
        return shared.failure();
      }
      uint32_t seen = meeting->word.load(std::memory_order_acquire);
      if (meeting->done.load(std::memory_order_acquire) >= round) {
        return Status();
      }
      if (meeting->arrived.load(std::memory_order_acquire) >=
          round * meeting->ranks()) {
        help(*meeting, round);
        if (meeting->done.load(std::memory_order_acquire) >= round) {
          return Status();
        }
      }
      if (spins > 0) {
        --spins;
        relax();
        continue;
      }
      sleepWhile(meeting->word, seen);
    }
  }

  void abort(const Status &reason) override;

private:
  ThreadHub::Shared &shared;
  int64_t device;
  std::vector<std::pair<Meeting *, int64_t>> channels;

  void delay() {
    if (shared.delay) {
      shared.delay(device);
    }
  }

  /// Runs tasks of a round that all have started, until none is left.
  void help(Meeting &meeting, uint64_t round) {
    for (int64_t task; (task = meeting.take(round)) >= 0;) {
      delay();
      runTask(meeting.tasks[task], meeting.tensors.data());
      if (meeting.finished.fetch_add(1, std::memory_order_acq_rel) + 1 ==
          meeting.tasks.size()) {
        meeting.complete(round);
        return;
      }
    }
  }
};

void abortAll(ThreadHub::Shared &shared, const Status &reason) {
  std::lock_guard lock(shared.mutex);
  if (!shared.failed.load(std::memory_order_relaxed)) {
    shared.reason = reason;
    shared.failed.store(true, std::memory_order_release);
  }
  for (Meeting &meeting : shared.meetings) {
    wake(meeting.word, INT_MAX);
  }
}

void ThreadTransport::abort(const Status &reason) { abortAll(shared, reason); }

} // namespace

ThreadHub::ThreadHub(int64_t devices) : shared(std::make_unique<Shared>()) {
  shared->cores =
      static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  shared->spins = devices <= shared->cores ? 2000 : 0;
}

ThreadHub::~ThreadHub() = default;

std::unique_ptr<Transport> ThreadHub::connect(int64_t device) {
  return std::make_unique<ThreadTransport>(*shared, device);
}

void ThreadHub::abort(const Status &reason) { abortAll(*shared, reason); }

bool ThreadHub::aborted() const {
  return shared->failed.load(std::memory_order_acquire);
}

void ThreadHub::setDelay(std::function<void(int64_t device)> hook) {
  shared->delay = std::move(hook);
}

} // namespace cleave::transport
