// The walk over a plan's statements.
#pragma once

#include "lang/plan/Elaborate.h"
#include "lang/plan/StageCuts.h"

namespace cleave::plan {

// A shard statement whose axes are still intervals: atoms are made once all
// cuts are known.
struct OpenShard {
  layout::ShardStatement statement; // alternatives are empty
  std::vector<AxisProduct> alternatives;
};

struct OpenMicro {
  std::string dim;
  int64_t size = 0;   // the most of the dim on a device; 0: `number` is written
  int64_t number = 1; // of microbatches
  SourceRange range;
  bool fromStrategy = false;
};

struct OpenPipeline {
  std::string dim;
  AxisProduct axis;
  int64_t chunks = 1;
  // By repeat that is cut: the boundaries, or none: the split rule's.
  std::map<std::string, std::vector<int64_t>> cuts;
  std::vector<layout::StagedRegion> regions;
  std::string why; // the cuts are where they are
  SourceRange range;
  bool fromStrategy = false;
  std::optional<ScheduleCall> schedule;
};

struct OpenPlace {
  layout::PlaceStatement statement;
  std::vector<std::pair<AxisProduct, SourceRange>> axes;
  SourceRange range;
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

  // Finds the number of microbatches where the plan says their size, from what
  // `finish` gave. False after an error.
  bool settleMicro(const layout::Plan &plan);

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

  bool refuseSelected(const ast::Stmt &stmt, const Stack &around);
  std::vector<std::string> repeatedDims() const;
  std::optional<std::string> microDim(const ast::MicroStmt &stmt,
                                      const Scope &scope);
  void visitMicro(const ast::MicroStmt &stmt,
                  const std::shared_ptr<Scope> &scope, const Stack &around);
  void addMicro(layout::Plan &plan) const;
  const layout::DimInfo *pipelineDim(const ast::PathStep &step,
                                     const Scope &scope);
  const ast::ScheduleDecl *findSchedule(const ast::CallExpr &call);
  std::optional<int64_t> chunksOf(const ast::PipelineStmt &stmt,
                                  const ast::ScheduleDecl &schedule,
                                  const Scope &scope);
  void visitPipeline(const ast::PipelineStmt &stmt,
                     const std::shared_ptr<Scope> &scope, const Stack &around);
  void addPipeline(layout::Plan &plan) const;
  std::optional<std::vector<int64_t>>
  coordinatesOf(const ast::PlaceStmt::Where &where, int64_t size,
                const Scope &scope);
  void visitPlace(const ast::PlaceStmt &stmt,
                  const std::shared_ptr<Scope> &scope, const Stack &around);
  bool checkPlace(const OpenPlace &open) const;
  bool checkPlaces() const;
  void addPlaces(layout::Plan &plan) const;
  void visitKeep(const ast::KeepStmt &stmt, const std::shared_ptr<Scope> &scope,
                 const Stack &around);
  bool keepsSomething(const ast::KeepStmt &stmt,
                      const layout::Selection &selection, bool spliced);
  void visitReduce(const ast::PerStmt &stmt,
                   const std::shared_ptr<Scope> &scope, const Stack &around);
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
  std::optional<layout::GatherStatement> gather, reduction;
  std::optional<OpenMicro> micro;
  std::optional<OpenPipeline> pipeline;
  std::vector<OpenPlace> places;
  std::vector<layout::Selection> recomputed;
  std::vector<OpenExpectation> expectations;
  // The mesh that stands and the views, with the scopes they are read in.
  std::pair<const ast::MeshStmt *, std::shared_ptr<Scope>> mesh;
  // A plan that may have the mesh, used with arguments that do not fit.
  struct {
    const ast::UseStmt *use = nullptr;
    const ast::PlanDecl *plan = nullptr;
    std::shared_ptr<Scope> scope;
  } unbound;
  std::vector<std::pair<const ast::ViewStmt *, std::shared_ptr<Scope>>> views;
  std::set<const ast::Stmt *> seenMeshes; // and views
  layout::SourcePoint source;
};

} // namespace cleave::plan
