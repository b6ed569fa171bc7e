//===- Pieces.cpp - What each coordinate holds of the state ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Pieces.h"
#include "runtime/format/Convert.h"
#include "runtime/state/State.h"

#include <algorithm>

namespace cleave::state {

using transport::Box;

/// The parts at a coordinate, as if the leaf lived everywhere.
static std::vector<Part> partsOf(const format::LeafT &leaf,
                                 const layout::Layout &layout,
                                 const layout::Mesh &mesh, int64_t coordinate) {
  Box box;
  for (size_t i = 0; i < leaf.sizes.size(); ++i) {
    const layout::Split &split = layout.dims[i];
    box.dims.push_back(
        layout::isContiguous(split)
            ? layout::pieceOf(leaf.sizes[i], split, mesh, coordinate)
            : layout::Piece{});
  }
  if (box.dims.empty() || layout::isContiguous(layout.dims.front())) {
    return {{std::move(box), 0}};
  }
  std::vector<Part> parts;
  size_t offset = 0;
  for (const layout::Piece &piece : layout::piecesOf(
           leaf.sizes.front(), layout.dims.front(), mesh, coordinate)) {
    Part part{box, offset};
    part.box.dims.front() = piece;
    offset += part.box.elements() * format::elementSize(leaf.type);
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    parts.push_back({std::move(box), 0});
  }
  return parts;
}

/// Whether a layout is one that `partsOf` knows.
static bool isKnown(const layout::Layout &layout, const layout::Mesh &mesh) {
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    const layout::Split &split = layout.dims[i];
    bool timed = std::any_of(
        split.atoms.begin(), split.atoms.end(), [&](layout::AtomId atom) {
          return mesh.isTime(atom) && mesh.atoms[atom].size > 1;
        });
    if (timed || (i > 0 && !layout::isContiguous(split))) {
      return false;
    }
  }
  return true;
}

static Held heldAt(const format::LeafT &leaf, const layout::Layout &layout,
                   const layout::Mesh &mesh, int64_t coordinate) {
  Held held;
  held.resides =
      format::resides(layout.residence, mesh.coordinateOf(coordinate));
  held.parts = partsOf(leaf, layout, mesh, coordinate);
  for (Part &part : held.parts) {
    if (held.resides) {
      held.bytes += part.box.elements() * format::elementSize(leaf.type);
    } else if (!part.box.dims.empty()) {
      part.box.dims.front() = {0, 0};
    }
  }
  return held;
}

Result<Pieces> piecesOf(const format::PlanSetT &set, size_t plan) {
  const format::PlanT &chosen = *set.plans[plan];
  layout::Mesh mesh = format::toLayout(*chosen.mesh);
  Pieces pieces;
  for (size_t i = 0; i < set.leaves.size(); ++i) {
    const format::LeafT &leaf = *set.leaves[i];
    layout::Layout layout = format::toLayout(*chosen.layouts[i]);
    if (!isKnown(layout, mesh)) {
      return Status::error("`" + nameOf(leaf) +
                           "` is cut in a way that this version does not run");
    }
    std::vector<Held> &held = pieces.emplace_back();
    for (int64_t at = 0; at < mesh.devices(); ++at) {
      held.push_back(heldAt(leaf, layout, mesh, at));
    }
  }
  return pieces;
}

} // namespace cleave::state
