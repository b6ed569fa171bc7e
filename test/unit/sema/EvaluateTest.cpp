// Compile-time expressions.
#include "lang/sema/Evaluate.h"
#include "lang/parse/Loader.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::sema;

namespace {

// The value of an expression with width = 768, heads = 12 and rate = 0.5, as
// text; or its errors.
std::string value(const std::string &expression) {
  SourceManager sources;
  DiagnosticEngine diags(sources);
  auto program = loadText("x.clv", "model m(x = " + expression + ") { }\n", {},
                          sources, diags);
  if (!program) {
    return diags.text();
  }
  auto *model = ast::dynCast<ast::ModelDecl>(program->root().decls[0]);
  Environment environment;
  environment.values["width"] = Value::ofInteger(768);
  environment.values["heads"] = Value::ofInteger(12);
  environment.values["rate"] = Value::ofReal(0.5);
  auto result = evaluate(*model->params[0].defaultValue, environment, diags);
  EXPECT_EQ(result.has_value(), !diags.hasErrors());
  return result ? result->text() : diags.all()[0].message;
}

TEST(Evaluate, Integers) {
  EXPECT_EQ(value("4 * width + 1"), "3073");
  EXPECT_EQ(value("width / heads"), "64");
  EXPECT_EQ(value("2 ** 10 - -1"), "1025");
  EXPECT_EQ(value("-2 ** 2"), "-4");
  EXPECT_EQ(value("7 % 3 + -7 % 3"), "3");
  EXPECT_EQ(value("div(7, 2) + div(0 - 7, 2)"), "-1");
  EXPECT_EQ(value("min(3, 1, 2) + max(3, 1, 2)"), "4");
  EXPECT_EQ(value("9_765_625"), "9765625");
}

TEST(Evaluate, DivisionIsExactOrAnError) {
  EXPECT_EQ(value("7 / 2"), "7 / 2 is not a whole number");
  EXPECT_EQ(value("7 / 2.0"), "3.5");
  EXPECT_EQ(value("1 / 0"), "division by zero");
  EXPECT_EQ(value("1 % 0"), "division by zero");
  EXPECT_EQ(value("0 ** (0 - 1)"), "division by zero");
}

TEST(Evaluate, OverflowIsAnError) {
  std::string most = "9223372036854775807";
  const char *error = "the result does not fit in 64 bits";
  EXPECT_EQ(value(most + " + 1"), error);
  EXPECT_EQ(value("-" + most + " - 2"), error);
  EXPECT_EQ(value(most + " * 2"), error);
  EXPECT_EQ(value("2 ** 63"), error);
  EXPECT_EQ(value("(-" + most + " - 1) / -1"), error);
  EXPECT_EQ(value("(-" + most + " - 1) % -1"), "0");
  EXPECT_EQ(value("1 ** " + most), "1");
  EXPECT_EQ(value("2 ** " + most), error);
}

TEST(Evaluate, Reals) {
  EXPECT_EQ(value("rate * 3"), "1.5");
  EXPECT_EQ(value("64 ** -0.5"), "0.125");
  EXPECT_EQ(value("1.5%"), "0.015");
  EXPECT_EQ(value("ceil(1.2) + floor(1.8) + round(1.5)"), "5");
  EXPECT_EQ(value("sqrt(64.0) + log2(8)"), "11");
}

TEST(Evaluate, Quantities) {
  EXPECT_EQ(value("80 GiB"), "80 GiB");
  EXPECT_EQ(value("2 * 1 MiB + 0"), "2 MiB");
  EXPECT_EQ(value("1 GiB / 1 MiB"), "1024");
  EXPECT_EQ(value("400 KB > 0 B"), "true");
  EXPECT_EQ(value("450 GB/s * 2 us"), "900000 B");
  EXPECT_EQ(value("1 GB / 2 s"), "5e+08 B/s");
  EXPECT_EQ(value("1 GiB + 2 s"), "`+` between a number of bytes and a time");
  EXPECT_EQ(value("1 GiB > 2"),
            "`>` between a number of bytes and the integer 2");
  EXPECT_EQ(value("1 GiB * 2 GiB"),
            "`*` between a number of bytes and a number of bytes");
}

TEST(Evaluate, Logic) {
  EXPECT_EQ(value("1 < 2 and not (2 <= 1)"), "true");
  EXPECT_EQ(value("false and 1 / 0 == 1"), "false");
  EXPECT_EQ(value("true or 1 / 0 == 1"), "true");
  EXPECT_EQ(value("1 == 1.0"), "true");
  EXPECT_EQ(value("[1, 2] == [1, 2]"), "true");
  EXPECT_EQ(value("1 and true"),
            "`and` takes true or false, not the integer 1");
  EXPECT_EQ(value("9007199254740993 > 9007199254740992"), "true");
}

TEST(Evaluate, ListsAndRanges) {
  EXPECT_EQ(value("pieces(7, 3)"), "[0 .. 3, 3 .. 5, 5 .. 7]");
  EXPECT_EQ(value("pieces(1, 3)"), "[0 .. 1, 1 .. 1, 1 .. 1]");
  EXPECT_EQ(value("size(pieces(7, 3)[0])"), "3");
  EXPECT_EQ(value("[for r in pieces(4, 2) for m in r: (m, m * m)]"),
            "[(0, 0), (1, 1), (2, 4), (3, 9)]");
  EXPECT_EQ(value("[for a, b in [(1, 2), (3, 4)]: a * b]"), "[2, 12]");
  EXPECT_EQ(value("[1] + [2]"), "[1, 2]");
  EXPECT_EQ(value("[1, 2][2]"), "index 2 of a list of 2 items");
  EXPECT_EQ(value("[for a, b in [1]: a]"),
            "a loop of 2 names needs tuples of as many");
  EXPECT_EQ(value("size(heads)"), "12");
}

TEST(Evaluate, Names) {
  EXPECT_EQ(value("widht"), "unknown name `widht`");
  EXPECT_EQ(value("foo(1)"),
            "unknown function `foo` in a compile-time expression");
  EXPECT_EQ(value("div(1)"), "`div` takes two arguments, not 1");
  EXPECT_EQ(value("div(a: 1)"), "`div` takes no named arguments");
  EXPECT_EQ(value("div(1.5, 2)"), "`div` takes integers, not the number 1.5");
}

} // namespace
