//===- Simplify.cpp - Folds, merges and removes operations ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regions are meaning here: layouts follow from an operation's scope, so an
// operation is replaced by another only within one role, phase and region.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Recompute.h"

#include "dialects/clv/Clv.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <optional>
#include <unordered_map>

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

/// Whether values of the two scopes have the same layout rules.
bool sameRegion(ScopeAttr a, ScopeAttr b, bool withPhase) {
  if (!a || !b) {
    return a == b;
  }
  return a.getRole() == b.getRole() && a.getPath() == b.getPath() &&
         a.getReader() == b.getReader() &&
         (!withPhase || a.getPhase() == b.getPhase());
}

//===----------------------------------------------------------------------===//
// Constants and identities
//===----------------------------------------------------------------------===//

/// A constant float, through broadcasts.
std::optional<double> splat(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    return splat(broadcast.getX());
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  auto number =
      constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  if (!number) {
    return std::nullopt;
  }
  return number.getValueAsDouble();
}

std::optional<double> evaluate(Elementwise function, ArrayRef<double> x) {
  switch (function) {
  case Elementwise::Add:
    return x[0] + x[1];
  case Elementwise::Sub:
    return x[0] - x[1];
  case Elementwise::Mul:
    return x[0] * x[1];
  case Elementwise::Div:
    return x[0] / x[1];
  case Elementwise::Maximum:
    return std::max(x[0], x[1]);
  case Elementwise::Minimum:
    return std::min(x[0], x[1]);
  case Elementwise::Pow:
    return std::pow(x[0], x[1]);
  case Elementwise::Neg:
    return -x[0];
  case Elementwise::Exp:
    return std::exp(x[0]);
  case Elementwise::Log:
    return std::log(x[0]);
  case Elementwise::Sqrt:
    return std::sqrt(x[0]);
  case Elementwise::Rsqrt:
    return 1 / std::sqrt(x[0]);
  default:
    return std::nullopt;
  }
}

/// An elementwise operation on constant scalars, as a constant; or null.
Value foldConstants(Operation *op, Elementwise function) {
  SmallVector<double> numbers;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<ConstantOp>();
    if (!constant) {
      return {};
    }
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      numbers.push_back(number.getValueAsDouble());
    } else if (auto number = dyn_cast<IntegerAttr>(constant.getValue());
               number && function == Elementwise::Cast &&
               number.getType().isInteger(32)) {
      numbers.push_back(static_cast<double>(number.getInt()));
    } else {
      return {};
    }
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!isa<FloatType>(type.getElementType())) {
    return {};
  }
  std::optional<double> value = function == Elementwise::Cast
                                    ? std::optional<double>(numbers[0])
                                    : evaluate(function, numbers);
  if (!value || !std::isfinite(*value)) {
    return {};
  }
  OpBuilder builder(op);
  auto folded = builder.create<ConstantOp>(
      op->getLoc(), type, builder.getFloatAttr(type.getElementType(), *value));
  setScope(folded, scopeOf(op));
  return folded;
}

/// An operand that the operation returns unchanged, or null.
Value foldIdentity(Operation *op) {
  Value x = op->getOperand(0);
  return TypeSwitch<Operation *, Value>(op)
      .Case<AddOp>([&](AddOp add) {
        return splat(add.getRhs()) == 0.0   ? add.getLhs()
               : splat(add.getLhs()) == 0.0 ? add.getRhs()
                                            : Value();
      })
      .Case<SubOp>([&](SubOp sub) {
        return splat(sub.getRhs()) == 0.0 ? sub.getLhs() : Value();
      })
      .Case<MulOp>([&](MulOp mul) {
        return splat(mul.getRhs()) == 1.0   ? mul.getLhs()
               : splat(mul.getLhs()) == 1.0 ? mul.getRhs()
                                            : Value();
      })
      .Case<DivOp>([&](DivOp div) {
        return splat(div.getRhs()) == 1.0 ? div.getLhs() : Value();
      })
      .Case<NegOp>([&](NegOp) {
        auto inner = x.getDefiningOp<NegOp>();
        return inner ? inner.getX() : Value();
      })
      .Case<BroadcastOp, RenameOp, CastOp>([&](Operation *) {
        return x.getType() == op->getResult(0).getType() ? x : Value();
      })
      .Default([](Operation *) { return Value(); });
}

/// Skips broadcasts that an operation does itself: those of an elementwise
/// operation's operands whose dims the other operands give in the same order.
bool skipBroadcasts(Operation *op) {
  if (!isa<ElementwiseInterface, BroadcastOp>(op)) {
    return false;
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  bool changed = false;
  for (OpOperand &operand : op->getOpOperands()) {
    auto broadcast = operand.get().getDefiningOp<BroadcastOp>();
    if (!broadcast ||
        !sameRegion(scopeOf(broadcast), scopeOf(op), /*withPhase=*/false)) {
      continue;
    }
    Value old = operand.get();
    operand.set(broadcast.getX());
    if (isa<BroadcastOp>(op) ||
        elementwiseType(type.getElementType(), op->getOperands()) == type) {
      changed = true;
    } else {
      operand.set(old);
    }
  }
  return changed;
}

bool fold(Block &block) {
  bool changed = false;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      changed |= fold(*repeat.getBlock());
      continue;
    }
    if (op.getNumResults() != 1 || op.getNumOperands() == 0) {
      continue;
    }
    Value value;
    if (auto elementwise = dyn_cast<ElementwiseInterface>(op)) {
      value = foldConstants(&op, elementwise.getFunction());
    }
    if (!value) {
      value = foldIdentity(&op);
      // A value of another region is not this one, though the numbers agree.
      if (value && (value.getType() != op.getResult(0).getType() ||
                    !sameRegion(scopeOfValue(value), scopeOf(&op),
                                /*withPhase=*/false))) {
        value = {};
      }
    }
    if (value) {
      op.getResult(0).replaceAllUsesWith(value);
      op.erase();
      changed = true;
    } else {
      changed |= skipBroadcasts(&op);
    }
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// Equal operations
//===----------------------------------------------------------------------===//

/// The attributes that make an operation what it is: all but the label and
/// whether it repeats another.
bool sameOperation(Operation *a, Operation *b) {
  if (a->getName() != b->getName() || a->getOperands() != b->getOperands() ||
      a->getResultTypes() != b->getResultTypes() ||
      !sameRegion(scopeOf(a), scopeOf(b), /*withPhase=*/true)) {
    return false;
  }
  NamedAttrList left(a->getAttrDictionary()), right(b->getAttrDictionary());
  for (StringRef name :
       {StringRef(ClvDialect::kScope), StringRef(kRecomputed)}) {
    left.erase(name);
    right.erase(name);
  }
  return left.getDictionary(a->getContext()) ==
         right.getDictionary(b->getContext());
}

bool merge(Block &block) {
  bool changed = false;
  std::unordered_multimap<size_t, Operation *> seen;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      changed |= merge(*repeat.getBlock());
      continue;
    }
    if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
        !isMemoryEffectFree(&op)) {
      continue;
    }
    size_t hash = llvm::hash_combine(
        op.getName(),
        llvm::hash_combine_range(op.operand_begin(), op.operand_end()));
    auto [first, last] = seen.equal_range(hash);
    Operation *same = nullptr;
    for (auto it = first; it != last && !same; ++it) {
      same = sameOperation(it->second, &op) ? it->second : nullptr;
    }
    if (same) {
      if (!op.hasAttr(kRecomputed)) {
        same->removeAttr(kRecomputed); // needed in any case
      }
      op.getResult(0).replaceAllUsesWith(same->getResult(0));
      op.erase();
      changed = true;
    } else {
      seen.emplace(hash, &op);
    }
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// Unused operations
//===----------------------------------------------------------------------===//

/// Drops operands, arguments and results of a loop that nothing reads. A
/// carried value goes if its result is unused and its argument feeds at most
/// its own next iteration unchanged.
RepeatOp removeUnused(RepeatOp op) {
  Block *body = op.getBlock();
  Operation *yield = op.getYield();
  unsigned carried = op.getCarried().size();
  SmallVector<bool> keepCarried, keepStacked, keepResult;
  bool any = false;
  for (unsigned i = 0; i < carried; ++i) {
    BlockArgument argument = op.getCarriedArguments()[i];
    bool isIdle = argument.use_empty() ||
                  (argument.hasOneUse() && yield->getOperand(i) == argument);
    keepCarried.push_back(!isIdle || !op.getResult(i).use_empty());
    any |= !keepCarried.back();
  }
  for (BlockArgument argument : op.getStackedArguments()) {
    keepStacked.push_back(!argument.use_empty());
    any |= !keepStacked.back();
  }
  for (unsigned i = carried; i < op.getNumResults(); ++i) {
    keepResult.push_back(!op.getResult(i).use_empty());
    any |= !keepResult.back();
  }
  if (!any) {
    return op;
  }
  SmallVector<Value> newCarried, newStacked, yields, used;
  SmallVector<Type> types;
  llvm::BitVector deadArguments(body->getNumArguments());
  for (unsigned i = 0; i < carried; ++i) {
    if (keepCarried[i]) {
      newCarried.push_back(op.getCarried()[i]);
      yields.push_back(yield->getOperand(i));
      types.push_back(op.getResult(i).getType());
      used.push_back(op.getResult(i));
    } else {
      deadArguments.set(1 + i);
    }
  }
  for (auto [i, keep] : llvm::enumerate(keepStacked)) {
    if (keep) {
      newStacked.push_back(op.getStacked()[i]);
    } else {
      deadArguments.set(1 + carried + i);
    }
  }
  for (auto [i, keep] : llvm::enumerate(keepResult)) {
    if (keep) {
      yields.push_back(yield->getOperand(carried + i));
      types.push_back(op.getResult(carried + i).getType());
      used.push_back(op.getResult(carried + i));
    }
  }
  yield->setOperands(yields);
  body->eraseArguments(deadArguments);
  OpBuilder builder(op);
  auto slim = builder.create<RepeatOp>(op.getLoc(), types, newCarried,
                                       newStacked, op.getDim(), op.getCount(),
                                       op.getFirst(), op.getReverse());
  slim->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  slim.getBody().takeBody(op.getBody());
  for (auto [from, to] : llvm::zip(used, slim.getResults())) {
    from.replaceAllUsesWith(to);
  }
  op.erase();
  return slim;
}

bool removeUnused(Block &block) {
  bool changed = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      continue;
    }
    if (op.use_empty() && isMemoryEffectFree(&op)) {
      op.erase();
      changed = true;
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      RepeatOp slim = removeUnused(repeat);
      bool isSlimmer = slim != repeat;
      changed |= isSlimmer;
      changed |= removeUnused(*slim.getBlock());
    }
  }
  return changed;
}

} // namespace

void cleave::simplify(Operation *root) {
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
    if (block->empty() || !block->back().hasTrait<OpTrait::IsTerminator>()) {
      continue; // a module's body: symbols, not values
    }
    // Each round removes something, so this ends.
    bool changed = true;
    while (changed) {
      changed = fold(*block);
      changed |= merge(*block);
      changed |= removeUnused(*block);
    }
  }
}
