//===- KernelLibrary.cpp - All kernels of a plan set ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/KernelLibrary.h"
#include "compiler/codegen/Native.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

KernelLibrary::KernelLibrary(MLIRContext &context, TargetOptions options)
    : context(context), options(options),
      module(ModuleOp::create(UnknownLoc::get(&context))) {
  context
      .loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                   math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
}

OwningOpRef<func::FuncOp> KernelLibrary::create() {
  auto pointer = LLVM::LLVMPointerType::get(&context);
  auto function =
      func::FuncOp::create(UnknownLoc::get(&context), "kernel",
                           FunctionType::get(&context, {pointer, pointer}, {}));
  function.addEntryBlock();
  return function;
}

unsigned KernelLibrary::add(OwningOpRef<func::FuncOp> function,
                            StringRef hint) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  function->print(stream, OpPrintingFlags().useLocalScope());
  auto [entry, added] = known.try_emplace(stream.str(), names.size());
  if (added) {
    names.push_back("k" + std::to_string(names.size()) + "_" + hint.str());
    function->setName(names.back());
    module->push_back(function.release());
  }
  return entry->second;
}

unsigned KernelLibrary::addOfRuntime(StringRef name) {
  auto found = llvm::find(names, name);
  if (found == names.end()) {
    found = names.insert(found, name.str());
  }
  return static_cast<unsigned>(found - names.begin());
}

std::vector<std::string> KernelLibrary::targetFeatures() const {
  return requiredFeatures(options);
}

llvm::Expected<std::vector<uint8_t>> KernelLibrary::finish() {
  if (names.empty()) {
    return std::vector<uint8_t>();
  }
  if (llvm::Error error = lowerToLLVM(*module)) {
    return std::move(error);
  }
  llvm::Expected<std::vector<char>> object = compileToObject(*module, options);
  if (!object) {
    return object.takeError();
  }
  return linkShared(*object);
}
