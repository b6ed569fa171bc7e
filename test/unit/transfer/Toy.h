//===- Toy.h - One leaf and its moments under small plans -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A parameter [layer 8, in 16, out 16] with two moments, all of 4 bytes an
// element, under plans pipe x data x tensor: layers on pipe, `in` or `out` on
// tensor, and with ZeRO 1 the moments' `in` further on data, minor.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_TRANSFER_TOY_H
#define CLEAVE_TEST_UNIT_TRANSFER_TOY_H

#include "transfer/Transfer.h"

namespace cleave::transfer::toy {

constexpr int64_t layers = 8, width = 16;
constexpr int64_t elements = layers * width * width;

struct Plan {
  int64_t data = 1, tensor = 1, pipe = 1;
  bool zero = false;
  bool isOnIn = true; ///< whether tensor splits `in`, else `out`

  int64_t devices() const { return data * tensor * pipe; }
};

inline layout::Mesh meshOf(const Plan &plan) {
  layout::Mesh mesh;
  mesh.atoms = {
      {"pipe", plan.pipe}, {"data", plan.data}, {"tensor", plan.tensor}};
  return mesh;
}

inline layout::Layout layoutOf(const Plan &plan, bool isMoment) {
  layout::Layout layout;
  layout.dims.resize(3);
  layout.dims[0].atoms = {0};
  layout.dims[plan.isOnIn ? 1 : 2].atoms = {2};
  if (plan.zero && isMoment) {
    layout.dims[1].atoms.push_back(1);
  }
  return layout;
}

inline Request requestFor(const Plan &from, const Plan &to, bool relabel) {
  Request request;
  request.from.mesh = meshOf(from);
  request.to.mesh = meshOf(to);
  request.relabel = relabel;
  for (const char *name : {"params/w", "optimizer/w/m", "optimizer/w/v"}) {
    bool isMoment = name[0] == 'o';
    request.leaves.push_back({name,
                              {layers, width, width},
                              4,
                              layoutOf(from, isMoment),
                              layoutOf(to, isMoment)});
  }
  return request;
}

} // namespace cleave::transfer::toy

#endif // CLEAVE_TEST_UNIT_TRANSFER_TOY_H
