// From text to the tokens the parser sees.
//
// Three things are settled here, so that the grammar need not speak of them:
//
//  * Statement ends. A newline or `;` becomes END, but not inside `( )` or
//    `[ ]`, after a comma, or before `else`, `with`, `as`, `counting`, a binary
//    operator, `->`, `{` or, in plans, strategies and runs, `for`. Every `}`
//    and the end of the file have an END before them.
//  * Units. A known unit after a number on the same line, and a `%` that
//    touches its number, become UNIT.
//  * Brackets. What is never closed is reported and closed where its statement
//    seems to end; a closing bracket without partner is reported and dropped.
//    So the parser's brackets match, and it can skip a broken statement whole.
//
// Offsets of tokens are bytes of the source. END is empty and lies at the end
// of the token before it.
#pragma once

#include "lang/diagnostics/Diagnostics.h"

#include <antlr4-runtime.h>

#include <memory>
#include <vector>

namespace cleave {

inline constexpr size_t nestingLimit = 256;

struct TokenList {
  std::vector<std::unique_ptr<antlr4::Token>> tokens; // the last is END
  bool tooDeep = false; // nests deeper than nestingLimit: do not parse
};

TokenList readTokens(const SourceManager &sources, FileId file,
                     DiagnosticEngine &diags);

// Words that cannot be names.
bool isReserved(size_t type);
// Words that can: NAME and every contextual word.
bool isWord(size_t type);
// Words that begin a declaration.
bool isDeclHead(size_t type);
// Words that begin a statement in code, plans or runs (not assignments).
bool isStatementHead(size_t type);

} // namespace cleave
