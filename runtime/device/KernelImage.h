//===- KernelImage.h - Kernels loaded from memory ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_KERNELIMAGE_H
#define CLEAVE_RUNTIME_DEVICE_KERNELIMAGE_H

#include "runtime/device/Device.h"

#include <memory>
#include <span>

namespace cleave::device {

/// A shared object that never was a file. Shared by the devices of a session.
class KernelImage {
public:
  /// An empty image is one without kernels.
  static Result<std::shared_ptr<const KernelImage>>
  load(std::span<const char> elf);
  ~KernelImage();
  KernelImage(const KernelImage &) = delete;

  Result<Kernel> find(const std::string &symbol) const;

private:
  KernelImage() = default;
  void *handle = nullptr;
  int descriptor = -1;
};

} // namespace cleave::device

#endif // CLEAVE_RUNTIME_DEVICE_KERNELIMAGE_H
