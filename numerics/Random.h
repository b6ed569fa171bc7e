//===- Random.h - Random numbers from counters ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The definition of every random number in Cleave. It depends on nothing but
// the standard library: the runtime, code generation and the reference share
// it.
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC'11) maps a counter of four words and a key of two to
// four random words. The key says which stream, the counter which number of it:
//
//   key     = seed ^ fnv1a64(site)         as (low word, high word)
//   counter = (index low, index high, iteration, step)
//
// `site` is the path of the place in the model that draws, `index` the global
// row-major index of the element. So a number does not depend on the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_NUMERICS_RANDOM_H
#define CLEAVE_NUMERICS_RANDOM_H

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace cleave::numerics {

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
constexpr uint64_t fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash;
}

using Words = std::array<uint32_t, 4>;

constexpr Words philox(Words counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t left = uint64_t{0xD2511F53u} * counter[0];
    uint64_t right = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(right),
               static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(left)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// The four random words of one element.
constexpr Words words(uint64_t seed, uint64_t siteHash, uint64_t index,
                      uint32_t iteration, uint32_t step) {
  uint64_t key = seed ^ siteHash;
  return philox({static_cast<uint32_t>(index),
                 static_cast<uint32_t>(index >> 32), iteration, step},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

/// Uniform in [0, 1), a multiple of 2**-24: exact in f32. This is `clv.random`;
/// its i32 seed, iteration and step are taken as unsigned.
constexpr double uniform(uint64_t seed, std::string_view site, uint64_t index,
                         uint32_t iteration = 0, uint32_t step = 0) {
  uint32_t word = words(seed, fnv1a64(site), index, iteration, step)[0];
  return (word >> 8) * 0x1p-24;
}

/// Standard normal by Box and Muller's transform, for initial values.
inline double normal(uint64_t seed, std::string_view site, uint64_t index) {
  Words w = words(seed, fnv1a64(site), index, 0, 0);
  auto mantissa = [](uint32_t high, uint32_t low) {
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11);
  };
  double radius = (mantissa(w[0], w[1]) + 1) * 0x1p-53; // in (0, 1]
  double turn = mantissa(w[2], w[3]) * 0x1p-53;         // in [0, 1)
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  return std::sqrt(-2 * std::log(radius)) * std::cos(kTwoPi * turn);
}

} // namespace cleave::numerics

#endif // CLEAVE_NUMERICS_RANDOM_H
