//===- Mathematics.cpp - What a training step computes --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Mathematics.h"

#include "compiler/differentiate/Differentiate.h"
#include "dialects/clv/Clv.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <cmath>

using namespace mlir;

namespace cleave {

static bool isUpdate(func::FuncOp function) {
  return function.getName().starts_with("update.");
}

/// The text of a function, with what says only where things are left out.
static std::string canonicalText(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    function.removeArgAttr(i, "clv.init");
  }
  // One scope for all: `simplify` keeps those of different regions apart.
  auto nowhere =
      clv::ScopeAttr::get(function.getContext(), clv::Role::Activations,
                          clv::Phase::Forward, "", StringAttr(), StringAttr());
  SmallVector<Operation *> marks;
  function.walk([&](Operation *op) {
    if (isa<clv::ClvDialect>(op->getDialect())) {
      clv::setScope(op, nowhere);
    }
    if (isa<clv::EdgeOp, clv::WeightOp>(op)) {
      marks.push_back(op);
    }
  });
  for (Operation *mark : marks) {
    mark->getResult(0).replaceAllUsesWith(mark->getOperand(0));
    mark->erase();
  }
  simplify(function);
  std::string text;
  llvm::raw_string_ostream out(text);
  function->print(out, OpPrintingFlags().useLocalScope());
  return text;
}

/// Never 0, which stands for what is not known.
static uint64_t hashOf(const std::string &text) {
  return std::max<uint64_t>(1, llvm::xxh3_64bits(text));
}

Mathematics mathematicsOf(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  Mathematics result;
  if (auto clip = module->getAttrOfType<FloatAttr>("clv.clip")) {
    llvm::raw_string_ostream(result.updateText) << clip << "\n";
  }
  if (auto type = module->getAttrOfType<TypeAttr>(kCompute)) {
    llvm::raw_string_ostream(result.lossText) << type << "\n";
  }
  for (auto function : copy->getOps<func::FuncOp>()) {
    if (function.getName() == "loss") {
      result.lossText += canonicalText(function);
    } else if (isUpdate(function)) {
      result.updateText += canonicalText(function) + "\n";
    }
  }
  result.loss = hashOf(result.lossText);
  result.update = hashOf(result.updateText);
  return result;
}

//===----------------------------------------------------------------------===//
// Means of gradients
//===----------------------------------------------------------------------===//

/// `c` where a value is `c * of`, in either order.
static std::optional<double> factorOf(Value value, Value of) {
  auto product = value.getDefiningOp<clv::MulOp>();
  for (unsigned side : {0u, 1u}) {
    if (!product || product->getOperand(side) != of) {
      continue;
    }
    auto constant =
        product->getOperand(1 - side).getDefiningOp<clv::ConstantOp>();
    auto number =
        constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
    if (number) {
      return number.getValueAsDouble();
    }
  }
  return std::nullopt;
}

/// What is kept of `state` where it becomes `next`, a mean with `gradient`.
static std::optional<double> keptIn(Value next, Value state, Value gradient) {
  auto sum = next.getDefiningOp<clv::AddOp>();
  for (unsigned side : {0u, 1u}) {
    if (!sum) {
      break;
    }
    std::optional<double> kept = factorOf(sum->getOperand(side), state);
    std::optional<double> added = factorOf(sum->getOperand(1 - side), gradient);
    // The numbers are f32: 0.9 and 0.1 add up to 1 only nearly.
    if (kept && added && *kept >= 0 && *kept < 1 &&
        std::abs(*kept + *added - 1) < 1e-6) {
      return kept;
    }
  }
  return std::nullopt;
}

static bool hasRole(func::FuncOp function, unsigned argument, StringRef role) {
  auto attr = function.getArgAttrOfType<StringAttr>(argument, "clv.role");
  return attr && attr.getValue() == role;
}

static Value gradientOf(func::FuncOp update) {
  for (unsigned i = 0; i < update.getNumArguments(); ++i) {
    if (hasRole(update, i, "gradient")) {
      return update.getArgument(i);
    }
  }
  return {};
}

/// The states of one update that are means, in their order.
static SmallVector<GradientMean> meansOf(func::FuncOp update) {
  SmallVector<GradientMean> means;
  Value gradient = gradientOf(update);
  Operation *results = update.getBody().front().getTerminator();
  unsigned result = 1; // after the parameter
  for (unsigned i = 0; i < update.getNumArguments(); ++i) {
    if (!hasRole(update, i, "optimizer")) {
      continue;
    }
    auto name = update.getArgAttrOfType<StringAttr>(i, "clv.state");
    std::optional<double> kept =
        keptIn(results->getOperand(result++), update.getArgument(i), gradient);
    if (kept && name) {
      means.push_back({name.str(), *kept});
    }
  }
  return means;
}

std::optional<GradientMean> gradientMeanOf(ModuleOp module) {
  std::optional<SmallVector<GradientMean>> common;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isUpdate(function)) {
      continue;
    }
    SmallVector<GradientMean> means = meansOf(function);
    if (!common) {
      common = means;
    }
    llvm::erase_if(*common, [&](const GradientMean &one) {
      return llvm::none_of(means, [&](const GradientMean &other) {
        return one.state == other.state && one.keep == other.keep;
      });
    });
  }
  if (!common || common->empty()) {
    return std::nullopt;
  }
  return common->front();
}

} // namespace cleave
