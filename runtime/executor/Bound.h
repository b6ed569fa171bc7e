//===- Bound.h - What this machine does at best -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two rates that bound a step: of products through the library on a shape that
// suits it, and of memory that is copied, too large for a core's own caches.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_BOUND_H
#define CLEAVE_RUNTIME_EXECUTOR_BOUND_H

#include <cstdint>

namespace cleave::executor {

/// Of one device, while all work.
struct Bound {
  double operations = 0; ///< additions and multiplications a second
  double bytes = 0;      ///< read and written a second: a copy does both
};

/// Measures for about a fifth of a second, on as many threads as there are
/// devices or cores; where devices share cores each has its part.
Bound measureBound(int64_t devices);

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_BOUND_H
