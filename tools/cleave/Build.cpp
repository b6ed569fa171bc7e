//===- Build.cpp - cleave check, build and explain ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/PlanFile.h"
#include "tools/cleave/Compile.h"
#include "tools/cleave/Frontend.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/Transfers.h"

#include <chrono>
#include <iomanip>
#include <iostream>
#include <unistd.h>

namespace cleave::tools {

int checkCommand(const Options &options) {
  Frontend frontend(options);
  if (frontend.load()) {
    if (options.plan.empty()) {
      frontend.addOtherPlans();
    }
    CompileOptions compileOptions;
    compileOptions.emit = false;
    compile(frontend, compileOptions);
  }
  return frontend.finish();
}

/// `gpt.clv` -> `gpt.plan`.
static std::string defaultOutput(const std::string &file) {
  size_t dot = file.rfind(".clv");
  return (dot == std::string::npos ? file : file.substr(0, dot)) + ".plan";
}

int buildCommand(const Options &options) {
  auto begin = std::chrono::steady_clock::now();
  Frontend frontend(options);
  if (!frontend.load()) {
    return frontend.finish();
  }
  CompileOptions compileOptions;
  compileOptions.stopAfter = options.stopAfter;
  compileOptions.dump = options.dump;
  compileOptions.probe = options.probe;
  compileOptions.variants = options.stopAfter.empty();
  compileOptions.progress = isatty(STDERR_FILENO);
  std::optional<Compilation> result = compile(frontend, compileOptions);
  int code = frontend.finish();
  if (code != Done || !result || result->stopped) {
    return code;
  }
  std::string output =
      options.output.empty() ? defaultOutput(options.file) : options.output;
  if (Status status =
          format::writePlanFile(output, result->set, result->kernels);
      !status) {
    std::cerr << "error: " << status.message() << "\n";
    return WrongInput;
  }
  if (!result->keepsKernels) {
    std::cerr << "note: compiled kernels could not be kept for other builds\n"
              << "help: see --kernel-cache\n";
  }
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  std::cout << output << ": " << result->set.plans.size() << " plans of "
            << result->set.model << ", " << result->set.symbols.size()
            << " kernels, ";
  if (result->kernelsInCache > 0) {
    std::cout << result->kernelsInCache << " of them from the cache, ";
  }
  std::cout << formatBytes(static_cast<int64_t>(result->kernels.size()))
            << " of code, in ";
  std::cout.precision(seconds < 10 ? 2 : 0);
  std::cout << (seconds < 10 ? std::defaultfloat : std::fixed) << seconds
            << " s\n";
  return Done;
}

/// How many microbatches plans make of the batches of a run.
static void printVaried(const Compilation &compilation, std::ostream &out) {
  if (compilation.varied.empty()) {
    return;
  }
  const run::Elaborated &run = *compilation.run;
  out << run.varies << " from " << run.batches.front() << " to "
      << run.batches.back() << ", " << run.batches.size()
      << " sizes; microbatches:\n  " << std::setw(12) << std::left << run.varies
      << std::right;
  for (const auto &[batch, micros] : compilation.varied.front().micros) {
    out << std::setw(6) << batch;
  }
  out << "\n";
  for (const VariedPlan &varied : compilation.varied) {
    out << "  " << std::setw(12) << std::left << varied.plan << std::right;
    for (const auto &[batch, micros] : varied.micros) {
      out << std::setw(6) << micros;
    }
    out << "\n";
  }
}

static int explainCode(const std::string &code) {
  std::optional<Diag> kind = findDiagnostic(code);
  if (!kind) {
    std::cerr << "error: no diagnostic has the code `" << code << "`\n";
    return WrongCommand;
  }
  const DiagInfo &page = info(*kind);
  std::cout << codeOf(*kind) << ": " << page.title << "\n\n"
            << page.explanation << "\n";
  return Done;
}

/// CLV and digits: a code, not a file.
static bool isCode(const std::string &name) {
  return name.size() > 3 && name.starts_with("CLV") &&
         name.find_first_not_of("0123456789", 3) == std::string::npos;
}

int explainCommand(const Options &options) {
  if (isCode(options.file)) {
    return explainCode(options.file);
  }
  Frontend frontend(options);
  if (!frontend.load()) {
    return frontend.finish();
  }
  CompileOptions compileOptions;
  compileOptions.objectCode = false;
  std::optional<Compilation> result = compile(frontend, compileOptions);
  if (result && !frontend.diags.hasErrors()) {
    constexpr double giga = 1e9;
    std::vector<TransferReport> transfers = reportTransfers(
        result->reports, {options.fastLink * giga, options.slowLink * giga, 0});
    if (options.json) {
      explainJson(result->reports, transfers, std::cout);
    } else {
      for (const PlanReport &report : result->reports) {
        explainText(report, std::cout);
      }
      printTransfers(transfers, std::cout);
      printVaried(*result, std::cout);
    }
  }
  return frontend.finish();
}

} // namespace cleave::tools
