//===- Reverse.cpp - Reverse-mode differentiation -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk over a block in reverse. While a backward block is built it reads
// values of the forward block directly, even across loops, where that is not
// legal; `Resolver` then replaces each such value by a recomputed or a saved
// one. So no decision about saving is taken before it is known what is read.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Activity.h"
#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Resolver.h"

#include "dialects/clv/Clv.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool isFloat(Value value) {
  return isa<FloatType>(typeOf(value).getElementType());
}

/// `type` with `dim` of size `count` in front.
RankedTensorType stackedType(RankedTensorType type, StringRef dim,
                             int64_t count) {
  SmallVector<StringRef> dims = {dim};
  SmallVector<int64_t> sizes = {count};
  llvm::append_range(dims, dimsOf(type));
  llvm::append_range(sizes, type.getShape());
  return tensorType(type.getElementType(), dims, sizes);
}

/// What belongs to the gradient of the parameter `path`.
ScopeAttr gradientScope(MLIRContext *context, StringRef path) {
  return ScopeAttr::get(context, Role::Gradients, Phase::Backward, path,
                        StringAttr(), StringAttr());
}

/// Gives `part`, an operand's share of the gradient of `weight`, the scope of
/// the parameter's gradient, if it was built after `before` (null: the block
/// was empty): else it is somebody else's value too.
void claimForParameter(Value part, WeightOp weight, Operation *before) {
  Operation *op = part.getDefiningOp();
  if (!op || (before && (before->getBlock() != op->getBlock() ||
                         !before->isBeforeInBlock(op)))) {
    return;
  }
  if (ScopeAttr scope = scopeOf(weight)) {
    setScope(op, gradientScope(op->getContext(), scope.getPath()));
  }
}

/// The weight that a value is, maybe cast.
WeightOp weightBehind(Value value) {
  if (auto cast = value.getDefiningOp<CastOp>()) {
    value = cast.getX();
  }
  return value.getDefiningOp<WeightOp>();
}

Value zeros(Build &build, RankedTensorType type) {
  Type element = type.getElementType();
  auto zero = build.builder.create<ConstantOp>(
      build.loc, RankedTensorType::get({}, element),
      build.builder.getFloatAttr(element, 0));
  setScope(zero, build.scope);
  return build.broadcast(zero, type);
}

/// Sums the dims that `like` lacks and repeats those it has more.
Value conform(Build &build, Value gradient, Value like) {
  SmallVector<StringRef> extra;
  for (StringRef name : dimsOf(gradient)) {
    if (findDim(like.getType(), name) < 0) {
      extra.push_back(name);
    }
  }
  gradient = build.reduce(Reduction::Sum, gradient, extra);
  if (typeOf(gradient).getRank() < typeOf(like).getRank()) {
    gradient = build.broadcast(gradient, gradientType(like.getType()));
  }
  return gradient;
}

/// The gradients found so far of forward values, as parts yet to be summed.
/// They are f32 where a value is bf16.
using Parts = llvm::MapVector<Value, SmallVector<Value, 2>>;

/// Removes operations of a block that nothing uses, last first.
void removeDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (op.use_empty() && isMemoryEffectFree(&op) &&
        !op.hasTrait<OpTrait::IsTerminator>()) {
      op.erase();
    }
  }
}

//===----------------------------------------------------------------------===//
// Reverse
//===----------------------------------------------------------------------===//

class Reverse {
public:
  Reverse(MLIRContext *context, const Activity &activity,
          const llvm::DenseMap<Value, StringRef> &points)
      : context(context), activity(activity), points(points) {}

  /// Reverses `ops`, the operations of one block, building at `builder`.
  LogicalResult block(ArrayRef<Operation *> ops, OpBuilder &builder,
                      Parts &parts);

  /// The sum of the parts of a value's gradient, or null.
  Value sum(OpBuilder &builder, Location loc, Value value, Parts &parts);
  /// The same with the value's own type, wrapped in `clv.gradient` where the
  /// value is a parameter as its one reader sees it.
  Value finish(OpBuilder &builder, Location loc, Value value, Parts &parts);

  void eraseReplaced() {
    for (Operation *op : replaced) {
      op->erase();
    }
  }

private:
  LogicalResult repeat(RepeatOp op, OpBuilder &builder, Parts &parts);

  /// The scope in which the gradients of a value are summed: that of the
  /// value; of a parameter or a weight, that of the parameter's gradient.
  ScopeAttr sumScope(Value value) const;

  MLIRContext *context;
  const Activity &activity;
  const llvm::DenseMap<Value, StringRef> &points;
  SmallVector<Operation *> replaced;
};

ScopeAttr Reverse::sumScope(Value value) const {
  auto point = points.find(value);
  if (point != points.end()) {
    return gradientScope(context, point->second);
  }
  ScopeAttr scope = scopeOfValue(value);
  if (scope &&
      (scope.getRole() == Role::Weights || scope.getRole() == Role::Params)) {
    return gradientScope(context, scope.getPath());
  }
  if (scope && scope.getRole() == Role::Activations) {
    return backwardOf(scope);
  }
  return ScopeAttr::get(context, Role::Activations, Phase::Backward, "",
                        StringAttr(), StringAttr());
}

Value Reverse::sum(OpBuilder &builder, Location loc, Value value,
                   Parts &parts) {
  auto found = parts.find(value);
  if (found == parts.end()) {
    return {};
  }
  Build build(builder, loc, sumScope(value));
  Value total;
  for (Value part : found->second) {
    total = total ? build.add(total, part) : part;
  }
  found->second.assign({total});
  return total;
}

Value Reverse::finish(OpBuilder &builder, Location loc, Value value,
                      Parts &parts) {
  Value total = sum(builder, loc, value, parts);
  Build build(builder, loc, sumScope(value));
  RankedTensorType type = gradientType(value.getType());
  total = total ? build.broadcast(total, type) : zeros(build, type);
  return points.contains(value) ? build.gradient(total) : total;
}

LogicalResult Reverse::block(ArrayRef<Operation *> ops, OpBuilder &builder,
                             Parts &parts) {
  for (Operation *op : llvm::reverse(ops)) {
    bool isNeeded = llvm::any_of(op->getResults(), [&](Value result) {
      return parts.contains(result) && activity.has(result);
    });
    if (!isNeeded) {
      continue;
    }
    if (auto loop = dyn_cast<RepeatOp>(op)) {
      if (failed(repeat(loop, builder, parts))) {
        return failure();
      }
      continue;
    }
    auto differentiable = dyn_cast<GradientInterface>(op);
    if (!differentiable) {
      return op->emitError("`")
             << op->getName() << "` cannot be differentiated";
    }
    SmallVector<Value> results;
    for (Value result : op->getResults()) {
      results.push_back(sum(builder, op->getLoc(), result, parts));
    }
    Block *target = builder.getInsertionBlock();
    Operation *before = builder.getInsertionPoint() == target->begin()
                            ? nullptr
                            : &*std::prev(builder.getInsertionPoint());
    SmallVector<Value> gradients;
    if (failed(differentiable.buildGradient(builder, results, gradients))) {
      return failure();
    }
    Build build(builder, op->getLoc(), backwardOf(scopeOf(op)));
    for (auto [operand, gradient] : llvm::zip(op->getOperands(), gradients)) {
      if (gradient && activity.has(operand)) {
        Value part = conform(build, gradient, operand);
        if (WeightOp weight = weightBehind(operand)) {
          claimForParameter(part, weight, before);
        }
        parts[operand].push_back(part);
      }
    }
  }
  return success();
}

/// Builds the loop that runs a repeat backwards.
///
///   forward                          backward
///   carried value                    carried gradient of it
///   value read from outside          carried sum of its gradients
///   stacked operand                  stacked result: its gradient
///   stacked result                   stacked operand: its gradient
///   value the backward body reads    stacked operand (saved by the forward)
LogicalResult Reverse::repeat(RepeatOp op, OpBuilder &builder, Parts &parts) {
  Location loc = op.getLoc();
  Block *forward = op.getBlock();
  RankedTensorType indexType = typeOf(op.getIndex());
  StringRef dim = op.getDim();
  int64_t count = op.getCount();

  Region body;
  Block *backward = new Block();
  body.push_back(backward);
  Value index = backward->addArgument(indexType, loc);
  OpBuilder inside(context);
  inside.setInsertionPointToEnd(backward);

  // Carried in, as values outside and arguments inside.
  SmallVector<Value> carriedIn, carriedOut, stackedIn, stackedOut;
  SmallVector<Type> stackedTypes;
  Parts inner;

  unsigned carried = 0;
  auto addCarried = [&](Value init, Type type) {
    carriedIn.push_back(init);
    return backward->insertArgument(1 + carried++, type, loc);
  };
  auto addStacked = [&](Value stack, Type type) {
    stackedIn.push_back(stack);
    return backward->addArgument(type, loc);
  };

  Operation *yield = op.getYield();
  SmallVector<unsigned> active;
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    Value argument = op.getCarriedArguments()[i];
    if (!activity.has(argument)) {
      continue;
    }
    active.push_back(i);
    Value result = op.getResult(i);
    Value gradient = sum(builder, loc, result, parts);
    Build build(builder, loc, sumScope(result));
    RankedTensorType type = gradientType(result.getType());
    gradient = gradient ? build.broadcast(gradient, type) : zeros(build, type);
    inner[yield->getOperand(i)].push_back(
        addCarried(gradient, gradientType(argument.getType())));
  }
  for (unsigned i = op.getCarried().size(); i < op.getNumResults(); ++i) {
    Value yielded = yield->getOperand(i);
    Value gradient = sum(builder, loc, op.getResult(i), parts);
    if (gradient && activity.has(yielded)) {
      Build build(builder, loc, sumScope(op.getResult(i)));
      gradient =
          build.broadcast(gradient, gradientType(op.getResult(i).getType()));
      inner[yielded].push_back(
          addStacked(gradient, gradientType(yielded.getType())));
    }
  }

  SmallVector<Operation *> ops;
  for (Operation &operation : forward->without_terminator()) {
    ops.push_back(&operation);
  }
  if (failed(block(ops, inside, inner))) {
    return failure();
  }

  // What the body yields: gradients of carried values, then of outer values.
  for (unsigned i : active) {
    carriedOut.push_back(
        finish(inside, loc, op.getCarriedArguments()[i], inner));
  }
  SmallVector<Value> outer;
  for (auto &[value, unused] : inner) {
    if (value.getParentBlock() != forward && activity.has(value)) {
      outer.push_back(value);
    }
  }
  for (Value value : outer) {
    Build before(builder, loc, sumScope(value));
    RankedTensorType type = gradientType(value.getType());
    Value total = addCarried(zeros(before, type), type);
    Build build(inside, loc, sumScope(value));
    Value part = sum(inside, loc, value, inner);
    carriedOut.push_back(build.broadcast(build.add(total, part), type));
  }
  SmallVector<Value> stackedOwner;
  for (auto [operand, argument] :
       llvm::zip(op.getStacked(), op.getStackedArguments())) {
    if (activity.has(argument)) {
      stackedOut.push_back(finish(inside, loc, argument, inner));
      stackedTypes.push_back(
          stackedType(gradientType(argument.getType()), dim, count));
      stackedOwner.push_back(operand);
    }
  }
  SmallVector<Value> yields(carriedOut);
  llvm::append_range(yields, stackedOut);
  inside.create<YieldOp>(loc, yields);
  removeDead(*backward);

  // Resolve what the body reads of the forward body.
  llvm::MapVector<Value, BlockArgument> saved;
  bool isNameClash = false;
  auto isForward = [&](Value v) { return v.getParentBlock() == forward; };
  auto save = [&](Value value) -> Value {
    if (value == op.getIndex()) {
      return index;
    }
    auto arguments = op.getStackedArguments();
    if (auto found = llvm::find(arguments, value); found != arguments.end()) {
      return addStacked(op.getStacked()[found - arguments.begin()],
                        value.getType());
    }
    isNameClash |= findDim(value.getType(), dim) >= 0;
    // The stack is a result of the forward loop that is yet to be built.
    BlockArgument argument = addStacked(Value(), value.getType());
    saved[value] = argument;
    return argument;
  };
  Resolver(isForward, save, /*outerIsFree=*/true)
      .run(llvm::make_range(backward->begin(), backward->end()));
  if (isNameClash) {
    return op.emitError("a value with dim `")
           << dim
           << "` inside the repeat over it cannot be kept for the "
              "backward pass";
  }

  // The forward loop again, with the saved values as further stacked results.
  SmallVector<Type> forwardTypes(op.getResultTypes());
  for (auto &[value, argument] : saved) {
    yield->insertOperands(yield->getNumOperands(), value);
    forwardTypes.push_back(stackedType(typeOf(value), dim, count));
  }
  RepeatOp loop = op;
  if (!saved.empty()) {
    OpBuilder at(op);
    loop =
        at.create<RepeatOp>(loc, forwardTypes, op.getCarried(), op.getStacked(),
                            dim, count, op.getFirst(), op.getReverse());
    loop.getBody().takeBody(op.getBody());
    setScope(loop, scopeOf(op));
    op.replaceAllUsesWith(loop.getResults().take_front(op.getNumResults()));
    replaced.push_back(op);
    unsigned result = op.getNumResults();
    for (auto &[value, argument] : saved) {
      stackedIn[argument.getArgNumber() - 1 - carried] =
          loop.getResult(result++);
    }
  }

  SmallVector<Type> types =
      llvm::map_to_vector(carriedOut, [](Value v) { return v.getType(); });
  llvm::append_range(types, stackedTypes);
  auto reversed =
      builder.create<RepeatOp>(loc, types, carriedIn, stackedIn, dim, count,
                               op.getFirst(), !op.getReverse());
  reversed.getBody().takeBody(body);
  setScope(reversed, backwardOf(scopeOf(op)));

  unsigned result = 0;
  for (unsigned i : active) {
    Value gradient = reversed.getResult(result++);
    if (activity.has(loop.getCarried()[i])) {
      parts[loop.getCarried()[i]].push_back(gradient);
    }
  }
  for (Value value : outer) {
    parts[value].push_back(reversed.getResult(result++));
  }
  for (Value value : stackedOwner) {
    parts[value].push_back(reversed.getResult(result++));
  }
  return success();
}

} // namespace

LogicalResult cleave::buildGradients(Block &block, Value loss,
                                     ArrayRef<Parameter> parameters,
                                     SmallVectorImpl<Value> &out) {
  MLIRContext *context = loss.getContext();
  if (typeOf(loss).getRank() != 0 || !isFloat(loss)) {
    return emitError(loss.getLoc(), "the loss must be a float scalar");
  }
  // A parameter that one repeat alone reads has its gradient finished in the
  // body, others where all their parts are there.
  Activity activity;
  llvm::DenseMap<Value, StringRef> points;
  llvm::SmallPtrSet<void *, 16> isStacked;
  for (const Parameter &parameter : parameters) {
    activity.add(parameter.value);
    Value point = parameter.value;
    while (point.hasOneUse()) {
      OpOperand &use = *point.getUses().begin();
      auto repeat = dyn_cast<RepeatOp>(use.getOwner());
      unsigned number = use.getOperandNumber();
      if (!repeat || number < repeat.getCarried().size()) {
        break;
      }
      isStacked.insert(point.getAsOpaquePointer());
      point = repeat.getStackedArguments()[number - repeat.getCarried().size()];
    }
    points[point] = parameter.path;
  }
  activity.visit(block);

  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator()) {
    ops.push_back(&op);
  }
  Operation *terminator = block.getTerminator();
  OpBuilder builder(terminator);
  Operation *last = ops.empty() ? nullptr : ops.back();
  Parts parts;
  {
    Build build(builder, loss.getLoc(), backwardOf(scopeOfValue(loss)));
    Type element = typeOf(loss).getElementType();
    auto one = builder.create<ConstantOp>(loss.getLoc(), loss.getType(),
                                          builder.getFloatAttr(element, 1));
    setScope(one, build.scope);
    parts[loss].push_back(one);
  }
  Reverse reverse(context, activity, points);
  Operation *mark = last ? last->getNextNode() : &block.front();
  if (failed(reverse.block(ops, builder, parts))) {
    return failure();
  }
  for (const Parameter &parameter : parameters) {
    // A stack whose slices are finished is whole already.
    Value gradient;
    if (isStacked.contains(parameter.value.getAsOpaquePointer())) {
      gradient = reverse.sum(builder, loss.getLoc(), parameter.value, parts);
    }
    if (!gradient) {
      points.try_emplace(parameter.value, parameter.path);
      gradient = reverse.finish(builder, loss.getLoc(), parameter.value, parts);
    }
    out.push_back(gradient);
  }

  // Outside loops everything is in reach; the cheap is still recomputed, so
  // that it need not stay in memory.
  llvm::SmallPtrSet<Operation *, 32> isBackward;
  for (Operation *op = mark; op != terminator; op = op->getNextNode()) {
    isBackward.insert(op);
  }
  auto isForward = [&](Value value) {
    return value.getParentBlock() == &block &&
           (!value.getDefiningOp() ||
            !isBackward.contains(value.getDefiningOp()));
  };
  auto keep = [](Value value) { return value; };
  Resolver(isForward, keep, /*outerIsFree=*/false)
      .run(llvm::make_range(mark->getIterator(), terminator->getIterator()));
  reverse.eraseReplaced();
  return success();
}
