//===- Writer.cpp - Writes the loops of one kernel ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Writer.h"

#include "compiler/codegen/Scalar.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

Writer::Writer(KernelLibrary &library, MLIRContext *context)
    : b(UnknownLoc::get(context), context), library(library),
      function(library.create()) {
  b.setInsertionPointToStart(&function->getBody().front());
  prologue = b.create<func::ReturnOp>();
  b.setInsertionPoint(prologue);
}

static Value loadAt(ImplicitLocOpBuilder &b, Value base, Type type, int64_t i) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value at = b.create<LLVM::GEPOp>(
      pointer, type, base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
  return b.create<LLVM::LoadOp>(type, at);
}

Memory Writer::addMemory(Value value, Type element, Extents dims) {
  Memory memory;
  memory.value = value;
  memory.element = element;
  memory.dims = std::move(dims);
  memory.base = loadAt(b, function->getArgument(0),
                       LLVM::LLVMPointerType::get(b.getContext()), views++);
  return memory;
}

Value Writer::integer(const KernelInteger &integer) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  stream << int(integer.kind);
  if (integer.kind == KernelInteger::Iteration) {
    stream << integer.iteration.getAsOpaquePointer();
  } else {
    stream << integer.extent.name.getValue() << "=" << integer.extent.size
           << "@" << integer.extent.split.getAsOpaquePointer();
  }
  Value &value = known[key];
  if (!value) {
    // At the start of the function, so that every loop may use it.
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function->getBody().front());
    value = loadAt(b, function->getArgument(1), b.getI64Type(),
                   kernel.integers.size());
    kernel.integers.push_back(integer);
  }
  return value;
}

Value Writer::sizeOf(const Extent &extent) {
  return integer({KernelInteger::Size, extent, {}});
}

Value Writer::beginOf(const Extent &extent) {
  return integer({KernelInteger::Begin, extent, {}});
}

Value Writer::countOf(ArrayRef<Extent> dims) {
  Value count = i64(1);
  for (const Extent &dim : dims) {
    count = mul(count, sizeOf(dim));
  }
  return count;
}

void Writer::setStrides(Memory &memory, ArrayRef<Extents> rows,
                        ArrayRef<Extent> columns) {
  auto strideOf = [&](const Extent &dim) -> Value {
    auto *at = llvm::find(memory.dims, dim);
    if (at == memory.dims.end()) {
      return {};
    }
    return countOf(ArrayRef<Extent>(at + 1, memory.dims.end()));
  };
  for (const Extents &row : rows) {
    memory.rowStrides.push_back(strideOf(row.back()));
  }
  if (!columns.empty()) {
    memory.columnStride = strideOf(columns.back());
    memory.contiguous =
        memory.columnStride && memory.dims.back() == columns.back();
  }
}

void Writer::moveTo(Memory &memory, ValueRange indices, Value further) {
  Value offset = further ? further : i64(0);
  for (auto [index, stride] : llvm::zip(indices, memory.rowStrides)) {
    if (stride) {
      offset = add(offset, mul(index, stride));
    }
  }
  memory.row = address(memory.base, memory.element, offset);
}

Value Writer::i64(int64_t value) {
  return b.create<arith::ConstantIntOp>(value, 64);
}
Value Writer::add(Value a, Value c) { return b.create<arith::AddIOp>(a, c); }
Value Writer::mul(Value a, Value c) { return b.create<arith::MulIOp>(a, c); }

Value Writer::splat(Value scalar) {
  return b.create<vector::BroadcastOp>(
      VectorType::get({lanes}, scalar.getType()), scalar);
}

Value Writer::address(Value base, Type element, Value index) {
  return b.create<LLVM::GEPOp>(LLVM::LLVMPointerType::get(b.getContext()),
                               storedType(element), base, ValueRange{index});
}

void Writer::rows(ArrayRef<Value> counts, function_ref<void(ValueRange)> body) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> indices;
  Value zero = i64(0), one = i64(1);
  for (Value count : counts) {
    auto loop = b.create<scf::ForOp>(zero, count, one);
    indices.push_back(loop.getInductionVar());
    b.setInsertionPointToStart(loop.getBody());
  }
  body(indices);
}

Value codegen::laneNumbers(ImplicitLocOpBuilder &b, Type element) {
  auto type = VectorType::get({lanes}, element);
  SmallVector<Attribute> numbers;
  for (int64_t i = 0; i < lanes; ++i) {
    numbers.push_back(b.getIntegerAttr(element, i));
  }
  return b.create<arith::ConstantOp>(type,
                                     DenseElementsAttr::get(type, numbers));
}

SmallVector<Value> Writer::vectors(Value count, ValueRange initial,
                                   VectorBody body) {
  Value whole = b.create<arith::AndIOp>(count, i64(-lanes));
  auto loop = b.create<scf::ForOp>(i64(0), whole, i64(lanes), initial);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    if (initial.empty() && !loop.getBody()->empty()) {
      b.setInsertionPoint(loop.getBody()->getTerminator());
    }
    SmallVector<Value> next =
        body(loop.getInductionVar(), {}, loop.getRegionIterArgs());
    if (!initial.empty()) {
      b.create<scf::YieldOp>(next);
    }
  }
  Value rest = b.create<arith::SubIOp>(count, whole);
  Value hasTail =
      b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, rest, i64(0));
  SmallVector<Type> types(initial.getTypes());
  auto tail = b.create<scf::IfOp>(types, hasTail,
                                  /*withElseRegion=*/!initial.empty());
  OpBuilder::InsertionGuard guard(b);
  Block *block = tail.thenBlock();
  if (block->empty()) {
    b.setInsertionPointToEnd(block);
  } else {
    b.setInsertionPoint(block->getTerminator());
  }
  Value rest32 = b.create<arith::TruncIOp>(b.getI32Type(), rest);
  Value mask = b.create<arith::CmpIOp>(
      arith::CmpIPredicate::slt, laneNumbers(b, b.getI32Type()), splat(rest32));
  SmallVector<Value> next = body(whole, mask, loop.getResults());
  if (!initial.empty()) {
    b.create<scf::YieldOp>(next);
    b.setInsertionPointToEnd(tail.elseBlock());
    b.create<scf::YieldOp>(loop.getResults());
  }
  return SmallVector<Value>(tail.getResults());
}

void Writer::fill(Memory &memory, Value scalar) {
  Memory flat = memory;
  flat.row = memory.base;
  flat.columnStride = i64(1);
  flat.contiguous = true;
  Value value = splat(scalar);
  vectors(countOf(memory.dims), {}, [&](Value index, Value mask, ValueRange) {
    storeVector(flat, index, mask, value);
    return SmallVector<Value>();
  });
}

Type Writer::storedType(Type element) {
  return element.isInteger(1) ? b.getI8Type()
         : element.isBF16()   ? b.getI16Type()
                              : element;
}

static unsigned alignmentOf(Type element) {
  return element.isInteger(1) ? 1 : element.isBF16() ? 2 : 4;
}

Value Writer::fromStored(Value value, Type element) {
  if (element.isInteger(1)) {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, value,
                                   constantLike(b, value.getType(), 0));
  }
  if (!element.isBF16()) {
    return value;
  }
  Type bits = shapedLike(value.getType(), b.getI32Type());
  Value wide = b.create<arith::ShLIOp>(b.create<arith::ExtUIOp>(bits, value),
                                       constantLike(b, bits, 16));
  return b.create<arith::BitcastOp>(shapedLike(bits, b.getF32Type()), wide);
}

/// The other way. What is stored as bf16 has been rounded to it.
Value Writer::toStored(Value value, Type element) {
  Type stored = shapedLike(value.getType(), storedType(element));
  if (element.isInteger(1)) {
    return b.create<arith::ExtUIOp>(stored, value);
  }
  if (!element.isBF16()) {
    return value;
  }
  Type bits = shapedLike(stored, b.getI32Type());
  Value upper = b.create<arith::ShRUIOp>(
      b.create<arith::BitcastOp>(bits, value), constantLike(b, bits, 16));
  return b.create<arith::TruncIOp>(stored, upper);
}

Value Writer::addresses(Memory &memory, Value index) {
  Value positions =
      b.create<arith::AddIOp>(splat(index), laneNumbers(b, b.getI64Type()));
  positions = b.create<arith::MulIOp>(positions, splat(memory.columnStride));
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  return b.create<LLVM::GEPOp>(LLVM::getFixedVectorType(pointer, lanes),
                               storedType(memory.element), memory.row,
                               ValueRange{positions});
}

static Value allLanes(ImplicitLocOpBuilder &b) {
  return constantLike(b, VectorType::get({lanes}, b.getI1Type()), 1);
}

Value Writer::loadVector(Memory &memory, Value index, Value mask) {
  auto type = VectorType::get({lanes}, storedType(memory.element));
  unsigned alignment = alignmentOf(memory.element);
  Value loaded;
  if (!memory.contiguous) {
    loaded = b.create<LLVM::masked_gather>(
        type, addresses(memory, index), mask ? mask : allLanes(b),
        ValueRange{constantLike(b, type, 0)}, alignment);
  } else {
    Value at = address(memory.row, memory.element, index);
    loaded = mask ? Value(b.create<LLVM::MaskedLoadOp>(
                        type, at, mask, ValueRange{constantLike(b, type, 0)},
                        alignment))
                  : Value(b.create<LLVM::LoadOp>(type, at, alignment));
  }
  return fromStored(loaded, memory.element);
}

void Writer::storeVector(Memory &memory, Value index, Value mask, Value value) {
  unsigned alignment = alignmentOf(memory.element);
  value = toStored(value, memory.element);
  if (!memory.contiguous) {
    b.create<LLVM::masked_scatter>(value, addresses(memory, index),
                                   mask ? mask : allLanes(b), alignment);
    return;
  }
  Value at = address(memory.row, memory.element, index);
  if (mask) {
    b.create<LLVM::MaskedStoreOp>(value, at, mask, alignment);
  } else {
    b.create<LLVM::StoreOp>(value, at, alignment);
  }
}

Value Writer::loadScalar(Memory &memory) {
  Value loaded = b.create<LLVM::LoadOp>(storedType(memory.element), memory.row);
  return fromStored(loaded, memory.element);
}

void Writer::storeScalar(Memory &memory, Value value) {
  b.create<LLVM::StoreOp>(toStored(value, memory.element), memory.row);
}

Value Writer::reduceLanes(clv::Reduction kind, Value vector) {
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width; ++i) {
      low.push_back(i);
      high.push_back(i + width);
    }
    Value a = b.create<vector::ShuffleOp>(vector, vector, low);
    Value c = b.create<vector::ShuffleOp>(vector, vector, high);
    vector = combine(b, kind, a, c);
  }
  return b.create<vector::ExtractOp>(vector, 0);
}

Kernel Writer::finish(StringRef hint) {
  kernel.symbol = library.add(std::move(function), hint);
  return std::move(kernel);
}
