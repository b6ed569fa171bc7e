//===- Precision.cpp - What contractions multiply -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Casts are operations of the global program, so they are the same for every
// plan. A cast keeps the region of what it casts, and with it the layout.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Resolver.h"

#include "dialects/clv/Clv.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// The scope of another value of the same region, in `phase`.
static ScopeAttr unlabelled(ScopeAttr scope, Phase phase) {
  return scope
             ? ScopeAttr::get(scope.getContext(), scope.getRole(), phase,
                              scope.getPath(), StringAttr(), scope.getReader())
             : scope;
}

//===----------------------------------------------------------------------===//
// Casts of what is multiplied
//===----------------------------------------------------------------------===//

namespace {

class Narrower {
public:
  explicit Narrower(Type type) : type(type) {}

  void narrow(Operation *op);

private:
  Value narrowed(Value value, Operation *reader);

  Type type;
  llvm::DenseMap<Value, Value> casts;
};

} // namespace

Value Narrower::narrowed(Value value, Operation *reader) {
  Value &known = casts[value];
  if (!known) {
    OpBuilder builder(reader);
    builder.setInsertionPointAfterValue(value);
    ScopeAttr scope = scopeOfValue(value);
    scope = scope ? scope : scopeOf(reader);
    Phase phase = scope ? scope.getPhase() : Phase::Forward;
    known = Build(builder, value.getLoc(), unlabelled(scope, phase))
                .cast(value, type);
  }
  return known;
}

void Narrower::narrow(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto attention = dyn_cast<AttentionOp>(op);
    bool isSum = attention && operand.get() == attention.getLogSum();
    if (!isSum && elementOf(operand.get()).isF32()) {
      operand.set(narrowed(operand.get(), op));
    }
  }
}

void cleave::narrowContractions(Operation *root, Type type) {
  SmallVector<Operation *> contractions;
  root->walk([&](Operation *op) {
    if (isa<DotOp, AttentionInterface>(op)) {
      contractions.push_back(op);
    }
  });
  Narrower narrower(type);
  for (Operation *op : contractions) {
    narrower.narrow(op);
  }
}

//===----------------------------------------------------------------------===//
// Casts before what moves a value
//===----------------------------------------------------------------------===//

/// The scope that the operand of `op`, cast, has. Null where the cast must stay
/// behind: a sum may be pending where a value leaves a region, and is added up
/// in f32.
static ScopeAttr scopeBefore(Operation *op) {
  ScopeAttr scope = scopeOf(op);
  if (isa<WeightOp>(op) && scope) {
    // One for the whole step: a parameter does not change in it.
    return ScopeAttr::get(op->getContext(), Role::Params, Phase::Forward,
                          scope.getPath(), StringAttr(), StringAttr());
  }
  auto edge = dyn_cast<EdgeOp>(op);
  if ((edge && entersRegion(edge)) || isa<RenameOp>(op)) {
    Phase phase = scope ? scope.getPhase() : Phase::Forward;
    return unlabelled(scopeOfValue(op->getOperand(0)), phase);
  }
  return {};
}

/// Moves a cast, and all of the same value, before what makes that. Null where
/// it stays.
static CastOp moveBefore(CastOp op, llvm::DenseSet<Operation *> &erased) {
  Operation *maker = op.getX().getDefiningOp();
  ScopeAttr scope = maker ? scopeBefore(maker) : ScopeAttr();
  auto isSame = [&](Operation *user) {
    return isa<CastOp>(user) &&
           elementOf(user->getResult(0)) == elementOf(op.getResult());
  };
  if (!scope || !llvm::all_of(maker->getUsers(), isSame)) {
    return {};
  }
  OpBuilder builder(maker);
  auto type = cast<RankedTensorType>(op.getType());
  Value early = Build(builder, op.getLoc(), scope)
                    .cast(maker->getOperand(0), type.getElementType());
  Operation *copy = builder.clone(*maker);
  copy->setOperand(0, early);
  copy->getResult(0).setType(cast<RankedTensorType>(maker->getResultTypes()[0])
                                 .clone(type.getElementType()));
  for (Operation *user : llvm::make_early_inc_range(maker->getUsers())) {
    user->getResult(0).replaceAllUsesWith(copy->getResult(0));
    erased.insert(user);
    user->erase();
  }
  maker->erase();
  return early.getDefiningOp<CastOp>();
}

void cleave::castEarly(Operation *root) {
  SmallVector<CastOp> casts;
  root->walk([&](CastOp op) {
    if (elementOf(op.getX()).isF32() && elementOf(op.getResult()).isBF16()) {
      casts.push_back(op);
    }
  });
  llvm::DenseSet<Operation *> erased;
  for (CastOp next : casts) {
    while (next && !erased.contains(next)) {
      next = moveBefore(next, erased);
    }
  }
  // Of parameters, the backward pass reads the forward pass's cast.
  root->walk([](CastOp op) {
    ScopeAttr scope = scopeOf(op);
    if (scope && scope.getRole() == Role::Params) {
      setScope(op, unlabelled(scope, Phase::Forward));
    }
  });
}
