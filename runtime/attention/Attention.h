//===- Attention.h - Attention over blocks of scores ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For each combination of the batch dims, with s = scale * query * key^T, where
// causal without the keys that come after the query:
//
//   sum = log(sum(e ** s))        out = e ** (s - sum) * value
//
// and the gradients of query, key and value from that of out. Scores are made
// block by block and never kept: forward with a running maximum and sum
// (Milakov and Gimelshein, arXiv 1805.02867), backward from the sum (Dao, arXiv
// 2307.08691). The same shape gives the same bits on every run and thread.
//
// Where query, key, value and the gradient of out are bf16, so is what they are
// multiplied with. Forward that is e ** (s - n ln 2) with any whole n: rounding
// it does not depend on n, so neither do results on the blocks that a plan
// makes. Sums are of what is not rounded.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATTENTION_ATTENTION_H
#define CLEAVE_RUNTIME_ATTENTION_ATTENTION_H

#include "runtime/format/AttentionCall.h"

#include <array>
#include <cstdint>

namespace cleave::attention {

using Tensor = format::AttentionTensor;
inline constexpr size_t tensors = format::attentionTensors;

/// One number for each tensor, by its name.
template <typename T> struct Each {
  std::array<T, tensors> all = {};
  T &operator[](Tensor t) { return all[static_cast<size_t>(t)]; }
  const T &operator[](Tensor t) const { return all[static_cast<size_t>(t)]; }
};

inline constexpr size_t mostBatchDims = 16;

/// Sizes, and strides in elements. Dims of `over` and of features are dense.
struct Shape {
  int64_t queries = 1, keys = 1, over = 1, features = 1;
  bool makesSum = false;
  bool causal = false;
  int64_t ahead = 0; ///< the position of query 0 less that of key 0
  float scale = 1;
  bool narrow = false; ///< Query, Key, Value and OutGradient are bf16
  struct Batch {
    int64_t size = 1;
    Each<int64_t> stride; ///< 0 where a tensor lacks it
  };
  size_t batches = 0;
  std::array<Batch, mostBatchDims> batch;
  Each<int64_t> row; ///< from query to query, or from key to key
};

/// Null where a tensor is absent. `scratch` is of `attentionScratchBytes`.
/// `widens`: whether bf16 is widened before it is multiplied.
void run(const Shape &shape, const Each<void *> &data, float *scratch,
         bool widens);

/// `run` as plan files call it; see AttentionCall.h.
void kernel(void *const *views, const int64_t *integers);

/// The additions and multiplications of its products, without what it computes
/// of blocks that causality cuts through.
int64_t operationsOf(const int64_t *integers);

} // namespace cleave::attention

#endif // CLEAVE_RUNTIME_ATTENTION_ATTENTION_H
