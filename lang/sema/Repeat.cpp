// `repeat`: a loop that stays rolled.
//
// The variables of the surrounding scopes that the body assigns to are carried.
// A condition of `if` that mentions the repeat's index splits the loop into
// segments, one repeat for each run of indices for which every such condition
// is the same; the body is walked once for each.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

// Iterations of a repeat that is split by conditions on its index.
static constexpr int64_t mostSplit = 65536;

namespace {

// Names that `block` assigns to and does not declare, in order of appearance.
void collectAssigned(const Block &block, std::set<std::string> declared,
                     Strings &assigned) {
  for (const StmtPtr &stmt : block.stmts) {
    if (auto *var = dynCast<VarStmt>(stmt)) {
      for (const Name &name : var->names) {
        declared.insert(name.text);
      }
    } else if (auto *let = dynCast<LetStmt>(stmt)) {
      for (const Name &name : let->names) {
        declared.insert(name.text);
      }
    } else if (auto *assign = dynCast<AssignStmt>(stmt)) {
      for (const Name &name : assign->names) {
        if (!declared.count(name.text) &&
            !llvm::is_contained(assigned, name.text)) {
          assigned.push_back(name.text);
        }
      }
    } else if (auto *region = dynCast<RegionStmt>(stmt)) {
      collectAssigned(region->body, declared, assigned);
    } else if (auto *repeat = dynCast<RepeatStmt>(stmt)) {
      collectAssigned(repeat->body, declared, assigned);
    } else if (auto *choice = dynCast<IfStmt>(stmt)) {
      collectAssigned(choice->thenBlock, declared, assigned);
      if (choice->elseBlock) {
        collectAssigned(*choice->elseBlock, declared, assigned);
      }
    }
  }
}

bool mentions(const Expr &expr, const std::string &name) {
  switch (expr.kind) {
  case ExprKind::Name:
    return static_cast<const NameExpr &>(expr).name == name;
  case ExprKind::Unary:
    return mentions(*static_cast<const UnaryExpr &>(expr).operand, name);
  case ExprKind::Binary: {
    auto &binary = static_cast<const BinaryExpr &>(expr);
    return mentions(*binary.left, name) || mentions(*binary.right, name);
  }
  case ExprKind::Call: {
    auto &call = static_cast<const CallExpr &>(expr);
    return call.callee.text() != "size" &&
           llvm::any_of(call.args, [&](const Arg &arg) {
             return mentions(*arg.value, name);
           });
  }
  default:
    return false;
  }
}

// The `if`s of a body whose conditions depend on the repeat's index.
void collectSplits(const Block &block, const std::string &dim,
                   std::vector<const IfStmt *> &splits) {
  for (const StmtPtr &stmt : block.stmts) {
    if (auto *region = dynCast<RegionStmt>(stmt)) {
      collectSplits(region->body, dim, splits);
    } else if (auto *repeat = dynCast<RepeatStmt>(stmt)) {
      collectSplits(repeat->body, dim, splits);
    } else if (auto *choice = dynCast<IfStmt>(stmt)) {
      if (mentions(*choice->condition, dim)) {
        splits.push_back(choice);
      }
      collectSplits(choice->thenBlock, dim, splits);
      if (choice->elseBlock) {
        collectSplits(*choice->elseBlock, dim, splits);
      }
    }
  }
}

} // namespace

std::optional<std::vector<Elaborator::Segment>>
Elaborator::segmentsOf(const RepeatStmt &stmt, int64_t count) {
  std::vector<const IfStmt *> splits;
  collectSplits(stmt.body, stmt.dim.text, splits);
  if (splits.empty()) {
    return std::vector<Segment>{{0, count, {}}};
  }
  if (count > mostSplit) {
    diags.error(Diag::TooLarge, stmt.dim.range,
                "a repeat whose index decides an `if` has at most " +
                    std::to_string(mostSplit) + " iterations");
    return std::nullopt;
  }
  std::vector<Segment> result;
  Environment outer = environment();
  for (int64_t i = 0; i < count; ++i) {
    Environment inner;
    inner.parent = &outer;
    inner.values[stmt.dim.text] = Value::ofInteger(i);
    std::map<const IfStmt *, bool> choices;
    for (const IfStmt *split : splits) {
      std::optional<bool> choice = evaluateBool(*split->condition, inner, diags,
                                                "the condition of `if`");
      if (!choice) {
        return std::nullopt;
      }
      choices[split] = *choice;
    }
    if (!result.empty() && result.back().choices == choices) {
      ++result.back().count;
    } else {
      result.push_back({i, 1, std::move(choices)});
    }
  }
  return result;
}

void Elaborator::runRepeat(const RepeatStmt &stmt) {
  if (frame->kind == Frame::Kind::Optimizer || !updatePath.empty()) {
    diags.error(Diag::BadStatement, stmt.keyword, "an update has no repeats");
    return;
  }
  const std::string &dim = stmt.dim.text;
  std::optional<int64_t> count;
  if (stmt.count) {
    count = evaluateInteger(*stmt.count, environment(), diags,
                            "the count of " + quoted(dim));
  } else {
    std::string known = resolveDim(dim, stmt.dim.range);
    if (!known.empty()) {
      count = dims.size(known);
    }
  }
  if (!count ||
      !dims.addRepeat(stmt.dim, *count,
                      stmt.count ? stmt.count->range : stmt.dim.range, diags)) {
    return;
  }
  for (RegionNode *n = node; n; n = n->parent) {
    if (n->isRepeat && n->dim == dim) {
      diags.error(Diag::DuplicateName, stmt.dim.range,
                  "a repeat over " + quoted(dim) + " stands in another one");
      return;
    }
  }
  frame->dims.try_emplace(dim, dim);

  Strings assigned, carried;
  collectAssigned(stmt.body, {}, assigned);
  for (const std::string &name : assigned) {
    // What is unknown or no `var` is reported where it is assigned.
    Binding *binding = find(name);
    if (!binding || !binding->isVar || binding->value.isError()) {
      continue;
    }
    if (binding->value.isSum() || binding->value.isTuple()) {
      diags.error(Diag::LaterOperation, stmt.dim.range,
                  "carrying " + quoted(name) + ", " + describe(binding->value) +
                      ", through a repeat is not built yet");
      binding->value = {};
      continue;
    }
    carried.push_back(name);
  }

  std::optional<std::vector<Segment>> segments = segmentsOf(stmt, *count);
  bool owns = false;
  if (segments) {
    size_t before = diags.errorCount();
    for (const Segment &segment : *segments) {
      // What the segments share would be reported again.
      if (diags.errorCount() != before) {
        break;
      }
      owns |= runSegment(stmt, segment, segments->size() == 1, carried);
    }
  }
  if (owns) {
    own(*node, dim, stmt.dim.range, /*isCall=*/false, /*isNamed=*/true);
  }
}

bool Elaborator::runSegment(const RepeatStmt &stmt, const Segment &segment,
                            bool isWhole, const Strings &carried) {
  const std::string &dim = stmt.dim.text;
  SourceRange range = stmt.dim.range;
  mlir::Location loc = location(stmt.range);
  mlir::Region holder;
  mlir::Block *block = new mlir::Block();
  holder.push_back(block);

  RegionNode &inner = addNode(*node, dim);
  inner.isRepeat = true;
  inner.block = block;
  inner.dim = dim;
  inner.count = segment.count;
  inner.first = segment.first;
  if (!isWhole) {
    inner.paramPath += "[" + std::to_string(segment.first) + ".." +
                       std::to_string(segment.first + segment.count) + "]";
  }
  inner.index = block->addArgument(
      mlir::RankedTensorType::get({}, builder.getI32Type()), loc);

  Scope &scope = scopes.emplace_back();
  scope.parent = frame->scope;
  Binding &index = scope.bindings[dim];
  index.value = Val::of(inner.index);
  index.home = &inner;
  index.range = range;
  llvm::SmallVector<Tensor> initial;
  for (const std::string &name : carried) {
    Binding &outer = *find(name);
    Binding &binding = scope.bindings[name];
    binding.isVar = true;
    binding.home = &inner;
    binding.range = outer.range;
    Tensor value;
    if (!outer.value.isError()) {
      value = materialize(read(name, outer, range), range);
    }
    if (!value) {
      continue;
    }
    initial.push_back(value);
    binding.value = Val::of(Tensor(block->addArgument(value.getType(), loc)));
  }

  Scope *outerScope = frame->scope;
  RegionNode *outerNode = node;
  auto outerChoices = choices;
  for (const auto &[split, choice] : segment.choices) {
    choices[split] = choice;
  }
  frame->scope = &scope;
  node = &inner;
  runBlock(stmt.body);
  llvm::SmallVector<Tensor> yielded;
  for (const std::string &name : carried) {
    Binding &binding = scope.bindings[name];
    if (!binding.value.isError()) {
      yielded.push_back(read(name, binding, range).tensor);
    }
  }
  frame->scope = outerScope;
  node = outerNode;
  choices = std::move(outerChoices);

  // After an error in it the body goes. A variable keeps its value of before,
  // so that what follows is still checked.
  if (yielded.size() != carried.size()) {
    return inner.owns;
  }
  builder.setInsertionPointToEnd(block);
  builder.create<clv::YieldOp>(loc, yielded);
  builder.setInsertionPointToEnd(node->block);
  llvm::SmallVector<mlir::Type> types;
  for (Tensor value : initial) {
    types.push_back(value.getType());
  }
  auto repeat = builder.create<clv::RepeatOp>(
      loc, types, initial, mlir::ValueRange(inner.stacked),
      builder.getStringAttr(dim), builder.getI64IntegerAttr(segment.count),
      builder.getI64IntegerAttr(segment.first), mlir::UnitAttr());
  clv::setScope(repeat, scopeOf(*node));
  repeat.getBody().takeBody(holder);
  for (size_t i = 0; i < carried.size(); ++i) {
    Binding &binding = *find(carried[i]);
    binding.value = Val::of(Tensor(repeat.getResult(i)));
    binding.home = node;
  }
  return inner.owns;
}
