//===- Decide.cpp - How one operation is split ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Decide.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <tuple>

namespace cleave::partitioning {

using clv::Factor;
using clv::FactorKind;
using layout::AtomId;
using layout::Layout;
using layout::Split;
using Atoms = std::vector<AtomId>;

static bool contains(const Atoms &atoms, AtomId atom) {
  return std::find(atoms.begin(), atoms.end(), atom) != atoms.end();
}

/// `split` without `atom` and what is minor to it.
static void truncate(Split &split, AtomId atom) {
  auto found = std::find(split.atoms.begin(), split.atoms.end(), atom);
  if (found == split.atoms.end()) {
    return;
  }
  split.atoms.erase(found, split.atoms.end());
  split.cuts.clear();
  split.places.clear();
  if (split.atoms.empty()) {
    split = Split();
  }
}

namespace {

/// Which side of a window says how it is cut.
enum class Window : uint8_t { Operand, Result, Whole };

/// One way: which operands stay pending, over which atoms; how windows are cut.
class Way {
public:
  Way(const Query &query, reshard::Cache &cache, std::vector<bool> passes,
      Atoms pending, Window window)
      : query(query), rule(query.rule), cache(cache), passes(std::move(passes)),
        pending(std::move(pending)), window(window) {}

  /// Nothing where an operand that stays pending stands in another's way.
  std::optional<Decision> run() {
    for (size_t i = 0; i < query.operands.size(); ++i) {
      seen.push_back(layoutSeen(i));
      for (const Split &split : seen.back().dims) {
        for (AtomId atom : split.atoms) {
          if (contains(pending, atom)) {
            return std::nullopt;
          }
        }
      }
    }
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      want(rule.factors[f]);
    }
    settleConflicts();
    finish();
    return std::move(decision);
  }

private:
  /// The layout of operand `i` that factors' splits follow from.
  Layout layoutSeen(size_t i) const {
    const OperandState &operand = query.operands[i];
    Layout layout = operand.now;
    if (layout.isPartial() && !passes[i]) {
      layout = operand.declared;
    }
    layout.partial = passes[i] ? pending : Atoms();
    return layout;
  }

  void want(const Factor &factor) {
    Split split;
    Origin origin;
    auto take = [&](const Split &from, int operand, int dim) {
      split = from;
      origin = {operand, dim};
    };
    int result = factor.results.empty() ? -1 : factor.results[0];
    bool isWindow = factor.kind == FactorKind::Window;
    bool isWhole = factor.kind == FactorKind::Whole ||
                   (isWindow && window == Window::Whole);
    bool followsResult = isWindow && window == Window::Result;
    if (!isWhole) {
      for (size_t i = 0; i < factor.operands.size() && !followsResult; ++i) {
        int dim = factor.operands[i];
        if (dim < 0 || seen[i].dims[dim].isWhole()) {
          continue;
        }
        const Split &here = seen[i].dims[dim];
        if (split.isWhole() || (reshard::refines(here, split) &&
                                here.atoms.size() > split.atoms.size())) {
          take(here, static_cast<int>(i), dim);
        } else if (!reshard::refines(split, here) && result >= 0 &&
                   here == query.result.dims[result]) {
          take(here, static_cast<int>(i), dim);
        }
      }
      if (split.isWhole() && result >= 0) {
        take(query.result.dims[result], -1, result);
        for (AtomId atom : pending) {
          truncate(split, atom);
        }
      }
    }
    decision.splits.push_back(split);
    decision.origins.push_back(origin);
  }

  bool resultHas(size_t f, AtomId atom) const {
    int dim = rule.factors[f].results.empty() ? -1 : rule.factors[f].results[0];
    return dim >= 0 && contains(query.result.dims[dim].atoms, atom);
  }

  void settleConflicts() {
    Atoms atoms;
    for (const Split &split : decision.splits) {
      atoms.insert(atoms.end(), split.atoms.begin(), split.atoms.end());
    }
    std::sort(atoms.begin(), atoms.end());
    atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
    for (AtomId atom : atoms) {
      int winner = -1;
      auto rank = [&](int f) {
        int operand = decision.origins[f].operand;
        return std::tuple(operand < 0, !resultHas(f, atom), operand);
      };
      for (size_t f = 0; f < decision.splits.size(); ++f) {
        if (contains(decision.splits[f].atoms, atom) &&
            (winner < 0 || rank(static_cast<int>(f)) < rank(winner))) {
          winner = static_cast<int>(f);
        }
      }
      for (size_t f = 0; f < decision.splits.size(); ++f) {
        if (static_cast<int>(f) != winner) {
          truncate(decision.splits[f], atom);
        }
      }
    }
  }

  /// The split of a factor for one dim of `size` elements: of a window, that on
  /// its other side cut at the same elements.
  Split splitFor(size_t f, bool ofResult, int64_t size) const {
    const Factor &factor = rule.factors[f];
    const Split &split = decision.splits[f];
    int operand = decision.origins[f].operand;
    bool fromResult = operand < 0;
    if (factor.kind != FactorKind::Window || ofResult == fromResult ||
        split.isWhole()) {
      return split;
    }
    int dim = decision.origins[f].dim;
    const reshard::Subject &from =
        fromResult ? query.subject : query.operands[operand].subject;
    return windowOf(from.sizes[dim], split,
                    fromResult ? -factor.offset : factor.offset, size,
                    *from.mesh);
  }

  void finish() {
    Layout &natural = decision.natural;
    natural.dims.resize(query.result.dims.size());
    decision.operands.resize(query.operands.size());
    for (size_t i = 0; i < query.operands.size(); ++i) {
      Layout &layout = decision.operands[i];
      layout.dims.resize(query.operands[i].now.dims.size());
      layout.partial = seen[i].partial;
      layout.reduction = seen[i].reduction;
      if (layout.partial.empty()) {
        layout.reduction = layout::Reduction::Sum;
      }
    }
    natural.partial = pending;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const Factor &factor = rule.factors[f];
      const Split &split = decision.splits[f];
      if (split.isWhole()) {
        decision.origins[f].dim = -1;
      }
      for (size_t i = 0; i < factor.operands.size(); ++i) {
        if (int at = factor.operands[i]; at >= 0) {
          decision.operands[i].dims[at] = splitFor(
              f, /*ofResult=*/false, query.operands[i].subject.sizes[at]);
        }
      }
      if (!factor.results.empty() && factor.results[0] >= 0) {
        int at = factor.results[0];
        natural.dims[at] =
            splitFor(f, /*ofResult=*/true, query.subject.sizes[at]);
      }
      if (factor.kind == FactorKind::Sum || factor.kind == FactorKind::Max ||
          factor.kind == FactorKind::Min) {
        natural.partial.insert(natural.partial.end(), split.atoms.begin(),
                               split.atoms.end());
        if (!split.isWhole() && factor.kind != FactorKind::Sum) {
          natural.reduction = factor.kind == FactorKind::Max
                                  ? layout::Reduction::Max
                                  : layout::Reduction::Min;
        }
      }
    }
    std::sort(natural.partial.begin(), natural.partial.end());
    for (size_t i = 0; i < query.operands.size(); ++i) {
      decision.total += cost(query.operands[i].now, decision.operands[i],
                             query.operands[i].subject);
    }
    if (!query.resultStays || natural.isPartial()) {
      decision.total += cost(natural, query.result, query.subject);
    }
  }

  int64_t cost(const Layout &from, const Layout &to,
               const reshard::Subject &subject) {
    return cache.reshard(from, to, subject).total;
  }

  const Query &query;
  const clv::Rule &rule;
  reshard::Cache &cache;
  std::vector<bool> passes;
  Atoms pending;
  Window window;
  std::vector<Layout> seen;
  Decision decision;
};

} // namespace

/// With no more dims cut than operands or the result's layout ask for.
static Decision decidePlainly(const Query &query, reshard::Cache &cache) {
  size_t count = query.operands.size();
  auto isPendingSum = [&](size_t i) {
    const Layout &now = query.operands[i].now;
    return now.isPartial() && now.reduction == layout::Reduction::Sum;
  };
  std::vector<Window> windows = {Window::Operand};
  for (const Factor &factor : query.rule.factors) {
    if (factor.kind == FactorKind::Window) {
      windows = {Window::Operand, Window::Result, Window::Whole};
    }
  }
  std::optional<Decision> best;
  auto attempt = [&](const std::vector<bool> &passes, const Atoms &pending) {
    for (Window window : windows) {
      std::optional<Decision> found =
          Way(query, cache, passes, pending, window).run();
      if (found && (!best || found->total < best->total)) {
        best = std::move(found);
      }
    }
  };
  if (query.rule.additive) {
    // All numbers pending over common atoms; what is not common is reduced.
    std::vector<bool> passes(count, false);
    std::optional<Atoms> common;
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
      if (!query.operands[i].isNumber) {
        continue;
      }
      all &= isPendingSum(i);
      passes[i] = true;
      const Atoms &partial = query.operands[i].now.partial;
      if (!common) {
        common = partial;
      } else {
        std::erase_if(*common,
                      [&](AtomId atom) { return !contains(partial, atom); });
      }
    }
    if (all && common && !common->empty()) {
      attempt(passes, *common);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (isPendingSum(i) && query.rule.passesSum[i]) {
      std::vector<bool> passes(count, false);
      passes[i] = true;
      attempt(passes, query.operands[i].now.partial);
    }
  }
  attempt(std::vector<bool>(count, false), {});
  assert(best && "reducing every operand first is always possible");
  return *best;
}

Decision decide(const Query &query, reshard::Cache &cache) {
  Decision best = decidePlainly(query, cache);
  bool isUsed =
      std::any_of(query.freed.begin(), query.freed.end(), [&](AtomId atom) {
        return best.natural.uses(atom) || query.result.uses(atom);
      });
  if (query.freed.empty() || isUsed) {
    return best;
  }
  std::optional<int64_t> least;
  for (size_t f = 0; f < query.rule.factors.size(); ++f) {
    const Factor &factor = query.rule.factors[f];
    int dim = factor.results.empty() ? -1 : factor.results[0];
    if (factor.kind != FactorKind::Parallel || dim < 0 ||
        !best.natural.dims[dim].isWhole() ||
        !query.result.dims[dim].isWhole() || query.subject.sizes[dim] < 2) {
      continue;
    }
    Query cut = query;
    cut.result.dims[dim].atoms = query.freed;
    Decision found = decidePlainly(cut, cache);
    if (found.natural.dims[dim] != cut.result.dims[dim]) {
      continue;
    }
    found.total += cache.reshard(cut.result, query.result, query.subject).total;
    if (!least || found.total < *least) {
      least = found.total;
      best = std::move(found);
    }
  }
  return best;
}

} // namespace cleave::partitioning
