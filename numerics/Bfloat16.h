//===- Bfloat16.h - The upper half of an f32 --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bf16 has the sign, the exponent and seven of the fraction's bits of an f32.
// Widening is exact. Narrowing rounds to the nearest, ties to even; what is too
// large becomes infinite, and a NaN stays one.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_NUMERICS_BFLOAT16_H
#define CLEAVE_NUMERICS_BFLOAT16_H

#include <cstdint>
#include <cstring>

namespace cleave::numerics {

inline float fromBfloat16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

inline uint16_t toBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) {
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace cleave::numerics

#endif // CLEAVE_NUMERICS_BFLOAT16_H
