#include "lang/plan/StageCuts.h"

#include <algorithm>
#include <tuple>

using namespace cleave::ast;

namespace cleave::plan {

bool StageCuts::wrong(SourceRange range, const std::string &message,
                      const std::string &help) {
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

std::optional<StageCuts::Side> StageCuts::sideOf(const Name &region) {
  const RegionFact *found = nullptr;
  std::vector<std::string> known;
  for (const RegionFact &each : facts.regions) {
    if (!found && (each.path == region.text || each.function == region.text)) {
      found = &each;
    }
    if (each.path.find('/') == std::string::npos && each.path != dim.name) {
      known.push_back(each.path);
    }
  }
  if (!found) {
    auto builder = diags.error(Diag::UnknownPath, region.range,
                               "`" + facts.model + "` has no region `" +
                                   region.text + "` outside its layers");
    if (!known.empty()) {
      builder.help(suggestion(region.text, known));
    }
    return std::nullopt;
  }
  if (hasStep(found->path, dim.name)) {
    wrong(region.range,
          "`" + found->path + "` is a part of each `" + dim.name + "`",
          "name regions before or after the repeat");
    return std::nullopt;
  }
  // Values stand in the order of the program.
  for (const layout::ValueInfo &value : facts.values) {
    if (value.role != layout::Role::Activations) {
      continue;
    }
    if (liesIn(value.path, found->path)) {
      return Side::Before;
    }
    if (hasStep(value.path, dim.name)) {
      return Side::After;
    }
  }
  return Side::After;
}

bool StageCuts::count(const std::vector<Name> &regions) {
  int64_t before = 0, after = 0;
  std::set<std::string> seen;
  for (const Name &region : regions) {
    std::optional<Side> side = sideOf(region);
    if (!side) {
      return false;
    }
    if (!seen.insert(region.text).second) {
      return wrong(region.range, "`" + region.text + "` is counted twice",
                   "name each region once");
    }
    ++(*side == Side::Before ? before : after);
  }
  int64_t items = before + dim.size + after;
  for (int64_t i = 0; i <= pieces; ++i) {
    int64_t item =
        i == pieces ? items : layout::splitRule(items, pieces, i).begin;
    boundaries.push_back(std::clamp<int64_t>(item - before, 0, dim.size));
  }
  return true;
}

// The layers of one piece. Regions stand where the model has them: on the first
// stage or on the last.
std::optional<int64_t> StageCuts::layersOf(const PipelineStmt::Piece &piece,
                                           bool first, bool last,
                                           std::set<std::string> &seen) {
  int64_t layers = 0;
  for (const PipelineStmt::Item &item : piece.items) {
    int64_t number = item.count.value_or(1);
    if (item.name.text == dim.name) {
      if (number < 0 || number > dim.size - layers) {
        wrong(item.range,
              "there are " + std::to_string(dim.size) + " `" + dim.name +
                  "`, not " + std::to_string(number),
              "the pieces have all of them together");
        return std::nullopt;
      }
      layers += number;
      continue;
    }
    std::optional<Side> side = sideOf(item.name);
    if (!side) {
      return std::nullopt;
    }
    if (number != 1 || !seen.insert(item.name.text).second) {
      wrong(item.range, "`" + item.name.text + "` is there once",
            "name it in one piece, without a number");
      return std::nullopt;
    }
    if (*side == Side::Before ? !first : !last) {
      diags
          .error(Diag::LaterPlace, item.range,
                 "`" + item.name.text + "` stands " +
                     (*side == Side::Before ? "before" : "after") +
                     " the repeat, so it is on the " +
                     (*side == Side::Before ? "first" : "last") +
                     " stage; another place is not built yet")
          .help(std::string("name it in the ") +
                (*side == Side::Before ? "first" : "last") + " piece");
      return std::nullopt;
    }
  }
  return layers;
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

bool StageCuts::spell(const PipelineStmt &stmt, const Scope &scope) {
  std::set<std::string> seen;
  int64_t layer = 0, written = 0;
  boundaries.push_back(0);
  for (const PipelineStmt::Piece &piece : stmt.pieces) {
    std::optional<int64_t> times = timesOf(piece, scope);
    if (!times) {
      return false;
    }
    for (int64_t i = 0; i < *times; ++i, ++written) {
      std::optional<int64_t> layers =
          layersOf(piece, written == 0,
                   &piece == &stmt.pieces.back() && i + 1 == *times, seen);
      if (!layers) {
        return false;
      }
      layer += *layers;
      if (written > pieces) {
        continue; // counted for the message, with no need for boundaries
      }
      boundaries.push_back(layer);
    }
  }
  SourceRange range{stmt.range.file, stmt.pieces.front().range.begin,
                    stmt.pieces.back().range.end};
  if (written != pieces) {
    return wrong(range,
                 std::to_string(written) +
                     (written == 1 ? " piece for " : " pieces for ") +
                     std::to_string(pieces) + " stages",
                 "write one for each, in order; `[]` is an empty one");
  }
  if (layer != dim.size) {
    return wrong(range,
                 "the pieces have " + std::to_string(layer) + " `" + dim.name +
                     "`, and the model " + std::to_string(dim.size),
                 "each belongs to one piece");
  }
  return true;
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
  boundaries.push_back(0);
  for (int64_t number : layers) {
    boundaries.push_back(boundaries.back() + number);
  }
  return true;
}

bool StageCuts::find(const PipelineStmt &stmt, const Scope &scope) {
  if (!stmt.pieces.empty()) {
    return spell(stmt, scope);
  }
  if (stmt.byCost) {
    return balance(stmt.range);
  }
  return stmt.counting.empty() || count(stmt.counting);
}

} // namespace cleave::plan
