//===- Operations.cpp - Operations are split, edges go --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"

#include "compiler/differentiate/Recompute.h"
#include "compiler/reproducible/Reproducible.h"
using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using clv::RepeatOp;
using layout::Layout;

static bool reduces(const clv::Factor &factor) {
  return factor.kind == clv::FactorKind::Sum ||
         factor.kind == clv::FactorKind::Max ||
         factor.kind == clv::FactorKind::Min;
}

/// What Decide.h wants to know of an operation; of an ordered one, once its
/// terms are at one time.
LogicalResult FunctionPartitioner::ask(Operation *op, const Declared &declared,
                                       Query &query) {
  query.rule = ruleOf(op);
  for (const clv::Factor &factor : query.rule.factors) {
    if (reduces(factor) && !factor.results.empty() && factor.results[0] >= 0) {
      return op->emitError("declares that it reduces `")
             << factor.name << "`, which its result has";
    }
  }
  if (op->hasAttr(kOrdered)) {
    // Terms are added where all of them are.
    for (clv::Factor &factor : query.rule.factors) {
      if (factor.kind != clv::FactorKind::Sum) {
        continue;
      }
      factor.kind = clv::FactorKind::Whole;
      for (auto [i, dim] : llvm::enumerate(factor.operands)) {
        op->setOperand(i, bringTerms(op->getOperand(i), dim, op));
        addFreed(op->getOperand(i), dim, query);
      }
    }
  }
  query.result = declared.layout();
  query.subject = subjectOf(op->getResult(0));
  query.resultStays = staysWindow(op->getResult(0));
  for (Value operand : op->getOperands()) {
    OperandState state;
    state.now = spmd::layoutOf(operand.getType());
    state.declared = state.now;
    if (state.now.isPartial()) {
      const Declared *reduced = declaredOf(operand, op->getLoc());
      if (!reduced) {
        return failure();
      }
      state.declared = reduced->layout();
    }
    state.subject = subjectOf(operand);
    state.isNumber = !cast<RankedTensorType>(operand.getType())
                          .getElementType()
                          .isInteger(1);
    query.operands.push_back(std::move(state));
  }
  return success();
}

/// The statement that a factor's split comes from.
std::string FunctionPartitioner::sentenceOf(Operation *op,
                                            const Declared &declared,
                                            const Origin &origin) {
  std::vector<std::string> why =
      origin.operand >= 0 ? notes.lookup(op->getOperand(origin.operand)).why
                          : sentencesOf(declared);
  return origin.dim >= 0 && origin.dim < static_cast<int>(why.size())
             ? why[origin.dim]
             : "";
}

/// Notes the result of a decision: what split its dims, why it is pending.
Notes FunctionPartitioner::explain(Operation *op, const Declared &declared,
                                   const Query &query,
                                   const Decision &decision) {
  Notes result;
  result.info = declared.info;
  result.why.resize(query.result.dims.size());
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (decision.operands[i].isPartial()) {
      Notes from = notes.lookup(operand);
      result.pending = from.pending;
      result.pendingOperation = from.pendingOperation;
      result.pendingSource = from.pendingSource;
    }
  }
  for (auto [f, factor] : llvm::enumerate(query.rule.factors)) {
    std::string why = sentenceOf(op, declared, decision.origins[f]);
    if (!factor.results.empty() && factor.results[0] >= 0) {
      result.why[factor.results[0]] = why;
    }
    if (!reduces(factor) || decision.splits[f].isWhole()) {
      continue;
    }
    std::string part = "`" + factor.name + "` is split on `" +
                       mesh.describe(decision.splits[f].atoms) + "`" +
                       (why.empty() ? "" : " by " + why);
    if (result.pending.empty()) {
      result.pendingOperation = nameOf(op);
      result.pendingSource = pointOf(op->getLoc());
      result.pending = "`" + nameOf(op) + "` is done in parts: " + part;
    } else {
      result.pending += " and " + part;
    }
  }
  return result;
}

LogicalResult FunctionPartitioner::runCompute(Operation *op) {
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (accumulators.contains(op->getOperand(i)) &&
        failed(startAccumulator(cast<BlockArgument>(op->getOperand(i)),
                                op->getOperand(1 - i)))) {
      return failure();
    }
  }
  if (!isa<clv::RuleInterface>(op) || op->getNumResults() != 1) {
    return op->emitError("cannot be partitioned: it declares no rule");
  }
  const Declared *declared = declaredOf(op->getResult(0), op->getLoc());
  Query query;
  if (!declared || failed(ask(op, *declared, query))) {
    return failure();
  }
  Decision decision = decide(query, cache);
  Notes result = explain(op, *declared, query, decision);
  clv::ScopeAttr scope = clv::scopeOf(op);
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    Value operand = op->getOperand(i);
    Need need;
    need.op = op;
    need.recomputed = op->hasAttr(kRecomputed);
    need.layout = decision.operands[i];
    need.why.resize(need.layout.dims.size());
    for (auto [f, factor] : llvm::enumerate(query.rule.factors)) {
      if (factor.operands[i] >= 0) {
        need.why[factor.operands[i]] =
            sentenceOf(op, *declared, decision.origins[f]);
      }
    }
    need.info = notes.lookup(operand).info;
    need.scope = scope;
    if (scope) {
      need.info.phase = static_cast<layout::Phase>(scope.getPhase());
    }
    need.operation = nameOf(op);
    need.source = pointOf(op->getLoc());
    bool isReduced =
        query.operands[i].now.isPartial() && !decision.operands[i].isPartial();
    need.sentence =
        "`" + nameOf(op) + "` needs it " + (isReduced ? "reduced" : "so");
    op->setOperand(i, move(operand, need));
  }
  Value value = op->getResult(0);
  value.setType(
      cast<RankedTensorType>(localOf(value.getType(), decision.natural)));
  notes[value] = std::move(result);
  settle(value, *declared);
  return success();
}

/// Whether a pending sum may cross an edge at which no layout changes, for the
/// one reader that takes it so (another edge, say, where it is scattered).
bool FunctionPartitioner::crossesPending(clv::EdgeOp edge,
                                         const Declared &declared) {
  Value operand = edge.getX();
  Layout now = spmd::layoutOf(operand.getType());
  if (!now.isPartial() || !clv::scopeOfValue(operand)) {
    return false;
  }
  const Declared *before = declaredOf(operand, edge.getLoc());
  return before && before->layout() == declared.layout() &&
         operand.hasOneUse() && staysPending(edge.getResult());
}

/// `edge` and `gradient`: the value goes to the declared layout in one step.
LogicalResult FunctionPartitioner::runIdentity(Operation *op) {
  Value result = op->getResult(0), operand = op->getOperand(0);
  const Declared *declared = declaredOf(result, op->getLoc());
  if (!declared) {
    return failure();
  }
  if (auto edge = dyn_cast<clv::EdgeOp>(op);
      edge && crossesPending(edge, *declared)) {
    result.replaceAllUsesWith(operand);
    op->erase();
    return success();
  }
  Need need;
  need.op = op;
  need.recomputed = op->hasAttr(kRecomputed);
  need.layout = declared->layout();
  need.why = sentencesOf(*declared);
  need.info = declared->info;
  need.scope = clv::scopeOf(op);
  need.operation = nameOf(op);
  need.source = pointOf(op->getLoc());
  if (auto edge = dyn_cast<clv::EdgeOp>(op)) {
    need.info.path = edge.getInner().str();
    need.operation = "edge of " + edge.getInner().str();
    need.sentence = "at the edge of `" + edge.getInner().str() + "`";
    if (need.scope) {
      need.scope = clv::ScopeAttr::get(
          op->getContext(), need.scope.getRole(), need.scope.getPhase(),
          edge.getInner(), need.scope.getLabel(), need.scope.getReader());
    }
  } else {
    need.sentence = "as the gradient of `" + declared->info.path + "`";
  }
  Value at = move(operand, need);
  // What the next reader sees is a value of the other region.
  Notes renamed = notes.lookup(at);
  renamed.info = declared->info;
  notes[at] = renamed;
  result.replaceAllUsesWith(at);
  op->erase();
  return success();
}

LogicalResult FunctionPartitioner::runWeight(clv::WeightOp op) {
  const Declared *declared = declaredOf(op.getResult(), op.getLoc());
  if (!declared) {
    return failure();
  }
  Need need;
  need.op = op;
  need.recomputed = op->hasAttr(kRecomputed);
  need.layout = declared->layout();
  need.why = sentencesOf(*declared);
  need.info = declared->info;
  need.scope = clv::scopeOf(op);
  need.operation = nameOf(op);
  need.source = pointOf(op.getLoc());
  GatherLoop loop = declarations.gatherLoopOf(declared->info);
  need.shared = loop != GatherLoop::Layer;
  need.perMicro = loop == GatherLoop::Micro;
  if (loop == GatherLoop::Step) {
    need.info.phase = layout::Phase::Forward; // one for the whole step
  }
  need.sentence = "`" + declared->info.reader + "` reads it as a weight";
  Value at = move(op.getX(), need);
  note(at, *declared); // what reads it now reads a weight
  op.getResult().replaceAllUsesWith(at);
  op.erase();
  return success();
}
