//===- Ordered.h - Contractions in one order of adding ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each element of the result is the sum of its products in the order of their
// indices (summed dims in the order of the shape, the last one fastest): 256
// products in f32, one after the other, each rounded; then such blocks in f64,
// one after the other. So an element has the same bits whatever piece of the
// result is computed, with whatever strides, beside whatever else: tiles are of
// result elements only, and nothing is fused into one rounding.
//
// This costs: the library may add in any order and fuse, and is faster.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CONTRACTION_ORDERED_H
#define CLEAVE_RUNTIME_CONTRACTION_ORDERED_H

#include "runtime/contraction/Contraction.h"

namespace cleave::contraction {

/// A shape as tables of offsets. The result's dims are those that both operands
/// have or neither (`batch`), and each operand's own; one operand is read by
/// vectors (`wide`), of the other one element at a time.
struct Ordered {
  struct Both {
    int64_t wide = 0, tall = 0, out = 0;
  };
  struct Own {
    int64_t operand = 0, out = 0;
  };
  bool wideIsLhs = false;
  bool terms = false; ///< the other operand is one
  std::vector<Both> batch;
  std::vector<Own> wide, tall;
  std::vector<Both> sums; ///< in the order of adding
};

Ordered makeOrdered(const Shape &shape, bool terms);

/// `panel` and `totals` are scratch memory of the sizes below.
void runOrdered(const Ordered &ordered, const float *lhs, const float *rhs,
                float *out, float *panel, double *totals);
int64_t panelFloats();
int64_t totalDoubles(const Ordered &ordered);

} // namespace cleave::contraction

#endif // CLEAVE_RUNTIME_CONTRACTION_ORDERED_H
