//===- Exec.cpp - Dialect, views, names of values -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Exec.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/ExecOps.cpp.inc"
      >();
}

SmallVector<View> exec::viewsIn(OperandRange operands) {
  SmallVector<View> views;
  for (Value operand : operands) {
    if (isa<IterationType>(operand.getType())) {
      views.back().iteration = operand;
    } else {
      views.push_back({operand, {}});
    }
  }
  return views;
}

unsigned exec::depthOf(Value iteration) {
  unsigned depth = 0;
  Operation *around = iteration.getParentBlock()->getParentOp();
  while ((around = around->getParentOp()) && isa<LoopOp, OnlyOp>(around)) {
    depth += isa<LoopOp>(around);
  }
  return depth;
}

//===----------------------------------------------------------------------===//
// Names of values: what they declare, as far as identifiers allow
//===----------------------------------------------------------------------===//

/// `layer/attention/wq` -> `layer.attention.wq`, `all_reduce data * tensor` ->
/// `all_reduce_data_tensor`; nothing where no letter leads.
static std::string identifier(StringRef text) {
  std::string name;
  for (char c : text) {
    if (llvm::isAlnum(c) || c == '_' || c == '.') {
      name += c;
    } else if (c == '/') {
      name += '.';
    } else if (!StringRef(name).ends_with("_")) {
      name += '_';
    }
  }
  return !name.empty() && llvm::isAlpha(name.front()) ? name : std::string();
}

static void nameResult(OpAsmSetValueNameFn set, Value value, StringRef name) {
  if (!name.empty()) {
    set(value, name);
  }
}

static std::string nameOf(LeafOp leaf) {
  std::string name = identifier(leaf.getPath());
  if (StringAttr state = leaf.getStateAttr(); state && !name.empty()) {
    name += "." + identifier(state.getValue());
  }
  return name;
}

void LeafOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  nameResult(set, getResult(), "leaf." + nameOf(*this));
}

void ExtentOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  nameResult(set, getResult(), identifier(getDim()));
}

void SiteOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  nameResult(set, getResult(), "at." + identifier(getLabel()));
}

void SlotsOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  set(getResult(), "slots");
}

void InputOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  nameResult(set, getResult(), "input." + identifier(getLabel()));
}

/// A value of a leaf or input is called as that is; the arena's have numbers.
void ValueOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  if (Value value = getLeaf()) {
    if (auto leaf = value.getDefiningOp<LeafOp>()) {
      nameResult(set, getResult(), nameOf(leaf));
    }
  } else if (Value value = getInput()) {
    if (auto input = value.getDefiningOp<InputOp>()) {
      nameResult(set, getResult(), identifier(input.getLabel()));
    }
  }
}

void StartOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  set(getToken(), "c" + std::to_string(getId()));
}

void LoopOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn set) {
  for (Value argument : region.getArguments()) {
    set(argument, "i");
  }
}
