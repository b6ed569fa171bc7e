//===- Work.h - What each position of a pipeline costs ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what one microbatch costs at each position, of the device with the
// largest pieces. Floating-point operations are the operations' own
// (CostInterface). Bytes of memory are what kernels would read and write: a
// contraction its operands and its result; of operations that a kernel can hold
// together only what enters or leaves such a group, since the rest stays in
// registers. Constants, indices and what is made of them move nothing.
//
// It is a rough count: it knows no cache, and groups may be smaller in the end.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_WORK_H
#define CLEAVE_COMPILER_PIPELINE_WORK_H

#include "layout/Plan.h"

#include <string>
#include <vector>

namespace cleave::pipe {
class MicroOp;
} // namespace cleave::pipe

namespace cleave {

struct Work {
  double flops = 0;
  double bytes = 0; ///< of memory, read and written
  double sent = 0;  ///< bytes, by collectives

  Work &operator+=(const Work &other);
};

/// Of one microbatch at one position.
struct PositionWork {
  Work forward;
  Work input;                        ///< gradients, but for `weight`
  Work weight;                       ///< gradients that a schedule may put off
  std::vector<layout::Piece> layers; ///< of each repeat over stages
};

/// A value that each position gives to the next one, or to the one before.
struct MessageWork {
  bool isGradient = false;
  layout::ValueInfo value;
  int64_t largest = 0; ///< bytes of a device's largest microbatch
  /// Over one boundary in a step: bytes of the device that sends most, and of
  /// all.
  int64_t busiest = 0, total = 0;
  int32_t begin = 0, end = 0; ///< boundaries; number i is after position i

  bool crosses(int32_t boundary) const {
    return boundary >= begin && boundary < end;
  }
};

struct PipelineWork {
  std::vector<std::string> dims; ///< of the repeats over stages
  std::vector<PositionWork> positions;
  std::vector<MessageWork> messages;
};

PipelineWork workOf(pipe::MicroOp micro);

} // namespace cleave

#endif // CLEAVE_COMPILER_PIPELINE_WORK_H
