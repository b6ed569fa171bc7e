// Plans, from the syntax tree to `layout::Plan`: parameters, conditions and
// `use`s are resolved (rules 8, 10 to 12 of the language), and what is wrong
// with a plan for its model is reported (rule 11). Layouts themselves follow
// from the result by `layout::resolve`.
//
// The order is the language's: parameters; dims; devices; `free`; views and
// atoms; `let` and `if`; splicing; then every value of the model is resolved
// once, which finds the statements that want one axis, those that govern
// nothing, and those that discard others.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/diagnostics/Diagnostics.h"
#include "lang/plan/Facts.h"
#include "lang/plan/Scope.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::plan {

// An `expect`, with what its names mean: checked by checkExpectations.
struct Expectation {
  const ast::ExpectStmt *statement = nullptr; // of a file that outlives this
  std::shared_ptr<const Scope> scope;
  layout::SourcePoint source;
  // Of No, Count and Bytes.
  bool hasAxis = false;
  std::vector<std::vector<layout::AtomId>> axes; // each must take part
  layout::Selection selection;
  sema::Value wanted;
  int64_t divisor = 1;     // the product of what stands after `per`
  size_t perMicro = 0;     // how often `micro` is in it
  std::string perLoop;     // the repeat among them, or empty
  std::string description; // `all_gather on tensor for weights in layer`
};

// `one_f_one_b` in `pipeline … with one_f_one_b`; of files that outlive this.
struct ScheduleCall {
  const ast::CallExpr *call = nullptr;
  const ast::ScheduleDecl *decl = nullptr;
  std::shared_ptr<const Scope> scope; // what its arguments are read in
};

struct Elaborated {
  layout::Plan plan;
  std::vector<Expectation> expectations;
  std::optional<ScheduleCall> schedule; // of the pipeline, if there is one
};

struct PlanOptions {
  // `-D name=value`: taken by the plan's parameters of these names.
  std::map<std::string, sema::Value> overrides;
  // Where the plan's mesh does not say how many devices there are.
  std::optional<int64_t> devices;
  // The number of microbatches, instead of what the plan's `micro` says.
  std::optional<int64_t> micros;
};

// The plans that are declared, in the order of the files.
std::vector<const ast::PlanDecl *>
allPlans(const std::vector<std::unique_ptr<ast::File>> &files);
const ast::PlanDecl *
findPlan(const std::vector<std::unique_ptr<ast::File>> &files,
         const std::string &name);

// `call` is a plan's name, perhaps with arguments (`two_maps(2)`, as runs say).
// Nothing after errors were reported; notes and warnings may be reported too.
std::optional<Elaborated>
elaboratePlan(const std::vector<std::unique_ptr<ast::File>> &files,
              const ast::CallExpr &call, const ModelFacts &facts,
              const PlanOptions &options, DiagnosticEngine &diags);
// The plan of that name, with its defaults.
std::optional<Elaborated>
elaboratePlan(const std::vector<std::unique_ptr<ast::File>> &files,
              const std::string &name, const ModelFacts &facts,
              const PlanOptions &options, DiagnosticEngine &diags);

// The plan for what runs the whole batch at once: its pipeline, without its
// microbatches.
layout::Plan withoutMicro(const layout::Plan &plan);

// Between ranges and what the compiler keeps of them.
layout::SourcePoint sourcePoint(SourceRange range,
                                const SourceManager &sources);
SourceRange rangeOf(const layout::SourcePoint &point);

} // namespace cleave::plan
