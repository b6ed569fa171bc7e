//===- Device.h - What a program needs of a device --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory, kernels and contractions of one device. A device belongs to one
// thread at a time. What runs on it is issued in order; where a device works
// asynchronously, `synchronise` waits for all of it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_DEVICE_H

#include "runtime/contraction/Contraction.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace cleave::device {

/// A compiled function, as `Plan.fbs` says kernels are called.
using Kernel = void (*)(void *const *views, const int64_t *integers);

/// A block of a device's memory: aligned to 64 bytes, zero at first. Freed
/// with the object.
class Memory {
public:
  Memory() = default;
  Memory(char *base, size_t size, void (*release)(char *, size_t))
      : base(base), length(size), release(release) {}
  Memory(Memory &&other) noexcept
      : base(std::exchange(other.base, nullptr)),
        length(std::exchange(other.length, 0)), release(other.release) {}
  Memory &operator=(Memory &&other) noexcept {
    std::swap(base, other.base);
    std::swap(length, other.length);
    std::swap(release, other.release);
    return *this;
  }
  ~Memory() {
    if (base) {
      release(base, length);
    }
  }

  char *data() const { return base; }
  size_t size() const { return length; }

private:
  char *base = nullptr;
  size_t length = 0;
  void (*release)(char *, size_t) = nullptr;
};

/// The least that a device can give back.
inline constexpr size_t pageBytes = 4096;

class Device {
public:
  virtual ~Device() = default;

  /// The calling thread is the device's from here on.
  virtual void enterThread() = 0;
  virtual Result<Memory> allocate(size_t bytes) = 0;
  /// The kernel called `symbol` in the plan file's image, or the runtime's own
  /// of that name (format/AttentionCall.h).
  virtual Result<Kernel> findKernel(const std::string &symbol) = 0;
  virtual void launch(Kernel kernel, void *const *views,
                      const int64_t *integers) = 0;
  /// Additions and multiplications in products of one launch; those of compiled
  /// kernels, which memory bounds, are not counted.
  virtual int64_t operationsOf(Kernel, const int64_t *) const { return 0; }
  virtual const contraction::Prepared *prepare(const contraction::Shape &shape,
                                               contraction::Order order,
                                               contraction::Factor factor) = 0;
  virtual void contract(const contraction::Prepared *prepared, const void *lhs,
                        const void *rhs, void *out) = 0;
  virtual void fillZero(void *target, size_t bytes) = 0;
  /// What lies there is not read again before it is written: whole units of
  /// memory in it may go to others until then.
  virtual void discard(char *, size_t) {}
  /// The unit in which a block of so many bytes takes memory as it is written,
  /// a power of two: for large ones a huge page.
  virtual size_t unitOf(size_t bytes) const {
    return bytes >= (size_t(4) << 20) ? size_t(2) << 20 : pageBytes;
  }
  virtual void synchronise() = 0;
};

} // namespace cleave::device

#endif // CLEAVE_RUNTIME_DEVICE_DEVICE_H
