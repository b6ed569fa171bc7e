//===- Native.h - From loops to a shared object -----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_NATIVE_H
#define CLEAVE_COMPILER_CODEGEN_NATIVE_H

#include "compiler/codegen/KernelLibrary.h"

namespace cleave::codegen {

/// Loops, vectors and functions of numbers to the LLVM dialect.
llvm::Error lowerToLLVM(mlir::ModuleOp module);

/// A module of the LLVM dialect to a relocatable object. There are no passes
/// over LLVM IR: the loops are vectors already, and they gained nothing.
llvm::Expected<std::vector<char>> compileToObject(mlir::ModuleOp module,
                                                  const TargetOptions &options);

/// Links objects to a shared object, in this process.
llvm::Expected<std::vector<uint8_t>>
linkShared(llvm::ArrayRef<std::vector<char>> objects);

/// The flags of /proc/cpuinfo that the code needs.
std::vector<std::string> requiredFeatures(const TargetOptions &options);

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_NATIVE_H
