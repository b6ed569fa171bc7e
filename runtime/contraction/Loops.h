//===- Loops.h - Contractions and copies by plain loops ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For what is not a matrix product: vectors, scalars, outer products, and
// anything unusual. Right for every shape; vectorised where strides allow.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CONTRACTION_LOOPS_H
#define CLEAVE_RUNTIME_CONTRACTION_LOOPS_H

#include "runtime/contraction/Mapping.h"

namespace cleave::contraction {

/// The loops of a contraction, outermost first.
struct LoopNest {
  std::vector<Loop> results; ///< the dims of out that are outside
  std::vector<Loop> sums;    ///< summed dims, around the innermost
  Loop inner;                ///< the innermost
  bool innerIsSummed = false;
};

LoopNest makeNest(const Shape &shape); ///< sizes must be positive
void runNest(const LoopNest &nest, const float *lhs, const float *rhs,
             float *out);

/// Sets the elements of out to zero.
void zero(const Shape &shape, float *out);

/// bf16 as f32; see numerics/Bfloat16.h.
void widen(const uint16_t *narrow, float *wide, int64_t count);

/// Of elements of `size` bytes, 2 or 4.
void pack(const Pack &pack, int64_t size, const void *tensor, void *packed);
void unpack(const Pack &pack, const float *packed, float *tensor);

} // namespace cleave::contraction

#endif // CLEAVE_RUNTIME_CONTRACTION_LOOPS_H
