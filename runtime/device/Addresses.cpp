//===- Addresses.cpp - Addresses without memory ---------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Addresses.h"

#include <sys/mman.h>

namespace cleave::device {

static void unmap(char *base, size_t size) { ::munmap(base, size); }

Result<Memory> reserveAddresses(size_t bytes) {
  size_t size = bytes + 1;
  void *base = ::mmap(nullptr, size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Status::error("cannot reserve " + std::to_string(size) +
                         " bytes of addresses");
  }
  return Memory(static_cast<char *>(base), size, unmap);
}

} // namespace cleave::device
