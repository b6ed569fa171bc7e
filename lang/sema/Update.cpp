// Optimizers: one update function for each parameter leaf.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

/// `precision(params: f32, compute: bf16)`: each may be left out, and is `f32`.
bool Elaborator::resolvePrecision(const CallExpr &call) {
  bool good = true;
  Strings seen;
  for (const Arg &arg : call.args) {
    std::string what = arg.name ? arg.name->text : "";
    SourceRange range = arg.name ? arg.name->range : arg.range;
    bool isCompute = what == "compute";
    if ((!isCompute && what != "params") || llvm::is_contained(seen, what)) {
      diags
          .error(Diag::BadArguments, range,
                 llvm::is_contained(seen, what)
                     ? quoted(what) + " is given twice"
                     : "`precision` is of `params` and of `compute`" +
                           (what.empty() ? "" : ", not of " + quoted(what)))
          .help("write `precision(params: f32, compute: bf16)`");
      good = false;
      continue;
    }
    seen.push_back(what);
    auto *type = dynCast<NameExpr>(arg.value);
    std::string text = type ? type->name : "";
    if (text != "f32" && !(isCompute && text == "bf16")) {
      diags
          .error(Diag::LaterPrecision, arg.value->range,
                 isCompute ? "contractions multiply `f32` or `bf16`"
                           : "parameters and optimizer leaves are `f32`")
          .help(!isCompute      ? "write `params: f32`"
                : text == "f16" ? "write `compute: bf16`, whose range is that "
                                  "of `f32`: `f16` would need a scaled loss"
                                : "write `compute: f32` or `compute: bf16`");
      good = false;
    } else if (isCompute && text == "bf16") {
      compute = builder.getBF16Type();
    }
  }
  return good;
}

bool Elaborator::resolveWith(Optimizer &optimizer) {
  bool good = true;
  const CallExpr *clipCall = nullptr, *precisionCall = nullptr;
  auto once = [&](const CallExpr *&slot, const CallExpr *call,
                  const char *what) {
    if (slot) {
      diags
          .error(Diag::DuplicateName, call->range,
                 std::string("the run has two ") + what)
          .note(slot->range, "the first one is here");
      good = false;
      return false;
    }
    slot = call;
    return true;
  };
  for (const CallExpr *call : options.with) {
    std::string name = call->callee.text();
    if (name == "clip") {
      if (!once(clipCall, call, "`clip`s")) {
        continue;
      }
      std::optional<double> limit;
      if (call->args.size() == 1 && !call->args[0].name) {
        limit = evaluateNumber(*call->args[0].value, Environment(), diags,
                               "the limit of `clip`");
        good &= limit.has_value();
      }
      if (call->args.size() != 1 || call->args[0].name ||
          (limit && !(*limit > 0))) {
        diags
            .error(Diag::BadArguments, call->range,
                   "`clip` takes one positive number")
            .help("write `clip(1.0)`: the largest norm of all gradients");
        good = false;
      }
      clip = limit;
      continue;
    }
    if (name == "precision") {
      good &=
          once(precisionCall, call, "`precision`s") && resolvePrecision(*call);
      continue;
    }
    Found<OptimizerDecl> found = findOptimizer(program, name);
    if (!found) {
      Strings known = declaredNames(program, DeclKind::Optimizer);
      auto error = diags.error(Diag::UnknownDeclaredName, call->callee.range,
                               "unknown optimizer " + quoted(name));
      if (known.empty()) {
        error.help("is `use std.optim` missing at the head of the file?");
      } else {
        known.push_back("clip");
        known.push_back("precision");
        error.help(suggestion(name, known));
      }
      good = false;
      continue;
    }
    if (once(optimizer.call, call, "optimizers")) {
      optimizer.found = found;
    }
  }
  if (!optimizer.call && options.defaultOptimizer && good) {
    // As if `adamw(rate: 1e-4)` had been written.
    auto call = std::make_unique<CallExpr>();
    call->callee.parts.push_back({{}, "adamw"});
    auto rate = std::make_unique<NumberExpr>();
    rate->value = 1e-4;
    Arg arg;
    arg.name = Name{{}, "rate"};
    arg.value = std::move(rate);
    call->args.push_back(std::move(arg));
    optimizer.found = findOptimizer(program, "adamw");
    if (!optimizer.found) {
      diags
          .error(Diag::UnknownDeclaredName, {},
                 "training without a run needs the optimizer `adamw`")
          .help("add `use std.optim`, or a run that names an optimizer");
      return false;
    }
    optimizer.call = call.get();
    madeCalls.push_back(std::move(call));
  }
  return good;
}

/// Arguments are evaluated where the run stands: they see functions and, in
/// them, `step`; nothing of the model.
bool Elaborator::bindOptimizerArguments(const Optimizer &optimizer,
                                        Frame &inner) {
  const OptimizerDecl &decl = *optimizer.found.decl;
  std::vector<const Arg *> given(decl.params.size(), nullptr);
  size_t position = 0;
  for (const Arg &arg : optimizer.call->args) {
    size_t i = position;
    Strings known;
    for (const Param &param : decl.params) {
      known.push_back(param.name.text);
    }
    if (arg.name) {
      i = std::find(known.begin(), known.end(), arg.name->text) - known.begin();
    } else {
      ++position;
    }
    if (i >= given.size() || given[i]) {
      diags
          .error(Diag::BadArguments, arg.name ? arg.name->range : arg.range,
                 i < given.size() ? quoted(known[i]) + " is given twice"
                 : arg.name ? quoted(decl.name.text) + " has no parameter " +
                                  quoted(arg.name->text)
                            : quoted(decl.name.text) + " takes " +
                                  std::to_string(given.size()) + " arguments")
          .note(decl.name.range, "the optimizer is declared here")
          .help(arg.name ? suggestion(arg.name->text, known) : "");
      return false;
    }
    given[i] = &arg;
  }
  Frame outer;
  outer.kind = Frame::Kind::Optimizer;
  outer.file = &program.root();
  outer.scope = &scopes.emplace_back();
  outer.home = node;
  bool good = true;
  for (size_t i = 0; i < decl.params.size(); ++i) {
    const Param &param = decl.params[i];
    Val value;
    if (given[i]) {
      frame = &outer;
      value = visit(*given[i]->value);
      bool isNumber =
          value.isConstant()
              ? value.constant.isNumber() ||
                    value.constant.kind == Value::Kind::Bool
              : value.isTensor() && clv::dimsOf(value.tensor).empty();
      if (!value.isError() && !isNumber) {
        diags.error(Diag::NotScalar, given[i]->value->range,
                    quoted(param.name.text) + " must be a number, not " +
                        describe(value));
        value = {};
      }
    } else if (param.defaultValue) {
      frame = &inner;
      value = visit(*param.defaultValue);
    } else {
      diags
          .error(Diag::MissingArgument, optimizer.call->range,
                 quoted(decl.name.text) + " needs a value for " +
                     quoted(param.name.text))
          .note(param.name.range, "the parameter is declared here");
    }
    good &= !value.isError();
    frame = &inner;
    declare(param.name, value, false);
  }
  return good;
}

void Elaborator::runUpdate(const UpdateStmt &stmt) {
  if (updated) {
    diags.error(Diag::BadUpdate, stmt.range, "an optimizer updates once");
    return;
  }
  Val value = visit(*stmt.value);
  Tensor tensor = value.isError() ? Tensor()
                                  : materialize(value, stmt.value->range,
                                                updateType.getElementType());
  if (!tensor) {
    return;
  }
  auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
  if (type.getElementType() != updateType.getElementType()) {
    diags.error(Diag::BadUpdate, stmt.value->range,
                "an update is `f32`, not " + describe(value));
    return;
  }
  updated = conform(tensor, updateType, stmt.value->range);
}

bool Elaborator::runUpdateOf(mlir::ModuleOp module, size_t number,
                             const Optimizer &optimizer) {
  const LeafInfo &leaf = leaves[number];
  const OptimizerDecl &decl = *optimizer.found.decl;
  updatePath = leaf.path;
  llvm::SmallVector<llvm::StringRef> dimRefs(leaf.dims.begin(),
                                             leaf.dims.end());
  updateType = clv::tensorType(elementType(leaf.element), dimRefs, leaf.sizes);
  updated = {};
  mlir::Region holder;
  holder.push_back(new mlir::Block());
  RegionNode &home = nodes.emplace_back();
  home.block = &holder.front();
  node = &home;

  Frame inner;
  inner.kind = Frame::Kind::Optimizer;
  inner.file = optimizer.found.file;
  inner.scope = &scopes.emplace_back();
  inner.home = &home;
  frame = &inner;
  SourceRange range = decl.name.range;
  mlir::Location loc = location(range);
  auto argument = [&](mlir::Type type) {
    return Tensor(home.block->addArgument(type, loc));
  };
  Tensor param = argument(updateType), gradient = argument(updateType);

  // States are arguments too, so they are found first.
  struct State {
    Name name;
    Tensor value;
    Init init;
  };
  std::vector<State> declared;
  size_t before = diags.errorCount();
  for (const StmtPtr &stmt : decl.body.stmts) {
    auto *state = dynCast<StateStmt>(stmt);
    if (!state) {
      continue;
    }
    std::optional<Init> init = resolveInit(*state->init);
    for (const Name &name : state->names) {
      if (init) {
        declared.push_back({name, argument(updateType), *init});
      }
    }
  }
  Tensor stepArgument =
      argument(mlir::RankedTensorType::get({}, builder.getI32Type()));
  updateStep = at(range).cast(stepArgument, builder.getF32Type());
  bool good =
      bindOptimizerArguments(optimizer, inner) && diags.errorCount() == before;
  if (good) {
    declare(Name{{range}, "param"}, Val::of(param), false);
    declare(Name{{range}, "gradient"}, Val::of(gradient), false);
    declare(Name{{range}, "step"}, Val::of(updateStep), false);
    for (const State &state : declared) {
      declare(state.name, Val::of(state.value), true);
    }
    for (const StmtPtr &stmt : decl.body.stmts) {
      if (stmt->kind != StmtKind::State) {
        run(*stmt);
      }
    }
    if (!updated && diags.errorCount() == before) {
      diags
          .error(Diag::BadUpdate, decl.name.range,
                 quoted(decl.name.text) + " never updates its parameter")
          .help("end it with `update param - ...`");
    }
    good = diags.errorCount() == before;
  }
  if (good) {
    llvm::SmallVector<Tensor> results = {updated};
    for (const State &state : declared) {
      Binding *binding = find(state.name.text);
      results.push_back(binding->value.tensor);
      LeafInfo stateLeaf = leaf;
      stateLeaf.state = state.name.text;
      stateLeaf.init = state.init;
      states.push_back(stateLeaf);
    }
    builder.setInsertionPointToEnd(home.block);
    builder.create<mlir::func::ReturnOp>(loc, results);
    builder.setInsertionPointToEnd(module.getBody());
    auto function = builder.create<mlir::func::FuncOp>(
        loc, "update." + std::to_string(number),
        builder.getFunctionType(home.block->getArgumentTypes(),
                                mlir::ValueRange(results).getTypes()));
    function.setPrivate();
    function->setAttr("clv.param", builder.getStringAttr(leaf.path));
    function.getBody().takeBody(holder);
    auto role = [&](unsigned i, const char *text) {
      function.setArgAttr(i, "clv.role", builder.getStringAttr(text));
    };
    role(0, "param");
    role(1, "gradient");
    for (auto [i, state] : llvm::enumerate(declared)) {
      role(2 + i, "optimizer");
      function.setArgAttr(2 + i, "clv.state",
                          builder.getStringAttr(state.name.text));
      function.setArgAttr(2 + i, "clv.init", initAttr(builder, state.init));
    }
    role(2 + declared.size(), "step");
  }
  updatePath.clear();
  frame = nullptr;
  return good;
}

bool Elaborator::runUpdates(mlir::ModuleOp module) {
  Optimizer optimizer;
  if (!resolveWith(optimizer)) {
    return false;
  }
  if (clip) {
    module->setAttr("clv.clip", builder.getF64FloatAttr(*clip));
  }
  if (compute) {
    module->setAttr("clv.compute", mlir::TypeAttr::get(compute));
  }
  if (!optimizer.call) {
    return true;
  }
  if (!hasLoss()) {
    if (!options.defaultOptimizer) {
      diags
          .error(Diag::MissingLoss, optimizer.call->range,
                 quoted(modelName) + " has nothing to minimize")
          .help("end the model with `minimize loss`");
    }
    return options.defaultOptimizer;
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!runUpdateOf(module, i, optimizer)) {
      return false;
    }
  }
  return true;
}
