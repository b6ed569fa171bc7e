#include "lang/run/Run.h"

#include <algorithm>
#include <cstdint>
#include <set>

using namespace cleave;
using namespace cleave::ast;
using namespace cleave::run;

namespace {

class Reader {
public:
  Reader(const RunDecl &decl, const Context &context, DiagnosticEngine &diags)
      : decl(decl), context(context), diags(diags) {}

  std::optional<Elaborated> run();

private:
  bool readSnapshot(const SnapshotStmt &stmt);
  bool readWhen(const WhenStmt &stmt);
  bool readDuring(const WhenStmt &stmt, format::RuleT &rule);
  bool checkPairs();

  const RunDecl &decl;
  const Context &context;
  DiagnosticEngine &diags;
  Elaborated result;
  struct Rule {
    const WhenStmt *stmt;
    Condition condition;
    const format::RuleT *table;
  };
  std::vector<Rule> rules;
};

} // namespace

// A number of steps, plain or as `300 steps`.
static std::optional<int64_t> stepsOf(const Expr &expr, const Context &context,
                                      DiagnosticEngine &diags, Diag kind,
                                      const std::string &what) {
  std::optional<sema::Value> value =
      sema::evaluate(expr, context.parameters, diags);
  if (!value) {
    return std::nullopt;
  }
  bool counts = value->isInteger() && (value->quantity == Quantity::Plain ||
                                       value->quantity == Quantity::Steps);
  if (!counts || value->integer < 1 || value->integer > INT32_MAX) {
    diags
        .error(kind, expr.range,
               what + " is a number of steps, not " + value->text())
        .help("write it as in `300 steps`");
    return std::nullopt;
  }
  return value->integer;
}

// On one line, with one blank where there are several.
static std::string squeezed(std::string_view text) {
  std::string result;
  for (char c : text) {
    bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  return result;
}

bool Reader::readSnapshot(const SnapshotStmt &stmt) {
  std::optional<int64_t> every =
      stepsOf(*stmt.every, context, diags, Diag::BadSnapshotInterval,
              "the interval of snapshots");
  if (!every) {
    return false;
  }
  if (result.run->snapshot_every > 0) {
    diags.error(Diag::BadSnapshotInterval, stmt.range,
                "the run says twice how often it makes snapshots");
    return false;
  }
  result.run->snapshot_every = static_cast<uint32_t>(*every);
  return true;
}

bool Reader::readDuring(const WhenStmt &stmt, format::RuleT &rule) {
  if (!stmt.during) {
    return true;
  }
  std::optional<int64_t> during =
      stepsOf(*stmt.during, context, diags, Diag::BadCondition,
              "what stands after `for`");
  if (during) {
    rule.during = static_cast<uint32_t>(*during);
  }
  return during.has_value();
}

bool Reader::readWhen(const WhenStmt &stmt) {
  auto rule = std::make_unique<format::RuleT>();
  std::optional<Condition> condition =
      elaborateCondition(*stmt.condition, context, diags);
  bool good = readDuring(stmt, *rule);
  good &= elaborateAction(*stmt.target, context, result, *rule, diags);
  if (!condition || !good) {
    return false;
  }
  std::string never = whyNever(*condition, result.batches);
  if (rule->action == format::RuleAction::Go && context.plans.size() == 1) {
    never = "the run has no other plan than `" + rule->plan + "`";
  }
  if (!never.empty()) {
    diags.error(Diag::NeverFires, stmt.condition->range,
                "this rule never does anything: " + never);
    return false;
  }
  bool once = becomesTrueOnce(*condition);
  bool hops = rule->action == format::RuleAction::Go ||
              rule->action == format::RuleAction::Micros;
  rule->apart = hops && !once ? leastApart : 0;
  rule->condition = std::move(condition->terms);
  if (condition->readsNoise) {
    result.run->gradient_mean =
        std::make_unique<format::GradientMeanT>(*context.gradientMean);
  }
  const SourceManager &sources = diags.sourceManager();
  rule->text = squeezed(sources.text(stmt.range));
  rule->file = sources.file(stmt.range.file).name;
  rule->line = sources.lineColumn(stmt.range.file, stmt.range.begin).line;
  if (rule->action == format::RuleAction::Micros) {
    result.micros.push_back(rule->amount);
  }
  result.run->rules.push_back(std::move(rule));
  rules.push_back(
      {&stmt, std::move(*condition), result.run->rules.back().get()});
  return true;
}

// Of two rules that go to different plans, noise must not fire one after the
// other.
bool Reader::checkPairs() {
  auto isFree = [](const Rule &rule) {
    return (rule.table->action == format::RuleAction::Go ||
            rule.table->action == format::RuleAction::Micros) &&
           rule.table->during == 1 && !becomesTrueOnce(rule.condition);
  };
  bool good = true;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (size_t j = i + 1; j < rules.size(); ++j) {
      const Rule &a = rules[i], &b = rules[j];
      bool same = a.table->action == b.table->action &&
                  a.table->plan == b.table->plan &&
                  a.table->amount == b.table->amount;
      if (same || !isFree(a) || !isFree(b) ||
          !mayAlternate(a.condition, b.condition)) {
        continue;
      }
      diags
          .error(Diag::PlansChase, b.stmt->condition->range,
                 "this rule and another can send the run back and forth")
          .note(a.stmt->condition->range, "the other rule")
          .help("leave a gap between the conditions, or add `for N` to one: "
                "`when step_time > 2 s for 20 -> …`");
      good = false;
    }
  }
  return good;
}

std::optional<Elaborated> Reader::run() {
  result.run = std::make_unique<format::RunT>();
  result.run->name = decl.name.text;
  bool good = true;
  // Rules speak of batches, wherever these are declared.
  for (const auto &stmt : decl.body.stmts) {
    if (const auto *vary = dynCast<VaryStmt>(stmt)) {
      good &= elaborateVary(*vary, context, result, diags);
    }
  }
  if (!good) {
    return std::nullopt;
  }
  for (const auto &stmt : decl.body.stmts) {
    if (const auto *when = dynCast<WhenStmt>(stmt)) {
      good &= readWhen(*when);
    } else if (const auto *snapshot = dynCast<SnapshotStmt>(stmt)) {
      good &= readSnapshot(*snapshot);
    }
  }
  if (!good || !checkPairs()) {
    return std::nullopt;
  }
  std::set<int64_t> micros(result.micros.begin(), result.micros.end());
  result.micros.assign(micros.begin(), micros.end());
  return std::move(result);
}

std::optional<Elaborated> run::elaborateRun(const RunDecl &decl,
                                            const Context &context,
                                            DiagnosticEngine &diags) {
  return Reader(decl, context, diags).run();
}
