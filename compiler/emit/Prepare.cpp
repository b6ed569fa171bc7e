//===- Prepare.cpp - Removes what has no instruction ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Prepare.h"

#include "compiler/codegen/Group.h"
#include "dialects/pipe/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

using namespace mlir;
using namespace cleave;

/// `extreme` as the minimum of the positions where x equals the value.
static void expandExtreme(clv::ExtremeOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto x = cast<RankedTensorType>(op.getX().getType());
  int dim = clv::findDim(x, op.getDim());
  Attribute encoding;
  if (auto local = dyn_cast_or_null<spmd::LocalAttr>(x.getEncoding())) {
    encoding = spmd::LocalAttr::get(
        op->getContext(), {local.getNames()[dim]}, {local.getSizes()[dim]},
        {local.getSplits()[dim]}, {}, clv::Reduction::Sum);
  } else {
    encoding = clv::DimsAttr::get(op->getContext(), {op.getDim()});
  }
  Type i32 = b.getI32Type();
  auto scope = op->getAttr(clv::ClvDialect::kScope);
  auto scoped = [&](auto created) {
    if (scope) {
      created->setAttr(clv::ClvDialect::kScope, scope);
    }
    return created.getResult();
  };
  Value index = scoped(b.create<clv::IndexOp>(
      RankedTensorType::get({x.getDimSize(dim)}, i32, encoding), int64_t(0)));
  Value equal = scoped(
      b.create<clv::EqualOp>(x.clone(b.getI1Type()), op.getX(), op.getValue()));
  Value none = scoped(
      b.create<clv::ConstantOp>(RankedTensorType::get({}, i32),
                                cast<TypedAttr>(b.getI32IntegerAttr(
                                    std::numeric_limits<int32_t>::max()))));
  Value position =
      scoped(b.create<clv::SelectOp>(x.clone(i32), equal, index, none));
  Value lowest = scoped(b.create<clv::ReduceOp>(
      op.getResult().getType(), position, clv::Reduction::Min,
      b.getStrArrayAttr({op.getDim()})));
  op.getResult().replaceAllUsesWith(lowest);
  op.erase();
}

static bool isIdentity(Operation *op) {
  return isa<clv::EdgeOp, clv::WeightOp, clv::GradientOp, clv::StopGradientOp>(
      op);
}

/// The index of a repeat is not in memory. Kernels get it as an integer; for
/// other readers a kernel stores it.
static void storeIndex(clv::RepeatOp op) {
  Value index = op.getIndex();
  if (llvm::all_of(index.getUsers(), codegen::isFusable)) {
    return;
  }
  ImplicitLocOpBuilder b(op.getLoc(), op);
  b.setInsertionPointToStart(op.getBlock());
  Value stored = b.create<clv::CastOp>(index.getType(), index);
  index.replaceUsesWithIf(stored, [](OpOperand &use) {
    return !codegen::isFusable(use.getOwner());
  });
}

/// From the end to the start, so that what only dead operations read is dead.
static void eraseDead(Block &block) {
  SmallVector<Operation *> operations;
  for (Operation &op : block.without_terminator()) {
    operations.push_back(&op);
  }
  for (Operation *op : llvm::reverse(operations)) {
    if (op->use_empty() && !isa<pipe::MessageOp>(op)) {
      op->erase();
      continue;
    }
    for (Region &region : op->getRegions()) {
      for (Block &inner : region) {
        eraseDead(inner);
      }
    }
  }
}

llvm::Error emit::prepare(func::FuncOp function) {
  std::string error;
  function.walk([&](Operation *op) {
    if (isa<clv::SoftmaxOp, clv::LogsumexpOp>(op)) {
      error = "`" + op->getName().getStringRef().str() +
              "` must be decomposed before code generation";
    }
    for (Type type : op->getResultTypes()) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (tensor && tensor.getElementType().isF64()) {
        error = "code generation has no f64 tensors";
      }
    }
    if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      storeIndex(repeat);
    }
    if (auto extreme = dyn_cast<clv::ExtremeOp>(op)) {
      expandExtreme(extreme);
    } else if (isIdentity(op) && codegen::extentsOf(op->getOperand(0)) ==
                                     codegen::extentsOf(op->getResult(0))) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
    }
  });
  if (!error.empty()) {
    return llvm::createStringError(error);
  }
  eraseDead(function.getBody().front());
  return llvm::Error::success();
}
