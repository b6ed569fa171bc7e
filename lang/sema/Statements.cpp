// Statements of models and functions, but for `repeat` (Repeat.cpp) and
// `param` (Leaves.cpp).
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

void Elaborator::runBlock(const Block &block) {
  for (const StmtPtr &stmt : block.stmts) {
    if (frame->returned) {
      diags
          .error(Diag::BadStatement, stmt->range,
                 "this statement is never reached")
          .note(frame->returnRange, "the function returns here");
      return;
    }
    run(*stmt);
  }
}

bool Elaborator::isIn(Frame::Kind kind, const Stmt &stmt, const char *where) {
  if (frame->kind == kind) {
    return true;
  }
  diags.error(Diag::BadStatement, stmt.keyword,
              std::string("this statement belongs in ") + where);
  return false;
}

void Elaborator::run(const Stmt &stmt) {
  if (dimsFailed && stmt.kind != StmtKind::Dim) {
    return;
  }
  switch (stmt.kind) {
  case StmtKind::Dim:
    return runDim(static_cast<const DimStmt &>(stmt));
  case StmtKind::Input:
    return runInput(static_cast<const InputStmt &>(stmt));
  case StmtKind::Output:
    return runOutput(static_cast<const OutputStmt &>(stmt));
  case StmtKind::Param:
    return runParam(static_cast<const ParamStmt &>(stmt));
  case StmtKind::Let: {
    auto &let = static_cast<const LetStmt &>(stmt);
    return runLet(stmt, let.names, let.values, /*isVar=*/false);
  }
  case StmtKind::Var: {
    auto &var = static_cast<const VarStmt &>(stmt);
    return runLet(stmt, var.names, var.values, /*isVar=*/true);
  }
  case StmtKind::Assign:
    return runAssign(static_cast<const AssignStmt &>(stmt));
  case StmtKind::Repeat:
    return runRepeat(static_cast<const RepeatStmt &>(stmt));
  case StmtKind::Region:
    return runRegion(static_cast<const RegionStmt &>(stmt));
  case StmtKind::If:
    return runIf(static_cast<const IfStmt &>(stmt));
  case StmtKind::Return:
    return runReturn(static_cast<const ReturnStmt &>(stmt));
  case StmtKind::Minimize:
    return runMinimize(static_cast<const MinimizeStmt &>(stmt));
  case StmtKind::State:
    if (isIn(Frame::Kind::Optimizer, stmt, "an optimizer")) {
      diags.error(Diag::BadStatement, stmt.keyword,
                  "`state` cannot stand inside `if`");
    }
    return;
  case StmtKind::Update:
    if (isIn(Frame::Kind::Optimizer, stmt, "an optimizer")) {
      runUpdate(static_cast<const UpdateStmt &>(stmt));
    }
    return;
  default:
    diags.error(Diag::BadStatement, stmt.keyword,
                "this statement does not belong in a model or a function");
    return;
  }
}

//===----------------------------------------------------------------------===//
// Dims, inputs, outputs
//===----------------------------------------------------------------------===//

void Elaborator::runDim(const DimStmt &stmt) {
  if (!isIn(Frame::Kind::Model, stmt,
            "a model; a function takes dims with `using`")) {
    return;
  }
  size_t before = diags.errorCount();
  for (const DimDef &def : stmt.dims) {
    bool good = false;
    switch (def.kind) {
    case DimDef::Size: {
      std::optional<int64_t> size =
          evaluateInteger(*def.size, environment(), diags,
                          "the size of " + quoted(def.name.text));
      if (def.upTo) {
        bounded.push_back(def.name.text);
        if (auto set = options.sizes.find(def.name.text);
            set != options.sizes.end()) {
          size = set->second;
        }
      }
      // A name that failed stays known, so that its uses are no errors.
      good = dims.addSize(def.name, size.value_or(1), def.size->range, diags);
      if (good && def.like) {
        dims.addLike(def.name, *def.like, diags);
      }
      break;
    }
    case DimDef::Product:
      good = dims.addProduct(def.name, def.product, diags);
      break;
    case DimDef::Sum:
      good = dims.addSum(def, diags);
      break;
    }
    if (good || dims.find(def.name.text)) {
      frame->dims[def.name.text] = def.name.text;
    }
  }
  dimsFailed |= diags.errorCount() != before;
}

void Elaborator::runInput(const InputStmt &stmt) {
  if (!isIn(Frame::Kind::Model, stmt, "a model")) {
    return;
  }
  std::optional<TypeInfo> type = resolveType(stmt.type);
  InputInfo info;
  if (stmt.from) {
    const CallExpr &from = *stmt.from;
    Arguments args(from);
    const Arg *shift = args.find("shift");
    bool known = from.callee.text() == "tokens" && args.positional.empty() &&
                 args.named.size() == (shift ? 1 : 0);
    std::optional<int64_t> value = 0;
    if (known && shift) {
      value = evaluateInteger(*shift->value, environment(), diags, "`shift`");
    }
    if (!known || (value && *value < 0)) {
      diags.error(Diag::BadSource, from.range, "unknown source of an input")
          .help("inputs come `from tokens(shift: n)`, n at least 0");
    }
    info.source = InputInfo::Source::Tokens;
    info.shift = value.value_or(0);
    if (type && type->element != Element::I32) {
      diags.error(Diag::BadSource, stmt.type.range, "tokens are `i32`");
    }
    if (type && type->sumDim.empty() && type->parts[0].second.size() != 2) {
      diags
          .error(Diag::BadSource, stmt.type.range,
                 "tokens have two dims, not " +
                     std::to_string(type->parts[0].second.size()))
          .help("sample first, then position in it: `i32[batch, seq]`");
    }
  }
  for (const Name &name : stmt.names) {
    if (!type || !type->sumDim.empty()) {
      if (type) {
        diags.error(Diag::BadType, stmt.type.range,
                    "an input cannot have a sum of dims");
        type.reset();
      }
      declare(name, {}, false);
      continue;
    }
    info.name = name.text;
    info.range = name.range;
    info.element = type->element;
    info.dims = type->parts[0].second;
    info.sizes.clear();
    for (const std::string &dim : info.dims) {
      info.sizes.push_back(dims.size(dim));
    }
    Tensor value = root->block->addArgument(typeOf(info.element, info.dims),
                                            location(name.range));
    inputs.push_back(info);
    inputArguments.push_back(value);
    declare(name, Val::of(value), false);
    find(name.text)->home = root;
  }
}

void Elaborator::runOutput(const OutputStmt &stmt) {
  if (!isIn(Frame::Kind::Model, stmt, "a model")) {
    return;
  }
  for (const Name &name : stmt.names) {
    for (const auto &[other, range] : outputNames) {
      if (other.text == name.text) {
        diags
            .error(Diag::DuplicateName, name.range,
                   quoted(name.text) + " is an output twice")
            .note(other.range, "it is one here");
      }
    }
    outputNames.push_back({name, stmt.range});
  }
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

bool Elaborator::declare(const Name &name, Val value, bool isVar) {
  auto [it, added] = frame->scope->bindings.try_emplace(name.text);
  Binding &binding = it->second;
  if (!added) {
    auto error = diags.error(Diag::DuplicateName, name.range,
                             quoted(name.text) + " is declared twice");
    error.note(binding.range, "the first declaration is here");
    if (binding.isVar) {
      error.help("to change it, assign to it: `" + name.text + " = ...`");
    }
    return false;
  }
  binding.value = std::move(value);
  binding.home = node;
  binding.isVar = isVar;
  binding.range = name.range;
  return true;
}

void Elaborator::label(const Val &value, const std::string &name) {
  auto set = [&](Tensor tensor, const std::string &text) {
    mlir::Operation *op = tensor.getDefiningOp();
    clv::ScopeAttr scope = op ? clv::scopeOf(op) : clv::ScopeAttr();
    if (scope && !scope.getLabel() && scope.getRole() != clv::Role::Weights &&
        updatePath.empty()) {
      clv::setScope(op, clv::ScopeAttr::get(&context, scope.getRole(),
                                            scope.getPhase(), scope.getPath(),
                                            builder.getStringAttr(text),
                                            scope.getReader()));
    }
  };
  if (value.isTensor()) {
    set(value.tensor, name);
  }
  for (const auto &[part, tensor] : value.parts) {
    set(tensor, name);
  }
}

std::optional<std::vector<Val>>
Elaborator::evaluateList(const std::vector<ExprPtr> &values, size_t names,
                         SourceRange range) {
  std::vector<Val> result;
  for (const ExprPtr &value : values) {
    result.push_back(visit(*value));
  }
  if (values.size() == names) {
    return result;
  }
  if (result.size() == 1) {
    if (result[0].isError()) {
      return std::vector<Val>(names);
    }
    if (result[0].isTuple() && result[0].items.size() == names) {
      return result[0].items;
    }
    if (result[0].isConstant() &&
        (result[0].constant.kind == Value::Kind::Tuple ||
         result[0].constant.kind == Value::Kind::List) &&
        result[0].constant.items.size() == names) {
      std::vector<Val> items;
      for (const Value &item : result[0].constant.items) {
        items.push_back(Val::of(item));
      }
      return items;
    }
  }
  diags.error(Diag::BadArguments, range,
              std::to_string(names) + " names for " +
                  (result.size() == 1
                       ? describe(result[0])
                       : std::to_string(result.size()) + " values"));
  return std::nullopt;
}

void Elaborator::runLet(const Stmt &stmt, const std::vector<Name> &names,
                        const std::vector<ExprPtr> &values, bool isVar) {
  auto found = evaluateList(values, names.size(), stmt.range);
  for (size_t i = 0; i < names.size(); ++i) {
    Val value = found ? std::move((*found)[i]) : Val();
    if (value.isTuple()) {
      diags.error(Diag::BadArguments, names[i].range,
                  "one name for " + describe(value));
      value = {};
    }
    // What a repeat carries, an input or a named value gets a second name:
    // a value of its own, that plans can select.
    bool isNamed = value.isTensor() &&
                   (!value.tensor.getDefiningOp() ||
                    (clv::scopeOf(value.tensor.getDefiningOp()) &&
                     clv::scopeOf(value.tensor.getDefiningOp()).getLabel()));
    if (isNamed && !isVar && updatePath.empty() &&
        !clv::dimsOf(value.tensor).empty()) {
      value.tensor = at(names[i].range).edge(value.tensor, node->path);
    }
    label(value, names[i].text);
    declare(names[i], std::move(value), isVar);
  }
}

void Elaborator::runAssign(const AssignStmt &stmt) {
  auto found = evaluateList(stmt.values, stmt.names.size(), stmt.range);
  for (size_t i = 0; i < stmt.names.size(); ++i) {
    const Name &name = stmt.names[i];
    Val value = found ? (*found)[i] : Val();
    Binding *binding = find(name.text);
    if (!binding) {
      diags
          .error(Diag::UnknownName, name.range,
                 "unknown name " + quoted(name.text))
          .help(suggestion(name.text, visibleNames()));
      continue;
    }
    if (!binding->isVar) {
      diags
          .error(Diag::BadAssignment, name.range,
                 quoted(name.text) + " cannot be assigned to")
          .note(binding->range, "it is declared here")
          .help("only a `var` can change");
      continue;
    }
    if (value.isError() || binding->value.isError()) {
      binding->value = {};
      continue;
    }
    SourceRange range = stmt.values.size() == stmt.names.size()
                            ? stmt.values[i]->range
                            : stmt.range;
    if (binding->value.isTensor()) {
      auto type =
          mlir::cast<mlir::RankedTensorType>(binding->value.tensor.getType());
      Tensor tensor = materialize(value, range, type.getElementType());
      if (!tensor) {
        binding->value = {};
        continue;
      }
      auto found = mlir::cast<mlir::RankedTensorType>(tensor.getType());
      bool fits = found.getElementType() == type.getElementType();
      for (llvm::StringRef dim : clv::dimsOf(tensor)) {
        fits &= clv::findDim(type, dim) >= 0;
      }
      if (!fits) {
        diags
            .error(Diag::BadAssignment, range,
                   quoted(name.text) + " is " + describe(binding->value) +
                       " and cannot become " + describe(Val::of(tensor)))
            .note(binding->range, "it is declared here");
        binding->value = {};
        continue;
      }
      value = Val::of(conform(tensor, type, range));
    } else if (binding->value.isSum() != value.isSum()) {
      diags
          .error(Diag::BadAssignment, range,
                 quoted(name.text) + " is " + describe(binding->value) +
                     " and cannot become " + describe(value))
          .note(binding->range, "it is declared here");
      binding->value = {};
      continue;
    }
    label(value, name.text);
    binding->value = std::move(value);
    binding->home = node;
  }
}

//===----------------------------------------------------------------------===//
// Regions, conditions, ends
//===----------------------------------------------------------------------===//

void Elaborator::runRegion(const RegionStmt &stmt) {
  if (!updatePath.empty()) {
    diags.error(Diag::BadStatement, stmt.keyword, "an update has no regions");
    return;
  }
  RegionNode *outer = node;
  RegionNode &inner = addNode(*outer, stmt.name.text);
  node = &inner;
  runBlock(stmt.body);
  node = outer;
  if (inner.owns) {
    own(*outer, stmt.name.text, stmt.name.range, /*isCall=*/false,
        /*isNamed=*/true);
  }
}

void Elaborator::runIf(const IfStmt &stmt) {
  std::optional<bool> condition;
  if (auto it = choices.find(&stmt); it != choices.end()) {
    condition = it->second;
  } else {
    Val value = visit(*stmt.condition);
    if (value.isError()) {
      return;
    }
    if (!value.isConstant()) {
      diags
          .error(Diag::NotCompileTime, stmt.condition->range,
                 "`if` needs a condition known when compiling, not " +
                     describe(value))
          .help("choose element by element with `where(condition, a, b)`");
      return;
    }
    if (value.constant.kind != Value::Kind::Bool) {
      diags.error(Diag::WrongKind, stmt.condition->range,
                  "the condition of `if` must be true or false, not " +
                      value.constant.describe());
      return;
    }
    condition = value.constant.boolean;
  }
  if (*condition) {
    runBlock(stmt.thenBlock);
  } else if (stmt.elseBlock) {
    runBlock(*stmt.elseBlock);
  }
}

void Elaborator::runReturn(const ReturnStmt &stmt) {
  if (!isIn(Frame::Kind::Fn, stmt, "a function")) {
    return;
  }
  frame->returned = true;
  frame->returnRange = stmt.range;
  if (node != frame->home) {
    diags
        .error(Diag::BadStatement, stmt.keyword,
               "`return` inside a region or a repeat")
        .help("names of a region stay visible after it: return at the end of "
              "the function");
  }
  for (const ExprPtr &value : stmt.values) {
    Val result = visit(*value);
    if (result.isTuple() && stmt.values.size() == 1) {
      frame->results = result.items;
      return;
    }
    frame->results.push_back(std::move(result));
  }
}

void Elaborator::runMinimize(const MinimizeStmt &stmt) {
  if (!isIn(Frame::Kind::Model, stmt, "a model")) {
    return;
  }
  if (node->isRepeat) {
    diags.error(Diag::BadStatement, stmt.keyword,
                "`minimize` cannot stand inside a repeat");
    return;
  }
  if (minimizeRange.isValid()) {
    diags.error(Diag::MissingLoss, stmt.range, "a model minimizes one value")
        .note(minimizeRange, "it already minimizes this one")
        .help("add the losses: `minimize a + 0.3 * b`");
    return;
  }
  minimizeRange = stmt.range;
  Val value = visit(*stmt.value);
  if (value.isError()) {
    return;
  }
  Tensor tensor = materialize(value, stmt.value->range);
  if (!tensor) {
    return;
  }
  if (!clv::dimsOf(tensor).empty() ||
      !mlir::cast<mlir::RankedTensorType>(tensor.getType())
           .getElementType()
           .isF32()) {
    diags
        .error(Diag::NotScalar, stmt.value->range,
               "`minimize` takes one `f32` number, not " +
                   describe(Val::of(tensor)))
        .help("reduce it: `mean(x)` or `sum(x)`");
    return;
  }
  loss = tensor;
}
