//===- Pieces.h - What each coordinate holds of the state -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_PIECES_H
#define CLEAVE_RUNTIME_STATE_PIECES_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"
#include "runtime/transport/Box.h"

#include <vector>

namespace cleave::state {

/// A box of a leaf, dense and row major.
struct Part {
  transport::Box box;
  size_t offset = 0; ///< in the memory of the leaf on the device, in bytes
  bool operator==(const Part &) const = default;
};

/// What a coordinate of a plan's mesh holds of a leaf.
struct Held {
  bool resides = false; ///< elsewhere it has no memory
  /// One after the other; several where the leaf's first dim lies in several
  /// pieces. Never none, but all empty where the leaf does not reside.
  std::vector<Part> parts;
  size_t bytes = 0; ///< of all parts
  bool operator==(const Held &) const = default;
};

/// By leaf, by coordinate.
using Pieces = std::vector<std::vector<Held>>;

/// Fails where a layout is cut in a way that states do not know: over times, or
/// in several pieces along other dims than the first.
Result<Pieces> piecesOf(const format::PlanSetT &set, size_t plan);

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_PIECES_H
