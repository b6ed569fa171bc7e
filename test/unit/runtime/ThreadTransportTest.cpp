//===- ThreadTransportTest.cpp - The suite on threads ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/ThreadTransport.h"
#include "TransportConformance.h"

#include <chrono>
#include <random>
#include <thread>

using namespace cleave::transport;

namespace {

struct ThreadFleet : Fleet {
  explicit ThreadFleet(int64_t devices) : hub(devices) {}
  std::unique_ptr<Transport> connect(int64_t device) override {
    return hub.connect(device);
  }
  void setDelays(uint64_t seed) override {
    hub.setDelay([seed](int64_t device) {
      thread_local std::mt19937_64 random(seed * 1000 + device);
      uint64_t draw = random() % 16;
      if (draw < 4) {
        std::this_thread::sleep_for(std::chrono::microseconds(draw * 40));
      } else if (draw < 8) {
        std::this_thread::yield();
      }
    });
  }
  ThreadHub hub;
};

INSTANTIATE_TEST_SUITE_P(Threads, TransportConformance,
                         testing::Values(Factory{
                             "threads", [](int64_t devices) {
                               return std::unique_ptr<Fleet>(
                                   new ThreadFleet(devices));
                             }}));

} // namespace
