// The syntax tree of Cleave source: plain structs with named fields, one for
// each form of the grammar (docs: the language tour; grammar: lang/parse).
//
// The tree says what was written, nothing more: names are not resolved,
// numbers keep their units, `free`, `none` and `last` are told apart only where
// the grammar does. Every node has the range of its text.
//
// Three class hierarchies have a kind and `classof`, so that both
// `ast::dynCast<T>(p)` and `llvm::dyn_cast<T>(p)` work: Expr, Stmt, Decl.
// Selections, axes and claims are structs and variants.
//
// A tree is finite and shallow: the parser refuses sources that nest more than
// 256 deep and expressions higher than 1024, so walks may recurse.
#pragma once

#include "lang/diagnostics/Diagnostics.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
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
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;

// A list of statements between braces; `range` includes the braces.
struct Block : Node {
  std::vector<StmtPtr> stmts;
};

// --- Selections
// ---------------------------------------------------------------
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

// --- Expressions
// --------------------------------------------------------------

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

// --- Parts of declarations
// ----------------------------------------------------

// `stage: int`, `keep = 0 B`, `layers = 12`, `inside = (attention, mlp)`.
struct Param : Node {
  Name name;
  std::optional<Name> type; // int, axis, dim, bytes
  ExprPtr defaultValue;     // may be null
};

// `f32[batch, seq, embed]`, `i32[]` or `f32`.
struct TypeRef : Node {
  Name element;
  std::vector<Name> dims;
  bool hasBrackets = false;
};

// `head * key`.
struct DimProduct : Node {
  std::vector<Name> factors;
};

// One of `dim a = …, b of …`.
struct DimDef : Node {
  enum Kind {
    Size,    // a = [up to] size [like other]
    Product, // a of b * c
    Sum      // a of q: b * c + k: d
  } kind = Size;
  Name name;
  bool upTo = false;        // of Size
  ExprPtr size;             // of Size
  std::optional<Name> like; // of Size
  DimProduct product;       // of Product
  struct Part : Node {
    Name name;
    DimProduct product;
  };
  std::vector<Part> parts; // of Sum
};

// A dim or an axis in a plan: `head`, `ctx.inner`, `q_lora?`.
struct Ref : DottedName {
  bool optional = false; // `?`: leave out if absent (or taken)
};

// `none`, or an ordered product, major first.
struct AxisExpr : Node {
  bool none = false;
  std::vector<Ref> factors; // of !none
};

// One axis of a `mesh`, `view` or hardware list: `data: free`, `pipe`,
// `context: [ring: 2, a2a: 4]`.
struct AxisDef : Node {
  enum Kind { Unsized, Free, Sized, Nested } kind = Unsized;
  Name name;
  ExprPtr size;                 // of Sized
  std::vector<AxisDef> factors; // of Nested, major first
};

// `with bucket: 125 MB, overlap: "backward"`.
struct Option : Node {
  Name name;
  ExprPtr value;
};

enum class CommKind {
  Collectives,
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Shift,
  Halo,
  Send
};
const char *spelling(CommKind kind);

// Which communication: `all_gather on tensor for weights in layer`.
// `for sel` fills `selection`; clauses without `for` fill only its clauses,
// with `hasGroup` false (everything, filtered).
struct Comm : Node {
  CommKind kind = CommKind::Collectives;
  Name kindName;
  std::optional<AxisExpr> axis;
  bool hasGroup = false;
  Selection selection;
};

// --- Statements
// ---------------------------------------------------------------

enum class StmtKind {
  // Models, functions, optimizers, algorithms, schedules.
  Dim,
  Input,
  Output,
  Param,
  Let,
  Var,
  Assign,
  Repeat,
  Region,
  If,
  Return,
  Minimize,
  For,
  State,
  Update,
  Action,
  // Plans and strategies (and Let, If).
  Mesh,
  View,
  Shard,
  Place,
  Keep,
  Per,
  Micro,
  Pipeline,
  Tune,
  Use,
  In,
  Expect,
  // Runs.
  Plans,
  Start,
  Vary,
  When,
  Snapshot,
  Entry
};

struct Stmt : Node {
  const StmtKind kind;
  SourceRange keyword; // the word the statement begins with
  explicit Stmt(StmtKind kind) : kind(kind) {}
  Stmt(const Stmt &) = delete;
  virtual ~Stmt();
};

#define CLEAVE_STMT(TYPE, KIND)                                                \
  TYPE() : Stmt(StmtKind::KIND) {}                                             \
  static bool classof(const Stmt *s) { return s->kind == StmtKind::KIND; }

// `dim batch = sequences, head of kv * group`.
struct DimStmt : Stmt {
  std::vector<DimDef> dims;
  CLEAVE_STMT(DimStmt, Dim)
};

// `input ids, labels: i32[batch, seq] from tokens(shift: 0)`.
struct InputStmt : Stmt {
  std::vector<Name> names;
  TypeRef type;
  std::unique_ptr<CallExpr> from; // may be null
  CLEAVE_STMT(InputStmt, Input)
};

struct OutputStmt : Stmt {
  std::vector<Name> names;
  CLEAVE_STMT(OutputStmt, Output)
};

// `param wk, wv: f32[embed, kv, key] ~ normal(0.02)`.
struct ParamStmt : Stmt {
  std::vector<Name> names;
  TypeRef type;
  std::unique_ptr<CallExpr> init; // null if not written
  CLEAVE_STMT(ParamStmt, Param)
};

// `let a, b = e` (one value, several results) or `let a, b = e, f`. In plans
// and strategies too, with one name.
struct LetStmt : Stmt {
  std::vector<Name> names;
  std::vector<ExprPtr> values; // one, or as many as names
  CLEAVE_STMT(LetStmt, Let)
};

// `var x = start`; lists as in `let`.
struct VarStmt : Stmt {
  std::vector<Name> names;
  std::vector<ExprPtr> values;
  CLEAVE_STMT(VarStmt, Var)
};

// `x = x + y`, `a, b = f(x), g(x)`; `keyword` is the first name.
struct AssignStmt : Stmt {
  std::vector<Name> names;
  std::vector<ExprPtr> values;
  CLEAVE_STMT(AssignStmt, Assign)
};

// `repeat layer = layers { … }`.
struct RepeatStmt : Stmt {
  Name dim;
  ExprPtr count; // null if not written: the dim is declared elsewhere
  Block body;
  CLEAVE_STMT(RepeatStmt, Repeat)
};

struct RegionStmt : Stmt {
  Name name;
  Block body;
  CLEAVE_STMT(RegionStmt, Region)
};

// In models, programs, plans and strategies; the blocks hold what the place
// allows. `else if …` is an else block whose one statement is the second `if`.
struct IfStmt : Stmt {
  ExprPtr condition;
  Block thenBlock;
  std::optional<Block> elseBlock;
  CLEAVE_STMT(IfStmt, If)
};

struct ReturnStmt : Stmt {
  std::vector<ExprPtr> values;
  CLEAVE_STMT(ReturnStmt, Return)
};

struct MinimizeStmt : Stmt {
  ExprPtr value;
  CLEAVE_STMT(MinimizeStmt, Minimize)
};

// `for m in 0 .. warm { … }`, in algorithms and schedules.
struct ForStmt : Stmt {
  std::vector<Name> names;
  ExprPtr over; // often a RangeExpr
  Block body;
  CLEAVE_STMT(ForStmt, For)
};

// `state first, second ~ zeros`, in optimizers.
struct StateStmt : Stmt {
  std::vector<Name> names;
  std::unique_ptr<CallExpr> init;
  CLEAVE_STMT(StateStmt, State)
};

// `update param - rate * gradient`, in optimizers.
struct UpdateStmt : Stmt {
  ExprPtr value;
  CLEAVE_STMT(UpdateStmt, Update)
};

// `forward m`, in schedules.
struct ActionStmt : Stmt {
  enum Action { Forward, Backward, InputGrad, WeightGrad } action = Forward;
  ExprPtr which;
  CLEAVE_STMT(ActionStmt, Action)
};

// `mesh [data: free, tensor: 8] on [node: 64, gpu: 8]`.
struct MeshStmt : Stmt {
  std::vector<AxisDef> axes;
  SourceRange axesRange;
  std::vector<AxisDef> levels; // `on [ … ]`, else empty
  ExprPtr devices;             // `on EXPR`, else null
  SourceRange onRange;         // of the levels or the devices
  CLEAVE_STMT(MeshStmt, Mesh)
};

// `view [pipe, rest: free, ep: 64]`.
struct ViewStmt : Stmt {
  std::vector<AxisDef> axes;
  SourceRange axesRange;
  CLEAVE_STMT(ViewStmt, View)
};

// `shard seq also on tensor else none even for activations except output`.
struct ShardStmt : Stmt {
  bool largest = false; // `shard largest`
  SourceRange dimsRange;
  std::vector<Ref> dims; // of !largest
  bool also = false;
  std::vector<AxisExpr> alternatives; // after `on`, then after each `else`
  ExprPtr dealt;                      // `dealt k`, else null
  bool folded = false;
  bool even = false;
  SourceRange evenRange;              // where even
  std::optional<Selection> selection; // `for`
  CLEAVE_STMT(ShardStmt, Shard)
};

// `place SEL on pipe[0], pipe[last]`.
struct PlaceStmt : Stmt {
  Selection selection;
  struct Where : Node {
    Name axis;
    StepRange index;
  };
  std::vector<Where> places;
  CLEAVE_STMT(PlaceStmt, Place)
};

// `save SEL`, `recompute SEL`, `offload SEL`, with options.
struct KeepStmt : Stmt {
  enum What { Save, Recompute, Offload } what = Save;
  Selection selection;
  std::vector<Option> options;
  CLEAVE_STMT(KeepStmt, Keep)
};

// `gather weights per layer`, `reduce gradients per micro`.
struct PerStmt : Stmt {
  enum What { Gather, Reduce } what = Gather;
  Selection selection;
  Name loop;
  CLEAVE_STMT(PerStmt, Per)
};

// `micro batch of 1` (size per shard), `micro batch into 8` (number).
struct MicroStmt : Stmt {
  Name dim;
  bool into = false;
  ExprPtr count;
  CLEAVE_STMT(MicroStmt, Micro)
};

// `pipeline layer on pipe chunks 4 as [embedding, 1 layer], … with
// interleaved`.
struct PipelineStmt : Stmt {
  PathStep step;
  Name axis;
  ExprPtr chunks;             // else null
  std::vector<Name> counting; // `counting embedding, output`
  bool byCost = false;
  struct Item : Node {
    std::optional<int64_t> count; // the 2 of "2 layer"
    Name name;
  };
  struct Piece : Node {
    ExprPtr times; // the 30 of "30 of [2 layer]", else null
    std::vector<Item> items;
  };
  std::vector<Piece> pieces; // `as …`
  std::unique_ptr<CallExpr> schedule;
  CLEAVE_STMT(PipelineStmt, Pipeline)
};

// `lossy tune all_gather on data with wire: "fp8"`.
struct TuneStmt : Stmt {
  bool lossy = false;
  Comm comm;
  std::vector<Option> options;
  CLEAVE_STMT(TuneStmt, Tune)
};

// `use zero(stage: 3, across: data) for all except moe`, inside a plan.
struct UseStmt : Stmt {
  std::unique_ptr<CallExpr> call;
  std::optional<Selection> selection;
  CLEAVE_STMT(UseStmt, Use)
};

// `in SEL { … }`.
struct InStmt : Stmt {
  Selection selection;
  Block body;
  CLEAVE_STMT(InStmt, In)
};

// `expect …`.
struct ExpectStmt : Stmt {
  enum Form {
    Within, // `tensor within node`
    No,     // `no all_gather on tensor for weights`
    Count,  // `all_gather on mdl in layer == 2 per layer`
    Bytes,  // `bytes of all_gather on mdl <= 4 GiB per step`
    Holds   // an expression: `batch == 2 * fsdp`
  } form = Holds;
  Name inner, outer;                  // of Within
  Comm comm;                          // of No, Count, Bytes
  BinaryOp compare = BinaryOp::Equal; // of Count, Bytes
  SourceRange compareRange;
  ExprPtr value;         // of Count, Bytes; the whole claim of Holds
  std::vector<Name> per; // of Count, Bytes
  SourceRange claim;     // without `expect`
  CLEAVE_STMT(ExpectStmt, Expect)
};

// `plans wide = wide, two = two_maps(2)`, in runs.
struct PlansStmt : Stmt {
  struct Entry : Node {
    Name name;
    std::unique_ptr<CallExpr> plan;
  };
  std::vector<Entry> entries;
  CLEAVE_STMT(PlansStmt, Plans)
};

struct StartStmt : Stmt {
  Name plan;
  CLEAVE_STMT(StartStmt, Start)
};

// `vary batch = ramp(from: 192, to: 2048)`.
struct VaryStmt : Stmt {
  Name what;
  std::unique_ptr<CallExpr> value;
  CLEAVE_STMT(VaryStmt, Vary)
};

// `when spread(stage_time) > 1.25 for 20 -> rebalance`.
struct WhenStmt : Stmt {
  ExprPtr condition;
  ExprPtr during; // `for`, else null
  ExprPtr target;
  CLEAVE_STMT(WhenStmt, When)
};

struct SnapshotStmt : Stmt {
  ExprPtr every; // `300`, `50 steps`
  CLEAVE_STMT(SnapshotStmt, Snapshot)
};

// `eval with sequences: 8 every 100`, `forward with length: 64`.
struct EntryStmt : Stmt {
  enum Which { Eval, Forward } which = Eval;
  std::vector<Option> values;
  ExprPtr every; // else null
  CLEAVE_STMT(EntryStmt, Entry)
};

#undef CLEAVE_STMT

// --- Declarations
// -------------------------------------------------------------

enum class DeclKind {
  Model,
  Fn,
  Optimizer,
  Strategy,
  Schedule,
  Algorithm,
  Plan,
  Run,
  Reduced
};
const char *spelling(DeclKind kind);

struct Decl : Node {
  const DeclKind kind;
  SourceRange keyword;
  Name name; // of Reduced: the model's
  explicit Decl(DeclKind kind) : kind(kind) {}
  Decl(const Decl &) = delete;
  virtual ~Decl();
};

#define CLEAVE_DECL(TYPE, KIND)                                                \
  TYPE() : Decl(DeclKind::KIND) {}                                             \
  static bool classof(const Decl *d) { return d->kind == DeclKind::KIND; }

struct ModelDecl : Decl {
  std::vector<Param> params;
  Block body;
  CLEAVE_DECL(ModelDecl, Model)
};

// `fn mlp(x) using embed, ff { … }`.
struct FnDecl : Decl {
  std::vector<Param> params;
  std::vector<Name> dims; // `using`
  Block body;
  CLEAVE_DECL(FnDecl, Fn)
};

struct OptimizerDecl : Decl {
  std::vector<Param> params;
  Block body;
  CLEAVE_DECL(OptimizerDecl, Optimizer)
};

// `strategy maxtext using data, stage { … }`.
struct StrategyDecl : Decl {
  std::vector<Param> params;
  std::vector<Name> axes; // `using`: axes the plan's mesh may lack
  Block body;
  CLEAVE_DECL(StrategyDecl, Strategy)
};

struct ScheduleDecl : Decl {
  enum Deal { Plain, Dealt, Folded } deal = Plain;
  std::vector<Param> params;
  Block body;
  CLEAVE_DECL(ScheduleDecl, Schedule)
};

// `algorithm ring for nn.attend(q, k, v) when seq on R, keys on R { … }`.
struct AlgorithmDecl : Decl {
  std::unique_ptr<CallExpr> replaces;
  struct Condition : Node {
    std::optional<Ref> dim; // `seq on R`: dim and axis
    AxisExpr axis;
    ExprPtr value; // otherwise
  };
  std::vector<Condition> conditions;
  Block body;
  CLEAVE_DECL(AlgorithmDecl, Algorithm)
};

struct PlanDecl : Decl {
  std::vector<Param> params;
  Name model;
  Block body;
  CLEAVE_DECL(PlanDecl, Plan)
};

// `run pretrain of gpt with adamw(rate: 3e-4), clip(1.0) reproducible { … }`.
struct RunDecl : Decl {
  Name model;
  std::vector<std::unique_ptr<CallExpr>> with;
  bool reproducible = false;
  Block body;
  CLEAVE_DECL(RunDecl, Run)
};

// `reduced gpt(layers: 2, width: 56)`.
struct ReducedDecl : Decl {
  std::vector<Arg> args;
  CLEAVE_DECL(ReducedDecl, Reduced)
};

#undef CLEAVE_DECL

// `use std.nn` or `use "p11.clv"`, at the head of a file.
struct Use : Node {
  bool isPath = false;
  std::string path;       // of isPath
  DottedName module;      // of !isPath
  FileId target = noFile; // set by the loader
};

struct File : Node {
  FileId id = noFile;
  std::vector<Use> uses;
  std::vector<std::unique_ptr<Decl>> decls; // in source order
};

} // namespace cleave::ast
