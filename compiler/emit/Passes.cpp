//===- Passes.cpp - Emission as passes, for cleave-opt --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A build emits several plans with what the front end knows of the model. These
// passes make do with one module: arguments without a `clv.role` are taken as
// parameters. (Choosing the order of dims in memory is no pass: what it leaves
// does not verify.)
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"
#include "compiler/emit/Prepare.h"
#include "compiler/exec/Exec.h"
#include "dialects/spmd/Spmd.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace cleave;

//===----------------------------------------------------------------------===//
// The state and inputs of a module, from its arguments
//===----------------------------------------------------------------------===//

namespace {

struct Tables {
  std::vector<format::LeafT> leaves;
  std::vector<format::InputT> inputs;
};

} // namespace

static std::string textOf(func::FuncOp function, unsigned i, StringRef name) {
  auto attr = function.getArgAttrOfType<StringAttr>(i, name);
  return attr ? attr.getValue().str() : std::string();
}

static format::LeafT leafOf(func::FuncOp function, unsigned i) {
  format::LeafT leaf;
  leaf.path = textOf(function, i, "clv.path");
  leaf.state = textOf(function, i, "clv.state");
  auto type = cast<RankedTensorType>(function.getArgument(i).getType());
  leaf.type = type.getElementType().isF32()         ? format::ElementType::F32
              : type.getElementType().isInteger(32) ? format::ElementType::I32
                                                    : format::ElementType::Bool;
  for (StringRef dim : clv::dimsOf(type)) {
    leaf.dims.push_back(dim.str());
  }
  SmallVector<int64_t> sizes = spmd::globalSizes(type);
  leaf.sizes.assign(sizes.begin(), sizes.end());
  leaf.init = std::make_unique<format::InitT>();
  return leaf;
}

static void describe(func::FuncOp function, Tables &tables) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string role = textOf(function, i, "clv.role");
    if (role.empty()) {
      role = "param";
      auto text = [&](const std::string &value) {
        return StringAttr::get(function.getContext(), value);
      };
      function.setArgAttr(i, "clv.role", text(role));
      function.setArgAttr(
          i, "clv.path",
          text(function.getName().str() + "/argument" + std::to_string(i)));
    }
    if (role == "input") {
      tables.inputs.emplace_back();
      tables.inputs.back().name = textOf(function, i, "clv.path");
    } else if (role == "param" || role == "optimizer") {
      format::LeafT leaf = leafOf(function, i);
      bool known = llvm::any_of(tables.leaves, [&](const format::LeafT &other) {
        return other.path == leaf.path && other.state == leaf.state;
      });
      if (!known) {
        tables.leaves.push_back(std::move(leaf));
      }
    }
  }
}

/// Emits the module as a plan called `plan`.
static llvm::Expected<std::unique_ptr<format::PlanT>>
emitAlone(ModuleOp module, Tables &tables, codegen::KernelLibrary &library) {
  for (auto function : module.getOps<func::FuncOp>()) {
    describe(function, tables);
  }
  return emit::emitPlan(module, "plan", {tables.leaves, tables.inputs},
                        library);
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {

struct PreparePass : PassWrapper<PreparePass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PreparePass)

  StringRef getArgument() const final { return "spmd-prepare"; }
  StringRef getDescription() const final {
    return "remove what has no instruction";
  }
  void runOnOperation() final {
    if (llvm::Error error = emit::prepare(getOperation())) {
      getOperation().emitError(llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }
};

/// What both passes that emit share.
template <typename Derived>
struct EmitPass : PassWrapper<Derived, OperationPass<ModuleOp>> {
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<exec::ExecDialect, arith::ArithDialect, func::FuncDialect,
                    LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  }
  void runOnOperation() final {
    ModuleOp module = this->getOperation();
    if (llvm::Error error = static_cast<Derived *>(this)->emit(module)) {
      module.emitError(llvm::toString(std::move(error)));
      this->signalPassFailure();
    }
  }
  /// Puts what another module holds in the place of what this one holds.
  static void replace(ModuleOp module, ModuleOp by) {
    module.getBody()->clear();
    module->removeDiscardableAttr(spmd::SpmdDialect::kMesh);
    module.getBody()->getOperations().splice(module.getBody()->begin(),
                                             by.getBody()->getOperations());
  }
};

struct ToExecPass : EmitPass<ToExecPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ToExecPass)

  StringRef getArgument() const final { return "spmd-to-exec"; }
  StringRef getDescription() const final {
    return "plan buffers and write instructions: each function a program";
  }
  llvm::Error emit(ModuleOp module) {
    Tables tables;
    codegen::KernelLibrary library(getContext());
    auto plan = emitAlone(module, tables, library);
    if (!plan) {
      return plan.takeError();
    }
    format::PlanSetT set;
    set.model = module.getName().value_or("module").str();
    set.symbols = library.symbols();
    for (const format::LeafT &leaf : tables.leaves) {
      set.leaves.push_back(std::make_unique<format::LeafT>(leaf));
    }
    set.plans.push_back(std::move(*plan));
    auto made = toExec(getContext(), set);
    if (!made) {
      return made.takeError();
    }
    replace(module, **made);
    return llvm::Error::success();
  }
};

struct KernelsPass : EmitPass<KernelsPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelsPass)

  StringRef getArgument() const final { return "spmd-kernels"; }
  StringRef getDescription() const final {
    return "replace functions by the kernels that they call, as loops";
  }
  llvm::Error emit(ModuleOp module) {
    Tables tables;
    codegen::KernelLibrary library(getContext());
    auto plan = emitAlone(module, tables, library);
    if (!plan) {
      return plan.takeError();
    }
    replace(module, library.getModule());
    return llvm::Error::success();
  }
};

} // namespace

void emit::registerEmitPasses() {
  PassRegistration<PreparePass>();
  PassRegistration<ToExecPass>();
  PassRegistration<KernelsPass>();
}
