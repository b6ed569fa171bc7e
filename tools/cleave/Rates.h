//===- Rates.h - How fast a device is taken to be ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What simulated timelines assume. A device is a core of a server here: its
// contractions, its memory, and copies between threads. Shares of time (the
// bubble) depend only on how these compare with each other.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_RATES_H
#define CLEAVE_TOOLS_CLEAVE_RATES_H

#include "compiler/pipeline/Work.h"

#include <algorithm>

namespace cleave::tools {

struct Rates {
  double flops = 150e9;    ///< a second
  double bytes = 10e9;     ///< of memory, a second
  double linkBytes = 10e9; ///< sent, a second
  double linkDelay = 5e-6; ///< of every message, in seconds
};

/// Computing and memory overlap; collectives inside wait for each other.
inline double secondsOf(const Work &work, const Rates &rates) {
  return std::max(work.flops / rates.flops, work.bytes / rates.bytes) +
         work.sent / rates.linkBytes;
}

inline double secondsOfMessage(double bytes, const Rates &rates) {
  return rates.linkDelay + bytes / rates.linkBytes;
}

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_RATES_H
