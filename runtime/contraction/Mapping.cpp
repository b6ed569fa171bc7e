//===- Mapping.cpp - A contraction as a batch of matrix products ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Mapping.h"

#include <algorithm>
#include <utility>

namespace cleave::contraction {

namespace {

using Loops = std::vector<Loop>;

struct Classes {
  Loops b, m, n, k;
};

/// The classes, without dims of size one. None where a dim is in one tensor
/// alone or a class that a product needs is empty.
std::optional<Classes> classify(const Shape &shape) {
  Classes classes;
  for (const Dim &dim : shape) {
    if (dim.size == 1) {
      continue;
    }
    bool lhs = dim.lhs != Dim::absent, rhs = dim.rhs != Dim::absent,
         out = dim.out != Dim::absent;
    Loop loop{dim.size,
              {lhs ? dim.lhs : 0, rhs ? dim.rhs : 0, out ? dim.out : 0}};
    if (lhs + rhs + out < 2) {
      return std::nullopt;
    }
    (lhs && rhs && out ? classes.b
     : lhs && out      ? classes.m
     : rhs && out      ? classes.n
                       : classes.k)
        .push_back(loop);
  }
  if (classes.m.empty() || classes.n.empty() || classes.k.empty()) {
    return std::nullopt;
  }
  return classes;
}

/// Merges dims of one class where the strides fit on every side.
void merge(Loops &loops) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < loops.size() && !changed; ++i) {
      for (size_t j = 0; j < loops.size() && !changed; ++j) {
        bool fits = i != j;
        for (int side = 0; side < 3; ++side) {
          fits &=
              loops[i].stride[side] == loops[j].stride[side] * loops[j].size;
        }
        if (fits) {
          loops[j].size *= loops[i].size;
          loops.erase(loops.begin() + i);
          changed = true;
        }
      }
    }
  }
}

/// Replaces the strides of `side` by those of a dense tensor whose dims are
/// the groups in order, each ordered as it lies in the tensor `like`.
Pack packSide(std::vector<std::pair<Loops *, Side>> groups, Side side) {
  std::vector<Loop *> order;
  for (auto [loops, like] : groups) {
    std::sort(loops->begin(), loops->end(),
              [like = like](const Loop &a, const Loop &b) {
                return a.stride[like] > b.stride[like];
              });
    for (Loop &loop : *loops) {
      order.push_back(&loop);
    }
  }
  Pack pack;
  for (size_t i = order.size(); i-- > 0;) {
    pack.dims.insert(pack.dims.begin(),
                     {order[i]->size, order[i]->stride[side], pack.elements});
    order[i]->stride[side] = pack.elements;
    pack.elements *= order[i]->size;
  }
  return pack;
}

double efficiency(double size, double lost) { return size / (size + lost); }

/// Microseconds, roughly: all that matters is the order.
double costOf(const Mapping &mapping) {
  double products = 1, batches = 1, accumulations = 1, results = 1;
  for (const Loop &loop : mapping.batch) {
    batches *= loop.size;
  }
  for (const Loop &loop : mapping.outer) {
    accumulations *= loop.size;
  }
  results = batches * mapping.m.size * mapping.n.size;
  products = results * mapping.k.size * accumulations;
  double vectors = (mapping.n.size + 15) / 16 * 16;
  double rate = 70e3 * efficiency(mapping.m.size, 4) *
                (mapping.n.size / vectors) * efficiency(mapping.k.size, 16);
  double cost = products / rate + accumulations * (0.5 + 0.05 * batches) +
                (accumulations - 1) * results * 0.2e-3;
  for (const std::optional<Pack> &pack : mapping.packs) {
    cost += pack ? 0.5 + pack->elements * 1e-3 : 0;
  }
  return cost;
}

/// Tries every main dim of each class for one choice of packs.
void tryMains(const Classes &classes, const Mapping &base,
              std::optional<Mapping> &best, double &bestCost) {
  for (size_t m = 0; m < classes.m.size(); ++m) {
    for (size_t n = 0; n < classes.n.size(); ++n) {
      for (size_t k = 0; k < classes.k.size(); ++k) {
        Mapping mapping = base;
        mapping.m = classes.m[m];
        mapping.n = classes.n[n];
        mapping.k = classes.k[k];
        bool fits =
            mapping.n.stride[Out] == 1 &&
            (mapping.m.stride[Lhs] == 1 || mapping.k.stride[Lhs] == 1) &&
            (mapping.n.stride[Rhs] == 1 || mapping.k.stride[Rhs] == 1);
        if (!fits) {
          continue;
        }
        mapping.batch = classes.b;
        for (size_t i = 0; i < classes.m.size(); ++i) {
          if (i != m) {
            mapping.batch.push_back(classes.m[i]);
          }
        }
        for (size_t i = 0; i < classes.n.size(); ++i) {
          if (i != n) {
            mapping.batch.push_back(classes.n[i]);
          }
        }
        for (size_t i = 0; i < classes.k.size(); ++i) {
          if (i != k) {
            mapping.outer.push_back(classes.k[i]);
          }
        }
        double cost = costOf(mapping);
        if (mapping.batch.size() <= 10 && (!best || cost < bestCost)) {
          best = std::move(mapping);
          bestCost = cost;
        }
      }
    }
  }
}

} // namespace

std::optional<Mapping> mapToMatmul(const Shape &shape) {
  std::optional<Mapping> best;
  double bestCost = 0;
  for (bool swapped : {false, true}) {
    Shape view = shape;
    if (swapped) {
      for (Dim &dim : view) {
        std::swap(dim.lhs, dim.rhs);
      }
    }
    std::optional<Classes> plain = classify(view);
    if (!plain) {
      return std::nullopt;
    }
    for (int packs = 0; packs < 8; ++packs) {
      Classes classes = *plain;
      // Packing orders its dims; merge first, so that fewer are ordered.
      for (Loops *loops : {&classes.b, &classes.m, &classes.n, &classes.k}) {
        merge(*loops);
      }
      Mapping mapping;
      mapping.swapped = swapped;
      if (packs & 4) {
        mapping.packs[Out] = packSide(
            {{&classes.b, Out}, {&classes.m, Lhs}, {&classes.n, Rhs}}, Out);
      }
      if (packs & 1) {
        mapping.packs[Lhs] = packSide(
            {{&classes.b, Out}, {&classes.m, Out}, {&classes.k, Rhs}}, Lhs);
      }
      if (packs & 2) {
        mapping.packs[Rhs] = packSide(
            {{&classes.b, Out}, {&classes.k, Lhs}, {&classes.n, Out}}, Rhs);
      }
      for (Loops *loops : {&classes.b, &classes.m, &classes.n, &classes.k}) {
        merge(*loops);
      }
      tryMains(classes, mapping, best, bestCost);
    }
  }
  return best;
}

} // namespace cleave::contraction
