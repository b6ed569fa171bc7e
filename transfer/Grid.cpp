//===- Grid.cpp - How a layout cuts a tensor into cells -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Grid.h"

#include <algorithm>
#include <map>

namespace cleave::transfer {

using layout::AtomId;
using layout::Layout;
using layout::Mesh;
using layout::Piece;
using layout::Residence;
using layout::Split;

/// How many pieces a split makes of a dim.
static int64_t pieceCount(const Split &split, const Mesh &mesh) {
  return split.places.empty() ? mesh.sizeOf(split.atoms)
                              : static_cast<int64_t>(split.places.size());
}

static std::string problemOf(int64_t size, const Split &split,
                             const Mesh &mesh) {
  int64_t count = pieceCount(split, mesh);
  if (split.unit < 1) {
    return "a unit is not positive";
  }
  for (int64_t place : split.places) {
    if (place < 0 || place >= mesh.sizeOf(split.atoms)) {
      return "a piece is placed on a coordinate that is not there";
    }
  }
  if (split.cuts.empty()) {
    return count < mesh.sizeOf(split.atoms)
               ? "there are fewer places than coordinates, and no cuts"
               : "";
  }
  if (static_cast<int64_t>(split.cuts.size()) != count + 1) {
    return "the number of cuts is not that of the pieces and one";
  }
  if (split.cuts.front() != 0 || split.cuts.back() != size ||
      !std::is_sorted(split.cuts.begin(), split.cuts.end())) {
    return "the cuts do not go from 0 to the size of the dim";
  }
  return "";
}

std::string problemOf(const std::vector<int64_t> &sizes, const Layout &layout,
                      const Mesh &mesh) {
  if (layout.isPartial()) {
    return "a sum is pending, and a state has none between steps";
  }
  if (layout.dims.size() != sizes.size()) {
    return "the layout has " + std::to_string(layout.dims.size()) +
           " dims, the tensor " + std::to_string(sizes.size());
  }
  std::vector<bool> taken(mesh.atoms.size(), false);
  for (const Split &split : layout.dims) {
    for (AtomId atom : split.atoms) {
      if (atom >= taken.size()) {
        return "the layout names an atom that the mesh has not";
      }
      if (taken[atom]) {
        return "an atom splits the tensor twice";
      }
      taken[atom] = true;
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (std::string problem = problemOf(sizes[i], layout.dims[i], mesh);
        !problem.empty()) {
      return problem;
    }
  }
  for (const Residence &part : layout.residence) {
    if (part.atom >= taken.size() || part.begin < 0 || part.begin >= part.end ||
        part.end > mesh.atoms[part.atom].size) {
      return "it resides on coordinates that are not there";
    }
    if (taken[part.atom]) {
      return "it resides on a part of an atom that splits it";
    }
  }
  return "";
}

/// The indices that each rank holds.
static std::vector<Intervals> piecesOf(int64_t size, const Split &split,
                                       const Mesh &mesh) {
  int64_t count = pieceCount(split, mesh);
  std::vector<Intervals> pieces(mesh.sizeOf(split.atoms));
  for (int64_t i = 0; i < count; ++i) {
    Piece piece = split.cuts.empty()
                      ? layout::splitRule(size, count, i, split.unit)
                      : Piece{split.cuts[i], split.cuts[i + 1]};
    Intervals &held = pieces[split.places.empty() ? i : split.places[i]];
    if (piece.begin == piece.end) {
      continue;
    }
    if (!held.empty() && held.back().end == piece.begin) {
      held.back().end = piece.end; // neighbours on one rank are one interval
    } else {
      held.push_back(piece);
    }
  }
  return pieces;
}

/// Several parts of one atom are alternatives; parts of several atoms must all
/// hold.
static bool resides(const std::vector<Residence> &residence,
                    const std::vector<int64_t> &coordinate) {
  std::map<AtomId, bool> inside;
  for (const Residence &part : residence) {
    int64_t at = coordinate[part.atom];
    inside[part.atom] |= part.begin <= at && at < part.end;
  }
  return std::all_of(inside.begin(), inside.end(),
                     [](const auto &entry) { return entry.second; });
}

std::vector<int64_t> Grid::ranksOf(int64_t cell) const {
  std::vector<int64_t> ranks(pieces.size());
  for (size_t i = pieces.size(); i-- > 0;) {
    int64_t count = static_cast<int64_t>(pieces[i].size());
    ranks[i] = cell % count;
    cell /= count;
  }
  return ranks;
}

Area Grid::areaOf(int64_t cell) const {
  Area area;
  std::vector<int64_t> ranks = ranksOf(cell);
  for (size_t i = 0; i < ranks.size(); ++i) {
    area.dims.push_back(pieces[i][ranks[i]]);
  }
  return area;
}

static int64_t cellAt(const Layout &layout, const Mesh &mesh,
                      const std::vector<int64_t> &coordinate) {
  int64_t cell = 0;
  for (const Split &split : layout.dims) {
    for (AtomId atom : split.atoms) {
      cell = cell * mesh.atoms[atom].size + coordinate[atom];
    }
  }
  return cell;
}

Grid gridOf(const std::vector<int64_t> &sizes, const Layout &layout,
            const Mesh &mesh) {
  Grid grid;
  int64_t cells = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    grid.pieces.push_back(piecesOf(sizes[i], layout.dims[i], mesh));
    cells *= static_cast<int64_t>(grid.pieces.back().size());
  }
  grid.holders.resize(cells);
  std::vector<bool> isEmpty(cells);
  for (int64_t cell = 0; cell < cells; ++cell) {
    std::vector<int64_t> ranks = grid.ranksOf(cell);
    for (size_t i = 0; i < ranks.size(); ++i) {
      isEmpty[cell] = isEmpty[cell] || grid.pieces[i][ranks[i]].empty();
    }
  }
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<int64_t> coordinate = mesh.coordinateOf(device);
    int64_t cell = cellAt(layout, mesh, coordinate);
    bool holds = !isEmpty[cell] && resides(layout.residence, coordinate);
    grid.cellOf.push_back(holds ? cell : -1);
    if (holds) {
      grid.holders[cell].push_back(device);
    }
  }
  return grid;
}

Overlaps::Overlaps(const Grid &from, const Grid &to) : to(to) {
  struct Owned {
    Piece piece;
    int64_t rank;
  };
  for (size_t dim = 0; dim < from.pieces.size(); ++dim) {
    std::vector<Owned> sorted; // the pieces of `from` cover the dim
    for (size_t rank = 0; rank < from.pieces[dim].size(); ++rank) {
      for (const Piece &piece : from.pieces[dim][rank]) {
        sorted.push_back({piece, static_cast<int64_t>(rank)});
      }
    }
    std::sort(sorted.begin(), sorted.end(), [](const Owned &a, const Owned &b) {
      return a.piece.begin < b.piece.begin;
    });
    counts.push_back(static_cast<int64_t>(from.pieces[dim].size()));
    common.emplace_back();
    for (const Intervals &wanted : to.pieces[dim]) {
      std::map<int64_t, int64_t> sizes;
      for (const Piece &piece : wanted) {
        auto at = std::partition_point(
            sorted.begin(), sorted.end(),
            [&](const Owned &owned) { return owned.piece.end <= piece.begin; });
        for (; at != sorted.end() && at->piece.begin < piece.end; ++at) {
          sizes[at->rank] += std::min(at->piece.end, piece.end) -
                             std::max(at->piece.begin, piece.begin);
        }
      }
      common.back().emplace_back();
      for (auto [rank, size] : sizes) {
        common.back().back().push_back({rank, size});
      }
    }
  }
}

std::vector<Overlaps::Entry> Overlaps::of(int64_t cell) const {
  std::vector<Entry> entries{{0, 1}};
  std::vector<int64_t> ranks = to.ranksOf(cell);
  for (size_t dim = 0; dim < ranks.size(); ++dim) {
    std::vector<Entry> longer;
    for (const Entry &entry : entries) {
      for (const Common &part : common[dim][ranks[dim]]) {
        longer.push_back(
            {entry.cell * counts[dim] + part.rank, entry.elements * part.size});
      }
    }
    entries = std::move(longer);
  }
  return entries;
}

} // namespace cleave::transfer
