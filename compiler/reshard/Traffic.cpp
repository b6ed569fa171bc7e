//===- Traffic.cpp - The bytes that a move sends --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A move's total is over all instants while ways are compared, and of one
// instant where it is reported.
//
// Sums over devices are closed forms: the pieces of a dim over its split add up
// to the dim, so the local sizes of all devices add up to the value's size
// times its copies. The busiest device needs the sizes of single pieces. Where
// dims divide evenly all pieces are alike; else the coordinates of one dim are
// walked, never the devices.
//
//===----------------------------------------------------------------------===//

#include "compiler/reshard/Reshard.h"

#include <algorithm>
#include <set>
#include <span>

namespace cleave::reshard {

using layout::AtomId;
using layout::Layout;
using layout::Mesh;
using layout::Piece;
using layout::Split;

namespace {

/// A device seen by some atoms alone; all others at coordinate 0.
class Coordinates {
public:
  Coordinates(const Mesh &mesh, std::vector<AtomId> atoms)
      : mesh(mesh), atoms(std::move(atoms)), coordinate(mesh.atoms.size()) {}

  int64_t count() const { return mesh.sizeOf(atoms); }
  int64_t device(int64_t index) {
    for (size_t i = atoms.size(); i-- > 0;) {
      coordinate[atoms[i]] = index % mesh.atoms[atoms[i]].size;
      index /= mesh.atoms[atoms[i]].size;
    }
    return mesh.deviceAt(coordinate);
  }

private:
  const Mesh &mesh;
  std::vector<AtomId> atoms;
  std::vector<int64_t> coordinate;
};

bool isEven(int64_t size, const Split &split, const Mesh &mesh) {
  return split.cuts.empty() && split.places.empty() &&
         size % (split.unit * mesh.sizeOf(split.atoms)) == 0;
}

} // namespace

int64_t localElements(const Layout &layout, const Subject &subject) {
  int64_t elements = 1;
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    elements *= largestPiece(subject.sizes[d], layout.dims[d], *subject.mesh);
  }
  return elements;
}

/// What all devices hold at all instants.
static int64_t points(const Mesh &mesh) {
  return mesh.devices() * mesh.instants();
}

/// The local elements of all devices together, at all instants.
static int64_t allElements(const Layout &layout, const Subject &subject) {
  int64_t elements = points(*subject.mesh);
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    elements /= subject.mesh->sizeOf(layout.dims[d].atoms);
  }
  for (int64_t size : subject.sizes) {
    elements *= size;
  }
  return elements;
}

/// The pairs of piece sizes that a device may have of one dim before and after.
static std::set<std::pair<int64_t, int64_t>>
piecePairs(int64_t size, const Split &from, const Split &to, const Mesh &mesh) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  if (isEven(size, from, mesh) && isEven(size, to, mesh)) {
    pairs.insert(
        {size / mesh.sizeOf(from.atoms), size / mesh.sizeOf(to.atoms)});
    return pairs;
  }
  const Split &finer = from.atoms.size() > to.atoms.size() ? from : to;
  Coordinates coordinates(mesh, finer.atoms);
  for (int64_t i = 0, n = coordinates.count(); i < n; ++i) {
    int64_t device = coordinates.device(i);
    pairs.insert(
        {heldBy(size, from, mesh, device), heldBy(size, to, mesh, device)});
  }
  return pairs;
}

/// The most that a device has before and has not after: max over pieces of
/// (product before - product after).
static int64_t mostGivenAway(const Layout &from, const Layout &to,
                             const Subject &subject) {
  std::set<std::pair<int64_t, int64_t>> products = {{1, 1}};
  for (size_t d = 0; d < from.dims.size(); ++d) {
    std::set<std::pair<int64_t, int64_t>> next;
    for (auto [before, after] : piecePairs(subject.sizes[d], from.dims[d],
                                           to.dims[d], *subject.mesh)) {
      for (auto [a, b] : products) {
        next.insert({a * before, b * after});
      }
    }
    products = std::move(next);
  }
  int64_t most = 0;
  for (auto [before, after] : products) {
    most = std::max(most, before - after);
  }
  return most;
}

static int64_t overlap(const Piece &a, const Piece &b) {
  return std::max<int64_t>(0,
                           std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

/// Whether a dim changes by whole atoms at its minor end alone, evenly: then
/// what a device keeps of it has one size, that of the finer piece.
static bool keepsAlike(int64_t size, const Split &from, const Split &to,
                       const Mesh &mesh) {
  return isEven(size, from, mesh) && isEven(size, to, mesh) &&
         (refines(from, to) || refines(to, from));
}

/// One side of a dim that changes: what each coordinate along its atoms has.
class Side {
public:
  Side(int64_t size, const Split &split, const Mesh &mesh,
       const std::vector<AtomId> &walked)
      : strides(walked.size()) {
    int64_t count = mesh.sizeOf(split.atoms);
    bool isRule = split.cuts.empty() && split.places.empty();
    Coordinates coordinates(mesh, split.atoms);
    pieces.reserve(count);
    ends.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      if (isRule) {
        pieces.push_back(layout::splitRule(size, count, i, split.unit));
      } else {
        std::vector<Piece> own =
            piecesOf(size, split, mesh, coordinates.device(i));
        pieces.insert(pieces.end(), own.begin(), own.end());
      }
      ends.push_back(pieces.size());
    }
    int64_t stride = 1;
    for (size_t i = split.atoms.size(); i-- > 0;) {
      size_t at =
          std::lower_bound(walked.begin(), walked.end(), split.atoms[i]) -
          walked.begin();
      strides[at] = stride;
      stride *= mesh.atoms[split.atoms[i]].size;
    }
  }

  /// The pieces at a coordinate of the atoms that are walked.
  std::span<const Piece> at(const std::vector<int64_t> &coordinate) const {
    int64_t rank = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      rank += strides[i] * coordinate[i];
    }
    size_t begin = rank == 0 ? 0 : ends[rank - 1];
    return {pieces.data() + begin, pieces.data() + ends[rank]};
  }

private:
  std::vector<Piece> pieces;    ///< of all ranks
  std::vector<size_t> ends;     ///< of each rank's, in `pieces`
  std::vector<int64_t> strides; ///< of the rank, by atom that is walked
};

/// How one dim changes.
struct Change {
  int64_t size = 0;
  Split from, to;

  Change(int64_t size, Split from, Split to)
      : size(size), from(std::move(from)), to(std::move(to)) {}

  /// Without the major atoms that both have: where pieces are even, each of
  /// their coordinates sees the same.
  void dropCommon(const Mesh &mesh) {
    if (!isEven(size, from, mesh) || !isEven(size, to, mesh)) {
      return;
    }
    size_t common = 0;
    while (common < std::min(from.atoms.size(), to.atoms.size()) &&
           from.atoms[common] == to.atoms[common]) {
      size /= mesh.atoms[from.atoms[common]].size;
      ++common;
    }
    for (Split *split : {&from, &to}) {
      split->atoms.erase(split->atoms.begin(), split->atoms.begin() + common);
      split->unit = 1;
    }
  }
};

/// What devices have of several dims before, and what they keep of it: the sum
/// and the largest difference over all coordinates of the atoms of these dims.
struct Walk {
  int64_t coordinates = 1;
  int64_t most = 0, sum = 0;

  /// Of `before` and `kept` times what the dims have.
  Walk(const std::vector<Change> &changes, int64_t before, int64_t kept,
       const Mesh &mesh);
};

Walk::Walk(const std::vector<Change> &changes, int64_t before, int64_t kept,
           const Mesh &mesh) {
  std::set<AtomId> changing;
  for (const Change &change : changes) {
    changing.insert(change.from.atoms.begin(), change.from.atoms.end());
    changing.insert(change.to.atoms.begin(), change.to.atoms.end());
  }
  std::vector<AtomId> atoms(changing.begin(), changing.end());
  std::vector<std::pair<Side, Side>> sides;
  for (const Change &change : changes) {
    sides.emplace_back(Side(change.size, change.from, mesh, atoms),
                       Side(change.size, change.to, mesh, atoms));
  }
  coordinates = mesh.sizeOf(atoms);
  std::vector<int64_t> at(atoms.size());
  for (int64_t i = 0; i < coordinates; ++i) {
    int64_t has = before, keeps = kept;
    for (const auto &[from, to] : sides) {
      int64_t held = 0, common = 0;
      for (const Piece &a : from.at(at)) {
        held += a.size();
        for (const Piece &b : to.at(at)) {
          common += overlap(a, b);
        }
      }
      has *= held;
      keeps *= common;
    }
    most = std::max(most, has - keeps);
    sum += has - keeps;
    for (size_t j = atoms.size(); j-- > 0;) {
      if (++at[j] < mesh.atoms[atoms[j]].size) {
        break;
      }
      at[j] = 0;
    }
  }
}

/// Each device sends what it has and does not keep.
static Traffic allToAll(const Layout &from, const Layout &to,
                        const Subject &subject) {
  const Mesh &mesh = *subject.mesh;
  // Walked together are the atoms of dims in which devices differ in what they
  // keep; the other dims are factors.
  std::vector<Change> changes;
  int64_t fixedLargest = 1, fixedAll = 1;
  int64_t devices = points(mesh);
  int64_t alikeBefore = 1, alikeKept = 1;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const Split &x = from.dims[d], &y = to.dims[d];
    int64_t size = subject.sizes[d];
    if (x == y) {
      fixedLargest *= largestPiece(size, x, mesh);
      fixedAll *= size;
      devices /= mesh.sizeOf(x.atoms);
    } else if (keepsAlike(size, x, y, mesh)) {
      int64_t before = size / mesh.sizeOf(x.atoms);
      alikeBefore *= before;
      alikeKept *= std::min(before, size / mesh.sizeOf(y.atoms));
    } else {
      changes.emplace_back(size, x, y).dropCommon(mesh);
    }
  }
  Walk walk(changes, alikeBefore, alikeKept, mesh);
  return {walk.most * fixedLargest,
          walk.sum * fixedAll * (devices / walk.coordinates)};
}

Traffic rollTraffic(const Layout &from, const Layout &to, size_t dim,
                    int64_t by, const Subject &subject) {
  const Mesh &mesh = *subject.mesh;
  const Split &before = from.dims[dim], &after = to.dims[dim];
  int64_t size = subject.sizes[dim];
  // Coordinates of the dim's own atoms; the others hold other rows or copies.
  Coordinates coordinates(mesh, before.atoms);
  int64_t most = 0, sum = 0;
  for (int64_t i = 0, n = coordinates.count(); i < n; ++i) {
    int64_t device = coordinates.device(i);
    Piece has = pieceOf(size, before, mesh, device);
    Piece gets = pieceOf(size, after, mesh, device);
    Piece there = {has.begin + by, has.end + by};
    Piece around = {there.begin - size, there.end - size};
    int64_t sent = has.size() - overlap(there, gets) - overlap(around, gets);
    most = std::max(most, sent);
    sum += sent;
  }
  Layout rest = from;
  rest.dims[dim] = Split();
  int64_t rows = localElements(rest, subject) / size;
  int64_t allRows =
      allElements(rest, subject) / size / mesh.sizeOf(before.atoms);
  // Once, hence at one instant of all.
  return {most * rows * subject.elementBytes,
          sum * allRows * subject.elementBytes / mesh.instants()};
}

static bool isInTime(const std::vector<AtomId> &atoms, const Mesh &mesh) {
  return std::any_of(atoms.begin(), atoms.end(),
                     [&](AtomId atom) { return mesh.isTime(atom); });
}

int64_t totalOf(Kind kind, const std::vector<AtomId> &atoms, const Layout &from,
                const Layout &to, const Subject &subject) {
  int64_t n = subject.mesh->sizeOf(atoms);
  if (isInTime(atoms, *subject.mesh)) {
    return 0;
  }
  switch (kind) {
  case Kind::LocalSlice:
    return 0;
  case Kind::AllGather:
    return allElements(from, subject) * (n - 1) * subject.elementBytes;
  case Kind::AllToAll:
  case Kind::Shift:
    return allToAll(from, to, subject).total * subject.elementBytes;
  case Kind::AllReduce:
    return allElements(from, subject) / n * 2 * (n - 1) * subject.elementBytes;
  case Kind::ReduceScatter:
    return allElements(from, subject) / n * (n - 1) * subject.elementBytes;
  }
  return 0;
}

Traffic trafficOf(Kind kind, const std::vector<AtomId> &atoms,
                  const Layout &from, const Layout &to,
                  const Subject &subject) {
  int64_t n = subject.mesh->sizeOf(atoms);
  Traffic traffic;
  if (isInTime(atoms, *subject.mesh)) {
    return traffic;
  }
  // Once, hence at one instant of all.
  traffic.total =
      totalOf(kind, atoms, from, to, subject) / subject.mesh->instants();
  switch (kind) {
  case Kind::LocalSlice:
    break;
  case Kind::AllGather:
    traffic.busiest = localElements(from, subject) * (n - 1);
    break;
  case Kind::AllToAll:
  case Kind::Shift:
    traffic.busiest = allToAll(from, to, subject).busiest;
    break;
  case Kind::AllReduce: {
    // In n chunks: every device sends all but its own, then its own to all.
    int64_t local = localElements(from, subject);
    traffic.busiest = n == 2 ? local : local + (n - 2) * ((local + n - 1) / n);
    break;
  }
  case Kind::ReduceScatter:
    traffic.busiest = mostGivenAway(from, to, subject);
    break;
  }
  traffic.busiest *= subject.elementBytes;
  return traffic;
}

} // namespace cleave::reshard
