//===- Addresses.h - Addresses without memory -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is made ready before its memory is there works with addresses that
// nothing else has. They are never read or written.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_ADDRESSES_H
#define CLEAVE_RUNTIME_DEVICE_ADDRESSES_H

#include "runtime/device/Device.h"

namespace cleave::device {

/// As many addresses, and at least one.
Result<Memory> reserveAddresses(size_t bytes);

/// A device that has nothing else, for states that are only planned.
class AddressDevice final : public Device {
public:
  Result<Memory> allocate(size_t bytes) override {
    return reserveAddresses(bytes);
  }

  // It computes nothing.
  void enterThread() override {}
  Result<Kernel> findKernel(const std::string &) override {
    return Status::error("addresses have no kernels");
  }
  void launch(Kernel, void *const *, const int64_t *) override {}
  const contraction::Prepared *prepare(const contraction::Shape &,
                                       contraction::Order,
                                       contraction::Factor) override {
    return nullptr;
  }
  void contract(const contraction::Prepared *, const void *, const void *,
                void *) override {}
  void fillZero(void *, size_t) override {}
  void synchronise() override {}
};

} // namespace cleave::device

#endif // CLEAVE_RUNTIME_DEVICE_ADDRESSES_H
