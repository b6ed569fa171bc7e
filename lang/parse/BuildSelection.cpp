#include "lang/parse/Build.h"

namespace cleave {

using P = antlr::CleaveParser;
using namespace ast;

Selection Builder::buildSelection(P::SelContext *context) {
  Selection selection;
  selection.range = rangeOf(context);
  selection.group = buildGroup(context->group());
  for (P::ClauseContext *clause : context->clause()) {
    selection.clauses.push_back(buildClause(clause));
  }
  return selection;
}

Group Builder::buildGroup(P::GroupContext *context) {
  Group group;
  group.range = rangeOf(context);
  for (P::PickContext *pick : context->pick()) {
    group.picks.push_back(buildPick(pick));
  }
  return group;
}

namespace {

Role roleOf(P::RoleContext *context) {
  switch (context->getStart()->getType()) {
  case P::PARAMS:
    return Role::Params;
  case P::WEIGHTS:
    return Role::Weights;
  case P::GRADIENTS:
    return Role::Gradients;
  case P::OPTIMIZER:
    return Role::Optimizer;
  case P::ACTIVATIONS:
    return Role::Activations;
  case P::INPUTS:
    return Role::Inputs;
  case P::CACHES:
    return Role::Caches;
  case P::FORWARD:
    return Role::Forward;
  case P::BACKWARD:
    return Role::Backward;
  default:
    return Role::Update;
  }
}

} // namespace

Pick Builder::buildPick(P::PickContext *context) {
  Pick pick;
  pick.range = rangeOf(context);
  if (context->ALL()) {
    pick.kind = Pick::All;
  } else if (context->role()) {
    pick.kind = Pick::OfRole;
    pick.role = roleOf(context->role());
  } else if (context->sel()) {
    pick.kind = Pick::Nested;
    pick.nested = std::make_unique<Selection>(buildSelection(context->sel()));
  } else {
    pick.kind = Pick::OfPath;
    pick.path.range = pick.range;
    // Between steps there is one `/` fewer than steps, unless one leads.
    auto steps = context->path()->step();
    pick.path.anchored = context->path()->SLASH().size() == steps.size();
    for (P::StepContext *step : steps) {
      pick.path.steps.push_back(buildStep(step));
    }
  }
  return pick;
}

Clause Builder::buildClause(P::ClauseContext *context) {
  Clause clause;
  clause.range = rangeOf(context);
  if (context->WHERE()) {
    clause.kind = Clause::Where;
    clause.where = buildExpr(context->expr());
    return clause;
  }
  clause.kind = context->IN() ? Clause::In : Clause::Except;
  clause.group = buildGroup(context->group());
  return clause;
}

PathStep Builder::buildStep(P::StepContext *context) {
  PathStep step;
  step.range = rangeOf(context);
  if (context->word()) {
    step.name = buildName(context->word());
  } else {
    step.kind = context->STAR() ? PathStep::Star : PathStep::DoubleStar;
  }
  if (context->span()) {
    step.index = buildStepRange(context->span());
  }
  step.optional = context->QUESTION() != nullptr;
  return step;
}

StepRange Builder::buildStepRange(P::SpanContext *context) {
  StepRange range;
  range.range = rangeOf(context);
  range.index = buildExpr(context->one);
  range.begin = buildExpr(context->first);
  range.end = buildExpr(context->limit);
  range.every = buildExpr(context->stride);
  return range;
}

} // namespace cleave
