//===- Library.h - Schedules of the standard library ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_SCHEDULE_LIBRARY_H
#define CLEAVE_TEST_UNIT_SCHEDULE_LIBRARY_H

#include "lang/parse/Loader.h"
#include "lang/schedule/Schedules.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A source text and its schedules.
struct Source {
  SourceManager sources;
  DiagnosticEngine diags{sources};
  std::unique_ptr<Program> program;

  explicit Source(const std::string &text) {
    LoadOptions options;
    options.stdlib = {CLEAVE_SOURCE_DIR "/stdlib"};
    program = loadText("a.clv", text, options, sources, diags);
  }

  std::optional<scheduling::Evaluated>
  evaluate(const std::string &name, int64_t stages, int64_t micros,
           std::optional<int64_t> chunks = std::nullopt) {
    if (!program) {
      return std::nullopt;
    }
    for (const ast::ScheduleDecl *decl :
         scheduling::allSchedules(program->files)) {
      if (decl->name.text == name) {
        return scheduling::evaluateSchedule(
            *decl, nullptr, {stages, micros, chunks}, {}, sources, diags);
      }
    }
    return std::nullopt;
  }
};

/// A schedule of the standard library, and the chunks that it is for.
struct Known {
  std::string name;
  std::vector<int64_t> chunks;
};

inline std::vector<Known> library() {
  return {{"gpipe", {1}},
          {"one_f_one_b", {1}},
          {"interleaved", {1, 2, 4}},
          {"breadth_first", {1, 2, 4}},
          {"zb_h1", {1}},
          {"zb_h2", {1}},
          {"zb_v", {2}},
          {"dualpipe_v", {2}}};
}

inline Source &librarySource() {
  static Source source("use std.schedules\nfn unused(x) { return x }\n");
  return source;
}

} // namespace cleave

#endif // CLEAVE_TEST_UNIT_SCHEDULE_LIBRARY_H
