// Each kind of diagnostic of reading and parsing (01xx) is triggered by a test,
// and a test says so if one is not.
#include "lang/parse/Loader.h"
#include "lang/parse/Parser.h"

#include <gtest/gtest.h>

#include <set>

using namespace cleave;

namespace {

struct Case {
  Diag kind;
  std::string source;
  std::string message; // part of it
  std::string help;    // part of it
};

std::string inModel(const std::string &body) {
  return "model m {\n" + body + "\n}\n";
}
std::string inPlan(const std::string &body) {
  return "plan p of m {\n" + body + "\n}\n";
}
std::string repeat(const std::string &text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) {
    all += text;
  }
  return all;
}

const std::vector<Case> &cases() {
  static const std::vector<Case> all = {
      {Diag::EmptyFile, "", "no declarations", "a source declares"},
      {Diag::EmptyFile, "// nothing\n\n;\n", "no declarations", ""},
      {Diag::InvalidUtf8, "model m { let x = \"\xff\" }",
       "byte 0xff at offset 19", "UTF-8"},
      {Diag::InvalidUtf8,
       std::string("\xff\xfe"
                   "m\0o\0",
                   6),
       "offset 0", "UTF-16"},
      {Diag::InvalidUtf8, "// \xed\xa0\x80", "byte 0xed", ""},
      {Diag::InvalidUtf8, "// \xc0\xaf", "byte 0xc0", ""},
      {Diag::NestedTooDeeply, inModel("let x = " + repeat("(", 100000)),
       "256 deep", "`let`"},
      {Diag::NestedTooDeeply, repeat("{", 1000), "256 deep", ""},
      {Diag::NestedTooDeeply, inModel("let x = " + repeat("a + ", 2000) + "a"),
       "1024 operations", "`let`"},
      {Diag::NestedTooDeeply, inModel("let x = " + repeat("-", 2000) + "a"),
       "1024 operations", ""},
      {Diag::NestedTooDeeply, inModel("let x = " + repeat("a ** ", 2000) + "a"),
       "1024 operations", ""},
      {Diag::NestedTooDeeply, inModel("let x = a" + repeat(".b", 2000)),
       "1024 operations", ""},
      {Diag::NestedTooDeeply,
       inPlan("if a { }" + repeat(" else if a { }", 2000)), "`else if`", ""},
      {Diag::UnterminatedString, inModel("let x = \"abc\nlet y = 3"),
       "not closed on its line", "add `\"`"},
      {Diag::UnterminatedString, inModel("let x = \"abc\\"), "not closed", ""},
      {Diag::UnexpectedCharacter, inModel("let x = a && b"), "characters `&&`",
       "write `and`"},
      {Diag::UnexpectedCharacter, inModel("let x = 'a'"), "`'`", "strings"},
      {Diag::UnexpectedCharacter, inModel("let größe = 3"), "`öß`", "ASCII"},
      {Diag::UnexpectedCharacter, inModel("let x = a ≤ b"), "`≤`", "`<=`"},
      {Diag::UnexpectedCharacter, inModel(std::string("let x = \0 3", 11)),
       "`\\x00`", ""},
      {Diag::UnexpectedCharacter, "# comment\n" + inModel(""), "`#`", "`//`"},
      {Diag::UnclosedBracket, inModel("let x = f(a, b\nlet y = 3"),
       "`(` is never closed", "add `)`"},
      {Diag::UnclosedBracket, inModel("let x = [a\nx = 3"), "`[`", ""},
      {Diag::UnclosedBracket, "model m {\n let x = 3\n\nplan p of m { }",
       "`{` is never closed", "add `}`"},
      {Diag::UnclosedBracket, "model m { let x = f(3; let y = 4 }", "`(`", ""},
      {Diag::UnclosedBracket, "model m {", "`{`", ""},
      {Diag::UnmatchedBracket, inModel("let x = a)"), "`)` closes nothing",
       "remove it"},
      {Diag::UnmatchedBracket, inModel("let x = (a]"), "`]` does not close `(`",
       "write `)`"},
      {Diag::UnmatchedBracket, inModel("") + "}\n", "`}` closes nothing", ""},
      {Diag::SyntaxError, inPlan("shard head to tensor"),
       "expected `on` or `also`, found `to`", "the form is `shard DIM"},
      {Diag::SyntaxError, inPlan("shard head on"),
       "expected a name, found the end of the line", ""},
      {Diag::SyntaxError, inPlan("mesh [a: 2 b: 4]"),
       "expected `]` or `,`, found `b`", "mesh"},
      {Diag::SyntaxError, inPlan("expect batch = 3"), "found `=`",
       "`==` compares"},
      {Diag::SyntaxError, inPlan("use zero(stage = 3)"), "found `=`",
       "`NAME: VALUE`"},
      {Diag::SyntaxError, inModel("let x = 80 Gib"), "`Gib` is not a unit",
       "`GiB`"},
      {Diag::SyntaxError, inModel("let x = 10%3"), "found `3`",
       "blanks around"},
      {Diag::SyntaxError, inModel("x += 3"), "found `+`", "`x = x + …`"},
      {Diag::SyntaxError, inModel("let a, b = 1, 2, 3"), "2 names but 3 values",
       ""},
      {Diag::SyntaxError, inModel("let a = f(x)(y)"),
       "only a name can be called", ""},
      {Diag::SyntaxError, "model m(layers: 3) { }", "found `3`",
       "`NAME = VALUE`"},
      {Diag::UnknownStatement, inModel("if a { } ; else { }"), "`else`",
       "its `if`"},
      {Diag::SyntaxError, "plan p off m { }", "found `off`", "plan NAME"},
      {Diag::SyntaxError, inPlan("pipeline layer on pipe as [1.5 layer] with"),
       "end of the line", ""},
      {Diag::UnknownStatement, inPlan("shrd head on tensor"),
       "unknown statement `shrd`", "did you mean `shard`?"},
      {Diag::UnknownStatement, inPlan("param w: f32"), "`param`",
       "belongs in a model"},
      {Diag::UnknownStatement, inPlan("x = 3"), "`x`", "`let`"},
      {Diag::UnknownStatement, inPlan("3"), "cannot begin with `3`", ""},
      {Diag::UnknownStatement, inModel("lett x = 3"), "`lett`", "`let`"},
      {Diag::UnknownStatement, inModel("shard head on tensor"), "`shard`",
       "a plan"},
      {Diag::UnknownStatement, inModel("f(x)"), "a value alone", "`let NAME"},
      {Diag::UnknownStatement, inModel("for i in 0 .. 3 { x = 3 }"),
       "cannot stand in a model", "schedule"},
      {Diag::UnknownStatement, "fn f() { minimize x }", "in a function",
       "a model"},
      {Diag::UnknownStatement, "run r of m with a { plan a = b }", "`plan`",
       "`plans`"},
      {Diag::UnknownDeclaration, "modle m { let x = 3 }",
       "unknown declaration `modle`", "`model`"},
      {Diag::UnknownDeclaration, "shard x on y", "`shard`", "a plan"},
      {Diag::UnknownDeclaration, "3\nmodel m { }", "cannot begin with `3`", ""},
      {Diag::BadNumber, inModel("let x = 12abc"), "`12abc`", "blank"},
      {Diag::BadNumber, inModel("let x = .5"), "`.5`", "`0.5`"},
      {Diag::BadNumber, inModel("let x = 1.2.3"), "`1.2.3`", ""},
      {Diag::BadNumber, inModel("let x = 5."), "`5.`", "`5.0`"},
      {Diag::BadNumber, inModel("let x = 1__0"), "`1__0`", ""},
      {Diag::BadNumber, inModel("let x = 9223372036854775808"), "too large",
       ""},
      {Diag::BadNumber, inModel("let x = 1e999"), "double", ""},
      {Diag::BadNumber, inPlan("pipeline l on p as [1.5 l] with s"),
       "whole number", ""},
      {Diag::BadEscape, inModel("let x = \"a\\qb\""), "`\\q`", "strings know"},
      {Diag::ReservedWord, inModel("let of = 3"), "`of` is a reserved word",
       "`of_`"},
      {Diag::ReservedWord, inModel("dim a = 3, with = 4"), "`with`", ""},
      {Diag::ReservedWord, "model in(x = 3) { }", "`in`", ""},
      {Diag::MissingStatementEnd, inModel("let a = 3 let b = 4"),
       "before the last one has ended", "before `let`"},
      {Diag::MissingStatementEnd, inPlan("mesh [a: 2] shard x on a"), "", ""},
      {Diag::BlockComment, "/* a \"\n b */\n" + inModel(""), "`/*`", "`//`"},
      {Diag::BlockComment, inPlan("/* open"), "`/*`", ""},
      {Diag::MisplacedUse, inModel("") + "use std.nn\n", "before", "head"},
      {Diag::FileTooLarge, std::string((16 << 20) + 1, ' '), "16777217 bytes",
       ""},
  };
  return all;
}

TEST(ParseErrors, EachCaseGivesItsKind) {
  for (const Case &test : cases()) {
    SourceManager sources;
    DiagnosticEngine diags(sources);
    auto file = parseFile(sources, sources.add("t.clv", test.source), diags);
    std::string source = test.source.substr(0, 200);
    EXPECT_FALSE(file) << source;
    if (diags.all().empty()) {
      ADD_FAILURE() << "no error: " << source;
      continue;
    }
    const Diagnostic &first = diags.all()[0];
    EXPECT_EQ(codeOf(first.kind), codeOf(test.kind))
        << source << "\n"
        << diags.text().substr(0, 1000);
    EXPECT_NE(first.message.find(test.message), std::string::npos)
        << source << "\n"
        << first.message;
    std::string help;
    for (const std::string &line : first.help) {
      help += line + "\n";
    }
    EXPECT_NE(help.find(test.help), std::string::npos) << source << "\n"
                                                       << help;
    // No error follows from another.
    EXPECT_EQ(diags.errorCount(), 1u) << source << "\n"
                                      << diags.text().substr(0, 3000);
  }
}

TEST(ParseErrors, EveryKindHasACase) {
  std::set<Diag> seen = {Diag::FileNotFound, Diag::UseCycle}; // LoaderTest.cpp
  for (const Case &test : cases()) {
    seen.insert(test.kind);
  }
  for (const DiagInfo &kind : allDiagnostics()) {
    if (kind.code < 200) {
      EXPECT_TRUE(seen.count(kind.kind)) << codeOf(kind.kind);
    }
  }
}

TEST(ParseErrors, IndependentErrorsAreAllReported) {
  SourceManager sources;
  DiagnosticEngine diags(sources);
  parseFile(sources,
            sources.add("t.clv", "modle a { }\n"
                                 "model m {\n"
                                 "  let x = \n"
                                 "  param w f32\n"
                                 "  repeat layer = {\n"
                                 "    let of = 3\n"
                                 "  }\n"
                                 "  let s = \"open\n"
                                 "  if a = b { let y = f(1, ) ) }\n"
                                 "}\n"
                                 "plan p of m {\n"
                                 "  in moe { shard a onto b; shard c on }\n"
                                 "  if x { shard } else { mesh }\n"
                                 "  shard a on b\n"
                                 "  expect all_gather on x == per layer\n"
                                 "}\n"
                                 "run r of m { start }\n"),
            diags);
  std::string lines;
  for (const Diagnostic &d : diags.all()) {
    lines +=
        std::to_string(sources.lineColumn(d.range.file, d.range.begin).line) +
        " ";
  }
  EXPECT_EQ(lines, "1 3 4 5 6 8 9 9 12 12 13 13 15 17 17 ") << diags.text();
}

TEST(ParseErrors, CaretsAreNarrow) {
  SourceManager sources;
  DiagnosticEngine diags(sources);
  parseFile(sources,
            sources.add("t.clv", "plan p of m {\r\n\tshard head\tto "
                                 "tensor // c\r\n}\r\n"),
            diags);
  EXPECT_EQ(diags.text(),
            "t.clv:2:13: error[CLV0109]: expected `on` or `also`, found `to`\n"
            "    2 |     shard head  to tensor // c\n"
            "      |                 ^~\n"
            "help: the form is `shard DIM, … [also] on AXIS * … [else AXIS | "
            "else none] [even] [for SELECTION]`\n");
}

} // namespace
