#include "lang/sema/Evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

namespace {

// Lists that a comprehension or `pieces` makes have at most this many items.
constexpr int64_t mostItems = 1 << 20;

constexpr std::string_view functions[] = {"div",  "min",   "max",   "abs",
                                          "ceil", "floor", "round", "sqrt",
                                          "log2", "size",  "pieces"};

const char *describe(Quantity quantity) {
  switch (quantity) {
  case Quantity::Plain:
    return "a number";
  case Quantity::Bytes:
    return "a number of bytes";
  case Quantity::Seconds:
    return "a time";
  case Quantity::BytesPerSecond:
    return "a rate in bytes per second";
  case Quantity::Flops:
    return "a number of operations";
  case Quantity::FlopsPerSecond:
    return "a rate of operations";
  case Quantity::Steps:
    return "a number of steps";
  }
  return "a number";
}

const char *baseUnit(Quantity quantity) {
  switch (quantity) {
  case Quantity::Plain:
    return "";
  case Quantity::Bytes:
    return " B";
  case Quantity::Seconds:
    return " s";
  case Quantity::BytesPerSecond:
    return " B/s";
  case Quantity::Flops:
    return " FLOP";
  case Quantity::FlopsPerSecond:
    return " FLOP/s";
  case Quantity::Steps:
    return " steps";
  }
  return "";
}

std::string realText(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.6g", value);
  return buffer;
}

class Evaluator {
public:
  Evaluator(const Environment &environment, DiagnosticEngine &diags)
      : environment(environment), diags(diags) {}

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
    return items ? std::optional(Value::ofList(std::move(*items)))
                 : std::nullopt;
  }
  case ExprKind::Tuple: {
    auto items = visitAll(static_cast<const TupleExpr &>(expr).items);
    return items ? std::optional(Value::ofTuple(std::move(*items)))
                 : std::nullopt;
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
  if (!unit) {
    diags
        .error(Diag::UnknownUnit, expr.unitRange,
               "unknown unit `" + expr.unit + "`")
        .help(suggestion(expr.unit, allUnits()));
    return std::nullopt;
  }
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
    return value;
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
  auto arity = [&](size_t least, size_t most) {
    if (args.size() >= least && args.size() <= most) {
      return true;
    }
    diags.error(Diag::BadArguments, expr.range,
                "`" + name + "` takes " +
                    (most > 2     ? "at least one argument"
                     : least == 1 ? "one argument"
                                  : "two arguments") +
                    ", not " + std::to_string(args.size()));
    return false;
  };
  auto numbers = [&](bool integers) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (integers ? !args[i].isInteger() : !args[i].isNumber()) {
        diags.error(Diag::BadOperands, expr.args[i].range,
                    "`" + name + "` takes " +
                        (integers ? "integers" : "numbers") + ", not " +
                        args[i].describe());
        return false;
      }
    }
    return true;
  };
  if (name == "size") {
    if (!arity(1, 1)) {
      return std::nullopt;
    }
    if (args[0].isInteger()) {
      return args[0];
    }
    if (args[0].kind == Value::Kind::List ||
        args[0].kind == Value::Kind::Tuple ||
        args[0].kind == Value::Kind::Range) {
      return Value::ofInteger(args[0].length());
    }
    diags.error(Diag::BadOperands, expr.args[0].range,
                "`size` takes a dim, an axis, a list or a range, not " +
                    args[0].describe());
    return std::nullopt;
  }
  if (name == "div" || name == "pieces") {
    if (!arity(2, 2) || !numbers(true)) {
      return std::nullopt;
    }
    int64_t n = args[0].integer, k = args[1].integer;
    if (k == 0 || (name == "pieces" && (k < 0 || n < 0))) {
      diags.error(Diag::DivisionByZero, expr.args[1].range,
                  name == "div" ? "division by zero"
                                : "`pieces` takes a size of at least 0 and a "
                                  "number of pieces of at least 1");
      return std::nullopt;
    }
    if (name == "div") {
      if (k == -1) {
        return apply(BinaryOp::Subtract, Value::ofInteger(0), args[0],
                     expr.range, diags);
      }
      int64_t quotient = n / k - ((n % k != 0) && ((n < 0) != (k < 0)));
      return Value::ofInteger(quotient);
    }
    if (k > mostItems) {
      diags.error(Diag::TooLarge, expr.range,
                  "a list of " + std::to_string(k) + " items is too long");
      return std::nullopt;
    }
    std::vector<Value> pieces;
    auto cut = [&](int64_t i) {
      return static_cast<int64_t>((static_cast<__int128>(i) * n + k - 1) / k);
    };
    for (int64_t i = 0; i < k; ++i) {
      pieces.push_back(Value::ofRange(cut(i), cut(i + 1)));
    }
    return Value::ofList(std::move(pieces));
  }
  if (name == "min" || name == "max") {
    if (!arity(1, 64)) {
      return std::nullopt;
    }
    if (args.size() == 1 && args[0].kind == Value::Kind::List &&
        !args[0].items.empty()) {
      args = std::vector<Value>(args[0].items);
    }
    Value best = args[0];
    for (const Value &arg : args) {
      std::optional<Value> less =
          apply(name == "min" ? BinaryOp::Less : BinaryOp::Greater, arg, best,
                expr.range, diags);
      if (!less) {
        return std::nullopt;
      }
      if (less->boolean) {
        best = arg;
      }
    }
    return best;
  }
  // abs, ceil, floor, round, sqrt, log2
  if (!arity(1, 1) || !numbers(false)) {
    return std::nullopt;
  }
  const Value &x = args[0];
  if (name == "abs") {
    Value result = x;
    if (x.isInteger() && x.integer < 0) {
      return apply(BinaryOp::Subtract, Value::ofInteger(0, x.quantity), x,
                   expr.range, diags);
    }
    result.real = std::fabs(x.real);
    return result;
  }
  if (name == "sqrt" || name == "log2") {
    if (x.number() < 0 || (name == "log2" && x.number() == 0)) {
      diags.error(Diag::BadOperands, expr.args[0].range,
                  "`" + name + "` of " + x.text());
      return std::nullopt;
    }
    return Value::ofReal(name == "sqrt" ? std::sqrt(x.number())
                                        : std::log2(x.number()));
  }
  if (x.isInteger()) {
    return x;
  }
  double rounded = name == "ceil"    ? std::ceil(x.real)
                   : name == "floor" ? std::floor(x.real)
                                     : std::round(x.real);
  if (!(std::fabs(rounded) < 9e15)) {
    diags.error(Diag::TooLarge, expr.range,
                "the number " + x.text() + " is too large for an integer");
    return std::nullopt;
  }
  return Value::ofInteger(static_cast<int64_t>(rounded), x.quantity);
}

std::optional<Value> Evaluator::visitIndex(const IndexExpr &expr) {
  std::optional<Value> base = visit(*expr.base);
  if (!base) {
    return std::nullopt;
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
    Environment inner;
    inner.parent = &scope;
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
  return Value::ofList(std::move(items));
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
  return apply(expr.op, *left, *right, expr.range, diags);
}

//===----------------------------------------------------------------------===//
// Operators on values
//===----------------------------------------------------------------------===//

std::optional<Value> overflow(SourceRange range, DiagnosticEngine &diags) {
  diags.error(Diag::TooLarge, range, "the result does not fit in 64 bits");
  return std::nullopt;
}

// The common quantity of a sum or a comparison; nothing if there is none.
std::optional<Quantity> commonQuantity(const Value &a, const Value &b) {
  if (a.quantity == b.quantity || b.number() == 0) {
    return a.quantity;
  }
  if (a.number() == 0) {
    return b.quantity;
  }
  // A count of steps is compared with plain numbers: `step == 200`.
  if ((a.quantity == Quantity::Steps && b.quantity == Quantity::Plain) ||
      (b.quantity == Quantity::Steps && a.quantity == Quantity::Plain)) {
    return Quantity::Steps;
  }
  return std::nullopt;
}

std::optional<Quantity> productQuantity(BinaryOp op, const Value &a,
                                        const Value &b) {
  if (op == BinaryOp::Multiply) {
    if (a.quantity == Quantity::Plain || b.quantity == Quantity::Plain) {
      return a.quantity == Quantity::Plain ? b.quantity : a.quantity;
    }
    bool seconds =
        a.quantity == Quantity::Seconds || b.quantity == Quantity::Seconds;
    Quantity other = a.quantity == Quantity::Seconds ? b.quantity : a.quantity;
    if (seconds && other == Quantity::BytesPerSecond) {
      return Quantity::Bytes;
    }
    if (seconds && other == Quantity::FlopsPerSecond) {
      return Quantity::Flops;
    }
    return std::nullopt;
  }
  if (a.quantity == b.quantity) {
    return op == BinaryOp::Remainder ? a.quantity : Quantity::Plain;
  }
  if (b.quantity == Quantity::Plain) {
    return a.quantity;
  }
  if (op == BinaryOp::Divide) {
    if (a.quantity == Quantity::Bytes) {
      if (b.quantity == Quantity::Seconds) {
        return Quantity::BytesPerSecond;
      }
      if (b.quantity == Quantity::BytesPerSecond) {
        return Quantity::Seconds;
      }
    }
    if (a.quantity == Quantity::Flops) {
      if (b.quantity == Quantity::Seconds) {
        return Quantity::FlopsPerSecond;
      }
      if (b.quantity == Quantity::FlopsPerSecond) {
        return Quantity::Seconds;
      }
    }
  }
  return std::nullopt;
}

std::optional<Value> integerPower(int64_t base, int64_t exponent,
                                  SourceRange range, DiagnosticEngine &diags) {
  if (exponent < 0) {
    return Value::ofReal(
        std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  // 1, 0 and -1 to any power stay small; others overflow within 63 steps.
  if (base >= -1 && base <= 1) {
    return Value::ofInteger(exponent == 0 ? 1
                            : base == -1  ? (exponent % 2 ? -1 : 1)
                                          : base);
  }
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return overflow(range, diags);
    }
  }
  return Value::ofInteger(result);
}

std::optional<Value> arithmetic(BinaryOp op, const Value &a, const Value &b,
                                Quantity quantity, SourceRange range,
                                DiagnosticEngine &diags) {
  bool integers = a.isInteger() && b.isInteger();
  if ((op == BinaryOp::Divide || op == BinaryOp::Remainder) &&
      b.number() == 0) {
    diags.error(Diag::DivisionByZero, range, "division by zero");
    return std::nullopt;
  }
  int64_t result = 0;
  switch (op) {
  case BinaryOp::Add:
    if (!integers) {
      return Value::ofReal(a.number() + b.number(), quantity);
    }
    if (__builtin_add_overflow(a.integer, b.integer, &result)) {
      return overflow(range, diags);
    }
    return Value::ofInteger(result, quantity);
  case BinaryOp::Subtract:
    if (!integers) {
      return Value::ofReal(a.number() - b.number(), quantity);
    }
    if (__builtin_sub_overflow(a.integer, b.integer, &result)) {
      return overflow(range, diags);
    }
    return Value::ofInteger(result, quantity);
  case BinaryOp::Multiply:
    if (!integers) {
      return Value::ofReal(a.number() * b.number(), quantity);
    }
    if (__builtin_mul_overflow(a.integer, b.integer, &result)) {
      return overflow(range, diags);
    }
    return Value::ofInteger(result, quantity);
  case BinaryOp::Divide:
    if (!integers || a.quantity != Quantity::Plain) {
      return Value::ofReal(a.number() / b.number(), quantity);
    }
    if (b.integer == -1) {
      return arithmetic(BinaryOp::Subtract, Value::ofInteger(0), a, quantity,
                        range, diags);
    }
    if (a.integer % b.integer != 0) {
      diags
          .error(Diag::InexactDivision, range,
                 std::to_string(a.integer) + " / " + std::to_string(b.integer) +
                     " is not a whole number")
          .label(realText(a.number() / b.number()))
          .help("`/` on sizes must be exact; `div(a, b)` rounds down");
      return std::nullopt;
    }
    return Value::ofInteger(a.integer / b.integer, quantity);
  case BinaryOp::Remainder:
    if (!integers) {
      double remainder = std::fmod(a.number(), b.number());
      if (remainder != 0 && (remainder < 0) != (b.number() < 0)) {
        remainder += b.number();
      }
      return Value::ofReal(remainder, quantity);
    }
    if (b.integer == -1) {
      return Value::ofInteger(0, quantity);
    }
    result = a.integer % b.integer;
    if (result != 0 && (result < 0) != (b.integer < 0)) {
      result += b.integer;
    }
    return Value::ofInteger(result, quantity);
  default:
    return std::nullopt;
  }
}

std::optional<Value> mismatch(BinaryOp op, const Value &a, const Value &b,
                              SourceRange range, DiagnosticEngine &diags) {
  diags.error(Diag::BadOperands, range,
              std::string("`") + spelling(op) + "` between " + a.describe() +
                  " and " + b.describe());
  return std::nullopt;
}

} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value Value::ofInteger(int64_t value, Quantity quantity) {
  Value result;
  result.kind = Kind::Integer;
  result.integer = value;
  result.quantity = quantity;
  return result;
}

Value Value::ofReal(double value, Quantity quantity) {
  Value result;
  result.kind = Kind::Real;
  result.real = value;
  result.quantity = quantity;
  return result;
}

Value Value::ofBool(bool value) {
  Value result;
  result.kind = Kind::Bool;
  result.boolean = value;
  return result;
}

Value Value::ofString(std::string value) {
  Value result;
  result.kind = Kind::String;
  result.string = std::move(value);
  return result;
}

Value Value::ofList(std::vector<Value> items) {
  Value result;
  result.kind = Kind::List;
  result.items = std::move(items);
  return result;
}

Value Value::ofTuple(std::vector<Value> items) {
  Value result = ofList(std::move(items));
  result.kind = Kind::Tuple;
  return result;
}

Value Value::ofRange(int64_t begin, int64_t end, int64_t every) {
  Value result;
  result.kind = Kind::Range;
  result.begin = begin;
  result.end = end;
  result.every = every;
  return result;
}

int64_t Value::length() const {
  if (kind != Kind::Range) {
    return static_cast<int64_t>(items.size());
  }
  if (end <= begin) {
    return 0;
  }
  __int128 span = static_cast<__int128>(end) - begin;
  return static_cast<int64_t>((span + every - 1) / every);
}

Value Value::at(int64_t i) const {
  return kind == Kind::Range ? ofInteger(begin + i * every) : items[i];
}

std::string Value::text() const {
  switch (kind) {
  case Kind::Integer:
    // The largest binary unit that divides, as people write sizes.
    if (quantity == Quantity::Bytes && integer != 0) {
      static constexpr const char *units[] = {" B",   " KiB", " MiB",
                                              " GiB", " TiB", " PiB"};
      int64_t value = integer;
      int unit = 0;
      while (unit < 5 && value % 1024 == 0) {
        value /= 1024;
        ++unit;
      }
      return std::to_string(value) + units[unit];
    }
    return std::to_string(integer) + baseUnit(quantity);
  case Kind::Real:
    return realText(real) + baseUnit(quantity);
  case Kind::Bool:
    return boolean ? "true" : "false";
  case Kind::String:
    return "\"" + string + "\"";
  case Kind::Range:
    return std::to_string(begin) + " .. " + std::to_string(end) +
           (every == 1 ? "" : " every " + std::to_string(every));
  case Kind::List:
  case Kind::Tuple:
    break;
  }
  std::string result = kind == Kind::List ? "[" : "(";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == 16 && items.size() > 20) {
      result += ", … " + std::to_string(items.size() - i) + " more";
      break;
    }
    result += (i ? ", " : "") + items[i].text();
  }
  return result + (kind == Kind::List ? "]" : ")");
}

std::string Value::describe() const {
  switch (kind) {
  case Kind::Integer:
    return quantity == Quantity::Plain ? "the integer " + text()
                                       : ::describe(quantity);
  case Kind::Real:
    return quantity == Quantity::Plain ? "the number " + text()
                                       : ::describe(quantity);
  case Kind::Bool:
    return "a truth value";
  case Kind::String:
    return "a string";
  case Kind::List:
    return "a list";
  case Kind::Tuple:
    return "a tuple";
  case Kind::Range:
    return "a range";
  }
  return "a value";
}

bool sema::equal(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber()) {
    return a.isInteger() && b.isInteger() ? a.integer == b.integer
                                          : a.number() == b.number();
  }
  if (a.kind != b.kind) {
    return false;
  }
  switch (a.kind) {
  case Value::Kind::Bool:
    return a.boolean == b.boolean;
  case Value::Kind::String:
    return a.string == b.string;
  case Value::Kind::Range:
    return a.begin == b.begin && a.end == b.end && a.every == b.every;
  default:
    return a.items.size() == b.items.size() &&
           std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
  }
}

std::optional<Value> sema::apply(BinaryOp op, const Value &left,
                                 const Value &right, SourceRange range,
                                 DiagnosticEngine &diags) {
  if (op == BinaryOp::And || op == BinaryOp::Or) {
    if (left.kind != Value::Kind::Bool || right.kind != Value::Kind::Bool) {
      return mismatch(op, left, right, range, diags);
    }
    return Value::ofBool(op == BinaryOp::And ? left.boolean && right.boolean
                                             : left.boolean || right.boolean);
  }
  bool numbers = left.isNumber() && right.isNumber();
  if (isComparison(op)) {
    bool equality = op == BinaryOp::Equal || op == BinaryOp::NotEqual;
    if (numbers ? !commonQuantity(left, right)
                : !equality || left.kind != right.kind) {
      return mismatch(op, left, right, range, diags);
    }
    if (equality) {
      return Value::ofBool(equal(left, right) == (op == BinaryOp::Equal));
    }
    // Integers compare as integers, whatever their size.
    bool less, greater;
    if (left.isInteger() && right.isInteger()) {
      less = left.integer < right.integer;
      greater = left.integer > right.integer;
    } else {
      less = left.number() < right.number();
      greater = left.number() > right.number();
    }
    return Value::ofBool(op == BinaryOp::Less        ? less
                         : op == BinaryOp::LessEqual ? !greater
                         : op == BinaryOp::Greater   ? greater
                                                     : !less);
  }
  if (op == BinaryOp::Add && left.kind == Value::Kind::List &&
      right.kind == Value::Kind::List) {
    Value result = left;
    result.items.insert(result.items.end(), right.items.begin(),
                        right.items.end());
    return result;
  }
  if (!numbers) {
    return mismatch(op, left, right, range, diags);
  }
  if (op == BinaryOp::Power) {
    if (left.quantity != Quantity::Plain || right.quantity != Quantity::Plain) {
      return mismatch(op, left, right, range, diags);
    }
    if (left.isInteger() && right.isInteger()) {
      if (left.integer == 0 && right.integer < 0) {
        diags.error(Diag::DivisionByZero, range, "division by zero");
        return std::nullopt;
      }
      return integerPower(left.integer, right.integer, range, diags);
    }
    return Value::ofReal(std::pow(left.number(), right.number()));
  }
  std::optional<Quantity> quantity =
      op == BinaryOp::Add || op == BinaryOp::Subtract
          ? commonQuantity(left, right)
          : productQuantity(op, left, right);
  if (!quantity) {
    return mismatch(op, left, right, range, diags);
  }
  return arithmetic(op, left, right, *quantity, range, diags);
}

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
