//===- Hop.cpp - cleave hop -----------------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Control.h"
#include "tools/cleave/Options.h"

#include <iostream>

namespace cleave::tools {

int hopCommand(const Options &options) {
  if (options.plan.empty() != options.status) {
    std::cerr << "error: say which plan to hop to, or `--status`\n";
    return WrongCommand;
  }
  Result<std::string> answer =
      askRun(options.run, options.status ? "status" : "hop " + options.plan);
  if (!answer) {
    std::cerr << "error: " << answer.message() << "\n";
    return WrongInput;
  }
  std::cout << *answer << "\n";
  return Done;
}

} // namespace cleave::tools
