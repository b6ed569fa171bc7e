#include "lang/sema/Evaluate.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

// Lists that `pieces` makes have at most this many items.
static constexpr int64_t mostItems = 1 << 20;

std::optional<Value> sema::applyFunction(const CallExpr &expr,
                                         std::vector<Value> args,
                                         DiagnosticEngine &diags) {
  std::string name = expr.callee.text();
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
