//===- Order.h - In which order samples are seen ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order is a pure function of the seed and the number of a sample since the
// start of training: no plan, batch size or restart changes it. Each epoch is a
// permutation of all samples, so that every sample comes exactly once.
//
// The permutation is a Feistel network of eight rounds on the smallest even
// number of bits that holds all samples; a result outside is put in again
// until one is inside ("cycle walking": Black and Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002). Nothing is stored.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DATA_ORDER_H
#define CLEAVE_RUNTIME_DATA_ORDER_H

#include <cstdint>

namespace cleave::data {

class Order {
public:
  /// `samples` in an epoch, at least one.
  Order(uint64_t seed, uint64_t samples);

  /// The sample that comes as number `position` since the start.
  uint64_t at(uint64_t position) const;
  uint64_t epochOf(uint64_t position) const { return position / samples; }

private:
  uint64_t seed;
  uint64_t samples;
  unsigned half = 1; ///< bits of each half

  uint64_t permute(uint64_t value, uint64_t epoch) const;
};

} // namespace cleave::data

#endif // CLEAVE_RUNTIME_DATA_ORDER_H
