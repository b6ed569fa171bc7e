#include "lang/parse/Build.h"

#include <algorithm>

namespace cleave {

using P = antlr::CleaveParser;
using namespace ast;

namespace {

// May a statement stand in a declaration of this kind?
bool isAtHome(StmtKind stmt, DeclKind owner) {
  switch (stmt) {
  case StmtKind::Let:
  case StmtKind::Assign:
  case StmtKind::If:
    return true;
  case StmtKind::Var:
    return owner != DeclKind::Optimizer;
  case StmtKind::Dim:
  case StmtKind::Input:
  case StmtKind::Output:
  case StmtKind::Minimize:
    return owner == DeclKind::Model;
  case StmtKind::Param:
  case StmtKind::Repeat:
  case StmtKind::Region:
    return owner == DeclKind::Model || owner == DeclKind::Fn;
  case StmtKind::Return:
    return owner == DeclKind::Fn || owner == DeclKind::Algorithm;
  case StmtKind::For:
    return owner == DeclKind::Schedule || owner == DeclKind::Algorithm;
  case StmtKind::State:
  case StmtKind::Update:
    return owner == DeclKind::Optimizer;
  case StmtKind::Action:
    return owner == DeclKind::Schedule;
  default:
    return false;
  }
}

std::string article(DeclKind kind) {
  std::string word = spelling(kind);
  if (kind == DeclKind::Fn) {
    return "a function";
  }
  return (word[0] == 'a' || word[0] == 'o' ? "an " : "a ") + word;
}

} // namespace

void Builder::checkOwner(const Stmt &stmt, DeclKind owner) {
  if (isAtHome(stmt.kind, owner)) {
    return;
  }
  std::string word(sources.text(stmt.keyword));
  std::string homes;
  for (DeclKind kind : {DeclKind::Model, DeclKind::Fn, DeclKind::Optimizer,
                        DeclKind::Schedule, DeclKind::Algorithm}) {
    if (isAtHome(stmt.kind, kind)) {
      homes += (homes.empty() ? "" : " or ") + article(kind);
    }
  }
  auto error = diags.error(Diag::UnknownStatement, stmt.keyword,
                           "`" + word + "` cannot stand in " + article(owner));
  error.help("it belongs in " + homes);
  if (stmt.kind == StmtKind::For && owner != DeclKind::Optimizer) {
    error.help("a model repeats with `repeat DIM = SIZE { … }`");
  }
}

void Builder::checkCounts(Context *context, size_t names, size_t values) {
  if (values == 1 || values == names) {
    return;
  }
  diags
      .error(Diag::SyntaxError, rangeOf(context),
             std::to_string(names) + (names == 1 ? " name" : " names") +
                 " but " + std::to_string(values) + " values")
      .help("give one value for each name, or one call that gives them all");
}

Block Builder::buildCodeBlock(P::CodeBlockContext *context, DeclKind owner) {
  Block block;
  block.range = rangeOf(context);
  for (P::CodeStmtContext *stmt : context->codeStmt()) {
    block.stmts.push_back(buildCodeStmt(stmt, owner));
    checkOwner(*block.stmts.back(), owner);
  }
  return block;
}

DimProduct Builder::buildProduct(P::ProductContext *context) {
  DimProduct product;
  product.range = rangeOf(context);
  for (P::WordContext *word : context->word()) {
    product.factors.push_back(buildName(word));
  }
  return product;
}

DimDef Builder::buildDim(P::DimDefContext *context) {
  DimDef dim;
  dim.range = rangeOf(context);
  if (auto *size = dynamic_cast<P::DimSizeContext *>(context)) {
    dim.kind = DimDef::Size;
    dim.name = buildName(size->name);
    dim.upTo = size->UP() != nullptr;
    dim.size = buildExpr(size->expr());
    if (size->other) {
      dim.like = buildName(size->other);
    }
  } else if (auto *product = dynamic_cast<P::DimProductContext *>(context)) {
    dim.kind = DimDef::Product;
    dim.name = buildName(product->word());
    dim.product = buildProduct(product->product());
  } else {
    auto *sum = static_cast<P::DimSumContext *>(context);
    dim.kind = DimDef::Sum;
    dim.name = buildName(sum->word());
    for (P::DimPartContext *part : sum->dimPart()) {
      DimDef::Part &last = dim.parts.emplace_back();
      last.range = rangeOf(part);
      last.name = buildName(part->word());
      last.product = buildProduct(part->product());
    }
  }
  return dim;
}

TypeRef Builder::buildType(P::TypeContext *context) {
  TypeRef type;
  type.range = rangeOf(context);
  type.element = buildName(context->word());
  type.hasBrackets = context->LBRACKET() != nullptr;
  if (context->words()) {
    type.dims = buildNames(context->words());
  }
  return type;
}

StmtPtr Builder::buildCodeIf(P::CodeIfContext *context, DeclKind owner) {
  auto tests = context->expr();
  auto words = context->IF();
  auto blocks = context->codeBlock();
  if (tests.size() > heightLimit) {
    diags
        .error(Diag::NestedTooDeeply, rangeOf(context->getStart()),
               "more than " + std::to_string(heightLimit) +
                   " `else if` in a row")
        .help("split the chain");
    tests.resize(heightLimit);
  }
  std::optional<Block> rest;
  if (blocks.size() > context->expr().size()) {
    rest = buildCodeBlock(blocks.back(), owner);
  }
  for (size_t i = tests.size(); i-- > 0;) {
    auto stmt = begin<IfStmt>(context);
    stmt->keyword = rangeOf(words[i]);
    stmt->range.begin = stmt->keyword.begin;
    stmt->condition = buildExpr(tests[i]);
    stmt->thenBlock = buildCodeBlock(blocks[i], owner);
    stmt->elseBlock = std::move(rest);
    if (i == 0) {
      return stmt;
    }
    rest.emplace();
    rest->range = stmt->range;
    rest->stmts.push_back(std::move(stmt));
  }
  return nullptr;
}

StmtPtr Builder::buildCodeStmt(P::CodeStmtContext *context, DeclKind owner) {
  if (auto *c = context->dimStmt()) {
    auto stmt = begin<DimStmt>(c);
    for (P::DimDefContext *dim : c->dimDef()) {
      stmt->dims.push_back(buildDim(dim));
    }
    return stmt;
  }
  if (auto *c = context->inputStmt()) {
    auto stmt = begin<InputStmt>(c);
    stmt->names = buildNames(c->words());
    stmt->type = buildType(c->type());
    if (c->call()) {
      stmt->from = buildCall(c->call());
    }
    return stmt;
  }
  if (auto *c = context->outputStmt()) {
    auto stmt = begin<OutputStmt>(c);
    stmt->names = buildNames(c->words());
    return stmt;
  }
  if (auto *c = context->paramStmt()) {
    auto stmt = begin<ParamStmt>(c);
    stmt->names = buildNames(c->words());
    stmt->type = buildType(c->type());
    if (c->call()) {
      stmt->init = buildCall(c->call());
    }
    return stmt;
  }
  auto list = [&](auto stmt, auto *c) {
    stmt->names = buildNames(c->words());
    stmt->values = buildExprs(c->exprs());
    checkCounts(c, stmt->names.size(), stmt->values.size());
    return stmt;
  };
  if (auto *c = context->letStmt()) {
    return list(begin<LetStmt>(c), c);
  }
  if (auto *c = context->varStmt()) {
    return list(begin<VarStmt>(c), c);
  }
  if (auto *c = context->assignStmt()) {
    return list(begin<AssignStmt>(c), c);
  }
  if (auto *c = context->repeatStmt()) {
    auto stmt = begin<RepeatStmt>(c);
    stmt->dim = buildName(c->word());
    stmt->count = buildExpr(c->expr());
    stmt->body = buildCodeBlock(c->codeBlock(), owner);
    return stmt;
  }
  if (auto *c = context->regionStmt()) {
    auto stmt = begin<RegionStmt>(c);
    stmt->name = buildName(c->word());
    stmt->body = buildCodeBlock(c->codeBlock(), owner);
    return stmt;
  }
  if (auto *c = context->codeIf()) {
    return buildCodeIf(c, owner);
  }
  if (auto *c = context->returnStmt()) {
    auto stmt = begin<ReturnStmt>(c);
    stmt->values = buildExprs(c->exprs());
    return stmt;
  }
  if (auto *c = context->minimizeStmt()) {
    auto stmt = begin<MinimizeStmt>(c);
    stmt->value = buildExpr(c->expr());
    return stmt;
  }
  if (auto *c = context->forStmt()) {
    auto stmt = begin<ForStmt>(c);
    stmt->names = buildNames(c->words());
    stmt->over = buildSpan(c->span());
    stmt->body = buildCodeBlock(c->codeBlock(), owner);
    return stmt;
  }
  if (auto *c = context->stateStmt()) {
    auto stmt = begin<StateStmt>(c);
    stmt->names = buildNames(c->words());
    stmt->init = buildCall(c->call());
    return stmt;
  }
  if (auto *c = context->updateStmt()) {
    auto stmt = begin<UpdateStmt>(c);
    stmt->value = buildExpr(c->expr());
    return stmt;
  }
  auto *c = context->actionStmt();
  auto stmt = begin<ActionStmt>(c);
  stmt->action = c->FORWARD()      ? ActionStmt::Forward
                 : c->BACKWARD()   ? ActionStmt::Backward
                 : c->INPUT_GRAD() ? ActionStmt::InputGrad
                                   : ActionStmt::WeightGrad;
  stmt->which = buildExpr(c->expr());
  return stmt;
}

} // namespace cleave
