//===- Frontend.cpp - A source file, understood ---------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Frontend.h"

#include "lang/parse/Parser.h"
#include "lang/sema/Evaluate.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace cleave::tools {

std::vector<std::string> stdlibPath() {
  std::vector<std::string> paths;
  if (const char *path = std::getenv("CLEAVE_STDLIB")) {
    paths.push_back(path);
  }
  static int anchor;
  std::string program = llvm::sys::fs::getMainExecutable("cleave", &anchor);
  llvm::SmallString<256> installed(
      llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(installed, "share", "cleave", "stdlib");
  paths.push_back(installed.str().str());
  paths.push_back(CLEAVE_SOURCE_STDLIB);
  return paths;
}

Frontend::Frontend(const Options &options)
    : options(options), diags(sources),
      context(mlir::MLIRContext::Threading::DISABLED) {}

/// A plan file given where source is read is not a broken source.
static bool isPlanFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  char magic[8] = {};
  stream.read(magic, sizeof magic);
  return stream && std::string_view(magic, sizeof magic) == "CLEAVEPL";
}

bool Frontend::load() {
  if (isPlanFile(options.file)) {
    diags
        .error(Diag::NotSource, {},
               "`" + options.file + "` is a plan file, not source")
        .help("`cleave inspect " + options.file +
              "` prints it, `cleave run` trains with it");
    return false;
  }
  program =
      loadProgram(options.file, LoadOptions{stdlibPath()}, sources, diags);
  if (!program || !readDefines() || !findRun()) {
    return false;
  }
  return sortDefines() && keepOnePlan();
}

/// `-D layers=24` is read as the argument list of a `reduced` declaration.
bool Frontend::readDefines() {
  for (const std::string &define : options.defines) {
    size_t equals = define.find('=');
    std::string text = define;
    if (equals != std::string::npos) {
      text[equals] = ':';
    }
    FileId file = sources.add("-D " + define, "reduced D(" + text + ")\n");
    std::unique_ptr<ast::File> parsed = parseFile(sources, file, diags);
    if (!parsed) {
      return false;
    }
    const auto *decl = ast::dynCast<ast::ReducedDecl>(parsed->decls.front());
    for (const ast::Arg &arg : decl->args) {
      if (!arg.name) {
        diags
            .error(Diag::BadDefine, arg.range,
                   "`-D " + define + "` does not name a parameter")
            .help("write `-D NAME=VALUE`");
        return false;
      }
      defines.push_back({arg.name->text, arg.value.get(), arg.name->range});
    }
    definesFiles.push_back(std::move(parsed));
  }
  return true;
}

static bool hasParam(const std::vector<ast::Param> &params,
                     const std::string &name) {
  return std::any_of(
      params.begin(), params.end(),
      [&](const ast::Param &param) { return param.name.text == name; });
}

/// A name that the model lacks and a plan of the set has is the plan's. What
/// neither has is left for the model's elaboration to refuse.
bool Frontend::sortDefines() {
  std::vector<sema::Override> ofModel;
  for (const sema::Override &define : defines) {
    bool inModel = false, inPlan = false;
    for (const ast::ModelDecl *model : sema::modelsOf(*program)) {
      inModel |=
          model->name.text == modelName && hasParam(model->params, define.name);
    }
    for (const PlanRequest &plan : plans) {
      inPlan |= hasParam(plan.decl->params, define.name);
    }
    if (inModel || !inPlan) {
      ofModel.push_back(define);
      continue;
    }
    std::optional<sema::Value> value =
        sema::evaluate(*define.value, sema::Environment(), diags);
    if (!value) {
      return false;
    }
    planDefines.insert_or_assign(define.name, *value);
  }
  defines = std::move(ofModel);
  return true;
}

bool Frontend::findRun() {
  const ast::File &root = program->root();
  std::vector<const ast::RunDecl *> runs;
  std::vector<std::string> names;
  for (const auto &decl : root.decls) {
    if (const auto *found = ast::dynCast<ast::RunDecl>(decl)) {
      runs.push_back(found);
      names.push_back(found->name.text);
    }
  }
  if (!options.run.empty()) {
    for (const ast::RunDecl *candidate : runs) {
      if (candidate->name.text == options.run) {
        run = candidate;
      }
    }
    if (!run) {
      diags
          .error(Diag::NoSuchRun, {root.id, 0, 0},
                 "there is no run `" + options.run + "`")
          .help(suggestion(options.run, names));
      return false;
    }
  } else if (runs.size() > 1) {
    diags
        .error(Diag::NoSuchRun, runs[1]->name.range,
               "the file has several runs, and the command names none")
        .help("add `--run " + names.front() + "`");
    return false;
  } else if (!runs.empty()) {
    run = runs.front();
  }
  if (run) {
    modelName = run->model.text;
    return findPlansOfRun();
  }

  modelName = options.model;
  if (modelName.empty()) {
    // The root's own model, else the one that its plans are of.
    for (const auto &decl : root.decls) {
      if (ast::isa<ast::ModelDecl>(decl)) {
        modelName = decl->name.text;
      } else if (const auto *plan = ast::dynCast<ast::PlanDecl>(decl);
                 plan && modelName.empty()) {
        modelName = plan->model.text;
      }
    }
  }
  if (modelName.empty()) {
    diags
        .error(Diag::NoModel, {root.id, 0, 0},
               "there is neither a model, nor a plan, nor a run in the file")
        .help("declare `model NAME(…) { … }`, or `use` a file that does");
    return false;
  }
  entries.push_back({"train", {}});
  entries.push_back({"eval", {}});
  entries.push_back({"forward", {}});
  findPlansOfFile();
  return true;
}

static const ast::PlanDecl *findPlan(const Program &program,
                                     const std::string &name) {
  for (auto file = program.files.rbegin(); file != program.files.rend();
       ++file) {
    for (const auto &decl : (*file)->decls) {
      if (const auto *plan = ast::dynCast<ast::PlanDecl>(decl);
          plan && plan->name.text == name) {
        return plan;
      }
    }
  }
  return nullptr;
}

static std::vector<std::string> planNames(const Program &program) {
  std::vector<std::string> names;
  for (const auto &file : program.files) {
    for (const auto &decl : file->decls) {
      if (ast::isa<ast::PlanDecl>(decl)) {
        names.push_back(decl->name.text);
      }
    }
  }
  return names;
}

/// `eval with … every 50`.
bool Frontend::readEvery(const ast::EntryStmt &entry) {
  if (!entry.every) {
    return true;
  }
  if (entry.which == ast::EntryStmt::Forward) {
    diags
        .error(Diag::BadStatement, entry.every->range,
               "`forward` runs when it is asked for, not every few steps")
        .help("leave `every` out; `eval` may have it");
    return false;
  }
  std::optional<int64_t> steps =
      sema::evaluateInteger(*entry.every, {}, diags, "the steps after `every`");
  if (!steps) {
    return false;
  }
  if (*steps < 1 || *steps > INT32_MAX) {
    diags.error(Diag::WrongKind, entry.every->range,
                "an evaluation every " + std::to_string(*steps) + " steps");
    return false;
  }
  evalEvery = static_cast<uint32_t>(*steps);
  return true;
}

/// `plans wide = wide, two = two_maps(2)`.
bool Frontend::readPlans(const ast::PlansStmt &stmt) {
  bool good = true;
  for (const ast::PlansStmt::Entry &entry : stmt.entries) {
    std::string callee = entry.plan->callee.text();
    const ast::PlanDecl *decl = findPlan(*program, callee);
    if (!decl) {
      diags
          .error(Diag::NoSuchPlan, entry.plan->callee.range,
                 "unknown plan `" + callee + "`")
          .help(suggestion(callee, planNames(*program)));
      good = false;
      continue;
    }
    if (std::find(plansOfRun.begin(), plansOfRun.end(), entry.name.text) !=
        plansOfRun.end()) {
      diags.error(Diag::DuplicateName, entry.name.range,
                  "the run has two plans `" + entry.name.text + "`");
      good = false;
      continue;
    }
    plans.push_back({entry.name.text, decl, entry.plan.get()});
    plansOfRun.push_back(entry.name.text);
  }
  return good;
}

bool Frontend::readStart(const ast::StartStmt *stmt) {
  if (!stmt && plans.size() == 1) {
    return true;
  }
  if (!stmt) {
    diags
        .error(Diag::NoStart, run->name.range,
               "run `" + run->name.text + "` does not say how it begins")
        .help("add `start " + plans.front().name + "`");
    return false;
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].name == stmt->plan.text) {
      start = i;
      return true;
    }
  }
  diags
      .error(Diag::NoSuchPlan, stmt->plan.range,
             "`start " + stmt->plan.text + "` is none of the run's plans")
      .help(suggestion(stmt->plan.text, plansOfRun));
  return false;
}

/// What happens between steps waits for the model: see lang/run.
bool Frontend::findPlansOfRun() {
  const ast::StartStmt *startStmt = nullptr;
  EntryRequest eval{"eval", {}}, forward{"forward", {}};
  bool good = true;
  for (const auto &stmt : run->body.stmts) {
    if (const auto *set = ast::dynCast<ast::PlansStmt>(stmt)) {
      good &= readPlans(*set);
    } else if (const auto *begin = ast::dynCast<ast::StartStmt>(stmt)) {
      startStmt = begin;
    } else if (const auto *entry = ast::dynCast<ast::EntryStmt>(stmt)) {
      EntryRequest &request =
          entry->which == ast::EntryStmt::Eval ? eval : forward;
      for (const ast::Option &option : entry->values) {
        request.overrides.push_back(
            {option.name.text, option.value.get(), option.name.range});
      }
      good &= readEvery(*entry);
    }
  }
  entries = {{"train", {}}, eval, forward};
  if (!good) {
    return false;
  }
  if (plans.empty()) {
    diags
        .error(Diag::NoSuchPlan, run->name.range,
               "run `" + run->name.text + "` has no plans")
        .help("add `plans NAME = PLAN` and `start NAME`");
    return false;
  }
  return readStart(startStmt);
}

void Frontend::findPlansOfFile() {
  for (const auto &decl : program->root().decls) {
    const auto *plan = ast::dynCast<ast::PlanDecl>(decl);
    if (!plan || plan->model.text != modelName) {
      continue;
    }
    // Of a plan that is there under its own or another name, no more.
    bool defaults =
        std::none_of(plans.begin(), plans.end(), [&](const PlanRequest &known) {
          return known.decl == plan;
        });
    for (const ast::Param &param : plan->params) {
      defaults &= param.defaultValue != nullptr;
    }
    if (defaults) {
      plans.push_back({plan->name.text, plan, nullptr});
    }
  }
}

bool Frontend::keepOnePlan() {
  if (options.plan.empty()) {
    return true;
  }
  std::vector<std::string> names;
  for (const PlanRequest &plan : plans) {
    names.push_back(plan.name);
    if (plan.name == options.plan) {
      plans = {PlanRequest(plan)};
      start = 0;
      return true;
    }
  }
  diags
      .error(Diag::NoSuchPlan, {program->root().id, 0, 0},
             "the set has no plan `" + options.plan + "`")
      .help(suggestion(options.plan, names));
  return false;
}

std::unique_ptr<sema::Model>
Frontend::elaborate(const std::vector<sema::Override> &extra,
                    const std::map<std::string, int64_t> &sizes) {
  sema::ElaborateOptions elaborate;
  elaborate.sizes = sizes;
  elaborate.model = modelName;
  elaborate.overrides = extra;
  elaborate.overrides.insert(elaborate.overrides.end(), defines.begin(),
                             defines.end());
  if (run) {
    for (const auto &call : run->with) {
      elaborate.with.push_back(call.get());
    }
  }
  elaborate.defaultOptimizer = true;
  return sema::elaborateModel(*program, elaborate, context, diags);
}

int Frontend::finish() {
  if (options.jsonDiagnostics) {
    diags.renderJson(std::cerr);
  } else {
    diags.renderText(std::cerr);
  }
  return diags.hasErrors() ? WrongInput : Done;
}

} // namespace cleave::tools
