//===- Trainer.h - The loop of a run ----------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_TRAINER_H
#define CLEAVE_TOOLS_CLEAVE_TRAINER_H

#include "runtime/metrics/Metrics.h"
#include "runtime/state/Snapshots.h"
#include "runtime/support/File.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/Training.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::tools {

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
  /// Checkpoint and trace.
  Status finish();
  bool wasStopped() const { return stopped; }
  /// What ended the run early without harm to the state.
  const Status &whatFailed() const { return trouble; }

private:
  Status load();
  Status findSnapshot();
  Status checkData(const state::Metadata &metadata) const;
  Status openData();
  Status prepareHops();
  Status openBatches();
  Status openFiles();
  Status step();
  Status evaluate();
  /// What is due before the next step.
  Status keepAppointments();
  Status hop(const std::string &plan, const std::string &reason);
  state::Metadata metadataOfData() const;
  void takeSnapshot();
  void reportSnapshots();
  Status writeMetrics(bool evaluated);
  Status writeTrace();
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
  std::unique_ptr<state::Snapshots> snapshots;
  std::optional<double> heldOutLoss;
  float loss = 0;
  std::optional<float> norm;
  int64_t done = 0;  ///< steps, towards --steps
  int64_t first = 0; ///< `done` at the start
  double seconds = 0;
  bool stopped = false;
  Status trouble;
  bool terminal = false; ///< standard output is one
};

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_TRAINER_H
