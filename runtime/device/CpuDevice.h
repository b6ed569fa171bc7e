//===- CpuDevice.h - A thread as a device -----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H
#define CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H

#include "runtime/device/KernelImage.h"

namespace cleave::device {

/// Everything runs at once in the calling thread.
class CpuDevice : public Device {
public:
  explicit CpuDevice(std::shared_ptr<const KernelImage> image)
      : image(std::move(image)) {}

  void enterThread() override;
  Result<Memory> allocate(size_t bytes) override;
  Result<Kernel> findKernel(const std::string &symbol) override;
  void launch(Kernel kernel, void *const *views,
              const int64_t *integers) override {
    kernel(views, integers);
  }
  int64_t operationsOf(Kernel kernel, const int64_t *integers) const override;
  const contraction::Prepared *prepare(const contraction::Shape &shape,
                                       contraction::Order order,
                                       contraction::Factor factor) override {
    return contractor.prepare(shape, order, factor);
  }
  void contract(const contraction::Prepared *prepared, const void *lhs,
                const void *rhs, void *out) override {
    contractor.execute(prepared, lhs, rhs, static_cast<float *>(out));
  }
  void fillZero(void *target, size_t bytes) override;
  void discard(char *begin, size_t bytes) override;
  void synchronise() override {}

private:
  std::shared_ptr<const KernelImage> image;
  contraction::Contractor contractor;
};

/// Pages of the process, for host-side buffers too.
Result<Memory> allocateHost(size_t bytes);

} // namespace cleave::device

#endif // CLEAVE_RUNTIME_DEVICE_CPUDEVICE_H
