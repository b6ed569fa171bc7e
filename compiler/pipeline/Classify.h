//===- Classify.h - Which work is timed, and where it is done ---*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_CLASSIFY_H
#define CLEAVE_COMPILER_PIPELINE_CLASSIFY_H

#include "compiler/pipeline/Pipeline.h"
#include "dialects/pipe/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace cleave::pipelining {

/// Questions about one function that do not change while it is reorganised.
class Classifier {
public:
  Classifier(mlir::func::FuncOp function, const layout::Plan &plan,
             const layout::Mesh &mesh)
      : function(function), plan(plan), mesh(mesh) {}

  bool isTimed(mlir::Type type) const;
  /// Whether an operation reads or makes a timed value, inside it too.
  bool isTimed(mlir::Operation *op) const;
  /// Where microbatches are added up: an all_reduce along times alone.
  bool isTimeSum(mlir::Operation *op) const;
  /// Where they come together, each in its place: an all_gather likewise.
  bool isTimeGather(mlir::Operation *op) const;
  /// Either: what reads it comes after all microbatches.
  bool isTimeEnd(mlir::Operation *op) const {
    return isTimeSum(op) || isTimeGather(op);
  }
  /// Whether a value depends on inputs, indices and constants alone.
  bool isOfInputs(mlir::Value value);
  /// The same for all that an operation gives.
  bool isOfInputs(mlir::Operation *op);
  /// After operations were erased: others may stand at their addresses.
  void forget() { ofInputs.clear(); }
  /// The same type without times.
  mlir::Type atRest(mlir::Type type) const;
  bool isStaged(clv::RepeatOp repeat) const {
    return repeat->hasAttr(clv::ClvDialect::kSplit);
  }
  /// Of the pipeline, chunk by chunk and stage by stage.
  int64_t positions() const;

  mlir::func::FuncOp function;
  const layout::Plan &plan;
  const layout::Mesh &mesh;

private:
  llvm::DenseMap<mlir::Operation *, bool> ofInputs;
};

/// Whether a carried value starts at zero and sums what iterations add: each
/// stage can then sum its own.
bool isSumOverLayers(clv::RepeatOp repeat, unsigned carried,
                     const Classifier &classifier);

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_CLASSIFY_H
