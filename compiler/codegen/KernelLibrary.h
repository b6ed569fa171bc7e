//===- KernelLibrary.h - All kernels of a plan set --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are functions of explicit loops (scf, arith, math, vector, and loads
// and stores of the llvm dialect). Equal ones are kept once, whatever plan or
// layer they come from. `finish` makes an object of each, those that the cache
// lacks, and links them to a shared object, in process.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_KERNELLIBRARY_H
#define CLEAVE_COMPILER_CODEGEN_KERNELLIBRARY_H

#include "compiler/codegen/KernelCache.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::codegen {

struct TargetOptions {
  /// False: x86-64-v3 (AVX2 and FMA), for plan files that travel.
  bool native = true;
  /// Where compiled kernels are kept across builds; empty: nowhere.
  std::string cache = {};
};

class KernelLibrary {
public:
  KernelLibrary(mlir::MLIRContext &context, TargetOptions options = {});

  /// A new function with the kernels' signature and an empty entry block.
  mlir::OwningOpRef<mlir::func::FuncOp> create();
  /// Takes the function and returns its symbol; an equal one is reused. `hint`
  /// becomes part of a new symbol's name.
  unsigned add(mlir::OwningOpRef<mlir::func::FuncOp> function,
               llvm::StringRef hint);

  /// The symbol of a kernel that the runtime has.
  unsigned addOfRuntime(llvm::StringRef name);

  /// The names of the symbols, by number.
  const std::vector<std::string> &symbols() const { return names; }
  /// The kernels as they were added: loops over vectors.
  mlir::ModuleOp getModule() { return *module; }
  /// What the processor must have, as in /proc/cpuinfo.
  std::vector<std::string> targetFeatures() const;

  /// The kernels as one shared object: the same bytes with a cache and without.
  /// At most once; getModule() then has what had to be compiled, in the LLVM
  /// dialect. Empty if there are no symbols.
  llvm::Expected<std::vector<uint8_t>> finish();
  /// How many kernels `finish` found in the cache.
  size_t found() const { return inCache; }
  /// Whether it could keep those that it compiled.
  bool keepsKernels() const { return !unkept; }

private:
  using Objects = llvm::StringMap<std::vector<char>>; ///< by symbol

  std::string keyOf(mlir::func::FuncOp function) const;
  void findObjects(Objects &objects, llvm::StringMap<std::string> &keys);
  llvm::Error compileOthers(Objects &objects,
                            const llvm::StringMap<std::string> &keys);

  mlir::MLIRContext &context;
  TargetOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> names;
  llvm::StringMap<unsigned> known; ///< by text
  KernelCache cache;
  std::string identity; ///< of the compiler and the target
  size_t inCache = 0;
  bool unkept = false;
};

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_KERNELLIBRARY_H
