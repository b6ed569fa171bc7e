//===- RecordPipeline.cpp - What outlining found, for reports -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/RecordPipeline.h"

#include "compiler/pipeline/Traffic.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace cleave::tools {

static std::vector<layout::Residence> residenceOf(func::FuncOp function,
                                                  unsigned argument) {
  std::vector<layout::Residence> residence;
  auto triples = function.getArgAttrOfType<DenseI64ArrayAttr>(
      argument, pipe::PipeDialect::kResidence);
  if (!triples) {
    return residence;
  }
  ArrayRef<int64_t> numbers = triples.asArrayRef();
  for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
    residence.push_back({static_cast<layout::AtomId>(numbers[i]),
                         numbers[i + 1], numbers[i + 2]});
  }
  return residence;
}

/// Gives parameters, their gradients and optimizer leaves their residence.
static void recordResidence(func::FuncOp function,
                            layout::ProgramRecord &program) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::vector<layout::Residence> residence = residenceOf(function, i);
    if (residence.empty()) {
      continue;
    }
    auto path = function.getArgAttrOfType<StringAttr>(i, "clv.path");
    auto role = function.getArgAttrOfType<StringAttr>(i, "clv.role");
    for (layout::LeafRecord &leaf : program.leaves) {
      bool isOptimizer = leaf.value.role == layout::Role::Optimizer;
      if (leaf.value.path == path.getValue() &&
          isOptimizer == (role.getValue() == "optimizer")) {
        leaf.layout.residence = residence;
      }
    }
  }
}

void recordPipeline(ModuleOp module, const Pipelined &pipelined,
                    PlanReport &report) {
  for (layout::ProgramRecord &program : report.programs) {
    auto function = module.lookupSymbol<func::FuncOp>(program.entry);
    if (!function || !pipelined.isOutlined(program.entry)) {
      continue;
    }
    recordResidence(function, program);
    recordTraffic(function, pipelined.planOf(program.entry),
                  pipelined.streamsOf(program.entry), program);
    if (program.entry == "train" && pipelined.schedule) {
      pipe::MicroOp micro = *function.getOps<pipe::MicroOp>().begin();
      report.pipeline = makePipelineReport(
          report.plan.mesh.describe(pipelined.train.pipeline->atoms),
          *pipelined.schedule, pipelined.proof, workOf(micro));
      report.pipeline->regions = pipelined.train.pipeline->regions;
      report.pipeline->why = pipelined.train.pipeline->why;
    }
  }
}

} // namespace cleave::tools
