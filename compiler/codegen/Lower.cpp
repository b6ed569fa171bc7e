//===- Lower.cpp - Loops over vectors to the LLVM dialect -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Native.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

llvm::Error codegen::lowerToLLVM(ModuleOp module) {
  PassManager cleanUp(module->getContext(), module->getName().getStringRef());
  cleanUp.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  cleanUp.addNestedPass<func::FuncOp>(createCSEPass());
  cleanUp.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  if (failed(cleanUp.run(module))) {
    return llvm::createStringError("kernels could not be simplified");
  }
  // Polynomials for f32; f64 has none and keeps its operations.
  RewritePatternSet patterns(module->getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  if (failed(applyPatternsAndFoldGreedily(module, std::move(patterns)))) {
    return llvm::createStringError("elementary functions were not expanded");
  }
  PassManager lower(module->getContext(), module->getName().getStringRef());
  lower.addNestedPass<func::FuncOp>(createCSEPass());
  lower.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  lower.addPass(createConvertSCFToCFPass());
  lower.addPass(createConvertVectorToLLVMPass());
  lower.addNestedPass<func::FuncOp>(createConvertMathToLLVMPass());
  lower.addPass(createConvertMathToLibmPass());
  lower.addPass(createArithToLLVMConversionPass());
  lower.addPass(createConvertControlFlowToLLVMPass());
  lower.addPass(createConvertFuncToLLVMPass());
  lower.addPass(createReconcileUnrealizedCastsPass());
  lower.addPass(createCanonicalizerPass());
  lower.addPass(createCSEPass());
  if (failed(lower.run(module))) {
    return llvm::createStringError("kernels could not be lowered to LLVM");
  }
  return llvm::Error::success();
}
