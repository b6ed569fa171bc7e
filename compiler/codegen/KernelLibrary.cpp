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
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

KernelLibrary::KernelLibrary(MLIRContext &context, TargetOptions options)
    : context(context), options(options),
      module(ModuleOp::create(UnknownLoc::get(&context))), cache(options.cache),
      identity(compilerIdentity()) {
  if (identity.empty()) {
    cache = KernelCache(""); // whatever it holds may be of another compiler
  }
  identity += "\n" + llvm::join(targetFeatures(), " ") + "\n";
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
    // Not numbered: neither the name nor the object depends on other kernels.
    names.push_back(hint.str() + "_" + digest(entry->first()).substr(0, 16));
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

std::string KernelLibrary::keyOf(func::FuncOp function) const {
  std::string text = identity;
  llvm::raw_string_ostream stream(text);
  function->print(stream, OpPrintingFlags().useLocalScope());
  return digest(stream.str());
}

/// Takes the objects that are in the cache; the others' functions stay in the
/// module.
void KernelLibrary::findObjects(Objects &objects,
                                llvm::StringMap<std::string> &keys) {
  if (!cache) {
    return;
  }
  for (auto function :
       llvm::make_early_inc_range(module->getOps<func::FuncOp>())) {
    std::string key = keyOf(function);
    if (std::optional<std::vector<char>> found = cache.find(key)) {
      objects[function.getName()] = std::move(*found);
      function.erase();
      ++inCache;
    } else {
      keys[function.getName()] = std::move(key);
    }
  }
}

/// A module of one function and of what it calls, which others may call too.
static OwningOpRef<ModuleOp> moduleOf(LLVM::LLVMFuncOp function) {
  ModuleOp module = function->getParentOfType<ModuleOp>();
  OwningOpRef<ModuleOp> alone =
      ModuleOp::create(UnknownLoc::get(function.getContext()));
  llvm::SetVector<Operation *> wanted;
  wanted.insert(function);
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i]->walk([&](LLVM::CallOp call) {
      if (std::optional<StringRef> callee = call.getCallee()) {
        if (Operation *symbol = module.lookupSymbol(*callee)) {
          wanted.insert(symbol);
        }
      }
    });
  }
  for (Operation *symbol : wanted) {
    alone->push_back(symbol->clone());
  }
  return alone;
}

/// Compiles the functions of the module, each to an object of its own.
llvm::Error
KernelLibrary::compileOthers(Objects &objects,
                             const llvm::StringMap<std::string> &keys) {
  if (llvm::Error error = lowerToLLVM(*module)) {
    return error;
  }
  for (auto function : module->getOps<LLVM::LLVMFuncOp>()) {
    if (function.isDeclaration()) {
      continue;
    }
    std::string name = function.getName().str();
    llvm::Expected<std::vector<char>> object =
        compileToObject(*moduleOf(function), options);
    if (!object) {
      return object.takeError();
    }
    if (cache && !cache.store(keys.lookup(name), *object)) {
      unkept = true;
    }
    objects[name] = std::move(*object);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<uint8_t>> KernelLibrary::finish() {
  if (names.empty()) {
    return std::vector<uint8_t>();
  }
  Objects objects;
  llvm::StringMap<std::string> keys;
  findObjects(objects, keys);
  if (!module->getBody()->empty()) {
    if (llvm::Error error = compileOthers(objects, keys)) {
      return std::move(error);
    }
    if (cache) {
      cache.trim();
    }
  }
  std::vector<std::vector<char>> ordered;
  for (const std::string &name : names) {
    if (auto object = objects.find(name); object != objects.end()) {
      ordered.push_back(std::move(object->second));
    }
  }
  if (ordered.empty()) { // all of them are the runtime's
    llvm::Expected<std::vector<char>> none = compileToObject(*module, options);
    if (!none) {
      return none.takeError();
    }
    ordered.push_back(std::move(*none));
  }
  return linkShared(ordered);
}
