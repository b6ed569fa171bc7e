//===- Phases.h - The phases of a build, by name ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PHASES_H
#define CLEAVE_TOOLS_CLEAVE_PHASES_H

#include <string>
#include <vector>

namespace cleave::tools {

/// In order: `clv` the model as written; `step` the whole training step,
/// differentiated; `spmd` partitioned under each plan; `pipe` in microbatches
/// and stages, where it says so; `kernels` the loops of generated code; `exec`
/// the instruction streams.
inline std::vector<std::string> phaseNames() {
  return {"clv", "step", "spmd", "pipe", "kernels", "exec"};
}

inline std::string phaseList() {
  std::string text;
  for (const std::string &name : phaseNames()) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_PHASES_H
