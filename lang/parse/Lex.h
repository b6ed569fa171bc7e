// From text to raw tokens: words, numbers with their units, line ends.
#pragma once

#include "lang/diagnostics/Diagnostics.h"

#include <vector>

namespace cleave {

// A token by type and place.
struct Raw {
  size_t type;
  uint32_t begin, end;
};

// Reports characters, strings, numbers and comments that are none, and gives
// what the rest can be read as. The file must be UTF-8.
std::vector<Raw> lex(const SourceManager &sources, FileId file,
                     DiagnosticEngine &diags);

} // namespace cleave
