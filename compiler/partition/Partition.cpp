//===- Partition.cpp - From a global program to a local one ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions are rewritten in place, operation after operation in program order:
// a value's type says where it is, global until its operation is done, local
// after.
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Partition.h"

#include "compiler/partition/Decide.h"
#include "compiler/partition/Declare.h"
#include "compiler/partition/Record.h"
#include "dialects/spmd/Spmd.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using clv::RepeatOp;
using layout::Layout;

namespace {

/// A change of a value's layout that some operation needs.
struct Need {
  Operation *op = nullptr;      ///< the operation; moves stand before it
  Layout layout;                ///< what it needs
  std::string sentence;         ///< why, the end of the reason
  std::vector<std::string> why; ///< of the dims of `layout`
  layout::ValueInfo info;       ///< what the record calls the value
  clv::ScopeAttr scope;         ///< of the collectives
  bool shared = true; ///< one move for all who need it, where it can be
};

class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp function, Declarations &declarations,
                      reshard::Cache &cache, const PartitionOptions &options,
                      layout::ProgramRecord &record)
      : function(function), declarations(declarations), cache(cache),
        options(options), mesh(declarations.plan.mesh), record(record),
        builder(function.getContext()) {}

  LogicalResult run();

private:
  LogicalResult runArguments();
  LogicalResult runBlock(Block &block);
  LogicalResult runOperation(Operation *op);
  LogicalResult runCompute(Operation *op);
  LogicalResult runIdentity(Operation *op);
  LogicalResult runWeight(clv::WeightOp op);
  LogicalResult runRepeat(RepeatOp op);
  LogicalResult runReturn(func::ReturnOp op);

  LogicalResult runSum(clv::AddOp root);

  LogicalResult enterRepeat(RepeatOp op);
  bool isAccumulator(RepeatOp op, unsigned carried);
  LogicalResult enterCarried(RepeatOp op, unsigned carried);
  LogicalResult startAccumulator(BlockArgument argument, Value added);
  LogicalResult leaveRepeat(RepeatOp op);
  void hoistWeights(RepeatOp op, unsigned stacked);

  bool staysPending(Value value);
  void settle(Value value, const Declared &declared);
  Value move(Value value, const Need &need);
  Value emit(Value value, const reshard::Move &step, const Need &need,
             const Notes &before);
  void addRecord(Operation *op, const reshard::Move &step, const Need &need,
                 StringRef reason, StringRef avoid);

  Type localOf(Type type, const Layout &layout) {
    return spmd::localType(cast<RankedTensorType>(type).getElementType(),
                           clv::dimsOf(type), spmd::globalSizes(type), layout,
                           mesh);
  }
  reshard::Subject subjectOf(Value value) {
    SmallVector<int64_t> sizes = spmd::globalSizes(value.getType());
    return {{sizes.begin(), sizes.end()}, elementBytes(value.getType()), &mesh};
  }
  const Declared *declaredOf(Value value, Location loc) {
    return declarations.of(value.getType(), clv::scopeOfValue(value), loc);
  }
  void note(Value value, const Declared &declared) {
    Notes &entry = notes[value];
    entry.info = declared.info;
    entry.why.clear();
    for (const layout::Choice &choice : declared.resolved.choices) {
      entry.why.push_back(choice.sentence);
    }
    entry.why.resize(declared.info.dims.size());
  }
  clv::Rule ruleOf(Operation *op) {
    return options.ruleOf ? options.ruleOf(op)
                          : cast<clv::RuleInterface>(op).getRule();
  }

  func::FuncOp function;
  Declarations &declarations;
  reshard::Cache &cache;
  const PartitionOptions &options;
  const layout::Mesh &mesh;
  layout::ProgramRecord &record;
  OpBuilder builder;
  llvm::DenseMap<Value, Notes> notes;
  /// Carried sums whose layout waits for what is added.
  llvm::DenseSet<Value> accumulators;
  /// Values that were moved already: by value, type and phase.
  llvm::DenseMap<std::pair<Value, std::pair<Type, unsigned>>, Value> moved;
};

std::vector<std::string> sentencesOf(const Declared &declared) {
  std::vector<std::string> sentences;
  for (const layout::Choice &choice : declared.resolved.choices) {
    sentences.push_back(choice.sentence);
  }
  return sentences;
}

} // namespace

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

void FunctionPartitioner::addRecord(Operation *op, const reshard::Move &step,
                                    const Need &need, StringRef reason,
                                    StringRef avoid) {
  layout::CollectiveRecord entry;
  entry.kind = reshard::nameOf(step.kind);
  entry.atoms = step.atoms;
  entry.value = need.info;
  entry.bytesBusiest = step.traffic.busiest;
  entry.bytesTotal = step.traffic.total;
  for (auto loop = op->getParentOfType<RepeatOp>(); loop;
       loop = loop->getParentOfType<RepeatOp>()) {
    if (entry.repeat.empty()) {
      entry.repeat = loop.getDim().str();
    }
    entry.iterations *= loop.getCount();
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
  entry.source = pointOf(need.op->getLoc());
  entry.operation = nameOf(need.op);
  entry.reason = reason.str();
  entry.avoid = avoid.str();
  record.collectives.push_back(std::move(entry));
}

Value FunctionPartitioner::emit(Value value, const reshard::Move &step,
                                const Need &need, const Notes &before) {
  Type type = localOf(value.getType(), step.result);
  SmallVector<int64_t> atoms(step.atoms.begin(), step.atoms.end());
  Change change = {spmd::layoutOf(value.getType()), step.result, step.kind,
                   step.atoms};
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
  case reshard::Kind::AllReduce:
    create(spmd::AllReduceOp());
    break;
  case reshard::Kind::ReduceScatter:
    create(spmd::ReduceScatterOp());
    break;
  }
  clv::setScope(op, need.scope);
  if (step.kind != reshard::Kind::LocalSlice) {
    addRecord(op, step, need, reason, avoid);
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

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

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
    return value.hasOneUse() && index < repeat.getCarried().size() &&
           repeat.getCarriedArguments()[index].getType() == value.getType();
  }
  if (isa<clv::EdgeOp, clv::GradientOp, func::ReturnOp>(reader)) {
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

/// Brings a new result to its declared layout, unless its sum is put off.
void FunctionPartitioner::settle(Value value, const Declared &declared) {
  Layout now = spmd::layoutOf(value.getType());
  bool isSum = now.isPartial() && now.reduction == layout::Reduction::Sum;
  if (isSum && staysPending(value)) {
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
  // The location and name are those of the operation that made it.
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

LogicalResult FunctionPartitioner::runCompute(Operation *op) {
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (accumulators.contains(op->getOperand(i)) &&
        failed(startAccumulator(cast<BlockArgument>(op->getOperand(i)),
                                op->getOperand(1 - i)))) {
      return failure();
    }
  }
  auto interface = dyn_cast<clv::RuleInterface>(op);
  if (!interface || op->getNumResults() != 1) {
    return op->emitError("cannot be partitioned: it declares no rule");
  }
  const Declared *declared = declaredOf(op->getResult(0), op->getLoc());
  if (!declared) {
    return failure();
  }
  Query query;
  query.rule = ruleOf(op);
  for (const clv::Factor &factor : query.rule.factors) {
    bool reduces = factor.kind != clv::FactorKind::Parallel &&
                   factor.kind != clv::FactorKind::Whole;
    if (reduces && !factor.results.empty() && factor.results[0] >= 0) {
      return op->emitError("declares that it reduces `")
             << factor.name << "`, which its result has";
    }
  }
  query.result = declared->layout();
  query.subject = subjectOf(op->getResult(0));
  for (Value operand : op->getOperands()) {
    OperandState state;
    state.now = spmd::layoutOf(operand.getType());
    state.declared = state.now;
    state.declared.partial.clear();
    state.declared.reduction = layout::Reduction::Sum;
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
  Decision decision = decide(query, cache);

  clv::ScopeAttr scope = clv::scopeOf(op);
  std::vector<std::string> resultWhy(query.result.dims.size());
  std::vector<std::vector<std::string>> operandWhy(op->getNumOperands());
  std::string pending;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operandWhy[i].resize(query.operands[i].now.dims.size());
    if (decision.operands[i].isPartial()) {
      pending = notes.lookup(operand).pending;
    }
  }
  for (auto [f, factor] : llvm::enumerate(query.rule.factors)) {
    Origin origin = decision.origins[f];
    std::string why;
    if (origin.dim >= 0 && origin.operand >= 0) {
      const Notes &from = notes[op->getOperand(origin.operand)];
      why = static_cast<size_t>(origin.dim) < from.why.size()
                ? from.why[origin.dim]
                : "";
    } else if (origin.dim >= 0) {
      why = declared->resolved.choices.size() > static_cast<size_t>(origin.dim)
                ? declared->resolved.choices[origin.dim].sentence
                : "";
    }
    for (auto [i, position] : llvm::enumerate(factor.operands)) {
      if (position >= 0) {
        operandWhy[i][position] = why;
      }
    }
    if (!factor.results.empty() && factor.results[0] >= 0) {
      resultWhy[factor.results[0]] = why;
    }
    bool reduces = factor.kind == clv::FactorKind::Sum ||
                   factor.kind == clv::FactorKind::Max ||
                   factor.kind == clv::FactorKind::Min;
    if (reduces && !decision.splits[f].isWhole()) {
      pending += (pending.empty() ? "`" + nameOf(op) + "` is done in parts: `"
                                  : " and `") +
                 factor.name + "` is split on `" +
                 mesh.describe(decision.splits[f].atoms) + "`" +
                 (why.empty() ? "" : " by " + why);
    }
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    Value operand = op->getOperand(i);
    Need need;
    need.op = op;
    need.layout = decision.operands[i];
    need.why = operandWhy[i];
    need.info = notes.lookup(operand).info;
    if (scope) {
      need.info.phase = static_cast<layout::Phase>(scope.getPhase());
    }
    need.scope = scope;
    need.sentence = "`" + nameOf(op) + "` needs it so";
    op->setOperand(i, move(operand, need));
  }
  Value result = op->getResult(0);
  result.setType(
      cast<RankedTensorType>(localOf(result.getType(), decision.natural)));
  note(result, *declared);
  notes[result].why = resultWhy;
  notes[result].pending = pending;
  settle(result, *declared);
  return success();
}

/// Of two values with the same dims.
static bool isPlainSum(clv::AddOp sum) {
  return clv::dimsOf(sum.getLhs()) == clv::dimsOf(sum.getRhs());
}

/// Whether a plain sum is a term of another and nothing else.
static bool isInnerSum(clv::AddOp sum) {
  if (!sum || !isPlainSum(sum) || !sum->hasOneUse()) {
    return false;
  }
  auto outer = dyn_cast<clv::AddOp>(*sum->getUsers().begin());
  return outer && outer->getBlock() == sum->getBlock() && isPlainSum(outer);
}

/// The terms of a tree of sums, in order.
static void collectTerms(Value value, SmallVectorImpl<Value> &terms,
                         SmallVectorImpl<Operation *> &sums) {
  SmallVector<Value> stack = {value};
  while (!stack.empty()) {
    Value at = stack.pop_back_val();
    auto sum = at.getDefiningOp<clv::AddOp>();
    if (at == value || isInnerSum(sum)) {
      sums.push_back(sum);
      stack.push_back(sum.getRhs());
      stack.push_back(sum.getLhs());
    } else {
      terms.push_back(at);
    }
  }
}

/// A sum of three or more terms: those pending over the same atoms are added
/// before they are reduced, most atoms first. (The squares of a global norm.)
LogicalResult FunctionPartitioner::runSum(clv::AddOp root) {
  if (!isPlainSum(root)) {
    return runCompute(root);
  }
  if (isInnerSum(root)) {
    return success(); // done with the outermost
  }
  SmallVector<Value> terms;
  SmallVector<Operation *> sums;
  collectTerms(root.getResult(), terms, sums);
  std::vector<layout::Layout> seen;
  for (Value term : terms) {
    if (accumulators.contains(term)) {
      seen.clear();
      break;
    }
    Layout layout = spmd::layoutOf(term.getType());
    if (!llvm::is_contained(seen, layout)) {
      seen.push_back(layout);
    }
  }
  if (seen.size() < 2 || terms.size() < 3) {
    // As it stands, from the innermost.
    for (Operation *sum : llvm::reverse(sums)) {
      if (failed(runCompute(sum))) {
        return failure();
      }
    }
    return success();
  }
  auto byPending = [](const Layout &a, const Layout &b) {
    return a.partial.size() > b.partial.size();
  };
  // Stable, and few.
  for (size_t i = 1; i < seen.size(); ++i) {
    for (size_t k = i; k > 0 && byPending(seen[k], seen[k - 1]); --k) {
      std::swap(seen[k], seen[k - 1]);
    }
  }
  Type type = root.getType();
  builder.setInsertionPoint(root);
  auto add = [&](Value a, Value b) -> Value {
    auto sum = builder.create<clv::AddOp>(root.getLoc(), type, a, b);
    clv::setScope(sum, clv::scopeOf(root));
    return sum.getResult();
  };
  SmallVector<Operation *> made;
  Value total;
  for (const Layout &layout : seen) {
    Value group;
    for (Value term : terms) {
      if (spmd::layoutOf(term.getType()) == layout) {
        group = group ? add(group, term) : term;
        if (group != term) {
          made.push_back(group.getDefiningOp());
        }
      }
    }
    total = total ? add(total, group) : group;
    if (total != group) {
      made.push_back(total.getDefiningOp());
    }
  }
  root.getResult().replaceAllUsesWith(total);
  for (Operation *sum : sums) { // the root first
    sum->erase();
  }
  for (Operation *sum : made) {
    if (failed(runCompute(sum))) {
      return failure();
    }
  }
  return success();
}

/// `edge` and `gradient`: the value goes to the declared layout in one step.
LogicalResult FunctionPartitioner::runIdentity(Operation *op) {
  Value result = op->getResult(0), operand = op->getOperand(0);
  const Declared *declared = declaredOf(result, op->getLoc());
  if (!declared) {
    return failure();
  }
  Need need;
  need.op = op;
  need.layout = declared->layout();
  need.why = sentencesOf(*declared);
  need.info = declared->info;
  need.scope = clv::scopeOf(op);
  if (auto edge = dyn_cast<clv::EdgeOp>(op)) {
    need.info.path = edge.getInner().str();
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
  need.layout = declared->layout();
  need.why = sentencesOf(*declared);
  need.info = declared->info;
  need.scope = clv::scopeOf(op);
  need.shared = declarations.gathersPerStep(declared->info);
  if (need.shared) {
    need.info.phase = layout::Phase::Forward; // one for the whole step
  }
  need.sentence = "`" + declared->info.reader + "` reads it as a weight";
  Value at = move(op.getX(), need);
  if (at != op.getX()) {
    note(at, *declared);
  }
  op.getResult().replaceAllUsesWith(at);
  op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// Where every reader of a stacked parameter wants it gathered once per step,
/// the stack is gathered before the repeat.
void FunctionPartitioner::hoistWeights(RepeatOp op, unsigned stacked) {
  BlockArgument argument = op.getStackedArguments()[stacked];
  const Declared *weight = nullptr;
  for (Operation *reader : argument.getUsers()) {
    auto read = dyn_cast<clv::WeightOp>(reader);
    const Declared *next =
        read ? declaredOf(read.getResult(), read.getLoc()) : nullptr;
    if (!next || !declarations.gathersPerStep(next->info) ||
        (weight && weight->layout() != next->layout())) {
      return;
    }
    weight = next;
  }
  if (!weight) {
    return;
  }
  unsigned index = op.getCarried().size() + stacked;
  Value stack = op->getOperand(index);
  Need need;
  need.op = op;
  need.layout = weight->layout();
  need.layout.dims.insert(need.layout.dims.begin(), layout::Split());
  need.why = sentencesOf(*weight);
  need.why.insert(need.why.begin(), "");
  need.info = weight->info;
  need.info.phase = layout::Phase::Forward; // one for the whole step
  need.info.dims = namedDims(stack.getType());
  need.scope = clv::scopeOf(*argument.getUsers().begin());
  need.sentence = "`" + weight->info.reader +
                  "` reads it as a weight, gathered once per step";
  op->setOperand(index, move(stack, need));
}

static bool isZero(Value value) {
  if (auto broadcast = value.getDefiningOp<clv::BroadcastOp>()) {
    return isZero(broadcast.getX());
  }
  auto constant = value.getDefiningOp<clv::ConstantOp>();
  auto number =
      constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  return number && number.getValue().isZero();
}

/// Whether a carried value is a sum over the iterations, which starts at zero:
/// it may then stay pending and is reduced once, after the repeat.
bool FunctionPartitioner::isAccumulator(RepeatOp op, unsigned carried) {
  BlockArgument argument = op.getCarriedArguments()[carried];
  if (!argument.hasOneUse() || !isZero(op.getCarried()[carried])) {
    return false;
  }
  auto sum = dyn_cast<clv::AddOp>(*argument.getUsers().begin());
  return sum && sum->getBlock() == op.getBlock() && sum->hasOneUse() &&
         op.getYield()->getOperand(carried) == sum.getResult() &&
         clv::dimsOf(sum.getLhs()) == clv::dimsOf(sum.getRhs());
}

/// Gives a carried sum the layout of what is added to it.
LogicalResult FunctionPartitioner::startAccumulator(BlockArgument argument,
                                                    Value added) {
  accumulators.erase(argument);
  auto op = cast<RepeatOp>(argument.getOwner()->getParentOp());
  unsigned carried = argument.getArgNumber() - 1;
  Layout layout = spmd::layoutOf(added.getType());
  if (!layout.isPartial() || layout.reduction != layout::Reduction::Sum) {
    return enterCarried(op, carried);
  }
  // Zeros on every device are a pending sum of zeros.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  auto type = cast<RankedTensorType>(argument.getType());
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value zero = builder.create<clv::ConstantOp>(
      op.getLoc(), cast<RankedTensorType>(localOf(scalar, Layout())),
      builder.getFloatAttr(type.getElementType(), 0));
  Type local = localOf(type, layout);
  Value zeros = builder.create<clv::BroadcastOp>(op.getLoc(), local, zero);
  clv::setScope(zero.getDefiningOp(), clv::scopeOfValue(argument));
  clv::setScope(zeros.getDefiningOp(), clv::scopeOfValue(argument));
  notes[argument] = notes.lookup(added);
  op->setOperand(carried, zeros);
  argument.setType(local);
  return success();
}

LogicalResult FunctionPartitioner::enterCarried(RepeatOp op, unsigned i) {
  BlockArgument argument = op.getCarriedArguments()[i];
  Value init = op->getOperand(i);
  Need need;
  need.op = op;
  need.scope = clv::scopeOfValue(argument);
  if (need.scope || clv::dimsOf(argument).empty()) {
    const Declared *declared = declaredOf(argument, op.getLoc());
    if (!declared) {
      return failure();
    }
    note(argument, *declared);
    need.layout = declared->layout();
    need.why = sentencesOf(*declared);
    need.info = declared->info;
  } else { // passed through unchanged
    need.layout = spmd::layoutOf(init.getType());
    need.layout.partial.clear();
    notes[argument] = notes.lookup(init);
    need.info = notes[argument].info;
  }
  need.sentence = "the repeat over `" + op.getDim().str() + "` carries it";
  Value at = move(init, need);
  op->setOperand(i, at);
  argument.setType(at.getType());
  return success();
}

LogicalResult FunctionPartitioner::enterRepeat(RepeatOp op) {
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    if (isAccumulator(op, i)) {
      accumulators.insert(op.getCarriedArguments()[i]);
    } else if (failed(enterCarried(op, i))) {
      return failure();
    }
  }
  for (unsigned i = 0; i < op.getStacked().size(); ++i) {
    hoistWeights(op, i);
    Value stack = op.getStacked()[i];
    Layout layout = spmd::layoutOf(stack.getType());
    if (!layout.dims.front().isWhole()) {
      return op.emitError("the dim `")
             << op.getDim() << "` of `" << notes.lookup(stack).info.path
             << "` is split on `" << mesh.describe(layout.dims.front().atoms)
             << "` by " << notes.lookup(stack).why.front()
             << "; splitting the dim of a repeat cannot be built yet";
    }
    layout.dims.erase(layout.dims.begin());
    BlockArgument argument = op.getStackedArguments()[i];
    argument.setType(localOf(argument.getType(), layout));
    Notes slice = notes.lookup(stack);
    if (!slice.info.dims.empty()) {
      slice.info.dims.erase(slice.info.dims.begin());
      slice.why.erase(slice.why.begin());
    }
    notes[argument] = slice;
  }
  return success();
}

LogicalResult FunctionPartitioner::leaveRepeat(RepeatOp op) {
  Operation *yield = op.getYield();
  size_t carried = op.getCarried().size();
  for (unsigned i = 0; i < yield->getNumOperands(); ++i) {
    Value value = yield->getOperand(i);
    Need need;
    need.op = yield;
    need.scope = clv::scopeOfValue(value);
    need.info = notes.lookup(value).info;
    if (i < carried) {
      BlockArgument argument = op.getCarriedArguments()[i];
      need.layout = spmd::layoutOf(argument.getType());
      need.why = notes.lookup(argument).why;
      need.sentence = "the repeat over `" + op.getDim().str() + "` carries it";
      value = move(value, need);
      yield->setOperand(i, value);
      op.getResult(i).setType(cast<RankedTensorType>(value.getType()));
      notes[op.getResult(i)] = notes.lookup(argument);
      if (spmd::layoutOf(value.getType()).isPartial()) {
        notes[op.getResult(i)] = notes.lookup(value);
      }
      continue;
    }
    Layout layout = spmd::layoutOf(value.getType());
    assert(!layout.isPartial() && "a saved value was not reduced");
    SmallVector<StringRef> dims = clv::dimsOf(value);
    SmallVector<int64_t> sizes = spmd::globalSizes(value.getType());
    dims.insert(dims.begin(), op.getDim());
    sizes.insert(sizes.begin(), op.getCount());
    layout.dims.insert(layout.dims.begin(), layout::Split());
    op.getResult(i).setType(spmd::localType(
        cast<RankedTensorType>(value.getType()).getElementType(), dims, sizes,
        layout, mesh));
    Notes stack = notes.lookup(value);
    stack.info.dims.insert(stack.info.dims.begin(),
                           {op.getDim().str(), sizes.front()});
    stack.why.insert(stack.why.begin(), "");
    notes[op.getResult(i)] = stack;
  }
  return success();
}

LogicalResult FunctionPartitioner::runRepeat(RepeatOp op) {
  if (failed(enterRepeat(op)) || failed(runBlock(*op.getBlock())) ||
      failed(leaveRepeat(op))) {
    return failure();
  }
  for (auto [result, argument] :
       llvm::zip(op.getCarriedResults(), op.getCarriedArguments())) {
    if (!spmd::layoutOf(result.getType()).isPartial()) {
      continue;
    }
    const Declared *declared = declarations.of(
        result.getType(), clv::scopeOfValue(argument), op.getLoc());
    if (!declared) {
      return failure();
    }
    settle(result, *declared);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult FunctionPartitioner::runReturn(func::ReturnOp op) {
  for (unsigned i = 0; i < op.getNumOperands(); ++i) {
    Value value = op.getOperand(i);
    bool hasFailed = false;
    const Declared *declared = declarations.ofResult(function, i, hasFailed);
    if (hasFailed) {
      return failure();
    }
    if (!declared && clv::scopeOfValue(value)) {
      declared = declaredOf(value, op.getLoc());
      if (!declared) {
        return failure();
      }
    }
    Need need;
    need.op = op;
    need.scope = clv::scopeOfValue(value);
    need.info = declared ? declared->info : notes.lookup(value).info;
    need.sentence = "as a result of the step";
    if (declared) {
      need.layout = declared->layout();
      need.why = sentencesOf(*declared);
      if (need.info.role == layout::Role::Params) {
        need.info.phase = layout::Phase::Update;
        need.sentence = "as the parameter's new value";
      }
    } else {
      need.layout = spmd::layoutOf(value.getType());
      need.layout.partial.clear();
    }
    op->setOperand(i, move(value, need));
  }
  return success();
}

LogicalResult FunctionPartitioner::runOperation(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<clv::EdgeOp, clv::GradientOp>(
          [&](Operation *identity) { return runIdentity(identity); })
      .Case([&](clv::WeightOp weight) { return runWeight(weight); })
      .Case([&](RepeatOp repeat) { return runRepeat(repeat); })
      .Case([&](clv::AddOp sum) { return runSum(sum); })
      .Case([&](func::ReturnOp end) { return runReturn(end); })
      .Case([&](clv::YieldOp) { return success(); })
      .Default([&](Operation *other) { return runCompute(other); });
}

LogicalResult FunctionPartitioner::runBlock(Block &block) {
  SmallVector<Operation *> operations;
  for (Operation &op : block) {
    operations.push_back(&op);
  }
  for (Operation *op : operations) {
    if (failed(runOperation(op))) {
      return failure();
    }
  }
  return success();
}

LogicalResult FunctionPartitioner::runArguments() {
  for (BlockArgument argument : function.getArguments()) {
    const Declared *declared =
        declarations.ofArgument(function, argument.getArgNumber());
    if (!declared) {
      return failure();
    }
    bool isLeaf = !clv::dimsOf(argument).empty() &&
                  (declared->info.role == layout::Role::Params ||
                   declared->info.role == layout::Role::Optimizer);
    argument.setType(localOf(argument.getType(), declared->layout()));
    note(argument, *declared);
    if (!isLeaf) {
      continue;
    }
    auto state = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                       "clv.state");
    record.leaves.push_back({declared->info, state ? state.str() : "",
                             declared->layout(), declared->resolved.choices});
    if (declared->info.role == layout::Role::Params &&
        function.getName() == "train") {
      layout::ValueInfo info = declared->info;
      info.role = layout::Role::Gradients;
      info.phase = layout::Phase::Backward;
      const Declared *gradient = declarations.of(info, function.getLoc());
      if (!gradient) {
        return failure();
      }
      record.leaves.push_back(
          {gradient->info, "", gradient->layout(), gradient->resolved.choices});
    }
  }
  return success();
}

/// A value that nothing reads must not cost a collective.
static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    for (Region &region : op.getRegions()) {
      for (Block &inner : region) {
        eraseUnread(inner);
      }
    }
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

LogicalResult FunctionPartitioner::run() {
  if (!llvm::hasSingleElement(function.getBody())) {
    return function.emitError("must have one block");
  }
  Block &body = function.getBody().front();
  eraseUnread(body);
  if (failed(runArguments()) || failed(runBlock(body))) {
    return failure();
  }
  SmallVector<Type> results(body.getTerminator()->getOperandTypes());
  function.setFunctionType(FunctionType::get(function.getContext(),
                                             body.getArgumentTypes(), results));
  return success();
}

LogicalResult cleave::partition(ModuleOp module, const layout::Plan &plan,
                                std::vector<layout::ProgramRecord> *records,
                                std::vector<layout::Resolved> *errors,
                                const PartitionOptions &given) {
  PartitionOptions options = given;
  if (!options.resolve) {
    options.resolve = layout::resolve;
  }
  module.getContext()->loadDialect<spmd::SpmdDialect>();
  module->setAttr(spmd::SpmdDialect::kMesh,
                  spmd::toAttr(module.getContext(), plan.mesh));
  Declarations declarations(plan, options, errors);
  reshard::Cache cache;
  bool hasEval = module.lookupSymbol("eval") != nullptr;
  for (auto function : module.getOps<func::FuncOp>()) {
    layout::ProgramRecord record;
    StringRef name = function.getName();
    record.entry = name == "loss" && !hasEval ? "eval" : name.str();
    if (failed(
            FunctionPartitioner(function, declarations, cache, options, record)
                .run())) {
      return failure();
    }
    if (records) {
      records->push_back(std::move(record));
    }
  }
  return verify(module);
}
