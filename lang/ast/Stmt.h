// Statements of the syntax tree (Ast.h), and their parts.
#pragma once

#include "lang/ast/Expr.h"

namespace cleave::ast {

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;

// A list of statements between braces; `range` includes the braces.
struct Block : Node {
  std::vector<StmtPtr> stmts;
};

// --- Parts --------------------------------------------------

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

// --- Statements -------------------------------------------------------------

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

} // namespace cleave::ast
