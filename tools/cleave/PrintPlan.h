//===- PrintPlan.h - A plan file in short -----------------------*- C++ -*-===//
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

/// Model, processor, leaves, and a paragraph for each plan. The exec dialect
/// (compiler/exec) has the rest.
void printSet(const format::PlanSetT &set, std::ostream &out);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PRINTPLAN_H
