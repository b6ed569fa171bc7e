// From ANTLR's tree to ours. Used only on trees without syntax errors.
//
// What the grammar lets through and the language does not (a statement in the
// wrong kind of declaration, two names for three values) is reported here.
#pragma once

#include "CleaveParser.h"
#include "lang/ast/Ast.h"

#include <string_view>

namespace cleave {

// An expression may be this many operations high.
inline constexpr uint32_t heightLimit = 1024;

class Builder {
  using P = antlr::CleaveParser;
  using Context = antlr4::ParserRuleContext;

public:
  Builder(const SourceManager &sources, FileId file, DiagnosticEngine &diags)
      : sources(sources), file(file), diags(diags) {}

  std::unique_ptr<ast::File> buildFile(P::FileContext *context);

private:
  // BuildFile.cpp
  void addUses(P::UseFileContext *context, ast::File &result);
  std::unique_ptr<ast::Decl> buildDecl(P::DeclContext *context);
  std::unique_ptr<ast::Decl> buildAlgorithm(P::AlgorithmDeclContext *context);
  std::unique_ptr<ast::Decl> buildRun(P::RunDeclContext *context);
  std::vector<ast::Param> buildParams(P::ParamsContext *context);
  ast::Block buildRunBlock(P::RunBlockContext *context);
  ast::StmtPtr buildRunStmt(P::RunStmtContext *context);

  // BuildCode.cpp: `owner` is the declaration whose statements these are.
  ast::Block buildCodeBlock(P::CodeBlockContext *context, ast::DeclKind owner);
  ast::StmtPtr buildCodeStmt(P::CodeStmtContext *context, ast::DeclKind owner);
  ast::StmtPtr buildCodeIf(P::CodeIfContext *context, ast::DeclKind owner);
  ast::DimDef buildDim(P::DimDefContext *context);
  ast::DimProduct buildProduct(P::ProductContext *context);
  ast::TypeRef buildType(P::TypeContext *context);
  void checkCounts(Context *context, size_t names, size_t values);
  void checkOwner(const ast::Stmt &stmt, ast::DeclKind owner);

  // BuildPlan.cpp
  ast::Block buildPlanBlock(P::PlanBlockContext *context);
  ast::StmtPtr buildPlanStmt(P::PlanStmtContext *context);
  ast::StmtPtr buildPlanIf(P::PlanIfContext *context);
  ast::StmtPtr buildMesh(P::MeshStmtContext *context);
  ast::StmtPtr buildShard(P::ShardStmtContext *context);
  ast::StmtPtr buildPlace(P::PlaceStmtContext *context);
  ast::StmtPtr buildKeep(P::KeepStmtContext *context);
  ast::StmtPtr buildPipeline(P::PipelineStmtContext *context);
  ast::PipelineStmt::Piece buildPiece(P::PieceContext *context);
  ast::StmtPtr buildExpect(P::ExpectStmtContext *context);
  std::vector<ast::AxisDef> buildAxes(P::AxesContext *context);
  ast::AxisExpr buildAxis(P::AxisContext *context);
  ast::Ref buildRef(P::RefContext *context);
  ast::Comm buildComm(P::CommContext *context);
  std::vector<ast::Option>
  buildSettings(const std::vector<P::SettingContext *> &contexts);

  // BuildSelection.cpp
  ast::Selection buildSelection(P::SelContext *context);
  ast::Group buildGroup(P::GroupContext *context);
  ast::Pick buildPick(P::PickContext *context);
  ast::Clause buildClause(P::ClauseContext *context);
  ast::PathStep buildStep(P::StepContext *context);
  ast::StepRange buildStepRange(P::SpanContext *context);

  // BuildExpr.cpp
  std::vector<ast::ExprPtr> buildExprs(P::ExprsContext *context);
  ast::ExprPtr buildValue(P::ValueContext *context);
  ast::ExprPtr buildSpan(P::SpanContext *context);
  ast::ExprPtr buildExpr(P::ExprContext *context); // null stays null
  ast::ExprPtr buildConjunction(P::ConjunctionContext *context);
  ast::ExprPtr buildNegation(P::NegationContext *context);
  ast::ExprPtr buildComparison(P::ComparisonContext *context);
  ast::ExprPtr buildSum(P::SumContext *context);
  ast::ExprPtr buildTerm(P::TermContext *context);
  ast::ExprPtr buildUnary(P::UnaryContext *context);
  ast::ExprPtr buildPower(P::PowerContext *context);
  ast::ExprPtr buildPostfix(P::PostfixContext *context);
  ast::ExprPtr buildArguments(ast::ExprPtr callee,
                              P::ArgumentsContext *context);
  ast::ExprPtr buildPrimary(P::PrimaryContext *context);
  ast::ExprPtr buildNumber(P::NumberContext *context);
  ast::ExprPtr buildList(P::ListContext *context);
  std::unique_ptr<ast::CallExpr> buildCall(P::CallContext *context);
  std::vector<ast::Arg> buildArgs(P::ArgsContext *context);
  void checkAxes(const ast::CallExpr &call);
  std::string stringValue(antlr4::Token *token);
  ast::BinaryOp buildCompare(P::CompareContext *context);
  ast::ExprPtr binary(ast::BinaryOp op, SourceRange opRange, ast::ExprPtr left,
                      ast::ExprPtr right);
  ast::ExprPtr unary(ast::UnaryOp op, SourceRange opRange,
                     ast::ExprPtr operand);
  // Counts the height of `expr`, whose highest child is `below` high.
  void setHeight(ast::Expr &expr, uint32_t below);
  // Must an operation on `operand` be left out, because it would be too high?
  // (Reported once; a longer chain of nodes would overflow the stack.)
  bool isTooHigh(const ast::Expr &operand);

  // Places and names.
  SourceRange rangeOf(antlr4::Token *token) const {
    return {file, static_cast<uint32_t>(token->getStartIndex()),
            static_cast<uint32_t>(token->getStopIndex() + 1)};
  }
  // Without the END of a statement.
  SourceRange rangeOf(Context *context) const {
    SourceRange range{file, 0, 0};
    range.begin = static_cast<uint32_t>(context->getStart()->getStartIndex());
    range.end =
        context->getStop()
            ? static_cast<uint32_t>(context->getStop()->getStopIndex() + 1)
            : range.begin;
    range.end = std::max(range.begin, range.end);
    return range;
  }
  SourceRange rangeOf(antlr4::tree::TerminalNode *node) const {
    return rangeOf(node->getSymbol());
  }
  ast::Name buildName(P::WordContext *context) const {
    ast::Name name;
    name.range = rangeOf(context);
    name.text = sources.text(name.range);
    return name;
  }
  std::vector<ast::Name> buildNames(P::WordsContext *context) const {
    std::vector<ast::Name> names;
    for (P::WordContext *word : context->word()) {
      names.push_back(buildName(word));
    }
    return names;
  }
  ast::DottedName buildDotted(P::DottedContext *context) const {
    ast::DottedName name;
    name.range = rangeOf(context);
    for (P::WordContext *word : context->word()) {
      name.parts.push_back(buildName(word));
    }
    return name;
  }
  template <typename T> std::unique_ptr<T> make(Context *context) const {
    auto node = std::make_unique<T>();
    node->range = rangeOf(context);
    return node;
  }
  // A statement or declaration, whose first token is its keyword.
  template <typename T> std::unique_ptr<T> begin(Context *context) const {
    auto node = make<T>(context);
    node->keyword = rangeOf(context->getStart());
    return node;
  }

  const SourceManager &sources;
  FileId file;
  DiagnosticEngine &diags;
  bool tooHigh = false;     // reported once
  bool inCondition = false; // of a run's rule
};

} // namespace cleave
