//===- RuleSpace.cpp - All layouts on a mesh, and moves between them ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RuleSpace.h"

#include "test/unit/partition/RuleCases.h"

#include <algorithm>
#include <random>

using namespace cleave;
using namespace cleave::test;
using layout::AtomId;
using layout::Layout;
using layout::Mesh;
using layout::Split;
using partitioning::Pieces;
using partitioning::Placed;
using reference::Tensor;

Mesh cleave::test::meshOf(const std::vector<int64_t> &sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.atoms.push_back(
        {std::string(1, static_cast<char>('s' + i)), sizes[i]});
    mesh.axes.push_back({mesh.atoms.back().name, {static_cast<AtomId>(i)}});
  }
  return mesh;
}

/// Which atoms split which dim, cut by the split rule, and which are pending.
static std::vector<Layout> arrangements(size_t dims, const Mesh &mesh,
                                        bool mayPend) {
  std::vector<Layout> all;
  std::vector<AtomId> order;
  for (AtomId atom = 0; atom < mesh.atoms.size(); ++atom) {
    order.push_back(atom);
  }
  do {
    std::vector<Layout> grown(1);
    grown.front().dims.resize(dims);
    for (AtomId atom : order) {
      std::vector<Layout> next;
      for (const Layout &layout : grown) {
        next.push_back(layout);
        for (size_t d = 0; d < dims; ++d) {
          next.push_back(layout);
          next.back().dims[d].atoms.push_back(atom);
        }
        if (mayPend) {
          next.push_back(layout);
          next.back().partial.push_back(atom);
        }
      }
      grown = std::move(next);
    }
    for (Layout &layout : grown) {
      std::sort(layout.partial.begin(), layout.partial.end());
      if (std::find(all.begin(), all.end(), layout) == all.end()) {
        all.push_back(layout);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

static Split cutSo(Split split, Cut way, int64_t size, const Mesh &mesh) {
  int64_t count = mesh.sizeOf(split.atoms);
  switch (way) {
  case Cut::Rule:
    break;
  case Cut::Unit:
    split.unit = 2;
    break;
  case Cut::Cuts: // 1, 1, …, the rest
    for (int64_t i = 0; i < count; ++i) {
      split.cuts.push_back(std::min(i, size));
    }
    split.cuts.push_back(size);
    break;
  case Cut::Places: // the rest, 1, 1, …; the last coordinate has the first
    for (int64_t i = 0; i < count; ++i) {
      split.cuts.push_back(i ? std::max<int64_t>(0, size - count + i) : 0);
      split.places.push_back(count - 1 - i);
    }
    split.cuts.push_back(size);
    break;
  }
  return split;
}

std::vector<Layout> cleave::test::layoutsOf(const std::vector<int64_t> &sizes,
                                            const Mesh &mesh, bool mayPend,
                                            const std::vector<Cut> &ways) {
  std::vector<Layout> all = arrangements(sizes.size(), mesh, mayPend);
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<Layout> next;
    for (const Layout &layout : all) {
      if (layout.dims[d].isWhole()) {
        next.push_back(layout);
        continue;
      }
      for (Cut way : ways) {
        next.push_back(layout);
        next.back().dims[d] = cutSo(layout.dims[d], way, sizes[d], mesh);
      }
    }
    all = std::move(next);
  }
  return all;
}

std::vector<size_t>
cleave::test::sampleOf(size_t i,
                       const std::vector<std::vector<Layout>> &choices) {
  std::minstd_rand random(static_cast<unsigned>(i + 1));
  random.discard(8); // of neighbours the first are alike
  constexpr int mostDraws = 200;
  size_t operands = choices.size() - 1, turn = i % 3, lone = i / 3 % operands;
  std::vector<layout::AtomId> pending; // of all, once one is chosen
  std::vector<size_t> sample;
  for (size_t s = 0; s < choices.size(); ++s) {
    size_t drawn = 0;
    for (int k = 0; k < mostDraws; ++k) {
      drawn = random() % choices[s].size();
      const Layout &layout = choices[s][drawn];
      bool fits =
          turn == 0 || s == operands ||
          (turn == 1 ? layout.isPartial() == (s == lone)
                     : layout.isPartial() &&
                           (pending.empty() || pending == layout.partial));
      if (fits) {
        break;
      }
    }
    if (turn == 2 && s < operands) {
      pending = choices[s][drawn].partial;
    }
    sample.push_back(drawn);
  }
  return sample;
}

std::string cleave::test::compare(const Pieces &pieces, const Placed &placed,
                                  const Tensor &wanted, const Mesh &mesh) {
  Pieces right = piecesOf(wanted, placed, mesh);
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<double> total;
    for (int64_t part : mesh.groupOf(device, placed.layout.partial)) {
      const std::vector<double> &term = pieces[part].values;
      if (term.size() != right[device].values.size()) {
        return "device " + std::to_string(part) +
               " has a piece of another size";
      }
      if (total.empty()) {
        total = term;
        continue;
      }
      for (size_t i = 0; i < total.size(); ++i) {
        double a = total[i], b = term[i];
        total[i] = placed.layout.reduction == layout::Reduction::Sum ? a + b
                   : placed.layout.reduction == layout::Reduction::Max
                       ? std::max(a, b)
                       : std::min(a, b);
      }
    }
    for (size_t i = 0; i < total.size(); ++i) {
      if (!isSame(total[i], right[device].values[i])) {
        return "element " + std::to_string(i) + " of device " +
               std::to_string(device) + " is " + std::to_string(total[i]) +
               ", not " + std::to_string(right[device].values[i]);
      }
    }
  }
  return "";
}

Pieces cleave::test::pendingPieces(const Tensor &value, const Placed &placed,
                                   const Mesh &mesh, unsigned seed) {
  if (!placed.layout.isPartial()) {
    return piecesOf(value, placed, mesh);
  }
  std::mt19937 random(seed);
  int64_t count = mesh.sizeOf(placed.layout.partial);
  bool isSum = placed.layout.reduction == layout::Reduction::Sum;
  double sign = placed.layout.reduction == layout::Reduction::Max ? -1 : 1;
  std::vector<Tensor> terms(count, value);
  for (size_t i = 0; i < value.values.size(); ++i) {
    // One coordinate has what makes the others' numbers right.
    size_t last = random() % count;
    for (size_t k = 0; k < terms.size(); ++k) {
      if (k == last) {
        continue;
      }
      double other = static_cast<double>(random() % 1001) - 500;
      if (isSum) {
        terms[k].values[i] = other;
        terms[last].values[i] -= other;
      } else {
        terms[k].values[i] += sign * std::abs(other);
      }
    }
  }
  std::vector<Pieces> placedTerms;
  for (const Tensor &term : terms) {
    placedTerms.push_back(piecesOf(term, placed, mesh));
  }
  Pieces pieces;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    int64_t rank = mesh.rankAlong(device, placed.layout.partial);
    pieces.push_back(placedTerms[rank][device]);
  }
  return pieces;
}

Shape::Shape(const Mesh &mesh, reshard::Cache &cache,
             std::vector<int64_t> sizes, int64_t elementBytes)
    : subject{sizes, elementBytes, &mesh}, mesh(mesh), cache(cache),
      sizes(std::move(sizes)) {}

int Shape::numberOf(const Layout &layout) {
  std::string key;
  auto add = [&](int64_t number) { key.push_back(static_cast<char>(number)); };
  for (AtomId atom : layout.partial) {
    add(atom);
  }
  add(-1 - static_cast<int>(layout.reduction));
  for (const Split &split : layout.dims) {
    add(static_cast<int64_t>(split.atoms.size()));
    for (AtomId atom : split.atoms) {
      add(atom);
    }
    add(split.unit);
    add(static_cast<int64_t>(split.cuts.size()));
    for (int64_t cut : split.cuts) {
      add(cut);
    }
    add(static_cast<int64_t>(split.places.size()));
    for (int64_t place : split.places) {
      add(place);
    }
  }
  auto [found, isNew] =
      numbers.try_emplace(key, static_cast<int>(layouts.size()));
  if (isNew) {
    layouts.push_back(layout);
  }
  return found->second;
}

const std::string &Shape::checkMoves(int from, int to) {
  uint64_t key = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  auto [found, isNew] = moves.try_emplace(key);
  if (isNew) {
    found->second = tryMoves(layouts[from], layouts[to]);
  }
  return found->second;
}

std::string Shape::tryMoves(const Layout &from, const Layout &to) {
  if (from == to) {
    return "";
  }
  Tensor value;
  value.shape = sizes;
  int64_t count = 1;
  for (int64_t size : sizes) {
    count *= size;
  }
  for (int64_t i = 0; i < count; ++i) {
    value.values.push_back(static_cast<double>((i % 2 ? -1 : 1) * (1000 + i)));
  }
  Placed at = {sizes, from};
  Pieces pieces = pendingPieces(value, at, mesh, 1);
  for (const reshard::Move &move : cache.reshard(from, to, subject).moves) {
    Placed next = {sizes, move.result};
    llvm::Expected<Pieces> moved =
        simulateCollective(pieces, at, next, move.atoms, mesh);
    if (!moved) {
      return std::string(reshard::nameOf(move.kind)) + ": " +
             llvm::toString(moved.takeError());
    }
    pieces = std::move(*moved);
    at = next;
  }
  return compare(pieces, {sizes, to}, value, mesh);
}

Shape &Space::shape(const std::vector<int64_t> &sizes, int64_t elementBytes) {
  std::unique_ptr<Shape> &found = shapes[{sizes, elementBytes}];
  if (!found) {
    found = std::make_unique<Shape>(mesh, cache, sizes, elementBytes);
  }
  return *found;
}

std::vector<std::unique_ptr<Space>> &cleave::test::everySpace() {
  static std::vector<std::unique_ptr<Space>> spaces;
  if (spaces.empty()) {
    for (const std::vector<int64_t> &atoms :
         {std::vector<int64_t>{2}, {3}, {4}, {2, 2}, {2, 3}}) {
      auto space = std::make_unique<Space>();
      space->mesh = meshOf(atoms);
      space->ways = {Cut::Rule, Cut::Unit, Cut::Cuts};
      if (atoms.size() == 1) {
        space->ways.push_back(Cut::Places);
      }
      spaces.push_back(std::move(space));
    }
  }
  return spaces;
}
