//===- Rounds.h - A leaf that moves bit by bit ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Old and new pieces of a leaf together may be more than a device may use. But
// not all of both needs memory at once: pages of the new piece take it when
// they are first written, and those of the old one can be given back when all
// their rows are copied.
//
// Rows are indices of the leaf's first dim that is longer than one: in memory
// they lie one after the other. All old and new cuts divide them into
// *stretches*, each of which comes from one piece of a device and goes to one.
// Round r of R copies the r-th of R equal parts of every stretch. So after each
// round every device has about the same share of its new piece, and has given
// back the same share of its old one:
//
//   old cuts      0         6        12     two devices, 12 rows
//   new cuts      0   3   6     9    12     the first takes [0, 3) and [6, 9)
//   round 1 of 3  0   3   6     9           the first row of each stretch
//   round 2 of 3  1   4   7     10          …
//
// More rounds need less memory, down to some pages for each stretch: copying
// out of the order in which rows lie leaves pages that are in use in part.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_ROUNDS_H
#define CLEAVE_RUNTIME_STATE_ROUNDS_H

#include "runtime/state/Pieces.h"

#include <optional>
#include <span>
#include <vector>

namespace cleave::state {

inline constexpr int64_t mostRounds = 1024;

/// Rows of a leaf that are between two cuts, old or new.
struct Stretch {
  int64_t begin = 0, end = 0;
  /// Of part `round` of `rounds`.
  layout::Piece part(int64_t round, int64_t rounds) const;
};

/// The dim that has the rows: the first that is longer than one. Nothing where
/// there is none.
std::optional<size_t> rowDim(std::span<const int64_t> sizes);

/// All cuts of old and new pieces divide the rows.
std::vector<Stretch> stretchesOf(size_t dim, std::span<const Held> before,
                                 std::span<const Held> after);

/// For each unit of the memory of a piece that begins at address `base`: the
/// first and the last round in which a row is in it; -1 where none is.
struct UnitRounds {
  std::vector<int64_t> first, last;
};
UnitRounds unitRounds(const Held &held, uintptr_t base, size_t bytes,
                      size_t unit, size_t dim, int64_t elementBytes,
                      std::span<const Stretch> stretches, int64_t rounds);

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_ROUNDS_H
