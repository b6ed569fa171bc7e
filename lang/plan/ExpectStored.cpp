// What contracts say of bytes that are kept from step to step.
#include "lang/plan/Expect.h"

#include "layout/Stored.h"

#include <algorithm>

namespace cleave::plan {

using layout::NamedDim;
using layout::Resolved;
using layout::ValueInfo;

// Calls `visit` with what is stored: each leaf as parameter, as gradient, and
// once for each optimizer state it has.
template <typename Visit>
static void forEachStored(const ModelFacts &facts, Visit visit) {
  for (const LeafFact &leaf : facts.leaves) {
    ValueInfo value;
    value.path = leaf.path;
    value.dims = leaf.dims;
    value.elementBytes = leaf.elementBytes;
    value.role = layout::Role::Params;
    visit(value, size_t(1));
    value.role = layout::Role::Gradients;
    value.phase = layout::Phase::Backward;
    visit(value, size_t(1));
    value.role = layout::Role::Optimizer;
    value.phase = layout::Phase::Update;
    visit(value, leaf.states.size());
  }
}

// On which stages a leaf lives, and with it its gradient and optimizer leaves:
// what partitioning found. Empty: on all, or nobody knows yet.
static std::vector<layout::Residence>
residenceOf(const std::string &path, const layout::ProgramRecord *train) {
  if (train) {
    for (const layout::LeafRecord &leaf : train->leaves) {
      if (leaf.value.role == layout::Role::Params && leaf.value.path == path) {
        return leaf.layout.residence;
      }
    }
  }
  return {};
}

int64_t storedBytes(const layout::Plan &plan, const ModelFacts &facts,
                    const layout::Selection &selection,
                    const layout::ProgramRecord *train) {
  std::vector<layout::Part> stages = layout::stagesOf(plan);
  std::vector<int64_t> bytes(stages.size(), 0);
  forEachStored(facts, [&](const ValueInfo &value, size_t copies) {
    if (!matches(selection, value)) {
      return;
    }
    layout::Layout layout = resolve(plan, value).layout;
    layout.residence = residenceOf(value.path, train);
    for (size_t i = 0; i < stages.size(); ++i) {
      bytes[i] += static_cast<int64_t>(copies) *
                  bytesOn(value, layout, stages[i], plan.mesh);
    }
  });
  return *std::max_element(bytes.begin(), bytes.end());
}

double unshardedShare(const layout::Plan &plan, const ModelFacts &facts,
                      const layout::Selection &selection) {
  double whole = 0, all = 0;
  forEachStored(facts, [&](const ValueInfo &value, size_t copies) {
    if (!matches(selection, value)) {
      return;
    }
    double bytes = static_cast<double>(copies) * value.elementBytes;
    for (const NamedDim &dim : value.dims) {
      bytes *= static_cast<double>(dim.size);
    }
    all += bytes;
    whole += resolve(plan, value).layout.usedAtoms().empty() ? bytes : 0;
  });
  return all > 0 ? whole / all : 0;
}

} // namespace cleave::plan
