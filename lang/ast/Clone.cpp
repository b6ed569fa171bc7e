// Copies of expressions and selections, and expressions read as selections.
#include "lang/ast/Ast.h"

#include <utility>

namespace cleave::ast {

namespace {

template <typename T> std::unique_ptr<T> begin(const T &from) {
  auto copy = std::make_unique<T>();
  copy->range = from.range;
  copy->height = from.height;
  return copy;
}

ExprPtr cloneOrNull(const ExprPtr &expr) {
  return expr ? clone(*expr) : nullptr;
}

std::vector<ExprPtr> cloneAll(const std::vector<ExprPtr> &exprs) {
  std::vector<ExprPtr> copies;
  for (const ExprPtr &expr : exprs) {
    copies.push_back(clone(*expr));
  }
  return copies;
}

Path clonePath(const Path &path) {
  Path copy;
  copy.range = path.range;
  copy.anchored = path.anchored;
  for (const PathStep &step : path.steps) {
    PathStep &last = copy.steps.emplace_back();
    last.range = step.range;
    last.kind = step.kind;
    last.name = step.name;
    last.optional = step.optional;
    if (step.index) {
      last.index = clone(*step.index);
    }
  }
  return copy;
}

Group cloneGroup(const Group &group) {
  Group copy;
  copy.range = group.range;
  for (const Pick &pick : group.picks) {
    Pick &last = copy.picks.emplace_back();
    last.range = pick.range;
    last.kind = pick.kind;
    last.role = pick.role;
    last.path = clonePath(pick.path);
    if (pick.nested) {
      last.nested = std::make_unique<Selection>(clone(*pick.nested));
    }
  }
  return copy;
}

} // namespace

StepRange clone(const StepRange &range) {
  StepRange copy;
  copy.range = range.range;
  copy.index = cloneOrNull(range.index);
  copy.begin = cloneOrNull(range.begin);
  copy.end = cloneOrNull(range.end);
  copy.every = cloneOrNull(range.every);
  return copy;
}

Selection clone(const Selection &selection) {
  Selection copy;
  copy.range = selection.range;
  copy.group = cloneGroup(selection.group);
  for (const Clause &clause : selection.clauses) {
    Clause &last = copy.clauses.emplace_back();
    last.range = clause.range;
    last.kind = clause.kind;
    last.group = cloneGroup(clause.group);
    last.where = cloneOrNull(clause.where);
  }
  return copy;
}

ExprPtr clone(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Number: {
    auto &from = static_cast<const NumberExpr &>(expr);
    auto copy = begin(from);
    copy->value = from.value;
    copy->isInteger = from.isInteger;
    copy->integer = from.integer;
    copy->unit = from.unit;
    copy->unitRange = from.unitRange;
    return copy;
  }
  case ExprKind::String: {
    auto &from = static_cast<const StringExpr &>(expr);
    auto copy = begin(from);
    copy->value = from.value;
    return copy;
  }
  case ExprKind::Bool: {
    auto &from = static_cast<const BoolExpr &>(expr);
    auto copy = begin(from);
    copy->value = from.value;
    return copy;
  }
  case ExprKind::Name: {
    auto &from = static_cast<const NameExpr &>(expr);
    auto copy = begin(from);
    copy->name = from.name;
    return copy;
  }
  case ExprKind::Member: {
    auto &from = static_cast<const MemberExpr &>(expr);
    auto copy = begin(from);
    copy->base = clone(*from.base);
    copy->member = from.member;
    return copy;
  }
  case ExprKind::Call: {
    auto &from = static_cast<const CallExpr &>(expr);
    auto copy = begin(from);
    copy->callee = from.callee;
    for (const Arg &arg : from.args) {
      Arg &last = copy->args.emplace_back();
      last.range = arg.range;
      last.name = arg.name;
      last.value = clone(*arg.value);
      last.axis = arg.axis;
    }
    copy->hasParens = from.hasParens;
    copy->as = from.as;
    copy->argsRange = from.argsRange;
    return copy;
  }
  case ExprKind::Index: {
    auto &from = static_cast<const IndexExpr &>(expr);
    auto copy = begin(from);
    copy->base = clone(*from.base);
    copy->index = clone(*from.index);
    return copy;
  }
  case ExprKind::Range: {
    auto &from = static_cast<const RangeExpr &>(expr);
    auto copy = begin(from);
    copy->begin = cloneOrNull(from.begin);
    copy->end = cloneOrNull(from.end);
    copy->every = cloneOrNull(from.every);
    return copy;
  }
  case ExprKind::List: {
    auto &from = static_cast<const ListExpr &>(expr);
    auto copy = begin(from);
    copy->items = cloneAll(from.items);
    return copy;
  }
  case ExprKind::Tuple: {
    auto &from = static_cast<const TupleExpr &>(expr);
    auto copy = begin(from);
    copy->items = cloneAll(from.items);
    return copy;
  }
  case ExprKind::Comprehension: {
    auto &from = static_cast<const ComprehensionExpr &>(expr);
    auto copy = begin(from);
    for (const ComprehensionExpr::Loop &loop : from.loops) {
      ComprehensionExpr::Loop &last = copy->loops.emplace_back();
      last.range = loop.range;
      last.names = loop.names;
      last.over = clone(*loop.over);
    }
    copy->value = clone(*from.value);
    return copy;
  }
  case ExprKind::Unary: {
    auto &from = static_cast<const UnaryExpr &>(expr);
    auto copy = begin(from);
    copy->op = from.op;
    copy->operand = clone(*from.operand);
    return copy;
  }
  case ExprKind::Binary: {
    auto &from = static_cast<const BinaryExpr &>(expr);
    auto copy = begin(from);
    copy->op = from.op;
    copy->opRange = from.opRange;
    copy->left = clone(*from.left);
    copy->right = clone(*from.right);
    return copy;
  }
  case ExprKind::Selection: {
    auto &from = static_cast<const SelectionExpr &>(expr);
    auto copy = begin(from);
    copy->selection = clone(from.selection);
    return copy;
  }
  }
  return nullptr;
}

namespace {

std::optional<Role> roleOf(const std::string &word) {
  for (int i = 0; i <= static_cast<int>(Role::Update); ++i) {
    if (word == spelling(static_cast<Role>(i))) {
      return static_cast<Role>(i);
    }
  }
  return std::nullopt;
}

// Appends the steps that `expr` writes; false where it is no path.
bool appendSteps(const Expr &expr, std::vector<PathStep> &steps) {
  if (auto *name = dynCast<NameExpr>(&expr)) {
    PathStep &step = steps.emplace_back();
    step.range = expr.range;
    step.name.range = expr.range;
    step.name.text = name->name;
    return true;
  }
  if (auto *index = dynCast<IndexExpr>(&expr)) {
    if (!isa<NameExpr>(index->base) || !appendSteps(*index->base, steps)) {
      return false;
    }
    StepRange range;
    range.range = index->index->range;
    if (auto *span = dynCast<RangeExpr>(index->index)) {
      range.begin = cloneOrNull(span->begin);
      range.end = cloneOrNull(span->end);
      range.every = cloneOrNull(span->every);
    } else {
      range.index = clone(*index->index);
    }
    steps.back().range = expr.range;
    steps.back().index = std::move(range);
    return true;
  }
  if (auto *binary = dynCast<BinaryExpr>(&expr)) {
    return binary->op == BinaryOp::Divide &&
           appendSteps(*binary->left, steps) &&
           appendSteps(*binary->right, steps);
  }
  return false;
}

bool appendPicks(const Expr &expr, std::vector<Pick> &picks) {
  if (auto *tuple = dynCast<TupleExpr>(&expr)) {
    for (const ExprPtr &item : tuple->items) {
      if (!appendPicks(*item, picks)) {
        return false;
      }
    }
    return true;
  }
  Pick pick;
  pick.range = expr.range;
  if (auto *selection = dynCast<SelectionExpr>(&expr)) {
    pick.kind = Pick::Nested;
    pick.nested = std::make_unique<Selection>(clone(selection->selection));
    picks.push_back(std::move(pick));
    return true;
  }
  if (auto *name = dynCast<NameExpr>(&expr)) {
    if (name->name == "all") {
      pick.kind = Pick::All;
      picks.push_back(std::move(pick));
      return true;
    }
    if (auto role = roleOf(name->name)) {
      pick.kind = Pick::OfRole;
      pick.role = *role;
      picks.push_back(std::move(pick));
      return true;
    }
  }
  pick.kind = Pick::OfPath;
  pick.path.range = expr.range;
  if (!appendSteps(expr, pick.path.steps)) {
    return false;
  }
  picks.push_back(std::move(pick));
  return true;
}

} // namespace

std::optional<Selection> asSelection(const Expr &expr) {
  if (auto *written = dynCast<SelectionExpr>(&expr)) {
    return clone(written->selection);
  }
  Selection selection;
  selection.range = expr.range;
  selection.group.range = expr.range;
  if (!appendPicks(expr, selection.group.picks)) {
    return std::nullopt;
  }
  return selection;
}

} // namespace cleave::ast
