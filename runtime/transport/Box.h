//===- Box.h - Boxes of global indices --------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a device holds of a value is a box: one interval of global indices for
// each dim. Everything that moves data between layouts is intersections and
// differences of boxes, so uneven and empty pieces need no case of their own.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_BOX_H
#define CLEAVE_RUNTIME_TRANSPORT_BOX_H

#include "layout/Layout.h"

#include <cstdint>
#include <vector>

namespace cleave::transport {

/// A box with no dims is a scalar's: it has one element.
struct Box {
  std::vector<layout::Piece> dims;

  int64_t elements() const;
  bool empty() const { return elements() == 0; }
  bool operator==(const Box &) const = default;
};

Box intersect(const Box &a, const Box &b);

/// `whole` without `part` (a box inside it), as disjoint boxes, in order.
std::vector<Box> subtract(const Box &whole, const Box &part);

/// The row-major strides, in elements, of a dense tensor over the box.
std::vector<int64_t> stridesOf(const Box &box);

/// The element offset of the first index of `inner` in a dense tensor over
/// `outer`, which contains it.
int64_t offsetOf(const Box &inner, const Box &outer);

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_BOX_H
