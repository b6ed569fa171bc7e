#include "lang/parse/Build.h"

namespace cleave {

using P = antlr::CleaveParser;
using namespace ast;

std::unique_ptr<File> Builder::buildFile(P::FileContext *context) {
  auto result = std::make_unique<File>();
  result->id = file;
  result->range = {file, 0,
                   static_cast<uint32_t>(sources.file(file).text.size())};
  const antlr4::Token *firstDecl = nullptr;
  for (antlr4::tree::ParseTree *child : context->children) {
    if (auto *decl = dynamic_cast<P::DeclContext *>(child)) {
      if (!firstDecl) {
        firstDecl = decl->getStart();
      }
      result->decls.push_back(buildDecl(decl));
    } else if (auto *use = dynamic_cast<P::UseFileContext *>(child)) {
      if (firstDecl) {
        diags
            .error(Diag::MisplacedUse, rangeOf(use),
                   "`use` of files stands before the declarations")
            .note(result->decls.front()->keyword, "the first declaration")
            .help("move it to the head of the file");
      }
      addUses(use, *result);
    }
  }
  return result;
}

void Builder::addUses(P::UseFileContext *context, File &result) {
  for (P::UseTargetContext *target : context->useTarget()) {
    Use &use = result.uses.emplace_back();
    use.range = rangeOf(target);
    if (target->STRING()) {
      use.isPath = true;
      use.path = stringValue(target->STRING()->getSymbol());
    } else {
      use.module = buildDotted(target->dotted());
    }
  }
}

std::vector<Param> Builder::buildParams(P::ParamsContext *context) {
  std::vector<Param> params;
  if (!context) {
    return params;
  }
  for (P::ParamContext *param : context->param()) {
    Param &last = params.emplace_back();
    last.range = rangeOf(param);
    last.name = buildName(param->name);
    if (param->sort) {
      last.type = buildName(param->sort);
    }
    if (param->value()) {
      last.defaultValue = buildValue(param->value());
    }
  }
  return params;
}

std::unique_ptr<Decl> Builder::buildAlgorithm(P::AlgorithmDeclContext *c) {
  auto decl = begin<AlgorithmDecl>(c);
  decl->name = buildName(c->word());
  decl->replaces = buildCall(c->call());
  for (P::ConditionContext *condition : c->condition()) {
    AlgorithmDecl::Condition &last = decl->conditions.emplace_back();
    last.range = rangeOf(condition);
    if (condition->ref()) {
      last.dim = buildRef(condition->ref());
      last.axis = buildAxis(condition->axis());
    } else {
      last.value = buildExpr(condition->expr());
    }
  }
  decl->body = buildCodeBlock(c->codeBlock(), DeclKind::Algorithm);
  return decl;
}

std::unique_ptr<Decl> Builder::buildRun(P::RunDeclContext *c) {
  auto decl = begin<RunDecl>(c);
  decl->name = buildName(c->name);
  decl->model = buildName(c->model);
  for (P::CallContext *call : c->call()) {
    decl->with.push_back(buildCall(call));
  }
  decl->reproducible = c->REPRODUCIBLE() != nullptr;
  decl->body = buildRunBlock(c->runBlock());
  return decl;
}

std::unique_ptr<Decl> Builder::buildDecl(P::DeclContext *context) {
  if (auto *c = context->modelDecl()) {
    auto decl = begin<ModelDecl>(c);
    decl->name = buildName(c->word());
    decl->params = buildParams(c->params());
    decl->body = buildCodeBlock(c->codeBlock(), DeclKind::Model);
    return decl;
  }
  if (auto *c = context->fnDecl()) {
    auto decl = begin<FnDecl>(c);
    decl->name = buildName(c->word());
    decl->params = buildParams(c->params());
    if (c->words()) {
      decl->dims = buildNames(c->words());
    }
    decl->body = buildCodeBlock(c->codeBlock(), DeclKind::Fn);
    return decl;
  }
  if (auto *c = context->optimizerDecl()) {
    auto decl = begin<OptimizerDecl>(c);
    decl->name = buildName(c->word());
    decl->params = buildParams(c->params());
    decl->body = buildCodeBlock(c->codeBlock(), DeclKind::Optimizer);
    return decl;
  }
  if (auto *c = context->strategyDecl()) {
    auto decl = begin<StrategyDecl>(c);
    decl->name = buildName(c->word());
    decl->params = buildParams(c->params());
    if (c->words()) {
      decl->axes = buildNames(c->words());
    }
    decl->body = buildPlanBlock(c->planBlock());
    return decl;
  }
  if (auto *c = context->scheduleDecl()) {
    auto decl = begin<ScheduleDecl>(c);
    decl->name = buildName(c->word());
    if (c->STRING()) {
      decl->path = stringValue(c->STRING()->getSymbol());
      decl->pathRange = rangeOf(c->STRING());
      return decl;
    }
    decl->params = buildParams(c->params());
    decl->deal = c->DEALT()    ? ScheduleDecl::Dealt
                 : c->FOLDED() ? ScheduleDecl::Folded
                               : ScheduleDecl::Plain;
    decl->body = buildCodeBlock(c->codeBlock(), DeclKind::Schedule);
    return decl;
  }
  if (auto *c = context->algorithmDecl()) {
    return buildAlgorithm(c);
  }
  if (auto *c = context->planDecl()) {
    auto decl = begin<PlanDecl>(c);
    decl->name = buildName(c->name);
    decl->params = buildParams(c->params());
    decl->model = buildName(c->model);
    decl->body = buildPlanBlock(c->planBlock());
    return decl;
  }
  if (auto *c = context->runDecl()) {
    return buildRun(c);
  }
  auto *c = context->reducedDecl();
  auto decl = begin<ReducedDecl>(c);
  decl->name = buildName(c->word());
  decl->args = buildArgs(c->args());
  return decl;
}

Block Builder::buildRunBlock(P::RunBlockContext *context) {
  Block block;
  block.range = rangeOf(context);
  for (P::RunStmtContext *stmt : context->runStmt()) {
    block.stmts.push_back(buildRunStmt(stmt));
  }
  return block;
}

StmtPtr Builder::buildRunStmt(P::RunStmtContext *context) {
  if (auto *c = context->plansStmt()) {
    auto stmt = begin<PlansStmt>(c);
    for (P::PlanEntryContext *entry : c->planEntry()) {
      PlansStmt::Entry &last = stmt->entries.emplace_back();
      last.range = rangeOf(entry);
      last.name = buildName(entry->word());
      last.plan = buildCall(entry->call());
    }
    return stmt;
  }
  if (auto *c = context->startStmt()) {
    auto stmt = begin<StartStmt>(c);
    stmt->plan = buildName(c->word());
    return stmt;
  }
  if (auto *c = context->varyStmt()) {
    auto stmt = begin<VaryStmt>(c);
    stmt->what = buildName(c->word());
    stmt->value = buildCall(c->call());
    return stmt;
  }
  if (auto *c = context->whenStmt()) {
    auto stmt = begin<WhenStmt>(c);
    inCondition = true;
    stmt->condition = buildExpr(c->test);
    inCondition = false;
    stmt->during = buildExpr(c->during);
    stmt->target = buildExpr(c->target);
    return stmt;
  }
  if (auto *c = context->snapshotStmt()) {
    auto stmt = begin<SnapshotStmt>(c);
    stmt->every = buildExpr(c->expr());
    return stmt;
  }
  auto *c = context->entryStmt();
  auto stmt = begin<EntryStmt>(c);
  stmt->which = c->EVAL() ? EntryStmt::Eval : EntryStmt::Forward;
  stmt->values = buildSettings(c->setting());
  stmt->every = buildExpr(c->expr());
  return stmt;
}

} // namespace cleave
