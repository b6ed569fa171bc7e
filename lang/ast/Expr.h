// Names, expressions and selections of the syntax tree (Ast.h).
#pragma once

#include "lang/diagnostics/Diagnostics.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::ast {

struct Node {
  SourceRange range;
};

// Pointers to nodes of a hierarchy: null or of type T, else null.
template <typename T, typename Base> const T *dynCast(const Base *node) {
  return node && T::classof(node) ? static_cast<const T *>(node) : nullptr;
}
template <typename T, typename Base> T *dynCast(Base *node) {
  return node && T::classof(node) ? static_cast<T *>(node) : nullptr;
}
template <typename T, typename Base>
const T *dynCast(const std::unique_ptr<Base> &node) {
  return dynCast<T>(static_cast<const Base *>(node.get()));
}
template <typename T, typename Base> bool isa(const Base *node) {
  return node && T::classof(node);
}
template <typename T, typename Base>
bool isa(const std::unique_ptr<Base> &node) {
  return node && T::classof(node.get());
}

struct Name : Node {
  std::string text;
};

// A dotted name, `nn.norm` or `ctx.inner`; at least one part.
struct DottedName : Node {
  std::vector<Name> parts;
  std::string text() const;
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// --- Selections -------------------------------------------------------------
//
//   sel    = group {clause}             all except moe/experts where bytes > 1
//   MiB clause = in group | except group | where expr
// Each clause filters everything to its left.

struct Selection;
using SelectionPtr = std::unique_ptr<Selection>;

// What stands between the brackets of a path step or of `place`: half open.
//   [3]  [last]         single: `index` alone (`last` is NameExpr "last")
//   [3 .. 7 every 2]    begin, end, every; each may be absent
struct StepRange : Node {
  ExprPtr index;
  ExprPtr begin, end, every;
};

// One step of a path: a region, function, loop dim or value.
struct PathStep : Node {
  enum Kind { Named, Star, DoubleStar } kind = Named;
  Name name; // of Named
  std::optional<StepRange> index;
  bool optional = false; // `?`: may match nothing
};

struct Path : Node {
  bool anchored = false; // begins with `/`
  std::vector<PathStep> steps;
};

enum class Role {
  Params,
  Weights,
  Gradients,
  Optimizer,
  Activations,
  Inputs,
  Caches,
  Forward,
  Backward,
  Update
};
const char *spelling(Role role);

// One of a group. A role is a role only as a whole pick: `params/x` is a path.
struct Pick : Node {
  enum Kind { All, OfRole, OfPath, Nested } kind = All;
  Role role = Role::Params; // of OfRole
  Path path;                // of OfPath
  SelectionPtr nested;      // of Nested: "(" sel ")"
};

struct Group : Node {
  std::vector<Pick> picks;
};

struct Clause : Node {
  enum Kind { In, Except, Where } kind = In;
  Group group;   // of In and Except
  ExprPtr where; // of Where
};

struct Selection : Node {
  Group group;
  std::vector<Clause> clauses;
};

// --- Expressions ------------------------------------------------------------

enum class ExprKind {
  Number,
  String,
  Bool,
  Name,
  Member,
  Call,
  Index,
  Range,
  List,
  Tuple,
  Comprehension,
  Unary,
  Binary,
  Selection
};

struct Expr : Node {
  const ExprKind kind;
  explicit Expr(ExprKind kind) : kind(kind) {}
  Expr(const Expr &) = delete;
  virtual ~Expr();
  uint32_t height = 1; // operations from here down to the deepest leaf
};

// `32`, `9_765_625`, `0.02`, `1e-8`, `80 GiB`, `450 GB/s`, `2 us`, `1.5%`.
// `value` is the number as written, without the unit: see lang/ast/Units.h.
struct NumberExpr : Expr {
  double value = 0;
  bool isInteger = false; // neither point nor exponent was written
  int64_t integer = 0;    // where isInteger
  std::string unit;       // "", "GiB", "GB/s", "us", "%", "steps"
  SourceRange unitRange;
  NumberExpr() : Expr(ExprKind::Number) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Number; }
};

struct StringExpr : Expr {
  std::string value; // escapes resolved
  StringExpr() : Expr(ExprKind::String) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::String; }
};

struct BoolExpr : Expr {
  bool value = false;
  BoolExpr() : Expr(ExprKind::Bool) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Bool; }
};

struct NameExpr : Expr {
  std::string name;
  NameExpr() : Expr(ExprKind::Name) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Name; }
};

// `p.q`, `nn.norm`: which it is (component or module) is for the resolver.
struct MemberExpr : Expr {
  ExprPtr base;
  Name member;
  MemberExpr() : Expr(ExprKind::Member) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Member; }
};

// An argument; `name` is empty (text "") if positional. Named arguments are
// either parameters (`top: 8`, `over: embed`) or renamed dims (`ff: shared`).
struct Arg : Node {
  std::optional<Name> name;
  ExprPtr value;
  std::optional<DottedName> axis; // `all_reduce on tensor`: in conditions alone
};

// `nn.norm(x, embed: width) as norm1`.
struct CallExpr : Expr {
  DottedName callee;
  std::vector<Arg> args;
  bool hasParens = true;  // false: a bare name where the grammar says `call`
  std::optional<Name> as; // `as NAME`: the region the call makes
  SourceRange argsRange;  // with the parentheses; where hasParens
  CallExpr() : Expr(ExprKind::Call) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Call; }
};

// `rounds[0]`, `f[i - warm]`, `layer[3 ..]` (index is then a RangeExpr).
struct IndexExpr : Expr {
  ExprPtr base;
  ExprPtr index;
  IndexExpr() : Expr(ExprKind::Index) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Index; }
};

// `a .. b every c`, half open; each part may be absent.
struct RangeExpr : Expr {
  ExprPtr begin, end, every;
  RangeExpr() : Expr(ExprKind::Range) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Range; }
};

struct ListExpr : Expr {
  std::vector<ExprPtr> items;
  ListExpr() : Expr(ExprKind::List) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::List; }
};

// `(a, b)`; a single expression in parentheses is that expression itself.
struct TupleExpr : Expr {
  std::vector<ExprPtr> items;
  TupleExpr() : Expr(ExprKind::Tuple) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Tuple; }
};

// `[for r in rounds for c in 0 .. chunks: (c, r)]`; the first loop is
// outermost.
struct ComprehensionExpr : Expr {
  struct Loop : Node {
    std::vector<Name> names;
    ExprPtr over;
  };
  std::vector<Loop> loops;
  ExprPtr value;
  ComprehensionExpr() : Expr(ExprKind::Comprehension) {}
  static bool classof(const Expr *e) {
    return e->kind == ExprKind::Comprehension;
  }
};

enum class UnaryOp { Negate, Not };
struct UnaryExpr : Expr {
  UnaryOp op = UnaryOp::Negate;
  ExprPtr operand;
  UnaryExpr() : Expr(ExprKind::Unary) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Unary; }
};

enum class BinaryOp {
  Add,
  Subtract,
  Multiply,
  Divide,
  Remainder,
  Power,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And,
  Or
};
const char *spelling(BinaryOp op);
bool isComparison(BinaryOp op);

struct BinaryExpr : Expr {
  BinaryOp op = BinaryOp::Add;
  SourceRange opRange;
  ExprPtr left, right;
  BinaryExpr() : Expr(ExprKind::Binary) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Binary; }
};

// `(all except moe)`, `(layer[3 ..]/x, y where bytes > 4)`: a selection in
// parentheses that reads as nothing else. `(attention, mlp)` is a tuple of
// names; see asSelection.
struct SelectionExpr : Expr {
  Selection selection;
  SelectionExpr() : Expr(ExprKind::Selection) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Selection; }
};

ExprPtr clone(const Expr &expr);
StepRange clone(const StepRange &range);
Selection clone(const Selection &selection);

// An expression read as a selection: a name, `a/b`, `layer[3 ..]/x`, a tuple of
// such, or a SelectionExpr. Null where it cannot be one. For parameters of
// strategies whose value is a selection.
std::optional<Selection> asSelection(const Expr &expr);

} // namespace cleave::ast
