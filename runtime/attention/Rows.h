//===- Rows.h - What becomes of a block of scores ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled once for each kind of processor (RowsOf.inc). Rows of a block are
// `format::attentionKeys` apart. Of row i the first `first + i` keys are seen,
// none if that is negative, all if it is more than there are; what is not seen
// gets no weight.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATTENTION_ROWS_H
#define CLEAVE_RUNTIME_ATTENTION_ROWS_H

#include <cstdint>

namespace cleave::attention {

struct Block {
  int64_t rows = 0, keys = 0;
  int64_t first = 0; ///< keys that row 0 sees
  float scale = 1;
  bool byPowers = false; ///< `most` is to be a multiple of ln 2
};

struct Rows {
  /// scores = e ** (scale * scores - most), with the largest scaled score so
  /// far in `most`, or the next multiple of ln 2 above it. `total` is the sum
  /// so far; `shrink` what it, and all that was added up with the old weights,
  /// was multiplied by.
  void (*advance)(const Block &block, float *scores, float *most, float *total,
                  float *shrink);
  /// scores = e ** (scale * scores - sum)
  void (*weigh)(const Block &block, float *scores, const float *sum);
  /// products = scale * weights * (products - mean)
  void (*reverse)(const Block &block, const float *weights, float *products,
                  const float *mean);
  /// `rounded` = scores as bf16, in rows like theirs.
  void (*round)(const Block &block, const float *scores, uint16_t *rounded);
};

/// The least multiple of ln 2 that is not below `x`, as near as floats are.
/// Compiled for each kind of processor.
static inline float upToPower(float x) {
  return __builtin_ceilf(x * 1.44269504f) * 0.693147182f;
}

/// For this processor.
const Rows &rowsHere();

namespace baseline {
extern const Rows rows;
}
namespace avx2 {
extern const Rows rows;
}
namespace avx512 {
extern const Rows rows;
}

} // namespace cleave::attention

#endif // CLEAVE_RUNTIME_ATTENTION_ROWS_H
