//===- Options.h - What the command line says -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPTIONS_H
#define CLEAVE_TOOLS_CLEAVE_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::tools {

/// Exit codes of every command.
enum ExitCode : int {
  Done = 0,
  WrongInput = 1,   ///< the program, or a file it reads
  WrongCommand = 2, ///< the command line
  Lost = 3,         ///< a peer or a device
  Interrupted = 130 ///< by ^C, as shells give it; what was learned is saved
};

/// The options of all commands; each reads those it has.
struct Options {
  std::string file;                 ///< the `.clv` or `.plan`
  std::vector<std::string> defines; ///< `layers=24`
  std::string plan;                 ///< one plan of the set
  std::string run;                  ///< one run of the file
  std::string model;                ///< where a file has several
  std::string output;
  std::string stopAfter; ///< a phase
  bool dump = false;
  bool json = false; ///< of results
  bool jsonDiagnostics = false;
  std::string target = "host"; ///< host or baseline
  std::string kernelCache;     ///< a folder or `off`; empty: the default
  bool probe = false;

  // run and sample
  std::string data;
  int64_t steps = 100;
  uint64_t seed = 1;
  std::string save;
  std::string load;
  std::string trace;
  bool profile = false;
  std::string profileJson; ///< a file
  std::string metrics;
  std::string dumpBatches;
  std::string resume;          ///< a folder of snapshots
  std::string snapshots;       ///< the same, to write them into
  int64_t snapshotEvery = 0;   ///< steps; 0: as the run says, else 50
  int64_t keep = 3;            ///< snapshots
  std::vector<std::string> at; ///< `200=deep`
  std::string name;            ///< under which `cleave hop` reaches the run
  std::string prometheus;
  bool status = false; ///< of hop
  int64_t hopMemory = int64_t(64) << 20;
  std::string prompt = "\n";
  int64_t length = 200;
  double temperature = 0.8;
  bool quiet = false;

  // schedule: sizes (0: not said) and times of one microbatch on a stage
  int64_t stages = 0;
  int64_t micros = 0;
  int64_t chunks = 0;
  std::string schedule; ///< one of a file's
  double forward = 1;
  double inputGradient = 1;
  double weightGradient = 1;
  double link = 0;
  int64_t columns = 160; ///< of the picture; 0: all
  bool csv = false;
  bool olderCsv = false;

  // explain: what a device sends at most, in GB/s; 0: not said
  double fastLink = 0;
  double slowLink = 0;

  // verify
  bool full = false; ///< the model's own sizes, not the reduced ones
  std::optional<double> tolerance; ///< else what the run's precision asks for
};

int checkCommand(const Options &options);
int buildCommand(const Options &options);
int explainCommand(const Options &options);
int verifyCommand(const Options &options);
int hopCommand(const Options &options);
int runCommand(const Options &options);
int sampleCommand(const Options &options);
int inspectCommand(const Options &options);
int scheduleCommand(const Options &options);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_OPTIONS_H
