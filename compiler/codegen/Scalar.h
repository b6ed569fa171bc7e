//===- Scalar.h - Functions of scalars, on vectors --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_SCALAR_H
#define CLEAVE_COMPILER_CODEGEN_SCALAR_H

#include "dialects/clv/Clv.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cleave::codegen {

/// A constant of a scalar or vector type.
mlir::Value constantLike(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                         double value);
/// `element` in the shape of `like` (a scalar or vector type).
mlir::Type shapedLike(mlir::Type like, mlir::Type element);

/// The function of operands of equal shape, scalars or vectors. `element` is
/// the result's element type (it matters to casts). Null if there is no such
/// function of the operands' type.
mlir::Value applyElementwise(mlir::ImplicitLocOpBuilder &builder,
                             clv::Elementwise function,
                             mlir::ValueRange operands, mlir::Type element);

/// `x` rounded to bf16, to the nearest, ties to even; still of its own type.
mlir::Value roundToBF16(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);

/// Combines two partial results of a reduction.
mlir::Value combine(mlir::ImplicitLocOpBuilder &builder, clv::Reduction kind,
                    mlir::Value a, mlir::Value b);
/// What changes nothing when combined.
mlir::Value neutral(mlir::ImplicitLocOpBuilder &builder, clv::Reduction kind,
                    mlir::Type type);

/// Rough cost of one element, a load being 1.
int costOf(mlir::Operation *op);

/// Uniform numbers in [0, 1) as numerics/Random.h defines them, for 64-bit
/// counters `low`, `high` (i32, scalar or vector) and scalars of i32.
mlir::Value emitRandom(mlir::ImplicitLocOpBuilder &builder, mlir::Value low,
                       mlir::Value high, mlir::Value seed, mlir::Value step,
                       mlir::Value iteration, llvm::StringRef site);

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_SCALAR_H
