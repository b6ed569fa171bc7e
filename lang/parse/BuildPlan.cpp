#include "lang/parse/Build.h"

#include <charconv>

namespace cleave {

using P = antlr::CleaveParser;
using namespace ast;

Block Builder::buildPlanBlock(P::PlanBlockContext *context) {
  Block block;
  block.range = rangeOf(context);
  for (P::PlanStmtContext *stmt : context->planStmt()) {
    block.stmts.push_back(buildPlanStmt(stmt));
  }
  return block;
}

StmtPtr Builder::buildPlanStmt(P::PlanStmtContext *context) {
  if (auto *c = context->meshStmt()) {
    return buildMesh(c);
  }
  if (auto *c = context->viewStmt()) {
    auto stmt = begin<ViewStmt>(c);
    stmt->axes = buildAxes(c->axes());
    stmt->axesRange = rangeOf(c->axes());
    return stmt;
  }
  if (auto *c = context->shardStmt()) {
    return buildShard(c);
  }
  if (auto *c = context->placeStmt()) {
    return buildPlace(c);
  }
  if (auto *c = context->keepStmt()) {
    return buildKeep(c);
  }
  if (auto *c = context->perStmt()) {
    auto stmt = begin<PerStmt>(c);
    stmt->what = c->GATHER() ? PerStmt::Gather : PerStmt::Reduce;
    stmt->selection = buildSelection(c->sel());
    stmt->loop = buildName(c->word());
    return stmt;
  }
  if (auto *c = context->microStmt()) {
    auto stmt = begin<MicroStmt>(c);
    stmt->dim = buildName(c->word());
    stmt->into = c->INTO() != nullptr;
    stmt->count = buildExpr(c->expr());
    return stmt;
  }
  if (auto *c = context->pipelineStmt()) {
    return buildPipeline(c);
  }
  if (auto *c = context->tuneStmt()) {
    auto stmt = begin<TuneStmt>(c);
    stmt->lossy = c->LOSSY() != nullptr;
    stmt->comm = buildComm(c->comm());
    stmt->options = buildSettings(c->settings()->setting());
    return stmt;
  }
  if (auto *c = context->useStmt()) {
    auto stmt = begin<UseStmt>(c);
    stmt->call = buildCall(c->call());
    if (c->sel()) {
      stmt->selection = buildSelection(c->sel());
    }
    return stmt;
  }
  if (auto *c = context->inStmt()) {
    auto stmt = begin<InStmt>(c);
    stmt->selection = buildSelection(c->sel());
    stmt->body = buildPlanBlock(c->planBlock());
    return stmt;
  }
  if (auto *c = context->planIf()) {
    return buildPlanIf(c);
  }
  if (auto *c = context->planLet()) {
    auto stmt = begin<LetStmt>(c);
    stmt->names.push_back(buildName(c->word()));
    stmt->values.push_back(buildValue(c->value()));
    return stmt;
  }
  return buildExpect(context->expectStmt());
}

StmtPtr Builder::buildPlanIf(P::PlanIfContext *context) {
  auto tests = context->expr();
  auto words = context->IF();
  auto blocks = context->planBlock();
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
    rest = buildPlanBlock(blocks.back());
  }
  for (size_t i = tests.size(); i-- > 0;) {
    auto stmt = begin<IfStmt>(context);
    stmt->keyword = rangeOf(words[i]);
    stmt->range.begin = stmt->keyword.begin;
    stmt->condition = buildExpr(tests[i]);
    stmt->thenBlock = buildPlanBlock(blocks[i]);
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

std::vector<AxisDef> Builder::buildAxes(P::AxesContext *context) {
  std::vector<AxisDef> axes;
  for (P::AxisDefContext *axis : context->axisDef()) {
    AxisDef &last = axes.emplace_back();
    last.range = rangeOf(axis);
    last.name = buildName(axis->word());
    if (axis->FREE()) {
      last.kind = AxisDef::Free;
    } else if (axis->axes()) {
      last.kind = AxisDef::Nested;
      last.factors = buildAxes(axis->axes());
    } else if (axis->expr()) {
      last.kind = AxisDef::Sized;
      last.size = buildExpr(axis->expr());
    }
  }
  return axes;
}

StmtPtr Builder::buildMesh(P::MeshStmtContext *context) {
  auto stmt = begin<MeshStmt>(context);
  stmt->axes = buildAxes(context->own);
  stmt->axesRange = rangeOf(context->own);
  if (context->levels) {
    stmt->levels = buildAxes(context->levels);
    stmt->onRange = rangeOf(context->levels);
  } else if (context->devices) {
    stmt->devices = buildExpr(context->devices);
    stmt->onRange = rangeOf(context->devices);
  }
  return stmt;
}

Ref Builder::buildRef(P::RefContext *context) {
  Ref ref;
  ref.range = rangeOf(context);
  for (P::WordContext *word : context->word()) {
    ref.parts.push_back(buildName(word));
  }
  ref.optional = context->QUESTION() != nullptr;
  return ref;
}

AxisExpr Builder::buildAxis(P::AxisContext *context) {
  AxisExpr axis;
  axis.range = rangeOf(context);
  axis.none = context->NONE() != nullptr;
  for (P::RefContext *ref : context->ref()) {
    axis.factors.push_back(buildRef(ref));
  }
  return axis;
}

StmtPtr Builder::buildShard(P::ShardStmtContext *context) {
  auto stmt = begin<ShardStmt>(context);
  stmt->largest = context->dims()->LARGEST() != nullptr;
  stmt->dimsRange = rangeOf(context->dims());
  for (P::RefContext *dim : context->dims()->ref()) {
    stmt->dims.push_back(buildRef(dim));
  }
  stmt->also = context->ALSO() != nullptr;
  for (P::AxisContext *axis : context->axis()) {
    stmt->alternatives.push_back(buildAxis(axis));
  }
  if (P::DealContext *deal = context->deal()) {
    stmt->dealt = buildExpr(deal->expr());
    stmt->folded = deal->FOLDED() != nullptr;
  }
  if (context->EVEN()) {
    stmt->even = true;
    stmt->evenRange = rangeOf(context->EVEN());
  }
  if (context->sel()) {
    stmt->selection = buildSelection(context->sel());
  }
  return stmt;
}

StmtPtr Builder::buildPlace(P::PlaceStmtContext *context) {
  auto stmt = begin<PlaceStmt>(context);
  stmt->selection = buildSelection(context->sel());
  for (P::PlaceAtContext *place : context->placeAt()) {
    PlaceStmt::Where &last = stmt->places.emplace_back();
    last.range = rangeOf(place);
    last.axis = buildName(place->word());
    last.index = buildStepRange(place->span());
  }
  return stmt;
}

std::vector<Option>
Builder::buildSettings(const std::vector<P::SettingContext *> &contexts) {
  std::vector<Option> options;
  for (P::SettingContext *context : contexts) {
    Option &last = options.emplace_back();
    last.range = rangeOf(context);
    last.name = buildName(context->word());
    last.value = buildExpr(context->expr());
  }
  return options;
}

StmtPtr Builder::buildKeep(P::KeepStmtContext *context) {
  auto stmt = begin<KeepStmt>(context);
  stmt->what = context->SAVE()        ? KeepStmt::Save
               : context->RECOMPUTE() ? KeepStmt::Recompute
                                      : KeepStmt::Offload;
  stmt->selection = buildSelection(context->sel());
  if (context->settings()) {
    stmt->options = buildSettings(context->settings()->setting());
  }
  return stmt;
}

PipelineStmt::Piece Builder::buildPiece(P::PieceContext *context) {
  PipelineStmt::Piece piece;
  piece.range = rangeOf(context);
  piece.times = buildExpr(context->expr());
  for (P::ItemContext *item : context->item()) {
    PipelineStmt::Item &last = piece.items.emplace_back();
    last.range = rangeOf(item);
    if (item->word()) {
      last.name = buildName(item->word());
    } else {
      last.name.range = rangeOf(item->UNIT());
      last.name.text = sources.text(last.name.range);
    }
    if (!item->NUMBER()) {
      continue;
    }
    std::string digits(sources.text(rangeOf(item->NUMBER())));
    std::erase(digits, '_');
    int64_t count = 0;
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (end != digits.data() + digits.size() || error != std::errc()) {
      diags
          .error(Diag::BadNumber, rangeOf(item->NUMBER()),
                 "a piece of a pipeline has a whole number of iterations")
          .help("write `[2 layer]`, for example");
    }
    last.count = count;
  }
  return piece;
}

StmtPtr Builder::buildPipeline(P::PipelineStmtContext *context) {
  auto stmt = begin<PipelineStmt>(context);
  stmt->step = buildStep(context->step());
  stmt->axis = buildName(context->word());
  stmt->chunks = buildExpr(context->expr());
  if (P::CutsContext *cuts = context->cuts()) {
    if (cuts->words()) {
      stmt->counting = buildNames(cuts->words());
    }
    stmt->byCost = cuts->COST() != nullptr;
    for (P::PieceContext *piece : cuts->piece()) {
      stmt->pieces.push_back(buildPiece(piece));
    }
  }
  stmt->schedule = buildCall(context->call());
  return stmt;
}

namespace {

CommKind kindOf(P::KindContext *context) {
  switch (context->getStart()->getType()) {
  case P::COLLECTIVES:
    return CommKind::Collectives;
  case P::ALL_REDUCE:
    return CommKind::AllReduce;
  case P::ALL_GATHER:
    return CommKind::AllGather;
  case P::REDUCE_SCATTER:
    return CommKind::ReduceScatter;
  case P::ALL_TO_ALL:
    return CommKind::AllToAll;
  case P::BROADCAST:
    return CommKind::Broadcast;
  case P::SHIFT:
    return CommKind::Shift;
  case P::HALO:
    return CommKind::Halo;
  default:
    return CommKind::Send;
  }
}

} // namespace

Comm Builder::buildComm(P::CommContext *context) {
  Comm comm;
  comm.range = rangeOf(context);
  comm.kind = kindOf(context->kind());
  comm.kindName.range = rangeOf(context->kind());
  comm.kindName.text = sources.text(comm.kindName.range);
  if (context->axis()) {
    comm.axis = buildAxis(context->axis());
  }
  comm.selection.range = {file, comm.range.end, comm.range.end};
  if (context->sel()) {
    comm.hasGroup = true;
    comm.selection = buildSelection(context->sel());
    return comm;
  }
  for (P::ClauseContext *clause : context->clause()) {
    comm.selection.clauses.push_back(buildClause(clause));
    comm.selection.range.begin =
        std::min(comm.selection.range.begin, rangeOf(clause).begin);
  }
  return comm;
}

StmtPtr Builder::buildExpect(P::ExpectStmtContext *context) {
  auto stmt = begin<ExpectStmt>(context);
  P::ClaimContext *claim = context->claim();
  stmt->claim = rangeOf(claim);
  if (auto *within = dynamic_cast<P::ClaimWithinContext *>(claim)) {
    stmt->form = ExpectStmt::Within;
    stmt->inner = buildName(within->word(0));
    stmt->outer = buildName(within->word(1));
  } else if (auto *no = dynamic_cast<P::ClaimNoContext *>(claim)) {
    stmt->form = ExpectStmt::No;
    stmt->comm = buildComm(no->comm());
  } else if (auto *count = dynamic_cast<P::ClaimCountContext *>(claim)) {
    stmt->form = count->BYTES() ? ExpectStmt::Bytes : ExpectStmt::Count;
    stmt->comm = buildComm(count->comm());
    stmt->compare = buildCompare(count->compare());
    stmt->compareRange = rangeOf(count->compare());
    stmt->value = buildSum(count->sum());
    for (P::WordContext *loop : count->word()) {
      stmt->per.push_back(buildName(loop));
    }
  } else {
    stmt->form = ExpectStmt::Holds;
    stmt->value = buildExpr(static_cast<P::ClaimHoldsContext *>(claim)->expr());
  }
  return stmt;
}

} // namespace cleave
