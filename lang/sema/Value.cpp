#include "lang/sema/Evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

namespace {

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
