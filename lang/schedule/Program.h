// Runs the body of a schedule for one stage. For Schedules.cpp alone.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/sema/Evaluate.h"
#include "schedule/Schedule.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cleave::scheduling {

class Program {
public:
  // `sources` gets the range of each action statement, once.
  Program(const ast::ScheduleDecl &decl, std::vector<SourceRange> &sources,
          DiagnosticEngine &diags)
      : decl(decl), sources(sources), diags(diags) {}

  // Appends a stage's actions to the schedule, whose sizes are set; false after
  // an error was reported. `parameters` has the value of every parameter.
  bool run(const sema::Environment &parameters, schedule::Schedule &schedule);

private:
  // Names of one block, or one turn of a loop.
  struct Scope {
    explicit Scope(Scope *parent, const sema::Environment &outer)
        : parent(parent) {
      environment.parent = &outer;
    }
    Scope *parent; // null: the parameters are outside
    sema::Environment environment;
    std::set<std::string, std::less<>> vars; // those that may be assigned to
  };

  bool block(const ast::Block &block, Scope &scope);
  bool statement(const ast::Stmt &stmt, Scope &scope);
  bool declare(const std::vector<ast::Name> &names,
               const std::vector<ast::ExprPtr> &values, bool isVar,
               Scope &scope);
  bool assign(const ast::AssignStmt &stmt, Scope &scope);
  bool branch(const ast::IfStmt &stmt, Scope &scope);
  bool loop(const ast::ForStmt &stmt, Scope &scope);
  bool action(const ast::ActionStmt &stmt, Scope &scope);
  bool which(const ast::ActionStmt &stmt, const sema::Value &value,
             schedule::Action &action);
  bool checkRange(const ast::ActionStmt &stmt, int64_t value, int64_t size,
                  const char *what);
  // One value for each name: of as many expressions, or of one tuple.
  bool evaluateAll(const std::vector<ast::Name> &names,
                   const std::vector<ast::ExprPtr> &values, const Scope &scope,
                   std::vector<sema::Value> &results);
  bool bind(const std::vector<ast::Name> &names, sema::Value item,
            SourceRange range, Scope &scope);

  const ast::ScheduleDecl &decl;
  std::vector<SourceRange> &sources;
  DiagnosticEngine &diags;
  schedule::Schedule *schedule = nullptr;
  std::map<const ast::ActionStmt *, uint32_t> sourceOf;
  bool started = false;
  int64_t work = 0; // what all stages together may still do
};

} // namespace cleave::scheduling
