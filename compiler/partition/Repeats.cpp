//===- Repeats.cpp - What enters and leaves a repeat ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"
#include "compiler/reproducible/Reproducible.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using clv::RepeatOp;
using layout::Layout;

/// What reads a parameter, cast or not.
static SmallVector<Operation *> readersOf(Value parameter) {
  SmallVector<Operation *> readers;
  for (Operation *user : parameter.getUsers()) {
    if (isa<clv::CastOp>(user)) {
      llvm::append_range(readers, user->getUsers());
    } else {
      readers.push_back(user);
    }
  }
  return readers;
}

/// Casts a stack, once, where each slice of it would be cast.
void FunctionPartitioner::castStack(RepeatOp op, unsigned stacked) {
  BlockArgument argument = op.getStackedArguments()[stacked];
  auto cast = dyn_cast<clv::CastOp>(*argument.getUsers().begin());
  if (!cast || !argument.hasOneUse()) {
    return;
  }
  unsigned index = op.getCarried().size() + stacked;
  Value stack = op->getOperand(index);
  Value &narrow = castStacks[stack];
  if (!narrow) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    Type element = cast.getType().getElementType();
    auto type = mlir::cast<RankedTensorType>(stack.getType());
    narrow =
        builder.create<clv::CastOp>(cast.getLoc(), type.clone(element), stack);
    clv::setScope(narrow.getDefiningOp(), clv::scopeOf(cast));
    Notes wide = notes.lookup(stack);
    wide.info.elementBytes = elementBytes(narrow.getType());
    notes[narrow] = wide;
  }
  op->setOperand(index, narrow);
  argument.setType(cast.getType());
  cast.getResult().replaceAllUsesWith(argument);
  cast.erase();
}

/// Where every reader of a stacked parameter wants it gathered once per step,
/// or per microbatch, the stack is gathered before the repeat.
void FunctionPartitioner::hoistWeights(RepeatOp op, unsigned stacked) {
  BlockArgument argument = op.getStackedArguments()[stacked];
  const Declared *weight = nullptr;
  GatherLoop loop = GatherLoop::Layer;
  for (Operation *reader : readersOf(argument)) {
    auto read = dyn_cast<clv::WeightOp>(reader);
    const Declared *next =
        read ? declaredOf(read.getResult(), read.getLoc()) : nullptr;
    GatherLoop wanted =
        next ? declarations.gatherLoopOf(next->info) : GatherLoop::Layer;
    if (wanted == GatherLoop::Layer ||
        (weight && (weight->layout() != next->layout() || loop != wanted))) {
      return;
    }
    weight = next;
    loop = wanted;
  }
  if (!weight) {
    return;
  }
  castStack(op, stacked);
  unsigned index = op.getCarried().size() + stacked;
  Value stack = op->getOperand(index);
  Need need;
  need.op = op;
  need.operation = nameOf(op);
  need.source = pointOf(op->getLoc());
  need.layout = weight->layout();
  need.layout.dims.insert(need.layout.dims.begin(),
                          spmd::layoutOf(stack.getType()).dims.front());
  need.why = sentencesOf(*weight);
  need.why.insert(need.why.begin(), "");
  need.info = weight->info;
  bool isPerStep = loop == GatherLoop::Step;
  need.perMicro = !isPerStep;
  if (isPerStep) {
    need.info.phase = layout::Phase::Forward; // one for the whole step
  }
  need.info.dims = namedDims(stack.getType());
  need.scope = clv::scopeOf(readersOf(argument).front());
  need.sentence = "`" + weight->info.reader +
                  "` reads it as a weight, gathered once per " +
                  (isPerStep ? "step" : "microbatch");
  op->setOperand(index, move(stack, need));
}

bool partitioning::isZero(Value value) {
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
  need.operation = nameOf(op);
  need.source = pointOf(op->getLoc());
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

/// A repeat over a dim that is cut over stages: each runs its own piece.
static void setSplit(RepeatOp op, const layout::Split &split) {
  op->setAttr(clv::ClvDialect::kSplit, spmd::toAttr(op.getContext(), split));
}

static layout::Split splitOf(RepeatOp op) {
  auto attr = op->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit);
  return attr ? spmd::fromAttr(attr) : layout::Split();
}

/// What the pipeline makes of its dim, for repeats without parameters too.
static layout::Split stagesOf(const layout::Plan &plan, RepeatOp op) {
  if (!plan.pipeline || !plan.pipeline->cuts(op.getDim().str())) {
    return {};
  }
  layout::ValueInfo layers;
  layers.role = layout::Role::Params;
  layers.dims = {{op.getDim().str(), static_cast<int64_t>(op.getCount())}};
  return layout::resolve(plan, layers).layout.dims.front();
}

LogicalResult FunctionPartitioner::enterRepeat(RepeatOp op) {
  layout::Split stages = stagesOf(declarations.plan, op);
  if (!stages.isWhole()) {
    setSplit(op, stages);
  }
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    if (isAccumulator(op, i)) {
      accumulators.insert(op.getCarriedArguments()[i]);
    } else if (failed(enterCarried(op, i))) {
      return failure();
    }
  }
  for (unsigned i = 0; i < op.getStacked().size(); ++i) {
    if (op->hasAttr(kDeferred)) {
      unsigned index = op.getCarried().size() + i;
      op->setOperand(index, gatherInTime(op->getOperand(index), op));
    }
    hoistWeights(op, i);
    Value stack = op.getStacked()[i];
    Layout layout = spmd::layoutOf(stack.getType());
    layout::Split split = layout.dims.front();
    bool isStages = split == stages;
    if (!isStages && !split.isWhole()) {
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
    need.operation = nameOf(op);
    need.source = pointOf(yield->getLoc());
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
    assert((!layout.isPartial() || staysPendingAsStack(value)) &&
           "a saved value was not reduced");
    SmallVector<StringRef> dims = clv::dimsOf(value);
    SmallVector<int64_t> sizes = spmd::globalSizes(value.getType());
    dims.insert(dims.begin(), op.getDim());
    sizes.insert(sizes.begin(), op.getCount());
    layout.dims.insert(layout.dims.begin(), splitOf(op));
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
