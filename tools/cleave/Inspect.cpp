//===- Inspect.cpp - cleave inspect ---------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/exec/Exec.h"
#include "runtime/format/PlanFile.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/PrintPlan.h"

#include "llvm/Support/raw_ostream.h"
#include <iostream>

namespace cleave::tools {

/// One plan as the exec dialect says it.
static int printPlan(const format::PlanSetT &set, const std::string &name) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = toExec(context, set);
  if (!module) {
    std::cerr << "error: " << llvm::toString(module.takeError()) << "\n";
    return WrongInput;
  }
  mlir::Operation &file = (*module)->getBody()->front();
  mlir::SymbolTable::lookupSymbolIn(&file, name)->print(llvm::outs());
  llvm::outs() << "\n";
  llvm::outs().flush();
  return Done;
}

int inspectCommand(const Options &options) {
  Result<format::PlanFile> file =
      format::PlanFile::open(options.file, {.forThisProcessor = false});
  if (!file) {
    std::cerr << "error: " << file.message() << "\n";
    return WrongInput;
  }
  const format::PlanSetT &set = file->set();
  if (options.plan.empty()) {
    std::cout << options.file << ": " << file->size() << " bytes, "
              << file->kernels().size() << " of them kernels\n";
    printSet(set, std::cout);
    return Done;
  }
  if (file->findPlan(options.plan) < 0) {
    std::cerr << "error: " << options.file << " has no plan `" << options.plan
              << "`\n";
    return WrongInput;
  }
  return printPlan(set, options.plan);
}

} // namespace cleave::tools
