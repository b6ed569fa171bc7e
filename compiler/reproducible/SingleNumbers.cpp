//===- SingleNumbers.cpp - Where single numbers are rounded ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reproducible/Marks.h"
#include "compiler/reproducible/Reproducible.h"

#include "dialects/clv/Clv.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace cleave;

/// An elementwise operation that makes one number.
static bool isSingle(Operation *op) {
  return isa<clv::ElementwiseInterface>(op) && op->getNumResults() == 1 &&
         clv::dimsOf(op->getResult(0)).empty();
}

namespace {

class Rounder {
public:
  explicit Rounder(func::FuncOp function) : function(function) {}
  void run();

private:
  func::FuncOp function;
  llvm::DenseMap<Operation *, bool> known;

  bool isOfStep(Value value);
  bool isOfStep(Operation *op);
  void makePrivate(Operation *root);
  Value copy(Value value, OpBuilder &builder, IRMapping &copies);
};

} // namespace

/// Whether a single number follows from the number of the step alone.
bool Rounder::isOfStep(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    return isa<clv::ConstantOp>(op) || isOfStep(op);
  }
  auto argument = cast<BlockArgument>(value);
  if (argument.getOwner()->getParentOp() != function) {
    return false;
  }
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    "clv.role");
  return role && role.getValue() == "step";
}

bool Rounder::isOfStep(Operation *op) {
  if (!isSingle(op)) {
    return false;
  }
  auto found = known.find(op);
  if (found != known.end()) {
    return found->second;
  }
  bool result = llvm::all_of(op->getOperands(),
                             [&](Value value) { return isOfStep(value); });
  return known[op] = result;
}

/// `value` as operations that nothing but one root reads.
Value Rounder::copy(Value value, OpBuilder &builder, IRMapping &copies) {
  Operation *op = value.getDefiningOp();
  if (!op || !isSingle(op) || copies.contains(value)) {
    return copies.lookupOrDefault(value);
  }
  for (Value operand : op->getOperands()) {
    copies.map(operand, copy(operand, builder, copies));
  }
  Operation *made = builder.clone(*op, copies);
  made->setAttr(kExact, builder.getUnitAttr());
  made->removeAttr(kRounded); // of another root
  copies.map(value, made->getResult(0));
  return made->getResult(0);
}

void Rounder::makePrivate(Operation *root) {
  OpBuilder builder(root);
  IRMapping copies;
  for (OpOperand &operand : root->getOpOperands()) {
    operand.set(copy(operand.get(), builder, copies));
  }
}

void Rounder::run() {
  SmallVector<Operation *> singles, roots;
  function.walk([&](Operation *op) {
    if (isSingle(op)) {
      singles.push_back(op);
    }
  });
  auto unit = UnitAttr::get(function.getContext());
  for (Operation *op : singles) {
    bool isRead = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return !isOfStep(user); });
    if (!isOfStep(op)) {
      op->setAttr(kRounded, unit);
    } else if (isRead) {
      roots.push_back(op);
    }
  }
  for (Operation *root : roots) {
    makePrivate(root);
    root->setAttr(kRounded, unit);
  }
  for (Operation *op : llvm::reverse(singles)) {
    if (op->use_empty()) {
      op->erase();
    }
  }
}

void reproducible::roundSingleNumbers(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    Rounder(function).run();
  }
}
