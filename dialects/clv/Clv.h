//===- Clv.h - The dialect of global programs -------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_CLV_CLV_H
#define CLEAVE_DIALECTS_CLV_CLV_H

#include "dialects/clv/Rule.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace cleave::clv {

/// The floating-point operations of one operation, for the shapes of its types:
/// a multiply-add counts as two, moving data as none.
int64_t flopsOf(mlir::Operation *op);

} // namespace cleave::clv

#include "dialects/clv/ClvAttrInterfaces.h.inc"
#include "dialects/clv/ClvDialect.h.inc"
#include "dialects/clv/ClvEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/clv/ClvAttrs.h.inc"
#include "dialects/clv/ClvOpInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/clv/ClvOps.h.inc"

namespace cleave::clv {

/// The names of a tensor's dims; empty for a scalar.
llvm::SmallVector<llvm::StringRef> dimsOf(mlir::Type type);
inline llvm::SmallVector<llvm::StringRef> dimsOf(mlir::Value value) {
  return dimsOf(value.getType());
}
/// The position of a dim in a type, or -1.
int findDim(mlir::Type type, llvm::StringRef name);
/// The size of a dim that the type has.
int64_t sizeOf(mlir::Type type, llvm::StringRef name);
/// Of a local type, the size of the whole dim.
int64_t globalSizeOf(mlir::Type type, llvm::StringRef name);

/// The type of a value's gradient: its own, or f32 where that is bf16.
mlir::RankedTensorType gradientType(mlir::Type type);

/// A global tensor type; a scalar (no dims) has no encoding.
mlir::RankedTensorType tensorType(mlir::Type element,
                                  llvm::ArrayRef<llvm::StringRef> dims,
                                  llvm::ArrayRef<int64_t> sizes);

/// The dims that an elementwise operation of `operands` has, as a type with
/// element type `element`.
mlir::RankedTensorType elementwiseType(mlir::Type element,
                                       mlir::ValueRange operands);

/// The dims of the scores of an operation of attention.
llvm::SmallVector<llvm::StringRef> scoreDims(AttentionInterface op);
/// The dims that values have and scores have not.
llvm::SmallVector<llvm::StringRef> featureDims(AttentionInterface op);

/// The scope of an operation; null if it has none.
ScopeAttr scopeOf(mlir::Operation *op);
void setScope(mlir::Operation *op, ScopeAttr scope);
/// The scope that a value lives in: its operation's; for a value that a repeat
/// carries, that of what the body yields for it. Null where neither says.
ScopeAttr scopeOfValue(mlir::Value value);
/// `scope` in the backward phase, without a label: the gradient of an
/// activation is an activation of the same region.
ScopeAttr backwardOf(ScopeAttr scope);

//===----------------------------------------------------------------------===//
// What the methods of elementwise operations do, told apart by their function.
//===----------------------------------------------------------------------===//

Rule elementwiseRule(mlir::Operation *op, Elementwise function);
/// As GradientInterface::buildGradient.
llvm::LogicalResult
elementwiseGradient(mlir::OpBuilder &builder, mlir::Operation *op,
                    Elementwise function, mlir::Value result,
                    llvm::SmallVectorImpl<mlir::Value> &gradients);
llvm::LogicalResult verifyElementwise(mlir::Operation *op,
                                      Elementwise function);

//===----------------------------------------------------------------------===//
// Builders. Result types follow from the operands, the scope is `scope`.
//===----------------------------------------------------------------------===//

/// Builds operations in one scope, inferring global result types.
class Build {
public:
  Build(mlir::OpBuilder &builder, mlir::Location loc, ScopeAttr scope)
      : builder(builder), loc(loc), scope(scope) {}

  mlir::Value elementwise(Elementwise function, mlir::ValueRange operands);
  mlir::Value cast(mlir::Value x, mlir::Type element);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value neg(mlir::Value x);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value constant(double value);     ///< f32 scalar
  mlir::Value constantInt(int64_t value); ///< i32 scalar
  mlir::Value constantBool(bool value);
  mlir::Value broadcast(mlir::Value x, mlir::RankedTensorType type);
  mlir::Value reduce(Reduction kind, mlir::Value x,
                     llvm::ArrayRef<llvm::StringRef> over);
  mlir::Value dot(mlir::Value a, mlir::Value b,
                  llvm::ArrayRef<llvm::StringRef> over);
  mlir::Value lookup(mlir::Value table, mlir::Value ids, llvm::StringRef dim);
  mlir::Value scatterAdd(mlir::Value updates, mlir::Value ids,
                         mlir::RankedTensorType type, llvm::StringRef dim);
  mlir::Value index(llvm::StringRef dim, int64_t size, int64_t first = 0);
  mlir::Value cumsum(mlir::Value x, llvm::StringRef dim, bool reverse = false);
  mlir::Value softmax(mlir::Value x, llvm::ArrayRef<llvm::StringRef> over);
  mlir::Value logsumexp(mlir::Value x, llvm::ArrayRef<llvm::StringRef> over);
  /// The operation of attention `Op` with the attributes of `like`.
  template <typename Op>
  mlir::Value attention(AttentionInterface like, mlir::RankedTensorType type,
                        mlir::ValueRange operands) {
    auto op = builder.create<Op>(loc, type, operands, like->getAttrs());
    if (scope) {
      setScope(op, scope);
    }
    return op.getResult();
  }
  mlir::Value rename(mlir::Value x, llvm::StringRef from, llvm::StringRef to);
  mlir::Value slice(mlir::Value x, llvm::StringRef dim, llvm::StringRef to,
                    int64_t first, int64_t size);
  mlir::Value pad(mlir::Value x, llvm::StringRef dim, llvm::StringRef to,
                  int64_t first, int64_t size);
  mlir::Value edge(mlir::Value x, llvm::StringRef inner);
  mlir::Value weight(mlir::Value x);
  mlir::Value gradient(mlir::Value x);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  ScopeAttr scope;

private:
  template <typename Op, typename... Args>
  mlir::Value create(mlir::Type type, Args &&...args);
};

} // namespace cleave::clv

#endif // CLEAVE_DIALECTS_CLV_CLV_H
