//===- Reproducible.cpp - The same bits under every plan ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reproducible/Reproducible.h"

#include "compiler/reproducible/Marks.h"
#include "dialects/clv/Clv.h"
#include "dialects/clv/Rule.h"
#include "dialects/spmd/Spmd.h"

using namespace mlir;
using namespace cleave;

static bool isFloat(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

/// Whether terms of a dim are added, by the operation's own rule.
static bool sums(Operation *op) {
  auto rule = dyn_cast<clv::RuleInterface>(op);
  return rule && llvm::any_of(rule.getRule().factors, [](const auto &factor) {
           return factor.kind == clv::FactorKind::Sum;
         });
}

LogicalResult cleave::makeReproducible(ModuleOp module) {
  auto unit = UnitAttr::get(module.getContext());
  module->setAttr(kReproducible, unit);
  reproducible::sumLayersLast(module);
  reproducible::roundSingleNumbers(module);
  WalkResult result = module.walk([&](Operation *op) {
    if (op->getNumResults() != 1 || !isFloat(op->getResult(0).getType())) {
      return WalkResult::advance();
    }
    if (isa<clv::AddOp>(op)) {
      op->setAttr(kOrdered, unit);
    } else if (sums(op)) {
      if (!isa<clv::DotOp, clv::ReduceOp, clv::LookupOp, clv::ScatterAddOp>(
              op)) {
        op->emitError("`")
            << op->getName().getStringRef()
            << "` adds in an order of its own, which a reproducible run cannot "
               "have";
        return WalkResult::interrupt();
      }
      op->setAttr(kOrdered, unit);
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult cleave::verifyReproducible(ModuleOp module) {
  WalkResult result = module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      if (!isFloat(type)) {
        continue;
      }
      layout::Layout layout = spmd::layoutOf(type);
      if (layout.isPartial() && layout.reduction == layout::Reduction::Sum) {
        op->emitError("`") << op->getName().getStringRef()
                           << "` is added in parts, which a reproducible run "
                              "cannot have";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
