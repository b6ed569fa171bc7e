#include "lang/sema/Evaluate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

namespace {

// Lists that a comprehension makes have at most this many items.
constexpr int64_t mostItems = 1 << 20;
// With what the items hold, at any depth.
constexpr int64_t mostHeld = 1 << 21;
constexpr int64_t mostDepth = 300;
// The work of an expression that has no budget from outside.
constexpr int64_t ownWork = (int64_t(1) << 22) * workOfTurn;

constexpr std::string_view functions[] = {"div",  "min",   "max",   "abs",
                                          "ceil", "floor", "round", "sqrt",
                                          "log2", "size",  "pieces"};

class Evaluator {
public:
  Evaluator(const Environment &environment, DiagnosticEngine &diags)
      : environment(environment), diags(diags) {
    for (const Environment *scope = &environment; scope && !work;
         scope = scope->parent) {
      work = scope->work;
    }
    work = work ? work : &own;
  }

  std::optional<Value> visit(const Expr &expr);

private:
  std::optional<Value> visitNumber(const NumberExpr &expr);
  std::optional<Value> visitName(const Expr &expr, const std::string &name);
  std::optional<Value> visitMember(const MemberExpr &expr);
  std::optional<Value> visitCall(const CallExpr &expr);
  std::optional<Value> visitIndex(const IndexExpr &expr);
  std::optional<Value> visitRange(const RangeExpr &expr);
  std::optional<Value> visitComprehension(const ComprehensionExpr &expr);
  std::optional<Value> visitUnary(const UnaryExpr &expr);
  std::optional<Value> visitBinary(const BinaryExpr &expr);
  std::optional<std::vector<Value>> visitAll(const std::vector<ExprPtr> &exprs);
  bool runLoops(const ComprehensionExpr &expr, size_t depth,
                const Environment &scope, std::vector<Value> &items);

  const Environment &environment;
  DiagnosticEngine &diags;
  bool spend(int64_t units, SourceRange range);
  std::optional<Value> collect(std::vector<Value> items, bool isTuple,
                               SourceRange range);

  int64_t own = ownWork;
  int64_t *work = nullptr; // what is left
};

std::optional<Value> Evaluator::visit(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Number:
    return visitNumber(static_cast<const NumberExpr &>(expr));
  case ExprKind::String:
    return Value::ofString(static_cast<const StringExpr &>(expr).value);
  case ExprKind::Bool:
    return Value::ofBool(static_cast<const BoolExpr &>(expr).value);
  case ExprKind::Name:
    return visitName(expr, static_cast<const NameExpr &>(expr).name);
  case ExprKind::Member:
    return visitMember(static_cast<const MemberExpr &>(expr));
  case ExprKind::Call:
    return visitCall(static_cast<const CallExpr &>(expr));
  case ExprKind::Index:
    return visitIndex(static_cast<const IndexExpr &>(expr));
  case ExprKind::Range:
    return visitRange(static_cast<const RangeExpr &>(expr));
  case ExprKind::List: {
    auto items = visitAll(static_cast<const ListExpr &>(expr).items);
    return items ? collect(std::move(*items), false, expr.range) : std::nullopt;
  }
  case ExprKind::Tuple: {
    auto items = visitAll(static_cast<const TupleExpr &>(expr).items);
    return items ? collect(std::move(*items), true, expr.range) : std::nullopt;
  }
  case ExprKind::Comprehension:
    return visitComprehension(static_cast<const ComprehensionExpr &>(expr));
  case ExprKind::Unary:
    return visitUnary(static_cast<const UnaryExpr &>(expr));
  case ExprKind::Binary:
    return visitBinary(static_cast<const BinaryExpr &>(expr));
  case ExprKind::Selection:
    break;
  }
  diags.error(Diag::NotCompileTime, expr.range,
              "a selection is not a value here");
  return std::nullopt;
}

std::optional<Value> Evaluator::visitNumber(const NumberExpr &expr) {
  std::optional<Unit> unit = findUnit(expr.unit);
  assert(unit && "the parser knows all units");
  if (expr.isInteger && unit->scale == 1) {
    return Value::ofInteger(expr.integer, unit->quantity);
  }
  double value =
      (expr.isInteger ? static_cast<double>(expr.integer) : expr.value) *
      unit->scale;
  bool whole = unit->quantity != Quantity::Plain &&
               std::floor(value) == value && std::fabs(value) < 9e15;
  return whole ? Value::ofInteger(static_cast<int64_t>(value), unit->quantity)
               : Value::ofReal(value, unit->quantity);
}

std::optional<Value> Evaluator::visitName(const Expr &expr,
                                          const std::string &name) {
  if (std::optional<Value> value = environment.lookup(name)) {
    return spend(workOfItem * static_cast<int64_t>(value->items.size()),
                 expr.range)
               ? value
               : std::nullopt;
  }
  for (const Environment *scope = &environment; scope; scope = scope->parent) {
    std::string later =
        scope->describeLater ? scope->describeLater(name) : std::string();
    if (!later.empty()) {
      diags.error(Diag::NotCompileTime, expr.range,
                  "`" + name + "` is " + later +
                      ", which is not known when compiling");
      return std::nullopt;
    }
  }
  diags.error(Diag::UnknownName, expr.range, "unknown name `" + name + "`")
      .help(suggestion(name, environment.names()));
  return std::nullopt;
}

std::optional<Value> Evaluator::visitMember(const MemberExpr &expr) {
  std::string dotted = expr.member.text;
  const Expr *base = expr.base.get();
  for (; auto *member = dynCast<MemberExpr>(base); base = member->base.get()) {
    dotted = member->member.text + "." + dotted;
  }
  auto *root = dynCast<NameExpr>(base);
  if (!root) {
    diags.error(Diag::NotCompileTime, expr.range,
                "only a name can have a member here");
    return std::nullopt;
  }
  return visitName(expr, root->name + "." + dotted);
}

std::optional<std::vector<Value>>
Evaluator::visitAll(const std::vector<ExprPtr> &exprs) {
  std::vector<Value> values;
  for (const ExprPtr &expr : exprs) {
    std::optional<Value> value = visit(*expr);
    if (!value) {
      return std::nullopt;
    }
    values.push_back(std::move(*value));
  }
  return values;
}

std::optional<Value> Evaluator::visitCall(const CallExpr &expr) {
  for (const Environment *scope = &environment; scope; scope = scope->parent) {
    if (scope->call) {
      bool handled = false;
      std::optional<Value> value = scope->call(expr, handled);
      if (handled) {
        return value;
      }
    }
  }
  std::string name = expr.callee.text();
  if (!isCompileTimeFunction(name)) {
    std::vector<std::string> known(std::begin(functions), std::end(functions));
    for (const Environment *scope = &environment; scope;
         scope = scope->parent) {
      known.insert(known.end(), scope->resolvable.begin(),
                   scope->resolvable.end());
    }
    diags
        .error(Diag::UnknownFunction, expr.callee.range,
               "unknown function `" + name + "` in a compile-time expression")
        .help(suggestion(name, known));
    return std::nullopt;
  }
  // The size of a named list, without a copy of the list.
  if (name == "size" && expr.args.size() == 1 && !expr.args[0].name) {
    auto *list = dynCast<NameExpr>(expr.args[0].value);
    const Value *stored = list ? environment.findStored(list->name) : nullptr;
    if (stored && !stored->items.empty()) {
      return Value::ofInteger(stored->length());
    }
  }
  std::vector<Value> args;
  for (const Arg &arg : expr.args) {
    if (arg.name) {
      diags.error(Diag::BadArguments, arg.range,
                  "`" + name + "` takes no named arguments");
      return std::nullopt;
    }
    std::optional<Value> value = visit(*arg.value);
    if (!value) {
      return std::nullopt;
    }
    args.push_back(std::move(*value));
  }
  return applyFunction(expr, std::move(args), diags);
}

std::optional<Value> Evaluator::visitIndex(const IndexExpr &expr) {
  // The element of a named list, without a copy of the list.
  const Value *base = nullptr;
  if (auto *name = dynCast<NameExpr>(expr.base)) {
    base = environment.findStored(name->name);
  }
  std::optional<Value> computed;
  if (!base) {
    computed = visit(*expr.base);
    if (!computed) {
      return std::nullopt;
    }
    base = &*computed;
  }
  if (base->kind != Value::Kind::List && base->kind != Value::Kind::Tuple &&
      base->kind != Value::Kind::Range) {
    diags.error(Diag::BadOperands, expr.base->range,
                base->describe() + " has no elements");
    return std::nullopt;
  }
  std::optional<int64_t> i =
      evaluateInteger(*expr.index, environment, diags, "an index");
  if (!i) {
    return std::nullopt;
  }
  if (*i < 0 || *i >= base->length()) {
    diags.error(Diag::IndexOutOfRange, expr.index->range,
                "index " + std::to_string(*i) + " of a list of " +
                    std::to_string(base->length()) + " items");
    return std::nullopt;
  }
  return base->at(*i);
}

std::optional<Value> Evaluator::visitRange(const RangeExpr &expr) {
  if (!expr.end) {
    diags.error(Diag::NotCompileTime, expr.range,
                "a range needs an end here: `0 .. n`");
    return std::nullopt;
  }
  std::optional<int64_t> begin = 0, every = 1;
  if (expr.begin) {
    begin = evaluateInteger(*expr.begin, environment, diags,
                            "the begin of a range");
  }
  std::optional<int64_t> end =
      evaluateInteger(*expr.end, environment, diags, "the end of a range");
  if (expr.every) {
    every = evaluateInteger(*expr.every, environment, diags,
                            "the stride of a range");
  }
  if (!begin || !end || !every) {
    return std::nullopt;
  }
  if (*every < 1) {
    diags.error(Diag::BadOperands, expr.every->range,
                "the stride of a range must be at least 1");
    return std::nullopt;
  }
  return Value::ofRange(*begin, *end, *every);
}

bool Evaluator::runLoops(const ComprehensionExpr &expr, size_t depth,
                         const Environment &scope, std::vector<Value> &items) {
  if (depth == expr.loops.size()) {
    std::optional<Value> value = evaluate(*expr.value, scope, diags);
    if (!value) {
      return false;
    }
    if (static_cast<int64_t>(items.size()) >= mostItems) {
      diags.error(Diag::TooLarge, expr.range,
                  "a list of more than " + std::to_string(mostItems) +
                      " items is too long");
      return false;
    }
    items.push_back(std::move(*value));
    return true;
  }
  const ComprehensionExpr::Loop &loop = expr.loops[depth];
  std::optional<Value> over = evaluate(*loop.over, scope, diags);
  if (!over) {
    return false;
  }
  if (over->kind != Value::Kind::List && over->kind != Value::Kind::Range) {
    diags.error(Diag::BadOperands, loop.over->range,
                "a loop runs over a list or a range, not " + over->describe());
    return false;
  }
  for (int64_t i = 0, n = over->length(); i < n; ++i) {
    if (!spend(workOfTurn, expr.range)) {
      return false;
    }
    Environment inner;
    inner.parent = &scope;
    inner.work = work;
    Value item = over->at(i);
    if (loop.names.size() == 1) {
      inner.values[loop.names[0].text] = std::move(item);
    } else if (item.kind == Value::Kind::Tuple &&
               item.items.size() == loop.names.size()) {
      for (size_t j = 0; j < loop.names.size(); ++j) {
        inner.values[loop.names[j].text] = item.items[j];
      }
    } else {
      diags.error(Diag::BadOperands, loop.range,
                  "a loop of " + std::to_string(loop.names.size()) +
                      " names needs tuples of as many");
      return false;
    }
    if (!runLoops(expr, depth + 1, inner, items)) {
      return false;
    }
  }
  return true;
}

std::optional<Value>
Evaluator::visitComprehension(const ComprehensionExpr &expr) {
  std::vector<Value> items;
  if (!runLoops(expr, 0, environment, items)) {
    return std::nullopt;
  }
  return collect(std::move(items), false, expr.range);
}

bool Evaluator::spend(int64_t units, SourceRange range) {
  *work -= units;
  if (*work < 0) {
    diags.error(Diag::TooLarge, range, "the loops run too long");
    return false;
  }
  return true;
}

// Adds to `held` all that the value holds; false where it is too much.
static bool weigh(const Value &value, int64_t depth, int64_t &held) {
  if (depth > mostDepth || ++held > mostHeld) {
    return false;
  }
  return std::all_of(
      value.items.begin(), value.items.end(),
      [&](const Value &item) { return weigh(item, depth + 1, held); });
}

std::optional<Value> Evaluator::collect(std::vector<Value> items, bool isTuple,
                                        SourceRange range) {
  Value value = isTuple ? Value::ofTuple(std::move(items))
                        : Value::ofList(std::move(items));
  int64_t held = 0;
  if (!weigh(value, 0, held)) {
    diags.error(Diag::TooLarge, range,
                "a list that holds more than " + std::to_string(mostHeld) +
                    " values, or is nested more than " +
                    std::to_string(mostDepth) + " deep, is too large");
    return std::nullopt;
  }
  return spend(workOfItem * held, range) ? std::optional(std::move(value))
                                         : std::nullopt;
}

std::optional<Value> Evaluator::visitUnary(const UnaryExpr &expr) {
  std::optional<Value> x = visit(*expr.operand);
  if (!x) {
    return std::nullopt;
  }
  if (expr.op == UnaryOp::Not) {
    if (x->kind != Value::Kind::Bool) {
      diags.error(Diag::BadOperands, expr.operand->range,
                  "`not` takes true or false, not " + x->describe());
      return std::nullopt;
    }
    return Value::ofBool(!x->boolean);
  }
  if (!x->isNumber()) {
    diags.error(Diag::BadOperands, expr.operand->range,
                "`-` takes a number, not " + x->describe());
    return std::nullopt;
  }
  if (x->isInteger()) {
    return apply(BinaryOp::Subtract, Value::ofInteger(0, x->quantity), *x,
                 expr.range, diags);
  }
  return Value::ofReal(-x->real, x->quantity);
}

std::optional<Value> Evaluator::visitBinary(const BinaryExpr &expr) {
  std::optional<Value> left = visit(*expr.left);
  if (!left) {
    return std::nullopt;
  }
  if (expr.op == BinaryOp::And || expr.op == BinaryOp::Or) {
    if (left->kind != Value::Kind::Bool) {
      diags.error(Diag::BadOperands, expr.left->range,
                  std::string("`") + spelling(expr.op) +
                      "` takes true or false, not " + left->describe());
      return std::nullopt;
    }
    // The right side may be meaningless where the left one decides.
    if (left->boolean == (expr.op == BinaryOp::Or)) {
      return left;
    }
  }
  std::optional<Value> right = visit(*expr.right);
  if (!right) {
    return std::nullopt;
  }
  std::optional<Value> result =
      apply(expr.op, *left, *right, expr.range, diags);
  // Two lists make a longer one.
  return result && result->kind == Value::Kind::List
             ? collect(std::move(result->items), false, expr.range)
             : result;
}

} // namespace

//===----------------------------------------------------------------------===//
// Environments and entry points
//===----------------------------------------------------------------------===//

const Value *Environment::find(std::string_view name) const {
  for (const Environment *scope = this; scope; scope = scope->parent) {
    if (auto it = scope->values.find(name); it != scope->values.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

const Value *Environment::findStored(std::string_view name) const {
  for (const Environment *scope = this; scope; scope = scope->parent) {
    if (auto it = scope->values.find(name); it != scope->values.end()) {
      return &it->second;
    }
    if (scope->resolve && scope->resolve(name)) {
      return nullptr;
    }
  }
  return nullptr;
}

std::optional<Value> Environment::lookup(std::string_view name) const {
  for (const Environment *scope = this; scope; scope = scope->parent) {
    if (auto it = scope->values.find(name); it != scope->values.end()) {
      return it->second;
    }
    if (scope->resolve) {
      if (std::optional<Value> value = scope->resolve(name)) {
        return value;
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> Environment::names() const {
  std::vector<std::string> result;
  for (const Environment *scope = this; scope; scope = scope->parent) {
    for (const auto &[name, value] : scope->values) {
      result.push_back(name);
    }
    result.insert(result.end(), scope->resolvable.begin(),
                  scope->resolvable.end());
  }
  return result;
}

bool sema::isCompileTimeFunction(std::string_view name) {
  return std::find(std::begin(functions), std::end(functions), name) !=
         std::end(functions);
}

std::optional<Value> sema::evaluate(const Expr &expr,
                                    const Environment &environment,
                                    DiagnosticEngine &diags) {
  return Evaluator(environment, diags).visit(expr);
}

static std::nullopt_t wrongKind(const Expr &expr, const Value &value,
                                std::string_view what, const char *wanted,
                                DiagnosticEngine &diags) {
  diags.error(Diag::WrongKind, expr.range,
              std::string(what) + " must be " + wanted + ", not " +
                  value.describe());
  return std::nullopt;
}

std::optional<int64_t> sema::evaluateInteger(const Expr &expr,
                                             const Environment &environment,
                                             DiagnosticEngine &diags,
                                             std::string_view what) {
  std::optional<Value> value = evaluate(expr, environment, diags);
  if (!value) {
    return std::nullopt;
  }
  if (!value->isInteger()) {
    return wrongKind(expr, *value, what, "an integer", diags);
  }
  return value->integer;
}

std::optional<bool> sema::evaluateBool(const Expr &expr,
                                       const Environment &environment,
                                       DiagnosticEngine &diags,
                                       std::string_view what) {
  std::optional<Value> value = evaluate(expr, environment, diags);
  if (!value) {
    return std::nullopt;
  }
  if (value->kind != Value::Kind::Bool) {
    return wrongKind(expr, *value, what, "true or false", diags);
  }
  return value->boolean;
}

std::optional<double> sema::evaluateNumber(const Expr &expr,
                                           const Environment &environment,
                                           DiagnosticEngine &diags,
                                           std::string_view what) {
  std::optional<Value> value = evaluate(expr, environment, diags);
  if (!value) {
    return std::nullopt;
  }
  if (!value->isNumber()) {
    return wrongKind(expr, *value, what, "a number", diags);
  }
  return value->number();
}
