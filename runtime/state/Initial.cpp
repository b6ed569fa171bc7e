//===- Initial.cpp - The first value of a leaf ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "numerics/Random.h"
#include "runtime/state/State.h"

namespace cleave::state {

namespace {

/// Calls `body(global row-major index, local row-major index)` in order.
template <typename Body>
void forEach(const std::vector<int64_t> &sizes, const transport::Box &box,
             Body body) {
  int64_t count = box.elements();
  size_t rank = sizes.size();
  std::vector<int64_t> at(rank);
  for (size_t i = 0; i < rank; ++i) {
    at[i] = box.dims[i].begin;
  }
  for (int64_t local = 0; local < count; ++local) {
    int64_t global = 0;
    for (size_t i = 0; i < rank; ++i) {
      global = global * sizes[i] + at[i];
    }
    body(global, local);
    for (size_t i = rank; i-- > 0;) {
      if (++at[i] < box.dims[i].end) {
        break;
      }
      at[i] = box.dims[i].begin;
    }
  }
}

} // namespace

void initialPiece(const format::LeafT &leaf, uint64_t seed,
                  const transport::Box &box, void *target) {
  // An optimizer leaf has a site of its own.
  std::string site =
      leaf.state.empty() ? leaf.path : leaf.path + "/" + leaf.state;
  const format::InitT &init = *leaf.init;
  auto valueAt = [&](int64_t index) {
    switch (init.kind) {
    case format::InitKind::Normal:
      return init.a + init.b * numerics::normal(seed, site, index);
    case format::InitKind::Uniform:
      return init.a + (init.b - init.a) * numerics::uniform(seed, site, index);
    default:
      return init.a;
    }
  };
  forEach(leaf.sizes, box, [&](int64_t global, int64_t local) {
    double value = valueAt(global);
    switch (leaf.type) {
    case format::ElementType::F32:
      static_cast<float *>(target)[local] = static_cast<float>(value);
      break;
    case format::ElementType::I32:
      static_cast<int32_t *>(target)[local] = static_cast<int32_t>(value);
      break;
    case format::ElementType::Bool:
      static_cast<uint8_t *>(target)[local] = value != 0;
      break;
    case format::ElementType::BF16: // no leaf is
      break;
    }
  });
}

} // namespace cleave::state
