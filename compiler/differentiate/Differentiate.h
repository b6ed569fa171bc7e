//===- Differentiate.h - From a loss to a training step ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the front end gives, and what the passes of this folder make of it.
//
// In: `func.func @loss(inputs, params, seed, step) -> (loss, outputs...)`.
// Arguments carry `clv.role` = "input" | "param" | "seed" | "step" and, for the
// first two, `clv.path`. A parameter of a repeat is one argument with the
// repeat's dim first, and a stacked operand of the repeat. Parameters are read
// through `clv.weight` only. For each parameter there is
//
//   func.func private @update.<k>(param, gradient, states..., step)
//       -> (new param, new states...)
//
// with `clv.param` = the parameter's path and `clv.state` on each state. The
// module's `clv.clip` (f64), if there, is the limit of the gradients' global
// norm.
//
// Out: `func.func @train(inputs, params, optimizer leaves, seed, step)
//   -> (loss, [gradient norm], params..., optimizer leaves...,
//   [gradients...])`.
// Arguments keep their attributes; an optimizer leaf has `clv.role` =
// "optimizer", its parameter's `clv.path`, and `clv.state`. Results have
// `clv.result` = "loss" | "gradient_norm" | "param" | "optimizer" | "gradient"
// and the same path and state. @loss stays, the update functions go.
//
// What the backward pass keeps. A value of a repeat's body that the backward
// body reads is either recomputed there or saved as a stacked result of the
// forward repeat. Recomputed are: constants, `index`, `random`, `weight` (a
// weight is always read again from its parameter), and, from their operands,
// `broadcast`, `rename`, `stop_gradient` and an `edge` into a region (so what
// is saved is the value outside: the sharded one under sequence parallelism);
// and elementwise operations whose operands all come from such values without
// reading an activation (masks, positions, dropout). Everything else is saved,
// once. Outside repeats the same set is recomputed, the rest simply read.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_DIFFERENTIATE_DIFFERENTIATE_H
#define CLEAVE_COMPILER_DIFFERENTIATE_DIFFERENTIATE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace cleave {

/// A parameter to differentiate by: a value of the block, and its path.
struct Parameter {
  mlir::Value value;
  llvm::StringRef path;
};

/// Appends to `block`, before its terminator, the gradients of the scalar
/// `loss` by `parameters`, one `clv.gradient` (or a stack of them) each, with
/// the parameter's type. Zero where the loss does not depend on it. Repeats of
/// the block are replaced by ones that save more.
mlir::LogicalResult buildGradients(mlir::Block &block, mlir::Value loss,
                                   llvm::ArrayRef<Parameter> parameters,
                                   llvm::SmallVectorImpl<mlir::Value> &out);

struct StepOptions {
  bool probe = false; ///< also return every gradient, before clipping
};

/// Makes @train from @loss and the update functions; see above.
mlir::LogicalResult buildStep(mlir::ModuleOp module,
                              const StepOptions &options = {});

/// Replaces attention that is spelled out by operations that keep no scores:
///
///   dot(softmax(where(index(seq) >= index(keys), score, -1e30), over: keys),
///       values, over: keys)       with score = dot(query, key) * constant
///
/// with or without the mask and the factor, where nothing else reads the
/// scores. Before differentiation: gradients are then attention's own.
void blockAttention(mlir::Operation *root);

/// Of a module whose contractions multiply values of that type (a TypeAttr);
/// without it they multiply what there is, f32.
inline constexpr llvm::StringLiteral kCompute = "clv.compute";

/// Casts what contractions and attention multiply to `type`, narrower than
/// f32; their sums stay f32. Each value is cast once. Before differentiation:
/// gradients then cast what they multiply themselves (Micikevicius et al.,
/// arXiv 1710.03740).
void narrowContractions(mlir::Operation *root, mlir::Type type);

/// Casts to a narrower type before a value becomes a weight, enters a region or
/// is renamed, rather than after it, where nobody wants it wide: what is moved
/// there has fewer bytes. The values are the same.
void castEarly(mlir::Operation *root);

/// Replaces softmax and logsumexp by reductions and elementwise operations.
void decompose(mlir::Operation *root);

/// Folds identities and constants, merges equal operations of one scope, and
/// removes what nothing uses, loops' operands and results included.
void simplify(mlir::Operation *root);

std::unique_ptr<mlir::Pass> createBuildStepPass(StepOptions options = {});
std::unique_ptr<mlir::Pass> createBlockAttentionPass();
std::unique_ptr<mlir::Pass> createDecomposePass();
std::unique_ptr<mlir::Pass> createSimplifyPass();
std::unique_ptr<mlir::Pass> createNarrowPass(); ///< to bf16
std::unique_ptr<mlir::Pass> createCastEarlyPass();

/// Registers `clv-build-step`, `clv-block-attention`, `clv-decompose`,
/// `clv-simplify`, `clv-narrow`, `clv-cast-early` and `clv-recompute`.
void registerDifferentiatePasses();

} // namespace cleave

#endif // CLEAVE_COMPILER_DIFFERENTIATE_DIFFERENTIATE_H
