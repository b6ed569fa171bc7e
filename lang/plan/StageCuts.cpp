#include "lang/plan/StageCuts.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

using namespace cleave::ast;

namespace cleave::plan {

bool StageCuts::wrong(SourceRange range, const std::string &message,
                      const std::string &help) const {
  diags.error(Diag::BadPieces, range, message).help(help);
  return false;
}

// Whether `path` is `inner` or lies in it.
static bool liesIn(const std::string &path, const std::string &outer) {
  return path == outer || path.compare(0, outer.size() + 1, outer + "/") == 0;
}

static bool hasStep(const std::string &path, const std::string &step) {
  return ("/" + path + "/").find("/" + step + "/") != std::string::npos;
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

// Where the first activation stands of which `isIt` holds: values stand in the
// order of the program.
template <typename Predicate>
static size_t orderOf(const ModelFacts &facts, Predicate isIt) {
  size_t order = 0;
  for (const layout::ValueInfo &value : facts.values) {
    if (value.role == layout::Role::Activations && isIt(value.path)) {
      break;
    }
    ++order;
  }
  return order;
}

// The repeat whose iterations have `path`, or null.
const layout::DimInfo *StageCuts::repeatIn(const std::string &path) const {
  for (const layout::DimInfo &each : facts.dims) {
    if (each.repeated && hasStep(path, each.name)) {
      return &each;
    }
  }
  return nullptr;
}

std::optional<StageCuts::Item>
StageCuts::repeatOf(const layout::DimInfo &repeat, SourceRange range) {
  for (const layout::ValueInfo &value : facts.values) {
    size_t step = ("/" + value.path + "/").find("/" + repeat.name + "/");
    const layout::DimInfo *outer = step == std::string::npos
                                       ? nullptr
                                       : repeatIn(value.path.substr(0, step));
    if (outer) {
      wrong(range,
            "the `repeat` over `" + repeat.name +
                "` stands within the one over `" + outer->name + "`",
            "name `" + outer->name + "`");
      return std::nullopt;
    }
  }
  return Item{repeat.name, repeat.size,
              orderOf(facts, [&](const std::string &path) {
                return hasStep(path, repeat.name);
              })};
}

std::optional<StageCuts::Item> StageCuts::regionOf(const Name &name) {
  const RegionFact *found = nullptr;
  std::vector<std::string> known;
  for (const RegionFact &each : facts.regions) {
    if (!found && (each.path == name.text || each.function == name.text)) {
      found = &each;
    }
    if (each.path.find('/') == std::string::npos && !repeatIn(each.path)) {
      known.push_back(each.path);
    }
  }
  if (!found) {
    auto builder = diags.error(Diag::UnknownPath, name.range,
                               "`" + facts.model + "` has no region `" +
                                   name.text + "` outside its layers");
    if (!known.empty()) {
      builder.help(suggestion(name.text, known));
    }
    return std::nullopt;
  }
  if (const layout::DimInfo *repeat = repeatIn(found->path)) {
    wrong(name.range,
          "`" + found->path + "` is a part of each `" + repeat->name + "`",
          "name regions before or after the repeat");
    return std::nullopt;
  }
  for (const layout::ValueInfo &value : facts.values) {
    const layout::DimInfo *repeat =
        liesIn(value.path, found->path) ? repeatIn(value.path) : nullptr;
    if (repeat) {
      wrong(name.range,
            "`" + found->path + "` has the `repeat` over `" + repeat->name +
                "`",
            "name `" + repeat->name + "`, and regions beside it");
      return std::nullopt;
    }
  }
  return Item{found->path, 0, orderOf(facts, [&](const std::string &path) {
                return liesIn(path, found->path);
              })};
}

std::optional<StageCuts::Item> StageCuts::itemOf(const Name &name) {
  for (const layout::DimInfo &each : facts.dims) {
    if (each.repeated && each.name == name.text) {
      return repeatOf(each, name.range);
    }
  }
  return regionOf(name);
}

//===----------------------------------------------------------------------===//
// `counting`
//===----------------------------------------------------------------------===//

bool StageCuts::count(const std::vector<Name> &names) {
  std::optional<Item> layers = repeatOf(dim, names.front().range);
  if (!layers) {
    return false;
  }
  std::vector<Item> counted;
  std::set<std::string> seen;
  for (const Name &name : names) {
    std::optional<Item> item = regionOf(name);
    if (!item) {
      return false;
    }
    if (!seen.insert(item->name).second) {
      return wrong(name.range, "`" + name.text + "` is counted twice",
                   "name each region once");
    }
    counted.push_back(std::move(*item));
  }
  std::stable_sort(
      counted.begin(), counted.end(),
      [](const Item &a, const Item &b) { return a.order < b.order; });
  auto before =
      std::count_if(counted.begin(), counted.end(), [&](const Item &item) {
        return item.order < layers->order;
      });
  int64_t items = dim.size + static_cast<int64_t>(counted.size());
  auto boundary = [&](int64_t i) {
    return i == pieces ? items : layout::splitRule(items, pieces, i).begin;
  };
  int64_t position = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(counted.size()); ++i) {
    while (boundary(position + 1) <= (i < before ? i : i + dim.size)) {
      ++position;
    }
    regions.push_back({counted[i].name, position});
  }
  for (int64_t i = 0; i <= pieces; ++i) {
    boundaries[dim.name].push_back(
        std::clamp<int64_t>(boundary(i) - before, 0, dim.size));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// `as`
//===----------------------------------------------------------------------===//

bool StageCuts::spellItem(const PipelineStmt::Item &written, const Item &item,
                          int64_t position) {
  int64_t number = written.count.value_or(1);
  if (item.size > 0) {
    int64_t &layers = taken[item.name];
    if (number < 0 || number > item.size - layers) {
      return wrong(written.range,
                   "there are " + std::to_string(item.size) + " `" + item.name +
                       "`, not " + std::to_string(layers + number),
                   "the pieces have all of them together");
    }
    layers += number;
    return true;
  }
  bool isThere = std::any_of(
      regions.begin(), regions.end(),
      [&](const layout::StagedRegion &one) { return one.path == item.name; });
  if (number != 1 || isThere) {
    return wrong(written.range, "`" + written.name.text + "` is there once",
                 "name it in one piece, without a number");
  }
  regions.push_back({item.name, position});
  return true;
}

bool StageCuts::spellPiece(const PipelineStmt::Piece &piece, int64_t position) {
  std::optional<Item> before = furthest;
  for (const PipelineStmt::Item &written : piece.items) {
    std::optional<Item> item = itemOf(written.name);
    if (!item || !spellItem(written, *item, position)) {
      return false;
    }
    if (before && item->order < before->order) {
      return wrong(written.range,
                   "`" + item->name + "` comes before `" + before->name +
                       "` in the model, and here in a later piece",
                   "write the items in the order of the model");
    }
    if (!furthest || item->order > furthest->order) {
      furthest = std::move(item);
    }
  }
  return true;
}

// How often a piece is written: the 30 of "30 of [2 layer]".
std::optional<int64_t> StageCuts::timesOf(const PipelineStmt::Piece &piece,
                                          const Scope &scope) {
  if (!piece.times) {
    return 1;
  }
  std::optional<int64_t> times = sema::evaluateInteger(
      *piece.times, scope.environment, diags, "the number of pieces");
  if (times && (*times < 0 || *times > pieces)) {
    wrong(piece.times->range,
          std::to_string(*times) + " pieces, where there are " +
              std::to_string(pieces) + " in all",
          "a piece stands for one stage");
    return std::nullopt;
  }
  return times;
}

// Of each repeat that the pieces name, they have all iterations.
bool StageCuts::checkTotals(SourceRange range) const {
  for (const layout::DimInfo &each : facts.dims) {
    auto found = taken.find(each.name);
    int64_t number = found == taken.end() ? 0 : found->second;
    bool isMeant = each.name == dim.name || found != taken.end();
    if (isMeant && number != each.size) {
      return wrong(range,
                   "the pieces have " + std::to_string(number) + " `" +
                       each.name + "`, and the model " +
                       std::to_string(each.size),
                   "each belongs to one piece");
    }
  }
  return true;
}

bool StageCuts::spell(const PipelineStmt &stmt, const Scope &scope) {
  int64_t position = 0;
  std::vector<std::map<std::string, int64_t>> after; // each position
  for (const PipelineStmt::Piece &piece : stmt.pieces) {
    std::optional<int64_t> times = timesOf(piece, scope);
    if (!times) {
      return false;
    }
    for (int64_t i = 0; i < *times; ++i, ++position) {
      if (!spellPiece(piece, position)) {
        return false;
      }
      if (position < pieces) { // more are counted for the message alone
        after.push_back(taken);
      }
    }
  }
  SourceRange range{stmt.range.file, stmt.pieces.front().range.begin,
                    stmt.pieces.back().range.end};
  if (position != pieces) {
    return wrong(range,
                 std::to_string(position) +
                     (position == 1 ? " piece for " : " pieces for ") +
                     std::to_string(pieces) + " stages",
                 "write one for each, in order; `[]` is an empty one");
  }
  if (!checkTotals(range)) {
    return false;
  }
  for (const auto &[name, total] : taken) {
    std::vector<int64_t> &cuts = boundaries[name];
    cuts.push_back(0);
    for (const auto &numbers : after) {
      auto found = numbers.find(name);
      cuts.push_back(found == numbers.end() ? 0 : found->second);
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// `by cost`
//===----------------------------------------------------------------------===//

// `before 0, each layer 1.2, after 3.4 GFLOP: the largest piece has 4.6`.
static std::string sentenceOf(const RepeatFact &fact, double largest) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "by cost: each `%s` takes %.4g GFLOP forward, what stands before "
      "them %.4g, after them %.4g; the largest piece %.4g",
      fact.dim.c_str(), fact.each / 1e9, fact.before / 1e9, fact.after / 1e9,
      largest / 1e9);
  return text;
}

// Layers cost alike, so the best cut comes of giving one after the other to the
// piece that costs least so far: the first of those with the fewest layers.
bool StageCuts::balance(SourceRange range) {
  auto fact = std::find_if(
      facts.repeats.begin(), facts.repeats.end(),
      [&](const RepeatFact &each) { return each.dim == dim.name; });
  if (fact == facts.repeats.end() || fact->each <= 0) {
    return wrong(range,
                 "`by cost` counts floating-point operations, and `" +
                     dim.name + "` has none that are known",
                 "leave `by cost` out, or write the pieces: `as [2 " +
                     dim.name + "], …`");
  }
  std::vector<double> costs(pieces);
  costs.front() += fact->before;
  costs.back() += fact->after;
  std::vector<int64_t> layers(pieces);
  auto isBefore = [&](int64_t a, int64_t b) {
    return std::tuple(costs[a], layers[a], a) <
           std::tuple(costs[b], layers[b], b);
  };
  std::set<int64_t, decltype(isBefore)> cheapest(isBefore);
  for (int64_t i = 0; i < pieces; ++i) {
    cheapest.insert(i);
  }
  for (int64_t layer = 0; layer < dim.size; ++layer) {
    int64_t piece = cheapest.extract(cheapest.begin()).value();
    costs[piece] += fact->each;
    ++layers[piece];
    cheapest.insert(piece);
  }
  std::vector<int64_t> &cuts = boundaries[dim.name];
  cuts.push_back(0);
  for (int64_t number : layers) {
    cuts.push_back(cuts.back() + number);
  }
  why = sentenceOf(*fact, *std::max_element(costs.begin(), costs.end()));
  return true;
}

bool StageCuts::find(const PipelineStmt &stmt, const Scope &scope) {
  if (!stmt.pieces.empty()) {
    return spell(stmt, scope);
  }
  if (stmt.byCost) {
    return balance(stmt.range);
  }
  boundaries[dim.name]; // by the split rule
  if (stmt.counting.empty()) {
    return true;
  }
  return count(stmt.counting);
}

} // namespace cleave::plan
