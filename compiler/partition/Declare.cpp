//===- Declare.cpp - What a plan declares of the values of a program ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Declare.h"

#include "dialects/spmd/Spmd.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;

int64_t partitioning::elementBytes(Type type) {
  Type element = cast<RankedTensorType>(type).getElementType();
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

std::vector<layout::NamedDim> partitioning::namedDims(Type type) {
  std::vector<layout::NamedDim> dims;
  for (auto [name, size] :
       llvm::zip(clv::dimsOf(type), spmd::globalSizes(type))) {
    dims.push_back({name.str(), size});
  }
  return dims;
}

Declarations::Declarations(const layout::Plan &plan,
                           const PartitionOptions &options,
                           std::vector<layout::Resolved> *errors)
    : plan(plan), resolve(options.resolve), errors(errors) {}

static std::string keyOf(const layout::ValueInfo &info) {
  std::string key = std::to_string(static_cast<int>(info.role)) + "," +
                    std::to_string(static_cast<int>(info.phase)) + "," +
                    std::to_string(info.elementBytes) + "," + info.path + "," +
                    info.label + "," + info.reader;
  for (const layout::NamedDim &dim : info.dims) {
    key += "," + dim.name + "=" + std::to_string(dim.size);
  }
  return key;
}

const Declared *Declarations::of(layout::ValueInfo info, Location loc) {
  std::unique_ptr<Declared> &entry = known[keyOf(info)];
  if (!entry) {
    entry = std::make_unique<Declared>();
    entry->info = std::move(info);
    layout::Resolved &resolved = entry->resolved;
    resolved = resolve(plan, entry->info);
    if (resolved.error.empty()) {
      assert(resolved.layout.dims.size() == entry->info.dims.size() &&
             !resolved.layout.isPartial() && "a layout of another value");
      for (size_t d = 0; d < resolved.layout.dims.size(); ++d) {
        // Chunks of layers are the pipeline's affair.
        bool isStaged =
            plan.pipeline && plan.pipeline->cuts(entry->info.dims[d].name);
        if (!isStaged && !layout::isContiguous(resolved.layout.dims[d])) {
          resolved.error = "several pieces of a dim on one coordinate cannot "
                           "be built yet";
        }
      }
      if (!resolved.layout.residence.empty()) {
        resolved.error = "`place` cannot be built yet";
      }
    }
    if (!resolved.error.empty()) {
      emitError(loc) << resolved.error;
      if (errors) {
        errors->push_back(resolved);
      }
    }
  }
  return entry->resolved.error.empty() ? entry.get() : nullptr;
}

const Declared *Declarations::of(Type type, clv::ScopeAttr scope,
                                 Location loc) {
  layout::ValueInfo info;
  info.dims = namedDims(type);
  info.elementBytes = elementBytes(type);
  if (scope) {
    info.role = static_cast<layout::Role>(scope.getRole());
    info.phase = static_cast<layout::Phase>(scope.getPhase());
    info.path = scope.getPath().str();
    info.label = scope.getLabel() ? scope.getLabel().str() : "";
    info.reader = scope.getReader() ? scope.getReader().str() : "";
  } else if (!info.dims.empty()) {
    emitError(loc) << "a value of type " << type
                   << " has no `clv.scope`, so no layout follows";
    return nullptr;
  }
  return of(std::move(info), loc);
}

static std::string textOf(Attribute attribute) {
  auto text = dyn_cast_or_null<StringAttr>(attribute);
  return text ? text.str() : "";
}

const Declared *Declarations::ofArgument(func::FuncOp function,
                                         unsigned index) {
  layout::ValueInfo info;
  Type type = function.getArgument(index).getType();
  info.dims = namedDims(type);
  info.elementBytes = elementBytes(type);
  info.path = textOf(function.getArgAttr(index, "clv.path"));
  std::string role = textOf(function.getArgAttr(index, "clv.role"));
  if (role == "input") {
    info.role = layout::Role::Inputs;
  } else if (role == "param") {
    info.role = layout::Role::Params;
  } else if (role == "optimizer") {
    info.role = layout::Role::Optimizer;
    info.phase = layout::Phase::Update;
  } else if (!info.dims.empty()) {
    function.emitError("argument ")
        << index << " needs `clv.role`: input, param or optimizer";
    return nullptr;
  }
  return of(std::move(info), function.getLoc());
}

const Declared *Declarations::ofResult(func::FuncOp function, unsigned index,
                                       bool &failed) {
  layout::ValueInfo info;
  Type type = function.getResultTypes()[index];
  info.dims = namedDims(type);
  info.elementBytes = elementBytes(type);
  info.path = textOf(function.getResultAttr(index, "clv.path"));
  std::string kind = textOf(function.getResultAttr(index, "clv.result"));
  if (kind == "param") {
    info.role = layout::Role::Params;
  } else if (kind == "optimizer") {
    info.role = layout::Role::Optimizer;
    info.phase = layout::Phase::Update;
  } else if (kind == "gradient") {
    info.role = layout::Role::Gradients;
    info.phase = layout::Phase::Backward;
  } else if (!info.dims.empty()) {
    return nullptr;
  }
  const Declared *declared = of(std::move(info), function.getLoc());
  failed = !declared;
  return declared;
}

GatherLoop Declarations::gatherLoopOf(const layout::ValueInfo &weight) const {
  GatherLoop loop = GatherLoop::Layer;
  for (const layout::GatherStatement &gather : plan.gathers) {
    if (matches(gather.selection, weight)) {
      loop = gather.per == "step"    ? GatherLoop::Step
             : gather.per == "micro" ? GatherLoop::Micro
                                     : GatherLoop::Layer;
    }
  }
  return loop;
}

bool Declarations::isRepeated(StringRef dim) const {
  return llvm::any_of(plan.dims, [&](const layout::DimInfo &info) {
    return info.repeated && dim == info.name;
  });
}
