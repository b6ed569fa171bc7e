#include "lang/plan/Facts.h"

#include <algorithm>
#include <set>

using namespace cleave;
using namespace cleave::plan;
using layout::Phase;
using layout::Role;
using layout::ValueInfo;

// Values of one key have one layout.
static std::string keyOf(const ValueInfo &value) {
  std::string key = std::to_string(static_cast<int>(value.role)) + "|" +
                    std::to_string(static_cast<int>(value.phase)) + "|" +
                    std::to_string(value.elementBytes) + "|" + value.path +
                    "|" + value.label + "|" + value.reader;
  for (const layout::NamedDim &dim : value.dims) {
    key += "|" + dim.name + "=" + std::to_string(dim.size);
  }
  return key;
}

std::vector<ValueInfo> plan::allValues(const ModelFacts &facts) {
  std::vector<ValueInfo> result;
  std::set<std::string> seen;
  for (const ValueInfo &value : facts.values) {
    if (!seen.insert(keyOf(value)).second) {
      continue;
    }
    result.push_back(value);
    if (value.role == Role::Activations && value.phase == Phase::Forward) {
      result.push_back(value);
      result.back().phase = Phase::Backward;
    }
  }
  bool hasWeights = std::any_of(
      facts.values.begin(), facts.values.end(),
      [](const ValueInfo &value) { return value.role == Role::Weights; });
  for (const LeafFact &leaf : facts.leaves) {
    ValueInfo value;
    value.path = leaf.path;
    value.dims = leaf.dims;
    value.elementBytes = leaf.elementBytes;
    auto add = [&](Role role, Phase phase) {
      value.role = role;
      value.phase = phase;
      result.push_back(value);
    };
    add(Role::Params, Phase::Forward);
    add(Role::Gradients, Phase::Backward);
    add(Role::Optimizer, Phase::Update);
    if (!hasWeights) {
      size_t slash = leaf.path.rfind('/');
      value.reader =
          slash == std::string::npos ? "" : leaf.path.substr(0, slash);
      add(Role::Weights, Phase::Forward);
    }
  }
  return result;
}
