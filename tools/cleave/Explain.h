//===- Explain.h - What a plan costs, and why -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the records that partitioning leaves. Counts are logical collectives
// per optimizer step: one over several axes counts once; `per layer` divides by
// the iterations of the repeat that holds it. Bytes are what is sent.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
#define CLEAVE_TOOLS_CLEAVE_EXPLAIN_H

#include "layout/Plan.h"
#include "tools/cleave/PipelineReport.h"

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace cleave::tools {

struct TransferReport;

/// Bytes of the device of a stage that has most. Gradients lie in the arena.
struct StageMemory {
  int64_t params = 0, gradients = 0, optimizer = 0;
  int64_t arena = -1;      ///< of `train`; -1 where buffers were not planned
  int64_t leastArena = -1; ///< its lower bound (compiler/emit/Least.h)
  int64_t slots = 0;       ///< for the microbatches that are under way

  int64_t peak() const { return params + optimizer + arena + slots; }
};

/// All that is known of one plan of a set.
struct PlanReport {
  std::string model;
  layout::Plan plan;
  std::vector<layout::ProgramRecord> programs;
  std::vector<StageMemory> memory;        ///< by stage; one where there is none
  std::optional<PipelineReport> pipeline; ///< of a plan with stages
  std::string compute = "f32";            ///< what contractions multiply
  /// Of a reproducible run: `train` as it would be if it were not.
  std::optional<layout::ProgramRecord> ordinary;

  /// The largest of all stages; -1 where buffers were not planned.
  int64_t peak() const;
};

/// What leaves need, by stage.
std::vector<StageMemory> leafMemory(const PlanReport &report);
/// Bytes of the leaves of one role on the busiest device.
int64_t leafBytes(const PlanReport &report, layout::Role role);

void explainText(const PlanReport &report, std::ostream &out);
/// `transfers`: a plan's entry has those that start at it.
void explainJson(const std::vector<PlanReport> &reports,
                 const std::vector<TransferReport> &transfers,
                 std::ostream &out);

/// 1536 -> `1.5 KiB`.
std::string formatBytes(int64_t bytes);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
