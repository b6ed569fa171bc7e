// Broken variants of real sources: the parser must come back, with a tree or
// with an error that lies in the file. The seed is fixed.
#include "lang/ast/Print.h"
#include "lang/parse/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

using namespace cleave;

namespace {

std::vector<std::string> seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(
           CLEAVE_SOURCE_DIR "/test/lang/Inputs/language")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto &path : paths) {
    std::ifstream stream(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(stream),
                       std::istreambuf_iterator<char>());
  }
  return texts;
}

void check(const std::string &text) {
  SourceManager sources;
  DiagnosticEngine diags(sources);
  auto file = parseFile(sources, sources.add("mutant.clv", text), diags);
  EXPECT_EQ(file == nullptr, diags.hasErrors());
  for (const Diagnostic &d : diags.all()) {
    EXPECT_LE(d.range.begin, d.range.end) << text;
    EXPECT_LE(d.range.end, text.size()) << text;
    EXPECT_EQ(d.message.find("the parser failed"), std::string::npos)
        << d.message << "\n"
        << text;
  }
  diags.text();
  if (!file) {
    return;
  }
  // What is accepted prints to something that is accepted, and the same.
  std::string once = ast::print(*file);
  auto again = parseFile(sources, sources.add("printed.clv", once), diags);
  ASSERT_TRUE(again) << diags.text() << "\n" << once;
  EXPECT_EQ(ast::print(*again), once);
}

class Mutant {
public:
  Mutant(std::string text, std::mt19937 &random)
      : text(std::move(text)), random(random) {}

  std::string text;

  void change() {
    size_t at = below(text.size() + 1), length = 1 + below(12);
    switch (below(6)) {
    case 0:
      text.erase(std::min(at, text.size()), length);
      break;
    case 1:
      text.insert(at, text.substr(at, length));
      break;
    case 2:
      text.insert(at, text.substr(below(text.size()), length));
      break;
    case 3:
      text.insert(at, 1, static_cast<char>(below(256)));
      break;
    case 4: {
      static const char *pieces[] = {"(", ")", "[",  "]",  "{",   "}",   ";",
                                     ",", "*", "/*", "%",  "..",  "for", "in",
                                     "?", "=", "\"", "\n", "use", "3",   "->"};
      text.insert(at, pieces[below(std::size(pieces))]);
      break;
    }
    default:
      if (at < text.size()) {
        text[at] = static_cast<char>(32 + below(95));
      }
    }
  }

private:
  size_t below(size_t n) {
    return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random);
  }
  std::mt19937 &random;
};

TEST(Mutation, TheParserAlwaysReturns) {
  std::mt19937 random(20240817);
  std::vector<std::string> texts = seeds();
  ASSERT_FALSE(texts.empty());
  for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
    Mutant mutant(texts[i % texts.size()], random);
    int changes = 1 + i % 7;
    for (int k = 0; k < changes; ++k) {
      mutant.change();
    }
    check(mutant.text);
  }
}

TEST(Mutation, EveryPrefix) {
  std::vector<std::string> texts = seeds();
  for (size_t i = 0; i < texts.size() && !testing::Test::HasFailure(); ++i) {
    for (size_t length = i; length < texts[i].size(); length += 97) {
      check(texts[i].substr(0, length));
    }
  }
}

} // namespace
