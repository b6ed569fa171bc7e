//===- LanguageTest.cpp - Schedules as the language says them -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is wrong with a schedule's program is tested in test/schedule; here,
// what programs mean, and how a pipeline finds its schedule and gives it
// arguments.
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include "lang/ast/Print.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::schedule;

namespace {

std::string order(const std::optional<scheduling::Evaluated> &evaluated,
                  int32_t stage) {
  std::string text;
  if (evaluated) {
    const Schedule &schedule = evaluated->schedule;
    for (const Action &action : schedule.actions[stage]) {
      text += (text.empty() ? "" : " ") + label(action, schedule.chunks);
    }
  }
  return text;
}

/// A file whose plan `p` has a pipeline with that call.
struct Pipeline : Source {
  const ast::CallExpr *call = nullptr;
  const ast::ScheduleDecl *decl = nullptr;
  sema::Environment environment;

  explicit Pipeline(const std::string &declarations, const std::string &with)
      : Source(declarations + "plan p of m { pipeline layer on pipe with " +
               with + " }\n") {
    for (const auto &candidate : program->root().decls) {
      if (auto *plan = ast::dynCast<ast::PlanDecl>(candidate)) {
        call = ast::dynCast<ast::PipelineStmt>(plan->body.stmts[0])
                   ->schedule.get();
      }
    }
    decl = scheduling::findSchedule(program->files, *call, diags);
    environment.values["two"] = sema::Value::ofInteger(2);
  }

  std::optional<scheduling::Evaluated> run(scheduling::Sizes sizes) {
    return decl ? scheduling::evaluateSchedule(*decl, call, sizes, call->range,
                                               sources, diags, &environment)
                : std::nullopt;
  }
  /// The first error.
  std::string wrong() {
    run({1, 1, std::nullopt});
    return diags.all().empty() ? "" : diags.all().front().message;
  }
};

} // namespace

TEST(Programs, VariablesConditionsAndTuples) {
  Source source(
      "schedule s(stage, micro) {\n"
      "  var next, more = 0, true\n"
      "  for m, c in [(0, 1), (1, 2)] {\n"
      "    let a, b = (m, c)\n"
      "    if b == 2 { next = next + 1 } else if a == 0 { forward a }\n"
      "    else { more = false }\n"
      "  }\n"
      "  forward next\n"
      "  if stage == 0 and more { for m in [1, 0] { backward m } }\n"
      "}\n");
  EXPECT_EQ(order(source.evaluate("s", 2, 2), 0), "F0 F1 B1 B0")
      << source.diags.text();
  EXPECT_EQ(order(source.evaluate("s", 2, 2), 1), "F0 F1");
}

TEST(Programs, ChunksByDefault) {
  Source source(
      "schedule two(micro, chunks = 2) folded {\n"
      "  for c in 0 .. chunks { forward (0, c) }\n"
      "}\n"
      "schedule any(micro, chunks) dealt { forward (0, chunks - 1) }\n"
      "schedule single(micro) { forward 0 }\n");
  EXPECT_EQ(order(source.evaluate("two", 1, 1), 0), "F0.0 F0.1");
  EXPECT_EQ(order(source.evaluate("two", 1, 1, 3), 0), "F0.0 F0.1 F0.2");
  EXPECT_EQ(order(source.evaluate("two", 1, 1, 1), 0), "F0");
  EXPECT_EQ(order(source.evaluate("any", 1, 1), 0), "F0");
  EXPECT_EQ(order(source.evaluate("single", 1, 1), 0), "F0");
  EXPECT_EQ(source.evaluate("two", 2, 1)->schedule.placement,
            Placement::Folded);
  EXPECT_EQ(source.evaluate("any", 2, 1, 2)->schedule.placement,
            Placement::Dealt);
  EXPECT_EQ(source.evaluate("any", 2, 1, 1)->schedule.placement,
            Placement::Plain);
}

// Actions know the statements that they come from.
TEST(Programs, Sources) {
  Source source("schedule s(micro) {\n"
                "  for m in 0 .. micro { forward m; backward m }\n"
                "}\n");
  auto evaluated = source.evaluate("s", 1, 2);
  ASSERT_TRUE(evaluated);
  std::vector<std::string> texts;
  for (const Action &action : evaluated->schedule.actions[0]) {
    texts.emplace_back(source.sources.text(evaluated->rangeOf(action)));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"forward m", "backward m",
                                             "forward m", "backward m"}));
  EXPECT_EQ(evaluated->sources.size(), 2u);
}

TEST(Programs, SchedulesFromFilesPrintAndParse) {
  Source source("schedule s from \"a \\\"b\\\".csv\"\n");
  ASSERT_TRUE(source.program) << source.diags.text();
  EXPECT_EQ(ast::print(source.program->root()),
            "schedule s from \"a \\\"b\\\".csv\"\n");
}

TEST(Arguments, ByPositionAndName) {
  const std::string lagging =
      "schedule lagging(stage, micro, lag, more: int = lag + 1) {\n"
      "  forward lag; backward more\n"
      "}\n";
  for (const char *with :
       {"lagging(1)", "lagging(lag: 1)", "lagging(1, 2)",
        "lagging(more: two, lag: two - 1)", "lagging(two - 1, two)"}) {
    Pipeline pipeline(lagging, with);
    EXPECT_EQ(order(pipeline.run({1, 3, std::nullopt}), 0), "F1 B2")
        << with << pipeline.diags.text();
  }
  auto wrong = [&](const char *with) {
    return Pipeline(lagging, with).wrong();
  };
  EXPECT_EQ(wrong("lagging"), "`lag` of `lagging` has no value");
  EXPECT_EQ(wrong("lagging(1, lag: 2)"), "`lag` is given twice");
  EXPECT_EQ(wrong("lagging(1, 2, 3)"),
            "`lagging` takes 2 arguments beside its sizes");
  EXPECT_EQ(wrong("lagging(leg: 2)"), "`lagging` has no parameter `leg`");
  EXPECT_EQ(wrong("lagging(stage: 2)"), "`stage` is given by the pipeline");
  EXPECT_EQ(wrong("lagging(three)"), "unknown name `three`");
  EXPECT_EQ(wrong("lagging(1, 1.5)"),
            "`more` is an integer, not the number 1.5");
}

TEST(Names, FindTheNearest) {
  // The file's own goes before the one that it uses.
  Pipeline own("use std.schedules\nschedule gpipe(micro) { forward 0 }\n",
               "gpipe");
  ASSERT_TRUE(own.decl);
  EXPECT_EQ(order(own.run({1, 2, std::nullopt}), 0), "F0");
  Pipeline used("use std.schedules\n", "schedules.gpipe");
  ASSERT_TRUE(used.decl) << used.diags.text();
  EXPECT_EQ(order(used.run({1, 2, std::nullopt}), 0), "F0 F1 B0 B1");

  Pipeline misspelt("use std.schedules\n", "gpip");
  EXPECT_EQ(misspelt.decl, nullptr);
  EXPECT_NE(misspelt.diags.text().find("did you mean `gpipe`?"),
            std::string::npos);
  Pipeline none("", "gpipe");
  EXPECT_EQ(none.decl, nullptr);
  EXPECT_NE(none.diags.text().find("add `use std.schedules` at the head"),
            std::string::npos);
}

TEST(Library, IsShort) {
  // As readable as a paper's figure.
  Source &source = librarySource();
  for (const ast::ScheduleDecl *decl :
       scheduling::allSchedules(source.program->files)) {
    LineColumn first =
        source.sources.lineColumn(decl->range.file, decl->range.begin);
    LineColumn last =
        source.sources.lineColumn(decl->range.file, decl->range.end);
    EXPECT_LE(last.line - first.line + 1, 25u) << decl->name.text;
  }
}
