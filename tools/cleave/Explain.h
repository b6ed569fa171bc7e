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

#include <iosfwd>
#include <string>
#include <vector>

namespace cleave::tools {

struct TransferReport;

/// All that is known of one plan of a set.
struct PlanReport {
  std::string model;
  layout::Plan plan;
  std::vector<layout::ProgramRecord> programs;
};

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
