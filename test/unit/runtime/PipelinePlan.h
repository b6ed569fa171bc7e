//===- PipelinePlan.h - Pipelines built by hand -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A toy of a training step in stages and microbatches, on any mesh [data, pipe,
// tensor]:
//
//   x = embed(ids)                                    first position
//   for layer at the position { x = x . w[layer] }    all positions
//   loss += sum of x * x / 2                          last position
//   backward through the layers; gradient[layer] += saved^T . dx
//
// then, once a step: gradients summed over `data`, `first` += gradient,
// kept = gradient + layer + column; `bias`, a scalar that lives on the last
// stage, += loss; `table`, which lives on the first and the last stage,
// += what both have.
//
// Layers are cut over the stages, unevenly, where `stacked`; else there is one,
// which every position applies and whose gradient is summed over the stages.
// The program `forward` gives the last x, as one microbatch.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_PIPELINEPLAN_H
#define CLEAVE_TEST_UNIT_RUNTIME_PIPELINEPLAN_H

#include "TestPlan.h"
#include "runtime/format/Pipeline.h"

namespace cleave::test {

inline constexpr int64_t rows = 7, words = 6, width = 5, depth = 5;

/// Of each stage: all forwards first, or a backward as soon as it can be.
enum class Order { ForwardsFirst, OneEach };

struct PipelineSize {
  std::string name;
  int64_t data = 1, pipe = 1, tensor = 1, micro = 1;
  Order order = Order::OneEach;
  bool splitBackward = false; ///< weight gradients at the end
  bool stacked = true;
  int64_t chunks = 1; ///< with `stacked` only 1
  format::Placement placement = format::Placement::Plain;
};

/// Steps with messages in one global order, so that no stage waits for ever.
/// Without gradients where `forwardOnly`.
std::vector<std::unique_ptr<format::StreamT>>
makeStreams(const PipelineSize &size, int64_t micros, bool forwardOnly);

format::PlanSetT makePipelineSet(const std::vector<PipelineSize> &sizes);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_PIPELINEPLAN_H
