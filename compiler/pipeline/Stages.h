//===- Stages.h - Which stages do what is done once a step ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Before and after the microbatches a stage does only what concerns what it
// holds. An operation before them is done where it is read. After them, what
// updates a parameter is done where the parameter lives; other tensors are
// made where their readers are; a scalar, and a sum of a reproducible program,
// where all its operands are. Where an operand is missing, those that have it
// share it: so of clipping only one number crosses the stages.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_STAGES_H
#define CLEAVE_COMPILER_PIPELINE_STAGES_H

#include "compiler/pipeline/Classify.h"
#include "llvm/ADT/SmallBitVector.h"

namespace cleave::pipelining {

/// Some of the stages: a bit for each. One without bits is none.
using Stages = llvm::SmallBitVector;

/// Where each argument of a function has to live for what the function does
/// with it, but for the parts that `updates` gives it.
class StagePlacer {
public:
  /// `after` is what stands after `micro`.
  StagePlacer(Classifier &classifier, pipe::MicroOp micro);

  /// The stages on which each leaf is read, by the leaf's path.
  void collectResidence(llvm::StringMap<Stages> &residence);
  /// Wraps what only some stages do, and shares what others need.
  void place(const llvm::StringMap<Stages> &residence);

private:
  Classifier &classifier;
  pipe::MicroOp micro;
  std::vector<layout::AtomId> atoms; ///< of the stages
  unsigned stages = 1;
  llvm::DenseMap<mlir::Value, Stages> available;
  llvm::DenseMap<mlir::Value, mlir::Value> shared;
  llvm::DenseMap<mlir::Operation *, Stages> places;

  Stages none() const { return Stages(stages); }
  Stages all() const { return Stages(stages, true); }
  /// Where `value` is known to be; all stages where nothing is known.
  Stages whereIs(mlir::Value value) const;
  Stages placeOf(mlir::Operation *op) const;
  Stages normal(Stages stages) const;
  llvm::SmallVector<int64_t> residenceOf(const Stages &stages) const;
  Stages stagesOf(pipe::SectionOp section) const;
  Stages residenceOf(mlir::BlockArgument argument,
                     const llvm::StringMap<Stages> &residence) const;
  bool crossesStages(mlir::Operation *op) const;
  bool isInParts(mlir::Value value) const;
  bool isAfter(mlir::Operation *op) const;
  Stages readAt(mlir::Value value, bool scalarsToo) const;
  std::optional<Stages> placedAt(unsigned argument) const;
  void fetchPlaced();
  void placeBefore();
  void placeAfter(const llvm::StringMap<Stages> &residence);
  void bring(mlir::Operation *op, const Stages &stages);
  void wrap();
  void noteResults(const llvm::StringMap<Stages> &residence);
  llvm::StringRef leafPath(unsigned argument) const;
};

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_STAGES_H
