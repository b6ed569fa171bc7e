//===- Terms.cpp - The terms of ordered sums come together ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of a reproducible program (compiler/reproducible). Between devices terms are
// gathered as any operand is. What times cut, and what lies in several pieces
// on each stage, no way of Reshard.h makes whole.
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using layout::Layout;

/// A value of all microbatches, each of which stores its part. It stands where
/// the value is, for all who read it.
Value FunctionPartitioner::gatherInTime(Value value, Operation *reader) {
  Layout from = spmd::layoutOf(value.getType()), to = atRest(from, mesh);
  SmallVector<int64_t> atoms;
  for (auto [before, after] : llvm::zip(from.dims, to.dims)) {
    for (layout::AtomId atom : before.atoms) {
      if (mesh.isTime(atom)) {
        atoms.push_back(atom);
      }
    }
    bool isMinor = std::equal(after.atoms.begin(), after.atoms.end(),
                              before.atoms.begin());
    if (after != before && (!isMinor || !before.cuts.empty())) {
      reader->emitError("`" + nameOf(reader) +
                        "` needs a value of all microbatches at once whose "
                        "parts do not follow the split rule");
      hasFailed = true;
      return value;
    }
  }
  if (atoms.empty()) {
    return value;
  }
  Type target = localOf(value.getType(), to);
  auto phase = static_cast<unsigned>(layout::Phase::Forward);
  Value &known = moved[std::pair(value, std::pair(target, phase))];
  if (!known) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(
        value.getParentBlock()->findAncestorOpInBlock(*reader));
    auto gather = builder.create<spmd::AllGatherOp>(
        reader->getLoc(), target, value, atoms,
        "`" + nameOf(reader) + "` adds in one order, once all are there", "");
    if (clv::ScopeAttr scope = clv::scopeOfValue(value)) {
      clv::setScope(gather, scope);
    }
    known = gather.getResult();
    notes[known] = notes.lookup(value);
  }
  return known;
}

/// A dim of layers, of which each stage has several pieces.
Value FunctionPartitioner::gatherStages(Value value, int dim,
                                        Operation *reader) {
  Layout from = spmd::layoutOf(value.getType());
  reshard::Move step;
  step.kind = reshard::Kind::AllGather;
  step.atoms = from.dims[dim].atoms;
  step.result = from;
  step.result.dims[dim] = layout::Split();
  step.traffic = reshard::trafficOf(step.kind, step.atoms, from, step.result,
                                    subjectOf(value));
  Need need;
  need.op = reader;
  need.operation = nameOf(reader);
  need.source = pointOf(reader->getLoc());
  need.layout = step.result;
  need.info = notes.lookup(value).info;
  need.scope = clv::scopeOf(reader);
  need.sentence = "`" + need.operation + "` needs it so";
  need.why.resize(need.layout.dims.size());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(reader);
  Notes before = notes.lookup(value);
  Value whole = emit(value, step, need, before);
  notes[whole] = before;
  return whole;
}

/// An operand whose dim is summed, as far as this makes it whole.
Value FunctionPartitioner::bringTerms(Value value, int dim, Operation *reader) {
  if (dim < 0) {
    return value;
  }
  layout::Split split = spmd::layoutOf(value.getType()).dims[dim];
  if (llvm::any_of(split.atoms,
                   [&](layout::AtomId atom) { return mesh.isTime(atom); })) {
    return gatherInTime(value, reader);
  }
  return layout::isContiguous(split) ? value : gatherStages(value, dim, reader);
}

/// Notes what cuts a summed dim. Stages are no part of it: each has its own
/// work after the microbatches.
void FunctionPartitioner::addFreed(Value value, int dim, Query &query) {
  if (dim < 0) {
    return;
  }
  const std::optional<layout::PipelineStatement> &pipeline =
      declarations.plan.pipeline;
  Layout layout = spmd::layoutOf(value.getType());
  for (layout::AtomId atom : layout.dims[dim].atoms) {
    if (!(pipeline && llvm::is_contained(pipeline->atoms, atom)) &&
        !llvm::is_contained(query.freed, atom)) {
      query.freed.push_back(atom);
    }
  }
}
