//===- Compile.h - From a source file to a plan set -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a build, as prose:
//
//   1. the model of each entry is elaborated (`train`, and `eval` and `forward`
//      with their own sizes) and, for `train`, differentiated;
//   2. softmax and logsumexp are decomposed, what is not used goes;
//   3. for each plan of the set: its statements are elaborated, each entry's
//      program is partitioned, its contracts are checked;
//      where the run varies the batch, or a rule asks for a number of
//      microbatches, the same again for each: its variants (`build` only);
//   4. local programs become kernels and instruction streams: the exec dialect,
//      and from it the plan set.
//
// Each step but the last is enough for `check` and `explain`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_COMPILE_H
#define CLEAVE_TOOLS_CLEAVE_COMPILE_H

#include "lang/run/Run.h"
#include "runtime/format/Plan_generated.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/Frontend.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::tools {

struct CompileOptions {
  /// Beside the command line's: the reduced sizes, for verify.
  std::vector<sema::Override> overrides;
  bool probe = false;     ///< gradients as outputs of `train`
  bool trainOnly = false; ///< no other entry
  bool emit = true;       ///< step 4
  bool variants = false;  ///< for other batches and numbers of microbatches
  bool objectCode = true; ///< its last part: kernels as a shared object
  std::string stopAfter;  ///< a phase: print the programs there and stop
  bool dump = false;      ///< print them after every phase, on stderr
  bool progress = false;  ///< tell which of many plans is made, on stderr
};

/// How many microbatches a plan makes of some of the run's batches.
struct VariedPlan {
  std::string plan;
  std::vector<std::pair<int64_t, int64_t>> micros; ///< batch, number
};

/// Of plans that are compiled for one run, variants too.
inline constexpr int64_t mostPlans = 2048;

/// One entry's global program: a module with the one function `name`.
struct EntryProgram {
  std::string name;
  std::unique_ptr<sema::Model> model; ///< its module is the entry's program
};

struct Compilation {
  std::vector<EntryProgram> entries; ///< train first
  /// Of `train`, before differentiation: @loss and the update functions.
  mlir::OwningOpRef<mlir::ModuleOp> source;
  std::vector<PlanReport> reports; ///< one for each plan of the run
  std::vector<VariedPlan> varied;  ///< where the batch varies: the same plans
  /// Of the run, where there is one and the model has its own sizes.
  std::optional<run::Elaborated> run;
  format::PlanSetT set; ///< where emitted
  std::vector<char> kernels;
  size_t kernelsInCache = 0; ///< which were not compiled again
  bool keepsKernels = true;  ///< false: the cache's folder took none
  bool stopped = false;      ///< by stopAfter, not by an error

  const sema::Model &model() const { return *entries.front().model; }
};

/// Nothing after errors were reported to the frontend's engine.
std::optional<Compilation> compile(Frontend &frontend,
                                   const CompileOptions &options);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_COMPILE_H
