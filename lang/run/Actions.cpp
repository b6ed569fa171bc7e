#include "lang/run/Run.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::ast;
using namespace cleave::run;

// `micro(8)`, `batch(64)`.
static bool readCount(const CallExpr &call, const Context &context,
                      format::RuleT &rule, DiagnosticEngine &diags) {
  std::string name = call.callee.text();
  if (call.args.size() != 1 || call.args.front().name) {
    diags.error(Diag::BadRunAction, call.range,
                "`" + name + "` takes one number, as in `" + name + "(8)`");
    return false;
  }
  std::optional<int64_t> count =
      sema::evaluateInteger(*call.args.front().value, context.parameters, diags,
                            "the number of `" + name + "`");
  if (!count) {
    return false;
  }
  if (*count < 1) {
    diags.error(Diag::BadRunAction, call.args.front().range,
                "`" + name + "` of " + std::to_string(*count));
    return false;
  }
  rule.amount = *count;
  return true;
}

static bool readBatch(const CallExpr &call, const Elaborated &run,
                      const format::RuleT &rule, DiagnosticEngine &diags) {
  if (std::binary_search(run.batches.begin(), run.batches.end(), rule.amount)) {
    return true;
  }
  diags
      .error(Diag::BadRunAction, call.range,
             "the run declares no batch of " + std::to_string(rule.amount))
      .help(run.batches.empty()
                ? "declare batches with `vary batch = ramp(…)`"
                : "its batches go from " + std::to_string(run.batches.front()) +
                      " to " + std::to_string(run.batches.back()) +
                      " as `vary` says");
  return false;
}

// A word: `deep`, `save`, `stop`.
static bool readWord(const NameExpr &name, const Context &context,
                     format::RuleT &rule, DiagnosticEngine &diags) {
  std::vector<std::string> known = context.plans;
  if (std::find(known.begin(), known.end(), name.name) != known.end()) {
    rule.action = format::RuleAction::Go;
    rule.plan = name.name;
    return true;
  }
  if (name.name == "save" || name.name == "stop") {
    rule.action = name.name == "save" ? format::RuleAction::Save
                                      : format::RuleAction::Stop;
    return true;
  }
  if (name.name == "rebalance" || name.name == "fastest") {
    diags
        .error(Diag::LaterStatement, name.range,
               "`" + name.name + "` as an action is not built yet")
        .help("name one of the run's plans");
    return false;
  }
  known.insert(known.end(), {"save", "stop"});
  diags
      .error(Diag::BadRunAction, name.range,
             "the run has no plan `" + name.name + "`")
      .help(suggestion(name.name, known));
  return false;
}

// `overlapped(deep)`.
static bool readOverlapped(const CallExpr &call, const Context &context,
                           format::RuleT &rule, DiagnosticEngine &diags) {
  const NameExpr *name = call.args.size() == 1 && !call.args.front().name
                             ? dynCast<NameExpr>(call.args.front().value.get())
                             : nullptr;
  if (!name) {
    diags.error(Diag::BadRunAction, call.range,
                "`overlapped` takes the name of one of the run's plans");
    return false;
  }
  if (!readWord(*name, context, rule, diags)) {
    return false;
  }
  if (rule.action != format::RuleAction::Go) {
    diags.error(Diag::BadRunAction, name->range,
                "only a hop to a plan can overlap with a step");
    return false;
  }
  rule.overlapped = true;
  return true;
}

bool run::elaborateAction(const Expr &target, const Context &context,
                          const Elaborated &run, format::RuleT &rule,
                          DiagnosticEngine &diags) {
  if (const auto *name = dynCast<NameExpr>(&target)) {
    return readWord(*name, context, rule, diags);
  }
  const auto *call = dynCast<CallExpr>(&target);
  std::string callee = call ? call->callee.text() : "";
  if (callee == "micro") {
    rule.action = format::RuleAction::Micros;
    return readCount(*call, context, rule, diags);
  }
  if (callee == "overlapped") {
    return readOverlapped(*call, context, rule, diags);
  }
  if (callee == "batch") {
    rule.action = format::RuleAction::Batch;
    return readCount(*call, context, rule, diags) &&
           readBatch(*call, run, rule, diags);
  }
  diags
      .error(Diag::BadRunAction, target.range,
             "this is nothing that a run can do")
      .help("name one of the run's plans, or write `overlapped(PLAN)`, "
            "`micro(8)`, `batch(64)`, `save` or `stop`");
  return false;
}
