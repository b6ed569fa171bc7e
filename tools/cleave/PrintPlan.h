//===- PrintPlan.h - A plan file as text ------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PRINTPLAN_H
#define CLEAVE_TOOLS_CLEAVE_PRINTPLAN_H

#include "runtime/format/Plan_generated.h"

#include <iosfwd>

namespace cleave::tools {

/// Model, processor, leaves, and a paragraph for each plan.
void printSet(const format::PlanSetT &set, std::ostream &out);

/// The instruction streams of one plan.
void printPrograms(const format::PlanSetT &set, const format::PlanT &plan,
                   std::ostream &out);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PRINTPLAN_H
