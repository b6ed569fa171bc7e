//===- main.cpp - The cleave driver ---------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/CommandLine.h"

int main(int argc, char **argv) {
  return cleave::tools::runCommandLine(argc, argv);
}
