//===- LayoutTest.cpp - The split rule and what follows from it -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "layout/Layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace cleave::layout;

namespace {

Mesh meshOf(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.atoms.push_back({std::string(1, char('a' + i)), sizes[i]});
  }
  return mesh;
}

Split on(std::vector<AtomId> atoms) {
  Split split;
  split.atoms = std::move(atoms);
  return split;
}

std::vector<int64_t> sizesOf(int64_t size, int64_t count, int64_t unit = 1) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i) {
    sizes.push_back(splitRule(size, count, i, unit).size());
  }
  return sizes;
}

} // namespace

// Pieces are adjacent, cover everything, and differ by at most one; and they
// are the formula of the header.
TEST(SplitRule, PartitionsEvenly) {
  for (int64_t n = 0; n <= 70; ++n) {
    for (int64_t k = 1; k <= 40; ++k) {
      int64_t at = 0;
      for (int64_t i = 0; i < k; ++i) {
        Piece piece = splitRule(n, k, i);
        ASSERT_EQ(piece.begin, at);
        ASSERT_EQ(piece.begin, (i * n + k - 1) / k);
        ASSERT_GE(piece.size(), n / k);
        ASSERT_LE(piece.size(), (n + k - 1) / k);
        at = piece.end;
      }
      ASSERT_EQ(at, n);
    }
  }
}

// Gathering the minor axes of a split over (a, b) gives the split over a.
TEST(SplitRule, MinorAxesGatherToMajor) {
  for (int64_t n = 0; n <= 60; ++n) {
    for (int64_t a = 1; a <= 8; ++a) {
      for (int64_t b = 1; b <= 8; ++b) {
        for (int64_t i = 0; i < a; ++i) {
          Piece whole = splitRule(n, a, i);
          ASSERT_EQ(splitRule(n, a * b, i * b).begin, whole.begin);
          ASSERT_EQ(splitRule(n, a * b, i * b + b - 1).end, whole.end);
        }
      }
    }
  }
}

TEST(SplitRule, UnitsAreNotCut) {
  for (int64_t unit = 1; unit <= 9; ++unit) {
    for (int64_t n = 0; n <= 50; ++n) {
      for (int64_t k = 1; k <= 9; ++k) {
        int64_t at = 0;
        for (int64_t i = 0; i < k; ++i) {
          Piece piece = splitRule(n, k, i, unit);
          ASSERT_EQ(piece.begin, at);
          ASSERT_TRUE(piece.begin % unit == 0 || piece.begin == n);
          at = piece.end;
        }
        ASSERT_EQ(at, n);
      }
    }
  }
  // 7 heads of 64 over 4: not the cuts of 448 over 4.
  EXPECT_EQ(sizesOf(448, 4, 64), (std::vector<int64_t>{128, 128, 128, 64}));
  EXPECT_EQ(sizesOf(448, 4), (std::vector<int64_t>{112, 112, 112, 112}));
}

TEST(SplitRule, FieldCases) {
  EXPECT_EQ(sizesOf(7, 4), (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(sizesOf(6, 4), (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_EQ(sizesOf(12, 4), (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(sizesOf(5, 8), (std::vector<int64_t>{1, 1, 0, 1, 1, 0, 1, 0}));
  EXPECT_EQ(sizesOf(65, 4), (std::vector<int64_t>{17, 16, 16, 16}));
}

TEST(SplitRule, LargeSizesDoNotOverflow) {
  int64_t n = int64_t(1) << 50, k = int64_t(1) << 20;
  EXPECT_EQ(splitRule(n, k, k - 1).end, n);
  EXPECT_EQ(splitRule(n, k, k / 2).begin, n / 2);
}

TEST(Mesh, CoordinatesAndGroups) {
  Mesh mesh = meshOf({2, 3, 4});
  EXPECT_EQ(mesh.devices(), 24);
  for (int64_t device = 0; device < 24; ++device) {
    std::vector<int64_t> coordinate = mesh.coordinateOf(device);
    EXPECT_EQ(mesh.deviceAt(coordinate), device);
    EXPECT_EQ(device, (coordinate[0] * 3 + coordinate[1]) * 4 + coordinate[2]);
    EXPECT_EQ(mesh.rankAlong(device, {2, 0}),
              coordinate[2] * 2 + coordinate[0]);
    for (std::vector<AtomId> atoms :
         {std::vector<AtomId>{}, {1}, {2, 0}, {0, 1, 2}}) {
      std::vector<int64_t> group = mesh.groupOf(device, atoms);
      ASSERT_EQ(static_cast<int64_t>(group.size()), mesh.sizeOf(atoms));
      // Ranks are positions, and the device is in its own group.
      for (size_t rank = 0; rank < group.size(); ++rank) {
        EXPECT_EQ(mesh.rankAlong(group[rank], atoms),
                  static_cast<int64_t>(rank));
      }
      EXPECT_EQ(group[mesh.rankAlong(device, atoms)], device);
    }
  }
}

TEST(Mesh, DescribesByTheLongestName) {
  Mesh mesh;
  mesh.atoms = {{"data", 2}, {"context.ring", 2}, {"context.a2a", 4}};
  mesh.axes = {{"data", {0}}, {"context", {1, 2}}, {"context.a2a", {2}}};
  EXPECT_EQ(mesh.describe({0, 1, 2}), "data * context");
  EXPECT_EQ(mesh.describe({2, 0}), "context.a2a * data");
  EXPECT_EQ(mesh.describe({1}), "context.ring");
  EXPECT_EQ(mesh.describe({}), "");
}

TEST(PieceOf, TwoAxesOnOneDim) {
  // pytorch #194457: 5 rows, both axes of a 2x2 mesh; every row once.
  Mesh mesh = meshOf({2, 2});
  for (std::vector<AtomId> atoms : {std::vector<AtomId>{0, 1}, {1, 0}}) {
    std::multiset<int64_t> rows;
    for (int64_t device = 0; device < 4; ++device) {
      Piece piece = pieceOf(5, on(atoms), mesh, device);
      EXPECT_EQ(piece, splitRule(5, 4, mesh.rankAlong(device, atoms)));
      for (int64_t row = piece.begin; row < piece.end; ++row) {
        rows.insert(row);
      }
    }
    EXPECT_EQ(rows, (std::multiset<int64_t>{0, 1, 2, 3, 4}));
  }
}

TEST(PieceOf, CutsAndPlaces) {
  Mesh mesh = meshOf({3, 2});
  Split split = on({0});
  split.cuts = {0, 1, 1, 9};
  EXPECT_EQ(pieceOf(9, split, mesh, 0), (Piece{0, 1}));
  EXPECT_EQ(pieceOf(9, split, mesh, 2).size(), 0);
  EXPECT_EQ(pieceOf(9, split, mesh, 5), (Piece{1, 9}));
  split.places = {2, 0, 1};
  EXPECT_EQ(pieceOf(9, split, mesh, 4), (Piece{0, 1}));
  EXPECT_EQ(pieceOf(9, split, mesh, 2), (Piece{1, 9}));
  // One piece on one coordinate: elsewhere nothing.
  split.cuts = {0, 9};
  split.places = {1};
  EXPECT_EQ(pieceOf(9, split, mesh, 3), (Piece{0, 9}));
  EXPECT_EQ(pieceOf(9, split, mesh, 0).size(), 0);
  EXPECT_EQ(largestPiece(9, split, mesh), 9);
}

TEST(LargestPiece, BoundsAllPieces) {
  for (int64_t n = 0; n <= 40; ++n) {
    for (int64_t unit = 1; unit <= 5; ++unit) {
      Mesh mesh = meshOf({3, 4});
      Split split = on({1, 0});
      split.unit = unit;
      int64_t largest = 0;
      for (int64_t device = 0; device < 12; ++device) {
        largest = std::max(largest, pieceOf(n, split, mesh, device).size());
      }
      EXPECT_LE(largest, largestPiece(n, split, mesh));
      if (n % unit == 0) {
        EXPECT_EQ(largest, largestPiece(n, split, mesh));
      }
    }
  }
}

TEST(Window, KeepsCutsWhereElementsLie) {
  Mesh mesh = meshOf({4});
  Split window = windowOf(16, on({0}), -5, 11, mesh);
  EXPECT_EQ(window.cuts, (std::vector<int64_t>{0, 0, 3, 7, 11}));
  // What a larger dim has beside it lies with the nearest piece.
  EXPECT_EQ(windowOf(11, window, 5, 16, mesh).cuts,
            (std::vector<int64_t>{0, 5, 8, 12, 16}));
  // The same cuts have one spelling.
  EXPECT_EQ(windowOf(4, on({0}), -1, 2, meshOf({2})), on({0}));
  EXPECT_EQ(windowOf(16, on({0}), 0, 16, mesh), on({0}));
  EXPECT_EQ(windowOf(16, on({}), -5, 11, mesh), on({}));
}

TEST(Window, EveryElementStaysOnItsDevice) {
  Mesh mesh = meshOf({2, 3});
  Split placed = on({1});
  placed.places = {2, 0, 1};
  Split unit = on({0, 1});
  unit.unit = 2;
  for (int64_t n = 1; n <= 9; ++n) {
    Split cuts = on({0});
    cuts.cuts = {0, n / 3, n};
    for (const Split &split : {on({0}), on({1, 0}), placed, unit, cuts}) {
      for (int64_t size = 1; size <= 9; ++size) {
        for (int64_t offset = -n; offset <= size; ++offset) {
          Split window = windowOf(n, split, offset, size, mesh);
          int64_t seen = 0;
          for (int64_t device = 0; device < 6; ++device) {
            Piece a = pieceOf(n, split, mesh, device);
            Piece b = pieceOf(size, window, mesh, device);
            for (int64_t i = b.begin; i < b.end; ++i) {
              bool isShared = i - offset >= 0 && i - offset < n;
              ASSERT_TRUE(!isShared ||
                          (a.begin <= i - offset && i - offset < a.end));
              ++seen;
            }
          }
          // Each element once for each coordinate of the other atoms.
          ASSERT_EQ(seen, size * 6 / mesh.sizeOf(split.atoms));
        }
      }
    }
  }
}

TEST(Contiguity, SeveralPiecesOnOneCoordinate) {
  Split dealt = on({0});
  dealt.cuts = {0, 2, 4, 6, 8};
  dealt.places = {0, 1, 0, 1};
  EXPECT_FALSE(isContiguous(dealt));
  dealt.places = {0, 1, 3, 2};
  EXPECT_TRUE(isContiguous(dealt));
  EXPECT_TRUE(isContiguous(on({0})));
}

TEST(Layout, UsedAtomsAndText) {
  Mesh mesh = meshOf({2, 3, 4});
  Layout layout;
  layout.dims = {on({2}), on({}), on({0})};
  layout.partial = {1};
  layout.reduction = Reduction::Max;
  EXPECT_EQ(layout.usedAtoms(), (std::vector<AtomId>{0, 1, 2}));
  EXPECT_TRUE(layout.uses(1));
  EXPECT_TRUE(layout.isPartial());
  EXPECT_EQ(describe(layout, {"x", "y", "z"}, mesh),
            "[x: c, y, z: a; max over b]");
}
