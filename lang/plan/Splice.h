// The walk over a plan's statements.
#pragma once

#include "lang/plan/Elaborate.h"

namespace cleave::plan {

// A shard statement whose axes are still intervals: atoms are made once all
// cuts are known.
struct OpenShard {
  layout::ShardStatement statement; // alternatives are empty
  std::vector<AxisProduct> alternatives;
};

class Splicer {
public:
  Splicer(const std::vector<std::unique_ptr<ast::File>> &files,
          const ModelFacts &facts, const PlanOptions &options,
          DiagnosticEngine &diags)
      : files(files), facts(facts), options(options), diags(diags),
        names(facts, devices, diags) {}

  // Walks `plan` as called. False after an error was reported.
  bool run(const ast::PlanDecl &plan, const ast::CallExpr *call);

  // Makes atoms of the intervals. Called again after cuts were added.
  Elaborated finish(const std::string &name) const;

  Devices devices;
  std::vector<OpenShard> shards;
  const Names &resolvedNames() const { return names; }

private:
  using Stack = std::vector<layout::Selection>; // of the `in`s around

  std::shared_ptr<Scope> newScope(bool spliced) const;
  void findMesh(const ast::Block &block, const std::shared_ptr<Scope> &scope,
                DiagnosticEngine &scratch, unsigned depth);
  bool bind(const std::vector<ast::Param> &params,
            const std::vector<ast::Arg> &args, SourceRange at,
            const std::string &what, const std::vector<ast::Name> *axes,
            const Scope &caller, Scope &scope, DiagnosticEngine &to);
  bool bindOne(const ast::Param &param, const ast::Expr &value,
               const Scope &caller, Scope &scope, DiagnosticEngine &to);

  void walk(const ast::Block &block, const std::shared_ptr<Scope> &scope,
            const Stack &around);
  void visitShard(const ast::ShardStmt &stmt,
                  const std::shared_ptr<Scope> &scope, const Stack &around);
  void visitGather(const ast::PerStmt &stmt,
                   const std::shared_ptr<Scope> &scope, const Stack &around);
  void visitUse(const ast::UseStmt &stmt, const std::shared_ptr<Scope> &scope,
                const Stack &around);
  void visitExpect(const ast::ExpectStmt &stmt,
                   const std::shared_ptr<Scope> &scope, const Stack &around);
  void visitLet(const ast::LetStmt &stmt, Scope &scope, DiagnosticEngine &to);
  bool refuseLater(const ast::Stmt &stmt);
  std::optional<layout::Selection>
  selectionOf(const std::optional<ast::Selection> &written, const Scope &scope,
              const Stack &around);
  const ast::Decl *findUsed(const ast::DottedName &name, bool &isLater) const;

  struct OpenExpectation {
    Expectation expectation;
    std::optional<AxisProduct> axis;
  };

  const std::vector<std::unique_ptr<ast::File>> &files;
  const ModelFacts &facts;
  const PlanOptions &options;
  DiagnosticEngine &diags;
  Names names;
  std::shared_ptr<Scope> root;
  std::vector<const ast::Decl *> open; // being spliced, outermost first
  std::optional<layout::GatherStatement> gather;
  std::vector<OpenExpectation> expectations;
  // The mesh that stands and the views, with the scopes they are read in.
  std::pair<const ast::MeshStmt *, std::shared_ptr<Scope>> mesh;
  std::vector<std::pair<const ast::ViewStmt *, std::shared_ptr<Scope>>> views;
  std::set<const ast::Stmt *> seenMeshes; // and views
  layout::SourcePoint source;
};

} // namespace cleave::plan
