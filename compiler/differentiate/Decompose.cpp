//===- Decompose.cpp - Composite operations in smaller ones ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After differentiation: the gradients of softmax and logsumexp are shorter in
// terms of their results than those of their parts. Before partitioning: the
// parts may be split along the dims that the whole reduces.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"

#include "dialects/clv/Clv.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

static SmallVector<StringRef> namesIn(ArrayAttr attr) {
  return llvm::map_to_vector(
      attr, [](Attribute name) { return cast<StringAttr>(name).getValue(); });
}

/// The scope of a composite's parts: the same, without its label.
static ScopeAttr unlabelled(Operation *op) {
  ScopeAttr scope = scopeOf(op);
  return scope ? ScopeAttr::get(scope.getContext(), scope.getRole(),
                                scope.getPhase(), scope.getPath(), StringAttr(),
                                scope.getReader())
               : scope;
}

/// softmax(x) = e * (1 / sum(e)) with e = exp(x - max(x))
static Value decompose(SoftmaxOp op) {
  OpBuilder builder(op);
  Build build(builder, op.getLoc(), unlabelled(op));
  SmallVector<StringRef> over = namesIn(op.getOver());
  Value shift = build.reduce(Reduction::Max, op.getX(), over);
  Value e = build.elementwise(Elementwise::Exp, build.sub(op.getX(), shift));
  Value sum = build.reduce(Reduction::Sum, e, over);
  Type element = cast<RankedTensorType>(sum.getType()).getElementType();
  Value one = build.cast(build.constant(1), element);
  Value inverse = build.div(
      build.broadcast(one, cast<RankedTensorType>(sum.getType())), sum);
  build.scope = scopeOf(op);
  return build.mul(e, inverse);
}

/// logsumexp(x) = log(sum(exp(x - max(x)))) + max(x)
static Value decompose(LogsumexpOp op) {
  OpBuilder builder(op);
  Build build(builder, op.getLoc(), unlabelled(op));
  SmallVector<StringRef> over = namesIn(op.getOver());
  Value shift = build.reduce(Reduction::Max, op.getX(), over);
  Value e = build.elementwise(Elementwise::Exp, build.sub(op.getX(), shift));
  Value sum = build.reduce(Reduction::Sum, e, over);
  Value log = build.elementwise(Elementwise::Log, sum);
  build.scope = scopeOf(op);
  return build.add(log, shift);
}

void cleave::decompose(Operation *root) {
  SmallVector<Operation *> composites;
  root->walk([&](Operation *op) {
    if (isa<SoftmaxOp, LogsumexpOp>(op)) {
      composites.push_back(op);
    }
  });
  for (Operation *op : composites) {
    Value parts = isa<SoftmaxOp>(op) ? ::decompose(cast<SoftmaxOp>(op))
                                     : ::decompose(cast<LogsumexpOp>(op));
    op->getResult(0).replaceAllUsesWith(parts);
    op->erase();
  }
}
