//===- Match.cpp - Which values a selection holds -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "layout/Plan.h"

#include <algorithm>
#include <string_view>

namespace cleave::layout {

bool PipelineStatement::cuts(const std::string &name) const {
  return std::find(dims.begin(), dims.end(), name) != dims.end();
}

std::string SourcePoint::where() const {
  return file + ":" + std::to_string(line);
}

static std::vector<std::string_view> stepsOf(std::string_view path) {
  std::vector<std::string_view> steps;
  while (!path.empty()) {
    size_t slash = path.find('/');
    if (slash != 0) {
      steps.push_back(path.substr(0, slash));
    }
    if (slash == std::string_view::npos) {
      break;
    }
    path.remove_prefix(slash + 1);
  }
  return steps;
}

namespace {

/// Matches a pattern against one path, step by step.
struct PathMatcher {
  const std::vector<Step> &pattern;
  const std::vector<std::string_view> &path;

  bool stepMatches(const Step &step, size_t at) const {
    std::string_view name = path[at];
    // `wqkv` holds all parts of a value with a sum dim: `wqkv.q`, `wqkv.k`.
    if (step.name == "*" || name == step.name ||
        name.substr(0, name.find('.')) == step.name) {
      return true;
    }
    return std::any_of(step.regions.begin(), step.regions.end(),
                       [&](const std::string &region) {
                         std::vector<std::string_view> steps = stepsOf(region);
                         return steps.size() == at + 1 &&
                                std::equal(steps.begin(), steps.end(),
                                           path.begin());
                       });
  }

  /// Patterns are as long as what a user wrote on a line.
  bool matchFrom(size_t step, size_t at) const {
    if (step == pattern.size()) {
      return true; // what lies within is held too
    }
    if (pattern[step].name == "**") {
      return matchFrom(step + 1, at) ||
             (at < path.size() && matchFrom(step, at + 1));
    }
    return at < path.size() && stepMatches(pattern[step], at) &&
           matchFrom(step + 1, at + 1);
  }
};

} // namespace

bool matchesPath(const Selection &selection, const std::string &path) {
  std::vector<std::string_view> steps = stepsOf(path);
  PathMatcher matcher{selection.path, steps};
  if (selection.anchored) {
    return matcher.matchFrom(0, 0);
  }
  for (size_t at = 0; at <= steps.size(); ++at) {
    if (matcher.matchFrom(0, at)) {
      return true;
    }
  }
  return false;
}

static bool compare(int64_t left, const std::string &comparison,
                    int64_t right) {
  if (comparison == "<") {
    return left < right;
  }
  if (comparison == "<=") {
    return left <= right;
  }
  if (comparison == ">") {
    return left > right;
  }
  if (comparison == ">=") {
    return left >= right;
  }
  return (left == right) == (comparison == "==");
}

static bool holds(const Selection &where, const ValueInfo &value) {
  int64_t rank = 0, bytes = value.elementBytes;
  for (const NamedDim &dim : value.dims) {
    if (std::find(where.repeated.begin(), where.repeated.end(), dim.name) !=
        where.repeated.end()) {
      continue;
    }
    ++rank;
    bytes *= dim.size;
  }
  return compare(where.attribute == "rank" ? rank : bytes, where.comparison,
                 where.number);
}

bool matches(const Selection &selection, const ValueInfo &value) {
  const std::vector<Selection> &children = selection.children;
  switch (selection.kind) {
  case Selection::Kind::All:
    return true;
  case Selection::Kind::Role:
    return value.role == selection.role;
  case Selection::Kind::Forward:
    return value.phase == Phase::Forward;
  case Selection::Kind::Backward:
    return value.phase == Phase::Backward;
  case Selection::Kind::Update:
    return value.phase == Phase::Update;
  case Selection::Kind::Path: {
    std::string path = value.label.empty()  ? value.path
                       : value.path.empty() ? value.label
                                            : value.path + "/" + value.label;
    return matchesPath(selection, path) ||
           (value.role == Role::Weights && !value.reader.empty() &&
            matchesPath(selection, value.reader));
  }
  case Selection::Kind::Any:
    return std::any_of(
        children.begin(), children.end(),
        [&](const Selection &child) { return matches(child, value); });
  case Selection::Kind::In:
    return matches(children[0], value) && matches(children[1], value);
  case Selection::Kind::Except:
    return matches(children[0], value) && !matches(children[1], value);
  case Selection::Kind::Where:
    return matches(children[0], value) && holds(selection, value);
  }
  return false;
}

} // namespace cleave::layout
