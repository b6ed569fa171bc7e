//===- Resolve.cpp - From names to layouts --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules 4 to 7 of the language, for one value:
//
//  4  For each dim the last matching plain `shard` governs; the `also`s after
//     it append minor axes, in source order.
//  5  Statements claim axes in this order: plain ones without `else` or `?`,
//     then plain ones with them, later first; then `largest`; then `also`s the
//     same way. Each takes its first alternative that fits.
//  6  An alternative fits if no atom of it is taken in this value, and with
//     `even` if it divides.
//  7  What nothing names is whole. A product passes a split to its factors.
//
// Example, with kv = 8, group = 2 and head of kv * group, on [data: 4,
// tensor: 16] whose atoms are data 4, tensor.1 8, tensor.2 2:
//
//     shard head on tensor
//     shard largest also on data else none for optimizer
//
//   wq [embed 4096, kv, group, key]   kv takes 8 of 16, group the rest 2; as an
//                                     optimizer leaf embed is cut on data
//   wk [embed 4096, kv, key]          kv takes 8; the other 2 hold replicas
//
// Rule 9's defaults belong here too: where nothing is said of a dim for an
// optimizer leaf it follows its parameter, and a gradient follows the
// optimizer.
//
//===----------------------------------------------------------------------===//

#include "layout/Plan.h"

#include <algorithm>
#include <numeric>

namespace cleave::layout {
namespace {

const char *ordinal(int index) {
  static const char *names[] = {"first", "second", "third", "fourth", "fifth"};
  return index < 5 ? names[index] : "a later";
}

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Resolver {
public:
  Resolver(const Plan &plan, const ValueInfo &value)
      : plan(plan), value(value), mesh(plan.mesh),
        takenBy(plan.mesh.atoms.size(), -1) {}

  Resolved run();

private:
  struct Part { ///< what one statement gave a dim
    int statement;
    int alternative;
    std::vector<AtomId> atoms;
    std::string why;  ///< where it is not the first alternative
    std::string note; ///< where the coordinates outnumber the pieces
  };
  struct DimState {
    std::string name;
    int64_t size = 0;
    bool repeated = false;
    std::vector<std::string> names; ///< its own and those it is `like`
    int plain = -1;                 ///< the governing statement
    std::vector<int> alsos;         ///< those that append, ascending
    std::vector<Part> parts;
  };

  void addDims();
  void addRoles();
  void findGoverning();
  void findAlsos();
  void claimAll();

  const DimInfo *infoOf(const std::string &name) const;
  bool names(const ShardStatement &statement, const DimState &dim) const;
  int lastPlain(const DimState &dim) const;
  std::vector<int> alsosOf(const DimState &dim);
  int64_t countOf(const DimState &dim) const;
  int64_t extentOf(const DimState &dim) const {
    return ceilDiv(dim.size, countOf(dim));
  }

  void claim(int statement);
  void claimLargest(int statement);
  bool tryDims(int statement, const std::vector<AtomId> &atoms,
               std::vector<std::pair<DimState *, std::vector<AtomId>>> &given,
               std::string &why);
  DimState *largestDim(int statement, int64_t count);
  std::vector<AtomId> atomsOf(const Alternative &alternative) const;
  bool areFree(const std::vector<AtomId> &atoms, std::string &why, int &holder);
  void give(DimState &dim, int statement, int alternative,
            std::vector<AtomId> atoms, const std::string &why,
            const std::string &note = "");
  std::string extentNote(const DimState &dim, const Split &split) const;
  void fail(int statement, const std::string &why, int holder);
  std::string subject() const;
  void addGoverning(int statement);
  void finish();

  const Plan &plan;
  const ValueInfo &value;
  const Mesh &mesh;
  std::vector<int> takenBy; ///< for each atom the statement that took it, or -1
  std::vector<DimState> dims;
  /// For the value's role, then for those whose layout it follows where it has
  /// none of its own: which statements match.
  std::vector<std::vector<bool>> matching;
  std::vector<int> largestAlsos;
  int plainLargest = -1;
  Resolved result;
};

const DimInfo *Resolver::infoOf(const std::string &name) const {
  for (const DimInfo &info : plan.dims) {
    if (info.name == name) {
      return &info;
    }
  }
  return nullptr;
}

void Resolver::addDims() {
  for (const NamedDim &dim : value.dims) {
    DimState state;
    state.name = dim.name;
    state.size = dim.size;
    state.names.push_back(dim.name);
    const DimInfo *info = infoOf(dim.name);
    state.repeated = info && info->repeated;
    // Where the value has the dim it follows, that one takes the split.
    for (size_t depth = 0; info && !info->like.empty() && depth < 64; ++depth) {
      bool present = std::any_of(
          value.dims.begin(), value.dims.end(),
          [&](const NamedDim &other) { return other.name == info->like; });
      if (present) {
        break;
      }
      state.names.push_back(info->like);
      info = infoOf(info->like);
    }
    dims.push_back(std::move(state));
  }
}

void Resolver::addRoles() {
  auto add = [&](const ValueInfo &as) {
    std::vector<bool> row(plan.shards.size());
    for (size_t i = 0; i < plan.shards.size(); ++i) {
      row[i] = matches(plan.shards[i].selection, as);
    }
    matching.push_back(std::move(row));
  };
  add(value);
  ValueInfo as = value;
  if (value.role == Role::Gradients) {
    as.role = Role::Optimizer;
    as.phase = Phase::Update;
    add(as);
  }
  if (value.role == Role::Gradients || value.role == Role::Optimizer) {
    as.role = Role::Params;
    as.phase = Phase::Forward;
    add(as);
  }
}

bool Resolver::names(const ShardStatement &statement,
                     const DimState &dim) const {
  return std::any_of(statement.dims.begin(), statement.dims.end(),
                     [&](const std::string &name) {
                       return std::find(dim.names.begin(), dim.names.end(),
                                        name) != dim.names.end();
                     });
}

int Resolver::lastPlain(const DimState &dim) const {
  for (const std::vector<bool> &row : matching) {
    for (size_t i = plan.shards.size(); i-- > 0;) {
      const ShardStatement &statement = plan.shards[i];
      if (row[i] && !statement.also && !statement.largest &&
          names(statement, dim)) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

std::vector<int> Resolver::alsosOf(const DimState &dim) {
  for (const std::vector<bool> &row : matching) {
    std::vector<int> found;
    for (size_t i = 0; i < plan.shards.size(); ++i) {
      const ShardStatement &statement = plan.shards[i];
      if (row[i] && statement.also && !statement.largest &&
          names(statement, dim)) {
        found.push_back(static_cast<int>(i));
      }
    }
    if (!found.empty()) {
      return found;
    }
  }
  return {};
}

void Resolver::findGoverning() {
  for (DimState &dim : dims) {
    dim.plain = lastPlain(dim);
    if (dim.plain >= 0) {
      addGoverning(dim.plain);
    }
  }
  for (const std::vector<bool> &row : matching) {
    for (size_t i = plan.shards.size(); i-- > 0 && plainLargest < 0;) {
      if (row[i] && plan.shards[i].largest && !plan.shards[i].also) {
        plainLargest = static_cast<int>(i);
      }
    }
  }
}

void Resolver::findAlsos() {
  for (DimState &dim : dims) {
    for (int also : alsosOf(dim)) {
      if (also < dim.plain) {
        result.discarded.push_back({also, dim.plain});
        continue;
      }
      dim.alsos.push_back(also);
      addGoverning(also);
    }
  }
  for (const std::vector<bool> &row : matching) {
    for (size_t i = 0; i < plan.shards.size(); ++i) {
      if (row[i] && plan.shards[i].largest && plan.shards[i].also) {
        largestAlsos.push_back(static_cast<int>(i));
      }
    }
    if (!largestAlsos.empty()) {
      break;
    }
  }
}

void Resolver::addGoverning(int statement) {
  std::vector<int> &list = result.governing;
  auto at = std::lower_bound(list.begin(), list.end(), statement);
  if (at == list.end() || *at != statement) {
    list.insert(at, statement);
  }
}

void Resolver::claimAll() {
  std::vector<int> plains, alsos = largestAlsos;
  for (const DimState &dim : dims) {
    if (dim.plain >= 0) {
      plains.push_back(dim.plain);
    }
    alsos.insert(alsos.end(), dim.alsos.begin(), dim.alsos.end());
  }
  // Rule 5: what cannot yield in source order, then what can, later first.
  auto claimIn = [&](std::vector<int> &list) {
    std::sort(list.begin(), list.end(), [&](int a, int b) {
      bool yieldsA = plan.shards[a].yields, yieldsB = plan.shards[b].yields;
      return yieldsA != yieldsB ? yieldsB : yieldsA ? a > b : a < b;
    });
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (int statement : list) {
      if (result.error.empty()) {
        plan.shards[statement].largest ? claimLargest(statement)
                                       : claim(statement);
      }
    }
  };
  claimIn(plains);
  if (plainLargest >= 0 && result.error.empty()) {
    claimLargest(plainLargest);
  }
  claimIn(alsos);
}

int64_t Resolver::countOf(const DimState &dim) const {
  int64_t count = 1;
  for (const Part &part : dim.parts) {
    count *= mesh.sizeOf(part.atoms);
  }
  return count;
}

/// The atoms that `alternative` would take here: references marked `?` are left
/// out where an atom of theirs is taken.
std::vector<AtomId> Resolver::atomsOf(const Alternative &alternative) const {
  std::vector<AtomId> dropped;
  auto dropIfTaken = [&](const std::vector<AtomId> &ref) {
    if (std::any_of(ref.begin(), ref.end(),
                    [&](AtomId atom) { return takenBy[atom] >= 0; })) {
      dropped.insert(dropped.end(), ref.begin(), ref.end());
    }
  };
  for (const std::vector<AtomId> &ref : alternative.optionalRefs) {
    dropIfTaken(ref);
  }
  if (alternative.optionalRefs.empty()) {
    for (AtomId atom : alternative.optional) {
      dropIfTaken({atom});
    }
  }
  std::vector<AtomId> atoms;
  for (AtomId atom : alternative.atoms) {
    if (std::find(dropped.begin(), dropped.end(), atom) == dropped.end()) {
      atoms.push_back(atom);
    }
  }
  return atoms;
}

bool Resolver::areFree(const std::vector<AtomId> &atoms, std::string &why,
                       int &holder) {
  for (AtomId atom : atoms) {
    if (takenBy[atom] < 0) {
      continue;
    }
    holder = takenBy[atom];
    const SourcePoint &other = plan.shards[holder].source;
    why = "`" + mesh.describe({atom}) + "` is taken by `" + other.text +
          "` at " + other.where();
    return false;
  }
  return true;
}

/// Passes `atoms` to the dims that `statement` governs, major first. A
/// product's factors that this value lacks take their share too, so that `wk`
/// is cut as `wq` is; here those devices hold replicas.
bool Resolver::tryDims(
    int statement, const std::vector<AtomId> &atoms,
    std::vector<std::pair<DimState *, std::vector<AtomId>>> &given,
    std::string &why) {
  const ShardStatement &shard = plan.shards[statement];
  size_t next = 0;
  auto restSize = [&] {
    int64_t size = 1;
    for (size_t i = next; i < atoms.size(); ++i) {
      size *= mesh.atoms[atoms[i]].size;
    }
    return size;
  };
  for (const std::string &name : shard.dims) {
    DimState *dim = nullptr;
    for (DimState &candidate : dims) {
      if (!dim && std::find(candidate.names.begin(), candidate.names.end(),
                            name) != candidate.names.end()) {
        dim = &candidate;
      }
    }
    int64_t size = 1;
    if (dim) {
      bool governs = shard.also
                         ? std::find(dim->alsos.begin(), dim->alsos.end(),
                                     statement) != dim->alsos.end()
                         : dim->plain == statement;
      if (!governs) {
        continue;
      }
      size = extentOf(*dim);
    } else {
      DimState absent;
      absent.names.push_back(name);
      int plain = lastPlain(absent);
      if (shard.also ? plain > statement : plain != statement) {
        continue;
      }
      const DimInfo *info = infoOf(name);
      size = info ? info->size : 1;
    }
    size_t first = next;
    if (shard.dims.size() == 1 || size >= restSize()) {
      next = atoms.size();
    } else {
      int64_t rest = size; // what of the factor is not yet cut
      for (; next < atoms.size(); ++next) {
        int64_t atom = mesh.atoms[atoms[next]].size;
        int64_t common = std::gcd(atom, rest);
        if (common != atom) {
          if (common > 1 && !result.wantsCut) {
            result.wantsCut = true;
            result.wantedAtom = atoms[next];
            result.wantedSize = common;
          }
          break;
        }
        rest /= common;
      }
    }
    std::vector<AtomId> share(atoms.begin() + first, atoms.begin() + next);
    if (dim) {
      int64_t count = countOf(*dim) * mesh.sizeOf(share);
      if (shard.even && dim->size % count != 0) {
        why = "`" + dim->name + "` (" + std::to_string(dim->size) +
              ") cannot be split evenly on `" + mesh.describe(share) + "` (" +
              std::to_string(count) + ")";
        return false;
      }
      given.push_back({dim, std::move(share)});
    }
  }
  if (shard.even && next < atoms.size()) {
    why = "the factors of its dim take " +
          std::to_string(mesh.sizeOf({atoms.begin(), atoms.begin() + next})) +
          " of the " + std::to_string(mesh.sizeOf(atoms)) +
          " coordinates of `" + mesh.describe(atoms) + "`";
    return false;
  }
  return true;
}

void Resolver::give(DimState &dim, int statement, int alternative,
                    std::vector<AtomId> atoms, const std::string &why,
                    const std::string &note) {
  for (AtomId atom : atoms) {
    takenBy[atom] = statement;
  }
  dim.parts.push_back({statement, alternative, std::move(atoms), why, note});
}

/// What a reader would not expect of the pieces: that they differ in size.
std::string Resolver::extentNote(const DimState &dim,
                                 const Split &split) const {
  int64_t count = mesh.sizeOf(split.atoms);
  if (!split.cuts.empty()) {
    std::string text;
    for (size_t i = 0; i + 1 < split.cuts.size(); ++i) {
      text +=
          (i ? ", " : "") + std::to_string(split.cuts[i + 1] - split.cuts[i]);
    }
    return "; " + std::to_string(dim.size) + " in pieces of " + text;
  }
  if (dim.size % count == 0) {
    return "";
  }
  return "; " + std::to_string(dim.size) + " over " + std::to_string(count) +
         " in pieces of " + std::to_string(dim.size / count) + " and " +
         std::to_string(ceilDiv(dim.size, count));
}

void Resolver::claim(int statement) {
  const ShardStatement &shard = plan.shards[statement];
  // Two dims of one list, each a statement's own business: `shard a, b on x` is
  // two statements, so what reaches here is one dim or one product.
  std::string why, passedOver;
  int holder = -1;
  for (size_t i = 0; i < shard.alternatives.size(); ++i) {
    std::vector<AtomId> atoms = atomsOf(shard.alternatives[i]);
    std::vector<std::pair<DimState *, std::vector<AtomId>>> given;
    if (areFree(atoms, why, holder) && tryDims(statement, atoms, given, why)) {
      int64_t used = 1;
      for (auto &[dim, share] : given) {
        used *= mesh.sizeOf(share);
      }
      std::string note;
      if (int64_t all = mesh.sizeOf(atoms); used < all) {
        note = "; " + std::to_string(used) + " pieces on the " +
               std::to_string(all) + " coordinates of `" +
               mesh.describe(atoms) + "`, so " + std::to_string(all / used) +
               " hold each";
      }
      for (auto &[dim, share] : given) {
        give(*dim, statement, static_cast<int>(i), std::move(share), passedOver,
             note);
      }
      return;
    }
    passedOver += (passedOver.empty() ? "" : "; ") + why;
  }
  fail(statement, why, holder);
}

Resolver::DimState *Resolver::largestDim(int statement, int64_t count) {
  const ShardStatement &shard = plan.shards[statement];
  DimState *best = nullptr;
  for (DimState &dim : dims) {
    if (dim.repeated ||
        (shard.even && dim.size % (countOf(dim) * count) != 0)) {
      continue;
    }
    // A plain `largest` takes a dim that is still whole.
    if (!shard.also && (countOf(dim) > 1 || dim.plain > statement)) {
      continue;
    }
    if (!best || extentOf(dim) > extentOf(*best)) {
      best = &dim;
    }
  }
  return best;
}

void Resolver::claimLargest(int statement) {
  const ShardStatement &shard = plan.shards[statement];
  if (std::all_of(dims.begin(), dims.end(),
                  [](const DimState &dim) { return dim.repeated; })) {
    return; // a scalar has nothing to split
  }
  std::string why, passedOver;
  int holder = -1;
  for (size_t i = 0; i < shard.alternatives.size(); ++i) {
    std::vector<AtomId> atoms = atomsOf(shard.alternatives[i]);
    if (areFree(atoms, why, holder)) {
      if (DimState *dim = largestDim(statement, mesh.sizeOf(atoms))) {
        if (shard.also && statement < dim->plain) {
          result.discarded.push_back({statement, dim->plain});
          return;
        }
        addGoverning(statement);
        if (!shard.also) {
          dim->plain = statement;
        }
        give(*dim, statement, static_cast<int>(i), std::move(atoms),
             passedOver);
        return;
      }
      why = "no dim of it " +
            std::string(shard.even ? "divides over" : "is free for") + " `" +
            mesh.describe(atoms) + "`";
      holder = -1;
    }
    passedOver += (passedOver.empty() ? "" : "; ") + why;
  }
  addGoverning(statement);
  fail(statement, why, holder);
}

std::string Resolver::subject() const {
  std::string text = value.path;
  if (!value.label.empty()) {
    text += (text.empty() ? "" : "/") + value.label;
  }
  text = text.empty() ? "a value" : "`" + text + "`";
  text += " [";
  for (size_t i = 0; i < value.dims.size(); ++i) {
    text += (i ? ", " : "") + value.dims[i].name;
  }
  return text + "]";
}

void Resolver::fail(int statement, const std::string &why, int holder) {
  const ShardStatement &shard = plan.shards[statement];
  result.error =
      "`" + shard.source.text + "` cannot hold for " + subject() + ": " + why;
  result.errorAt = shard.source;
  if (holder >= 0) {
    result.errorOther = plan.shards[holder].source;
  }
}

void Resolver::finish() {
  for (DimState &dim : dims) {
    // Appended in source order, whoever claimed first.
    std::sort(dim.parts.begin(), dim.parts.end(),
              [&](const Part &a, const Part &b) {
                bool alsoA = plan.shards[a.statement].also;
                bool alsoB = plan.shards[b.statement].also;
                return alsoA != alsoB ? alsoB : a.statement < b.statement;
              });
    Split split;
    const Part *last = nullptr;
    for (const Part &part : dim.parts) {
      const ShardStatement &shard = plan.shards[part.statement];
      if (!shard.alternatives[part.alternative].cuts.empty()) {
        split.cuts = shard.alternatives[part.alternative].cuts;
        split.places = shard.alternatives[part.alternative].places;
      }
      split.atoms.insert(split.atoms.end(), part.atoms.begin(),
                         part.atoms.end());
      if (!last || !part.atoms.empty()) {
        last = &part;
      }
    }
    Choice choice;
    if (last) {
      const SourcePoint &source = plan.shards[last->statement].source;
      choice.statement = last->statement;
      choice.alternative = last->alternative;
      choice.sentence = "`" + source.text + "` at " + source.where();
      if (last->alternative > 0) {
        choice.sentence += std::string(" (its ") + ordinal(last->alternative) +
                           " choice: " + last->why + ")";
      }
      choice.sentence += extentNote(dim, split) + last->note;
    } else {
      choice.sentence = "nothing names `" + dim.name + "`: whole";
    }
    result.choices.push_back(std::move(choice));
    result.layout.dims.push_back(std::move(split));
  }
}

Resolved Resolver::run() {
  addDims();
  addRoles();
  findGoverning();
  findAlsos();
  claimAll();
  finish();
  return std::move(result);
}

} // namespace

Resolved resolve(const Plan &plan, const ValueInfo &value) {
  return Resolver(plan, value).run();
}

} // namespace cleave::layout
