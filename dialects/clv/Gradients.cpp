//===- Gradients.cpp - The gradient of each operation ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse mode. Operations are built in the forward operation's region, in the
// backward phase. Where a gradient can be said in terms of the result as well
// as of the operands, the result is used: it is what others save too.
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

namespace {

/// Builds in the backward phase of an operation's region.
class Backward : public Build {
public:
  Backward(OpBuilder &builder, Operation *op)
      : Build(builder, op->getLoc(), backwardOf(scopeOf(op))) {}

  Value number(double value, Value like) {
    Type element = cast<RankedTensorType>(like.getType()).getElementType();
    auto op =
        builder.create<ConstantOp>(loc, RankedTensorType::get({}, element),
                                   builder.getFloatAttr(element, value));
    setScope(op, scope);
    return op;
  }
  Value zero(Value like) { return number(0, like); }
  Value scale(Value x, double factor) { return mul(x, number(factor, x)); }
  Value apply(Elementwise function, ValueRange operands) {
    return elementwise(function, operands);
  }
  /// `g` where `condition` holds, else zero.
  Value where(Value condition, Value g) {
    return select(condition, g, zero(g));
  }
  Value unless(Value condition, Value g) {
    return select(condition, zero(g), g);
  }
};

} // namespace

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }

/// d gelu / dx = (1 + erf(x/sqrt 2)) / 2 + x exp(-x*x/2) / sqrt(2 pi)
static Value geluSlope(Backward &b, Value x) {
  Value erf = b.apply(Elementwise::Erf, b.scale(x, M_SQRT1_2));
  Value cdf = b.scale(b.add(erf, b.number(1, x)), 0.5);
  Value pdf = b.scale(b.apply(Elementwise::Exp, b.scale(b.mul(x, x), -0.5)),
                      M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return b.add(cdf, b.mul(x, pdf));
}

/// d silu / dx = s (1 + x (1 - s)) with s = sigmoid(x)
static Value siluSlope(Backward &b, Value x) {
  Value s = b.apply(Elementwise::Sigmoid, x);
  Value one = b.number(1, x);
  return b.mul(s, b.add(b.mul(x, b.sub(one, s)), one));
}

/// The derivative of a function of one float, for operand `x` and result `y`;
/// null for functions that are not smooth.
static Value slopeOf(Backward &b, Elementwise function, Value x, Value y) {
  switch (function) {
  case Elementwise::Exp:
    return y;
  case Elementwise::Sqrt:
    return b.div(b.number(0.5, y), y);
  case Elementwise::Rsqrt:
    return b.scale(b.mul(y, b.mul(y, y)), -0.5);
  case Elementwise::Sin:
    return b.apply(Elementwise::Cos, x);
  case Elementwise::Cos:
    return b.neg(b.apply(Elementwise::Sin, x));
  case Elementwise::Tanh:
    return b.sub(b.number(1, y), b.mul(y, y));
  case Elementwise::Erf:
    return b.scale(b.apply(Elementwise::Exp, b.neg(b.mul(x, x))), M_2_SQRTPI);
  case Elementwise::Gelu:
    return geluSlope(b, x);
  case Elementwise::Silu:
    return siluSlope(b, x);
  case Elementwise::Sigmoid:
    return b.mul(y, b.sub(b.number(1, y), y));
  default:
    return {};
  }
}

LogicalResult clv::elementwiseGradient(OpBuilder &builder, Operation *op,
                                       Elementwise function, Value g,
                                       SmallVectorImpl<Value> &gradients) {
  gradients.assign(op->getNumOperands(), Value());
  Value y = op->getResult(0);
  if (!g || !isFloat(y)) {
    return success();
  }
  Backward b(builder, op);
  Value x = op->getOperand(0);
  Value other = op->getNumOperands() > 1 ? op->getOperand(1) : Value();
  switch (function) {
  case Elementwise::Add:
    gradients.assign({g, g});
    return success();
  case Elementwise::Sub:
    gradients.assign({g, b.neg(g)});
    return success();
  case Elementwise::Mul:
    gradients.assign({b.mul(g, other), b.mul(g, x)});
    return success();
  case Elementwise::Div: {
    Value quotient = b.div(g, other);
    gradients.assign({quotient, b.neg(b.mul(quotient, y))});
    return success();
  }
  case Elementwise::Maximum:
  case Elementwise::Minimum: {
    bool isMax = function == Elementwise::Maximum;
    Value left = b.apply(Elementwise::LessEqual,
                         isMax ? ValueRange{other, x} : ValueRange{x, other});
    gradients.assign({b.where(left, g), b.unless(left, g)});
    return success();
  }
  case Elementwise::Pow: {
    Value less = b.sub(other, b.number(1, other));
    Value slope = b.mul(other, b.apply(Elementwise::Pow, {x, less}));
    Value positive = b.apply(Elementwise::Less, {b.zero(x), x});
    Value safe = b.select(positive, x, b.number(1, x));
    Value log = b.apply(Elementwise::Log, safe);
    gradients.assign({b.mul(g, slope), b.mul(g, b.mul(y, log))});
    return success();
  }
  case Elementwise::Neg:
    gradients.assign({b.neg(g)});
    return success();
  case Elementwise::Log:
    gradients.assign({b.div(g, x)});
    return success();
  case Elementwise::Relu: // positive where the result is
    gradients.assign({b.where(b.apply(Elementwise::Less, {b.zero(y), y}), g)});
    return success();
  case Elementwise::Abs: {
    Value up = b.apply(Elementwise::Less, {b.zero(x), x});
    Value down = b.apply(Elementwise::Less, {x, b.zero(x)});
    gradients.assign({b.select(up, g, b.where(down, b.neg(g)))});
    return success();
  }
  case Elementwise::Select:
    gradients.assign({Value(), b.where(x, g), b.unless(x, g)});
    return success();
  case Elementwise::Cast:
    if (isFloat(x)) {
      gradients.assign({b.cast(g, gradientType(x.getType()).getElementType())});
    }
    return success();
  case Elementwise::Identity: // stop_gradient
    return success();
  default:
    break;
  }
  Value slope = slopeOf(b, function, x, y);
  if (!slope) {
    return op->emitOpError("has no gradient");
  }
  gradients.assign({b.mul(g, slope)});
  return success();
}

//===----------------------------------------------------------------------===//
// Operations without a gradient
//===----------------------------------------------------------------------===//

#define NO_GRADIENT(OP)                                                        \
  LogicalResult OP::buildGradient(OpBuilder &, ValueRange,                     \
                                  SmallVectorImpl<Value> &gradients) {         \
    gradients.assign(getOperation()->getNumOperands(), Value());               \
    return success();                                                          \
  }
NO_GRADIENT(ConstantOp)
NO_GRADIENT(IndexOp)
NO_GRADIENT(RandomOp)
NO_GRADIENT(ExtremeOp)
#undef NO_GRADIENT

//===----------------------------------------------------------------------===//
// Contractions, reductions, gathers
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::buildGradient(OpBuilder &, ValueRange results,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign({isFloat(getX()) ? results[0] : Value()});
  return success();
}

/// Where the extreme over `over` is attained first, in row-major order: for
/// each dim in turn, the lowest index whose remaining extreme is the whole one.
static Value firstExtreme(Backward &b, ReduceOp op) {
  Value x = op.getX(), mask;
  SmallVector<StringRef> over;
  for (StringRef name : dimsOf(x)) {
    if (llvm::any_of(op.getOver(), [&](Attribute attr) {
          return cast<StringAttr>(attr).getValue() == name;
        })) {
      over.push_back(name);
    }
  }
  Value whole = op.getResult();
  for (auto [position, name] : llvm::enumerate(over)) {
    ArrayRef<StringRef> rest = ArrayRef(over).drop_front(position + 1);
    Value part = b.reduce(op.getKind(), x, rest);
    SmallVector<StringRef> dims;
    SmallVector<int64_t> sizes;
    for (StringRef dim : dimsOf(part)) {
      if (dim != name) {
        dims.push_back(dim);
        sizes.push_back(sizeOf(part.getType(), dim));
      }
    }
    auto first = b.builder.create<ExtremeOp>(
        b.loc, tensorType(b.builder.getI32Type(), dims, sizes), part, whole,
        b.builder.getStringAttr(name));
    setScope(first, b.scope);
    Value index = b.index(name, sizeOf(x.getType(), name));
    Value here = b.apply(Elementwise::Equal, {index, first});
    mask = mask ? b.apply(Elementwise::And, {mask, here}) : here;
    whole = part;
  }
  return mask;
}

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ValueRange results,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (!results[0] || !isFloat(getX())) {
    return success();
  }
  if (getKind() == Reduction::Sum || getOver().empty()) {
    gradients[0] = results[0];
    return success();
  }
  Backward b(builder, *this);
  gradients[0] = b.where(firstExtreme(b, *this), results[0]);
  return success();
}

/// The gradient of the operand `of` of a dot, from that of the result and the
/// other operand.
static Value dotGradient(Backward &b, Value g, Value of, Value other) {
  SmallVector<StringRef> over;
  for (StringRef name : dimsOf(other)) {
    if (findDim(of.getType(), name) < 0) {
      over.push_back(name);
    }
  }
  Type factor = elementOf(other);
  if (over.empty()) {
    return b.mul(g, b.cast(other, elementOf(g)));
  }
  auto dot = b.builder.create<DotOp>(b.loc, gradientType(of.getType()),
                                     b.cast(g, factor), other,
                                     b.builder.getStrArrayAttr(over));
  setScope(dot, b.scope);
  return dot;
}

LogicalResult DotOp::buildGradient(OpBuilder &builder, ValueRange results,
                                   SmallVectorImpl<Value> &gradients) {
  gradients.assign(2, Value());
  if (Value g = results[0]) {
    Backward b(builder, *this);
    gradients[0] = dotGradient(b, g, getLhs(), getRhs());
    gradients[1] = dotGradient(b, g, getRhs(), getLhs());
  }
  return success();
}

LogicalResult LookupOp::buildGradient(OpBuilder &builder, ValueRange results,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(2, Value());
  if (Value g = results[0]) {
    auto type = cast<RankedTensorType>(getTable().getType());
    gradients[0] =
        Backward(builder, *this).scatterAdd(g, getIds(), type, getDim());
  }
  return success();
}

LogicalResult ScatterAddOp::buildGradient(OpBuilder &builder,
                                          ValueRange results,
                                          SmallVectorImpl<Value> &gradients) {
  gradients.assign(2, Value());
  if (Value g = results[0]) {
    gradients[0] = Backward(builder, *this).lookup(g, getIds(), getDim());
  }
  return success();
}

/// Element i counts in every sum from i on: the sums run the other way.
LogicalResult CumsumOp::buildGradient(OpBuilder &builder, ValueRange results,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]) {
    gradients[0] = Backward(builder, *this).cumsum(g, getDim(), !getReverse());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Composite
//===----------------------------------------------------------------------===//

static SmallVector<StringRef> namesIn(ArrayAttr attr) {
  return llvm::map_to_vector(
      attr, [](Attribute name) { return cast<StringAttr>(name).getValue(); });
}

/// p * (g - sum(g * p))
LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ValueRange results,
                                       SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]) {
    Backward b(builder, *this);
    Value p = getResult();
    Value mean = b.reduce(Reduction::Sum, b.mul(g, p), namesIn(getOver()));
    gradients[0] = b.mul(p, b.sub(g, mean));
  }
  return success();
}

/// g * softmax(x), where softmax(x) = exp(x - logsumexp(x))
LogicalResult LogsumexpOp::buildGradient(OpBuilder &builder, ValueRange results,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]) {
    Backward b(builder, *this);
    Value p = b.apply(Elementwise::Exp, b.sub(getX(), getResult()));
    gradients[0] = b.mul(p, g);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionSumOp::buildGradient(OpBuilder &, ValueRange results,
                                            SmallVectorImpl<Value> &gradients) {
  gradients.assign(2, Value());
  return results[0] ? emitOpError("has no gradient of its own") : success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ValueRange results,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign(4, Value());
  if (!results[0]) {
    return success();
  }
  Backward b(builder, *this);
  Value g = b.broadcast(results[0], cast<RankedTensorType>(getType()));
  Value mean =
      b.reduce(Reduction::Sum, b.mul(g, getResult()), featureDims(*this));
  auto typeOf = [](Value x) { return gradientType(x.getType()); };
  g = b.cast(g, elementOf(getQuery()));
  Value all[] = {getQuery(), getKey(), getValue(), getLogSum(), mean, g};
  gradients[0] =
      b.attention<AttentionQueryGradientOp>(*this, typeOf(getQuery()), all);
  gradients[1] =
      b.attention<AttentionKeyGradientOp>(*this, typeOf(getKey()), all);
  gradients[2] = b.attention<AttentionValueGradientOp>(
      *this, typeOf(getValue()), {getQuery(), getKey(), getLogSum(), g});
  return success();
}

#define NO_SECOND_GRADIENT(OP)                                                 \
  LogicalResult OP::buildGradient(OpBuilder &, ValueRange,                     \
                                  SmallVectorImpl<Value> &) {                  \
    return emitOpError("has no gradient: it is one already");                  \
  }
NO_SECOND_GRADIENT(AttentionQueryGradientOp)
NO_SECOND_GRADIENT(AttentionKeyGradientOp)
NO_SECOND_GRADIENT(AttentionValueGradientOp)
#undef NO_SECOND_GRADIENT

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

LogicalResult RenameOp::buildGradient(OpBuilder &builder, ValueRange results,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]; g && isFloat(getX())) {
    // By name: the gradient's dims may stand in another order.
    Backward b(builder, *this);
    SmallVector<StringRef> from = dimsOf(getX()), dims;
    auto type = cast<RankedTensorType>(g.getType());
    for (StringRef name : dimsOf(g)) {
      dims.push_back(from[findDim(getResult().getType(), name)]);
    }
    auto back = builder.create<RenameOp>(
        b.loc, tensorType(type.getElementType(), dims, type.getShape()), g);
    setScope(back, b.scope);
    gradients[0] = back;
  }
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange results,
                                     SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]; g && isFloat(getX())) {
    gradients[0] = Backward(builder, *this)
                       .pad(g, getTo(), getDim(), getFirst(),
                            sizeOf(getX().getType(), getDim()));
  }
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange results,
                                   SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]; g && isFloat(getX())) {
    gradients[0] = Backward(builder, *this)
                       .slice(g, getTo(), getDim(), getFirst(),
                              sizeOf(getX().getType(), getDim()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// Back over the same edge, into the region of the operand.
LogicalResult EdgeOp::buildGradient(OpBuilder &builder, ValueRange results,
                                    SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (Value g = results[0]; g && isFloat(getX())) {
    Backward b(builder, *this);
    if (ScopeAttr scope = backwardOf(scopeOfValue(getX()))) {
      b.scope = scope;
    }
    gradients[0] = b.edge(g, getInner());
  }
  return success();
}

LogicalResult WeightOp::buildGradient(OpBuilder &, ValueRange results,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign({results[0]});
  return success();
}

LogicalResult GradientOp::buildGradient(OpBuilder &, ValueRange results,
                                        SmallVectorImpl<Value> &gradients) {
  gradients.assign({results[0]});
  return success();
}
