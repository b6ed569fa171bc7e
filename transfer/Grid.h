//===- Grid.h - How a layout cuts a tensor into cells -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each dim of a layout is cut once, over its atoms, and rank r along these
// atoms holds a set of its indices. A *cell* is one rank for each dim. Cells
// are disjoint and cover the tensor; every device holds at most one, and the
// devices that hold the same one are replicas. So between two layouts a device
// that lacks any element of a cell of the old one lacks all of them: what has
// to move is products of two cells, never differences.
//
//   [8, 6] on [a: 2, b: 3], dim 0 on b, dim 1 whole: cells [0,3) [3,6) [6,8),
//   each held by 2 devices; cell c by devices c and 3 + c
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_GRID_H
#define CLEAVE_TRANSFER_GRID_H

#include "layout/Layout.h"
#include "transfer/Area.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::transfer {

struct Grid {
  /// The indices of each dim, by rank along the atoms that split it.
  std::vector<std::vector<Intervals>> pieces;
  /// By coordinate of the mesh (as layout::Mesh numbers devices): the number
  /// of its cell (the ranks as digits, first dim major), -1 if it holds none.
  std::vector<int64_t> cellOf;
  /// By cell: the coordinates that hold it, ascending. Empty for a cell that
  /// has no elements.
  std::vector<std::vector<int64_t>> holders;

  int64_t cells() const { return static_cast<int64_t>(holders.size()); }
  std::vector<int64_t> ranksOf(int64_t cell) const;
  Area areaOf(int64_t cell) const;
};

/// What is wrong with `layout` as the place of a state of `sizes` on `mesh`, a
/// clause for a message (`an atom splits two dims`); empty if nothing is.
std::string problemOf(const std::vector<int64_t> &sizes,
                      const layout::Layout &layout, const layout::Mesh &mesh);

/// Of a layout that has no problem.
Grid gridOf(const std::vector<int64_t> &sizes, const layout::Layout &layout,
            const layout::Mesh &mesh);

/// For each dim and each rank of `to`: the ranks of `from` that have indices
/// in common with it, and how many.
class Overlaps {
public:
  Overlaps(const Grid &from, const Grid &to);

  struct Entry {
    int64_t cell;     ///< of `from`
    int64_t elements; ///< that both cells have
  };
  /// The cells of `from` that have elements in common with a cell of `to`,
  /// ascending.
  std::vector<Entry> of(int64_t cell) const;

private:
  struct Common {
    int64_t rank, size;
  };
  const Grid &to;
  std::vector<int64_t> counts; ///< ranks of each dim of `from`
  std::vector<std::vector<std::vector<Common>>> common;
};

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_GRID_H
