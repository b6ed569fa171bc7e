//===- Pipe.cpp - The dialect of microbatches and stages ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/pipe/Pipe.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipe;

#include "dialects/pipe/PipeDialect.cpp.inc"
#include "dialects/pipe/PipeEnums.cpp.inc"

void PipeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/pipe/PipeOps.cpp.inc"
      >();
}

/// The block of a frame or a `pipe.micro` must give the operation's results.
static LogicalResult verifyYield(Operation *op, Block &block) {
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield) {
    return op->emitOpError("body must end in `pipe.yield`");
  }
  if (yield.getValues().getTypes() != op->getResultTypes()) {
    return op->emitOpError("body does not yield the results' types");
  }
  return success();
}

static LogicalResult verifyResidence(Operation *op,
                                     ArrayRef<int64_t> residence) {
  if (residence.empty() || residence.size() % 3 != 0) {
    return op->emitOpError("`residence` needs an atom, a begin and an end for "
                           "each range");
  }
  for (size_t i = 0; i < residence.size(); i += 3) {
    if (residence[i] < 0 || residence[i + 1] < 0 ||
        residence[i + 1] >= residence[i + 2]) {
      return op->emitOpError("`residence` has an empty range");
    }
  }
  return success();
}

LogicalResult MicroOp::verify() {
  Block &block = *getBlock();
  if (TypeRange(block.getArgumentTypes()) != getCarried().getTypes() ||
      getCarried().getTypes() != getResultTypes()) {
    return emitOpError("carried values, body arguments and results differ in "
                       "type");
  }
  for (Attribute stream : getStreams()) {
    auto steps = dyn_cast<DenseI32ArrayAttr>(stream);
    if (!steps || steps.size() % 3 != 0) {
      return emitOpError("a stream has three numbers for each step");
    }
  }
  for (Operation &op : block.without_terminator()) {
    if (!isa<SectionOp, MessageOp>(op)) {
      return op.emitOpError("stands outside the sections of `pipe.micro`");
    }
  }
  return verifyYield(*this, block);
}

LogicalResult SectionOp::verify() {
  if (static_cast<int64_t>(getBegin()) < 0 || getBegin() >= getEnd()) {
    return emitOpError("needs a position");
  }
  return verifyYield(*this, *getBlock());
}

LogicalResult OnlyOp::verify() {
  if (failed(verifyResidence(*this, getResidence()))) {
    return failure();
  }
  return verifyYield(*this, *getBlock());
}

LogicalResult ShareOp::verify() {
  if (getSource().getType() != getResult().getType()) {
    return emitOpError("gives what it takes");
  }
  return verifyResidence(*this, getResidence());
}

/// Two types of one tensor, in any pieces.
static LogicalResult verifySameTensor(Operation *op, Type a, Type b) {
  if (cast<RankedTensorType>(a).getElementType() !=
          cast<RankedTensorType>(b).getElementType() ||
      clv::dimsOf(a) != clv::dimsOf(b) ||
      spmd::globalSizes(a) != spmd::globalSizes(b)) {
    return op->emitOpError("between values of two tensors");
  }
  return success();
}

LogicalResult StoreOp::verify() {
  return verifySameTensor(*this, getPart().getType(), getWhole().getType());
}

LogicalResult SpreadOp::verify() {
  Type from = getX().getType(), to = getResult().getType();
  if (clv::dimsOf(from).empty()) {
    return emitOpError("needs a dim of layers");
  }
  layout::Layout before = spmd::layoutOf(from), after = spmd::layoutOf(to);
  if (!after.dims.front().isWhole() ||
      after.partial != before.dims.front().atoms) {
    return emitOpError("gives the first dim whole, pending over its atoms");
  }
  return verifySameTensor(*this, from, to);
}

LogicalResult MessageOp::verify() {
  if (getSource().getType() != getTarget().getType()) {
    return emitOpError("between values of two types");
  }
  if (static_cast<int64_t>(getBegin()) < 0 || getBegin() >= getEnd()) {
    return emitOpError("crosses no boundary");
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/pipe/PipeOps.cpp.inc"
