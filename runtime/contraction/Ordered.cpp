//===- Ordered.cpp - Contractions in one order of adding ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Ordered.h"

#include <algorithm>
#include <cstring>

namespace cleave::contraction {

namespace {

using Lanes __attribute__((vector_size(64))) = float;

constexpr int64_t lanes = 16;
constexpr int64_t vectors = 2;             ///< of a tile's row
constexpr int64_t width = lanes * vectors; ///< of a tile
constexpr int64_t height = 4;
constexpr int64_t block = 256; ///< products that are added in f32

/// One tile of one block: acc[i][j] = sum over k of tall[i][k] * panel[k][j].
struct Tile {
  const float *panel;
  const float *tall[height];
  const Ordered::Both *sums;
  int64_t count;
  float acc[height][width];
};

} // namespace

static inline __attribute__((always_inline)) void addProducts(Tile &tile) {
  // A product and its sum are two roundings, on every machine.
#pragma clang fp contract(off)
  Lanes acc[height][vectors] = {};
  for (int64_t k = 0; k < tile.count; ++k) {
    Lanes row[vectors];
    std::memcpy(row, tile.panel + k * width, sizeof row);
    int64_t at = tile.sums[k].tall;
    for (int64_t i = 0; i < height; ++i) {
      float scale = tile.tall[i][at];
      for (int64_t v = 0; v < vectors; ++v) {
        acc[i][v] += row[v] * scale;
      }
    }
  }
  std::memcpy(tile.acc, acc, sizeof acc);
}

// The same code for both kinds of processors, thus the same bits.
static void addAnywhere(Tile &tile) { addProducts(tile); }
#ifdef __x86_64__
__attribute__((target("avx512f"))) static void addWide(Tile &tile) {
  addProducts(tile);
}
#endif

static void add(Tile &tile) {
#ifdef __x86_64__
  static const bool hasWide = __builtin_cpu_supports("avx512f");
  if (hasWide) {
    return addWide(tile);
  }
#endif
  addAnywhere(tile);
}

/// Every index of `dims`, the last fastest, as offsets.
template <typename Offset, typename Advance>
static std::vector<Offset> tableOf(const std::vector<Dim> &dims,
                                   Advance advance) {
  std::vector<Offset> table = {{}};
  for (const Dim &dim : dims) {
    std::vector<Offset> finer;
    finer.reserve(table.size() * dim.size);
    for (const Offset &offset : table) {
      for (int64_t i = 0; i < dim.size; ++i) {
        finer.push_back(advance(offset, dim, i));
      }
    }
    table = std::move(finer);
  }
  return table;
}

static int64_t countOf(const std::vector<Dim> &dims) {
  int64_t count = 1;
  for (const Dim &dim : dims) {
    count *= dim.size;
  }
  return count;
}

Ordered makeOrdered(const Shape &shape, bool terms) {
  std::vector<Dim> batch, ofLhs, ofRhs, sums;
  for (Dim dim : shape) {
    if (terms) {
      dim.rhs = Dim::absent;
    }
    bool lhs = dim.lhs != Dim::absent, rhs = dim.rhs != Dim::absent;
    (dim.out == Dim::absent ? sums
     : lhs == rhs           ? batch
     : lhs                  ? ofLhs
                            : ofRhs)
        .push_back(dim);
  }
  Ordered ordered;
  ordered.terms = terms;
  ordered.wideIsLhs = terms || countOf(ofRhs) < countOf(ofLhs);
  auto stride = [](int64_t s) { return s == Dim::absent ? 0 : s; };
  bool swapped = ordered.wideIsLhs;
  auto wide = [=](const Dim &d) { return stride(swapped ? d.lhs : d.rhs); };
  auto tall = [=](const Dim &d) { return stride(swapped ? d.rhs : d.lhs); };
  auto both = [=](Ordered::Both at, const Dim &d, int64_t i) {
    return Ordered::Both{at.wide + i * wide(d), at.tall + i * tall(d),
                         at.out + i * stride(d.out)};
  };
  ordered.batch = tableOf<Ordered::Both>(batch, both);
  ordered.sums = tableOf<Ordered::Both>(sums, both);
  ordered.wide = tableOf<Ordered::Own>(
      swapped ? ofLhs : ofRhs, [=](Ordered::Own at, const Dim &d, int64_t i) {
        return Ordered::Own{at.operand + i * wide(d), at.out + i * d.out};
      });
  ordered.tall = tableOf<Ordered::Own>(
      swapped ? ofRhs : ofLhs, [=](Ordered::Own at, const Dim &d, int64_t i) {
        return Ordered::Own{at.operand + i * tall(d), at.out + i * d.out};
      });
  return ordered;
}

int64_t panelFloats() { return block * width; }
int64_t totalDoubles(const Ordered &ordered) {
  return static_cast<int64_t>(ordered.tall.size()) * width;
}

namespace {

/// The columns [first, first + columns) of the result of one batch index.
struct Strip {
  const Ordered &ordered;
  const float *wide, *tall;
  float *out;
  int64_t first, columns;
  float *panel;
  double *totals;

  void pack(const Ordered::Both *sums, int64_t count) const;
  void addBlock(const Ordered::Both *sums, int64_t count) const;
  void run() const;
};

} // namespace

/// The panel's rows, with zeros beyond the result.
void Strip::pack(const Ordered::Both *sums, int64_t count) const {
  const Ordered::Own *own = ordered.wide.data() + first;
  for (int64_t k = 0; k < count; ++k) {
    float *row = panel + k * width;
    const float *from = wide + sums[k].wide;
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = from[own[j].operand];
    }
    std::fill(row + columns, row + width, 0.0f);
  }
}

void Strip::addBlock(const Ordered::Both *sums, int64_t count) const {
  pack(sums, count);
  auto rows = static_cast<int64_t>(ordered.tall.size());
  Tile tile;
  tile.panel = panel;
  tile.sums = sums;
  tile.count = count;
  for (int64_t row = 0; row < rows; row += height) {
    for (int64_t i = 0; i < height; ++i) {
      // Beyond the end the last row again, whose sums are not read.
      tile.tall[i] = tall + ordered.tall[std::min(row + i, rows - 1)].operand;
    }
    add(tile);
    for (int64_t i = 0; i < std::min(height, rows - row); ++i) {
      double *total = totals + (row + i) * width;
      for (int64_t j = 0; j < columns; ++j) {
        total[j] += tile.acc[i][j];
      }
    }
  }
}

void Strip::run() const {
  std::fill(totals, totals + totalDoubles(ordered), 0.0);
  auto count = static_cast<int64_t>(ordered.sums.size());
  for (int64_t k = 0; k < count; k += block) {
    addBlock(ordered.sums.data() + k, std::min(block, count - k));
  }
  for (size_t i = 0; i < ordered.tall.size(); ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      out[ordered.tall[i].out + ordered.wide[first + j].out] =
          static_cast<float>(totals[i * width + j]);
    }
  }
}

void runOrdered(const Ordered &ordered, const float *lhs, const float *rhs,
                float *out, float *panel, double *totals) {
  static const float one = 1;
  const float *wide = ordered.wideIsLhs ? lhs : rhs;
  const float *tall = ordered.terms ? &one : ordered.wideIsLhs ? rhs : lhs;
  auto columns = static_cast<int64_t>(ordered.wide.size());
  for (const Ordered::Both &at : ordered.batch) {
    for (int64_t first = 0; first < columns; first += width) {
      Strip{ordered,      wide + at.wide, tall + at.tall,
            out + at.out, first,          std::min(width, columns - first),
            panel,        totals}
          .run();
    }
  }
}

} // namespace cleave::contraction
