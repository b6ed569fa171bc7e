//===- Transfers.h - What a hop between two plans costs ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_TRANSFERS_H
#define CLEAVE_TOOLS_CLEAVE_TRANSFERS_H

#include "tools/cleave/Explain.h"
#include "transfer/Transfer.h"

namespace cleave::tools {

/// The transfer from one plan of a set to another.
struct TransferReport {
  std::string from, to; ///< plans
  transfer::Summary summary;
  bool knowsNodes = false; ///< a plan says which devices share a node
  std::string error;       ///< why there is none; else empty
};

/// Of each ordered pair of plans. Devices have a slow link where either plan's
/// hardware has two levels or more and they differ in the first (the node).
std::vector<TransferReport>
reportTransfers(const std::vector<PlanReport> &reports,
                const transfer::Links &links);

/// A table; nothing where there are no pairs.
void printTransfers(const std::vector<TransferReport> &transfers,
                    std::ostream &out);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_TRANSFERS_H
