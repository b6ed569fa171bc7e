#include "lang/ast/Print.h"
#include "lang/ast/Units.h"
#include "lang/parse/Parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace cleave;
using namespace cleave::ast;

namespace {

struct Parsed {
  SourceManager sources;
  DiagnosticEngine diags{sources};
  std::unique_ptr<File> file;

  explicit Parsed(const std::string &text) {
    file = parseFile(sources, sources.add("t.clv", text), diags);
  }
};

// The statements of a plan, each printed, joined by `; `.
std::string planOf(const std::string &body) {
  Parsed parsed("plan p of m {\n" + body + "\n}");
  if (!parsed.file) {
    return parsed.diags.text();
  }
  std::string text;
  for (const StmtPtr &stmt :
       static_cast<PlanDecl &>(*parsed.file->decls[0]).body.stmts) {
    text += (text.empty() ? "" : "; ") + print(*stmt);
  }
  return text;
}

std::string codeOf(const std::string &body,
                   const std::string &head = "fn f()") {
  Parsed parsed(head + " {\n" + body + "\n}");
  if (!parsed.file) {
    return parsed.diags.text();
  }
  std::string whole = print(*parsed.file->decls[0]);
  size_t begin = whole.find("{\n") + 4;
  return whole.substr(begin, whole.size() - begin - 2);
}

std::string exprOf(const std::string &text) {
  std::string all = codeOf("let x = " + text);
  return all.starts_with("let x = ") ? all.substr(8) : all;
}

// As `exprOf`, with every operation in parentheses.
std::string grouped(const Expr &e) {
  if (auto *b = dynCast<BinaryExpr>(&e)) {
    std::string op = spelling(b->op);
    op = b->op >= BinaryOp::And ? " " + op + " " : op;
    return "(" + grouped(*b->left) + op + grouped(*b->right) + ")";
  }
  if (auto *u = dynCast<UnaryExpr>(&e)) {
    return std::string(u->op == UnaryOp::Not ? "(not " : "(-") +
           grouped(*u->operand) + ")";
  }
  return print(e);
}

std::string groupedOf(const std::string &text) {
  Parsed parsed("fn f() { let x = " + text + " }");
  if (!parsed.file) {
    return parsed.diags.text();
  }
  auto &fn = static_cast<FnDecl &>(*parsed.file->decls[0]);
  return grouped(*static_cast<LetStmt &>(*fn.body.stmts[0]).values[0]);
}

std::string readFile(const std::filesystem::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

class Language : public testing::TestWithParam<std::string> {};

std::vector<std::string> languageFiles() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(
           CLEAVE_SOURCE_DIR "/test/lang/Inputs/language")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Every file is accepted, with either kind of line end, and its printed form
// parses to the same tree.
TEST_P(Language, IsAccepted) {
  std::string text =
      readFile(std::string(CLEAVE_SOURCE_DIR) + "/test/lang/Inputs/language/" +
               GetParam() + ".clv");
  Parsed first(text);
  ASSERT_TRUE(first.file) << first.diags.text();
  EXPECT_FALSE(first.file->decls.empty());
  std::string once = print(*first.file);
  Parsed second(once);
  ASSERT_TRUE(second.file) << second.diags.text();
  EXPECT_EQ(once, print(*second.file));

  std::string crlf = "\xEF\xBB\xBF";
  for (char c : text) {
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  }
  Parsed third(crlf);
  ASSERT_TRUE(third.file) << third.diags.text();
  EXPECT_EQ(once, print(*third.file));
}

INSTANTIATE_TEST_SUITE_P(Files, Language, testing::ValuesIn(languageFiles()),
                         [](const auto &info) { return info.param; });

TEST(Language, HasItsFiles) { EXPECT_GE(languageFiles().size(), 13u); }

TEST(Expressions, Precedence) {
  EXPECT_EQ(groupedOf("a + b * c - d"), "((a+(b*c))-d)");
  EXPECT_EQ(groupedOf("a / b % c"), "((a/b)%c)");
  EXPECT_EQ(groupedOf("-a ** b"), "(-(a**b))");
  EXPECT_EQ(groupedOf("a ** b ** c"), "(a**(b**c))");
  EXPECT_EQ(groupedOf("size(key) ** -0.5 * b"), "((size(key)**(-0.5))*b)");
  EXPECT_EQ(groupedOf("a ** -b ** c"), "(a**(-(b**c)))");
  EXPECT_EQ(groupedOf("not a == b and c or d"), "(((not (a==b)) and c) or d)");
  EXPECT_EQ(groupedOf("a < b + 1"), "(a<(b+1))");
  EXPECT_EQ(groupedOf("--a"), "(-(-a))");
  EXPECT_EQ(groupedOf("(a + b) * c"), "((a+b)*c)");
}

TEST(Expressions, PrintKeepsTheTree) {
  for (const char *text : {"(a + b) * c",
                           "a - (b - c)",
                           "(a ** b) ** c",
                           "-(a + b)",
                           "(-a) ** b",
                           "not (a and b)",
                           "(a or b) and c",
                           "[for r in rounds for c in 0 .. n: "
                           "(r, c)]",
                           "f(x, over: [a, b]) as g",
                           "a[3 .. every 4]",
                           "a[.. 3]",
                           "a[..]",
                           "a[every 2]",
                           "(a,)",
                           "(all except moe)",
                           "p.q[1].r",
                           "a ** -(b ** c)",
                           "(a == b) == c",
                           "\"a\\n\\\"\\\\\"",
                           "1e-08",
                           "80 GiB",
                           "450 GB/s",
                           "1.5%",
                           "true and false"}) {
    std::string once = exprOf(text);
    EXPECT_EQ(exprOf(once), once);
    EXPECT_EQ(groupedOf(once), groupedOf(text)) << once;
  }
}

TEST(Expressions, Numbers) {
  auto number = [](const std::string &text) {
    Parsed parsed("fn f() { let x = " + text + " }");
    EXPECT_TRUE(parsed.file) << parsed.diags.text();
    auto &fn = static_cast<FnDecl &>(*parsed.file->decls[0]);
    auto &let = static_cast<LetStmt &>(*fn.body.stmts[0]);
    auto *number = dynCast<NumberExpr>(let.values[0]);
    EXPECT_TRUE(number);
    return std::tuple(number->isInteger, number->integer, number->value,
                      number->unit);
  };
  using T = std::tuple<bool, int64_t, double, std::string>;
  EXPECT_EQ(number("9_765_625"), T(true, 9765625, 9765625, ""));
  EXPECT_EQ(number("9223372036854775807"), T(true, INT64_MAX, 0x1p63, ""));
  EXPECT_EQ(number("1e-8"), T(false, 0, 1e-8, ""));
  EXPECT_EQ(number("80 GiB"), T(true, 80, 80, "GiB"));
  EXPECT_EQ(number("80GiB"), T(true, 80, 80, "GiB"));
  EXPECT_EQ(number("450 GB/s"), T(true, 450, 450, "GB/s"));
  EXPECT_EQ(number("989 TFLOP/s"), T(true, 989, 989, "TFLOP/s"));
  EXPECT_EQ(number("1.5%"), T(false, 0, 1.5, "%"));
  EXPECT_EQ(number("0 B"), T(true, 0, 0, "B"));
  EXPECT_EQ(number("50 steps"), T(true, 50, 50, "steps"));
}

TEST(Expressions, PercentIsAUnitOnlyWhereItTouches) {
  EXPECT_EQ(groupedOf("a % 3"), "(a%3)");
  EXPECT_EQ(groupedOf("10 % 3"), "(10%3)");
  EXPECT_EQ(groupedOf("x <= 8%"), "(x<=8%)");
}

TEST(Units, Scales) {
  EXPECT_EQ(findUnit("GiB")->scale, 1073741824.0);
  EXPECT_EQ(findUnit("GB/s")->quantity, Quantity::BytesPerSecond);
  EXPECT_EQ(findUnit("us")->scale, 1e-6);
  EXPECT_EQ(findUnit("%")->scale, 0.01);
  EXPECT_EQ(findUnit("")->scale, 1.0);
  EXPECT_FALSE(findUnit("Gib"));
}

TEST(Statements, EndAtLineEndsAndSemicolons) {
  EXPECT_EQ(codeOf("let a = 1; let b = 2\n\n;; let c = 3"),
            "let a = 1\n  let b = 2\n  let c = 3");
  // Not inside brackets, nor after a comma.
  EXPECT_EQ(codeOf("let a = f(1,\n 2\n)\nlet b,\n c = [1\n, 2], 3"),
            "let a = f(1, 2)\n  let b, c = [1, 2], 3");
  // Nor before an operator, `as`, `else` or a block.
  EXPECT_EQ(codeOf("let a = b\n  + c\n  * d\nlet e = f(x)\n  as g"),
            "let a = b + c * d\n  let e = f(x) as g");
  EXPECT_EQ(codeOf("if a\n{ let b = 1 }\nelse\n{ let b = 2 }"),
            "if a {\n    let b = 1\n  } else {\n    let b = 2\n  }");
  EXPECT_EQ(planOf("shard a on b // note\n\n  for all // more\nshard c on d"),
            "shard a on b for all; shard c on d");
  EXPECT_EQ(planOf("pipeline layer on pipe\n counting a,\n b\n with s"),
            "pipeline layer on pipe counting a, b with s");
}

TEST(Statements, ForOfCodeBeginsALine) {
  EXPECT_EQ(
      codeOf("let a = 1\nfor i in 0 .. 3 { forward i }", "schedule s(stage)"),
      "let a = 1\n  for i in 0 .. 3 {\n    forward i\n  }");
}

TEST(Words, OnlyConnectivesAreReserved) {
  EXPECT_EQ(planOf("shard model, micro, chunks on data"),
            "shard model, micro, chunks on data");
  EXPECT_EQ(
      planOf("shard shard on mesh * view else none for input except last"),
      "shard shard on mesh * view else none for input except last");
  EXPECT_EQ(codeOf("let let = var\nvar place, input = where(let, up, to)\n"
                   "param = 3\nreturn return",
                   "fn fn(using_, from)"),
            "let let = var\n  var place, input = where(let, up, to)\n  "
            "param = 3\n  return return");
  EXPECT_EQ(planOf("in all { recompute layer/* ; save **/x }"),
            "in all {\n  recompute layer/*\n  save **/x\n}");
}

TEST(Words, UnitsMayBeNamesOfItems) {
  EXPECT_EQ(planOf("pipeline s on p as [2 s, h], 3 of [1 min] with f"),
            "pipeline s on p as [2 s, h], 3 of [1 min] with f");
}

TEST(Plans, Shard) {
  Parsed parsed("plan p of m { shard a, b.c? also on x * y.z? else none dealt "
                "4 even for params where bytes > 4 MiB }");
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  auto &plan = static_cast<PlanDecl &>(*parsed.file->decls[0]);
  auto *shard = dynCast<ShardStmt>(plan.body.stmts[0]);
  ASSERT_TRUE(shard);
  ASSERT_EQ(shard->dims.size(), 2u);
  EXPECT_EQ(shard->dims[1].text(), "b.c");
  EXPECT_TRUE(shard->dims[1].optional);
  EXPECT_TRUE(shard->also);
  EXPECT_TRUE(shard->even);
  EXPECT_TRUE(shard->dealt);
  ASSERT_EQ(shard->alternatives.size(), 2u);
  EXPECT_EQ(shard->alternatives[0].factors.size(), 2u);
  EXPECT_TRUE(shard->alternatives[0].factors[1].optional);
  EXPECT_TRUE(shard->alternatives[1].none);
  ASSERT_TRUE(shard->selection);
  ASSERT_EQ(shard->selection->group.picks.size(), 1u);
  EXPECT_EQ(shard->selection->group.picks[0].kind, Pick::OfRole);
  ASSERT_EQ(shard->selection->clauses.size(), 1u);
  EXPECT_EQ(shard->selection->clauses[0].kind, Clause::Where);
}

TEST(Plans, Mesh) {
  Parsed parsed("plan p of m { mesh [pipe, data: free, c: [r: 2, a: 4], t: 2 * "
                "k] on [node: 8]; mesh [a: 2] on 64 }");
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  auto &plan = static_cast<PlanDecl &>(*parsed.file->decls[0]);
  auto *mesh = dynCast<MeshStmt>(plan.body.stmts[0]);
  ASSERT_EQ(mesh->axes.size(), 4u);
  EXPECT_EQ(mesh->axes[0].kind, AxisDef::Unsized);
  EXPECT_EQ(mesh->axes[1].kind, AxisDef::Free);
  EXPECT_EQ(mesh->axes[2].kind, AxisDef::Nested);
  EXPECT_EQ(mesh->axes[2].factors[1].name.text, "a");
  EXPECT_EQ(mesh->axes[3].kind, AxisDef::Sized);
  EXPECT_EQ(mesh->levels.size(), 1u);
  EXPECT_FALSE(mesh->devices);
  auto *second = dynCast<MeshStmt>(plan.body.stmts[1]);
  EXPECT_TRUE(second->devices);
  EXPECT_EQ(parsed.sources.text(second->range), "mesh [a: 2] on 64");
}

TEST(Plans, Selections) {
  auto path = [](const std::string &text) {
    Parsed parsed("plan p of m { save " + text + " }");
    EXPECT_TRUE(parsed.file) << parsed.diags.text();
    auto &plan = static_cast<PlanDecl &>(*parsed.file->decls[0]);
    return clone(static_cast<KeepStmt &>(*plan.body.stmts[0]).selection);
  };
  Selection s = path("/layer[3 .. every 4]/*/moe?, params/x, (all in a) except "
                     "weights in b, c where rank > 1");
  ASSERT_EQ(s.group.picks.size(), 3u);
  const Path &first = s.group.picks[0].path;
  EXPECT_TRUE(first.anchored);
  ASSERT_EQ(first.steps.size(), 3u);
  ASSERT_TRUE(first.steps[0].index);
  EXPECT_TRUE(first.steps[0].index->begin);
  EXPECT_FALSE(first.steps[0].index->end);
  EXPECT_TRUE(first.steps[0].index->every);
  EXPECT_EQ(first.steps[1].kind, PathStep::Star);
  EXPECT_TRUE(first.steps[2].optional);
  EXPECT_EQ(s.group.picks[1].kind, Pick::OfPath);
  EXPECT_EQ(s.group.picks[2].kind, Pick::Nested);
  ASSERT_EQ(s.clauses.size(), 3u);
  EXPECT_EQ(s.clauses[0].group.picks[0].kind, Pick::OfRole);
  EXPECT_EQ(s.clauses[1].group.picks.size(), 2u);
}

TEST(Plans, ValuesReadAsSelections) {
  auto selection = [](const std::string &text) {
    Parsed parsed("strategy s(a = " + text + ") { }");
    EXPECT_TRUE(parsed.file) << parsed.diags.text();
    auto &decl = static_cast<StrategyDecl &>(*parsed.file->decls[0]);
    auto selection = asSelection(*decl.params[0].defaultValue);
    return selection ? print(*selection) : "none";
  };
  EXPECT_EQ(selection("(attention, mlp, output)"), "attention, mlp, output");
  EXPECT_EQ(selection("attention/context"), "attention/context");
  EXPECT_EQ(selection("layer[3 .. every 4]/x"), "layer[3 .. every 4]/x");
  EXPECT_EQ(selection("layer[last]"), "layer[last]");
  EXPECT_EQ(selection("params"), "params");
  EXPECT_EQ(selection("all except moe"), "all except moe");
  EXPECT_EQ(selection("(a, b where bytes > 4)"), "a, b where bytes > 4");
  EXPECT_EQ(selection("3"), "none");
  EXPECT_EQ(selection("a * b"), "none");
}

TEST(Plans, Contracts) {
  auto form = [](const std::string &text) {
    Parsed parsed("plan p of m { expect " + text + " }");
    EXPECT_TRUE(parsed.file) << parsed.diags.text();
    auto &plan = static_cast<PlanDecl &>(*parsed.file->decls[0]);
    return static_cast<ExpectStmt &>(*plan.body.stmts[0]).form;
  };
  EXPECT_EQ(form("tensor within node"), ExpectStmt::Within);
  EXPECT_EQ(form("no all_gather on x for weights"), ExpectStmt::No);
  EXPECT_EQ(form("all_gather on x in a, b in forward == 2 per layer per micro"),
            ExpectStmt::Count);
  EXPECT_EQ(form("halo for all where bytes > 4 == 2"), ExpectStmt::Count);
  EXPECT_EQ(form("bytes of send <= 4 GiB per step"), ExpectStmt::Bytes);
  EXPECT_EQ(form("batch / data % pipe == 0"), ExpectStmt::Holds);
  EXPECT_EQ(form("local(table) == [2134, 192]"), ExpectStmt::Holds);
  EXPECT_EQ(form("peak(memory) <= 80 GiB and bubble < 8%"), ExpectStmt::Holds);
}

TEST(Models, Dims) {
  EXPECT_EQ(codeOf("dim a = up to 8 * b like c, head of kv * group, qkv of q: "
                   "head * key + k: kv",
                   "model m"),
            "dim a = up to 8 * b like c, head of kv * group, qkv of q: head * "
            "key + k: kv");
}

TEST(Models, ElseIfIsAnIfInElse) {
  Parsed parsed("model m { if a { let x = 1 } else if b { let x = 2 } else { "
                "let x = 3 } }");
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  auto &model = static_cast<ModelDecl &>(*parsed.file->decls[0]);
  auto *first = dynCast<IfStmt>(model.body.stmts[0]);
  ASSERT_TRUE(first && first->elseBlock);
  auto *second = dynCast<IfStmt>(first->elseBlock->stmts[0]);
  ASSERT_TRUE(second && second->elseBlock);
  EXPECT_EQ(second->elseBlock->stmts.size(), 1u);
}

TEST(Runs, Everything) {
  std::string text =
      "run r of m with adamw(rate: 0.5, decay: 0.25), clip reproducible {\n"
      "  plans wide = wide, two = maps(2)\n"
      "  start wide\n"
      "  vary batch = ramp(from: 192, to: 2048)\n"
      "  when spread(stage_time) > 1.25 for 20 -> rebalance\n"
      "  when lost(device) -> fastest\n"
      "  when time(all_reduce on c.ring) > 2 s and bytes(send) > 1 KiB -> two\n"
      "  snapshot every 50 steps\n"
      "  eval with sequences: 8, length: 4 every 100\n"
      "  forward with sequences: 1\n"
      "}\n";
  Parsed parsed(text);
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  EXPECT_EQ(print(*parsed.file), text);
}

TEST(Ranges, CoverWhatIsWritten) {
  std::string text = "model m {\n  let a = nn.norm(x + y, embed: w) as n // c\n"
                     "  region r { let b = 1 }\n}\n";
  Parsed parsed(text);
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  auto at = [&](const Node &node) { return parsed.sources.text(node.range); };
  auto &model = static_cast<ModelDecl &>(*parsed.file->decls[0]);
  auto &let = static_cast<LetStmt &>(*model.body.stmts[0]);
  EXPECT_EQ(at(let), "let a = nn.norm(x + y, embed: w) as n");
  auto *call = dynCast<CallExpr>(let.values[0]);
  ASSERT_TRUE(call);
  EXPECT_EQ(at(*call), "nn.norm(x + y, embed: w) as n");
  EXPECT_EQ(at(call->callee), "nn.norm");
  EXPECT_EQ(parsed.sources.text(call->argsRange), "(x + y, embed: w)");
  EXPECT_EQ(at(call->args[1]), "embed: w");
  auto &region = static_cast<RegionStmt &>(*model.body.stmts[1]);
  EXPECT_EQ(at(region), "region r { let b = 1 }");
  EXPECT_EQ(at(region.body), "{ let b = 1 }");
  EXPECT_EQ(parsed.sources.text(model.keyword), "model");
}

TEST(Clone, GivesTheSameText) {
  Parsed parsed("fn f() { let x = f(a.b[1 .. 2], n: -c ** 2, \"s\", true, [for "
                "i in 0 .. 3: (i, 2 GiB)], (all except m)) as g }");
  ASSERT_TRUE(parsed.file) << parsed.diags.text();
  auto &fn = static_cast<FnDecl &>(*parsed.file->decls[0]);
  auto &value = *static_cast<LetStmt &>(*fn.body.stmts[0]).values[0];
  EXPECT_EQ(print(*clone(value)), print(value));
  EXPECT_EQ(clone(value)->height, value.height);
}

} // namespace
