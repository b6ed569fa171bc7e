// The parser: from the text of a file to its syntax tree.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/diagnostics/Diagnostics.h"

#include <memory>

namespace cleave {

// Parses a file of the manager. Reports every independent error, and returns
// null where there was one. Never throws. Follows no `use`: see Loader.h.
std::unique_ptr<ast::File> parseFile(const SourceManager &sources, FileId file,
                                     DiagnosticEngine &diags);

} // namespace cleave
