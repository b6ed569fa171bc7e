//===- Passes.cpp - The passes of this folder -----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Recompute.h"

#include "dialects/clv/Clv.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace cleave;

namespace {

struct BuildStepPass : PassWrapper<BuildStepPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BuildStepPass)

  BuildStepPass() = default;
  explicit BuildStepPass(StepOptions options) { probe = options.probe; }
  BuildStepPass(const BuildStepPass &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "clv-build-step"; }
  StringRef getDescription() const final {
    return "make @train from @loss and the update functions";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<clv::ClvDialect, func::FuncDialect>();
  }
  void runOnOperation() final {
    StepOptions options;
    options.probe = probe;
    if (failed(buildStep(getOperation(), options))) {
      signalPassFailure();
    }
  }

  Option<bool> probe{*this, "probe",
                     llvm::cl::desc("also return every gradient"),
                     llvm::cl::init(false)};
};

struct BlockAttentionPass
    : PassWrapper<BlockAttentionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BlockAttentionPass)

  StringRef getArgument() const final { return "clv-block-attention"; }
  StringRef getDescription() const final {
    return "replace attention by operations that keep no scores";
  }
  void runOnOperation() final { blockAttention(getOperation()); }
};

struct DecomposePass : PassWrapper<DecomposePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DecomposePass)

  StringRef getArgument() const final { return "clv-decompose"; }
  StringRef getDescription() const final {
    return "replace softmax and logsumexp by their parts";
  }
  void runOnOperation() final { decompose(getOperation()); }
};

struct SimplifyPass : PassWrapper<SimplifyPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SimplifyPass)

  StringRef getArgument() const final { return "clv-simplify"; }
  StringRef getDescription() const final {
    return "fold, merge and remove operations within their regions";
  }
  void runOnOperation() final { simplify(getOperation()); }
};

struct NarrowPass : PassWrapper<NarrowPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NarrowPass)

  StringRef getArgument() const final { return "clv-narrow"; }
  StringRef getDescription() const final {
    return "let contractions multiply bf16";
  }
  void runOnOperation() final {
    narrowContractions(getOperation(), BFloat16Type::get(&getContext()));
  }
};

struct CastEarlyPass : PassWrapper<CastEarlyPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CastEarlyPass)

  StringRef getArgument() const final { return "clv-cast-early"; }
  StringRef getDescription() const final {
    return "cast before weights and edges rather than after them";
  }
  void runOnOperation() final { castEarly(getOperation()); }
};

} // namespace

std::unique_ptr<Pass> cleave::createBuildStepPass(StepOptions options) {
  return std::make_unique<BuildStepPass>(options);
}
std::unique_ptr<Pass> cleave::createBlockAttentionPass() {
  return std::make_unique<BlockAttentionPass>();
}
std::unique_ptr<Pass> cleave::createDecomposePass() {
  return std::make_unique<DecomposePass>();
}
std::unique_ptr<Pass> cleave::createSimplifyPass() {
  return std::make_unique<SimplifyPass>();
}

std::unique_ptr<Pass> cleave::createNarrowPass() {
  return std::make_unique<NarrowPass>();
}
std::unique_ptr<Pass> cleave::createCastEarlyPass() {
  return std::make_unique<CastEarlyPass>();
}

void cleave::registerDifferentiatePasses() {
  PassRegistration<BuildStepPass>();
  PassRegistration<BlockAttentionPass>();
  PassRegistration<DecomposePass>();
  PassRegistration<SimplifyPass>();
  PassRegistration<NarrowPass>();
  PassRegistration<CastEarlyPass>();
  registerRecomputePass();
}
