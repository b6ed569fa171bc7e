//===- Reshard.cpp - Search over layouts ----------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reshard/Reshard.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <queue>
#include <tuple>

namespace cleave::reshard {

using layout::AtomId;
using layout::Layout;
using layout::Split;
using Atoms = std::vector<AtomId>;

const char *nameOf(Kind kind) {
  switch (kind) {
  case Kind::LocalSlice:
    return "local_slice";
  case Kind::AllGather:
    return "all_gather";
  case Kind::AllToAll:
    return "all_to_all";
  case Kind::Shift:
    return "shift";
  case Kind::AllReduce:
    return "all_reduce";
  case Kind::ReduceScatter:
    return "reduce_scatter";
  }
  return "";
}

static bool contains(const Atoms &atoms, AtomId atom) {
  return std::find(atoms.begin(), atoms.end(), atom) != atoms.end();
}

/// By the split rule alone, so that minor atoms may be added and given up.
static bool isPlain(const Split &split) {
  return split.cuts.empty() && split.places.empty();
}

static Split plain(Atoms atoms, int64_t unit) {
  Split split;
  split.unit = atoms.empty() ? 1 : unit;
  split.atoms = std::move(atoms);
  return split;
}

bool refines(const Split &longer, const Split &shorter) {
  if (longer == shorter || shorter.isWhole()) {
    return true;
  }
  return isPlain(longer) && isPlain(shorter) && longer.unit == shorter.unit &&
         shorter.atoms.size() <= longer.atoms.size() &&
         std::equal(shorter.atoms.begin(), shorter.atoms.end(),
                    longer.atoms.begin());
}

/// Whether dims differ in explicit cuts and places alone.
static bool movesCuts(const Layout &a, const Layout &b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const Split &x = a.dims[d], &y = b.dims[d];
    if (x.atoms != y.atoms || (x != y && isPlain(x) && isPlain(y))) {
      return false;
    }
  }
  return true;
}

/// A whole dim has one spelling, and pending atoms are in order.
static Layout normal(Layout layout) {
  for (Split &split : layout.dims) {
    if (split.isWhole()) {
      split = Split();
    }
  }
  std::sort(layout.partial.begin(), layout.partial.end());
  if (layout.partial.empty()) {
    layout.reduction = layout::Reduction::Sum;
  }
  return layout;
}

namespace {

using Key = std::vector<int64_t>;

Key keyOf(const Layout &layout) {
  Key key(layout.partial.begin(), layout.partial.end());
  for (const Split &split : layout.dims) {
    key.push_back(-1);
    key.insert(key.end(), split.atoms.begin(), split.atoms.end());
    key.push_back(-2);
    key.push_back(split.unit);
    key.push_back(static_cast<int64_t>(split.cuts.size()));
    key.insert(key.end(), split.cuts.begin(), split.cuts.end());
    key.insert(key.end(), split.places.begin(), split.places.end());
  }
  return key;
}

struct Node {
  Layout layout;
  int64_t total = 0;
  int64_t sends = 0; ///< moves that send
  int64_t steps = 0;
  int64_t detours = 0; ///< moves that do not lead straight to the target
  int parent = -1;
  Kind kind = Kind::LocalSlice; ///< the move that made it
  Atoms atoms;
};

class Search {
public:
  Search(const Layout &from, const Layout &to, const Subject &subject,
         int64_t maxElements)
      : to(to), subject(subject), maxElements(maxElements) {
    nodes.push_back({from, 0, 0, 0, 0, -1, Kind::LocalSlice, {}});
    queue.push({0, 0, 0, 0, 0});
    best[keyOf(from)] = {0, 0, 0, 0};
  }

  std::optional<Path> run() {
    Key goal = keyOf(to);
    while (!queue.empty()) {
      auto [total, sends, steps, detours, index] = queue.top();
      queue.pop();
      Key key = keyOf(nodes[index].layout);
      if (best[key] < Cost{total, sends, steps, detours}) {
        continue;
      }
      if (key == goal) {
        return pathTo(index);
      }
      expand(index);
    }
    return std::nullopt;
  }

private:
  using Cost = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  using Entry = std::tuple<int64_t, int64_t, int64_t, int64_t, int>;

  Path pathTo(int index) const {
    Path path;
    path.total = nodes[index].total;
    for (int at = index; nodes[at].parent >= 0; at = nodes[at].parent) {
      const Node &node = nodes[at];
      path.moves.push_back(
          {node.kind, node.atoms, node.layout,
           trafficOf(node.kind, node.atoms, nodes[node.parent].layout,
                     node.layout, subject)});
    }
    std::reverse(path.moves.begin(), path.moves.end());
    return path;
  }

  void add(int parent, Kind kind, Atoms atoms, Layout layout,
           bool isDetour = false) {
    if (atoms.empty() || !isTimely(kind, atoms) ||
        !keepsRounds(nodes[parent].layout, layout)) {
      return;
    }
    layout = normal(std::move(layout));
    Key key = keyOf(layout);
    if (maxElements >= 0 && localElements(layout, subject) > maxElements) {
      return;
    }
    const Node &node = nodes[parent];
    auto found = best.find(key);
    if (found != best.end() && std::get<0>(found->second) < node.total) {
      return;
    }
    Cost cost = {node.total +
                     totalOf(kind, atoms, node.layout, layout, subject),
                 node.sends + (kind != Kind::LocalSlice), node.steps + 1,
                 node.detours + isDetour};
    if (found != best.end() && found->second <= cost) {
      return;
    }
    best[key] = cost;
    auto [total, sends, steps, detours] = cost;
    nodes.push_back({std::move(layout), total, sends, steps, detours, parent,
                     kind, std::move(atoms)});
    queue.push(
        {total, sends, steps, detours, static_cast<int>(nodes.size()) - 1});
  }

  /// Whether a move leaves dims alone that lie in several pieces on one
  /// coordinate: chunks of layers stay on their stage.
  static bool keepsRounds(const Layout &from, const Layout &to) {
    for (size_t d = 0; d < from.dims.size(); ++d) {
      if (from.dims[d] != to.dims[d] && (!layout::isContiguous(from.dims[d]) ||
                                         !layout::isContiguous(to.dims[d]))) {
        return false;
      }
    }
    return true;
  }

  /// Whether a move sends nothing along a time.
  bool isTimely(Kind kind, const Atoms &atoms) const {
    int64_t times = std::count_if(atoms.begin(), atoms.end(), [&](AtomId atom) {
      return subject.mesh->isTime(atom);
    });
    return times == 0 || kind == Kind::LocalSlice ||
           (kind == Kind::AllReduce &&
            times == static_cast<int64_t>(atoms.size()));
  }

  void expand(int index) {
    Layout layout = nodes[index].layout; // `nodes` grows
    reduce(index, layout);
    slice(index, layout);
    exchange(index, layout);
    gather(index, layout);
  }

  /// The atoms still to be reduced.
  Atoms pending(const Layout &layout) const {
    Atoms rest;
    for (AtomId atom : layout.partial) {
      if (!contains(to.partial, atom)) {
        rest.push_back(atom);
      }
    }
    return rest;
  }

  int64_t unitFor(const Layout &layout, size_t d) const {
    return layout.dims[d].isWhole() ? to.dims[d].unit : layout.dims[d].unit;
  }

  /// How dim `d` goes on towards the target with atoms that `may` take; empty
  /// where it does not.
  template <typename May>
  Atoms towards(const Layout &layout, size_t d, May may) const {
    const Split &now = layout.dims[d], &then = to.dims[d];
    Atoms next;
    if (!refines(then, now)) {
      return next;
    }
    for (size_t i = now.atoms.size(); i < then.atoms.size(); ++i) {
      if (!may(then.atoms[i])) {
        break;
      }
      next.push_back(then.atoms[i]);
    }
    bool complete = now.atoms.size() + next.size() == then.atoms.size();
    return isPlain(then) || complete ? next : Atoms();
  }

  /// Dim `d` of `layout` with `next` added.
  void append(Layout &layout, size_t d, const Atoms &next) const {
    if (next.empty()) {
      return;
    }
    Atoms atoms = layout.dims[d].atoms;
    atoms.insert(atoms.end(), next.begin(), next.end());
    bool arrives =
        atoms == to.dims[d].atoms && refines(to.dims[d], layout.dims[d]);
    layout.dims[d] = arrives ? to.dims[d] : plain(atoms, unitFor(layout, d));
  }

  void reduce(int index, const Layout &layout) {
    Atoms rest = pending(layout);
    if (rest.empty()) {
      return;
    }
    auto without = [&](Layout next, const Atoms &atoms) {
      std::erase_if(next.partial,
                    [&](AtomId atom) { return contains(atoms, atom); });
      return next;
    };
    // Scatter towards the target: all dims at once, then each alone.
    auto isPending = [&](AtomId atom) { return contains(rest, atom); };
    Layout all = layout;
    Atoms allAtoms;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      Atoms next = towards(layout, d, isPending);
      append(all, d, next);
      allAtoms.insert(allAtoms.end(), next.begin(), next.end());
    }
    add(index, Kind::ReduceScatter, allAtoms, without(all, allAtoms));
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      Layout one = layout;
      Atoms next = towards(layout, d, isPending);
      append(one, d, next);
      add(index, Kind::ReduceScatter, next, without(one, next));
    }
    // Scatter one atom anywhere; an all_to_all may put it right.
    for (AtomId atom : rest) {
      for (size_t d = 0; d < layout.dims.size(); ++d) {
        if (isPlain(layout.dims[d])) {
          Layout one = layout;
          append(one, d, {atom});
          add(index, Kind::ReduceScatter, {atom}, without(one, {atom}),
              /*isDetour=*/true);
        }
      }
    }
    for (size_t set = (size_t(1) << rest.size()) - 1; set > 0; --set) {
      Atoms atoms;
      for (size_t i = 0; i < rest.size(); ++i) {
        if (set >> i & 1) {
          atoms.push_back(rest[i]);
        }
      }
      add(index, Kind::AllReduce, atoms, without(layout, atoms));
    }
  }

  void slice(int index, const Layout &layout) {
    auto isFree = [&](AtomId atom) { return !layout.uses(atom); };
    Layout all = layout;
    Atoms allAtoms;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      Atoms next = towards(layout, d, isFree);
      append(all, d, next);
      allAtoms.insert(allAtoms.end(), next.begin(), next.end());
    }
    add(index, Kind::LocalSlice, allAtoms, all);
    // One atom where the target has it, though not yet in its place.
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      for (AtomId atom : to.dims[d].atoms) {
        if (isFree(atom) && isPlain(layout.dims[d])) {
          Layout one = layout;
          append(one, d, {atom});
          add(index, Kind::LocalSlice, {atom}, one, /*isDetour=*/true);
        }
      }
    }
  }

  /// The atoms of dims in which two layouts differ.
  static Atoms changed(const Layout &a, const Layout &b) {
    Atoms atoms;
    for (size_t d = 0; d < a.dims.size(); ++d) {
      if (a.dims[d] == b.dims[d]) {
        continue;
      }
      // A common major part of plain splits stays where it is.
      size_t common = 0;
      const Split &x = a.dims[d], &y = b.dims[d];
      bool keepsUnit = x.unit == y.unit || x.isWhole() || y.isWhole();
      if (isPlain(x) && isPlain(y) && keepsUnit) {
        while (common < x.atoms.size() && common < y.atoms.size() &&
               x.atoms[common] == y.atoms[common]) {
          ++common;
        }
      }
      atoms.insert(atoms.end(), x.atoms.begin() + common, x.atoms.end());
      atoms.insert(atoms.end(), y.atoms.begin() + common, y.atoms.end());
    }
    std::sort(atoms.begin(), atoms.end());
    atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
    return atoms;
  }

  void exchange(int index, const Layout &layout) {
    // The target's arrangement of the atoms that are here.
    Atoms present;
    for (const Split &split : layout.dims) {
      present.insert(present.end(), split.atoms.begin(), split.atoms.end());
    }
    Layout arranged = layout;
    Atoms placed;
    bool possible = true;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      Atoms atoms;
      for (AtomId atom : to.dims[d].atoms) {
        if (contains(present, atom)) {
          atoms.push_back(atom);
        }
      }
      placed.insert(placed.end(), atoms.begin(), atoms.end());
      if (atoms == to.dims[d].atoms) {
        arranged.dims[d] = to.dims[d];
      } else {
        possible &= isPlain(to.dims[d]);
        arranged.dims[d] = plain(atoms, to.dims[d].unit);
      }
    }
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      for (AtomId atom : layout.dims[d].atoms) {
        if (!contains(placed, atom)) {
          possible &= isPlain(arranged.dims[d]);
          Atoms atoms = arranged.dims[d].atoms;
          atoms.push_back(atom);
          arranged.dims[d] =
              plain(atoms, arranged.dims[d].isWhole() ? layout.dims[d].unit
                                                      : arranged.dims[d].unit);
        }
      }
    }
    if (possible && arranged.dims != layout.dims) {
      add(index, movesCuts(layout, arranged) ? Kind::Shift : Kind::AllToAll,
          changed(layout, arranged), arranged);
    }
    // A minor end goes to another dim.
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const Split &source = layout.dims[d];
      for (size_t keep = 0; keep < source.atoms.size(); ++keep) {
        if (keep > 0 && !isPlain(source)) {
          continue;
        }
        Atoms moving(source.atoms.begin() + keep, source.atoms.end());
        for (size_t e = 0; e < layout.dims.size(); ++e) {
          if (e == d || !isPlain(layout.dims[e])) {
            continue;
          }
          Layout next = layout;
          next.dims[d] = plain(
              {source.atoms.begin(), source.atoms.begin() + keep}, source.unit);
          append(next, e, moving);
          add(index, Kind::AllToAll, moving, next, /*isDetour=*/true);
        }
      }
    }
  }

  void gather(int index, const Layout &layout) {
    // Down to what the target shares, in all dims at once.
    Layout all = layout;
    Atoms allAtoms;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const Split &now = layout.dims[d], &then = to.dims[d];
      if (refines(then, now)) {
        continue;
      }
      size_t common = 0;
      if (isPlain(now) && isPlain(then) && now.unit == then.unit) {
        while (common < now.atoms.size() && common < then.atoms.size() &&
               now.atoms[common] == then.atoms[common]) {
          ++common;
        }
      }
      allAtoms.insert(allAtoms.end(), now.atoms.begin() + common,
                      now.atoms.end());
      all.dims[d] =
          plain({now.atoms.begin(), now.atoms.begin() + common}, now.unit);
    }
    add(index, Kind::AllGather, allAtoms, all);
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const Split &now = layout.dims[d];
      for (size_t keep = 0; keep < now.atoms.size(); ++keep) {
        if (keep > 0 && !isPlain(now)) {
          continue;
        }
        Layout one = layout;
        one.dims[d] =
            plain({now.atoms.begin(), now.atoms.begin() + keep}, now.unit);
        add(index, Kind::AllGather, {now.atoms.begin() + keep, now.atoms.end()},
            one);
      }
    }
  }

  const Layout &to;
  const Subject &subject;
  int64_t maxElements;
  std::vector<Node> nodes;
  std::map<Key, Cost> best;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
};

} // namespace

std::optional<Path> reshard(const Layout &from, const Layout &to,
                            const Subject &subject, int64_t memoryBytes) {
  assert(from.dims.size() == to.dims.size() &&
         subject.sizes.size() == to.dims.size());
  assert(from.residence.empty() && to.residence.empty() &&
         "residence is not resharded yet");
  Layout start = normal(from), goal = normal(to);
  for ([[maybe_unused]] AtomId atom : goal.partial) {
    assert(contains(start.partial, atom) && "a pending sum out of nothing");
  }
  if (start == goal) {
    return Path();
  }
  if (memoryBytes >= 0) {
    return Search(start, goal, subject, memoryBytes / subject.elementBytes)
        .run();
  }
  int64_t ends =
      std::max(localElements(start, subject), localElements(goal, subject));
  if (std::optional<Path> path = Search(start, goal, subject, ends).run()) {
    return path;
  }
  return Search(start, goal, subject, -1).run();
}

size_t Cache::Hash::operator()(const std::vector<int64_t> &key) const {
  uint64_t hash = key.size();
  for (int64_t number : key) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

/// As `keyOf(normal(layout))`, without a copy.
static void appendKey(std::vector<int64_t> &key, const Layout &layout) {
  size_t start = key.size();
  key.insert(key.end(), layout.partial.begin(), layout.partial.end());
  std::sort(key.begin() + static_cast<std::ptrdiff_t>(start), key.end());
  for (const Split &split : layout.dims) {
    key.push_back(-1);
    if (split.isWhole()) {
      continue;
    }
    key.insert(key.end(), split.atoms.begin(), split.atoms.end());
    key.push_back(-2);
    key.push_back(split.unit);
    key.push_back(static_cast<int64_t>(split.cuts.size()));
    key.insert(key.end(), split.cuts.begin(), split.cuts.end());
    key.insert(key.end(), split.places.begin(), split.places.end());
  }
  key.push_back(-3);
  key.push_back(layout.isPartial() ? static_cast<int64_t>(layout.reduction)
                                   : 0);
}

const Path &Cache::reshard(const Layout &from, const Layout &to,
                           const Subject &subject) {
  static const Path kNone;
  if (from == to) {
    return kNone; // most values stay
  }
  key.clear();
  appendKey(key, from);
  appendKey(key, to);
  key.push_back(subject.elementBytes);
  key.insert(key.end(), subject.sizes.begin(), subject.sizes.end());
  auto [found, isNew] = known.try_emplace(key);
  if (isNew) {
    std::optional<Path> path = reshard::reshard(from, to, subject);
    if (path) {
      found->second = std::move(*path);
    } else {
      assert(subject.mesh->times > 0 &&
             "every layout is reachable without a memory bound");
      found->second.total = impossible;
      found->second.isPossible = false;
    }
  }
  return found->second;
}

} // namespace cleave::reshard
