//===- Schedule.cpp - cleave schedule -------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lang/parse/Loader.h"
#include "lang/schedule/Schedules.h"
#include "schedule/Csv.h"
#include "tools/cleave/Frontend.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/ScheduleReport.h"

#include <filesystem>
#include <iostream>

namespace cleave::tools {

namespace {

/// One run of the command.
class ScheduleCommand {
public:
  explicit ScheduleCommand(const Options &options) : options(options) {}

  int run();

private:
  bool readCsv();
  bool readSource(const std::string &path, const std::string &only);
  bool readLibrary();
  void evaluate(const ast::ScheduleDecl &decl);
  bool checkFileSizes(const schedule::Schedule &schedule);
  bool prove(const scheduling::Evaluated &evaluated);
  int finish();

  const Options &options;
  SourceManager sources;
  DiagnosticEngine diags{sources};
  std::unique_ptr<Program> program;
  std::vector<scheduling::Evaluated> schedules;
  std::vector<ScheduleReport> reports;
};

} // namespace

/// What a file has where a size was not said.
static int64_t either(int64_t said, int64_t otherwise) {
  return said > 0 ? said : otherwise;
}

bool ScheduleCommand::checkFileSizes(const schedule::Schedule &schedule) {
  if (either(options.stages, schedule.stages) == schedule.stages &&
      either(options.micros, schedule.micros) == schedule.micros &&
      either(options.chunks, schedule.chunks) == schedule.chunks) {
    return true;
  }
  diags
      .error(Diag::BadSchedule, {},
             "`" + options.file + "` has " +
                 scheduling::describeSizes(schedule) +
                 ", the command line says otherwise")
      .help("leave out `--stages`, `--micro` and `--chunks`: a file of actions "
            "has its own sizes");
  return false;
}

bool ScheduleCommand::readCsv() {
  auto evaluated = scheduling::readScheduleFile(options.file, sources, diags);
  if (!evaluated || !checkFileSizes(evaluated->schedule)) {
    return false;
  }
  schedules.push_back(std::move(*evaluated));
  return true;
}

void ScheduleCommand::evaluate(const ast::ScheduleDecl &decl) {
  scheduling::Sizes sizes;
  sizes.stages = either(options.stages, 4);
  sizes.micros = either(options.micros, 8);
  if (options.chunks > 0) {
    sizes.chunks = options.chunks;
  }
  auto evaluated =
      scheduling::evaluateSchedule(decl, nullptr, sizes, {}, sources, diags);
  if (evaluated) {
    schedules.push_back(std::move(*evaluated));
  }
}

bool ScheduleCommand::readSource(const std::string &path,
                                 const std::string &only) {
  program = loadProgram(path, LoadOptions{stdlibPath()}, sources, diags);
  if (!program) {
    return false;
  }
  if (!only.empty()) {
    ast::CallExpr call;
    call.callee.parts.emplace_back().text = only;
    const ast::ScheduleDecl *decl =
        scheduling::findSchedule(program->files, call, diags);
    if (decl) {
      evaluate(*decl);
    }
    return decl != nullptr;
  }
  bool any = false;
  for (const auto &decl : program->root().decls) {
    if (const auto *found = ast::dynCast<ast::ScheduleDecl>(decl)) {
      evaluate(*found);
      any = true;
    }
  }
  if (!any) {
    diags.error(Diag::UnknownSchedule, {},
                "`" + path + "` declares no schedule");
  }
  return any;
}

/// A schedule of the standard library, by its name.
bool ScheduleCommand::readLibrary() {
  for (const std::string &folder : stdlibPath()) {
    std::string path = folder + "/schedules.clv";
    if (std::filesystem::exists(path)) {
      return readSource(path, options.file);
    }
  }
  diags.error(Diag::FileNotFound, {},
              "the standard library has no `schedules.clv`");
  return false;
}

bool ScheduleCommand::prove(const scheduling::Evaluated &evaluated) {
  auto proof = scheduling::proveSchedule(evaluated, diags);
  if (!proof) {
    return false;
  }
  ScheduleReport &report = reports.emplace_back();
  report.schedule = evaluated.schedule;
  report.proof = std::move(*proof);
  report.timeline = schedule::simulate(
      report.schedule,
      schedule::equalTimes(report.schedule, options.forward,
                           options.inputGradient, options.weightGradient,
                           options.link));
  return true;
}

int ScheduleCommand::finish() {
  if (options.jsonDiagnostics) {
    diags.renderJson(std::cerr);
  } else {
    diags.renderText(std::cerr);
  }
  return diags.hasErrors() ? WrongInput : Done;
}

int ScheduleCommand::run() {
  auto endsWith = [&](const char *suffix) {
    return std::filesystem::path(options.file).extension() == suffix;
  };
  bool read = endsWith(".csv")   ? readCsv()
              : endsWith(".clv") ? readSource(options.file, options.schedule)
                                 : readLibrary();
  if (options.csv && read && schedules.size() > 1) {
    std::cerr << "error: `" << options.file
              << "` has several schedules\nhelp: add `--schedule NAME`\n";
    return WrongCommand;
  }
  for (const scheduling::Evaluated &evaluated : schedules) {
    prove(evaluated);
  }
  if (options.csv) {
    for (const ScheduleReport &report : reports) {
      std::cout << schedule::writeCsv(
          report.schedule, options.olderCsv ? schedule::Spelling::Older
                                            : schedule::Spelling::Newer);
    }
  } else if (options.json) {
    scheduleJson(reports, std::cout);
  } else {
    for (const ScheduleReport &report : reports) {
      std::cout << (&report == reports.data() ? "" : "\n");
      scheduleText(report, options.columns, std::cout);
    }
  }
  return finish();
}

int scheduleCommand(const Options &options) {
  return ScheduleCommand(options).run();
}

} // namespace cleave::tools
