//===- AttentionCall.h - How kernels of attention are called ----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention goes over blocks of contractions, which only the runtime does. So
// its kernel is not in the plan file's image but in the runtime, under a name
// of its own; it is called like any other kernel. Its views are tensors of f32,
// or some of bf16, each with the dims over which scores sum, or the features,
// last; then scratch of `attentionScratchBytes`. Its integers, in order:
//
//   n             the number of tensors
//   n times       which one it is: an AttentionTensor
//   makesSum      1 where it writes the Sum, 0 where it reads it
//   narrow        1 where Query, Key, Value and OutGradient are bf16
//   causal        1 where the query at i sees keys up to i + ahead, else 0
//   ahead
//   scale         the bits of an f32
//   two begins    the global positions of the first query and the first key
//   d             the number of dims
//   d times       an AttentionRole, the size, and its position in each of the
//                 n tensors, or -1
//
// What it computes follows from the tensors that are there: those from Out on
// are results but for Mean and OutGradient. With Sum alone, or Out, it runs
// forward; with gradients, backward.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_ATTENTIONCALL_H
#define CLEAVE_RUNTIME_FORMAT_ATTENTIONCALL_H

#include <cstddef>
#include <cstdint>

namespace cleave::format {

inline constexpr const char *attentionSymbol = "cleave_attention";

enum class AttentionTensor : uint8_t {
  Query,
  Key,
  Value,
  Sum, ///< the logsumexp of the scores over the keys
  Out,
  Mean, ///< the sum of Out * OutGradient over the features
  OutGradient,
  QueryGradient,
  KeyGradient,
  ValueGradient
};
inline constexpr size_t attentionTensors = 10;

enum class AttentionRole : uint8_t { Batch, Queries, Keys, Over, Feature };

/// Queries and keys of one block of scores.
inline constexpr int64_t attentionQueries = 64;
inline constexpr int64_t attentionKeys = 256;

/// Scores and their gradients of one block, and three numbers for each query.
/// Where some tensors are bf16 also scores of bf16, and two operands in f32.
/// `width`: the elements of a row of the widest tensor.
constexpr int64_t attentionScratchBytes(bool narrow, int64_t width) {
  int64_t block = attentionQueries * attentionKeys;
  int64_t bytes = (2 * block + 3 * attentionQueries) * 4;
  if (narrow) {
    int64_t wide = attentionQueries * width;
    bytes += 2 * block + 4 * (wide > block ? wide : block) +
             4 * attentionKeys * width;
  }
  return bytes;
}

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_ATTENTIONCALL_H
