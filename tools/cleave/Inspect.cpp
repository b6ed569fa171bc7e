//===- Inspect.cpp - cleave inspect ---------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/PlanFile.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/PrintPlan.h"

#include <iostream>

namespace cleave::tools {

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
  int position = file->findPlan(options.plan);
  if (position < 0) {
    std::cerr << "error: " << options.file << " has no plan `" << options.plan
              << "`\n";
    return WrongInput;
  }
  std::cout << "plan " << options.plan << "\n";
  printPrograms(set, *set.plans[position], std::cout);
  return Done;
}

} // namespace cleave::tools
