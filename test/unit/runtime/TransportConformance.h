//===- TransportConformance.h - What any transport must do ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A suite over any transport. A new transport instantiates it with a factory:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, TransportConformance,
//                            testing::Values(Factory{"mine", makeMine}));
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_TRANSPORTCONFORMANCE_H
#define CLEAVE_TEST_UNIT_RUNTIME_TRANSPORTCONFORMANCE_H

#include "runtime/transport/Transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace cleave::transport {

/// The devices of one mesh, connected.
struct Fleet {
  virtual ~Fleet() = default;
  virtual std::unique_ptr<Transport> connect(int64_t device) = 0;
  /// Makes every step of a collective take a random time, from `seed`.
  virtual void setDelays(uint64_t seed) = 0;
};

struct Factory {
  std::string name;
  std::function<std::unique_ptr<Fleet>(int64_t devices)> make;
};

inline void PrintTo(const Factory &factory, std::ostream *stream) {
  *stream << factory.name;
}

class TransportConformance : public testing::TestWithParam<Factory> {};

} // namespace cleave::transport

#endif // CLEAVE_TEST_UNIT_RUNTIME_TRANSPORTCONFORMANCE_H
