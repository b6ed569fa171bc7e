// Schedules of the language, from the syntax tree to `schedule::Schedule`: a
// short program over actions of microbatches, evaluated once for each stage, or
// a file in PyTorch's notation (schedule/Csv.h); and the proof of what it
// gives, whose violations are reported at the line of the action.
//
//   schedule one_f_one_b(stage, stages, micro) {
//     let warm = min(stages - stage - 1, micro)
//     for m in 0 .. warm             { forward m }
//     for m in 0 .. micro - warm     { forward m + warm; backward m }
//     for m in micro - warm .. micro { backward m }
//   }
//
// Parameters go by name: `stage` (from 0), `stages`, `micro` (how many
// microbatches) and `chunks` are given by the pipeline; others need a default
// or an argument (`with lagging(lag: 2)`). `chunks = 2` says how many chunks a
// stage has where the pipeline does not.
//
// Statements: `let`, `var` and assignment, `for` over a range or a list, `if`,
// and the actions `forward`, `backward`, `input_grad`, `weight_grad`. What an
// action is of: a microbatch, or with several chunks a tuple (microbatch,
// chunk). Loops turn at most 2^22 times in all, and 16 more for each stage,
// chunk and microbatch (fewer where they copy long lists); a stage's actions
// are at most four for each of its chunks and microbatches: so everything ends.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/diagnostics/Diagnostics.h"
#include "lang/sema/Evaluate.h"
#include "schedule/Check.h"
#include "schedule/Schedule.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::scheduling {

// The numbers that a pipeline gives its schedule.
struct Sizes {
  int64_t stages = 1;
  int64_t micros = 1;
  std::optional<int64_t> chunks; // unstated: the schedule's default, else 1
};

struct Evaluated {
  schedule::Schedule schedule;
  const ast::ScheduleDecl *decl = nullptr; // null: a file read by itself
  // What `Action::source` counts in: the statements, or the cells of the file.
  std::vector<SourceRange> sources;
  // The value of `chunks` that the schedule is written for, if it says one.
  std::optional<int64_t> defaultChunks;

  // Of an action; the declaration's name where it says none.
  SourceRange rangeOf(const schedule::Action &action) const;
};

// The schedules that are declared, in the order of the files.
std::vector<const ast::ScheduleDecl *>
allSchedules(const std::vector<std::unique_ptr<ast::File>> &files);

// The one that `call` names; reports where there is none.
const ast::ScheduleDecl *
findSchedule(const std::vector<std::unique_ptr<ast::File>> &files,
             const ast::CallExpr &call, DiagnosticEngine &diags);

// Runs the program, or reads the file (which joins `sources`, the manager that
// `diags` renders with). `call` may give arguments, evaluated in `environment`;
// null: defaults. `use` is where errors about sizes are reported: the
// `pipeline` statement, or nowhere. Nothing after errors were reported.
std::optional<Evaluated>
evaluateSchedule(const ast::ScheduleDecl &decl, const ast::CallExpr *call,
                 const Sizes &sizes, SourceRange use, SourceManager &sources,
                 DiagnosticEngine &diags,
                 const sema::Environment *environment = nullptr);

// A file in PyTorch's notation by itself; its sizes are the file's.
std::optional<Evaluated> readScheduleFile(const std::string &path,
                                          SourceManager &sources,
                                          DiagnosticEngine &diags);

// `4 stages, 8 microbatches and 1 chunk`.
std::string describeSizes(const schedule::Schedule &schedule);

// `schedule::check`, its violation reported: at the line of the action, with
// the timeline up to there as notes.
std::optional<schedule::Proof> proveSchedule(const Evaluated &evaluated,
                                             DiagnosticEngine &diags);

} // namespace cleave::scheduling
