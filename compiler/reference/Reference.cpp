//===- Reference.cpp - The meaning of a global program --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every operation is one loop nest over named dims: `Nest` knows, for each
// tensor, by how much its offset grows with each dim of the nest (not at all
// where the tensor lacks the dim).
//
//===----------------------------------------------------------------------===//

#include "compiler/reference/Reference.h"

#include "dialects/clv/Clv.h"
#include "numerics/Random.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;
using cleave::reference::Tensor;

namespace {

using Names = SmallVector<StringRef>;

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Names namesIn(ArrayAttr attr) {
  Names names;
  for (Attribute name : attr) {
    names.push_back(cast<StringAttr>(name).getValue());
  }
  return names;
}

Tensor zerosOf(Value value, double fill = 0) {
  auto type = typeOf(value);
  return {{type.getShape().begin(), type.getShape().end()},
          std::vector<double>(type.getNumElements(), fill)};
}

/// Loops over dims; the last runs fastest.
class Nest {
public:
  void add(StringRef name, int64_t size) {
    if (!llvm::is_contained(names, name)) {
      names.push_back(name);
      sizes.push_back(size);
    }
  }
  void add(Value value) {
    for (auto [name, size] :
         llvm::zip(dimsOf(value), typeOf(value).getShape())) {
      add(name, size);
    }
  }

  /// The growth of a tensor's offset with each dim of the nest.
  SmallVector<int64_t> strides(Value value) const {
    return strides(dimsOf(value), typeOf(value).getShape());
  }
  SmallVector<int64_t> strides(ArrayRef<StringRef> dims,
                               ArrayRef<int64_t> shape) const {
    SmallVector<int64_t> result(names.size(), 0);
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      for (size_t k = 0; k < names.size(); ++k) {
        if (names[k] == dims[i]) {
          result[k] = stride;
        }
      }
      stride *= shape[i];
    }
    return result;
  }

  /// Calls `visit(offsets)` with one offset per list of strides.
  template <size_t N, typename Visit>
  void run(const std::array<SmallVector<int64_t>, N> &strides,
           Visit visit) const {
    std::array<int64_t, N> offsets{};
    for (int64_t size : sizes) {
      if (size == 0) {
        return;
      }
    }
    if (sizes.empty()) {
      visit(offsets);
      return;
    }
    size_t last = sizes.size() - 1;
    std::vector<int64_t> at(sizes.size(), 0);
    while (true) {
      std::array<int64_t, N> inner = offsets;
      for (int64_t i = 0; i < sizes[last]; ++i) {
        visit(inner);
        for (size_t n = 0; n < N; ++n) {
          inner[n] += strides[n][last];
        }
      }
      size_t dim = last;
      while (true) {
        if (dim == 0) {
          return;
        }
        --dim;
        for (size_t n = 0; n < N; ++n) {
          offsets[n] += strides[n][dim];
        }
        if (++at[dim] < sizes[dim]) {
          break;
        }
        for (size_t n = 0; n < N; ++n) {
          offsets[n] -= strides[n][dim] * sizes[dim];
        }
        at[dim] = 0;
      }
    }
  }

private:
  Names names;
  SmallVector<int64_t> sizes;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

bool isNarrow(Value value) { return typeOf(value).getElementType().isBF16(); }

/// The nearest number of eight significant binary digits and the exponents of
/// f32; of two, the even one.
double roundNarrow(double x) {
  if (x == 0 || !std::isfinite(x)) {
    return x;
  }
  int exponent = std::max(std::ilogb(x), -126) - 7;
  double rounded =
      std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  return std::fabs(rounded) < std::ldexp(1.0, 128)
             ? rounded
             : std::copysign(std::numeric_limits<double>::infinity(), x);
}

/// One scalar of an elementwise operation. `integer`: of i32 operands.
double scalarOf(Elementwise function, double a, double b, double c,
                bool integer) {
  switch (function) {
  case Elementwise::Add:
    return a + b;
  case Elementwise::Sub:
    return a - b;
  case Elementwise::Mul:
    return a * b;
  case Elementwise::Div:
    return integer ? std::trunc(a / b) : a / b;
  case Elementwise::Maximum:
    return a < b ? b : a;
  case Elementwise::Minimum:
    return b < a ? b : a;
  case Elementwise::Pow:
    return std::pow(a, b);
  case Elementwise::Neg:
    return -a;
  case Elementwise::Exp:
    return std::exp(a);
  case Elementwise::Log:
    return std::log(a);
  case Elementwise::Sqrt:
    return std::sqrt(a);
  case Elementwise::Rsqrt:
    return 1 / std::sqrt(a);
  case Elementwise::Sin:
    return std::sin(a);
  case Elementwise::Cos:
    return std::cos(a);
  case Elementwise::Tanh:
    return std::tanh(a);
  case Elementwise::Erf:
    return std::erf(a);
  case Elementwise::Relu:
    return a > 0 ? a : 0;
  case Elementwise::Gelu:
    return a * 0.5 * (1 + std::erf(a / std::sqrt(2.0)));
  case Elementwise::Silu:
    return a * sigmoid(a);
  case Elementwise::Sigmoid:
    return sigmoid(a);
  case Elementwise::Abs:
    return std::fabs(a);
  case Elementwise::Less:
    return a < b;
  case Elementwise::LessEqual:
    return a <= b;
  case Elementwise::Equal:
    return a == b;
  case Elementwise::NotEqual:
    return a != b;
  case Elementwise::And:
    return a != 0 && b != 0;
  case Elementwise::Or:
    return a != 0 || b != 0;
  case Elementwise::Not:
    return a == 0;
  case Elementwise::Select:
    return a != 0 ? b : c;
  case Elementwise::Cast:
  case Elementwise::Identity:
    return a;
  }
  llvm_unreachable("unknown function");
}

//===----------------------------------------------------------------------===//
// Evaluator
//===----------------------------------------------------------------------===//

/// All scores of an attention; minus infinity where a key is hidden.
struct Scores {
  Names names;
  SmallVector<int64_t> shape;
  Tensor tensor;

  Nest nest() const {
    Nest nest;
    for (auto [name, size] : llvm::zip(names, shape)) {
      nest.add(name, size);
    }
    return nest;
  }
};

class Evaluator {
public:
  explicit Evaluator(double nudge) : nudge(nudge) {}

  void set(Value value, Tensor tensor) {
    values[value] = std::make_shared<const Tensor>(std::move(tensor));
  }
  void alias(Value value, Value of) {
    std::shared_ptr<const Tensor> tensor = values.at(of);
    values[value] = std::move(tensor);
  }
  const Tensor &get(Value value) const { return *values.at(value); }

  llvm::Error run(Block &block);

private:
  llvm::Error run(Operation *op);
  llvm::Error run(RepeatOp op);
  double narrowed(double x) {
    return roundNarrow(nudge > 0 ? x * (1 + nudge * toss(random)) : x);
  }
  void narrow(Tensor &tensor) {
    for (double &x : tensor.values) {
      x = narrowed(x);
    }
  }
  void elementwise(Operation *op, Elementwise function);
  void draw(RandomOp op);
  void reduce(ReduceOp op);
  void dot(DotOp op);
  void lookup(LookupOp op);
  void scatterAdd(ScatterAddOp op);
  void cumsum(CumsumOp op);
  void extreme(ExtremeOp op);
  void softmax(Value x, ArrayRef<StringRef> over, Value result, bool isLog);
  Scores scores(AttentionInterface op);
  Tensor weights(const Scores &scores, Value logSum, const Tensor &sum);
  void attentionSum(AttentionSumOp op);
  void attend(AttentionOp op);
  void attentionGradient(AttentionInterface op, Value gradient, Value logSum,
                         Value value, Value mean);
  void part(Value x, Value result, StringRef dim, StringRef to, int64_t first,
            bool isSlice);

  llvm::DenseMap<Value, std::shared_ptr<const Tensor>> values;
  double nudge;
  std::mt19937_64 random;
  std::uniform_real_distribution<double> toss{-1, 1};
};

void Evaluator::elementwise(Operation *op, Elementwise function) {
  Value result = op->getResult(0);
  Nest nest;
  nest.add(result);
  Tensor out = zerosOf(result);
  const Tensor *operands[3] = {};
  std::array<SmallVector<int64_t>, 4> strides;
  strides.fill(nest.strides(result));
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operands[i] = &get(operand);
    strides[1 + i] = nest.strides(operand);
  }
  size_t count = op->getNumOperands();
  bool integer =
      !isa<FloatType>(typeOf(op->getOperand(count - 1)).getElementType());
  Type element = typeOf(result).getElementType();
  bool truncates = function == Elementwise::Cast && element.isInteger(32);
  bool tests = function == Elementwise::Cast && element.isInteger(1);
  bool rounds = function == Elementwise::Cast && element.isBF16();
  nest.run(strides, [&](const std::array<int64_t, 4> &at) {
    double a = operands[0]->values[at[1]];
    double b = count > 1 ? operands[1]->values[at[2]] : 0;
    double c = count > 2 ? operands[2]->values[at[3]] : 0;
    double y = scalarOf(function, a, b, c, integer);
    out.values[at[0]] = truncates ? std::trunc(y)
                        : tests   ? y != 0
                        : rounds  ? narrowed(y)
                                  : y;
  });
  set(result, std::move(out));
}

void Evaluator::draw(RandomOp op) {
  Tensor out = zerosOf(op.getResult());
  auto word = [&](Value value) {
    return static_cast<uint32_t>(static_cast<int64_t>(get(value).values[0]));
  };
  for (size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] =
        numerics::uniform(word(op.getSeed()), op.getSite(), i,
                          word(op.getIteration()), word(op.getStep()));
  }
  set(op.getResult(), std::move(out));
}

void Evaluator::reduce(ReduceOp op) {
  double infinity = std::numeric_limits<double>::infinity();
  Reduction kind = op.getKind();
  double start = kind == Reduction::Sum   ? 0
                 : kind == Reduction::Max ? -infinity
                                          : infinity;
  Tensor out = zerosOf(op.getResult(), start);
  const Tensor &x = get(op.getX());
  Nest nest;
  nest.add(op.getX());
  nest.run(std::array{nest.strides(op.getX()), nest.strides(op.getResult())},
           [&](const std::array<int64_t, 2> &at) {
             double value = x.values[at[0]];
             double &into = out.values[at[1]];
             into = kind == Reduction::Sum   ? into + value
                    : kind == Reduction::Max ? std::fmax(into, value)
                                             : std::fmin(into, value);
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::dot(DotOp op) {
  Tensor out = zerosOf(op.getResult());
  const Tensor &lhs = get(op.getLhs()), &rhs = get(op.getRhs());
  Nest nest;
  nest.add(op.getResult());
  for (StringRef name : namesIn(op.getOver())) {
    nest.add(name, sizeOf(op.getLhs().getType(), name));
  }
  const double *a = lhs.values.data(), *b = rhs.values.data();
  double *c = out.values.data();
  nest.run(std::array{nest.strides(op.getResult()), nest.strides(op.getLhs()),
                      nest.strides(op.getRhs())},
           [=](const std::array<int64_t, 3> &at) {
             c[at[0]] += a[at[1]] * b[at[2]];
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::lookup(LookupOp op) {
  Tensor out = zerosOf(op.getResult());
  const Tensor &table = get(op.getTable()), &ids = get(op.getIds());
  int64_t rows = sizeOf(op.getTable().getType(), op.getDim());
  Nest row; // of the table alone: its stride along the looked-up dim
  row.add(op.getDim(), rows);
  int64_t step = row.strides(op.getTable())[0];
  Nest nest;
  nest.add(op.getResult());
  nest.run(std::array{nest.strides(op.getResult()), nest.strides(op.getIds()),
                      nest.strides(op.getTable())},
           [&](const std::array<int64_t, 3> &at) {
             auto id = static_cast<int64_t>(ids.values[at[1]]);
             if (id >= 0 && id < rows) {
               out.values[at[0]] = table.values[at[2] + id * step];
             }
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::scatterAdd(ScatterAddOp op) {
  Tensor out = zerosOf(op.getResult());
  const Tensor &updates = get(op.getUpdates()), &ids = get(op.getIds());
  int64_t rows = sizeOf(op.getResult().getType(), op.getDim());
  Nest row;
  row.add(op.getDim(), rows);
  int64_t step = row.strides(op.getResult())[0];
  Nest nest;
  nest.add(op.getIds());
  nest.add(op.getUpdates());
  nest.run(std::array{nest.strides(op.getUpdates()), nest.strides(op.getIds()),
                      nest.strides(op.getResult())},
           [&](const std::array<int64_t, 3> &at) {
             auto id = static_cast<int64_t>(ids.values[at[1]]);
             if (id >= 0 && id < rows) {
               out.values[at[2] + id * step] += updates.values[at[0]];
             }
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::cumsum(CumsumOp op) {
  Tensor out = zerosOf(op.getResult());
  const Tensor &x = get(op.getX());
  int64_t size = sizeOf(op.getX().getType(), op.getDim());
  Nest row, nest; // along the dim, and over the others
  row.add(op.getDim(), size);
  int64_t step = row.strides(op.getX())[0];
  int64_t outStep = row.strides(op.getResult())[0];
  for (auto [name, count] :
       llvm::zip(dimsOf(op.getX()), typeOf(op.getX()).getShape())) {
    if (name != op.getDim()) {
      nest.add(name, count);
    }
  }
  nest.run(std::array{nest.strides(op.getX()), nest.strides(op.getResult())},
           [&](const std::array<int64_t, 2> &at) {
             double total = 0;
             for (int64_t k = 0; k < size; ++k) {
               int64_t i = op.getReverse() ? size - 1 - k : k;
               total += x.values[at[0] + i * step];
               out.values[at[1] + i * outStep] = total;
             }
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::extreme(ExtremeOp op) {
  int64_t size = sizeOf(op.getX().getType(), op.getDim());
  const Tensor &x = get(op.getX()), &value = get(op.getValue());
  // Where nothing equals the value the answer is past the end.
  Tensor out = zerosOf(op.getResult(), static_cast<double>(size));
  Nest row;
  row.add(op.getDim(), size);
  int64_t step = row.strides(op.getX())[0];
  Nest nest;
  nest.add(op.getResult());
  nest.run(std::array{nest.strides(op.getResult()), nest.strides(op.getX()),
                      nest.strides(op.getValue())},
           [&](const std::array<int64_t, 3> &at) {
             for (int64_t i = size; i-- > 0;) {
               if (x.values[at[1] + i * step] == value.values[at[2]]) {
                 out.values[at[0]] = static_cast<double>(i);
               }
             }
           });
  set(op.getResult(), std::move(out));
}

void Evaluator::softmax(Value x, ArrayRef<StringRef> over, Value result,
                        bool isLog) {
  const Tensor &in = get(x);
  // The dims that stay, as a tensor of their own.
  Names kept;
  SmallVector<int64_t> shape;
  int64_t count = 1;
  for (auto [name, size] : llvm::zip(dimsOf(x), typeOf(x).getShape())) {
    if (!llvm::is_contained(over, name)) {
      kept.push_back(name);
      shape.push_back(size);
      count *= size;
    }
  }
  Nest nest;
  nest.add(x);
  std::array strides{nest.strides(x), nest.strides(kept, shape)};
  std::vector<double> shift(count, -std::numeric_limits<double>::infinity());
  std::vector<double> total(count, 0);
  nest.run(strides, [&](const std::array<int64_t, 2> &at) {
    shift[at[1]] = std::fmax(shift[at[1]], in.values[at[0]]);
  });
  nest.run(strides, [&](const std::array<int64_t, 2> &at) {
    total[at[1]] += std::exp(in.values[at[0]] - shift[at[1]]);
  });
  Tensor out = zerosOf(result);
  if (isLog) {
    for (int64_t i = 0; i < count; ++i) {
      out.values[i] = shift[i] + std::log(total[i]);
    }
  } else {
    nest.run(strides, [&](const std::array<int64_t, 2> &at) {
      out.values[at[0]] =
          std::exp(in.values[at[0]] - shift[at[1]]) / total[at[1]];
    });
  }
  set(result, std::move(out));
}

Scores Evaluator::scores(AttentionInterface op) {
  Value query = op->getOperand(0), key = op->getOperand(1);
  Scores result;
  result.names = scoreDims(op);
  int64_t count = 1;
  for (StringRef name : result.names) {
    Value owner = findDim(query.getType(), name) >= 0 ? query : key;
    result.shape.push_back(sizeOf(owner.getType(), name));
    count *= result.shape.back();
  }
  result.tensor = {{result.shape.begin(), result.shape.end()},
                   std::vector<double>(count, 0)};
  Nest nest = result.nest();
  auto strides = nest.strides(result.names, result.shape);
  for (StringRef name : namesIn(op.getOver())) {
    nest.add(name, sizeOf(query.getType(), name));
    strides.push_back(0);
  }
  const Tensor &a = get(query), &b = get(key);
  double scale = op.getScale().convertToDouble();
  nest.run(std::array{strides, nest.strides(query), nest.strides(key)},
           [&](const std::array<int64_t, 3> &at) {
             result.tensor.values[at[0]] +=
                 scale * a.values[at[1]] * b.values[at[2]];
           });
  if (op.getCausal()) {
    // As numbers of their own: how far each key is after each query.
    SmallVector<int64_t> seq = {sizeOf(query.getType(), op.getSeq())};
    SmallVector<int64_t> keys = {sizeOf(key.getType(), op.getKeys())};
    Nest all = result.nest();
    auto ahead = static_cast<int64_t>(op.getAhead());
    all.run(std::array{all.strides(result.names, result.shape),
                       all.strides({op.getSeq()}, seq),
                       all.strides({op.getKeys()}, keys)},
            [&](const std::array<int64_t, 3> &at) {
              if (at[2] > at[1] + ahead) {
                result.tensor.values[at[0]] =
                    -std::numeric_limits<double>::infinity();
              }
            });
  }
  return result;
}

/// exp(score - sum)
Tensor Evaluator::weights(const Scores &scores, Value logSum,
                          const Tensor &sum) {
  Tensor result = scores.tensor;
  Nest nest = scores.nest();
  nest.run(std::array{nest.strides(scores.names, scores.shape),
                      nest.strides(logSum)},
           [&](const std::array<int64_t, 2> &at) {
             double &value = result.values[at[0]];
             value =
                 std::isinf(value) ? 0 : std::exp(value - sum.values[at[1]]);
           });
  return result;
}

void Evaluator::attentionSum(AttentionSumOp op) {
  Scores all = scores(op);
  double infinity = std::numeric_limits<double>::infinity();
  Tensor most = zerosOf(op.getResult(), -infinity);
  Tensor out = zerosOf(op.getResult());
  Nest nest = all.nest();
  std::array strides{nest.strides(all.names, all.shape),
                     nest.strides(op.getResult())};
  nest.run(strides, [&](const std::array<int64_t, 2> &at) {
    most.values[at[1]] =
        std::fmax(most.values[at[1]], all.tensor.values[at[0]]);
  });
  nest.run(strides, [&](const std::array<int64_t, 2> &at) {
    if (!std::isinf(all.tensor.values[at[0]])) {
      out.values[at[1]] +=
          std::exp(all.tensor.values[at[0]] - most.values[at[1]]);
    }
  });
  for (auto [total, shift] : llvm::zip(out.values, most.values)) {
    total = std::isinf(shift) ? -infinity : shift + std::log(total);
  }
  set(op.getResult(), std::move(out));
}

void Evaluator::attend(AttentionOp op) {
  Scores all = scores(op);
  // Of bf16 the weights are rounded before they are divided by their sum: as
  // multiples of a power of two, so that it does not matter of which.
  Tensor scale = get(op.getLogSum()), shift = scale;
  for (auto [factor, power] : llvm::zip(scale.values, shift.values)) {
    power = isNarrow(op.getValue()) ? M_LN2 * std::ceil(power / M_LN2) : power;
    factor = power == factor ? 1 : std::exp(power - factor);
  }
  Tensor weight = weights(all, op.getLogSum(), shift);
  if (isNarrow(op.getValue())) {
    narrow(weight);
  }
  Tensor out = zerosOf(op.getResult());
  const Tensor &value = get(op.getValue());
  Nest nest = all.nest();
  auto strides = nest.strides(all.names, all.shape);
  for (StringRef name : featureDims(op)) {
    nest.add(name, sizeOf(op.getValue().getType(), name));
    strides.push_back(0);
  }
  nest.run(std::array{strides, nest.strides(op.getValue()),
                      nest.strides(op.getResult()),
                      nest.strides(op.getLogSum())},
           [&](const std::array<int64_t, 4> &at) {
             out.values[at[2]] += weight.values[at[0]] * value.values[at[1]] *
                                  scale.values[at[3]];
           });
  set(op.getResult(), std::move(out));
}

/// Of the value where `mean` is null; else of the query or the key: the other
/// of the two times scale * weight * (dot(gradient, value) - mean).
void Evaluator::attentionGradient(AttentionInterface op, Value gradient,
                                  Value logSum, Value value, Value mean) {
  Scores all = scores(op);
  Tensor factor = weights(all, logSum, get(logSum));
  Value result = op->getResult(0);
  Tensor out = zerosOf(result);
  Nest nest = all.nest();
  auto strides = nest.strides(all.names, all.shape);
  auto addTo = [&](Value other, ArrayRef<StringRef> names) {
    if (isNarrow(other)) {
      narrow(factor);
    }
    Nest more = nest;
    auto own = strides;
    for (StringRef name : names) {
      more.add(name, sizeOf(other.getType(), name));
      own.push_back(0);
    }
    const Tensor &numbers = get(other);
    more.run(std::array{own, more.strides(other), more.strides(result)},
             [&](const std::array<int64_t, 3> &at) {
               out.values[at[2]] +=
                   factor.values[at[0]] * numbers.values[at[1]];
             });
  };
  if (!mean) {
    addTo(gradient, featureDims(op));
    set(result, std::move(out));
    return;
  }
  Tensor products = all.tensor;
  std::fill(products.values.begin(), products.values.end(), 0.0);
  Nest wide = nest;
  auto own = strides;
  for (StringRef name : featureDims(op)) {
    wide.add(name, sizeOf(value.getType(), name));
    own.push_back(0);
  }
  const Tensor &g = get(gradient), &v = get(value), &m = get(mean);
  wide.run(std::array{own, wide.strides(gradient), wide.strides(value)},
           [&](const std::array<int64_t, 3> &at) {
             products.values[at[0]] += g.values[at[1]] * v.values[at[2]];
           });
  double scale = op.getScale().convertToDouble();
  nest.run(std::array{strides, nest.strides(mean)},
           [&](const std::array<int64_t, 2> &at) {
             factor.values[at[0]] *=
                 scale * (products.values[at[0]] - m.values[at[1]]);
           });
  bool isQuery = isa<AttentionQueryGradientOp>(op);
  addTo(op->getOperand(isQuery ? 1 : 0), namesIn(op.getOver()));
  set(result, std::move(out));
}

void Evaluator::part(Value x, Value result, StringRef dim, StringRef to,
                     int64_t first, bool isSlice) {
  Tensor out = zerosOf(result);
  const Tensor &in = get(x);
  Value small = isSlice ? result : x, large = isSlice ? x : result;
  Names largeNames = dimsOf(large);
  StringRef smallName = isSlice ? to : dim;
  int position = findDim(small.getType(), smallName);
  largeNames[position] = smallName;
  Nest nest, row;
  nest.add(small);
  auto largeStrides = nest.strides(largeNames, typeOf(large).getShape());
  row.add(smallName, 1);
  int64_t skip = first * row.strides(largeNames, typeOf(large).getShape())[0];
  nest.run(std::array{nest.strides(small), largeStrides},
           [&](const std::array<int64_t, 2> &at) {
             if (isSlice) {
               out.values[at[0]] = in.values[at[1] + skip];
             } else {
               out.values[at[1] + skip] = in.values[at[0]];
             }
           });
  set(result, std::move(out));
}

llvm::Error Evaluator::run(RepeatOp op) {
  int64_t count = op.getCount(), first = op.getFirst();
  size_t carried = op.getCarried().size();
  for (auto [argument, init] :
       llvm::zip(op.getCarriedArguments(), op.getCarried())) {
    alias(argument, init);
  }
  std::vector<Tensor> stacks;
  for (Value result : op.getStackedResults()) {
    stacks.push_back(zerosOf(result));
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = op.getReverse() ? count - 1 - i : i;
    set(op.getIndex(), Tensor::scalar(static_cast<double>(first + at)));
    for (auto [argument, operand] :
         llvm::zip(op.getStackedArguments(), op.getStacked())) {
      const Tensor &stack = get(operand);
      Tensor slice = zerosOf(argument);
      int64_t size = slice.values.size();
      std::copy_n(stack.values.begin() + at * size, size, slice.values.begin());
      set(argument, std::move(slice));
    }
    if (llvm::Error error = run(*op.getBlock())) {
      return error;
    }
    Operation *yield = op.getYield();
    SmallVector<std::shared_ptr<const Tensor>> next;
    for (size_t k = 0; k < carried; ++k) {
      next.push_back(values.at(yield->getOperand(k)));
    }
    for (size_t k = 0; k < stacks.size(); ++k) {
      const Tensor &slice = get(yield->getOperand(carried + k));
      llvm::copy(slice.values,
                 stacks[k].values.begin() + at * slice.values.size());
    }
    for (size_t k = 0; k < carried; ++k) {
      values[op.getCarriedArguments()[k]] = next[k];
    }
  }
  for (size_t k = 0; k < carried; ++k) {
    alias(op.getResult(k), op.getCarriedArguments()[k]);
  }
  for (size_t k = 0; k < stacks.size(); ++k) {
    set(op.getResult(carried + k), std::move(stacks[k]));
  }
  return llvm::Error::success();
}

llvm::Error Evaluator::run(Operation *op) {
  if (auto function = dyn_cast<ElementwiseInterface>(op)) {
    elementwise(op, function.getFunction());
    return llvm::Error::success();
  }
  bool known = true;
  TypeSwitch<Operation *>(op)
      .Case<ConstantOp>([&](ConstantOp constant) {
        Attribute value = constant.getValue();
        double number = 0;
        if (auto real = dyn_cast<FloatAttr>(value)) {
          number = real.getValueAsDouble();
        } else if (auto integer = cast<IntegerAttr>(value);
                   integer.getType().isInteger(1)) {
          number = integer.getValue().getBoolValue();
        } else {
          number = static_cast<double>(integer.getInt());
        }
        set(constant.getResult(), Tensor::scalar(number));
      })
      .Case<BroadcastOp>(
          [&](Operation *) { elementwise(op, Elementwise::Identity); })
      .Case<EdgeOp, WeightOp, GradientOp>(
          [&](Operation *) { alias(op->getResult(0), op->getOperand(0)); })
      .Case<RenameOp>(
          [&](RenameOp rename) { alias(rename.getResult(), rename.getX()); })
      .Case<IndexOp>([&](IndexOp index) {
        Tensor out = zerosOf(index.getResult());
        for (size_t i = 0; i < out.values.size(); ++i) {
          out.values[i] = static_cast<double>(
              static_cast<int64_t>(index.getFirst()) + static_cast<int64_t>(i));
        }
        set(index.getResult(), std::move(out));
      })
      .Case<RandomOp>([&](RandomOp op) { draw(op); })
      .Case<ReduceOp>([&](ReduceOp op) { reduce(op); })
      .Case<DotOp>([&](DotOp op) { dot(op); })
      .Case<LookupOp>([&](LookupOp op) { lookup(op); })
      .Case<ScatterAddOp>([&](ScatterAddOp op) { scatterAdd(op); })
      .Case<CumsumOp>([&](CumsumOp op) { cumsum(op); })
      .Case<ExtremeOp>([&](ExtremeOp op) { extreme(op); })
      .Case<SoftmaxOp>([&](SoftmaxOp op) {
        softmax(op.getX(), namesIn(op.getOver()), op.getResult(), false);
      })
      .Case<LogsumexpOp>([&](LogsumexpOp op) {
        softmax(op.getX(), namesIn(op.getOver()), op.getResult(), true);
      })
      .Case<AttentionSumOp>([&](AttentionSumOp op) { attentionSum(op); })
      .Case<AttentionOp>([&](AttentionOp op) { attend(op); })
      .Case<AttentionQueryGradientOp, AttentionKeyGradientOp>([&](auto op) {
        attentionGradient(op, op.getGradient(), op.getLogSum(), op.getValue(),
                          op.getMean());
      })
      .Case<AttentionValueGradientOp>([&](AttentionValueGradientOp op) {
        attentionGradient(op, op.getGradient(), op.getLogSum(), {}, {});
      })
      .Case<SliceOp>([&](SliceOp op) {
        part(op.getX(), op.getResult(), op.getDim(), op.getTo(), op.getFirst(),
             true);
      })
      .Case<PadOp>([&](PadOp op) {
        part(op.getX(), op.getResult(), op.getDim(), op.getTo(), op.getFirst(),
             false);
      })
      .Default([&](Operation *) { known = false; });
  if (!known) {
    return llvm::createStringError("the reference does not know `" +
                                   op->getName().getStringRef() + "`");
  }
  return llvm::Error::success();
}

llvm::Error Evaluator::run(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto repeat = dyn_cast<RepeatOp>(op);
    llvm::Error error = repeat ? run(repeat) : run(&op);
    if (error) {
      return error;
    }
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<Tensor>>
cleave::reference::evaluate(func::FuncOp function,
                            llvm::ArrayRef<Tensor> arguments, double nudge) {
  if (function.isExternal()) {
    return llvm::createStringError("@" + function.getName() + " has no body");
  }
  if (arguments.size() != function.getNumArguments()) {
    return llvm::createStringError("@" + function.getName() + " takes " +
                                   llvm::Twine(function.getNumArguments()) +
                                   " arguments, not " +
                                   llvm::Twine(arguments.size()));
  }
  Evaluator evaluator(nudge);
  for (auto [argument, tensor] :
       llvm::zip(function.getArguments(), arguments)) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !llvm::equal(type.getShape(), tensor.shape) ||
        type.getNumElements() != static_cast<int64_t>(tensor.values.size())) {
      return llvm::createStringError(
          "argument " + llvm::Twine(argument.getArgNumber()) + " of @" +
          function.getName() + " does not fit its type");
    }
    evaluator.set(argument, tensor);
  }
  Block &body = function.getBody().front();
  if (llvm::Error error = evaluator.run(body)) {
    return error;
  }
  std::vector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands()) {
    results.push_back(evaluator.get(value));
  }
  return results;
}
