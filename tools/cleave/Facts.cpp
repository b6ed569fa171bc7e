//===- Facts.cpp - A model's description, for those who need it -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Facts.h"

#include "dialects/clv/Clv.h"
#include "runtime/format/Convert.h"
#include "runtime/format/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace cleave::tools {

static int64_t bytesOf(Type element) { return element.isInteger(1) ? 1 : 4; }

static std::vector<layout::NamedDim> dimsOf(RankedTensorType type) {
  std::vector<layout::NamedDim> dims;
  for (auto [name, size] : llvm::zip(clv::dimsOf(type), type.getShape())) {
    dims.push_back({name.str(), size});
  }
  return dims;
}

static layout::ValueInfo valueOf(clv::ScopeAttr scope, RankedTensorType type) {
  layout::ValueInfo value;
  value.role = static_cast<layout::Role>(scope.getRole());
  value.phase = static_cast<layout::Phase>(scope.getPhase());
  value.path = scope.getPath().str();
  value.label = scope.getLabel() ? scope.getLabel().str() : "";
  value.reader = scope.getReader() ? scope.getReader().str() : "";
  value.dims = dimsOf(type);
  value.elementBytes = bytesOf(type.getElementType());
  return value;
}

static double flopsOf(Operation &op);

static double flopsOf(Block &block) {
  double sum = 0;
  for (Operation &op : block) {
    sum += flopsOf(op);
  }
  return sum;
}

static double flopsOf(Operation &op) {
  if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
    return static_cast<double>(repeat.getCount()) * flopsOf(*repeat.getBlock());
  }
  auto cost = dyn_cast<clv::CostInterface>(op);
  return cost ? static_cast<double>(cost.getFlops()) : 0;
}

/// What each repeat of the program costs, and what stands around it.
static std::vector<plan::RepeatFact> repeatsOf(Block &block) {
  std::vector<plan::RepeatFact> repeats;
  double before = 0, whole = flopsOf(block);
  for (Operation &op : block) {
    double flops = flopsOf(op);
    if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      repeats.push_back({repeat.getDim().str(), before,
                         flopsOf(*repeat.getBlock()), whole - before - flops});
    }
    before += flops;
  }
  return repeats;
}

plan::ModelFacts modelFacts(const sema::Model &model) {
  plan::ModelFacts facts;
  facts.model = model.name;
  facts.dims = model.dims;
  for (const sema::LeafInfo &leaf : model.leaves) {
    if (leaf.state.empty()) {
      plan::LeafFact fact;
      fact.path = leaf.path;
      for (size_t i = 0; i < leaf.dims.size(); ++i) {
        fact.dims.push_back({leaf.dims[i], leaf.sizes[i]});
      }
      facts.leaves.push_back(std::move(fact));
      continue;
    }
    for (plan::LeafFact &fact : facts.leaves) {
      if (fact.path == leaf.path) {
        fact.states.push_back(leaf.state);
      }
    }
  }
  for (const sema::RegionInfo &region : model.regions) {
    facts.regions.push_back({region.path, region.function});
  }
  ModuleOp module = *model.module;
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  for (auto [i, argument] : llvm::enumerate(loss.getArguments())) {
    auto role = loss.getArgAttrOfType<StringAttr>(i, "clv.role");
    if (role && role == "input") {
      layout::ValueInfo value;
      value.role = layout::Role::Inputs;
      value.path = loss.getArgAttrOfType<StringAttr>(i, "clv.path").str();
      value.dims = dimsOf(cast<RankedTensorType>(argument.getType()));
      facts.values.push_back(std::move(value));
    }
  }
  facts.repeats = repeatsOf(loss.getBody().front());
  loss.walk([&](Operation *op) {
    clv::ScopeAttr scope = clv::scopeOf(op);
    if (!scope || isa<clv::RepeatOp>(op)) {
      return;
    }
    for (Type type : op->getResultTypes()) {
      facts.values.push_back(valueOf(scope, cast<RankedTensorType>(type)));
    }
  });
  return facts;
}

static format::ElementType toFormat(sema::Element element) {
  switch (element) {
  case sema::Element::F32:
    return format::ElementType::F32;
  case sema::Element::I32:
    return format::ElementType::I32;
  case sema::Element::Bool:
    return format::ElementType::Bool;
  }
  llvm_unreachable("unknown element type");
}

static format::InitKind toFormat(sema::Init::Kind kind) {
  switch (kind) {
  case sema::Init::Kind::Constant:
    return format::InitKind::Constant;
  case sema::Init::Kind::Normal:
    return format::InitKind::Normal;
  case sema::Init::Kind::Uniform:
    return format::InitKind::Uniform;
  }
  llvm_unreachable("unknown initial value");
}

std::vector<format::LeafT> leafTable(const sema::Model &model) {
  std::vector<format::LeafT> table;
  for (const sema::LeafInfo &leaf : model.leaves) {
    format::LeafT entry;
    entry.path = leaf.path;
    entry.state = leaf.state;
    entry.type = toFormat(leaf.element);
    entry.dims = leaf.dims;
    entry.sizes = leaf.sizes;
    entry.init = std::make_unique<format::InitT>();
    entry.init->kind = toFormat(leaf.init.kind);
    entry.init->a = leaf.init.a;
    entry.init->b = leaf.init.b;
    table.push_back(std::move(entry));
  }
  return table;
}

std::vector<format::InputT> inputTable(const sema::Model &model) {
  std::vector<format::InputT> table;
  for (const sema::InputInfo &input : model.inputs) {
    format::InputT entry;
    entry.name = input.name;
    entry.source = format::InputSource::Tokens;
    entry.shift = input.shift;
    entry.bound = input.bound;
    entry.type = toFormat(input.element);
    entry.dims = input.dims;
    entry.sizes = input.sizes;
    table.push_back(std::move(entry));
  }
  return table;
}

/// Whether the collective is of the kind, and runs over a part of the axis.
static bool counts(const layout::CollectiveRecord &record,
                   format::TrafficKind kind,
                   const std::vector<layout::AtomId> &axis) {
  bool onAxis = std::any_of(axis.begin(), axis.end(), [&](layout::AtomId atom) {
    return std::find(record.atoms.begin(), record.atoms.end(), atom) !=
           record.atoms.end();
  });
  return onAxis && (kind == format::TrafficKind::Collectives ||
                    record.kind == format::nameOf(kind));
}

std::vector<std::unique_ptr<format::TrafficT>>
trafficTable(const layout::Mesh &mesh, const layout::ProgramRecord &train) {
  std::vector<layout::Axis> axes(1); // the first has no name: over all
  for (layout::AtomId atom = 0; atom < mesh.atoms.size(); ++atom) {
    axes.front().atoms.push_back(atom);
  }
  axes.insert(axes.end(), mesh.axes.begin(), mesh.axes.end());
  std::vector<std::unique_ptr<format::TrafficT>> table;
  for (format::TrafficKind kind : format::EnumValuesTrafficKind()) {
    for (const layout::Axis &axis : axes) {
      layout::BusiestDevice busiest;
      for (const layout::CollectiveRecord &record : train.collectives) {
        if (counts(record, kind, axis.atoms)) {
          busiest.add(record);
        }
      }
      if (busiest.bytes() > 0) {
        table.push_back(std::make_unique<format::TrafficT>());
        table.back()->kind = kind;
        table.back()->axis = axis.name;
        table.back()->bytes = busiest.bytes();
      }
    }
  }
  return table;
}

/// Adds what the program of a training step needs to its stages.
static void addBuffers(const format::PlanT &plan,
                       const format::ProgramT &program, PlanReport &report) {
  layout::Mesh mesh = format::toLayout(*plan.mesh);
  for (size_t stage = 0; stage < report.memory.size(); ++stage) {
    report.memory[stage].arena = static_cast<int64_t>(
        format::arenaOf(program, mesh, static_cast<int64_t>(stage)));
  }
  if (const format::PipelineT *pipeline = format::pipelineOf(program)) {
    format::PipelineShape shape(*pipeline, mesh);
    for (size_t stage = 0; stage < report.memory.size(); ++stage) {
      report.memory[stage].slots = static_cast<int64_t>(
          format::slotsOf(program, shape, static_cast<int64_t>(stage)).bytes);
    }
  }
}

void recordMemory(const format::PlanT &plan, PlanReport &report) {
  report.memory = leafMemory(report);
  for (const auto &program : plan.programs) {
    for (layout::ProgramRecord &record : report.programs) {
      if (record.entry == program->name) {
        record.arena = static_cast<int64_t>(program->arena_bytes);
      }
    }
    if (program->name == "train") {
      addBuffers(plan, *program, report);
    }
  }
}

} // namespace cleave::tools
