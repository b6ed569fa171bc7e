// A syntax tree as source in one canonical layout: one statement a line, blocks
// indented by two, no comments, parentheses only where the tree needs them.
// Parsing the result gives the same tree again. For tests and messages.
#pragma once

#include "lang/ast/Ast.h"

#include <string>

namespace cleave::ast {

std::string print(const File &file);
std::string print(const Decl &decl);
std::string print(const Stmt &stmt);
std::string print(const Expr &expr);
std::string print(const Selection &selection);
std::string print(const AxisExpr &axis);
std::string print(const Comm &comm);

} // namespace cleave::ast
