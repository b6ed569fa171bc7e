//===- Layout.h - Where the pieces of a value live --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vocabulary of layouts, shared by the dialects, the compiler and the
// runtime. It depends on nothing but the standard library.
//
// Definition. A *mesh* is a list of *atoms*, major first: indivisible axes with
// sizes. A device is one coordinate along every atom; device numbers count the
// minor atom fastest. What a plan calls an axis is an ordered list of atoms, so
// that nested axes, products of axes and views are all lists of atoms.
//
// A *layout* gives each dim of a value a *split*: an ordered list of atoms,
// major first, over whose product the dim is cut once. By the *split rule*
// piece i of n elements over k coordinates is
//
//     [ceil(i*n/k), ceil((i+1)*n/k))
//
// so sizes differ by at most one, and the pieces over (a, b) inside one
// coordinate of a are exactly that coordinate's piece over a:
// ceil(i*b*n / (a*b)) == ceil(i*n/a). Gathering the minor atoms therefore gives
// the split by the major ones, for every n and without padding.
//
//   n = 7, k = 4:  [0,2) [2,4) [4,6) [6,7)      sizes 2,2,2,1
//   n = 5, k = 8:  1,1,1,0,1,1,0 ... some devices hold nothing
//
// With a *unit* u the rule cuts n/u units. Explicit *cuts* replace the rule and
// *places* say which coordinate takes which piece. Atoms that split no dim hold
// replicas, unless the value is *partial* over them: then the value is the sum
// (or max, or min) of what the coordinates hold. A value may *reside* on a part
// of an atom only.
//
// The last atoms of a mesh may be *times*: a device runs through their
// coordinates one after the other (microbatches), and holds at each *instant*
// the piece that a device there would hold. A value that is partial over a time
// is a sum that is added up as time goes on. A *point* is a device at an
// instant; devices at the first instant have their own numbers, so that what no
// time splits need not know of times.
//
// A *window* on a dim is another dim whose index is that of the first plus a
// constant *offset*: elements 4 to 16 of a dim have the offset -4, a dim of 12
// at 2 of a larger one has the offset 2. Devices that keep the elements they
// have hold a window by explicit cuts:
//
//   n = 16, k = 4:   [0,4) [4,8) [8,12) [12,16)
//   elements 5..16:  [0,0) [0,3) [3,7)  [7,11)    the first device has none
//
// A coordinate may be the place of several pieces (dealt and folded rounds): it
// holds them one after the other, in the order of pieces. What asks for one
// piece checks `isContiguous` first.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LAYOUT_LAYOUT_H
#define CLEAVE_LAYOUT_LAYOUT_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cleave::layout {

/// The position of an atom in `Mesh::atoms`.
using AtomId = uint32_t;

struct Atom {
  std::string name; ///< as messages show it: `tensor`, `context.ring`
  int64_t size = 1;

  bool operator==(const Atom &) const = default;
};

/// A name that plans use for an ordered product of atoms.
struct Axis {
  std::string name;
  std::vector<AtomId> atoms; ///< major first

  bool operator==(const Axis &) const = default;
};

struct Mesh {
  std::vector<Atom> atoms; ///< major first
  std::vector<Axis> axes;  ///< named by the plan: mesh axes, factors, views
  size_t times = 0;        ///< how many of the atoms, the last ones, are times

  /// Product of the atoms that are not times.
  int64_t devices() const;
  /// Product of those that are.
  int64_t instants() const;
  bool isTime(AtomId atom) const { return atom + times >= atoms.size(); }
  /// A device at an instant: what the functions below take for a device.
  int64_t pointAt(int64_t device, int64_t instant) const {
    return instant * devices() + device;
  }
  /// Product of the sizes of `atoms`.
  int64_t sizeOf(const std::vector<AtomId> &atoms) const;
  /// The coordinate of `device` along each atom.
  std::vector<int64_t> coordinateOf(int64_t device) const;
  int64_t deviceAt(const std::vector<int64_t> &coordinate) const;
  /// The rank of `device` along the ordered product `atoms` (major first).
  int64_t rankAlong(int64_t device, const std::vector<AtomId> &atoms) const;
  /// The devices that differ from `device` only along `atoms`, by rank.
  std::vector<int64_t> groupOf(int64_t device,
                               const std::vector<AtomId> &atoms) const;
  const Axis *findAxis(const std::string &name) const;
  /// `data * context.ring`: axis names where they cover whole axes.
  std::string describe(const std::vector<AtomId> &atoms) const;

  bool operator==(const Mesh &) const = default;
};

/// A half-open interval of global indices.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Piece &) const = default;
};

/// Piece `index` of `size` elements over `count` coordinates by the split rule.
Piece splitRule(int64_t size, int64_t count, int64_t index, int64_t unit = 1);

/// How one dim is cut.
struct Split {
  std::vector<AtomId> atoms;   ///< major first; empty = whole
  int64_t unit = 1;            ///< cuts are multiples of it
  std::vector<int64_t> cuts;   ///< explicit boundaries, first 0 and last the
                               ///< size; empty = the split rule
  std::vector<int64_t> places; ///< the coordinate of each piece; empty =
                               ///< piece i on coordinate i

  bool isWhole() const { return atoms.empty(); }
  bool operator==(const Split &) const = default;
};

enum class Reduction : uint8_t { Sum, Max, Min };

/// Coordinates [begin, end) of an atom: where a value lives at all.
struct Residence {
  AtomId atom = 0;
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Residence &) const = default;
};

struct Layout {
  std::vector<Split> dims;     ///< one for each dim of the value, in its order
  std::vector<AtomId> partial; ///< atoms with a pending reduction, ascending
  Reduction reduction = Reduction::Sum; ///< of `partial`
  std::vector<Residence> residence;     ///< empty = everywhere

  /// The atoms that split a dim or are partial.
  std::vector<AtomId> usedAtoms() const;
  bool uses(AtomId atom) const;
  bool isPartial() const { return !partial.empty(); }
  bool operator==(const Layout &) const = default;
};

/// Whether every coordinate holds one contiguous piece.
bool isContiguous(const Split &split);

/// The piece of a dim of `size` elements that `device` holds.
Piece pieceOf(int64_t size, const Split &split, const Mesh &mesh,
              int64_t device);

/// All pieces that `device` holds, in their order; empty ones left out.
std::vector<Piece> piecesOf(int64_t size, const Split &split, const Mesh &mesh,
                            int64_t device);

/// How many elements of a dim `device` holds.
int64_t heldBy(int64_t size, const Split &split, const Mesh &mesh,
               int64_t device);

/// The split of a dim of `windowSize` elements, whose index is that of a dim of
/// `size` elements split by `split` plus `offset`, where every coordinate keeps
/// the elements that it has. Elements of the window that the other dim lacks
/// lie with their nearest neighbour. Explicit cuts, unless the split rule has
/// the same.
Split windowOf(int64_t size, const Split &split, int64_t offset,
               int64_t windowSize, const Mesh &mesh);

/// The most that any device holds: what buffers are sized for.
int64_t largestPiece(int64_t size, const Split &split, const Mesh &mesh);

/// `[batch: data, seq, ff: tensor; sum over data]`.
std::string describe(const Layout &layout, const std::vector<std::string> &dims,
                     const Mesh &mesh);

} // namespace cleave::layout

#endif // CLEAVE_LAYOUT_LAYOUT_H
