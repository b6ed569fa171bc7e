// Which declaration a name means.
//
// A function is looked for in the file that calls it and in those which that
// file uses by path, directly or indirectly; `m.f` in the file used as module
// `std.m`. Optimizers and models are visible from every file of the program,
// the root's first.
#pragma once

#include "lang/parse/Loader.h"

#include <string>
#include <vector>

namespace cleave::sema {

template <typename T> struct Found {
  const T *decl = nullptr;
  const ast::File *file = nullptr;
  explicit operator bool() const { return decl; }
};

Found<ast::FnDecl> findFunction(const Program &program, const ast::File &from,
                                const ast::DottedName &name);
// As `findFunction`, and a name alone may be one of a used module: for rates of
// optimizers (`adamw(rate: warmup(1e-3, 100))`).
Found<ast::FnDecl> findFunctionOpenly(const Program &program,
                                      const ast::File &from,
                                      const ast::DottedName &name);
// All that `findFunction` would find, as one would write them.
std::vector<std::string> functionNames(const Program &program,
                                       const ast::File &from);

Found<ast::ModelDecl> findModel(const Program &program, std::string_view name);
Found<ast::OptimizerDecl> findOptimizer(const Program &program,
                                        std::string_view name);
std::vector<std::string> declaredNames(const Program &program,
                                       ast::DeclKind kind);

} // namespace cleave::sema
