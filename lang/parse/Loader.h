// Reads a source file and all it uses.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/diagnostics/Diagnostics.h"

#include <memory>
#include <string>
#include <vector>

namespace cleave {

// A file and, directly and indirectly, all it uses; each once.
struct Program {
  // What is used stands before what uses it, so the root is last.
  std::vector<std::unique_ptr<ast::File>> files;

  const ast::File &root() const { return *files.back(); }
  const ast::File *find(FileId id) const;
};

// Where `use std.nn` finds `nn.clv`: the first of these directories that has
// it. `use std.a.b` finds `a/b.clv`.
struct LoadOptions {
  std::vector<std::string> stdlib;
};

// `use "x.clv"` is relative to the file that says so. Sets `Use::target`.
// Reports, in one run, the errors of every file; null where there was one.
std::unique_ptr<Program> loadProgram(const std::string &path,
                                     const LoadOptions &options,
                                     SourceManager &sources,
                                     DiagnosticEngine &diags);

// The same for a text not (yet) in a file; `path` is its name, and what its
// paths are relative to.
std::unique_ptr<Program> loadText(const std::string &path, std::string text,
                                  const LoadOptions &options,
                                  SourceManager &sources,
                                  DiagnosticEngine &diags);

} // namespace cleave
