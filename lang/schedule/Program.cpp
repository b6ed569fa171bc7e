#include "lang/schedule/Program.h"

using namespace cleave;
using namespace cleave::ast;
using cleave::sema::Value;

namespace cleave::scheduling {

// What the loops of all stages together may do: far above what any schedule
// needs, and over in moments.
static int64_t mostTurns(const schedule::Schedule &schedule) {
  return (int64_t(1) << 22) +
         16 * int64_t(schedule.stages) * schedule.micros * schedule.chunks;
}

bool Program::run(const sema::Environment &parameters,
                  schedule::Schedule &result) {
  schedule = &result;
  schedule->actions.emplace_back();
  if (!started) {
    started = true;
    work = mostTurns(*schedule) * sema::workOfTurn;
  }
  Scope scope(nullptr, parameters);
  scope.environment.work = &work;
  return block(decl.body, scope);
}

bool Program::block(const Block &block, Scope &scope) {
  for (const StmtPtr &stmt : block.stmts) {
    if (!statement(*stmt, scope)) {
      return false;
    }
  }
  return true;
}

bool Program::statement(const Stmt &stmt, Scope &scope) {
  if (auto *s = dynCast<ActionStmt>(&stmt)) {
    return action(*s, scope);
  }
  if (auto *s = dynCast<ForStmt>(&stmt)) {
    return loop(*s, scope);
  }
  if (auto *s = dynCast<IfStmt>(&stmt)) {
    return branch(*s, scope);
  }
  if (auto *s = dynCast<LetStmt>(&stmt)) {
    return declare(s->names, s->values, false, scope);
  }
  if (auto *s = dynCast<VarStmt>(&stmt)) {
    return declare(s->names, s->values, true, scope);
  }
  if (auto *s = dynCast<AssignStmt>(&stmt)) {
    return assign(*s, scope);
  }
  diags.error(Diag::BadStatement, stmt.range,
              "this statement has no meaning in a schedule");
  return false;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

bool Program::evaluateAll(const std::vector<Name> &names,
                          const std::vector<ExprPtr> &values,
                          const Scope &scope, std::vector<Value> &results) {
  for (const ExprPtr &expr : values) {
    std::optional<Value> value =
        sema::evaluate(*expr, scope.environment, diags);
    if (!value) {
      return false;
    }
    results.push_back(std::move(*value));
  }
  if (results.size() == names.size()) {
    return true;
  }
  // The parser has checked that there is one expression then.
  Value whole = std::move(results[0]);
  if (whole.kind != Value::Kind::Tuple || whole.items.size() != names.size()) {
    diags.error(Diag::BadOperands, values[0]->range,
                std::to_string(names.size()) +
                    " names need a tuple of as many, not " + whole.describe());
    return false;
  }
  results = std::move(whole.items);
  return true;
}

bool Program::declare(const std::vector<Name> &names,
                      const std::vector<ExprPtr> &values, bool isVar,
                      Scope &scope) {
  std::vector<Value> results;
  if (!evaluateAll(names, values, scope, results)) {
    return false;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (scope.environment.values.count(names[i].text)) {
      diags
          .error(Diag::DuplicateName, names[i].range,
                 "`" + names[i].text + "` is declared twice in this block")
          .help("where a value changes, use `var` and assign to it");
      return false;
    }
    scope.environment.values[names[i].text] = std::move(results[i]);
    if (isVar) {
      scope.vars.insert(names[i].text);
    }
  }
  return true;
}

bool Program::assign(const AssignStmt &stmt, Scope &scope) {
  std::vector<Value> results;
  if (!evaluateAll(stmt.names, stmt.values, scope, results)) {
    return false;
  }
  for (size_t i = 0; i < stmt.names.size(); ++i) {
    const Name &name = stmt.names[i];
    Scope *owner = &scope;
    while (owner && !owner->environment.values.count(name.text)) {
      owner = owner->parent;
    }
    if (!owner || !owner->vars.count(name.text)) {
      bool known = scope.environment.find(name.text) != nullptr;
      diags
          .error(known ? Diag::BadAssignment : Diag::UnknownName, name.range,
                 known ? "`" + name.text + "` is no `var`"
                       : "unknown name `" + name.text + "`")
          .help(known ? "declare it with `var " + name.text + " = …`"
                      : suggestion(name.text, scope.environment.names()));
      return false;
    }
    owner->environment.values[name.text] = std::move(results[i]);
  }
  return true;
}

bool Program::bind(const std::vector<Name> &names, Value item,
                   SourceRange range, Scope &scope) {
  if (names.size() == 1) {
    scope.environment.values[names[0].text] = std::move(item);
    return true;
  }
  if (item.kind != Value::Kind::Tuple || item.items.size() != names.size()) {
    diags.error(Diag::BadOperands, range,
                "a loop of " + std::to_string(names.size()) +
                    " names needs tuples of as many, not " + item.describe());
    return false;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    scope.environment.values[names[i].text] = std::move(item.items[i]);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

bool Program::branch(const IfStmt &stmt, Scope &scope) {
  std::optional<bool> holds = sema::evaluateBool(
      *stmt.condition, scope.environment, diags, "the condition of `if`");
  if (!holds) {
    return false;
  }
  if (!*holds && !stmt.elseBlock) {
    return true;
  }
  Scope inner(&scope, scope.environment);
  return block(*holds ? stmt.thenBlock : *stmt.elseBlock, inner);
}

bool Program::loop(const ForStmt &stmt, Scope &scope) {
  std::optional<Value> over =
      sema::evaluate(*stmt.over, scope.environment, diags);
  if (!over) {
    return false;
  }
  if (over->kind != Value::Kind::List && over->kind != Value::Kind::Range) {
    diags.error(Diag::BadOperands, stmt.over->range,
                "a loop runs over a list or a range, not " + over->describe());
    return false;
  }
  for (int64_t i = 0, n = over->length(); i < n; ++i) {
    if ((work -= sema::workOfTurn) < 0) {
      diags.error(Diag::ScheduleTooLong, stmt.over->range,
                  "the schedule's loops run too long");
      return false;
    }
    Scope inner(&scope, scope.environment);
    if (!bind(stmt.names, over->at(i), stmt.over->range, inner) ||
        !block(stmt.body, inner)) {
      return false;
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Actions
//===----------------------------------------------------------------------===//

static schedule::Kind kindOf(ActionStmt::Action action) {
  switch (action) {
  case ActionStmt::Forward:
    return schedule::Kind::Forward;
  case ActionStmt::Backward:
    return schedule::Kind::Backward;
  case ActionStmt::InputGrad:
    return schedule::Kind::InputGradient;
  case ActionStmt::WeightGrad:
    return schedule::Kind::WeightGradient;
  }
  return schedule::Kind::Forward;
}

bool Program::checkRange(const ActionStmt &stmt, int64_t value, int64_t size,
                         const char *what) {
  if (value >= 0 && value < size) {
    return true;
  }
  diags
      .error(Diag::BadAction, stmt.which->range,
             std::string(what) + " " + std::to_string(value) + " of " +
                 std::to_string(size))
      .help(std::string("they count from 0 to ") + std::to_string(size - 1));
  return false;
}

bool Program::which(const ActionStmt &stmt, const Value &value,
                    schedule::Action &action) {
  bool several = schedule->chunks > 1;
  bool isPair = value.kind == Value::Kind::Tuple && value.items.size() == 2 &&
                value.items[0].isInteger() && value.items[1].isInteger();
  if (!isPair && (several || !value.isInteger())) {
    diags
        .error(Diag::BadAction, stmt.which->range,
               "an action is of a microbatch" +
                   std::string(several ? " and a chunk" : "") + ", not of " +
                   value.describe())
        .help(several ? "write `(microbatch, chunk)`"
                      : "write its number, or `(microbatch, chunk)`");
    return false;
  }
  int64_t micro = isPair ? value.items[0].integer : value.integer;
  int64_t chunk = isPair ? value.items[1].integer : 0;
  if (!checkRange(stmt, micro, schedule->micros, "microbatch") ||
      !checkRange(stmt, chunk, schedule->chunks, "chunk")) {
    return false;
  }
  action.micro = static_cast<int32_t>(micro);
  action.chunk = static_cast<uint16_t>(chunk);
  return true;
}

bool Program::action(const ActionStmt &stmt, Scope &scope) {
  std::vector<schedule::Action> &actions = schedule->actions.back();
  int64_t most = 4 * int64_t(schedule->micros) * schedule->chunks;
  if (static_cast<int64_t>(actions.size()) >= most) {
    diags.error(Diag::ScheduleTooLong, stmt.range,
                "a stage has more than " + std::to_string(most) +
                    " actions, four for each of its chunks and microbatches");
    return false;
  }
  std::optional<Value> value =
      sema::evaluate(*stmt.which, scope.environment, diags);
  schedule::Action action;
  action.kind = kindOf(stmt.action);
  if (!value || !which(stmt, *value, action)) {
    return false;
  }
  auto [known, isNew] =
      sourceOf.try_emplace(&stmt, static_cast<uint32_t>(sources.size()));
  if (isNew) {
    sources.push_back(stmt.range);
  }
  action.source = known->second;
  actions.push_back(action);
  return true;
}

} // namespace cleave::scheduling
