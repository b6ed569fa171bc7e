//===- Resolver.h - Saved or recomputed -------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_DIFFERENTIATE_RESOLVER_H
#define CLEAVE_COMPILER_DIFFERENTIATE_RESOLVER_H

#include "dialects/clv/Clv.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// Whether an edge's result is the value inside the region, not outside it.
bool entersRegion(clv::EdgeOp edge);

/// Replaces what backward operations read of their forward block: the cheap is
/// recomputed before its first use, the rest given by `save`, each value once.
/// Differentiate.h says what is cheap.
class Resolver {
public:
  /// `isForward`: whether a value belongs to the forward block. `outerIsFree`:
  /// whether values from outside the block are at hand without being kept.
  Resolver(llvm::function_ref<bool(mlir::Value)> isForward,
           llvm::function_ref<mlir::Value(mlir::Value)> save, bool outerIsFree)
      : isForward(isForward), save(save), outerIsFree(outerIsFree) {}

  void run(llvm::iterator_range<mlir::Block::iterator> ops);

  /// Whether the one result of `op` is cheap.
  bool isRecomputed(mlir::Operation *op);

private:
  mlir::Value resolve(mlir::Value value, mlir::Operation *before,
                      unsigned depth);
  bool isFree(mlir::Value value, unsigned depth);

  llvm::function_ref<bool(mlir::Value)> isForward;
  llvm::function_ref<mlir::Value(mlir::Value)> save;
  bool outerIsFree;
  llvm::DenseMap<mlir::Value, mlir::Value> done;
  llvm::DenseMap<mlir::Value, bool> free;
};

} // namespace cleave

#endif // CLEAVE_COMPILER_DIFFERENTIATE_RESOLVER_H
