//===- Repeats.cpp - Repeats that give other stacks -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reproducible/Repeats.h"

using namespace mlir;
using namespace cleave;
using clv::RepeatOp;

RankedTensorType reproducible::stackOf(RepeatOp repeat, Type slice) {
  auto type = cast<RankedTensorType>(slice);
  SmallVector<StringRef> dims = clv::dimsOf(type);
  SmallVector<int64_t> sizes(type.getShape());
  dims.insert(dims.begin(), repeat.getDim());
  sizes.insert(sizes.begin(), static_cast<int64_t>(repeat.getCount()));
  return clv::tensorType(type.getElementType(), dims, sizes);
}

RepeatOp reproducible::rebuild(RepeatOp repeat,
                               const llvm::DenseSet<Value> &dropped,
                               ArrayRef<Value> slices) {
  OpBuilder builder(repeat);
  SmallVector<Value> carried, yielded;
  SmallVector<Type> types;
  SmallVector<unsigned> unread; // of the body's arguments
  for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
    bool isCarried = i < repeat.getCarried().size();
    if (dropped.contains(result)) {
      if (isCarried) {
        unread.push_back(1 + i);
      }
      continue;
    }
    if (isCarried) {
      carried.push_back(repeat.getCarried()[i]);
    }
    types.push_back(result.getType());
    yielded.push_back(repeat.getYield()->getOperand(i));
  }
  for (Value slice : slices) {
    types.push_back(stackOf(repeat, slice.getType()));
    yielded.push_back(slice);
  }
  auto made = builder.create<RepeatOp>(
      repeat.getLoc(), types, carried, repeat.getStacked(), repeat.getDim(),
      repeat.getCount(), repeat.getFirst(), repeat.getReverse());
  made->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  made.getBody().takeBody(repeat.getBody());
  made.getYield()->setOperands(yielded);
  for (unsigned argument : llvm::reverse(unread)) {
    made.getBlock()->eraseArgument(argument);
  }
  unsigned next = 0;
  for (Value result : repeat.getResults()) {
    if (!dropped.contains(result)) {
      result.replaceAllUsesWith(made.getResult(next++));
    }
  }
  return made;
}
