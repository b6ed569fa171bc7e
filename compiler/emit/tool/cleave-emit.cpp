//===- cleave-emit.cpp - A partitioned module as instructions -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For people who work on the compiler, and for its tests: reads a module of
// the clv and spmd dialects and prints the instructions it becomes, or its
// kernels. Arguments without a role are taken as inputs.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"
#include "dialects/spmd/Spmd.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<std::string> inputFile(llvm::cl::Positional,
                                            llvm::cl::desc("FILE"),
                                            llvm::cl::init("-"));
static llvm::cl::opt<bool>
    kernels("kernels", llvm::cl::desc("print the kernels, as loops"));

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

static void describe(func::FuncOp function, Tables &tables) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string role = textOf(function, i, "clv.role");
    std::string path = textOf(function, i, "clv.path");
    if (role.empty()) {
      role = "input";
      path = "argument" + std::to_string(i);
      function.setArgAttr(i, "clv.role",
                          StringAttr::get(function.getContext(), role));
      function.setArgAttr(i, "clv.path",
                          StringAttr::get(function.getContext(), path));
    }
    if (role == "input") {
      tables.inputs.emplace_back();
      tables.inputs.back().name = path;
    } else if (role == "param" || role == "optimizer") {
      format::LeafT leaf;
      leaf.path = path;
      leaf.state = textOf(function, i, "clv.state");
      SmallVector<int64_t> sizes =
          spmd::globalSizes(function.getArgument(i).getType());
      leaf.sizes.assign(sizes.begin(), sizes.end());
      tables.leaves.push_back(std::move(leaf));
    }
  }
}

static llvm::Error run() {
  MLIRContext context;
  context.loadDialect<clv::ClvDialect, spmd::SpmdDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(inputFile, &context);
  if (!module) {
    return llvm::createStringError("the module cannot be read");
  }
  Tables tables;
  for (auto function : module->getOps<func::FuncOp>()) {
    describe(function, tables);
  }
  codegen::KernelLibrary library(context);
  auto plan =
      emit::emitPlan(*module, "plan", {tables.leaves, tables.inputs}, library);
  if (!plan) {
    return plan.takeError();
  }
  if (kernels) {
    library.getModule().print(llvm::outs());
  } else {
    emit::print(**plan, library.symbols(), llvm::outs());
  }
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "prints the instructions of a partitioned module\n");
  if (llvm::Error error = run()) {
    llvm::WithColor::error(llvm::errs(), "cleave-emit")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
