//===- Control.h - Requests to a run that is under way ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave hop RUN deep` reaches a run of the same user through a Unix socket,
// `RUN.sock` in a directory that only the user can use: `cleave` in
// XDG_RUNTIME_DIR, else `/tmp/cleave-UID`. A request is one line; the answer is
// all that comes before the end, and begins with `ok` or `error`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_CONTROL_H
#define CLEAVE_TOOLS_CLEAVE_CONTROL_H

#include "runtime/support/Status.h"

#include <functional>
#include <memory>
#include <string>

namespace cleave::tools {

class Control {
public:
  /// Fails where a live run has the name.
  static Result<std::unique_ptr<Control>> open(const std::string &name);
  ~Control();
  Control(const Control &) = delete;

  /// Answers the requests that have come, without waiting for any.
  void answer(const std::function<std::string(const std::string &)> &handler);

private:
  Control() = default;
  std::string path;
  int listener = -1;
};

/// The answer of a live run, without `ok`. Fails where there is none, or with
/// what the run answers.
Result<std::string> askRun(const std::string &name, const std::string &request);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_CONTROL_H
