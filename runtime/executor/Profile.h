//===- Profile.h - Where steps' time went -----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds up what a traced session notes of one program, run after run: seconds of
// each kind of instruction at each place of the source, and what those
// instructions do. A start and the wait for it count as one. What a hop leads
// to is a profile of its own.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_PROFILE_H
#define CLEAVE_RUNTIME_EXECUTOR_PROFILE_H

#include "runtime/executor/Session.h"

#include <map>
#include <string>
#include <vector>

namespace cleave::executor {

/// All instructions of a kind and site. Starts and waits are of kind Start.
struct ProfiledOperation {
  SiteWork work;               ///< in all steps, on all devices
  std::vector<double> seconds; ///< in all steps, by coordinate

  double total() const;
};

/// Of one plan.
struct PlanProfile {
  const format::PlanT *plan = nullptr;
  int64_t steps = 0;                         ///< that count
  int64_t events = 0;                        ///< noted in them, on all devices
  std::vector<double> seconds;               ///< of whole steps, by coordinate
  std::vector<ProfiledOperation> operations; ///< that which took longest first
};

class Profiler {
public:
  /// Of runs of `program`; the first `skipped` ones under each plan, which
  /// touch memory for the first time, do not count.
  Profiler(std::string program, int64_t skipped)
      : program(std::move(program)), skipped(skipped) {}

  /// Reads what the session noted since the last call, and still has; after
  /// each run, before it hops.
  void add(const Session &session);

  /// In the order in which they ran first.
  std::vector<PlanProfile> profiles() const;

private:
  using Key = std::pair<EventKind, uint32_t>;
  struct Running {
    const format::PlanT *plan = nullptr;
    int64_t runs = 0;
    PlanProfile profile;
    std::vector<std::vector<SiteWork>> work; ///< of one run, by coordinate
    std::map<Key, ProfiledOperation> operations;
  };

  std::string program;
  int64_t skipped;
  std::vector<Running> plans;
  std::vector<uint64_t> seen; ///< the last step's end, by coordinate

  Running &runningOf(const Session &session);
  bool addDevice(Running &running, size_t at, const EventList &events);
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_PROFILE_H
