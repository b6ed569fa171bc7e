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

#include "lang/ast/Expr.h"
#include "lang/ast/Stmt.h"

namespace cleave::ast {

// --- Declarations -----------------------------------------------------------

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

// `schedule NAME(stage, stages, micro) dealt { … }`, or
// `schedule NAME from "file.csv"`: then there are no parameters and no body.
struct ScheduleDecl : Decl {
  enum Deal { Plain, Dealt, Folded } deal = Plain;
  std::optional<std::string> path;
  SourceRange pathRange; // where path
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
