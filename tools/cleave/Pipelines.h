//===- Pipelines.h - How each entry of a plan runs in time ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step with microbatches or stages follows a schedule, which is evaluated for
// the plan's sizes and proven here. Other entries take the batch whole; with
// stages they pass it forward once.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PIPELINES_H
#define CLEAVE_TOOLS_CLEAVE_PIPELINES_H

#include "compiler/pipeline/Streams.h"
#include "lang/plan/Elaborate.h"
#include "schedule/Check.h"
#include "tools/cleave/Frontend.h"

#include <optional>
#include <string>

namespace cleave::tools {

/// One plan's work in time.
struct Pipelined {
  layout::Plan train, whole; ///< for training and for other entries
  std::optional<schedule::Schedule> schedule; ///< of a plan with `pipeline`
  schedule::Proof proof;                      ///< of it
  int32_t micros = 1;

  bool isOutlined(const std::string &entry) const {
    return train.pipeline || (entry == "train" && train.micro);
  }
  const layout::Plan &planOf(const std::string &entry) const {
    return entry == "train" ? train : whole;
  }
  StageStreams streamsOf(const std::string &entry) const;
};

/// `samples` is the dim of samples of the model's inputs. Nothing after errors,
/// reported to the frontend's engine.
std::optional<Pipelined> makePipelined(Frontend &frontend,
                                       const plan::Elaborated &elaborated,
                                       const std::string &samples);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PIPELINES_H
