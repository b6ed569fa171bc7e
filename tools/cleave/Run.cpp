//===- Run.cpp - cleave run -----------------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Options.h"
#include "tools/cleave/Trainer.h"

#include <iostream>

namespace cleave::tools {

static int fail(const Status &status) {
  std::cerr << "error: " << status.message() << "\n";
  return status.kind() == ErrorKind::Peer ? Lost : WrongInput;
}

int runCommand(const Options &options) {
  Trainer trainer(options);
  if (Status status = trainer.prepare(); !status) {
    return fail(status);
  }
  if (Status status = trainer.train(); !status) {
    return fail(status);
  }
  if (Status status = trainer.finish(); !status) {
    return fail(status);
  }
  if (!trainer.whatFailed()) {
    return fail(trainer.whatFailed());
  }
  return trainer.wasStopped() ? Interrupted : Done;
}

} // namespace cleave::tools
