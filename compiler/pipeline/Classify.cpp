//===- Classify.cpp - Which work is timed, and where it is done -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Classify.h"

#include "compiler/partition/Function.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

bool Classifier::isTimed(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  return llvm::any_of(layout.usedAtoms(),
                      [&](layout::AtomId atom) { return mesh.isTime(atom); });
}

bool Classifier::isTimed(Operation *op) const {
  bool timed = false;
  op->walk([&](Operation *inner) {
    for (Type type : inner->getOperandTypes()) {
      timed |= isTimed(type);
    }
    for (Type type : inner->getResultTypes()) {
      timed |= isTimed(type);
    }
  });
  return timed;
}

/// Whether a collective is along times alone.
static bool isInTime(ArrayRef<int64_t> atoms, const layout::Mesh &mesh) {
  return !atoms.empty() && llvm::all_of(atoms, [&](int64_t atom) {
    return mesh.isTime(static_cast<layout::AtomId>(atom));
  });
}

bool Classifier::isTimeSum(Operation *op) const {
  auto sum = dyn_cast<spmd::AllReduceOp>(op);
  return sum && isInTime(sum.getAtoms(), mesh);
}

bool Classifier::isTimeGather(Operation *op) const {
  auto gather = dyn_cast<spmd::AllGatherOp>(op);
  return gather && isInTime(gather.getAtoms(), mesh);
}

bool Classifier::isOfInputs(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    return isOfInputs(op);
  }
  auto argument = cast<BlockArgument>(value);
  if (argument.getOwner()->getParentOp() != function) {
    return false;
  }
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    "clv.role");
  return role && role.getValue() != "param" && role.getValue() != "optimizer";
}

bool Classifier::isOfInputs(Operation *op) {
  auto known = ofInputs.find(op);
  if (known != ofInputs.end()) {
    return known->second;
  }
  bool result = op->getNumRegions() == 0 &&
                llvm::all_of(op->getOperands(),
                             [&](Value value) { return isOfInputs(value); });
  return ofInputs[op] = result;
}

Type Classifier::atRest(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  auto isTime = [&](layout::AtomId atom) { return mesh.isTime(atom); };
  for (layout::Split &split : layout.dims) {
    std::erase_if(split.atoms, isTime);
  }
  std::erase_if(layout.partial, isTime);
  return spmd::localType(cast<RankedTensorType>(type).getElementType(),
                         clv::dimsOf(type), spmd::globalSizes(type), layout,
                         mesh);
}

int64_t Classifier::positions() const {
  return plan.pipeline
             ? mesh.sizeOf(plan.pipeline->atoms) * plan.pipeline->chunks
             : 1;
}

bool pipelining::isSumOverLayers(clv::RepeatOp repeat, unsigned carried,
                                 const Classifier &classifier) {
  BlockArgument argument = repeat.getCarriedArguments()[carried];
  if (!argument.hasOneUse() ||
      !partitioning::isZero(repeat.getCarried()[carried])) {
    return false;
  }
  auto sum = dyn_cast<clv::AddOp>(*argument.getUsers().begin());
  if (!sum || !sum->hasOneUse() ||
      repeat.getYield()->getOperand(carried) != sum.getResult()) {
    return false;
  }
  return llvm::all_of(repeat.getResult(carried).getUsers(),
                      [&](Operation *op) { return classifier.isTimeSum(op); });
}
