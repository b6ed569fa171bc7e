//===- Activity.h - Which values depend on parameters -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_DIFFERENTIATE_ACTIVITY_H
#define CLEAVE_COMPILER_DIFFERENTIATE_ACTIVITY_H

#include "dialects/clv/Clv.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// The float values that depend on given ones, loops included. What
/// `stop_gradient` gives depends on nothing.
class Activity {
public:
  void add(mlir::Value value) { active.insert(value); }
  bool has(mlir::Value value) const { return active.contains(value); }
  void visit(mlir::Block &block);

private:
  void visit(clv::RepeatOp repeat);

  llvm::DenseSet<mlir::Value> active;
};

} // namespace cleave

#endif // CLEAVE_COMPILER_DIFFERENTIATE_ACTIVITY_H
