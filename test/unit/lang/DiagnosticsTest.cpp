#include "lang/diagnostics/Diagnostics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace cleave;

namespace {

struct Fixture {
  SourceManager sources;
  DiagnosticEngine diags{sources};

  SourceRange find(FileId file, const std::string &text) {
    uint32_t at = sources.file(file).text.find(text);
    return {file, at, at + uint32_t(text.size())};
  }
};

TEST(Diagnostics, RenderAsInTheHouseStyle) {
  Fixture f;
  FileId id =
      f.sources.add("gpt.clv", "plan p of m {\n  shard head on tensor\n}\n");
  f.diags
      .error(Diag::SyntaxError, f.find(id, "head"),
             "`head` (6) cannot be split evenly on `tensor` (4)")
      .label("6 = 2+1+2+1")
      .note("uneven shards are allowed; this plan asked for `even`")
      .note(f.find(id, "tensor"), "the axis")
      .help("drop `even`, or choose tensor = 2 or 3");
  EXPECT_EQ(f.diags.text(),
            "gpt.clv:2:9: error[CLV0109]: `head` (6) cannot be split evenly on "
            "`tensor` (4)\n"
            "    2 |   shard head on tensor\n"
            "      |         ^~~~ 6 = 2+1+2+1\n"
            "note: uneven shards are allowed; this plan asked for `even`\n"
            "gpt.clv:2:17: note: the axis\n"
            "    2 |   shard head on tensor\n"
            "      |                 ^~~~~~\n"
            "help: drop `even`, or choose tensor = 2 or 3\n");
}

TEST(Diagnostics, CaretsStandUnderTabsAndWideCharacters) {
  Fixture f;
  FileId id = f.sources.add("a", "\t\"é\"\tbad\r\nnext");
  f.diags.error(Diag::SyntaxError, f.find(id, "bad"), "m");
  EXPECT_EQ(f.diags.text(), "a:1:6: error[CLV0109]: m\n"
                            "    1 |     \"é\" bad\n"
                            "      |         ^~~\n");
}

TEST(Diagnostics, ByteOrderMarkTakesNoColumn) {
  Fixture f;
  FileId id = f.sources.add("a", "\xEF\xBB\xBF"
                                 "bad");
  f.diags.error(Diag::SyntaxError, f.find(id, "bad"), "m");
  EXPECT_EQ(f.diags.text(), "a:1:1: error[CLV0109]: m\n"
                            "    1 | bad\n"
                            "      | ^~~\n");
}

TEST(Diagnostics, LongLinesShowAWindow) {
  Fixture f;
  FileId id = f.sources.add("a", std::string(5000, 'x') + "bad" +
                                     std::string(5000, 'y'));
  f.diags.error(Diag::SyntaxError, f.find(id, "bad"), "m");
  std::string text = f.diags.text();
  EXPECT_LT(text.size(), 500u);
  size_t line = text.find("    1 | "), caret = text.find("      | ");
  // "…" is three bytes and one column.
  EXPECT_EQ(text.find("bad") - line - 2, text.find("^~~") - caret);
}

TEST(Diagnostics, BrokenTextIsShownHarmlessly) {
  Fixture f;
  FileId id = f.sources.add("a", std::string("\x1b[31m\xff bad\0", 11));
  f.diags.error(Diag::SyntaxError, f.find(id, "bad"), "m");
  EXPECT_NE(f.diags.text().find("| ?[31m? bad"), std::string::npos);
}

TEST(Diagnostics, RangesAtTheEndOfTheFile) {
  Fixture f;
  FileId id = f.sources.add("a", "x\n");
  f.diags.error(Diag::SyntaxError, {id, 2, 2}, "m");
  EXPECT_EQ(f.diags.text(), "a:2:1: error[CLV0109]: m\n"
                            "    2 | \n"
                            "      | ^\n");
  FileId empty = f.sources.add("b", "");
  f.diags.clear();
  f.diags.error(Diag::SyntaxError, {empty, 0, 0}, "m");
  f.diags.error(Diag::SyntaxError, {}, "nowhere");
  EXPECT_NE(f.diags.text().find("\nerror[CLV0109]: nowhere\n"),
            std::string::npos);
}

TEST(Diagnostics, JsonEscapes) {
  Fixture f;
  FileId id = f.sources.add("a\"b", "x\ty");
  f.diags.error(Diag::SyntaxError, {id, 2, 3}, "a \"quote\", \\ and \x01\n")
      .help("é \xff");
  EXPECT_EQ(f.diags.json(),
            "[\n  {\"severity\": \"error\", \"code\": \"CLV0109\", \"kind\": "
            "\"SyntaxError\", \"message\": \"a \\\"quote\\\", \\\\ and "
            "\\u0001\\n\", \"label\": \"\", \"file\": \"a\\\"b\", \"line\": 1, "
            "\"column\": 3, \"endLine\": 1, \"endColumn\": 4, \"begin\": 2, "
            "\"end\": 3, \"notes\": [], \"help\": [\"é \\ufffd\"]}\n]\n");
}

TEST(Diagnostics, ManyErrorsAreCutInTextOnly) {
  Fixture f;
  for (int i = 0; i < 250; ++i) {
    f.diags.error(Diag::SyntaxError, {}, "m");
  }
  EXPECT_TRUE(f.diags.text().ends_with("… and 150 more\n"));
  EXPECT_EQ(f.diags.errorCount(), 250u);
}

TEST(Diagnostics, KindsAreRegisteredOnce) {
  std::set<unsigned> codes;
  std::map<Diag, int> kinds;
  for (const DiagInfo &kind : allDiagnostics()) {
    EXPECT_TRUE(codes.insert(kind.code).second) << kind.code;
    EXPECT_GE(kind.code, 101u);
    EXPECT_LT(kind.code, 800u);
    EXPECT_FALSE(kind.title.empty());
    EXPECT_GE(kind.explanation.size(), 40u) << kind.name;
    EXPECT_EQ(findDiagnostic(codeOf(kind.kind)), kind.kind);
    EXPECT_EQ(info(kind.kind).name, kind.name);
  }
  EXPECT_EQ(codeOf(Diag::SyntaxError), "CLV0109");
  EXPECT_EQ(findDiagnostic("clv0109"), Diag::SyntaxError);
  EXPECT_EQ(findDiagnostic("109"), Diag::SyntaxError);
  EXPECT_EQ(findDiagnostic("CLV9999"), std::nullopt);
  EXPECT_EQ(findDiagnostic("CLV"), std::nullopt);
  EXPECT_EQ(findDiagnostic(""), std::nullopt);
}

TEST(Diagnostics, SortByPlace) {
  Fixture f;
  FileId id = f.sources.add("a", "0123456789");
  f.diags.error(Diag::SyntaxError, {id, 9, 9}, "first stays");
  f.diags.error(Diag::SyntaxError, {id, 5, 6}, "b");
  f.diags.error(Diag::SyntaxError, {id, 2, 3}, "a");
  f.diags.error(Diag::SyntaxError, {id, 5, 6}, "c");
  f.diags.sortFrom(1);
  std::string order;
  for (const Diagnostic &d : f.diags.all()) {
    order += d.message + ";";
  }
  EXPECT_EQ(order, "first stays;a;b;c;");
}

TEST(Suggest, DistanceCountsSwapsOnce) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("head", "haed"), 1u);
  EXPECT_EQ(editDistance("tensor", "tensr"), 1u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
}

TEST(Suggest, OnlyWhatIsClose) {
  std::vector<std::string> axes = {"model", "data", "b"};
  EXPECT_EQ(didYouMean("modle", axes), "model");
  EXPECT_EQ(didYouMean("pipeline", axes), std::nullopt);
  EXPECT_EQ(didYouMean("a", axes), std::nullopt);
  EXPECT_EQ(suggestion("modle", axes), "did you mean `model`?");
  EXPECT_EQ(suggestion("zzz", axes), "known here: `model`, `data`, `b`");
  EXPECT_EQ(suggestion("zzz", {}), "");
}

} // namespace
