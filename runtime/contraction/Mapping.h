//===- Mapping.h - A contraction as a batch of matrix products --*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dims fall into classes by where they are: B in all three tensors, M in lhs
// and out, N in rhs and out, K in lhs and rhs. Neighbours of one class whose
// strides fit become one dim. Then one dim of M, of N and of K make the matrix
// product, the other M and N dims become batch dims (broadcast in the operand
// that lacks them), and the other K dims a loop that accumulates:
//
//   q[batch, seq, kv, group, key] . k[batch, keys, kv, key]
//     -> [batch, kv, group, seq, keys]
//   B = batch, kv   M = seq (and group, as a batch dim)   N = keys   K = key
//
// The library wants unit stride along one of the two dims of each operand and
// along N of the result. Swapping the operands gives the transposed result;
// where that is not enough an operand or the result is packed, which also lets
// more dims merge. All choices are enumerated and the cheapest by a simple
// model is taken: the same one for the same shape, always.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CONTRACTION_MAPPING_H
#define CLEAVE_RUNTIME_CONTRACTION_MAPPING_H

#include "runtime/contraction/Contraction.h"

#include <array>
#include <optional>

namespace cleave::contraction {

enum Side { Lhs, Rhs, Out };

/// A dim with a stride for each side, 0 where absent.
struct Loop {
  int64_t size = 1;
  std::array<int64_t, 3> stride = {0, 0, 0};
};

/// A copy between a tensor and a dense packed one. `from` and `to` strides.
struct Pack {
  struct Dim {
    int64_t size = 1;
    int64_t tensor = 0;
    int64_t packed = 0;
  };
  std::vector<Dim> dims; ///< outermost first in the packed tensor
  int64_t elements = 1;
};

/// out[batch, m, n] = sum over outer, k of lhs[batch, m, k] * rhs[batch, k, n].
struct Mapping {
  bool swapped = false; ///< lhs and rhs change places; strides are swapped
  Loop m, n, k;
  std::vector<Loop> batch;
  std::vector<Loop> outer;                  ///< K dims that are looped over
  std::array<std::optional<Pack>, 3> packs; ///< by side, after swapping
};

/// None where there is no matrix product in it: no M, N or K dim of two or
/// more, or a dim in one tensor alone. Sizes must be positive.
std::optional<Mapping> mapToMatmul(const Shape &shape);

} // namespace cleave::contraction

#endif // CLEAVE_RUNTIME_CONTRACTION_MAPPING_H
