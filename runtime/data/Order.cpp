//===- Order.cpp - In which order samples are seen ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Order.h"

#include <cassert>

namespace cleave::data {

/// SplitMix64's finisher (Steele, Lea and Flood, OOPSLA 2014).
static uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

Order::Order(uint64_t seed, uint64_t samples) : seed(seed), samples(samples) {
  assert(samples > 0 && "no samples to order");
  while (half < 32 && (samples - 1) >> (2 * half) != 0) {
    ++half;
  }
}

uint64_t Order::permute(uint64_t value, uint64_t epoch) const {
  uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t left = value >> half, right = value & mask;
  uint64_t key = mix(seed ^ mix(epoch));
  for (uint64_t round = 0; round < 8; ++round) {
    uint64_t next =
        left ^ (mix(key + round * 0xd1342543de82ef95u + right) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

uint64_t Order::at(uint64_t position) const {
  uint64_t epoch = position / samples;
  uint64_t value = position % samples;
  do {
    value = permute(value, epoch);
  } while (value >= samples);
  return value;
}

} // namespace cleave::data
