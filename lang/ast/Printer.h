// How trees are printed; inside lang/ast only.
#pragma once

#include "lang/ast/Ast.h"

#include <string>

namespace cleave::ast {

// How strongly an expression binds; operands that bind weaker than their place
// asks for get parentheses.
enum Binding {
  Loose,
  OfOr,
  OfAnd,
  OfNot,
  OfCompare,
  OfSum,
  OfTerm,
  OfSign,
  OfPower,
  OfPostfix
};

class Printer {
public:
  std::string out;

  void expr(const Expr &e, Binding least = Loose);
  void exprs(const std::vector<ExprPtr> &list);
  void call(const CallExpr &call);
  void args(const std::vector<Arg> &args);
  void range(const ExprPtr &begin, const ExprPtr &end, const ExprPtr &every);
  void number(const NumberExpr &number);
  void string(const std::string &value);
  void binary(const BinaryExpr &e);
  void comprehension(const ComprehensionExpr &e);

  void names(const std::vector<Name> &names);
  void selection(const Selection &s);
  void group(const Group &g);
  void clauses(const std::vector<Clause> &clauses);
  void path(const Path &path);
  void step(const PathStep &step);
  void stepRange(const StepRange &range);
  void axis(const AxisExpr &axis);
  void ref(const Ref &ref);
  void axes(const std::vector<AxisDef> &axes);
  void comm(const Comm &comm);
  void options(const std::vector<Option> &options);

  void params(const std::vector<Param> &params);
  void dim(const DimDef &dim);
  void product(const DimProduct &product);
  void type(const TypeRef &type);
  void block(const Block &block);
  void stmt(const Stmt &s);
  void codeStmt(const Stmt &s);
  void planStmt(const Stmt &s);
  void runStmt(const Stmt &s);
  void ifStmt(const IfStmt &s);
  void shard(const ShardStmt &s);
  void pipeline(const PipelineStmt &s);
  void expect(const ExpectStmt &s);
  void decl(const Decl &d);
  void algorithm(const AlgorithmDecl &d);

private:
  template <typename List, typename Each>
  void list(const List &items, Each each, const char *separator = ", ") {
    bool first = true;
    for (const auto &item : items) {
      out += first ? "" : separator;
      each(item);
      first = false;
    }
  }
  void line() { out += "\n" + std::string(2 * depth, ' '); }

  size_t depth = 0;
};

} // namespace cleave::ast
