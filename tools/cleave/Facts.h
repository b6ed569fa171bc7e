//===- Facts.h - A model's description, for those who need it ---*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The front end describes a model once (sema::Model); plans, the plan file and
// reports read it in their own words, made here.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_FACTS_H
#define CLEAVE_TOOLS_CLEAVE_FACTS_H

#include "lang/plan/Facts.h"
#include "lang/sema/Elaborate.h"
#include "runtime/format/Plan_generated.h"
#include "tools/cleave/Explain.h"

namespace cleave::tools {

/// What plans need to know. The module is still the model as written.
plan::ModelFacts modelFacts(const sema::Model &model);

std::vector<format::LeafT> leafTable(const sema::Model &model);
std::vector<format::InputT> inputTable(const sema::Model &model);

/// What is sent in a step, by kind and axis; what is nothing is left out.
std::vector<std::unique_ptr<format::TrafficT>>
trafficTable(const layout::Mesh &mesh, const layout::ProgramRecord &train);

/// Adds what buffer planning found to the programs of a report.
void recordMemory(const format::PlanT &plan, PlanReport &report);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_FACTS_H
