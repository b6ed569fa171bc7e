//===- SplitWeights.h - Weight gradients as work of their own ---*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule may put the gradients of weights off (Zero Bubble, arXiv
// 2401.10241). The backward sections are then split: what the gradient that is
// passed on needs stays, what only sums over microbatches need goes to a
// section of its own. A repeat that does both becomes two:
//
//   repeat layer reverse (dy) {      repeat layer reverse (dy) {   stack of dy
//     dx = dy * w                      dx = dy * w; yield dx, stack dy
//     dw = x * dy              ->    }
//     yield dx, stack dw             repeat layer reverse {        stacks x, dy
//   }                                  dw = x * dy; yield stack dw
//                                    }
//
// What the second reads of the first is stacked, and kept in the microbatch's
// slot until the weight gradient's turn; cheap values are made again.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_SPLITWEIGHTS_H
#define CLEAVE_COMPILER_PIPELINE_SPLITWEIGHTS_H

#include "dialects/pipe/Pipe.h"

namespace cleave::pipelining {

/// Splits the backward sections of `micro`.
void splitWeightGradients(pipe::MicroOp micro, const layout::Mesh &mesh);

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_SPLITWEIGHTS_H
