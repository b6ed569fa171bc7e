//===- Area.h - Sets of elements that are products of intervals -*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a device holds of a tensor is a product: for each dim a set of global
// indices, most often one interval, several where pieces are dealt in rounds.
// Products are closed under intersection, so every set of elements that a
// transfer speaks of is one.
//
// The elements of an area have an order: the boxes that its intervals make,
// the first dim's intervals slowest, and in a box row major. A transfer names
// part of an area by a range [begin, end) of that order, so that a share of
// any size is two numbers.
//
//   dims [0,2)+[4,5) x [0,3):  boxes [0,2)x[0,3) and [4,5)x[0,3), 9 elements;
//   range [2, 7) is the boxes [0,1)x[2,3), [1,2)x[0,3), [4,5)x[0,1)
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_AREA_H
#define CLEAVE_TRANSFER_AREA_H

#include "layout/Layout.h"

#include <cstdint>
#include <vector>

namespace cleave::transfer {

/// Ascending, disjoint, not empty intervals.
using Intervals = std::vector<layout::Piece>;

int64_t sizeOf(const Intervals &intervals);
Intervals intersect(const Intervals &a, const Intervals &b);

/// One interval for each dim. A box without dims is a scalar's: one element.
using Box = std::vector<layout::Piece>;

int64_t elementsOf(const Box &box);

/// One set of indices for each dim; without dims it has one element.
struct Area {
  std::vector<Intervals> dims;

  int64_t elements() const;
  bool operator==(const Area &) const = default;
};

/// Both of the same rank.
Area intersect(const Area &a, const Area &b);

/// The elements [begin, end) of an area's order, as boxes in that order. Their
/// number depends on the rank and on how many intervals the dims have, not on
/// how long these are.
std::vector<Box> boxesOf(const Area &area, int64_t begin, int64_t end);
std::vector<Box> boxesOf(const Area &area);

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_AREA_H
