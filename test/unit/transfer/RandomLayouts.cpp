//===- RandomLayouts.cpp - Meshes and layouts for tests -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomLayouts.h"

#include <algorithm>
#include <numeric>

namespace cleave::test {

layout::Mesh RandomLayouts::mesh() {
  layout::Mesh mesh;
  int64_t rest = 1 + below(9);
  for (int64_t factor = 2; rest > 1; ++factor) {
    for (; rest % factor == 0; rest /= factor) {
      mesh.atoms.push_back({"", factor});
    }
  }
  if (oneIn(4)) {
    mesh.atoms.push_back({"", 1});
  }
  shuffle(mesh.atoms);
  for (size_t i = 0; i < mesh.atoms.size(); ++i) {
    mesh.atoms[i].name = std::string(1, static_cast<char>('a' + i));
  }
  return mesh;
}

void RandomLayouts::addCuts(layout::Split &split, int64_t size,
                            int64_t coordinates) {
  int64_t rounds = oneIn(3) ? 2 : 1;
  if (oneIn(3)) {
    split.unit = 1 + below(4);
  }
  if (rounds == 2 || oneIn(3)) {
    for (int64_t i = 0; i < rounds * coordinates; ++i) {
      split.places.push_back(i % coordinates);
    }
    shuffle(split.places);
  }
  if (oneIn(3)) {
    split.cuts = {0, size};
    for (int64_t i = 1; i < rounds * coordinates; ++i) {
      split.cuts.push_back(below(size + 1));
    }
    std::sort(split.cuts.begin(), split.cuts.end());
  }
}

layout::Layout RandomLayouts::layout(const std::vector<int64_t> &sizes,
                                     const layout::Mesh &mesh) {
  layout::Layout layout;
  layout.dims.resize(sizes.size());
  std::vector<layout::AtomId> atoms(mesh.atoms.size());
  std::iota(atoms.begin(), atoms.end(), 0);
  shuffle(atoms);
  for (layout::AtomId atom : atoms) {
    int64_t dim = below(static_cast<int64_t>(sizes.size()) + 1);
    if (dim < static_cast<int64_t>(sizes.size())) {
      layout.dims[dim].atoms.push_back(atom);
    } else if (oneIn(3)) {
      int64_t size = mesh.atoms[atom].size, begin = below(size);
      layout.residence.push_back(
          {atom, begin, begin + 1 + below(size - begin)});
      if (oneIn(2)) {
        layout.residence.push_back({atom, size - 1, size});
      }
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (oneIn(2)) {
      addCuts(layout.dims[i], sizes[i], mesh.sizeOf(layout.dims[i].atoms));
    }
  }
  return layout;
}

} // namespace cleave::test
