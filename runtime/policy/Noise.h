//===- Noise.h - How noisy gradients are ------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simple noise scale (McCandlish et al., arXiv 1812.06162) is tr(S) / |G|²:
// the variance of the gradient of one sample by the square of the true
// gradient, in samples. A batch much smaller wastes little; a much larger one
// gains little. Its appendix A.1 estimates it from squared norms at two batch
// sizes, since E|g|² = |G|² + tr(S) / B for a gradient g of B samples.
//
// The small batch here is that of a step. Norms of its parts would depend on
// how a plan cuts it, and gradients of fixed parts would have to be kept beside
// the sum. What is there under every plan is the optimizer's exponential mean m
// of the gradients so far. If the true gradient stays nearly the same as long
// as m remembers it (some 1 / (1 - keep) steps), then after t steps
//
//   E|m|² = a² |G|² + v tr(S) / B
//
//   a = 1 - keep^t,  v = (1 - keep) (1 - keep^2t) / (1 + keep)
//
// so m / a is a gradient of B a² / v samples: 19 B for keep = 0.9. Gradients of
// successive steps are used so by Pollux (Qiao et al., arXiv 2008.12260) where
// a job has one replica.
//
// Both are of gradients as the optimizer gets them, clipped: a run that always
// clips measures directions alone. One step's estimates are far too noisy; each
// is averaged over many steps before their ratio is taken.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_POLICY_NOISE_H
#define CLEAVE_RUNTIME_POLICY_NOISE_H

#include "runtime/format/Plan_generated.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cleave::policy {

/// Unbiased estimates from one step; NaN where there is none.
struct GradientEstimate {
  double noise = std::numeric_limits<double>::quiet_NaN();  ///< tr(S)
  double signal = std::numeric_limits<double>::quiet_NaN(); ///< |G|²
};

/// After step `step`, the first being 1: `norm` of its gradient of `batch`
/// samples before clipping, `squares` the sum of squares of the mean after it.
/// There is none after the first step, when both are of the same gradient.
inline GradientEstimate estimateNoise(const format::GradientMeanT &mean,
                                      double norm, double squares,
                                      uint64_t step, double batch) {
  if (step < 2) {
    return {};
  }
  double t = static_cast<double>(step);
  double a = 1 - std::pow(mean.keep, t);
  double v =
      (1 - mean.keep) * (1 - std::pow(mean.keep, 2 * t)) / (1 + mean.keep);
  double clipped = std::min(norm, mean.limit);
  double small = clipped * clipped;
  double signal = (squares - v * small) / (a * a - v);
  return {batch * (small - signal), signal};
}

} // namespace cleave::policy

#endif // CLEAVE_RUNTIME_POLICY_NOISE_H
