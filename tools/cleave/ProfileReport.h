//===- ProfileReport.h - Where steps' time went, as text --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROFILEREPORT_H
#define CLEAVE_TOOLS_CLEAVE_PROFILEREPORT_H

#include "runtime/executor/Bound.h"
#include "runtime/executor/Profile.h"

#include <string>

namespace cleave::tools {

/// A table: parts of a step, and the operations that took longest with their
/// source lines, rates, and share of the bound: of the time that they would
/// take at the bound's rates, the longer of products and memory, in what they
/// took.
std::string profileText(const executor::PlanProfile &profile,
                        const executor::Bound &bound);

/// A JSON object with all operations.
std::string profileJson(const executor::PlanProfile &profile,
                        const executor::Bound &bound);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PROFILEREPORT_H
