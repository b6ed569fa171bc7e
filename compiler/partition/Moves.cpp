//===- Moves.cpp - Values go from layout to layout ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"

#include "compiler/differentiate/Recompute.h"
#include "compiler/reproducible/Reproducible.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using clv::RepeatOp;
using layout::Layout;

std::vector<std::string> partitioning::sentencesOf(const Declared &declared) {
  std::vector<std::string> sentences;
  for (const layout::Choice &choice : declared.resolved.choices) {
    sentences.push_back(choice.sentence);
  }
  return sentences;
}

void FunctionPartitioner::addRecord(Operation *op, const reshard::Move &step,
                                    const Need &need, const Notes &before,
                                    StringRef reason, StringRef avoid) {
  layout::CollectiveRecord entry;
  entry.kind = reshard::nameOf(step.kind);
  entry.atoms = step.atoms;
  entry.value = need.info;
  entry.bytesBusiest = step.traffic.busiest;
  entry.bytesTotal = step.traffic.total;
  bool isDeferred = false;
  for (auto loop = op->getParentOfType<RepeatOp>(); loop;
       loop = loop->getParentOfType<RepeatOp>()) {
    if (entry.repeat.empty()) {
      entry.repeat = loop.getDim().str();
    }
    entry.iterations *= loop.getCount();
    isDeferred |= loop->hasAttr(kDeferred);
  }
  // What is done for each microbatch.
  bool isTimed =
      llvm::any_of(spmd::layoutOf(op->getResult(0).getType()).usedAtoms(),
                   [&](layout::AtomId a) { return mesh.isTime(a); });
  if (isTimed || (!entry.repeat.empty() && !isDeferred)) {
    entry.iterations *= declarations.plan.micros();
    entry.perMicro = declarations.plan.micro.has_value();
  }
  // A stack of values, one for each layer, counts its members.
  std::vector<layout::NamedDim> &dims = entry.value.dims;
  if (entry.repeat.empty() && !dims.empty() &&
      declarations.isRepeated(dims.front().name)) {
    entry.repeat = dims.front().name;
    entry.iterations = dims.front().size;
    entry.bytesBusiest /= dims.front().size;
    entry.bytesTotal /= dims.front().size;
    dims.erase(dims.begin());
  }
  // A reduction belongs to the operation that was done in parts.
  bool isReduction = step.kind == reshard::Kind::AllReduce ||
                     step.kind == reshard::Kind::ReduceScatter;
  isReduction &= !before.pendingOperation.empty();
  entry.operation = isReduction ? before.pendingOperation : need.operation;
  entry.source = isReduction ? before.pendingSource : need.source;
  entry.reason = reason.str();
  entry.avoid = avoid.str();
  entry.recomputed = need.recomputed;
  if (need.recomputed) {
    repeatedRecords[op] = record.collectives.size();
  }
  if (mesh.times > 0) {
    op->setAttr(kRecordNumber, builder.getI64IntegerAttr(static_cast<int64_t>(
                                   record.collectives.size())));
  }
  record.collectives.push_back(std::move(entry));
}

/// What recomputation moved turns out to be read by something else too.
void FunctionPartitioner::keepInAnyCase(Value moved) {
  for (Operation *op = moved.getDefiningOp(); op;
       op = op->getOperand(0).getDefiningOp()) {
    auto found = repeatedRecords.find(op);
    if (found == repeatedRecords.end()) {
      return;
    }
    record.collectives[found->second].recomputed = false;
    repeatedRecords.erase(found);
  }
}

Value FunctionPartitioner::emit(Value value, const reshard::Move &step,
                                const Need &need, const Notes &before) {
  Type type = localOf(value.getType(), step.result);
  SmallVector<int64_t> atoms(step.atoms.begin(), step.atoms.end());
  Change change = {spmd::layoutOf(value.getType()), step.result, need.layout,
                   step.kind, step.atoms};
  std::string reason = reasonFor(change, before, need.why, need.sentence, mesh);
  std::string avoid = avoidFor(change, need.info, mesh);
  Location loc = need.op->getLoc();
  Operation *op = nullptr;
  auto create = [&](auto tag) {
    op = builder.create<decltype(tag)>(loc, type, value, atoms, reason, avoid);
  };
  switch (step.kind) {
  case reshard::Kind::LocalSlice:
    create(spmd::LocalSliceOp());
    break;
  case reshard::Kind::AllGather:
    create(spmd::AllGatherOp());
    break;
  case reshard::Kind::AllToAll:
    create(spmd::AllToAllOp());
    break;
  case reshard::Kind::Shift:
    op = builder.create<spmd::ShiftOp>(loc, type, value, atoms, reason, avoid,
                                       StringAttr());
    break;
  case reshard::Kind::AllReduce:
    create(spmd::AllReduceOp());
    break;
  case reshard::Kind::ReduceScatter:
    create(spmd::ReduceScatterOp());
    break;
  }
  clv::setScope(op, need.scope);
  if (need.perMicro) {
    op->setAttr(kPerMicro, builder.getUnitAttr());
  }
  bool isInTime = llvm::any_of(
      step.atoms, [&](layout::AtomId atom) { return mesh.isTime(atom); });
  if (step.kind != reshard::Kind::LocalSlice && !isInTime) {
    addRecord(op, step, need, before, reason, avoid);
  }
  return op->getResult(0);
}

Value FunctionPartitioner::move(Value value, const Need &need) {
  Layout from = spmd::layoutOf(value.getType());
  Type target = localOf(value.getType(), need.layout);
  if (localOf(value.getType(), from) == target) {
    return value;
  }
  unsigned phase = static_cast<unsigned>(need.info.phase);
  auto key = std::pair(value, std::pair(target, phase));
  if (need.shared) {
    if (Value known = moved.lookup(key)) {
      if (!need.recomputed) {
        keepInAnyCase(known);
      }
      return known;
    }
  }
  OpBuilder::InsertionGuard guard(builder);
  // What all may share stands where the value is: outside a repeat that only
  // reads it.
  Operation *before = need.op;
  if (need.shared) {
    before = value.getParentBlock()->findAncestorOpInBlock(*need.op);
  }
  builder.setInsertionPoint(before);
  const reshard::Path &path =
      cache.reshard(from, need.layout, subjectOf(value));
  if (!path.isPossible) {
    std::string time = mesh.atoms.back().name;
    std::string what =
        need.info.path.empty() ? "a value" : "`" + need.info.path + "`";
    need.op->emitError("`" + need.operation + "` needs " + what +
                       " of all microbatches at once, but `" + time +
                       "` cuts it in time");
    hasFailed = true;
    return value;
  }
  Notes atStart = notes.lookup(value);
  Value at = value;
  for (const reshard::Move &step : path.moves) {
    at = emit(at, step, need, atStart);
  }
  Notes &after = notes[at];
  after = atStart;
  after.pending = need.layout.isPartial() ? atStart.pending : "";
  for (size_t d = 0; d < after.why.size(); ++d) {
    if (from.dims[d] != need.layout.dims[d] && d < need.why.size()) {
      after.why[d] = need.why[d];
    }
  }
  if (need.shared) {
    moved[key] = at;
  }
  return at;
}

/// Whether a stack may be saved pending: where all that reads it is the
/// gradient that it becomes (SinkGradients.h).
bool FunctionPartitioner::staysPendingAsStack(Value yielded) {
  OpOperand &use = *yielded.getUses().begin();
  auto repeat = dyn_cast<RepeatOp>(use.getOwner()->getParentOp());
  Value stack = repeat.getResult(use.getOperandNumber());
  return yielded.hasOneUse() && stack.hasOneUse() &&
         isa<clv::GradientOp>(*stack.getUsers().begin());
}

/// Whether the one reader of a pending sum may take it pending.
bool FunctionPartitioner::staysPending(Value value) {
  llvm::SetVector<Operation *> readers;
  for (Operation *reader : value.getUsers()) {
    readers.insert(reader);
  }
  if (readers.size() != 1) {
    return false;
  }
  Operation *reader = readers.front();
  if (reader->getBlock() != value.getParentBlock()) {
    return false;
  }
  if (isa<clv::YieldOp>(reader)) {
    auto repeat = cast<RepeatOp>(reader->getParentOp());
    unsigned index = value.getUses().begin()->getOperandNumber();
    if (index >= repeat.getCarried().size()) {
      return staysPendingAsStack(value);
    }
    return value.hasOneUse() && index < repeat.getCarried().size() &&
           repeat.getCarriedArguments()[index].getType() == value.getType();
  }
  if (isa<clv::EdgeOp, clv::GradientOp, spmd::ShiftOp, func::ReturnOp>(
          reader)) {
    return true;
  }
  if (!isa<clv::RuleInterface>(reader)) {
    return false;
  }
  clv::Rule rule = ruleOf(reader);
  if (rule.additive) {
    return true;
  }
  for (OpOperand &use : value.getUses()) {
    if (!rule.passesSum[use.getOperandNumber()]) {
      return false;
    }
  }
  return value.hasOneUse();
}

/// Whether a window keeps the cuts that it has until other windows read it: of
/// a roll or a concatenation only what ends elsewhere is sent.
bool FunctionPartitioner::staysWindow(Value value) {
  auto isWindow = [&](Operation *op) {
    return isa<clv::SliceOp, clv::PadOp>(op) &&
           op->getBlock() == value.getParentBlock();
  };
  return isWindow(value.getDefiningOp()) && !value.use_empty() &&
         llvm::all_of(value.getUsers(), isWindow);
}

/// Brings a new result to its declared layout, unless its sum is put off or its
/// readers are windows.
void FunctionPartitioner::settle(Value value, const Declared &declared) {
  Layout now = spmd::layoutOf(value.getType());
  bool isSum = now.isPartial() && now.reduction == layout::Reduction::Sum;
  if ((isSum && staysPending(value)) ||
      (!now.isPartial() && staysWindow(value))) {
    return;
  }
  Operation *op = value.getDefiningOp();
  Operation *next = op->getNextNode();
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses()) {
    uses.push_back(&use);
  }
  Need need;
  need.op = next;
  need.layout = declared.layout();
  need.why = sentencesOf(declared);
  need.info = declared.info;
  need.scope = clv::scopeOf(op);
  need.operation = nameOf(op);
  need.source = pointOf(op->getLoc());
  need.recomputed = op->hasAttr(kRecomputed);
  need.sentence = "so `" + nameOf(op) + "` gives it here";
  if (now.isPartial()) {
    std::string reader = uses.empty() ? "" : nameOf(uses.front()->getOwner());
    need.sentence = uses.size() == 1 ? "`" + reader + "` needs it reduced"
                                     : "those who read it need it reduced";
  }
  Value at = move(value, need);
  if (at != value) {
    for (OpOperand *use : uses) {
      use->set(at);
    }
  }
}
