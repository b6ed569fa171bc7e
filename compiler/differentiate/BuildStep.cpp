//===- BuildStep.cpp - The whole training step as one function ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"

#include "dialects/clv/Clv.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

/// A parameter of @loss, its update function, and its optimizer leaves.
struct Leaf {
  BlockArgument value; ///< in @train
  StringRef path;
  func::FuncOp update;
  SmallVector<BlockArgument> states;
  Value gradient;
};

class StepBuilder {
public:
  StepBuilder(ModuleOp module, const StepOptions &options)
      : module(module), options(options), context(module.getContext()) {}

  LogicalResult run();

private:
  LogicalResult collectUpdates();
  LogicalResult addArguments(func::FuncOp loss);
  Value clippingScale(OpBuilder &builder, double limit);
  LogicalResult inlineUpdate(OpBuilder &builder, Leaf &leaf, Value scale);
  void addResult(Value value, StringRef kind, StringRef path = "",
                 Attribute state = {});

  ScopeAttr scopeFor(StringRef path) {
    return ScopeAttr::get(context, Role::Gradients, Phase::Update, path,
                          StringAttr(), StringAttr());
  }
  NamedAttribute named(StringRef name, StringRef value) {
    return {StringAttr::get(context, name), StringAttr::get(context, value)};
  }

  ModuleOp module;
  StepOptions options;
  MLIRContext *context;
  llvm::StringMap<func::FuncOp> updates;
  SmallVector<Leaf, 0> leaves;
  Block *body = nullptr;
  Value step, norm;
  IRMapping fromLoss;
  SmallVector<Type> argumentTypes;
  SmallVector<Attribute> argumentAttrs;
  /// In the order of the results: losses, parameters, leaves, gradients.
  SmallVector<std::pair<Value, Attribute>> results[4];
};

LogicalResult StepBuilder::collectUpdates() {
  for (auto function : module.getOps<func::FuncOp>()) {
    auto path = function->getAttrOfType<StringAttr>("clv.param");
    if (!path) {
      continue;
    }
    if (function.isExternal() || function.getNumArguments() < 3) {
      return function.emitError(
          "an update function needs a body and takes a parameter, its "
          "gradient, states and the step");
    }
    if (function.getNumResults() + 2 != function.getNumArguments()) {
      return function.emitError("gives ")
             << function.getNumResults() << " values for a parameter and "
             << function.getNumArguments() - 3 << " states";
    }
    for (unsigned i = 2; i + 1 < function.getNumArguments(); ++i) {
      if (!function.getArgAttrOfType<StringAttr>(i, "clv.state")) {
        return function.emitError("needs `clv.state` on argument ") << i;
      }
    }
    if (!updates.try_emplace(path.getValue(), function).second) {
      return function.emitError("updates `")
             << path.getValue() << "`, which another function updates too";
    }
  }
  return success();
}

/// The arguments of @train: those of @loss, with the optimizer's leaves before
/// the seed and the step.
LogicalResult StepBuilder::addArguments(func::FuncOp loss) {
  auto add = [&](Type type, DictionaryAttr attrs, Location loc) {
    argumentTypes.push_back(type);
    argumentAttrs.push_back(attrs ? attrs : DictionaryAttr::get(context));
    return body->addArgument(type, loc);
  };
  SmallVector<BlockArgument> last;
  BlockArgument lossStep;
  for (BlockArgument argument : loss.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto role = loss.getArgAttrOfType<StringAttr>(i, "clv.role");
    auto path = loss.getArgAttrOfType<StringAttr>(i, "clv.path");
    StringRef kind = role ? role.getValue() : StringRef();
    if (kind == "seed" || kind == "step") {
      last.push_back(argument);
      lossStep = kind == "step" ? argument : lossStep;
      continue;
    }
    if (kind != "input" && kind != "param") {
      return loss.emitError("argument ")
             << i << " needs `clv.role`: input, param, seed or step";
    }
    if (!path) {
      return loss.emitError("argument ") << i << " needs `clv.path`";
    }
    BlockArgument copy =
        add(argument.getType(), loss.getArgAttrDict(i), argument.getLoc());
    fromLoss.map(argument, copy);
    if (kind == "param") {
      auto update = updates.find(path.getValue());
      if (update == updates.end()) {
        return loss.emitError("parameter `")
               << path.getValue() << "` has no update function";
      }
      Type type = argument.getType();
      func::FuncOp function = update->second;
      if (function.getArgumentTypes()[0] != type ||
          function.getArgumentTypes()[1] != type ||
          function.getResultTypes()[0] != type) {
        return function.emitError("must take and give ")
               << type << ", the type of `" << path.getValue() << "`";
      }
      leaves.push_back({copy, path.getValue(), function, {}, {}});
    }
  }
  if (!lossStep) {
    return loss.emitError("has no argument with `clv.role` = \"step\"");
  }
  for (Leaf &leaf : leaves) {
    for (unsigned i = 2; i + 1 < leaf.update.getNumArguments(); ++i) {
      NamedAttrList attrs(leaf.update.getArgAttrDict(i));
      attrs.set("clv.role", StringAttr::get(context, "optimizer"));
      attrs.set("clv.path", StringAttr::get(context, leaf.path));
      leaf.states.push_back(add(leaf.update.getArgumentTypes()[i],
                                attrs.getDictionary(context),
                                leaf.update.getLoc()));
    }
  }
  for (BlockArgument argument : last) {
    fromLoss.map(argument, add(argument.getType(),
                               loss.getArgAttrDict(argument.getArgNumber()),
                               argument.getLoc()));
  }
  step = fromLoss.lookup(lossStep);
  return success();
}

/// min(1, limit / norm), where norm is that of all gradients together.
Value StepBuilder::clippingScale(OpBuilder &builder, double limit) {
  Location loc = module.getLoc();
  Build whole(builder, loc, scopeFor(""));
  Value total;
  for (Leaf &leaf : leaves) {
    Build build(builder, loc, scopeFor(leaf.path));
    Value square = build.mul(leaf.gradient, leaf.gradient);
    Value sum = build.reduce(Reduction::Sum, square, dimsOf(square));
    total = total ? whole.add(total, sum) : sum;
  }
  norm = whole.elementwise(Elementwise::Sqrt, total);
  Value ratio = whole.div(whole.constant(limit), norm);
  return whole.elementwise(Elementwise::Minimum, {whole.constant(1), ratio});
}

LogicalResult StepBuilder::inlineUpdate(OpBuilder &builder, Leaf &leaf,
                                        Value scale) {
  Value gradient = leaf.gradient;
  if (scale) {
    Build build(builder, module.getLoc(), scopeFor(leaf.path));
    gradient = build.mul(gradient, scale);
  }
  IRMapping map;
  Block &source = leaf.update.getBody().front();
  map.map(source.getArgument(0), leaf.value);
  map.map(source.getArgument(1), gradient);
  for (auto [i, state] : llvm::enumerate(leaf.states)) {
    map.map(source.getArgument(2 + i), state);
  }
  map.map(source.getArgument(source.getNumArguments() - 1), step);
  for (Operation &op : source.without_terminator()) {
    builder.clone(op, map);
  }
  Operation *end = source.getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    Type expected =
        i == 0 ? leaf.value.getType() : leaf.states[i - 1].getType();
    if (value.getType() != expected) {
      return leaf.update.emitError("result ")
             << i << " must be " << expected << ", not " << value.getType();
    }
    Attribute state;
    if (i > 0) {
      state = leaf.update.getArgAttr(1 + i, "clv.state");
    }
    addResult(map.lookupOrDefault(value), i == 0 ? "param" : "optimizer",
              leaf.path, state);
  }
  return success();
}

void StepBuilder::addResult(Value value, StringRef kind, StringRef path,
                            Attribute state) {
  SmallVector<NamedAttribute> attrs = {named("clv.result", kind)};
  if (!path.empty()) {
    attrs.push_back(named("clv.path", path));
  }
  if (state) {
    attrs.push_back({StringAttr::get(context, "clv.state"), state});
  }
  unsigned group = kind == "param"       ? 1
                   : kind == "optimizer" ? 2
                   : kind == "gradient"  ? 3
                                         : 0;
  results[group].push_back({value, DictionaryAttr::get(context, attrs)});
}

LogicalResult StepBuilder::run() {
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  if (!loss || loss.isExternal() || loss.getNumResults() == 0) {
    return module.emitError("has no function @loss that returns a loss");
  }
  if (failed(collectUpdates())) {
    return failure();
  }
  OpBuilder builder(context);
  builder.setInsertionPointAfter(loss);
  auto train = builder.create<func::FuncOp>(loss.getLoc(), "train",
                                            FunctionType::get(context, {}, {}));
  body = train.addEntryBlock();
  if (failed(addArguments(loss))) {
    train.erase();
    return failure();
  }
  builder.setInsertionPointToEnd(body);
  for (Operation &op : loss.getBody().front().without_terminator()) {
    builder.clone(op, fromLoss);
  }
  Value lossValue = fromLoss.lookupOrDefault(
      loss.getBody().front().getTerminator()->getOperand(0));
  // Returns the loss alone for now, so that what only further outputs of @loss
  // need is gone before differentiation asks who reads a parameter.
  auto end = builder.create<func::ReturnOp>(loss.getLoc(), lossValue);
  simplify(train);
  lossValue = end.getOperand(0);

  SmallVector<Parameter> parameters;
  for (Leaf &leaf : leaves) {
    parameters.push_back({leaf.value, leaf.path});
  }
  SmallVector<Value> gradients;
  if (failed(buildGradients(*body, lossValue, parameters, gradients))) {
    train.erase();
    return failure();
  }
  for (auto [leaf, gradient] : llvm::zip(leaves, gradients)) {
    leaf.gradient = gradient;
  }
  builder.setInsertionPoint(end);
  addResult(lossValue, "loss");
  Value scale;
  if (auto clip = module->getAttrOfType<FloatAttr>("clv.clip");
      clip && !leaves.empty()) {
    scale = clippingScale(builder, clip.getValueAsDouble());
    addResult(norm, "gradient_norm");
  }
  for (Leaf &leaf : leaves) {
    if (failed(inlineUpdate(builder, leaf, scale))) {
      train.erase();
      return failure();
    }
  }
  if (options.probe) {
    for (Leaf &leaf : leaves) {
      addResult(leaf.gradient, "gradient", leaf.path);
    }
  }
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<Attribute> attrs;
  for (auto &group : results) {
    for (auto &[value, attr] : group) {
      values.push_back(value);
      types.push_back(value.getType());
      attrs.push_back(attr);
    }
  }
  end->setOperands(values);
  train.setFunctionType(FunctionType::get(context, argumentTypes, types));
  train.setAllArgAttrs(ArrayAttr::get(context, argumentAttrs));
  train.setAllResultAttrs(ArrayAttr::get(context, attrs));
  simplify(train);
  for (auto &entry : updates) {
    entry.second.erase();
  }
  return success();
}

} // namespace

LogicalResult cleave::buildStep(ModuleOp module, const StepOptions &options) {
  return StepBuilder(module, options).run();
}
