//===- RecordPipeline.h - What outlining found, for reports -----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_RECORDPIPELINE_H
#define CLEAVE_TOOLS_CLEAVE_RECORDPIPELINE_H

#include "tools/cleave/Explain.h"
#include "tools/cleave/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave::tools {

/// Adds to a report what is known once programs are in the order of their
/// schedule: where leaves live, what stages send, and the timeline.
void recordPipeline(mlir::ModuleOp module, const Pipelined &pipelined,
                    PlanReport &report);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_RECORDPIPELINE_H
