//===- RecordPipeline.cpp - What outlining found, for reports -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/RecordPipeline.h"

#include "dialects/pipe/Pipe.h"
#include "runtime/format/Plan_generated.h"

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

/// What each stage of a stream sends; three numbers are a step.
static std::vector<Sends> sendsOf(const StageStreams &streams) {
  std::vector<Sends> sends(streams.size());
  for (size_t stage = 0; stage < streams.size(); ++stage) {
    for (size_t i = 0; i < streams[stage].size(); i += 3) {
      auto kind = static_cast<format::StepKind>(streams[stage][i]);
      sends[stage].activations += kind == format::StepKind::SendActivation;
      sends[stage].gradients += kind == format::StepKind::SendGradient;
    }
  }
  return sends;
}

static void recordSends(const std::string &entry, const PipelineWork &work,
                        const Pipelined &pipelined,
                        layout::ProgramRecord &program) {
  const layout::PipelineStatement &pipeline = *pipelined.train.pipeline;
  std::string axis = pipelined.train.mesh.describe(pipeline.atoms);
  std::string why = "`" + work.dim + "` is on the stages of `" + axis +
                    "` by `" + pipeline.source.text + "` at " +
                    pipeline.source.where();
  std::vector<layout::CollectiveRecord> records = sendRecords(
      pipeline.atoms, work, sendsOf(pipelined.streamsOf(entry)),
      entry == "train" ? pipelined.micros : 1, pipeline.source, why);
  program.collectives.insert(program.collectives.end(), records.begin(),
                             records.end());
}

void recordPipeline(ModuleOp module, const Pipelined &pipelined,
                    PlanReport &report) {
  if (!pipelined.schedule) {
    return;
  }
  const layout::PipelineStatement &pipeline = *pipelined.train.pipeline;
  for (layout::ProgramRecord &program : report.programs) {
    auto function = module.lookupSymbol<func::FuncOp>(program.entry);
    if (!function) {
      continue;
    }
    recordResidence(function, program);
    for (auto micro : function.getOps<pipe::MicroOp>()) {
      PipelineWork work = workOf(micro);
      recordSends(program.entry, work, pipelined, program);
      if (program.entry == "train") {
        report.pipeline = makePipelineReport(
            report.plan.mesh.describe(pipeline.atoms), *pipelined.schedule,
            pipelined.proof, std::move(work));
      }
    }
  }
}

} // namespace cleave::tools
