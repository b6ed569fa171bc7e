//===- Writer.h - Writes the loops of one kernel ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What all kernels share: operands with strides, loops over rows, and loops
// over vectors with a masked tail.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_WRITER_H
#define CLEAVE_COMPILER_CODEGEN_WRITER_H

#include "compiler/codegen/Kernel.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>

namespace cleave::codegen {

/// Lanes of a vector: one register of AVX-512, two of AVX2.
inline constexpr int64_t lanes = 16;

/// The vector 0, 1, 2, ….
mlir::Value laneNumbers(mlir::ImplicitLocOpBuilder &b, mlir::Type element);

/// A local tensor in memory, and where the loops stand in it.
struct Memory {
  mlir::Value value; ///< null for scratch
  mlir::Type element;
  Extents dims;
  mlir::Value base;
  llvm::SmallVector<mlir::Value> rowStrides; ///< per row loop; null = 0
  mlir::Value columnStride;                  ///< null where it has no columns
  bool contiguous = false;                   ///< columnStride is 1
  mlir::Value row;                           ///< the current row's address

  bool hasColumns() const { return static_cast<bool>(columnStride); }
};

class Writer {
public:
  Writer(KernelLibrary &library, mlir::MLIRContext *context);

  mlir::ImplicitLocOpBuilder b;
  Kernel kernel;

  /// Adds an operand; inputs first, then outputs, then scratch.
  Memory addMemory(mlir::Value value, mlir::Type element, Extents dims);
  mlir::Value integer(const KernelInteger &integer);
  mlir::Value sizeOf(const Extent &extent);
  mlir::Value beginOf(const Extent &extent);
  /// Product of sizes.
  mlir::Value countOf(llvm::ArrayRef<Extent> dims);
  /// Sets strides for loops over `rows` and `columns`.
  void setStrides(Memory &memory, llvm::ArrayRef<Extents> rows,
                  llvm::ArrayRef<Extent> columns);
  /// Moves a memory to the row at `indices`, and `further` elements on.
  void moveTo(Memory &memory, mlir::ValueRange indices,
              mlir::Value further = {});

  mlir::Value i64(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value mul(mlir::Value a, mlir::Value c);
  mlir::Value splat(mlir::Value scalar);
  mlir::Value address(mlir::Value base, mlir::Type element, mlir::Value index);

  /// Loops over `counts`, the first outermost; the body gets the indices.
  void rows(llvm::ArrayRef<mlir::Value> counts,
            llvm::function_ref<void(mlir::ValueRange)> body);
  /// A loop over vectors of [0, count). The body gets the first index, the mask
  /// (null where all lanes count) and the values so far, and returns the next.
  using VectorBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value index, mlir::Value mask, mlir::ValueRange values)>;
  llvm::SmallVector<mlir::Value>
  vectors(mlir::Value count, mlir::ValueRange initial, VectorBody body);
  /// Writes `scalar` to every element of a dense memory.
  void fill(Memory &memory, mlir::Value scalar);

  // Of the current row, at column `index`. In memory booleans are bytes, and
  // bf16 is the upper half of the f32 that it is in registers.
  mlir::Value loadVector(Memory &memory, mlir::Value index, mlir::Value mask);
  void storeVector(Memory &memory, mlir::Value index, mlir::Value mask,
                   mlir::Value value);
  mlir::Value loadScalar(Memory &memory);
  void storeScalar(Memory &memory, mlir::Value value);
  /// One scalar from a vector, by halves, in a fixed order.
  mlir::Value reduceLanes(clv::Reduction kind, mlir::Value vector);

  /// Hands the function to the library.
  Kernel finish(llvm::StringRef hint);

private:
  KernelLibrary &library;
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  mlir::Operation *prologue = nullptr; ///< integers are read before it
  unsigned views = 0;
  std::map<std::string, mlir::Value> known;

  mlir::Type storedType(mlir::Type element);
  mlir::Value addresses(Memory &memory, mlir::Value index);
  mlir::Value fromStored(mlir::Value value, mlir::Type element);
  mlir::Value toStored(mlir::Value value, mlir::Type element);
};

} // namespace cleave::codegen

#endif // CLEAVE_COMPILER_CODEGEN_WRITER_H
