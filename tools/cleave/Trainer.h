//===- Trainer.h - The loop of a run ----------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_TRAINER_H
#define CLEAVE_TOOLS_CLEAVE_TRAINER_H

#include "runtime/executor/Profile.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/policy/Rules.h"
#include "runtime/state/Snapshots.h"
#include "runtime/support/File.h"
#include "tools/cleave/Control.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/Training.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cleave::tools {

/// What a step is run under: a plan of the run, perhaps at another number of
/// microbatches than its own (else 0), and at one of the run's batches.
struct Choice {
  std::string plan;
  int64_t micros = 0;
  int64_t batch = 0;       ///< 0: the set has one only
  bool overlapped = false; ///< go there while the next step is made
};

/// A hop that the next step makes.
struct Upcoming {
  std::string plan, by, reason;
  Choice before; ///< what runs until then
};

/// After how many steps to hop to which plan.
using Appointments = std::multimap<int64_t, std::string>;

/// Reads each `200=deep`.
Result<Appointments> parseAppointments(const std::vector<std::string> &texts);

class Trainer {
public:
  explicit Trainer(const Options &options) : options(options) {}

  /// Everything that can fail before the first step.
  Status prepare();
  Status train();
  /// Checkpoint, trace and profile.
  Status finish();
  bool wasStopped() const { return stopped; }
  /// What ended the run early without harm to the state.
  const Status &whatFailed() const { return trouble; }

private:
  Status load();
  Status findSnapshot();
  Status checkSnapshot(const state::Metadata &metadata) const;
  Status openData();
  Status prepareHops();
  Status openBatches();
  Status openFiles();
  Status step();
  Status trainStep();
  Status evaluate();

  // TrainerHops.cpp
  /// What is due before the next step.
  Status keepAppointments();
  /// What stands in the command line for a plan: `deep`, `micro(8)`.
  Result<Choice> choiceOf(const std::string &text) const;
  /// Where the set has it; null, and a sentence, where it does not.
  const format::PlanT *find(const Choice &choice, std::string &why) const;
  Status go(const Choice &choice, const std::string &by,
            const std::string &reason);
  Status hop(const std::string &plan, const std::string &by,
             const std::string &reason);
  using Ways = std::set<executor::HopWay>;
  Status addWaysOfRules(Ways &ways) const;
  Status noteHop(const executor::HopReport &report, const std::string &by,
                 const std::string &reason);
  Status checkRules();
  Status followRules();
  Status obey(const format::RuleT &rule);
  policy::Readings readings();
  void readNoise(policy::Readings &readings);
  void readTraffic();
  std::string answer(const std::string &request);
  Status openControl();
  Status saveNow();
  void restoreRules(const state::Metadata &metadata);
  void restoreUpcoming();
  int64_t batchNow() const;
  void writePrometheus(bool last);
  state::Metadata metadataOfData() const;
  void takeSnapshot();
  void reportSnapshots();
  int64_t snapshotEvery() const;
  Status writeMetrics(bool evaluated);
  Status writeTrace();
  Status writeProfile();
  void report(double seconds, bool last);
  /// Prints a line of its own, beside the progress.
  void say(const std::string &line);

  const Options &options;
  std::string loaded;     ///< the checkpoint that the run starts from, or empty
  std::string planBefore; ///< that of the snapshot
  std::unique_ptr<executor::Session> session;
  std::optional<data::Corpus> corpus;
  std::optional<Batches> batches, heldOut;
  std::optional<metrics::MetricsFile> metrics;
  std::optional<ReplacedFile> batchFile;
  Appointments appointments;
  Choice current; ///< what runs now, or is upcoming
  std::optional<Upcoming> upcoming;
  std::optional<policy::Rules> rules; ///< where the set has a run
  std::optional<int64_t> batchByRule; ///< instead of the ramp's
  std::unique_ptr<Control> control;
  std::chrono::steady_clock::time_point begun, shown;
  std::chrono::steady_clock::time_point written; ///< of Prometheus's file
  int64_t hops = 0, hopBytes = 0;
  double hopSeconds = 0;
  std::unique_ptr<state::Snapshots> snapshots;
  std::optional<double> heldOutLoss;
  float loss = 0;
  std::optional<float> norm;
  int64_t done = 0;  ///< steps, towards --steps
  int64_t first = 0; ///< `done` at the start
  double seconds = 0;
  std::vector<double> stageTimes; ///< of the step, where a rule reads them
  std::vector<double> traffic;    ///< the same: see Readings
  state::SumOfSquares squares;
  std::optional<executor::Profiler> profiler;
  bool stopped = false;
  bool stoppedByRule = false;
  Status trouble;
  bool terminal = false; ///< standard output is one
};

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_TRAINER_H
