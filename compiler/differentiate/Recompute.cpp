//===- Recompute.cpp - Less is saved for the backward pass ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Recompute.h"

#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Resolver.h"

#include "dialects/clv/Clv.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

using Selected = llvm::function_ref<bool(const layout::ValueInfo &)>;

/// What a plan knows of a value.
layout::ValueInfo infoOf(Value value) {
  layout::ValueInfo info;
  auto type = cast<RankedTensorType>(value.getType());
  for (auto [name, size] : llvm::zip(dimsOf(type), type.getShape())) {
    info.dims.push_back({name.str(), size});
  }
  unsigned bits = type.getElementType().getIntOrFloatBitWidth();
  info.elementBytes = std::max(1u, bits / 8);
  if (ScopeAttr scope = scopeOfValue(value)) {
    info.role = static_cast<layout::Role>(scope.getRole());
    info.phase = static_cast<layout::Phase>(scope.getPhase());
    info.path = scope.getPath().str();
    info.label = scope.getLabel() ? scope.getLabel().str() : "";
    info.reader = scope.getReader() ? scope.getReader().str() : "";
  }
  return info;
}

/// The value that a result of repeats is a stack of, or that they carry out.
Value sourceOf(Value value) {
  while (auto repeat = value.getDefiningOp<RepeatOp>()) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    Value inner = repeat.getYield()->getOperand(number);
    if (!inner.getDefiningOp()) {
      return value;
    }
    value = inner;
  }
  return value;
}

/// One repeat and one that runs the other way and reads what it gives.
class Recomputation {
public:
  Recomputation(RepeatOp forward, RepeatOp backward, Selected selected)
      : forward(forward), backward(backward), selected(selected),
        policy(isForward, keep, /*outerIsFree=*/true) {}

  LogicalResult run();

private:
  /// A stack that the backward repeat reads in addition.
  struct Added {
    Value stack;        ///< from outside both, or null:
    unsigned index = 0; ///< the number of the forward repeat's result
  };

  bool isMadeAgain(Operation *op);
  bool readForwardValues();
  void provide(Value value, Operation *before);
  void clone(Operation *op, Operation *before);
  Value save(Value value);
  Value readStack(Value stack, Type slice);
  Value readResult(unsigned number, Type slice);
  void rebuildForward();

  RepeatOp forward, backward;
  Selected selected;
  // The policy of differentiation keeps references to these.
  std::function<bool(Value)> isForward = [this](Value value) {
    return value.getParentBlock() == forward.getBlock();
  };
  std::function<Value(Value)> keep = [](Value value) { return value; };
  Resolver policy;
  IRMapping map;
  SmallVector<Value> saved; ///< further slices that the forward body yields
  SmallVector<Added> added;
  bool isNameClash = false;
};

bool Recomputation::isMadeAgain(Operation *op) {
  if (op->getNumResults() == 1 && !isa<RepeatOp>(op) &&
      policy.isRecomputed(op)) {
    return true;
  }
  return llvm::any_of(op->getResults(), [&](Value result) {
    return selected(infoOf(sourceOf(result)));
  });
}

/// Lets the backward body read selected values instead of their slices, though
/// that is not legal yet. False where there are none.
bool Recomputation::readForwardValues() {
  bool any = false;
  for (auto [operand, argument] :
       llvm::zip(backward.getStacked(), backward.getStackedArguments())) {
    auto result = dyn_cast<OpResult>(operand);
    if (!result || result.getOwner() != forward ||
        result.getResultNumber() < forward.getCarried().size()) {
      continue;
    }
    Value value = forward.getYield()->getOperand(result.getResultNumber());
    if (value.getDefiningOp() && isForward(value) &&
        selected(infoOf(sourceOf(value)))) {
      argument.replaceAllUsesWith(value);
      any = true;
    }
  }
  return any;
}

/// Clones what makes `value`, back to what is saved, before `before`.
void Recomputation::provide(Value value, Operation *before) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> work = {value};
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!isForward(next) || map.contains(next)) {
      continue;
    }
    Operation *op = next.getDefiningOp();
    if (!op || !isMadeAgain(op)) {
      map.map(next, save(next));
      continue;
    }
    if (ops.insert(op)) {
      op->walk([&](Operation *inner) {
        llvm::append_range(work, inner->getOperands());
      });
    }
  }
  SmallVector<Operation *> inOrder = ops.takeVector();
  llvm::sort(inOrder,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : inOrder) {
    clone(op, before);
  }
}

void Recomputation::clone(Operation *op, Operation *before) {
  OpBuilder builder(before);
  builder.clone(*op, map)->walk([&](Operation *copy) {
    copy->setAttr(kRecomputed, builder.getUnitAttr());
    if (ScopeAttr scope = scopeOf(copy)) {
      setScope(copy, ScopeAttr::get(scope.getContext(), scope.getRole(),
                                    Phase::Backward, scope.getPath(),
                                    scope.getLabel(), scope.getReader()));
    }
  });
}

/// The slice of `value` that the backward body reads.
Value Recomputation::save(Value value) {
  if (value == forward.getIndex()) {
    return backward.getIndex();
  }
  auto arguments = forward.getStackedArguments();
  if (auto found = llvm::find(arguments, value); found != arguments.end()) {
    return readStack(forward.getStacked()[found - arguments.begin()],
                     value.getType());
  }
  Operation *yield = forward.getYield();
  for (unsigned i = forward.getCarried().size(); i < yield->getNumOperands();
       ++i) {
    if (yield->getOperand(i) == value) {
      return readResult(i, value.getType());
    }
  }
  if (findDim(value.getType(), forward.getDim()) >= 0) {
    isNameClash = true;
  }
  saved.push_back(value);
  return readResult(forward.getNumResults() + saved.size() - 1,
                    value.getType());
}

/// The backward body's slice of a stack, which it may read already.
Value Recomputation::readStack(Value stack, Type slice) {
  for (auto [operand, argument] :
       llvm::zip(backward.getStacked(), backward.getStackedArguments())) {
    if (operand == stack) {
      return argument;
    }
  }
  added.push_back({stack, 0});
  return backward.getBlock()->addArgument(slice, backward.getLoc());
}

Value Recomputation::readResult(unsigned number, Type slice) {
  if (number < forward.getNumResults()) {
    for (auto [operand, argument] :
         llvm::zip(backward.getStacked(), backward.getStackedArguments())) {
      if (operand == forward.getResult(number)) {
        return argument;
      }
    }
  }
  added.push_back({Value(), number});
  return backward.getBlock()->addArgument(slice, backward.getLoc());
}

/// The forward repeat again, with the saved values as further stacked results.
void Recomputation::rebuildForward() {
  if (saved.empty()) {
    return;
  }
  SmallVector<Type> types(forward.getResultTypes());
  for (Value value : saved) {
    auto slice = cast<RankedTensorType>(value.getType());
    SmallVector<StringRef> dims = dimsOf(slice);
    SmallVector<int64_t> sizes(slice.getShape());
    dims.insert(dims.begin(), forward.getDim());
    sizes.insert(sizes.begin(), forward.getCount());
    types.push_back(tensorType(slice.getElementType(), dims, sizes));
  }
  Operation *yield = forward.getYield();
  yield->insertOperands(yield->getNumOperands(), saved);
  OpBuilder builder(forward);
  auto loop = builder.create<RepeatOp>(
      forward.getLoc(), types, forward.getCarried(), forward.getStacked(),
      forward.getDim(), forward.getCount(), forward.getFirst(),
      forward.getReverse());
  loop->setDiscardableAttrs(forward->getDiscardableAttrDictionary());
  loop.getBody().takeBody(forward.getBody());
  forward.replaceAllUsesWith(
      loop.getResults().take_front(forward.getNumResults()));
  forward.erase();
  forward = loop;
}

LogicalResult Recomputation::run() {
  if (!readForwardValues()) {
    return success();
  }
  for (Operation &op : llvm::make_early_inc_range(*backward.getBlock())) {
    op.walk([&](Operation *reader) {
      for (OpOperand &operand : reader->getOpOperands()) {
        if (isForward(operand.get())) {
          provide(operand.get(), &op);
          operand.set(map.lookup(operand.get()));
        }
      }
    });
  }
  if (isNameClash) {
    return backward.emitError("a value with dim `")
           << forward.getDim()
           << "` inside the repeat over it cannot be kept for recomputation";
  }
  rebuildForward();
  for (const Added &stack : added) {
    backward.getStackedMutable().append(
        stack.stack ? stack.stack : forward.getResult(stack.index));
  }
  return success();
}

/// Whether `backward` may be the reverse of `forward`.
bool isReverse(RepeatOp forward, RepeatOp backward) {
  ScopeAttr scope = scopeOf(backward);
  return forward != backward && forward->getBlock() == backward->getBlock() &&
         forward.getDim() == backward.getDim() &&
         forward.getCount() == backward.getCount() &&
         forward.getFirst() == backward.getFirst() &&
         forward.getReverse() != backward.getReverse() &&
         (!scope || scope.getPhase() == Phase::Backward);
}

/// Repeats of a block, then those in the bodies of the backward ones: a repeat
/// in a repeat that is made again stands beside its reverse there.
LogicalResult recomputeIn(Block &block, Selected selected) {
  SmallVector<RepeatOp> repeats(block.getOps<RepeatOp>());
  llvm::SmallPtrSet<Operation *, 8> replaced;
  for (RepeatOp backward : repeats) {
    if (replaced.contains(backward)) {
      continue;
    }
    llvm::SetVector<Operation *> sources;
    for (Value stack : backward.getStacked()) {
      auto forward = stack.getDefiningOp<RepeatOp>();
      if (forward && isReverse(forward, backward)) {
        sources.insert(forward);
      }
    }
    for (Operation *forward : sources) {
      replaced.insert(forward);
      if (failed(Recomputation(cast<RepeatOp>(forward), backward, selected)
                     .run())) {
        return failure();
      }
    }
    if (failed(recomputeIn(*backward.getBlock(), selected))) {
      return failure();
    }
  }
  return success();
}

} // namespace

LogicalResult cleave::recompute(Operation *root, Selected selected) {
  SmallVector<Block *> blocks;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<RepeatOp>(op)) {
      return WalkResult::skip(); // reached through the block around it
    }
    for (Region &region : op->getRegions()) {
      for (Block &block : region) {
        blocks.push_back(&block);
      }
    }
    return WalkResult::advance();
  });
  for (Block *block : blocks) {
    if (failed(recomputeIn(*block, selected))) {
      return failure();
    }
  }
  // Stacks that nothing reads any more go; what differentiation makes again
  // too is made once.
  simplify(root);
  return success();
}

LogicalResult cleave::recompute(Operation *root, const layout::Plan &plan) {
  if (plan.recomputed.empty()) {
    return success();
  }
  return recompute(root, [&](const layout::ValueInfo &value) {
    return value.role == layout::Role::Activations &&
           llvm::any_of(plan.recomputed, [&](const auto &selection) {
             return matches(selection, value);
           });
  });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

/// Plans select by more than paths; that is enough for tests.
struct RecomputePass : PassWrapper<RecomputePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecomputePass)

  RecomputePass() = default;
  RecomputePass(const RecomputePass &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "clv-recompute"; }
  StringRef getDescription() const final {
    return "make values again in backward repeats instead of saving them";
  }
  void runOnOperation() final;

  ListOption<std::string> select{
      *this, "select", llvm::cl::desc("paths of what is made again: layer")};
  ListOption<std::string> except{
      *this, "except", llvm::cl::desc("paths of what of that is saved")};
};

layout::Selection pathSelection(StringRef text) {
  layout::Selection selection;
  selection.kind = layout::Selection::Kind::Path;
  SmallVector<StringRef> steps;
  text.split(steps, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef step : steps) {
    selection.path.emplace_back();
    selection.path.back().name = step.str();
  }
  return selection;
}

void RecomputePass::runOnOperation() {
  layout::Plan plan;
  for (const std::string &path : select) {
    layout::Selection selection = pathSelection(path);
    for (const std::string &saved : except) {
      layout::Selection rest;
      rest.kind = layout::Selection::Kind::Except;
      rest.children = {selection, pathSelection(saved)};
      selection = rest;
    }
    plan.recomputed.push_back(selection);
  }
  if (failed(recompute(getOperation(), plan))) {
    signalPassFailure();
  }
}

} // namespace

void cleave::registerRecomputePass() { PassRegistration<RecomputePass>(); }
