// Compile-time expressions: sizes of dims, parameters of models, plans and
// strategies, conditions, contracts, schedules.
//
// Arithmetic is exact on integers (64 bits; overflow is an error, never a
// wrap). `/` on integers must be exact, `div` rounds down. A number may carry a
// quantity (`4 MiB`, `2 us`): sums and comparisons need the same quantity on
// both sides, products one plain side, and a ratio of two is plain. A plain
// zero goes with any quantity. Bytes stay integers as long as they are whole.
//
// Functions: div, min, max, abs, ceil, floor, round, sqrt, log2, size (of a
// list or range; of a number, as a dim's name is its size, that number),
// pieces(n, k) (the split rule: k ranges of 0 .. n).
//
// Whatever is written, evaluation ends: it counts *work*, for turns of loops
// and for items of lists that are copied, and lists are limited in length and
// depth, with all that they hold.
//
// Nothing here depends on LLVM or MLIR.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/ast/Units.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::sema {

struct Value {
  enum class Kind : uint8_t { Integer, Real, Bool, String, List, Tuple, Range };
  Kind kind = Kind::Integer;
  int64_t integer = 0; // of Integer
  double real = 0;     // of Real
  bool boolean = false;
  ast::Quantity quantity = ast::Quantity::Plain; // of Integer and Real
  std::string string;
  std::vector<Value> items;              // of List and Tuple
  int64_t begin = 0, end = 0, every = 1; // of Range: half open, every >= 1

  static Value ofInteger(int64_t value,
                         ast::Quantity quantity = ast::Quantity::Plain);
  static Value ofReal(double value,
                      ast::Quantity quantity = ast::Quantity::Plain);
  static Value ofBool(bool value);
  static Value ofString(std::string value);
  static Value ofList(std::vector<Value> items);
  static Value ofTuple(std::vector<Value> items);
  static Value ofRange(int64_t begin, int64_t end, int64_t every = 1);

  bool isNumber() const { return kind == Kind::Integer || kind == Kind::Real; }
  bool isInteger() const { return kind == Kind::Integer; }
  // Of a number.
  double number() const {
    return kind == Kind::Integer ? static_cast<double>(integer) : real;
  }
  // The number of elements of a Range, List or Tuple.
  int64_t length() const;
  // Element i of a Range, List or Tuple; i is in range.
  Value at(int64_t i) const;

  // As a user would write it: `12`, `0.5`, `4 MiB`, `[1, 2]`, `0 .. 4`.
  std::string text() const;
  // What it is, for messages: "an integer", "a number of bytes", "a list".
  std::string describe() const;
};

// Whether two values are equal; integers and reals compare as numbers.
bool equal(const Value &a, const Value &b);

// What names mean. Scopes nest: a name is looked for here, then by `resolve`,
// then in the parent.
struct Environment {
  const Environment *parent = nullptr;
  std::map<std::string, Value, std::less<>> values;
  // Names that are not stored; gets the dotted text (`nn.x`, `ctx.inner`) too.
  std::function<std::optional<Value>(std::string_view)> resolve;
  // What a name is that exists and is not known when compiling, for messages:
  // "`f32[embed]`"; empty for others.
  std::function<std::string(std::string_view)> describeLater;
  // Functions beside those above (and before them). Sets `handled` if it knows
  // the function; then no value means that it has reported an error.
  std::function<std::optional<Value>(const ast::CallExpr &, bool &handled)>
      call;
  // Of names that `resolve` knows and of functions that `call` knows, for
  // suggestions.
  std::vector<std::string> resolvable;

  // The work that may still be done in this scope and those inside it, shared
  // by all their expressions; null: each expression has its own.
  int64_t *work = nullptr;

  const Value *find(std::string_view name) const;
  std::optional<Value> lookup(std::string_view name) const;
  // What `lookup` gives, where it is stored; null where it is computed.
  const Value *findStored(std::string_view name) const;
  std::vector<std::string> names() const; // all visible ones
};

// What a turn of a loop counts for.
inline constexpr int64_t workOfTurn = 16;
// And a copied item.
inline constexpr int64_t workOfItem = 4;

// The value, or nothing after an error was reported.
std::optional<Value> evaluate(const ast::Expr &expr,
                              const Environment &environment,
                              DiagnosticEngine &diags);

// As `evaluate`, and an error unless the value is of that kind. `what` is the
// subject of the message: "the size of `batch`".
std::optional<int64_t> evaluateInteger(const ast::Expr &expr,
                                       const Environment &environment,
                                       DiagnosticEngine &diags,
                                       std::string_view what);
std::optional<bool> evaluateBool(const ast::Expr &expr,
                                 const Environment &environment,
                                 DiagnosticEngine &diags,
                                 std::string_view what);
std::optional<double> evaluateNumber(const ast::Expr &expr,
                                     const Environment &environment,
                                     DiagnosticEngine &diags,
                                     std::string_view what);

// `left OP right` of two values, as `evaluate` would; `range` is for messages.
std::optional<Value> apply(ast::BinaryOp op, const Value &left,
                           const Value &right, SourceRange range,
                           DiagnosticEngine &diags);

// One of the functions listed above, of arguments already evaluated; `call` is
// for its name and the ranges of its arguments, which are all positional.
std::optional<Value> applyFunction(const ast::CallExpr &call,
                                   std::vector<Value> args,
                                   DiagnosticEngine &diags);

// Whether `name` is one of the functions listed above.
bool isCompileTimeFunction(std::string_view name);

} // namespace cleave::sema
