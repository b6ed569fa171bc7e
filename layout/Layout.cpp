//===- Layout.cpp - Where the pieces of a value live ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "layout/Layout.h"

#include <algorithm>
#include <cassert>

namespace cleave::layout {

static int64_t ceilDiv(__int128 numerator, int64_t denominator) {
  return static_cast<int64_t>((numerator + denominator - 1) / denominator);
}

int64_t Mesh::devices() const {
  int64_t product = 1;
  for (size_t i = 0; i + times < atoms.size(); ++i) {
    product *= atoms[i].size;
  }
  return product;
}

int64_t Mesh::instants() const {
  int64_t product = 1;
  for (size_t i = atoms.size() - times; i < atoms.size(); ++i) {
    product *= atoms[i].size;
  }
  return product;
}

int64_t Mesh::sizeOf(const std::vector<AtomId> &ids) const {
  int64_t product = 1;
  for (AtomId id : ids) {
    product *= atoms[id].size;
  }
  return product;
}

// Of a point the times are the major digits, and stand last in `atoms`.
std::vector<int64_t> Mesh::coordinateOf(int64_t point) const {
  std::vector<int64_t> coordinate(atoms.size());
  auto read = [&](size_t begin, size_t end) {
    for (size_t i = end; i-- > begin;) {
      coordinate[i] = point % atoms[i].size;
      point /= atoms[i].size;
    }
  };
  read(0, atoms.size() - times);
  read(atoms.size() - times, atoms.size());
  return coordinate;
}

int64_t Mesh::deviceAt(const std::vector<int64_t> &coordinate) const {
  int64_t point = 0;
  auto write = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      point = point * atoms[i].size + coordinate[i];
    }
  };
  write(atoms.size() - times, atoms.size());
  write(0, atoms.size() - times);
  return point;
}

int64_t Mesh::rankAlong(int64_t device, const std::vector<AtomId> &ids) const {
  std::vector<int64_t> coordinate = coordinateOf(device);
  int64_t rank = 0;
  for (AtomId id : ids) {
    rank = rank * atoms[id].size + coordinate[id];
  }
  return rank;
}

std::vector<int64_t> Mesh::groupOf(int64_t device,
                                   const std::vector<AtomId> &ids) const {
  std::vector<int64_t> coordinate = coordinateOf(device);
  int64_t count = sizeOf(ids);
  std::vector<int64_t> group(count);
  for (int64_t rank = 0; rank < count; ++rank) {
    int64_t rest = rank;
    for (size_t i = ids.size(); i-- > 0;) {
      coordinate[ids[i]] = rest % atoms[ids[i]].size;
      rest /= atoms[ids[i]].size;
    }
    group[rank] = deviceAt(coordinate);
  }
  return group;
}

const Axis *Mesh::findAxis(const std::string &name) const {
  for (const Axis &axis : axes) {
    if (axis.name == name) {
      return &axis;
    }
  }
  return nullptr;
}

std::string Mesh::describe(const std::vector<AtomId> &ids) const {
  std::string text;
  for (size_t at = 0; at < ids.size();) {
    // The longest named axis that starts here; else the atom's own name.
    const Axis *best = nullptr;
    for (const Axis &axis : axes) {
      size_t length = axis.atoms.size();
      if (length && at + length <= ids.size() &&
          std::equal(axis.atoms.begin(), axis.atoms.end(), ids.begin() + at) &&
          (!best || length > best->atoms.size())) {
        best = &axis;
      }
    }
    text +=
        (text.empty() ? "" : " * ") + (best ? best->name : atoms[ids[at]].name);
    at += best ? best->atoms.size() : 1;
  }
  return text;
}

Piece splitRule(int64_t size, int64_t count, int64_t index, int64_t unit) {
  int64_t units = ceilDiv(size, unit);
  auto cut = [&](int64_t i) {
    return std::min(size,
                    ceilDiv(static_cast<__int128>(i) * units, count) * unit);
  };
  return {cut(index), cut(index + 1)};
}

std::vector<AtomId> Layout::usedAtoms() const {
  std::vector<AtomId> used = partial;
  for (const Split &split : dims) {
    used.insert(used.end(), split.atoms.begin(), split.atoms.end());
  }
  std::sort(used.begin(), used.end());
  return used;
}

bool Layout::uses(AtomId atom) const {
  auto holds = [&](const std::vector<AtomId> &ids) {
    return std::find(ids.begin(), ids.end(), atom) != ids.end();
  };
  return holds(partial) ||
         std::any_of(dims.begin(), dims.end(),
                     [&](const Split &split) { return holds(split.atoms); });
}

bool isContiguous(const Split &split) {
  std::vector<int64_t> seen = split.places;
  std::sort(seen.begin(), seen.end());
  return std::adjacent_find(seen.begin(), seen.end()) == seen.end();
}

Piece pieceOf(int64_t size, const Split &split, const Mesh &mesh,
              int64_t device) {
  assert(isContiguous(split) && "several pieces on one coordinate");
  int64_t coordinate = mesh.rankAlong(device, split.atoms);
  int64_t index = coordinate;
  if (!split.places.empty()) {
    auto found =
        std::find(split.places.begin(), split.places.end(), coordinate);
    if (found == split.places.end()) {
      return {0, 0};
    }
    index = found - split.places.begin();
  }
  if (!split.cuts.empty()) {
    return {split.cuts[index], split.cuts[index + 1]};
  }
  return splitRule(size, mesh.sizeOf(split.atoms), index, split.unit);
}

std::vector<Piece> piecesOf(int64_t size, const Split &split, const Mesh &mesh,
                            int64_t device) {
  std::vector<Piece> pieces;
  auto add = [&](const Piece &piece) {
    if (piece.size() > 0) {
      pieces.push_back(piece);
    }
  };
  if (isContiguous(split)) {
    add(pieceOf(size, split, mesh, device));
    return pieces;
  }
  int64_t coordinate = mesh.rankAlong(device, split.atoms);
  int64_t count = static_cast<int64_t>(split.places.size());
  for (int64_t i = 0; i < count; ++i) {
    if (split.places[i] == coordinate) {
      add(split.cuts.empty() ? splitRule(size, count, i, split.unit)
                             : Piece{split.cuts[i], split.cuts[i + 1]});
    }
  }
  return pieces;
}

int64_t heldBy(int64_t size, const Split &split, const Mesh &mesh,
               int64_t device) {
  if (isContiguous(split)) {
    return pieceOf(size, split, mesh, device).size();
  }
  int64_t held = 0;
  for (const Piece &piece : piecesOf(size, split, mesh, device)) {
    held += piece.size();
  }
  return held;
}

/// The most of several pieces on one coordinate.
static int64_t mostHeld(int64_t size, const Split &split, const Mesh &mesh) {
  std::vector<int64_t> held(mesh.sizeOf(split.atoms));
  int64_t count = static_cast<int64_t>(split.places.size());
  for (int64_t i = 0; i < count; ++i) {
    held[split.places[i]] += split.cuts.empty()
                                 ? splitRule(size, count, i, split.unit).size()
                                 : split.cuts[i + 1] - split.cuts[i];
  }
  return *std::max_element(held.begin(), held.end());
}

/// Where the pieces begin, and the size.
static std::vector<int64_t> cutsOf(int64_t size, const Split &split,
                                   const Mesh &mesh) {
  if (!split.cuts.empty()) {
    return split.cuts;
  }
  int64_t count = mesh.sizeOf(split.atoms);
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i < count; ++i) {
    cuts.push_back(splitRule(size, count, i, split.unit).begin);
  }
  cuts.push_back(size);
  return cuts;
}

Split windowOf(int64_t size, const Split &split, int64_t offset,
               int64_t windowSize, const Mesh &mesh) {
  if (split.isWhole() || (offset == 0 && size == windowSize)) {
    return split;
  }
  Split window;
  window.atoms = split.atoms;
  window.places = split.places;
  window.cuts = cutsOf(size, split, mesh);
  for (int64_t &cut : window.cuts) {
    cut = std::clamp<int64_t>(cut + offset, 0, windowSize);
  }
  window.cuts.front() = 0;
  window.cuts.back() = windowSize;
  Split rule;
  rule.atoms = split.atoms;
  if (window.places.empty() && window.cuts == cutsOf(windowSize, rule, mesh)) {
    return rule;
  }
  return window;
}

int64_t largestPiece(int64_t size, const Split &split, const Mesh &mesh) {
  if (!isContiguous(split)) {
    return mostHeld(size, split, mesh);
  }
  if (!split.cuts.empty()) {
    int64_t largest = 0;
    for (size_t i = 0; i + 1 < split.cuts.size(); ++i) {
      largest = std::max(largest, split.cuts[i + 1] - split.cuts[i]);
    }
    return largest;
  }
  int64_t count = mesh.sizeOf(split.atoms);
  int64_t units = ceilDiv(size, split.unit);
  return std::min(size, ceilDiv(units, count) * split.unit);
}

std::string describe(const Layout &layout,
                     const std::vector<std::string> &names, const Mesh &mesh) {
  std::string text = "[";
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    text += (i ? ", " : "") + names[i];
    if (!layout.dims[i].isWhole()) {
      text += ": " + mesh.describe(layout.dims[i].atoms);
    }
  }
  if (layout.isPartial()) {
    const char *kinds[] = {"sum", "max", "min"};
    text += std::string("; ") + kinds[static_cast<size_t>(layout.reduction)] +
            " over " + mesh.describe(layout.partial);
  }
  return text + "]";
}

} // namespace cleave::layout
