//===- SplitWeights.cpp - Weight gradients as work of their own -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/SplitWeights.h"

#include "compiler/codegen/Group.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;
using clv::RepeatOp;

/// The operations of `block` that `values` need, in no order.
static llvm::SetVector<Operation *> needed(ArrayRef<Value> values,
                                           Block *block) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> work(values);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != block || !ops.insert(op)) {
      continue;
    }
    llvm::append_range(work, codegen::readsOf(op));
  }
  return ops;
}

namespace {

/// Makes two repeats of one.
class RepeatSplitter {
public:
  /// `first` are the results that the first repeat gives.
  RepeatSplitter(RepeatOp repeat, const llvm::DenseSet<Value> &first,
                 const layout::Mesh &mesh)
      : repeat(repeat), first(first), mesh(mesh),
        builder(repeat.getOperation()) {}

  void run();

private:
  RepeatOp repeat;
  llvm::DenseSet<Value> first;
  const layout::Mesh &mesh;
  OpBuilder builder;
  llvm::SetVector<Operation *> firstOps, secondOps;
  llvm::SetVector<Value> passed; ///< of the body: from the first to the second

  bool isCarriedBySecond(Value value);
  void addCarried();
  SmallVector<Value> yieldsOf(bool ofFirst);
  void findPassed();
  RepeatOp build(bool isFirst, ArrayRef<Value> passedStacks);
  Type stackOf(Type slice);
};

} // namespace

SmallVector<Value> RepeatSplitter::yieldsOf(bool ofFirst) {
  SmallVector<Value> values;
  for (auto [result, value] :
       llvm::zip(repeat.getResults(), repeat.getYield()->getOperands())) {
    if (first.contains(result) == ofFirst) {
      values.push_back(value);
    }
  }
  return values;
}

void RepeatSplitter::findPassed() {
  Block *body = repeat.getBlock();
  firstOps = needed(yieldsOf(true), body);
  secondOps = needed(yieldsOf(false), body);
  secondOps.remove_if([&](Operation *op) {
    return firstOps.contains(op) && !codegen::isCheap(op);
  });
  auto isCarriedByFirst = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != body) {
      return false;
    }
    unsigned carried = argument.getArgNumber() - 1;
    return argument.getArgNumber() > 0 &&
           carried < repeat.getCarried().size() &&
           first.contains(repeat.getResult(carried));
  };
  auto note = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    bool isOfFirst = maker && maker->getBlock() == body &&
                     firstOps.contains(maker) && !secondOps.contains(maker);
    if (isOfFirst || isCarriedByFirst(value)) {
      passed.insert(value);
    }
  };
  for (Operation *op : secondOps) {
    llvm::for_each(codegen::readsOf(op), note);
  }
  llvm::for_each(yieldsOf(false), note);
}

Type RepeatSplitter::stackOf(Type slice) {
  layout::Layout layout = spmd::layoutOf(slice);
  layout::Split split;
  if (auto attr =
          repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit)) {
    split = spmd::fromAttr(attr);
  }
  layout.dims.insert(layout.dims.begin(), split);
  SmallVector<StringRef> dims = clv::dimsOf(slice);
  SmallVector<int64_t> sizes = spmd::globalSizes(slice);
  dims.insert(dims.begin(), repeat.getDim());
  sizes.insert(sizes.begin(), static_cast<int64_t>(repeat.getCount()));
  return spmd::localType(cast<RankedTensorType>(slice).getElementType(), dims,
                         sizes, layout, mesh);
}

/// One of the two repeats; the second reads `passedStacks`.
RepeatOp RepeatSplitter::build(bool isFirst, ArrayRef<Value> passedStacks) {
  const llvm::SetVector<Operation *> &ops = isFirst ? firstOps : secondOps;
  SmallVector<Value> carried, stacked;
  SmallVector<Value> carriedArguments, stackedArguments;
  SmallVector<Value> yieldedCarried, yieldedStacks;
  SmallVector<Type> carriedTypes, stackTypes;
  for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
    if (first.contains(result) != isFirst) {
      continue;
    }
    Value value = repeat.getYield()->getOperand(i);
    if (i < repeat.getCarried().size()) {
      carried.push_back(repeat.getCarried()[i]);
      carriedArguments.push_back(repeat.getCarriedArguments()[i]);
      yieldedCarried.push_back(value);
      carriedTypes.push_back(result.getType());
    } else {
      yieldedStacks.push_back(value);
      stackTypes.push_back(result.getType());
    }
  }
  llvm::SetVector<Value> reads;
  for (Operation *op : ops) {
    for (Value value : codegen::readsOf(op)) {
      reads.insert(value);
    }
  }
  reads.insert(yieldedStacks.begin(), yieldedStacks.end());
  reads.insert(yieldedCarried.begin(), yieldedCarried.end());
  if (isFirst) {
    reads.insert(passed.begin(), passed.end());
    for (Value value : passed) {
      yieldedStacks.push_back(value);
      stackTypes.push_back(stackOf(value.getType()));
    }
  }
  for (auto [operand, argument] :
       llvm::zip(repeat.getStacked(), repeat.getStackedArguments())) {
    if (reads.contains(argument)) {
      stacked.push_back(operand);
      stackedArguments.push_back(argument);
    }
  }
  if (!isFirst) {
    stacked.append(passedStacks.begin(), passedStacks.end());
    stackedArguments.append(passed.begin(), passed.end());
  }
  SmallVector<Type> types = carriedTypes;
  types.append(stackTypes);
  auto result = builder.create<RepeatOp>(
      repeat.getLoc(), types, carried, stacked, repeat.getDim(),
      repeat.getCount(), repeat.getFirst(), repeat.getReverse());
  result->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  Block *body = new Block;
  result.getBody().push_back(body);
  IRMapping mapping;
  auto add = [&](Value argument) {
    mapping.map(argument,
                body->addArgument(argument.getType(), repeat.getLoc()));
  };
  add(repeat.getIndex());
  llvm::for_each(carriedArguments, add);
  llvm::for_each(stackedArguments, add);
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  for (Operation &op : repeat.getBlock()->without_terminator()) {
    if (ops.contains(&op)) {
      inner.clone(op, mapping);
    }
  }
  SmallVector<Value> yielded;
  for (Value value : yieldedCarried) {
    yielded.push_back(mapping.lookupOrDefault(value));
  }
  for (Value value : yieldedStacks) {
    yielded.push_back(mapping.lookupOrDefault(value));
  }
  inner.create<clv::YieldOp>(repeat.getLoc(), yielded);
  return result;
}

bool RepeatSplitter::isCarriedBySecond(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != repeat.getBlock() ||
      argument.getArgNumber() == 0) {
    return false;
  }
  unsigned carried = argument.getArgNumber() - 1;
  return carried < repeat.getCarried().size() &&
         !first.contains(repeat.getResult(carried));
}

/// What the first repeat reads of carried values it carries itself.
void RepeatSplitter::addCarried() {
  for (bool isComplete = false; !isComplete;) {
    isComplete = true;
    for (Operation *op : needed(yieldsOf(true), repeat.getBlock())) {
      for (Value value : codegen::readsOf(op)) {
        if (isCarriedBySecond(value)) {
          first.insert(
              repeat.getResult(cast<BlockArgument>(value).getArgNumber() - 1));
          isComplete = false;
        }
      }
    }
  }
}

void RepeatSplitter::run() {
  addCarried();
  if (first.size() == repeat.getNumResults()) {
    return;
  }
  findPassed();
  RepeatOp one = build(true, {});
  SmallVector<Value> stacks(one.getResults().take_back(passed.size()));
  RepeatOp two = build(false, stacks);
  unsigned next[2][2] = {{0, unsigned(one.getCarried().size())},
                         {0, unsigned(two.getCarried().size())}};
  for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
    bool isSecond = !first.contains(result);
    bool isStack = i >= repeat.getCarried().size();
    RepeatOp from = isSecond ? two : one;
    result.replaceAllUsesWith(from.getResult(next[isSecond][isStack]++));
  }
  repeat.erase();
}

namespace {

/// Splits one section.
class SectionSplitter {
public:
  SectionSplitter(pipe::SectionOp section, const layout::Mesh &mesh)
      : section(section), mesh(mesh) {}

  void run();

private:
  pipe::SectionOp section;
  const layout::Mesh &mesh;

  bool isSum(unsigned result);
  SmallVector<Value> passedOn();
  void splitRepeats();
  void moveWeights();
};

} // namespace

/// Whether a result goes nowhere but into a sum over microbatches. What is
/// stored is no work, and the other section would need it all.
bool SectionSplitter::isSum(unsigned result) {
  if (section.getYield()->getOperand(result).getDefiningOp<pipe::StoreOp>()) {
    return false;
  }
  return llvm::all_of(section.getResult(result).getUsers(), [](Operation *op) {
    return isa<pipe::YieldOp>(op) && isa<pipe::MicroOp>(op->getParentOp());
  });
}

SmallVector<Value> SectionSplitter::passedOn() {
  SmallVector<Value> values;
  for (auto [i, value] : llvm::enumerate(section.getYield()->getOperands())) {
    if (!isSum(i)) {
      values.push_back(value);
    }
  }
  return values;
}

void SectionSplitter::splitRepeats() {
  Block *body = section.getBlock();
  llvm::SetVector<Operation *> ops = needed(passedOn(), body);
  SmallVector<RepeatOp> repeats;
  for (RepeatOp repeat : body->getOps<RepeatOp>()) {
    if (ops.contains(repeat)) {
      repeats.push_back(repeat);
    }
  }
  SmallVector<Value> values = passedOn();
  for (RepeatOp repeat : repeats) {
    llvm::DenseSet<Value> first;
    for (Value result : repeat.getResults()) {
      bool isPassed = llvm::is_contained(values, result);
      for (Operation *user : result.getUsers()) {
        isPassed |= ops.contains(body->findAncestorOpInBlock(*user));
      }
      if (isPassed) {
        first.insert(result);
      }
    }
    if (first.size() < repeat.getNumResults()) {
      RepeatSplitter(repeat, first, mesh).run();
    }
  }
}

/// What no passed value needs becomes a section after this one.
void SectionSplitter::moveWeights() {
  Block *body = section.getBlock();
  Operation *yield = section.getYield();
  llvm::SetVector<Operation *> kept = needed(passedOn(), body);
  SmallVector<Operation *> moved;
  for (Operation &op : body->without_terminator()) {
    if (!kept.contains(&op)) {
      moved.push_back(&op);
    }
  }
  Block *weights = new Block;
  for (Operation *op : moved) {
    op->moveBefore(weights, weights->end());
  }
  // What they read of those that stay: cheap ones again, others are passed.
  llvm::SetVector<Value> passed;
  llvm::DenseMap<Operation *, Operation *> copies;
  std::function<Value(Value)> bring = [&](Value value) -> Value {
    Operation *maker = value.getDefiningOp();
    if (!maker || maker->getBlock() != body) {
      return value;
    }
    if (!codegen::isCheap(maker)) {
      passed.insert(value);
      return value;
    }
    Operation *copy = copies.lookup(maker);
    if (!copy) {
      IRMapping mapping;
      for (Value operand : maker->getOperands()) {
        mapping.map(operand, bring(operand));
      }
      OpBuilder builder = OpBuilder::atBlockBegin(weights);
      Operation *made = builder.clone(*maker, mapping);
      for (Value operand : made->getOperands()) {
        if (Operation *before = operand.getDefiningOp();
            before && before->getBlock() == weights &&
            made->isBeforeInBlock(before)) {
          made->moveAfter(before);
        }
      }
      copies[maker] = copy = made;
    }
    return copy->getResult(cast<OpResult>(value).getResultNumber());
  };
  for (Operation *op : moved) {
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands()) {
        operand.set(bring(operand.get()));
      }
    });
  }
  SmallVector<Value> mine, theirs;
  SmallVector<unsigned> mineAt, theirsAt;
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    (isSum(i) ? theirs : mine).push_back(value);
    (isSum(i) ? theirsAt : mineAt).push_back(i);
  }
  SmallVector<Value> given = mine;
  given.append(passed.begin(), passed.end());
  OpBuilder builder(section);
  auto build = [&](pipe::SectionKind kind, Block *block,
                   ArrayRef<Value> yielded) {
    auto op = builder.create<pipe::SectionOp>(
        section.getLoc(), TypeRange(ValueRange(yielded)), kind,
        section.getBegin(), section.getEnd());
    op.getBody().push_back(block);
    OpBuilder::atBlockEnd(block).create<pipe::YieldOp>(section.getLoc(),
                                                       yielded);
    return op;
  };
  yield->erase();
  section.getBody().getBlocks().remove(body);
  pipe::SectionOp first = build(pipe::SectionKind::Backward, body, given);
  pipe::SectionOp second =
      build(pipe::SectionKind::WeightGradient, weights, theirs);
  for (auto [i, original] : llvm::enumerate(passed)) {
    Value value = original;
    value.replaceUsesWithIf(
        first.getResult(mine.size() + i),
        [&](OpOperand &use) { return second->isAncestor(use.getOwner()); });
  }
  for (auto [i, at] : llvm::enumerate(mineAt)) {
    section.getResult(at).replaceAllUsesWith(first.getResult(i));
  }
  for (auto [i, at] : llvm::enumerate(theirsAt)) {
    section.getResult(at).replaceAllUsesWith(second.getResult(i));
  }
  section.erase();
}

void SectionSplitter::run() {
  unsigned sums = 0;
  for (unsigned i = 0; i < section.getNumResults(); ++i) {
    sums += isSum(i);
  }
  if (sums == section.getNumResults()) {
    section.setKind(pipe::SectionKind::WeightGradient);
  } else if (sums > 0) {
    splitRepeats();
    moveWeights();
  }
}

void pipelining::splitWeightGradients(pipe::MicroOp micro,
                                      const layout::Mesh &mesh) {
  SmallVector<pipe::SectionOp> sections(
      micro.getBlock()->getOps<pipe::SectionOp>());
  for (pipe::SectionOp section : sections) {
    if (section.getKind() == pipe::SectionKind::Backward) {
      SectionSplitter(section, mesh).run();
    }
  }
}
