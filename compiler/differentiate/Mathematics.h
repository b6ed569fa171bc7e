//===- Mathematics.h - What a training step computes ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two runs go on from one state as one where a step means the same in both. To
// see that it does, a plan file and its snapshots hold two hashes: of the loss,
// which with its gradients is the model, and of the updates with clipping,
// which are the optimizer. Both are of the global program before any plan is
// looked at, as text in one form: without what nothing uses, and equal
// operations once.
//
// Changes the hash: every operation and number, rates and their schedules among
// them; the type that contractions multiply; sizes, that of the batch too;
// names of parameters, inputs and dims, which bind the program to the state and
// the data.
//
// Does not: names of files, plans, regions and values, where lines stand,
// regions as such, comments; first values; entries other than training; in
// which order sums are made (`reproducible`); plans, rules and ramps of a run.
// A batch that varies is hashed by its bound.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_DIFFERENTIATE_MATHEMATICS_H
#define CLEAVE_COMPILER_DIFFERENTIATE_MATHEMATICS_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

struct Mathematics {
  uint64_t loss = 0, update = 0;    ///< hashes, never 0
  std::string lossText, updateText; ///< what they are of
};

/// Of a module with @loss and the update functions, before `buildStep`.
Mathematics mathematicsOf(mlir::ModuleOp module);

/// A state of the optimizer that is a mean of the gradients so far: in a step
/// it becomes `keep * state + (1 - keep) * gradient`.
struct GradientMean {
  std::string state; ///< its name
  double keep = 0;
};

/// The first that every parameter has, by the same number; nothing where the
/// optimizer keeps none.
std::optional<GradientMean> gradientMeanOf(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_COMPILER_DIFFERENTIATE_MATHEMATICS_H
