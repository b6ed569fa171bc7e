//===- Session.h - A plan on threads of this process ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens a plan of a plan file: a thread and an arena for each device of its
// mesh, the state under its layouts, and every program resolved for every
// device. Between two programs it can hop to another plan of the file: the
// state moves, and nothing else changes. Used from one thread.
//
//   auto session = Session::open(file, "wide", {});
//   session->state().initialise(seed);
//   session->train({{"ids", ids}, {"labels", labels}});
//   float loss = *session->scalar("train", format::OutputKind::Loss);
//   session->hop("deep");
//
// All devices share one arena per device among the programs: outputs of a
// program are there until the next one runs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_SESSION_H
#define CLEAVE_RUNTIME_EXECUTOR_SESSION_H

#include "runtime/executor/Trace.h"
#include "runtime/format/PlanFile.h"
#include "runtime/state/State.h"

#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cleave::executor {

struct SessionOptions {
  /// For tests: see ThreadHub::setDelay.
  std::function<void(int64_t device)> transportDelay;
  /// For tests: called on a device's thread as it begins a computing step of a
  /// pipeline; may sleep, so that steps take a given time.
  std::function<void(int64_t device, const format::Step &step)> stepDelay;
  /// The same at the end of each iteration of an outermost loop.
  std::function<void(int64_t device)> iterationDelay;
  /// For benchmarks: collectives move nothing and wait for nobody, so that all
  /// results are wrong.
  bool withoutCollectives = false;
};

struct HopOptions {
  /// Bytes that a device may need for a hop beside the larger of its old and
  /// its new state.
  int64_t memory = int64_t(64) << 20;
  /// Choose which device takes which coordinate of the new mesh, so that as few
  /// bytes as possible move. Else coordinate i is on device i.
  bool relabel = true;
  /// Of `checkHop`: for `trainAndHop`.
  bool overlapped = false;
};

/// A hop that may come, by the names of plans.
struct HopWay {
  std::string from, to;
  bool overlapped = false; ///< see HopOptions
  auto operator<=>(const HopWay &) const = default;
};

/// What a hop did.
struct HopReport {
  std::string from, to;  ///< plans
  int64_t bytes = 0;     ///< that went from device to device, in all
  int64_t keptBytes = 0; ///< that were in place already, in all
  int64_t copied = 0;  ///< `bytes`, and what only changed its place on a device
  int64_t busiest = 0; ///< most bytes that one device sent or received
  int64_t extra = 0;   ///< most bytes beside the state that a device needed
  double seconds = 0;  ///< in which nothing trained, without `planning`
  double planning = 0; ///< seconds to prepare the plan and the transfer
  // Of trainAndHop:
  bool overlapped = false;
  int64_t gradientBytes = 0; ///< that went from device to device beside `bytes`
  int64_t hidden = 0; ///< of all that was copied, bytes while the step ran
  float loss = 0;     ///< of the step
  std::optional<float> gradientNorm;
};

/// The global array of an input of tokens, row major.
struct Feed {
  std::string input;
  std::span<const int32_t> tokens;
};

class Session {
public:
  /// An empty `plan` is the one the set starts with.
  static Result<std::unique_ptr<Session>>
  open(std::shared_ptr<const format::PlanFile> file, const std::string &plan,
       const SessionOptions &options = {});
  ~Session();

  const format::PlanSetT &set() const;
  const format::PlanT &plan() const; ///< that runs
  int64_t devices() const;           ///< of its mesh
  state::State &state();

  /// Loads another plan of the file, so that a hop to it only moves the state.
  Status prepare(const std::string &plan);
  /// Whether hops fit into the memory that the options allow: fails with what
  /// they would need. Plans their transfers, so that no hop by these ways, in
  /// whatever order they come, has to (see state::planHops). After all plans
  /// were prepared: how many devices there are decides where a plan may go.
  Status planHops(std::span<const HopWay> ways, const HopOptions &options = {});
  Status checkHop(const std::string &from, const std::string &to,
                  const HopOptions &options = {}) {
    HopWay way{from, to, options.overlapped};
    return planHops(std::span(&way, 1), options);
  }
  /// How many were planned so far.
  size_t plannedTransfers() const;
  /// Goes on under another plan: between two programs. `state()` stays the same
  /// object with the same values; `plan()`, `devices()` and `program()` are
  /// then those of the new plan. After an error the old plan goes on as it was.
  Result<HopReport> hop(const std::string &plan,
                        const HopOptions &options = {});

  /// Trains a step of which the last part, the update, is already another
  /// plan's, and goes on under that. The state moves while the old plan makes
  /// the gradients, as far as the step is long enough and memory allows; they
  /// are then handed over. `seconds` of the report is what was not hidden so.
  /// The outputs of this step are in the report. An error before the step
  /// leaves the old plan as it was.
  Result<HopReport> trainAndHop(std::span<const Feed> feeds,
                                const std::string &plan,
                                const HopOptions &options = {});

  bool hasProgram(const std::string &name) const;
  /// The program's description; it must be there.
  const format::ProgramT &program(const std::string &name) const;

  /// Runs a program once. Inputs `Step` and `Seed` come from the state: the
  /// step is the state's plus one. Refuses feeds that are missing, of another
  /// size, or with an id that is out of range. After a failure of a device the
  /// session only returns errors.
  Status run(const std::string &program, std::span<const Feed> feeds);
  /// Runs `train` and counts the step in the state. The cursor is the
  /// caller's.
  Status train(std::span<const Feed> feeds);
  Status train(std::initializer_list<Feed> feeds) {
    return train(std::span(feeds.begin(), feeds.size()));
  }
  Status run(const std::string &program, std::initializer_list<Feed> feeds) {
    return run(program, std::span(feeds.begin(), feeds.size()));
  }

  /// From now on the session notes how long stages work and what they wait for;
  /// under every plan.
  void timeStages();
  /// See Engine::stageTimes; empty where it was not asked to note them.
  std::vector<double> stageTimes() const;
  /// See Engine::trafficTime; NaN where it was not asked to note it.
  double trafficTime(format::TrafficKind kind, const std::string &axis) const;

  /// Of the program that ran last. The first output of the kind (and name).
  Result<float> scalar(const std::string &program, format::OutputKind kind);
  Result<std::vector<float>> output(const std::string &program,
                                    format::OutputKind kind,
                                    const std::string &name = "");

  /// Fails where devices that hold the same element of the state, or of an
  /// output of the program that ran last, differ in its bits.
  Status compareCopies(const std::string &program);

  /// Makes a run in progress fail, from any thread.
  void cancel(const Status &reason);

  /// From now on devices note what they do, until `limit` events each.
  void startTrace(size_t limit = size_t(1) << 20);
  Status writeTrace(const std::string &path,
                    const TraceGroup &beside = {}) const;
  /// Since the last hop, by coordinate.
  const std::vector<EventList> &events() const;
  /// Forgets them, so that a trace without end needs no more memory.
  void clearEvents();
  /// What one run of a program does, by coordinate.
  std::vector<std::vector<SiteWork>> work(const std::string &program) const;

private:
  Session();
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_SESSION_H
