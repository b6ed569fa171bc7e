//===- Build.cpp - Builders that infer result types -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

using namespace mlir;
using namespace cleave::clv;

template <typename Op, typename... Args>
Value Build::create(Type type, Args &&...args) {
  auto op = builder.create<Op>(loc, type, std::forward<Args>(args)...);
  setScope(op, scope);
  return op->getResult(0);
}

Value Build::elementwise(Elementwise function, ValueRange operands) {
  Type element =
      cast<RankedTensorType>(operands.back().getType()).getElementType();
  if (function >= Elementwise::Less && function <= Elementwise::NotEqual) {
    element = builder.getI1Type();
  }
  OperationState state(loc, "clv." + stringifyElementwise(function).str());
  state.addOperands(operands);
  state.addTypes(elementwiseType(element, operands));
  Operation *op = builder.create(state);
  setScope(op, scope);
  return op->getResult(0);
}

Value Build::cast(Value x, Type element) {
  if (mlir::cast<RankedTensorType>(x.getType()).getElementType() == element) {
    return x;
  }
  return create<CastOp>(elementwiseType(element, x), x);
}

Value Build::add(Value a, Value b) {
  return elementwise(Elementwise::Add, {a, b});
}
Value Build::sub(Value a, Value b) {
  return elementwise(Elementwise::Sub, {a, b});
}
Value Build::mul(Value a, Value b) {
  return elementwise(Elementwise::Mul, {a, b});
}
Value Build::div(Value a, Value b) {
  return elementwise(Elementwise::Div, {a, b});
}
Value Build::neg(Value x) { return elementwise(Elementwise::Neg, x); }
Value Build::select(Value condition, Value a, Value b) {
  return elementwise(Elementwise::Select, {condition, a, b});
}

Value Build::constant(double value) {
  Type type = RankedTensorType::get({}, builder.getF32Type());
  return create<ConstantOp>(type, builder.getF32FloatAttr(value));
}
Value Build::constantInt(int64_t value) {
  Type type = RankedTensorType::get({}, builder.getI32Type());
  return create<ConstantOp>(type, builder.getI32IntegerAttr(value));
}
Value Build::constantBool(bool value) {
  Type type = RankedTensorType::get({}, builder.getI1Type());
  return create<ConstantOp>(type, builder.getBoolAttr(value));
}

Value Build::broadcast(Value x, RankedTensorType type) {
  return x.getType() == type ? x : create<BroadcastOp>(type, x);
}

/// The dims of `x` without `over`, as a type.
static RankedTensorType without(Value x, ArrayRef<StringRef> over) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  SmallVector<StringRef> dims;
  SmallVector<int64_t> sizes;
  for (auto [name, size] : llvm::zip(dimsOf(type), type.getShape())) {
    if (!llvm::is_contained(over, name)) {
      dims.push_back(name);
      sizes.push_back(size);
    }
  }
  return tensorType(type.getElementType(), dims, sizes);
}

Value Build::reduce(Reduction kind, Value x, ArrayRef<StringRef> over) {
  if (over.empty()) {
    return x;
  }
  return create<ReduceOp>(without(x, over), x, kind,
                          builder.getStrArrayAttr(over));
}

Value Build::dot(Value a, Value b, ArrayRef<StringRef> over) {
  auto left = mlir::cast<RankedTensorType>(a.getType());
  auto right = mlir::cast<RankedTensorType>(b.getType());
  SmallVector<StringRef> dims;
  SmallVector<int64_t> sizes;
  for (RankedTensorType type : {left, right}) {
    for (auto [name, size] : llvm::zip(dimsOf(type), type.getShape())) {
      if (!llvm::is_contained(over, name) && !llvm::is_contained(dims, name)) {
        dims.push_back(name);
        sizes.push_back(size);
      }
    }
  }
  Type element = gradientType(left).getElementType();
  return create<DotOp>(tensorType(element, dims, sizes), a, b,
                       builder.getStrArrayAttr(over));
}

Value Build::lookup(Value table, Value ids, StringRef dim) {
  auto left = mlir::cast<RankedTensorType>(ids.getType());
  auto right = mlir::cast<RankedTensorType>(table.getType());
  SmallVector<StringRef> dims = dimsOf(left);
  SmallVector<int64_t> sizes(left.getShape());
  for (auto [name, size] : llvm::zip(dimsOf(right), right.getShape())) {
    if (name != dim) {
      dims.push_back(name);
      sizes.push_back(size);
    }
  }
  return create<LookupOp>(tensorType(right.getElementType(), dims, sizes),
                          table, ids, builder.getStringAttr(dim));
}

Value Build::scatterAdd(Value updates, Value ids, RankedTensorType type,
                        StringRef dim) {
  return create<ScatterAddOp>(type, updates, ids, builder.getStringAttr(dim));
}

Value Build::index(StringRef dim, int64_t size, int64_t first) {
  Type type = tensorType(builder.getI32Type(), dim, size);
  return create<IndexOp>(type, builder.getI64IntegerAttr(first));
}

Value Build::cumsum(Value x, StringRef dim, bool reverse) {
  return create<CumsumOp>(x.getType(), x, dim, reverse);
}

Value Build::softmax(Value x, ArrayRef<StringRef> over) {
  return create<SoftmaxOp>(x.getType(), x, builder.getStrArrayAttr(over));
}

Value Build::logsumexp(Value x, ArrayRef<StringRef> over) {
  return create<LogsumexpOp>(without(x, over), x,
                             builder.getStrArrayAttr(over));
}

/// The type of `x` with dim `from` called `to`, of size `size`.
static RankedTensorType renamed(Value x, StringRef from, StringRef to,
                                int64_t size) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  SmallVector<StringRef> dims = dimsOf(type);
  SmallVector<int64_t> sizes(type.getShape());
  int position = findDim(type, from);
  assert(position >= 0 && "no such dim");
  dims[position] = to;
  sizes[position] = size;
  return tensorType(type.getElementType(), dims, sizes);
}

Value Build::rename(Value x, StringRef from, StringRef to) {
  if (from == to) {
    return x;
  }
  return create<RenameOp>(renamed(x, from, to, sizeOf(x.getType(), from)), x);
}

Value Build::slice(Value x, StringRef dim, StringRef to, int64_t first,
                   int64_t size) {
  return create<SliceOp>(renamed(x, dim, to, size), x,
                         builder.getStringAttr(dim), builder.getStringAttr(to),
                         builder.getI64IntegerAttr(first));
}

Value Build::pad(Value x, StringRef dim, StringRef to, int64_t first,
                 int64_t size) {
  return create<PadOp>(renamed(x, dim, to, size), x, builder.getStringAttr(dim),
                       builder.getStringAttr(to),
                       builder.getI64IntegerAttr(first));
}

Value Build::edge(Value x, StringRef inner) {
  return create<EdgeOp>(x.getType(), x, builder.getStringAttr(inner));
}
Value Build::weight(Value x) { return create<WeightOp>(x.getType(), x); }
Value Build::gradient(Value x) { return create<GradientOp>(x.getType(), x); }
