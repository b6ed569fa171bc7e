//===- CommandLine.h - From arguments to a command --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H
#define CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H

namespace cleave::tools {

/// Parses the arguments, runs the command and returns its exit code.
int runCommandLine(int argc, char **argv);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_COMMANDLINE_H
