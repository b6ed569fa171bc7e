//===- Kernel.h - What calls a compiled function needs ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel is a C function `void k(void *const *views, const int64_t
// *integers)`. Views are dense local tensors, row major: first the inputs, then
// the outputs, then scratch. Integers are what differs from device to device
// and from iteration to iteration. Kernels write every element of their
// outputs, and do nothing where extents are zero.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_KERNEL_H
#define CLEAVE_COMPILER_CODEGEN_KERNEL_H

#include "compiler/codegen/Group.h"
#include "compiler/codegen/KernelLibrary.h"

namespace cleave::codegen {

struct KernelInteger {
  enum Kind : uint8_t { Size, Begin, Iteration, Literal } kind = Size;
  Extent extent;         ///< of Size and Begin
  mlir::Value iteration; ///< the index argument of a repeat
  int64_t literal = 0;
};

struct Kernel {
  unsigned symbol = 0; ///< in the library
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<int64_t> scratch; ///< bytes
  llvm::SmallVector<KernelInteger> integers;
  /// Pairs (input, output) that may be the same memory, if the kernel reads
  /// that memory by this input alone.
  llvm::SmallVector<std::pair<unsigned, unsigned>> inPlace;
};

/// The kernel of a group.
llvm::Expected<Kernel> buildRowKernel(const Analysis &analysis,
                                      KernelLibrary &library);
/// Kernels of operations that stand alone.
llvm::Expected<Kernel> buildLookup(clv::LookupOp op, KernelLibrary &library);
llvm::Expected<Kernel> buildScatterAdd(clv::ScatterAddOp op,
                                       KernelLibrary &library);
llvm::Expected<Kernel> buildCumsum(clv::CumsumOp op, KernelLibrary &library);

/// Makes one step, with several members, of operations of attention that go
/// over the same scores and can be computed together.
void joinAttention(llvm::SmallVectorImpl<Step> &steps);
/// The call of the runtime's kernel for operations of one such step, or of one
/// operation. Inner dims must be dense (emit/Order.h).
llvm::Expected<Kernel> buildAttention(llvm::ArrayRef<mlir::Operation *> ops,
                                      KernelLibrary &library);

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_KERNEL_H
