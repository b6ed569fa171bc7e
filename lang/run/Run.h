// Runs, from the syntax tree to the table that a plan file has of one: what
// happens between steps. Rules are checked here as far as can be seen before
// any step: names, quantities, conditions that are never true, rules that send
// a run back and forth.
//
// A rule fires after the step at which its condition has held for N steps in a
// row (1 unless `for N`), and again only after the condition has been false. So
// a run stays where it was sent although the condition goes on to hold. Rules
// that change the plan keep `leastApart` steps from the last hop, except those
// that can become true only once in a run (of step, samples, tokens, batch and
// wall_time, which only grow): these would be lost.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/diagnostics/Diagnostics.h"
#include "lang/sema/Evaluate.h"
#include "runtime/format/Plan_generated.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cleave::run {

// Steps between a hop and the next rule that may change the plan.
inline constexpr uint32_t leastApart = 10;
// Values of a batch that a run may declare.
inline constexpr int64_t mostBatches = 100'000;

// What a run's statements may speak of.
struct Context {
  std::vector<std::string> plans; // of the run
  std::string sampleDim;          // that the batch of a step is
  // Dims that the model declares with `up to`, and their bounds.
  std::map<std::string, int64_t> bounds;
  // By name, for constants in rules.
  sema::Environment parameters;
  bool clips = false; // so that the gradient's norm is known
  // The optimizer's mean of past gradients, where it keeps one.
  std::optional<format::GradientMeanT> gradientMean;
  // Of all plans' meshes; nothing where they are not known.
  std::optional<std::set<std::string>> axes;
};

struct Elaborated {
  std::unique_ptr<format::RunT> run;
  std::string varies;           // the dim, or empty
  int64_t bound = 0;            // its largest size, which plans are built for
  std::vector<int64_t> batches; // that the run may have, ascending, each once
  std::vector<int64_t> micros;  // that rules ask for, ascending, each once
};

// Nothing after errors were reported.
std::optional<Elaborated> elaborateRun(const ast::RunDecl &decl,
                                       const Context &context,
                                       DiagnosticEngine &diags);

// --- The parts --------------------------------------------------------------

// Where a number can be for a condition to hold.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool lowOpen = false, highOpen = false; // whether the end itself is out

  bool isEmpty() const {
    return low > high || (low == high && (lowOpen || highOpen));
  }
};

// `when CONDITION`: its terms in postfix order, and what can be seen of it.
struct Condition {
  std::vector<std::unique_ptr<format::TermT>> terms;
  // By measure: where it must be. Only of comparisons with constants that are
  // combined with `and`; others are in `isPartly`.
  struct Bounds {
    std::string what; // `mean(loss, 20)`
    format::Metric metric = format::Metric::Step;
    Interval interval;
  };
  std::vector<Bounds> bounds;
  bool isPartly = false;        // it also asks for something that is not there
  std::optional<bool> constant; // true or false whatever is measured
  bool readsNoise = false;      // `noise_scale`
};

std::optional<Condition> elaborateCondition(const ast::Expr &expr,
                                            const Context &context,
                                            DiagnosticEngine &diags);

// Of a metric that has only one value or grows: whether the condition can
// become true at most once in a run.
bool becomesTrueOnce(const Condition &condition);
// Why the condition is never true, or empty. `batches` are those of the run.
std::string whyNever(const Condition &condition,
                     const std::vector<int64_t> &batches);
// Whether both may be true within noise of each other: no measure keeps them
// apart.
bool mayAlternate(const Condition &a, const Condition &b);

// `vary batch = ramp(from: 192, to: 2048, by: 16, samples: 9_765_625)`: the
// batch begins with `from` and grows by `by`, at most to `to`. The samples are
// cut into as many equal parts as there are smaller batches (by the split rule:
// change i comes at sample i * samples / steps, rounded down), so that the
// batch is `to` from `samples` on.
bool elaborateVary(const ast::VaryStmt &stmt, const Context &context,
                   Elaborated &result, DiagnosticEngine &diags);

// What stands after `->`.
bool elaborateAction(const ast::Expr &target, const Context &context,
                     const Elaborated &run, format::RuleT &rule,
                     DiagnosticEngine &diags);

} // namespace cleave::run
