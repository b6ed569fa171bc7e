//===- Attention.cpp - Calls of the runtime's kernel of attention ---------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// runtime/format/AttentionCall.h says how the kernel is called. Operations that
// go over the same scores share a call: the sum and what needs it, and the
// three gradients.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Kernel.h"

#include "dialects/clv/Clv.h"
#include "runtime/format/AttentionCall.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;
using format::AttentionRole;
using format::AttentionTensor;

//===----------------------------------------------------------------------===//
// Which operations share a call
//===----------------------------------------------------------------------===//

static bool isGradient(Operation *op) {
  return isa<clv::AttentionQueryGradientOp, clv::AttentionKeyGradientOp,
             clv::AttentionValueGradientOp>(op);
}

/// Whether both have the same scores.
static bool sameScores(clv::AttentionInterface a, clv::AttentionInterface b) {
  return a->getOperand(0) == b->getOperand(0) &&
         a->getOperand(1) == b->getOperand(1) && a.getSeq() == b.getSeq() &&
         a.getKeys() == b.getKeys() && a.getOver() == b.getOver() &&
         a.getScale() == b.getScale() && a.getCausal() == b.getCausal() &&
         a.getAhead() == b.getAhead();
}

/// The step of `steps` that computes an operation alone, or -1.
static int findStep(ArrayRef<Step> steps, Operation *op) {
  for (auto [i, step] : llvm::enumerate(steps)) {
    if (op && step.op == op) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

static bool reads(const Step &step, Value value) {
  bool found = false;
  auto look = [&](Operation *op) {
    op->walk([&](Operation *inner) {
      found |= llvm::is_contained(inner->getOperands(), value);
    });
  };
  llvm::for_each(step.members, look);
  if (step.op) {
    look(step.op);
  }
  return found;
}

/// Moves a sum to the attention that needs it, unless somebody reads it before.
static void joinSums(SmallVectorImpl<Step> &steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    auto attention = dyn_cast_or_null<clv::AttentionOp>(steps[i].op);
    if (!attention) {
      continue;
    }
    auto sum = attention.getLogSum().getDefiningOp<clv::AttentionSumOp>();
    int at = findStep(steps, sum);
    if (at < 0 || static_cast<size_t>(at) > i || !sameScores(sum, attention)) {
      continue;
    }
    bool isFree = true;
    for (size_t k = at + 1; k < i; ++k) {
      isFree &= !reads(steps[k], sum.getResult());
    }
    if (isFree) {
      steps[i] = {{sum, attention}, nullptr};
      steps.erase(steps.begin() + at);
      --i;
    }
  }
}

/// Moves gradients to the first of the same attention that reads all that they
/// read.
static void joinGradients(SmallVectorImpl<Step> &steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    Operation *first = steps[i].op;
    if (!first || !isGradient(first)) {
      continue;
    }
    for (size_t k = i + 1; k < steps.size();) {
      Operation *other = steps[k].op;
      bool joins = other && isGradient(other) &&
                   sameScores(cast<clv::AttentionInterface>(first),
                              cast<clv::AttentionInterface>(other)) &&
                   llvm::all_of(other->getOperands(), [&](Value operand) {
                     return llvm::is_contained(first->getOperands(), operand);
                   });
      if (!joins) {
        ++k;
        continue;
      }
      if (steps[i].members.empty()) {
        steps[i] = {{first}, nullptr};
      }
      steps[i].members.push_back(other);
      steps.erase(steps.begin() + k);
    }
  }
}

void codegen::joinAttention(SmallVectorImpl<Step> &steps) {
  joinSums(steps);
  joinGradients(steps);
}

//===----------------------------------------------------------------------===//
// The call
//===----------------------------------------------------------------------===//

namespace {

class Call {
public:
  explicit Call(ArrayRef<Operation *> ops)
      : ops(ops), first(cast<clv::AttentionInterface>(ops.front())) {}

  llvm::Expected<Kernel> build(KernelLibrary &library);

private:
  struct Dim {
    AttentionRole role;
    Extent extent;
  };

  ArrayRef<Operation *> ops;
  clv::AttentionInterface first;
  Kernel kernel;
  llvm::MapVector<Value, AttentionTensor> views; ///< results last
  SmallVector<Dim> dims;
  SmallVector<StringRef> features;

  void addViews(Operation *op);
  bool hasScoreDims(Value value) const;
  llvm::Error addDims(Value value, AttentionTensor tensor);
  void literal(int64_t value) {
    KernelInteger integer;
    integer.kind = KernelInteger::Literal;
    integer.literal = value;
    kernel.integers.push_back(integer);
  }
  void extent(KernelInteger::Kind kind, const Extent &extent) {
    KernelInteger integer;
    integer.kind = kind;
    integer.extent = extent;
    kernel.integers.push_back(integer);
  }
  const Extent &extentOf(AttentionRole role) const {
    return llvm::find_if(dims, [&](const Dim &d) { return d.role == role; })
        ->extent;
  }
  /// The product of the sizes of the dims with that role.
  int64_t widthOf(AttentionRole role) const {
    int64_t width = 1;
    for (const Dim &dim : dims) {
      width *= dim.role == role ? dim.extent.size : 1;
    }
    return width;
  }
  int placeOf(const Dim &dim, Value value, AttentionTensor tensor) const;
};

} // namespace

/// Whether a tensor has the dims over which scores sum.
static bool hasOver(AttentionTensor tensor) {
  return tensor == AttentionTensor::Query || tensor == AttentionTensor::Key ||
         tensor == AttentionTensor::QueryGradient ||
         tensor == AttentionTensor::KeyGradient;
}
static bool hasFeatures(AttentionTensor tensor) {
  return !hasOver(tensor) && tensor != AttentionTensor::Sum &&
         tensor != AttentionTensor::Mean;
}

/// What each operation reads and makes, in the order of its operands.
static SmallVector<AttentionTensor> tensorsOf(Operation *op) {
  using enum AttentionTensor;
  if (isa<clv::AttentionSumOp>(op)) {
    return {Query, Key, Sum};
  }
  if (isa<clv::AttentionOp>(op)) {
    return {Query, Key, AttentionTensor::Value, Sum, Out};
  }
  if (isa<clv::AttentionValueGradientOp>(op)) {
    return {Query, Key, Sum, OutGradient, ValueGradient};
  }
  return {Query,
          Key,
          AttentionTensor::Value,
          Sum,
          Mean,
          OutGradient,
          isa<clv::AttentionKeyGradientOp>(op) ? KeyGradient : QueryGradient};
}

llvm::Expected<Kernel> Call::build(KernelLibrary &library) {
  // By tensor, not by value: one value may be the key and the value.
  SmallVector<std::pair<AttentionTensor, mlir::Value>> reads, makes;
  auto add = [](auto &list, AttentionTensor tensor, mlir::Value value) {
    if (llvm::none_of(list, [&](auto &e) { return e.first == tensor; })) {
      list.push_back({tensor, value});
    }
  };
  for (Operation *op : ops) {
    add(makes, tensorsOf(op).back(), op->getResult(0));
  }
  bool makesSum = isa<clv::AttentionSumOp>(ops.front());
  for (Operation *op : ops) {
    for (auto [tensor, operand] : llvm::zip(tensorsOf(op), op->getOperands())) {
      if (tensor != AttentionTensor::Sum || !makesSum) {
        add(reads, tensor, operand);
      }
    }
    if (!isa<clv::AttentionSumOp>(op)) {
      features = clv::featureDims(cast<clv::AttentionInterface>(op));
    }
  }
  for (auto &[tensor, value] : reads) {
    kernel.inputs.push_back(value);
  }
  for (auto &[tensor, value] : makes) {
    kernel.outputs.push_back(value);
  }
  kernel.symbol = library.addOfRuntime(format::attentionSymbol);
  reads.append(makes);
  for (auto &[tensor, value] : reads) {
    if (llvm::Error error = addDims(value, tensor)) {
      return std::move(error);
    }
  }
  literal(reads.size());
  for (auto &[tensor, value] : reads) {
    literal(static_cast<int64_t>(tensor));
  }
  bool isNarrow = cast<RankedTensorType>(first->getOperand(0).getType())
                      .getElementType()
                      .isBF16();
  kernel.scratch = {format::attentionScratchBytes(
      isNarrow,
      std::max(widthOf(AttentionRole::Over), widthOf(AttentionRole::Feature)))};
  literal(makesSum);
  literal(isNarrow);
  literal(first.getCausal());
  literal(static_cast<int64_t>(first.getAhead()));
  float scale = static_cast<float>(first.getScale().convertToDouble());
  literal(llvm::bit_cast<uint32_t>(scale));
  extent(KernelInteger::Begin, extentOf(AttentionRole::Queries));
  extent(KernelInteger::Begin, extentOf(AttentionRole::Keys));
  literal(dims.size());
  for (const Dim &dim : dims) {
    literal(static_cast<int64_t>(dim.role));
    extent(KernelInteger::Size, dim.extent);
    for (auto &[tensor, value] : reads) {
      literal(placeOf(dim, value, tensor));
    }
  }
  return std::move(kernel);
}

int Call::placeOf(const Dim &dim, mlir::Value value,
                  AttentionTensor tensor) const {
  // A name may be that of a feature and of a dim that scores sum over.
  bool isIn = dim.role == AttentionRole::Over      ? hasOver(tensor)
              : dim.role == AttentionRole::Feature ? hasFeatures(tensor)
                                                   : true;
  return isIn ? clv::findDim(value.getType(), dim.extent.name) : -1;
}

/// Notes the dims of a tensor, with the inner ones in order at its end.
llvm::Error Call::addDims(mlir::Value value, AttentionTensor tensor) {
  Extents extents = extentsOf(value);
  SmallVector<StringRef> inner;
  if (hasOver(tensor)) {
    for (StringRef name : first.getOver().getAsValueRange<StringAttr>()) {
      inner.push_back(name);
    }
  } else if (hasFeatures(tensor)) {
    inner = features;
  }
  AttentionRole innerRole =
      hasOver(tensor) ? AttentionRole::Over : AttentionRole::Feature;
  size_t outer = extents.size() - inner.size();
  SmallVector<StringRef> order; // of the inner dims that are known
  for (const Dim &dim : dims) {
    if (dim.role == innerRole) {
      order.push_back(dim.extent.name.getValue());
    }
  }
  bool isKnown = !order.empty();
  for (auto [i, extent] : llvm::enumerate(extents)) {
    StringRef name = extent.name.getValue();
    bool isInner = llvm::is_contained(inner, name);
    if (isInner != (i >= outer) ||
        (isInner && extent.split && !extent.split.getAtoms().empty()) ||
        (isInner && isKnown && order[i - outer] != name)) {
      return llvm::createStringError("`" + name.str() +
                                     "` of attention is not dense");
    }
    AttentionRole role = isInner                   ? innerRole
                         : name == first.getSeq()  ? AttentionRole::Queries
                         : name == first.getKeys() ? AttentionRole::Keys
                                                   : AttentionRole::Batch;
    const auto *known = llvm::find_if(dims, [&](const Dim &dim) {
      return dim.role == role && dim.extent.name == extent.name;
    });
    if (known == dims.end()) {
      dims.push_back({role, extent});
    } else if (known->extent != extent) {
      return llvm::createStringError(
          "`" + name.str() + "` of attention has pieces that do not match");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Kernel> codegen::buildAttention(ArrayRef<Operation *> ops,
                                               KernelLibrary &library) {
  return Call(ops).build(library);
}
