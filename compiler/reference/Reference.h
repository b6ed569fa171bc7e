//===- Reference.h - The meaning of a global program ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plain evaluator in double precision, operation by operation, that plans are
// checked against. It shares no code with partitioning, code generation or the
// executor, and reads neither rules nor gradients nor scopes. What an operation
// means is said here a second time, independently.
//
// Numbers are doubles whatever the element type: i32 and i1 are exact, f32 is
// computed without rounding to f32 (constants are f32 already). What is cast to
// bf16 is rounded to it, to the nearest, ties to even; so is what attention
// multiplies where its operands are bf16. Division of integers rounds toward
// zero, as does a cast from float to integer.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_REFERENCE_REFERENCE_H
#define CLEAVE_COMPILER_REFERENCE_REFERENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace cleave::reference {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values; ///< row major

  static Tensor scalar(double value) { return {{}, {value}}; }
};

/// Runs a function of the `clv` dialect on global types. An error names the
/// argument that does not fit or the operation that is not known.
/// `nudge`: what is rounded to bf16 is first moved by up to that part of
/// itself, at random. Two results tell how much it matters which of two
/// neighbours a number becomes that lies near their middle.
llvm::Expected<std::vector<Tensor>> evaluate(mlir::func::FuncOp function,
                                             llvm::ArrayRef<Tensor> arguments,
                                             double nudge = 0);

} // namespace cleave::reference

#endif // CLEAVE_COMPILER_REFERENCE_REFERENCE_H
