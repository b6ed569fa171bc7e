//===- ReshardTest.cpp - The cheapest way from one layout to another ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reshard/Reshard.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace cleave;
using namespace cleave::layout;
using reshard::Kind;
using reshard::Path;
using reshard::Subject;

namespace {

using Atoms = std::vector<AtomId>;

Mesh meshOf(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::string name(1, static_cast<char>('a' + i));
    mesh.atoms.push_back({name, sizes[i]});
    mesh.axes.push_back({name, {static_cast<AtomId>(i)}});
  }
  return mesh;
}

Layout layoutOf(std::vector<Atoms> dims, Atoms partial = {}) {
  Layout layout;
  for (Atoms &atoms : dims) {
    Split split;
    split.atoms = std::move(atoms);
    layout.dims.push_back(split);
  }
  layout.partial = std::move(partial);
  return layout;
}

/// `all_to_all(01) local_slice(2)`: the moves and their atoms.
std::string spell(const Path &path) {
  std::string text;
  for (const reshard::Move &move : path.moves) {
    text += (text.empty() ? "" : " ") + std::string(nameOf(move.kind)) + "(";
    for (AtomId atom : move.atoms) {
      text += std::to_string(atom);
    }
    text += ")";
  }
  return text;
}

std::string search(const Layout &from, const Layout &to,
                   std::vector<int64_t> sizes, const Mesh &mesh) {
  std::optional<Path> path = reshard::reshard(from, to, {sizes, 4, &mesh});
  return path ? spell(*path) : "none";
}

} // namespace

TEST(Reshard, NothingToDo) {
  Mesh mesh = meshOf({2, 2});
  EXPECT_EQ(search(layoutOf({{0}, {}}), layoutOf({{0}, {}}), {8, 8}, mesh), "");
}

// field-cases: pytorch #132751, #164902.
TEST(Reshard, SwapsAxesByAllToAllOnly) {
  Mesh mesh = meshOf({2, 2});
  EXPECT_EQ(search(layoutOf({{0}, {1}}), layoutOf({{1}, {0}}), {8, 8}, mesh),
            "all_to_all(01)");
  EXPECT_EQ(search(layoutOf({{0}, {1}}), layoutOf({{1}, {0}}), {5, 3}, mesh),
            "all_to_all(01)");
  EXPECT_EQ(search(layoutOf({{0}, {}}), layoutOf({{}, {0}}), {7, 5}, mesh),
            "all_to_all(0)");
}

// field-cases: tt-xla #3071.
TEST(Reshard, ReducesAndSlicesAtOnce) {
  Mesh mesh = meshOf({4, 2});
  EXPECT_EQ(search(layoutOf({{}, {}}, {0}), layoutOf({{0}, {}}), {8, 8}, mesh),
            "reduce_scatter(0)");
  EXPECT_EQ(search(layoutOf({{}, {}}, {0}), layoutOf({{}, {}}), {8, 8}, mesh),
            "all_reduce(0)");
  EXPECT_EQ(
      search(layoutOf({{}, {}}, {0, 1}), layoutOf({{0}, {1}}), {8, 8}, mesh),
      "reduce_scatter(01)");
}

TEST(Reshard, ScattersBeforeItReduces) {
  // Reducing b on what is left after scattering a sends less.
  Mesh mesh = meshOf({4, 2});
  EXPECT_EQ(
      search(layoutOf({{}, {}}, {0, 1}), layoutOf({{0}, {}}), {8, 8}, mesh),
      "reduce_scatter(0) all_reduce(1)");
}

// field-cases: autoparallel #459.
TEST(Reshard, GathersOverBothAxesAtOnce) {
  Mesh mesh = meshOf({2, 2});
  EXPECT_EQ(search(layoutOf({{0, 1}}), layoutOf({{}}), {8}, mesh),
            "all_gather(01)");
  EXPECT_EQ(search(layoutOf({{0, 1}}), layoutOf({{}}), {5}, mesh),
            "all_gather(01)");
  EXPECT_EQ(search(layoutOf({{0}, {1}}), layoutOf({{}, {}}), {5, 3}, mesh),
            "all_gather(01)");
}

TEST(Reshard, BringsAMajorAtomToItsPlace) {
  Mesh mesh = meshOf({2, 4});
  EXPECT_EQ(search(layoutOf({{1}}), layoutOf({{0, 1}}), {16}, mesh),
            "local_slice(0) all_to_all(01)");
  EXPECT_EQ(search(layoutOf({{0, 1}}), layoutOf({{1, 0}}), {16}, mesh),
            "all_to_all(01)");
  EXPECT_EQ(search(layoutOf({{0, 1}}), layoutOf({{0}}), {16}, mesh),
            "all_gather(1)");
}

TEST(Reshard, PrefersTheStraightWay) {
  // As many bytes and steps as scattering and gathering over both.
  Mesh mesh = meshOf({2, 4});
  EXPECT_EQ(search(layoutOf({{1}, {}}, {0}), layoutOf({{}, {}}), {16, 8}, mesh),
            "all_reduce(0) all_gather(1)");
}

TEST(Reshard, SlicesForNothing) {
  Mesh mesh = meshOf({2, 4});
  EXPECT_EQ(search(layoutOf({{0}, {}}), layoutOf({{0}, {1}}), {5, 3}, mesh),
            "local_slice(1)");
  EXPECT_EQ(search(layoutOf({{}, {}}), layoutOf({{0}, {1}}), {5, 3}, mesh),
            "local_slice(01)");
  EXPECT_EQ(
      search(layoutOf({{}, {}}, {0}), layoutOf({{}, {1}}, {0}), {5, 3}, mesh),
      "local_slice(1)");
}

TEST(Reshard, OtherCutsAreOtherSplits) {
  Mesh mesh = meshOf({2, 2});
  Layout byTwo = layoutOf({{0}});
  byTwo.dims[0].unit = 2;
  Layout uneven = layoutOf({{0}});
  uneven.dims[0].cuts = {0, 1, 6};
  EXPECT_EQ(search(byTwo, layoutOf({{0}}), {6}, mesh), "all_to_all(0)");
  EXPECT_EQ(search(uneven, layoutOf({{0}}), {6}, mesh), "shift(0)");
  EXPECT_EQ(search(uneven, layoutOf({{0, 1}}), {6}, mesh),
            "shift(0) local_slice(1)");
  EXPECT_EQ(search(layoutOf({{}}), uneven, {6}, mesh), "local_slice(0)");
  EXPECT_EQ(search(uneven, layoutOf({{}}), {6}, mesh), "all_gather(0)");
  EXPECT_EQ(search(byTwo, layoutOf({{}}), {6}, mesh), "all_gather(0)");
}

TEST(Reshard, ShiftsOnlyWhatChangesItsOwner) {
  // The worked example of the header: elements 3, 7 and 11 go one device down.
  Mesh mesh = meshOf({4});
  Layout from = layoutOf({{0}}), to = layoutOf({{0}});
  from.dims[0].cuts = {0, 3, 7, 11, 15};
  to.dims[0].cuts = {0, 4, 8, 12, 15};
  std::optional<Path> path = reshard::reshard(from, to, {{15}, 4, &mesh});
  ASSERT_EQ(spell(*path), "shift(0)");
  EXPECT_EQ(path->total, 3 * 4);
  EXPECT_EQ(path->moves.front().traffic.busiest, 1 * 4);
}

TEST(Reshard, RollTraffic) {
  // 16 rows of 3 over 4 devices, by one: each sends the row at its edge.
  Mesh mesh = meshOf({4, 2});
  Layout layout = layoutOf({{0}, {}});
  Subject subject = {{16, 3}, 4, &mesh};
  reshard::Traffic edge = reshard::rollTraffic(layout, layout, 0, 15, subject);
  EXPECT_EQ(edge.busiest, 3 * 4);
  EXPECT_EQ(edge.total, 8 * 3 * 4) << "each of two replicas";
  // By a whole piece everything moves.
  EXPECT_EQ(reshard::rollTraffic(layout, layout, 0, 4, subject).total,
            8 * 4 * 3 * 4);
  // Columns are split as well: half a row.
  Layout both = layoutOf({{0}, {1}});
  EXPECT_EQ(reshard::rollTraffic(both, both, 0, 1, subject).total, 4 * 3 * 4);
  // 5 rows over 4 devices are 2, 1, 1, 1.
  subject.sizes = {5, 3};
  reshard::Traffic uneven = reshard::rollTraffic(layout, layout, 0, 1, subject);
  EXPECT_EQ(uneven.busiest, 3 * 4);
  EXPECT_EQ(uneven.total, 2 * 4 * 3 * 4);
}

TEST(Reshard, RefusesWhatMemoryForbids) {
  Mesh mesh = meshOf({4});
  Subject subject = {{16}, 4, &mesh};
  EXPECT_FALSE(reshard::reshard(layoutOf({{0}}), layoutOf({{}}), subject, 32));
  EXPECT_TRUE(reshard::reshard(layoutOf({{0}}), layoutOf({{}}), subject, 64));
}

// numbers.md, section 2.
TEST(Reshard, Bytes) {
  Mesh mesh = meshOf({8, 2});
  Subject subject = {{64, 32}, 4, &mesh};
  const int64_t s = 64 * 32 * 4;
  auto only = [&](const Layout &from, const Layout &to) {
    std::optional<Path> path = reshard::reshard(from, to, subject);
    EXPECT_EQ(path->moves.size(), 1u);
    return path->moves.front().traffic;
  };
  Layout whole = layoutOf({{}, {}}), rows = layoutOf({{0}, {}}),
         columns = layoutOf({{}, {0}}), sum = layoutOf({{}, {}}, {0});
  EXPECT_EQ(only(sum, whole).busiest, 2 * 7 * s / 8);
  EXPECT_EQ(only(sum, whole).total, 16 * 2 * 7 * s / 8);
  EXPECT_EQ(only(sum, rows).busiest, 7 * s / 8);
  EXPECT_EQ(only(rows, whole).busiest, 7 * s / 8);
  EXPECT_EQ(only(rows, whole).total, 16 * 7 * s / 8);
  EXPECT_EQ(only(rows, columns).busiest, 7 * (s / 8) / 8);
  EXPECT_EQ(only(rows, columns).total, 16 * 7 * (s / 8) / 8);
}

/// Bytes by walking every device, whatever the pieces: what a device gives to
/// the others of its group.
static int64_t bruteTotal(const reshard::Move &move, const Layout &from,
                          const Subject &subject) {
  const Mesh &mesh = *subject.mesh;
  int64_t total = 0;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    int64_t before = 1, after = 1, kept = 1;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      Piece a = pieceOf(subject.sizes[d], from.dims[d], mesh, device);
      Piece b = pieceOf(subject.sizes[d], move.result.dims[d], mesh, device);
      before *= a.size();
      after *= b.size();
      kept *= std::max<int64_t>(0, std::min(a.end, b.end) -
                                       std::max(a.begin, b.begin));
    }
    switch (move.kind) {
    case Kind::LocalSlice:
      break;
    case Kind::AllGather: // receives what it lacks
    case Kind::AllToAll:
      total += after - kept;
      break;
    case Kind::ReduceScatter: // sends what it does not keep
      total += before - after;
      break;
    case Kind::AllReduce:
      total += 2 * before;
      break;
    }
  }
  if (move.kind == Kind::AllReduce) {
    int64_t n = mesh.sizeOf(move.atoms);
    total = total / n * (n - 1);
  }
  return total * subject.elementBytes;
}

/// Every layout of two dims on the atoms of a mesh, pending atoms too.
static std::vector<Layout> everyLayout(const Mesh &mesh, bool partial) {
  std::vector<Layout> all = {layoutOf({{}, {}})};
  Atoms order;
  for (AtomId atom = 0; atom < mesh.atoms.size(); ++atom) {
    order.push_back(atom);
  }
  std::vector<Layout> grown;
  do {
    std::vector<Layout> partials = {layoutOf({{}, {}})};
    for (AtomId atom : order) {
      std::vector<Layout> next;
      for (const Layout &layout : partials) {
        next.push_back(layout);
        for (size_t d = 0; d < 2; ++d) {
          next.push_back(layout);
          next.back().dims[d].atoms.push_back(atom);
        }
        if (partial) {
          next.push_back(layout);
          next.back().partial.push_back(atom);
        }
      }
      partials = next;
    }
    for (Layout &layout : partials) {
      std::sort(layout.partial.begin(), layout.partial.end());
      if (std::find(all.begin(), all.end(), layout) == all.end()) {
        all.push_back(layout);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

TEST(Reshard, EveryPairOnSmallMeshes) {
  for (const std::vector<int64_t> &sizes :
       {std::vector<int64_t>{2, 2}, {3, 2}, {4}}) {
    Mesh mesh = meshOf(sizes);
    Subject subject = {{5, 7}, 4, &mesh};
    std::vector<Layout> targets = everyLayout(mesh, false);
    for (const Layout &from : everyLayout(mesh, true)) {
      for (const Layout &to : targets) {
        std::optional<Path> path = reshard::reshard(from, to, subject);
        ASSERT_TRUE(path);
        Layout at = from;
        for (const reshard::Move &move : path->moves) {
          EXPECT_EQ(move.traffic.total, bruteTotal(move, at, subject))
              << nameOf(move.kind);
          EXPECT_LE(move.traffic.total, move.traffic.busiest * mesh.devices());
          at = move.result;
        }
        EXPECT_EQ(at, to);
        // Never more than gathering everything, reducing and slicing.
        Layout whole = layoutOf({{}, {}});
        std::optional<Path> naive = reshard::reshard(from, whole, subject);
        EXPECT_LE(path->total, naive->total);
      }
    }
  }
}
