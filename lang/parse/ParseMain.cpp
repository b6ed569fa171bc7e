// cleave-parse: parses source files and prints trees or diagnostics. For tests.
#include "lang/ast/Print.h"
#include "lang/parse/Loader.h"
#include "lang/parse/Parser.h"

#include <fstream>
#include <iostream>
#include <iterator>

using namespace cleave;

namespace {

const char usage[] =
    "usage: cleave-parse [--alone] [--json] [--print] [--stdlib DIR]... FILE\n"
    "\n"
    "Parses FILE and, with --stdlib, all that it uses; exits with 1 on "
    "errors.\n"
    "  --print        print the tree of FILE as source\n"
    "  --json         print diagnostics as JSON\n"
    "  --stdlib DIR   where the modules of `std` are\n";

} // namespace

int main(int argc, char **argv) {
  LoadOptions options;
  bool alone = false, json = false, show = false;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    if (arg == "--alone") {
      alone = true;
    } else if (arg == "--json") {
      json = true;
    } else if (arg == "--print") {
      show = true;
    } else if (arg == "--stdlib" && i + 1 < argc) {
      options.stdlib.push_back(argv[++i]);
    } else if (arg == "--help") {
      std::cout << usage;
      return 0;
    } else if (arg.starts_with("-") || !path.empty()) {
      std::cerr << usage;
      return 2;
    } else {
      path = arg;
    }
  }
  if (path.empty()) {
    std::cerr << usage;
    return 2;
  }
  SourceManager sources;
  DiagnosticEngine diags(sources);
  std::unique_ptr<Program> program;
  std::unique_ptr<ast::File> file;
  if (alone) {
    std::ifstream stream(path, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(stream), {});
    file = parseFile(sources, sources.add(path, std::move(text)), diags);
  } else {
    program = loadProgram(path, options, sources, diags);
  }
  if (show && !diags.hasErrors()) {
    std::cout << ast::print(program ? program->root() : *file);
  }
  json ? diags.renderJson(std::cout) : diags.renderText(std::cerr);
  return diags.hasErrors() ? 1 : 0;
}
