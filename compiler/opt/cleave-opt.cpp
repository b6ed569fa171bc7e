//===- cleave-opt.cpp - The compiler's passes on IR -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"
#include "compiler/emit/Emit.h"
#include "compiler/partition/Partition.h"
#include "dialects/clv/Clv.h"
#include "dialects/exec/Exec.h"
#include "dialects/pipe/Pipe.h"
#include "dialects/spmd/Spmd.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<cleave::clv::ClvDialect, cleave::spmd::SpmdDialect,
                  cleave::exec::ExecDialect, cleave::pipe::PipeDialect,
                  mlir::func::FuncDialect>();
  cleave::registerDifferentiatePasses();
  cleave::registerPartitionPasses();
  cleave::emit::registerEmitPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "the passes of the Cleave compiler\n", registry));
}
