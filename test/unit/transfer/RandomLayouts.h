//===- RandomLayouts.h - Meshes and layouts for tests -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_TRANSFER_RANDOMLAYOUTS_H
#define CLEAVE_TEST_UNIT_TRANSFER_RANDOMLAYOUTS_H

#include "layout/Layout.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace cleave::test {

/// 1 to 9 devices a mesh, several atoms on one dim, sizes that divide nothing,
/// empty pieces, units, cuts, places, dealt pieces, parts of an atom.
class RandomLayouts {
public:
  explicit RandomLayouts(uint32_t seed) : random(seed) {}

  layout::Mesh mesh();
  layout::Layout layout(const std::vector<int64_t> &sizes,
                        const layout::Mesh &mesh);
  int64_t below(int64_t bound) { return random() % bound; }
  bool oneIn(int64_t count) { return below(count) == 0; }
  template <typename T> void shuffle(std::vector<T> &values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[below(i)]);
    }
  }

  std::mt19937 random;

private:
  void addCuts(layout::Split &split, int64_t size, int64_t coordinates);
};

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_TRANSFER_RANDOMLAYOUTS_H
