//===- Sums.cpp - Sums of several terms -----------------------------------===//
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
  if (!isPlainSum(root) || root->hasAttr(kOrdered)) {
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
