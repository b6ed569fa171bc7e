//===- Handover.cpp - What a step's update reads of the rest --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Handover.h"

#include "dialects/spmd/Spmd.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

class Finder {
public:
  explicit Finder(func::FuncOp function)
      : function(function), block(function.getBody().front()),
        updates(codegen::updatesOf(block)) {}

  SmallVector<Handover> run();

private:
  func::FuncOp function;
  Block &block;
  llvm::DenseSet<Operation *> updates;
  std::map<StringRef, Value> found; ///< by path
  bool whole = true;                ///< nothing but gradients was read so far

  void read(Value value, StringRef path);
  bool isGradient(Value value, StringRef path);
  bool readsOptimizer(Operation *op);
};

} // namespace

/// Whether a value can be handed over: whole, of the parameter's shape.
bool Finder::isGradient(Value value, StringRef path) {
  if (path.empty() || !spmd::layoutOf(value.getType()).partial.empty()) {
    return false;
  }
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto role = function.getArgAttrOfType<StringAttr>(i, "clv.role");
    auto of = function.getArgAttrOfType<StringAttr>(i, "clv.path");
    if (role && of && role.getValue() == "param" && of.getValue() == path) {
      return clv::dimsOf(value) == clv::dimsOf(argument) &&
             spmd::globalSizes(value.getType()) ==
                 spmd::globalSizes(argument.getType());
    }
  }
  return false;
}

/// What an operation of the update reads. Cheap values are made again by each
/// reader.
void Finder::read(Value value, StringRef path) {
  Value root = rootOf(value);
  Operation *maker = root.getDefiningOp();
  Operation *top = maker ? block.findAncestorOpInBlock(*maker) : nullptr;
  if (!top || updates.contains(top)) {
    return;
  }
  if (codegen::isCheap(maker)) {
    for (Value operand : maker->getOperands()) {
      read(operand, path);
    }
    return;
  }
  auto [entry, added] = found.try_emplace(path, value);
  whole &= isGradient(value, path) && rootOf(entry->second) == root;
}

bool Finder::readsOptimizer(Operation *op) {
  return llvm::any_of(codegen::readsOf(op), [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &block) {
      return false;
    }
    auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      "clv.role");
    return role && role.getValue() == "optimizer";
  });
}

SmallVector<Handover> Finder::run() {
  for (Operation &op : block.without_terminator()) {
    if (!updates.contains(&op)) {
      whole &= codegen::isCheap(&op) || !readsOptimizer(&op);
      continue;
    }
    op.walk([&](Operation *inner) {
      if (inner->hasTrait<OpTrait::IsTerminator>()) {
        return;
      }
      clv::ScopeAttr scope = clv::scopeOf(inner);
      for (Value operand : inner->getOperands()) {
        read(operand, scope ? scope.getPath() : StringRef());
      }
    });
  }
  SmallVector<Handover> result;
  for (auto &[path, value] : found) {
    result.push_back({value, path});
  }
  return whole ? result : SmallVector<Handover>();
}

SmallVector<Handover> emit::handoversOf(func::FuncOp function) {
  return Finder(function).run();
}

static bool writes(const Action &action, Value root) {
  return llvm::is_contained(writesOf(action), root) ||
         (action.op && llvm::is_contained(action.op->getResults(), root)) ||
         llvm::any_of(action.body,
                      [&](const auto &inner) { return writes(*inner, root); });
}

size_t emit::makerOf(Value value, const Actions &actions) {
  Value root = rootOf(value);
  size_t last = 0;
  for (auto [i, action] : llvm::enumerate(actions)) {
    if (writes(*action, root)) {
      last = i;
    }
  }
  return last;
}
