#include "lang/sema/Declarations.h"

#include <set>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

// `from` and the files that it uses by path, directly and indirectly.
static std::vector<const File *> sharedFiles(const Program &program,
                                             const File &from) {
  std::vector<const File *> result = {&from};
  std::set<FileId> seen = {from.id};
  for (size_t i = 0; i < result.size(); ++i) {
    for (const Use &use : result[i]->uses) {
      if (use.isPath && seen.insert(use.target).second) {
        if (const File *file = program.find(use.target)) {
          result.push_back(file);
        }
      }
    }
  }
  return result;
}

template <typename T>
static const T *declared(const File &file, std::string_view name) {
  for (const auto &decl : file.decls) {
    if (const T *found = dynCast<T>(decl); found && found->name.text == name) {
      return found;
    }
  }
  return nullptr;
}

Found<FnDecl> sema::findFunction(const Program &program, const File &from,
                                 const DottedName &name) {
  const std::string &last = name.parts.back().text;
  if (name.parts.size() == 1) {
    for (const File *file : sharedFiles(program, from)) {
      if (const FnDecl *decl = declared<FnDecl>(*file, last)) {
        return {decl, file};
      }
    }
    return {};
  }
  if (name.parts.size() == 2) {
    for (const Use &use : from.uses) {
      if (!use.isPath && use.module.parts.back().text == name.parts[0].text) {
        const File *file = program.find(use.target);
        if (const FnDecl *decl =
                file ? declared<FnDecl>(*file, last) : nullptr) {
          return {decl, file};
        }
      }
    }
  }
  return {};
}

Found<FnDecl> sema::findFunctionOpenly(const Program &program, const File &from,
                                       const DottedName &name) {
  Found<FnDecl> found = findFunction(program, from, name);
  for (const Use &use : from.uses) {
    const File *file = found || use.isPath || name.parts.size() != 1
                           ? nullptr
                           : program.find(use.target);
    if (file) {
      found = findFunction(program, *file, name);
    }
  }
  return found;
}

std::vector<std::string> sema::functionNames(const Program &program,
                                             const File &from) {
  std::vector<std::string> result;
  auto add = [&](const File &file, const std::string &prefix) {
    for (const auto &decl : file.decls) {
      if (isa<FnDecl>(decl)) {
        result.push_back(prefix + decl->name.text);
      }
    }
  };
  for (const File *file : sharedFiles(program, from)) {
    add(*file, "");
  }
  for (const Use &use : from.uses) {
    const File *file = use.isPath ? nullptr : program.find(use.target);
    if (file) {
      add(*file, use.module.parts.back().text + ".");
    }
  }
  return result;
}

template <typename T>
static Found<T> findAnywhere(const Program &program, std::string_view name) {
  for (auto file = program.files.rbegin(); file != program.files.rend();
       ++file) {
    if (const T *decl = declared<T>(**file, name)) {
      return {decl, file->get()};
    }
  }
  return {};
}

Found<ModelDecl> sema::findModel(const Program &program,
                                 std::string_view name) {
  return findAnywhere<ModelDecl>(program, name);
}

Found<OptimizerDecl> sema::findOptimizer(const Program &program,
                                         std::string_view name) {
  return findAnywhere<OptimizerDecl>(program, name);
}

std::vector<std::string> sema::declaredNames(const Program &program,
                                             DeclKind kind) {
  std::vector<std::string> result;
  for (auto file = program.files.rbegin(); file != program.files.rend();
       ++file) {
    for (const auto &decl : (*file)->decls) {
      if (decl->kind == kind) {
        result.push_back(decl->name.text);
      }
    }
  }
  return result;
}
