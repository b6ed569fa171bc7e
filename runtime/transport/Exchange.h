//===- Exchange.h - Who gives which elements to whom ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts a channel into regions: boxes of which every element has the same
// sources and goes to the same targets. Every transport can start from it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_EXCHANGE_H
#define CLEAVE_RUNTIME_TRANSPORT_EXCHANGE_H

#include "runtime/transport/Transport.h"

namespace cleave::transport {

struct Region {
  Box box;
  std::vector<int64_t> sources; ///< one for each partial coordinate: a rank, or
                                ///< that of its image plus the group's size
  std::vector<int64_t> targets; ///< ranks that get the result
};

/// The regions of a channel: for each rank they cover its target once. Without
/// a reduction each region has one target; with one, a result that several
/// ranks want is computed once.
Result<std::vector<Region>> planExchange(const Description &description);

/// Cuts `regions` into boxes of at most `limit` elements.
std::vector<Region> cutRegions(std::vector<Region> regions, int64_t limit);

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_EXCHANGE_H
