//===- CpuDevice.cpp - A thread as a device -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/CpuDevice.h"

#include "runtime/attention/Attention.h"

#include <cstring>
#include <sys/mman.h>

namespace cleave::device {

static void unmap(char *base, size_t size) { ::munmap(base, size); }

Result<Memory> allocateHost(size_t bytes) {
  // Never empty, so that every block has an address.
  size_t size = (bytes + pageBytes) / pageBytes * pageBytes;
  void *base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return Status::error("cannot allocate " + std::to_string(size) +
                         " bytes of memory");
  }
  if (size >= (size_t(4) << 20)) {
    ::madvise(base, size, MADV_HUGEPAGE);
  }
  return Memory(static_cast<char *>(base), size, unmap);
}

void CpuDevice::enterThread() { contraction::Contractor::enterThread(); }

Result<Memory> CpuDevice::allocate(size_t bytes) { return allocateHost(bytes); }

Result<Kernel> CpuDevice::findKernel(const std::string &symbol) {
  if (symbol == format::attentionSymbol) {
    return &attention::kernel;
  }
  return image->find(symbol);
}

int64_t CpuDevice::operationsOf(Kernel kernel, const int64_t *integers) const {
  return kernel == &attention::kernel ? attention::operationsOf(integers) : 0;
}

void CpuDevice::fillZero(void *target, size_t bytes) {
  std::memset(target, 0, bytes);
}

void CpuDevice::discard(char *begin, size_t bytes) {
  uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + pageBytes - 1) /
                    pageBytes * pageBytes;
  uintptr_t end =
      reinterpret_cast<uintptr_t>(begin + bytes) / pageBytes * pageBytes;
  if (first < end) {
    ::madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
  }
}

} // namespace cleave::device
