//===- Scalar.cpp - Functions of scalars, on vectors ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In f32, exp, log, tanh and erf become polynomials when kernels are lowered
// (KernelLibrary.cpp); sine and cosine are written out here, because they need
// a longer reduction of the argument than MLIR's. In f64, which only kernels of
// scalars use, all are functions of the C library.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "numerics/Random.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;
using clv::Elementwise;
using clv::Reduction;

using Emitter = ImplicitLocOpBuilder;

static Value constantOf(Emitter &b, Type type, TypedAttr value) {
  if (auto vector = dyn_cast<VectorType>(type)) {
    return b.create<arith::ConstantOp>(
        vector,
        cast<TypedAttr>(DenseElementsAttr::get(vector, Attribute(value))));
  }
  return b.create<arith::ConstantOp>(type, value);
}

Value codegen::constantLike(Emitter &b, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element)) {
    return constantOf(b, type, FloatAttr::get(element, value));
  }
  return constantOf(b, type,
                    IntegerAttr::get(element, static_cast<int64_t>(value)));
}

Type codegen::shapedLike(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like)) {
    return vector.clone(element);
  }
  return element;
}

/// Sine, or cosine: x is brought to [-pi/4, pi/4] by a multiple of pi/2 in
/// three parts (Cody and Waite), then the polynomials of Cephes (Moshier)
/// apply.
static Value emitSine(Emitter &b, Value x, bool cosine) {
  Type type = x.getType();
  Type ints = shapedLike(type, b.getI32Type());
  auto number = [&](double value) { return constantLike(b, type, value); };
  auto fma = [&](Value a, Value c, Value d) -> Value {
    return b.create<math::FmaOp>(a, c, d);
  };
  Value k = b.create<math::RoundEvenOp>(
      b.create<arith::MulFOp>(x, number(0.63661977236758134308)));
  Value r = fma(k, number(-1.5707963705062866), x);
  r = fma(k, number(4.3711388286737929e-08), r);
  r = fma(k, number(1.7151245100059e-15), r);
  Value square = b.create<arith::MulFOp>(r, r);
  Value s = fma(square, number(-1.9515295891e-4), number(8.3321608736e-3));
  s = fma(square, s, number(-1.6666654611e-1));
  s = fma(b.create<arith::MulFOp>(square, r), s, r);
  Value c =
      fma(square, number(2.443315711809948e-5), number(-1.388731625493765e-3));
  c = fma(square, c, number(4.166664568298827e-2));
  c = fma(b.create<arith::MulFOp>(square, square), c,
          fma(square, number(-0.5), number(1)));
  Value quadrant = b.create<arith::FPToSIOp>(ints, k);
  if (cosine) {
    quadrant = b.create<arith::AddIOp>(quadrant, constantLike(b, ints, 1));
  }
  auto bit = [&](int mask) -> Value {
    Value masked =
        b.create<arith::AndIOp>(quadrant, constantLike(b, ints, mask));
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, masked,
                                   constantLike(b, ints, 0));
  };
  Value result = b.create<arith::SelectOp>(bit(1), c, s);
  return b.create<arith::SelectOp>(bit(2), b.create<arith::NegFOp>(result),
                                   result);
}

/// x ** y, lane by lane in the C library: there is no vector version that is
/// accurate for all arguments.
static Value emitPow(Emitter &b, Value x, Value y) {
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector) {
    return b.create<math::PowFOp>(x, y);
  }
  Value result = constantLike(b, vector, 0);
  for (int64_t lane = 0; lane < vector.getDimSize(0); ++lane) {
    Value power = b.create<math::PowFOp>(b.create<vector::ExtractOp>(x, lane),
                                         b.create<vector::ExtractOp>(y, lane));
    result = b.create<vector::InsertOp>(power, result, lane);
  }
  return result;
}

static Value emitSigmoid(Emitter &b, Value x) {
  Value one = constantLike(b, x.getType(), 1);
  Value e = b.create<math::ExpOp>(b.create<arith::NegFOp>(x));
  return b.create<arith::DivFOp>(one, b.create<arith::AddFOp>(one, e));
}

static Value applyFloat(Emitter &b, Elementwise function, ValueRange v) {
  Value x = v[0];
  Type type = x.getType();
  bool isWide = getElementTypeOrSelf(type).isF64();
  auto number = [&](double value) { return constantLike(b, type, value); };
  auto compare = [&](arith::CmpFPredicate predicate) -> Value {
    return b.create<arith::CmpFOp>(predicate, v[0], v[1]);
  };
  switch (function) {
  case Elementwise::Add:
    return b.create<arith::AddFOp>(x, v[1]);
  case Elementwise::Sub:
    return b.create<arith::SubFOp>(x, v[1]);
  case Elementwise::Mul:
    return b.create<arith::MulFOp>(x, v[1]);
  case Elementwise::Div:
    return b.create<arith::DivFOp>(x, v[1]);
  case Elementwise::Maximum:
    return b.create<arith::MaximumFOp>(x, v[1]);
  case Elementwise::Minimum:
    return b.create<arith::MinimumFOp>(x, v[1]);
  case Elementwise::Pow:
    return emitPow(b, x, v[1]);
  case Elementwise::Neg:
    return b.create<arith::NegFOp>(x);
  case Elementwise::Exp:
    return b.create<math::ExpOp>(x);
  case Elementwise::Log:
    return b.create<math::LogOp>(x);
  case Elementwise::Sqrt:
    return b.create<math::SqrtOp>(x);
  case Elementwise::Rsqrt:
    return b.create<arith::DivFOp>(number(1), b.create<math::SqrtOp>(x));
  case Elementwise::Sin:
    return isWide ? b.create<math::SinOp>(x) : emitSine(b, x, false);
  case Elementwise::Cos:
    return isWide ? b.create<math::CosOp>(x) : emitSine(b, x, true);
  case Elementwise::Tanh:
    return b.create<math::TanhOp>(x);
  case Elementwise::Erf:
    return b.create<math::ErfOp>(x);
  case Elementwise::Relu: {
    // The comparison is false for NaN, which stays.
    Value negative =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, number(0));
    return b.create<arith::SelectOp>(negative, number(0), x);
  }
  case Elementwise::Gelu: {
    Value erf = b.create<math::ErfOp>(
        b.create<arith::MulFOp>(x, number(0.70710678118654752440)));
    return b.create<arith::MulFOp>(b.create<arith::MulFOp>(x, number(0.5)),
                                   b.create<arith::AddFOp>(number(1), erf));
  }
  case Elementwise::Silu:
    return b.create<arith::MulFOp>(x, emitSigmoid(b, x));
  case Elementwise::Sigmoid:
    return emitSigmoid(b, x);
  case Elementwise::Abs:
    return b.create<math::AbsFOp>(x);
  case Elementwise::Less:
    return compare(arith::CmpFPredicate::OLT);
  case Elementwise::LessEqual:
    return compare(arith::CmpFPredicate::OLE);
  case Elementwise::Equal:
    return compare(arith::CmpFPredicate::OEQ);
  case Elementwise::NotEqual:
    return compare(arith::CmpFPredicate::UNE);
  case Elementwise::Identity:
    return x;
  default:
    return {};
  }
}

static Value applyInteger(Emitter &b, Elementwise function, ValueRange v) {
  Value x = v[0];
  auto compare = [&](arith::CmpIPredicate predicate) -> Value {
    return b.create<arith::CmpIOp>(predicate, v[0], v[1]);
  };
  bool isBool = getElementTypeOrSelf(x).isInteger(1);
  switch (function) {
  case Elementwise::Add:
    return b.create<arith::AddIOp>(x, v[1]);
  case Elementwise::Sub:
    return b.create<arith::SubIOp>(x, v[1]);
  case Elementwise::Mul:
    return b.create<arith::MulIOp>(x, v[1]);
  case Elementwise::Div: {
    // A processor stops at a division by zero; this one leaves x as it is.
    Value isZero = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, v[1],
                                           constantLike(b, x.getType(), 0));
    Value safe = b.create<arith::SelectOp>(
        isZero, constantLike(b, x.getType(), 1), v[1]);
    return b.create<arith::DivSIOp>(x, safe);
  }
  case Elementwise::Maximum:
    return b.create<arith::MaxSIOp>(x, v[1]);
  case Elementwise::Minimum:
    return b.create<arith::MinSIOp>(x, v[1]);
  case Elementwise::Neg:
    return b.create<arith::SubIOp>(constantLike(b, x.getType(), 0), x);
  case Elementwise::Less:
    return compare(isBool ? arith::CmpIPredicate::ult
                          : arith::CmpIPredicate::slt);
  case Elementwise::LessEqual:
    return compare(isBool ? arith::CmpIPredicate::ule
                          : arith::CmpIPredicate::sle);
  case Elementwise::Equal:
    return compare(arith::CmpIPredicate::eq);
  case Elementwise::NotEqual:
    return compare(arith::CmpIPredicate::ne);
  case Elementwise::And:
    return b.create<arith::AndIOp>(x, v[1]);
  case Elementwise::Or:
    return b.create<arith::OrIOp>(x, v[1]);
  case Elementwise::Not:
    return b.create<arith::XOrIOp>(x, constantLike(b, x.getType(), 1));
  case Elementwise::Identity:
    return x;
  default:
    return {};
  }
}

static Value applyCast(Emitter &b, Value x, Type element) {
  Type from = getElementTypeOrSelf(x), to = shapedLike(x.getType(), element);
  if (from == element) {
    return x;
  }
  if (element.isInteger(1)) {
    Value zero = constantLike(b, x.getType(), 0);
    return isa<FloatType>(from)
               ? Value(b.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, x,
                                               zero))
               : Value(b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, x,
                                               zero));
  }
  if (isa<FloatType>(from)) {
    if (isa<FloatType>(element)) {
      return element.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth()
                 ? Value(b.create<arith::ExtFOp>(to, x))
                 : Value(b.create<arith::TruncFOp>(to, x));
    }
    return b.create<arith::FPToSIOp>(to, x);
  }
  if (isa<FloatType>(element)) {
    return from.isInteger(1) ? Value(b.create<arith::UIToFPOp>(to, x))
                             : Value(b.create<arith::SIToFPOp>(to, x));
  }
  return b.create<arith::ExtUIOp>(to, x);
}

Value codegen::roundToBF16(Emitter &b, Value x) {
  Type bits = shapedLike(x.getType(), b.getI32Type());
  Type narrow = shapedLike(x.getType(), b.getF32Type());
  if (getElementTypeOrSelf(x).isF64()) {
    Value once = b.create<arith::TruncFOp>(narrow, x);
    return b.create<arith::ExtFOp>(x.getType(), roundToBF16(b, once));
  }
  auto number = [&](double value) { return constantLike(b, bits, value); };
  Value upper = number(-65536); // 0xffff0000
  Value old = b.create<arith::BitcastOp>(bits, x);
  // Up by half of what is cut off, and a bit less where the rest is even.
  Value isOdd = b.create<arith::AndIOp>(
      b.create<arith::ShRUIOp>(old, number(16)), number(1));
  Value up = b.create<arith::AddIOp>(
      old, b.create<arith::AddIOp>(isOdd, number(0x7fff)));
  Value rounded = b.create<arith::AndIOp>(up, upper);
  Value quiet = b.create<arith::OrIOp>(b.create<arith::AndIOp>(old, upper),
                                       number(0x400000));
  Value isNaN = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
  return b.create<arith::BitcastOp>(
      narrow, b.create<arith::SelectOp>(isNaN, quiet, rounded));
}

Value codegen::applyElementwise(Emitter &b, Elementwise function,
                                ValueRange operands, Type element) {
  if (function == Elementwise::Cast) {
    return applyCast(b, operands[0], element);
  }
  if (function == Elementwise::Select) {
    return b.create<arith::SelectOp>(operands[0], operands[1], operands[2]);
  }
  return isa<FloatType>(getElementTypeOrSelf(operands[0]))
             ? applyFloat(b, function, operands)
             : applyInteger(b, function, operands);
}

Value codegen::combine(Emitter &b, Reduction kind, Value a, Value x) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(a));
  switch (kind) {
  case Reduction::Sum:
    return isFloat ? Value(b.create<arith::AddFOp>(a, x))
                   : Value(b.create<arith::AddIOp>(a, x));
  case Reduction::Max:
  case Reduction::Min: {
    bool isMax = kind == Reduction::Max;
    if (!isFloat) {
      return isMax ? Value(b.create<arith::MaxSIOp>(a, x))
                   : Value(b.create<arith::MinSIOp>(a, x));
    }
    Value better = b.create<arith::CmpFOp>(
        isMax ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, x, a);
    return b.create<arith::SelectOp>(better, x, a);
  }
  }
  llvm_unreachable("unknown reduction");
}

Value codegen::neutral(Emitter &b, Reduction kind, Type type) {
  if (kind == Reduction::Sum) {
    return constantLike(b, type, 0);
  }
  bool isMax = kind == Reduction::Max;
  if (isa<FloatType>(getElementTypeOrSelf(type))) {
    double infinity = std::numeric_limits<double>::infinity();
    return constantLike(b, type, isMax ? -infinity : infinity);
  }
  using Limits = std::numeric_limits<int32_t>;
  return constantLike(b, type, isMax ? Limits::min() : Limits::max());
}

int codegen::costOf(Operation *op) {
  if (isa<clv::RandomOp>(op)) {
    return 40;
  }
  auto elementwise = dyn_cast<clv::ElementwiseInterface>(op);
  if (!elementwise) {
    return isa<clv::IndexOp>(op) ? 1 : 0;
  }
  switch (elementwise.getFunction()) {
  case Elementwise::Pow:
    return 200;
  case Elementwise::Exp:
  case Elementwise::Log:
  case Elementwise::Sin:
  case Elementwise::Cos:
  case Elementwise::Tanh:
  case Elementwise::Erf:
  case Elementwise::Gelu:
  case Elementwise::Silu:
  case Elementwise::Sigmoid:
    return 12;
  case Elementwise::Div:
  case Elementwise::Sqrt:
  case Elementwise::Rsqrt:
    return 5;
  default:
    return 1;
  }
}

/// One round's 32 x 32 -> 64 bit product with a constant.
static std::pair<Value, Value> multiply(Emitter &b, Value x, uint32_t factor) {
  auto product = b.create<arith::MulUIExtendedOp>(
      x, constantLike(b, x.getType(), static_cast<int32_t>(factor)));
  return {product.getLow(), product.getHigh()};
}

Value codegen::emitRandom(Emitter &b, Value low, Value high, Value seed,
                          Value step, Value iteration, StringRef site) {
  Type type = low.getType();
  auto spread = [&](Value scalar) -> Value {
    return isa<VectorType>(type)
               ? Value(b.create<vector::BroadcastOp>(type, scalar))
               : scalar;
  };
  auto plus = [&](Value a, uint32_t constant) -> Value {
    return b.create<arith::AddIOp>(
        a, constantLike(b, a.getType(), static_cast<int32_t>(constant)));
  };
  auto mix = [&](Value a, Value c, Value d) -> Value {
    return b.create<arith::XOrIOp>(b.create<arith::XOrIOp>(a, c), d);
  };
  uint64_t hash = numerics::fnv1a64({site.data(), site.size()});
  Type word = b.getI32Type();
  auto wordOf = [&](uint64_t bits) {
    return constantLike(b, word, static_cast<int32_t>(bits));
  };
  Value key0 = b.create<arith::XOrIOp>(seed, wordOf(hash & 0xffffffffu));
  Value key1 = wordOf(hash >> 32);
  Value counter[4] = {low, high, spread(iteration), spread(step)};
  for (int round = 0; round < 10; ++round) {
    auto [leftLow, leftHigh] = multiply(b, counter[0], 0xD2511F53u);
    auto [rightLow, rightHigh] = multiply(b, counter[2], 0xCD9E8D57u);
    counter[0] = mix(rightHigh, counter[1], spread(key0));
    counter[1] = rightLow;
    counter[2] = mix(leftHigh, counter[3], spread(key1));
    counter[3] = leftLow;
    key0 = plus(key0, 0x9E3779B9u);
    key1 = plus(key1, 0xBB67AE85u);
  }
  Value top = b.create<arith::ShRUIOp>(counter[0], constantLike(b, type, 8));
  Value number =
      b.create<arith::SIToFPOp>(shapedLike(type, b.getF32Type()), top);
  return b.create<arith::MulFOp>(number,
                                 constantLike(b, number.getType(), 0x1p-24));
}
