//===- Plans.h - Plans in a few words ---------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_PLANS_H
#define CLEAVE_TEST_UNIT_PARTITION_PLANS_H

#include "layout/Plan.h"

#include <sstream>

namespace cleave::test {

inline layout::Selection all() { return {}; }

inline layout::Selection role(layout::Role role) {
  layout::Selection selection;
  selection.kind = layout::Selection::Kind::Role;
  selection.role = role;
  return selection;
}

inline layout::Selection path(const std::string &text) {
  layout::Selection selection;
  selection.kind = layout::Selection::Kind::Path;
  std::stringstream stream(text);
  for (std::string step; std::getline(stream, step, '/');) {
    layout::Step one;
    one.name = step;
    selection.path.push_back(one);
  }
  return selection;
}

inline layout::Selection combine(layout::Selection::Kind kind,
                                 std::vector<layout::Selection> children) {
  layout::Selection selection;
  selection.kind = kind;
  selection.children = std::move(children);
  return selection;
}

inline layout::Selection larger(layout::Selection of, int64_t bytes) {
  layout::Selection selection =
      combine(layout::Selection::Kind::Where, {std::move(of)});
  selection.attribute = "bytes";
  selection.comparison = ">";
  selection.number = bytes;
  selection.repeated = {"layer"};
  return selection;
}

/// A plan on a mesh with one atom for each axis.
struct PlanBuilder {
  layout::Plan plan;

  explicit PlanBuilder(
      const std::vector<std::pair<std::string, int64_t>> &axes) {
    for (const auto &[name, size] : axes) {
      layout::Axis axis{name, {}};
      if (size > 1) {
        axis.atoms = {static_cast<layout::AtomId>(plan.mesh.atoms.size())};
        plan.mesh.atoms.push_back({name, size});
      }
      plan.mesh.axes.push_back(axis);
    }
    layout::DimInfo layer;
    layer.name = "layer";
    layer.repeated = true;
    plan.dims.push_back(layer);
  }

  /// `shard DIMS on AXES for SELECTION`; no axes: none.
  layout::ShardStatement &shard(const std::vector<std::string> &dims,
                                const std::vector<std::string> &axes,
                                const layout::Selection &selection = all()) {
    layout::ShardStatement statement;
    statement.dims = dims;
    layout::Alternative alternative;
    for (const std::string &name : axes) {
      alternative.text += (alternative.text.empty() ? "" : " * ") + name;
      const layout::Axis *axis = plan.mesh.findAxis(name);
      alternative.atoms.insert(alternative.atoms.end(), axis->atoms.begin(),
                               axis->atoms.end());
    }
    if (axes.empty()) {
      alternative.text = "none";
    }
    std::string list;
    for (const std::string &dim : dims) {
      list += (list.empty() ? "" : ", ") + dim;
    }
    statement.alternatives = {alternative};
    statement.selection = selection;
    statement.source.file = "test.clv";
    statement.source.line = static_cast<uint32_t>(plan.shards.size()) + 1;
    statement.source.text = "shard " + list + " on " + alternative.text;
    plan.shards.push_back(statement);
    return plan.shards.back();
  }

  /// `shard largest also on AXIS else none for SELECTION`.
  void largest(const std::string &axis, const layout::Selection &selection) {
    layout::ShardStatement &statement = shard({}, {axis}, selection);
    statement.largest = statement.also = statement.yields = true;
    statement.alternatives.push_back({{}, {}, {}, "none"});
    statement.source.text = "shard largest also on " + axis + " else none";
  }

  /// The strategy `zero` of the standard library.
  PlanBuilder &zero(int stage, const std::string &axis, int64_t keep = 0) {
    largest(axis, larger(role(layout::Role::Optimizer), keep));
    if (stage >= 2) {
      largest(axis, larger(role(layout::Role::Gradients), keep));
    }
    if (stage >= 3) {
      largest(axis, larger(role(layout::Role::Params), keep));
    }
    return *this;
  }

  PlanBuilder &data(const std::string &axis = "data") {
    shard({"batch"}, {axis});
    return *this;
  }
  PlanBuilder &megatron(bool vocab, const std::string &axis = "tensor") {
    shard({"head", "ff"}, {axis});
    if (vocab) {
      shard({"vocab"}, {axis});
    }
    return *this;
  }
  /// Activations between the regions that tensor parallelism works in.
  PlanBuilder &sequence(const std::string &axis = "tensor") {
    using Kind = layout::Selection::Kind;
    shard({"seq"}, {axis},
          combine(Kind::Except,
                  {combine(Kind::In,
                           {role(layout::Role::Activations), path("layer")}),
                   combine(Kind::Any, {path("attention"), path("mlp")})}));
    return *this;
  }
};

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_PLANS_H
