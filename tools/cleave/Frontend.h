//===- Frontend.h - A source file, understood -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every command that reads source does first: load the file and all it
// uses, and find the set that it builds. The set is its run's; without a run it
// is every plan whose parameters have defaults, with `adamw(rate: 1e-4)`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_FRONTEND_H
#define CLEAVE_TOOLS_CLEAVE_FRONTEND_H

#include "lang/parse/Loader.h"
#include "lang/sema/Elaborate.h"
#include "tools/cleave/Options.h"

#include "mlir/IR/MLIRContext.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cleave::tools {

/// Where `use std.nn` is looked for: CLEAVE_STDLIB, beside an installed
/// program, then the source tree that it was built from.
std::vector<std::string> stdlibPath();

struct PlanRequest {
  std::string name; ///< in the set
  const ast::PlanDecl *decl = nullptr;
  const ast::CallExpr *call = nullptr; ///< with its arguments; null: defaults
};

/// A program of the set: `train`, or `eval` and `forward` with sizes of their
/// own where the run says so.
struct EntryRequest {
  std::string name;
  std::vector<sema::Override> overrides; ///< beside those of the model
};

struct Frontend {
  explicit Frontend(const Options &options);

  /// Loads, and finds the set; false after errors were reported.
  bool load();
  /// Adds the file's plans that its run leaves out: `check` looks at them too.
  void addOtherPlans() { findPlansOfFile(); }
  /// The model with the overrides of the command line and `extra`, and with
  /// these sizes of dims that it declares with `up to`.
  std::unique_ptr<sema::Model>
  elaborate(const std::vector<sema::Override> &extra = {},
            const std::map<std::string, int64_t> &sizes = {});
  /// Prints what was diagnosed; the exit code that follows from it.
  int finish();

  const Options &options;
  SourceManager sources;
  DiagnosticEngine diags;
  mlir::MLIRContext context;
  std::unique_ptr<Program> program;
  std::vector<std::unique_ptr<ast::File>> definesFiles;
  const ast::RunDecl *run = nullptr;
  bool isReproducible() const { return run && run->reproducible; }
  std::string modelName;
  std::vector<sema::Override> defines; ///< `-D` of the model's parameters
  /// `-D` of parameters that only plans have.
  std::map<std::string, sema::Value> planDefines;
  std::vector<PlanRequest> plans;
  std::vector<std::string> plansOfRun; ///< also those that are not built
  std::vector<EntryRequest> entries;   ///< train first
  uint32_t evalEvery = 0; ///< steps between evaluations; 0: not said
  size_t start = 0;       ///< the plan a run begins with

private:
  bool readDefines();
  bool sortDefines();
  bool findRun();
  bool findPlansOfRun();
  bool readPlans(const ast::PlansStmt &stmt);
  bool readStart(const ast::StartStmt *stmt);
  bool readEvery(const ast::EntryStmt &entry);
  void findPlansOfFile();
  bool keepOnePlan();
};

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_FRONTEND_H
