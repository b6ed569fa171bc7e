#include "lang/parse/Loader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace cleave;
namespace fs = std::filesystem;

namespace {

class Loader : public testing::Test {
protected:
  void SetUp() override {
    root = fs::path(testing::TempDir()) /
           ("cleave-loader-" +
            std::string(
                testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string &name, const std::string &text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << text;
  }
  std::unique_ptr<Program> load(const std::string &name) {
    LoadOptions options;
    options.stdlib.push_back((root / "std").string());
    return loadProgram((root / name).string(), options, sources, diags);
  }
  std::string order(const Program &program) {
    std::string names;
    for (const auto &file : program.files) {
      names += fs::path(sources.file(file->id).name).filename().string() + " ";
    }
    return names;
  }

  fs::path root;
  SourceManager sources;
  DiagnosticEngine diags{sources};
};

TEST_F(Loader, UsedFilesComeFirstAndOnce) {
  write("main.clv", "use std.nn, \"a.clv\", \"sub/b.clv\"\nmodel m { }");
  write("a.clv", "use \"./sub/../sub/b.clv\", std.nn\nmodel a { }");
  write("sub/b.clv", "use \"../c.clv\"\nmodel b { }");
  write("c.clv", "model c { }");
  write("std/nn.clv", "use std.deep.core\nfn norm(x) { return x }");
  write("std/deep/core.clv", "fn id(x) { return x }");
  auto program = load("main.clv");
  ASSERT_TRUE(program) << diags.text();
  EXPECT_EQ(order(*program), "core.clv nn.clv c.clv b.clv a.clv main.clv ");
  const ast::File &main = program->root();
  ASSERT_EQ(main.uses.size(), 3u);
  for (const ast::Use &use : main.uses) {
    ASSERT_TRUE(program->find(use.target));
  }
  EXPECT_EQ(program->find(main.uses[1].target)->decls[0]->name.text, "a");
}

TEST_F(Loader, MissingFiles) {
  EXPECT_FALSE(load("main.clv"));
  EXPECT_EQ(diags.all()[0].kind, Diag::FileNotFound);
  diags.clear();

  write("main.clv", "use \"modle.clv\", std.nm, other.x, \"sub\"\nmodel m { }");
  write("model.clv", "model m { }");
  write("std/nn.clv", "model m { }");
  write("sub/x.clv", "model m { }");
  EXPECT_FALSE(load("main.clv"));
  ASSERT_EQ(diags.errorCount(), 4u) << diags.text();
  for (const Diagnostic &d : diags.all()) {
    EXPECT_EQ(d.kind, Diag::FileNotFound);
    EXPECT_TRUE(d.range.isValid());
    EXPECT_FALSE(d.help.empty());
  }
  std::string text = diags.text();
  EXPECT_NE(text.find("model.clv`?"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean `std.nn`?"), std::string::npos) << text;
  EXPECT_NE(text.find("`use \"x.clv\"`"), std::string::npos) << text;
  EXPECT_NE(text.find("it is a directory"), std::string::npos) << text;
}

TEST_F(Loader, Cycles) {
  write("main.clv", "use \"a.clv\"\nmodel m { }");
  write("a.clv", "use \"b.clv\"\nmodel a { }");
  write("b.clv", "use \"a.clv\"\nmodel b { }");
  write("self.clv", "use \"./self.clv\"\nmodel s { }");
  EXPECT_FALSE(load("main.clv"));
  ASSERT_EQ(diags.errorCount(), 1u) << diags.text();
  EXPECT_EQ(diags.all()[0].kind, Diag::UseCycle);
  EXPECT_EQ(diags.all()[0].notes.size(), 1u) << diags.text();
  diags.clear();
  EXPECT_FALSE(load("self.clv"));
  ASSERT_EQ(diags.errorCount(), 1u) << diags.text();
  EXPECT_NE(diags.text().find("uses itself"), std::string::npos);
}

TEST_F(Loader, LongChains) {
  for (int i = 0; i < 400; ++i) {
    write("f" + std::to_string(i) + ".clv",
          "use \"f" + std::to_string(i + 1) + ".clv\"\nmodel m { }");
  }
  EXPECT_FALSE(load("f0.clv"));
  ASSERT_EQ(diags.errorCount(), 1u) << diags.text();
  EXPECT_EQ(diags.all()[0].kind, Diag::NestedTooDeeply);
}

TEST_F(Loader, ErrorsOfEveryFileInOneRun) {
  write("main.clv", "use \"a.clv\", \"b.clv\"\nmodel m { }");
  write("a.clv", "model { }");
  write("b.clv", "model b { let }");
  EXPECT_FALSE(load("main.clv"));
  EXPECT_EQ(diags.errorCount(), 2u) << diags.text();
}

TEST_F(Loader, TextWithoutAFile) {
  write("a.clv", "model a { }");
  LoadOptions options;
  auto program =
      loadText((root / "unsaved.clv").string(), "use \"a.clv\"\nmodel m { }",
               options, sources, diags);
  ASSERT_TRUE(program) << diags.text();
  EXPECT_EQ(program->files.size(), 2u);
}

} // namespace
