//===- Source.h - Plans of a text, elaborated -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PLAN_SOURCE_H
#define CLEAVE_TEST_UNIT_PLAN_SOURCE_H

#include "test/unit/plan/GptFacts.h"

#include "lang/parse/Loader.h"

#include <gtest/gtest.h>

namespace cleave::plan {

/// Elaborates one plan of a text.
struct Source {
  SourceManager sources;
  DiagnosticEngine diags{sources};
  std::unique_ptr<Program> program;
  ModelFacts facts = gptFacts();
  PlanOptions options;
  std::optional<Elaborated> result;

  explicit Source(const std::string &text, const std::string &plan = "p",
                  ModelFacts given = gptFacts(), PlanOptions chosen = {})
      : facts(std::move(given)), options(std::move(chosen)) {
    LoadOptions load;
    load.stdlib = {CLEAVE_SOURCE_DIR "/stdlib"};
    program = loadText("a.clv", text, load, sources, diags);
    if (program) {
      result = elaboratePlan(program->files, plan, facts, options, diags);
    }
  }
  std::string layout(layout::Role role, const std::string &path,
                     std::vector<std::string> dims,
                     const std::string &label = "") {
    if (!result) {
      return "error: " + diags.text();
    }
    layout::ValueInfo value = valueOf(facts, role, path, label, dims);
    layout::Resolved resolved = layout::resolve(result->plan, value);
    if (!resolved.error.empty()) {
      return "error: " + resolved.error;
    }
    return layout::describe(resolved.layout, dims, result->plan.mesh);
  }
  std::string atoms() {
    std::string text;
    for (const layout::Atom &atom : result->plan.mesh.atoms) {
      text += (text.empty() ? "" : " ") + atom.name + ":" +
              std::to_string(atom.size);
    }
    return text;
  }
  std::string axis(const std::string &name) {
    const layout::Axis *axis = result->plan.mesh.findAxis(name);
    std::string text;
    for (layout::AtomId id : axis->atoms) {
      text += (text.empty() ? "" : " ") +
              std::to_string(result->plan.mesh.atoms[id].size);
    }
    return text;
  }
  /// The kinds reported, in order.
  std::vector<Diag> kinds() const {
    std::vector<Diag> result;
    for (const Diagnostic &diagnostic : diags.all()) {
      result.push_back(diagnostic.kind);
    }
    return result;
  }
  bool expect(const layout::ProgramRecord *train = nullptr,
              std::optional<double> bubble = std::nullopt, int64_t peak = -1,
              std::optional<double> simulatedBubble = std::nullopt) {
    ExpectFacts known;
    known.model = &facts;
    known.train = train;
    known.bubble = bubble;
    known.simulatedBubble = simulatedBubble;
    known.peak = peak;
    return result &&
           checkExpectations(result->plan, result->expectations, known, diags);
  }
};

inline std::string planText(const std::string &body) {
  return "plan p of gpt {\n" + body + "\n}\n";
}

/// One error of kind `kind` whose message is `message` (and has `help`).
inline void fails(const std::string &text, Diag kind,
                  const std::string &message, const std::string &help = "",
                  const std::string &name = "p",
                  ModelFacts facts = gptFacts()) {
  Source source(text, name, std::move(facts));
  source.expect();
  ASSERT_EQ(source.diags.errorCount(), 1u) << source.diags.text();
  for (const Diagnostic &found : source.diags.all()) {
    if (found.severity != Severity::Error) {
      continue;
    }
    EXPECT_EQ(codeOf(found.kind), codeOf(kind)) << source.diags.text();
    EXPECT_EQ(found.message, message);
    std::string helps;
    for (const std::string &one : found.help) {
      helps += one + "\n";
    }
    EXPECT_NE(helps.find(help), std::string::npos) << helps;
  }
}

} // namespace cleave::plan

#endif // CLEAVE_TEST_UNIT_PLAN_SOURCE_H
