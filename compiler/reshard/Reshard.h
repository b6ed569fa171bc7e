//===- Reshard.h - The cheapest way from one layout to another --*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. A *move* turns a value of one layout into the same value of
// another. There are six:
//
//   local_slice      unused atoms split a dim further; nothing is sent
//   all_gather       the minor atoms of a dim (of several dims) are given up
//   all_to_all       atoms go from one dim to another, or change their order
//   shift            a dim gets other cuts on the same atoms, some explicit
//   all_reduce       pending atoms are reduced on every device
//   reduce_scatter   pending atoms are reduced and split a dim further
//
// A split only gains or loses atoms at its minor end: the pieces over (a, b)
// nest in those over a, never in those over b. Where a major atom has to go, an
// all_to_all brings it to the end, or takes it away, in one step. Splits with
// different units, cuts or places are different splits of a dim: one all_to_all
// (a shift, where cuts or places are explicit) turns one into the other where
// both use the same atoms, else the dim is gathered.
//
// Reshard is the shortest path over layouts, where a move's length is what all
// devices send together; the number of moves decides between equal lengths,
// then how many do not lead straight to the target, then the order in which
// moves are listed in Reshard.cpp. So the answer is the same on every machine.
// Lengths are sums over devices, not the busiest device's bytes, since those do
// not add up: one gather of 5 rows from 2 x 2 devices has a busiest device that
// sends 6 rows, two gathers after each other 2 + 3, though both send 15 rows in
// all.
//
// Worked examples, S bytes, atoms a = b = 2:
//
//   [a, b] -> [b, a]        one all_to_all over a, b, S/4 a device at most;
//                           gathering everything would send 3S/4
//   [whole; sum a] -> [a]   reduce_scatter, S/2; not all_reduce and slice, S
//   [(a, b)] -> [whole]     one all_gather over a, b, 3S/4; two gathers send
//                           S/4 + S/2, as much, in two steps
//   [(a)] -> [(b, a)]       local_slice to (a, b), all_to_all to (b, a)
//   cuts 0 3 7 11 15 -> 0 4 8 12 15 on a = 4: one shift that sends the three
//                           elements 3, 7 and 11; a gather would send 45
//
// Bytes a device sends, n devices in a group, a value of S bytes whole in the
// group: all_reduce 2(n-1)/n S, all_gather and reduce_scatter (n-1)/n S,
// all_to_all and shift of a local S what does not stay.
//
// Times. Along a time of the mesh nothing can be sent: a slice takes an
// instant's part, an all_reduce along times alone adds up as time goes on and
// sends nothing, and whatever else would need a time whole is impossible.
//
// Limits. A move that makes an intermediate value larger than both ends is
// taken only where there is no other way. All pieces are contiguous.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_RESHARD_RESHARD_H
#define CLEAVE_COMPILER_RESHARD_RESHARD_H

#include "layout/Layout.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace cleave::reshard {

enum class Kind : uint8_t {
  LocalSlice,
  AllGather,
  AllToAll,
  Shift,
  AllReduce,
  ReduceScatter
};

/// `all_gather`, as the spmd dialect and records call it.
const char *nameOf(Kind kind);

/// What a move sends.
struct Traffic {
  int64_t busiest = 0; ///< bytes sent by the device that sends most
  int64_t total = 0;   ///< bytes sent by all devices
};

struct Move {
  Kind kind = Kind::LocalSlice;
  std::vector<layout::AtomId> atoms; ///< along which devices take part
  layout::Layout result;
  Traffic traffic;
};

/// The value that moves.
struct Subject {
  std::vector<int64_t> sizes; ///< global, of its dims
  int64_t elementBytes = 4;
  const layout::Mesh *mesh = nullptr;
};

struct Path {
  std::vector<Move> moves;
  int64_t total = 0;      ///< bytes sent by all devices
  bool isPossible = true; ///< false: it would have to be whole in time
};

/// The `total` of what is impossible: more than any sum of possible ones.
inline constexpr int64_t impossible = int64_t(1) << 56;

/// Remembers what `reshard` found, of one mesh.
class Cache {
public:
  const Path &reshard(const layout::Layout &from, const layout::Layout &to,
                      const Subject &subject);

private:
  struct Hash {
    size_t operator()(const std::vector<int64_t> &key) const;
  };
  std::unordered_map<std::vector<int64_t>, Path, Hash> known;
  std::vector<int64_t> key; ///< of the question at hand: keeps its memory
};

/// The cheapest moves from `from` to `to`. The atoms pending in `to` must be
/// pending in `from`. With `memoryBytes`, no intermediate value is larger than
/// that on any device; nothing where that cannot be.
std::optional<Path> reshard(const layout::Layout &from,
                            const layout::Layout &to, const Subject &subject,
                            int64_t memoryBytes = -1);

/// The bytes that one move sends.
Traffic trafficOf(Kind kind, const std::vector<layout::AtomId> &atoms,
                  const layout::Layout &from, const layout::Layout &to,
                  const Subject &subject);

/// What one shift sends that also moves dim `dim` by `by` elements around its
/// end: what a device has of the result that it had not before.
Traffic rollTraffic(const layout::Layout &from, const layout::Layout &to,
                    size_t dim, int64_t by, const Subject &subject);

/// Its `total` alone, which costs less to know.
int64_t totalOf(Kind kind, const std::vector<layout::AtomId> &atoms,
                const layout::Layout &from, const layout::Layout &to,
                const Subject &subject);

/// The elements of the largest local piece.
int64_t localElements(const layout::Layout &layout, const Subject &subject);

/// Whether `longer` is `shorter`, or only adds minor atoms to it.
bool refines(const layout::Split &longer, const layout::Split &shorter);

} // namespace cleave::reshard

#endif // CLEAVE_COMPILER_RESHARD_RESHARD_H
