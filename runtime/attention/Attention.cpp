//===- Attention.cpp - Attention over blocks of scores --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks that no query sees are left out. Products are those of oneDNN's sgemm,
// which takes any sizes and adds to its result where asked, and of its sibling
// for bf16.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/Attention.h"
#include "runtime/attention/Rows.h"

#include "runtime/contraction/Contraction.h"
#include "runtime/contraction/Loops.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

/// Of the library, which exports it without a declaration.
extern "C" dnnl_status_t
dnnl_gemm_bf16bf16f32(char transA, char transB, int64_t m, int64_t n, int64_t k,
                      float alpha, const uint16_t *a, int64_t strideA,
                      const uint16_t *b, int64_t strideB, float beta, float *c,
                      int64_t strideC);

namespace cleave::attention {

using format::attentionKeys;
using format::attentionQueries;

const Rows &rowsHere() {
  static const Rows &best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
          ? avx512::rows
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
          ? avx2::rows
          : baseline::rows;
  return best;
}

namespace {

constexpr int64_t blockSize = attentionQueries * attentionKeys;

/// A matrix whose rows are dense.
struct Matrix {
  float *data = nullptr;
  int64_t stride = 0;

  Matrix from(int64_t row) const { return {data + row * stride, stride}; }
  explicit operator bool() const { return data; }
};

/// A matrix that is multiplied: of f32, or of bf16.
struct Operand {
  const void *data = nullptr;
  int64_t stride = 0;
};

bool isNarrow(const Shape &shape, Tensor tensor) {
  return shape.narrow &&
         (tensor == Tensor::Query || tensor == Tensor::Key ||
          tensor == Tensor::Value || tensor == Tensor::OutGradient);
}

/// The dense rows of an operand, in f32.
Matrix widen(Operand from, int64_t rows, int64_t columns, float *into) {
  for (int64_t i = 0; i < rows; ++i) {
    contraction::widen(static_cast<const uint16_t *>(from.data) +
                           i * from.stride,
                       into + i * columns, columns);
  }
  return {into, columns};
}

/// All tensors at one combination of the batch dims.
class Head {
public:
  Head(const Shape &shape, const Each<void *> &data, float *scratch,
       bool widens)
      : shape(shape), data(data), widens(widens),
        scores{scratch, attentionKeys},
        products{scratch + blockSize, attentionKeys},
        most(products.data + blockSize), total(most + attentionQueries),
        shrink(total + attentionQueries),
        rounded(reinterpret_cast<uint16_t *>(shrink + attentionQueries)),
        wideA(shrink + attentionQueries + blockSize / 2),
        wideB(wideA + std::max(blockSize, attentionQueries * widest())) {}

  void forward();
  void backward();

private:
  const Shape &shape;
  const Each<void *> &data;
  bool widens;
  Matrix scores, products;
  float *most, *total, *shrink; ///< of each query of a block
  uint16_t *rounded;            ///< scores or products
  float *wideA, *wideB;         ///< operands

  int64_t widest() const { return std::max(shape.over, shape.features); }
  // Of one row the stride says nothing, and may be too short for sgemm.
  int64_t strideOf(Tensor tensor) const {
    int64_t width = tensor == Tensor::Query || tensor == Tensor::Key ||
                            tensor == Tensor::QueryGradient ||
                            tensor == Tensor::KeyGradient
                        ? shape.over
                        : shape.features;
    return std::max(shape.row[tensor], width);
  }
  Operand operand(Tensor tensor, int64_t row) const {
    int64_t stride = strideOf(tensor), size = isNarrow(shape, tensor) ? 2 : 4;
    return {static_cast<const char *>(data[tensor]) + row * stride * size,
            stride};
  }
  /// A block's scores or products, as they are multiplied.
  Operand operand(const Block &block, Matrix numbers) {
    if (!shape.narrow) {
      return {numbers.data, numbers.stride};
    }
    rowsHere().round(block, numbers.data, rounded);
    return {rounded, attentionKeys};
  }
  float *numbersOf(Tensor tensor) const {
    return static_cast<float *>(data[tensor]);
  }
  Matrix at(Tensor tensor, int64_t row) const {
    if (!data[tensor]) {
      return {};
    }
    return Matrix{numbersOf(tensor), strideOf(tensor)}.from(row);
  }
  void multiply(char transA, char transB, int64_t m, int64_t n, int64_t k,
                Operand a, Operand b, bool adds, Matrix c);
  void scale(Matrix out, int64_t rows, const float *factors) const;
  /// The numbers of queries from `row` on, one after the other.
  const float *gather(Tensor tensor, int64_t row, int64_t rows, float *into) {
    for (int64_t i = 0; i < rows; ++i) {
      into[i] = numbersOf(tensor)[(row + i) * shape.row[tensor]];
    }
    return into;
  }
  /// How many keys the queries before `row` see, at least one of them.
  int64_t seenBefore(int64_t row) const {
    return shape.causal ? std::clamp<int64_t>(shape.ahead + row, 0, shape.keys)
                        : shape.keys;
  }
  Block score(int64_t row, int64_t rows, int64_t key, int64_t keys);
  void forward(int64_t row, int64_t rows);
  void backward(int64_t row, int64_t rows);
};

/// c[m, n] = a * b, or more by that: a[m, k], b[k, n]; each may be transposed.
void Head::multiply(char transA, char transB, int64_t m, int64_t n, int64_t k,
                    Operand a, Operand b, bool adds, Matrix c) {
  float beta = adds ? 1.0f : 0.0f;
  dnnl_status_t status = dnnl_success;
  if (shape.narrow && !widens) {
    status = dnnl_gemm_bf16bf16f32(
        transA, transB, m, n, k, 1.0f, static_cast<const uint16_t *>(a.data),
        a.stride, static_cast<const uint16_t *>(b.data), b.stride, beta, c.data,
        c.stride);
  } else {
    if (shape.narrow) {
      bool turnsA = transA == 'T', turnsB = transB == 'T';
      Matrix left = widen(a, turnsA ? k : m, turnsA ? m : k, wideA);
      Matrix right = widen(b, turnsB ? n : k, turnsB ? k : n, wideB);
      a = {left.data, left.stride};
      b = {right.data, right.stride};
    }
    status = dnnl_sgemm(transA, transB, m, n, k, 1.0f,
                        static_cast<const float *>(a.data), a.stride,
                        static_cast<const float *>(b.data), b.stride, beta,
                        c.data, c.stride);
  }
  assert(status == dnnl_success && "the library failed to execute");
  (void)status;
}

void Head::scale(Matrix out, int64_t rows, const float *factors) const {
  for (int64_t i = 0; i < rows; ++i) {
    float *numbers = out.from(i).data;
    for (int64_t f = 0; factors[i] != 1.0f && f < shape.features; ++f) {
      numbers[f] *= factors[i];
    }
  }
}

Block Head::score(int64_t row, int64_t rows, int64_t key, int64_t keys) {
  multiply('N', 'T', rows, keys, shape.over, operand(Tensor::Query, row),
           operand(Tensor::Key, key), false, scores);
  int64_t first = shape.causal ? shape.ahead + row - key + 1 : keys;
  return {rows, keys, first, shape.scale, shape.narrow};
}

void Head::forward(int64_t row, int64_t rows) {
  const Rows &kernels = rowsHere();
  Matrix out = at(Tensor::Out, row);
  int64_t end = seenBefore(row + rows);
  std::fill_n(most, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(total, rows, 0.0f);
  if (out && end == 0) {
    for (int64_t i = 0; i < rows; ++i) {
      std::fill_n(out.from(i).data, shape.features, 0.0f);
    }
  }
  if (!shape.makesSum) {
    gather(Tensor::Sum, row, rows, most);
    for (int64_t i = 0; i < rows; ++i) {
      float sum = most[i];
      most[i] = shape.narrow ? upToPower(sum) : sum;
      shrink[i] = most[i] == sum ? 1.0f : std::exp(most[i] - sum);
    }
  }
  for (int64_t key = 0; key < end; key += attentionKeys) {
    int64_t keys = std::min(end - key, attentionKeys);
    Block block = score(row, rows, key, keys);
    if (shape.makesSum) {
      kernels.advance(block, scores.data, most, total, shrink);
    } else {
      kernels.weigh(block, scores.data, most);
    }
    if (!out) {
      continue;
    }
    if (shape.makesSum && key > 0) {
      scale(out, rows, shrink);
    }
    multiply('N', 'N', rows, shape.features, keys, operand(block, scores),
             operand(Tensor::Value, key), key > 0, out);
  }
  for (int64_t i = 0; shape.makesSum && i < rows; ++i) {
    numbersOf(Tensor::Sum)[(row + i) * shape.row[Tensor::Sum]] =
        most[i] + std::log(total[i]);
    shrink[i] = total[i] != 0.0f ? 1.0f / total[i] : 1.0f;
  }
  if (out) {
    scale(out, rows, shrink);
  }
}

void Head::forward() {
  for (int64_t row = 0; row < shape.queries; row += attentionQueries) {
    forward(row, std::min(shape.queries - row, attentionQueries));
  }
}

void Head::backward(int64_t row, int64_t rows) {
  const Rows &kernels = rowsHere();
  bool ofScores = data[Tensor::QueryGradient] || data[Tensor::KeyGradient];
  const float *sum = gather(Tensor::Sum, row, rows, most);
  const float *mean =
      ofScores ? gather(Tensor::Mean, row, rows, total) : nullptr;
  Operand gradient = operand(Tensor::OutGradient, row);
  int64_t end = seenBefore(row + rows);
  for (int64_t key = 0; key < end; key += attentionKeys) {
    int64_t keys = std::min(end - key, attentionKeys);
    Block block = score(row, rows, key, keys);
    kernels.weigh(block, scores.data, sum);
    if (Matrix value = at(Tensor::ValueGradient, key)) {
      multiply('T', 'N', keys, shape.features, rows, operand(block, scores),
               gradient, true, value);
    }
    if (!ofScores) {
      continue;
    }
    multiply('N', 'T', rows, keys, shape.features, gradient,
             operand(Tensor::Value, key), false, products);
    kernels.reverse(block, scores.data, products.data, mean);
    Operand weights = operand(block, products);
    if (Matrix query = at(Tensor::QueryGradient, row)) {
      multiply('N', 'N', rows, shape.over, keys, weights,
               operand(Tensor::Key, key), true, query);
    }
    if (Matrix own = at(Tensor::KeyGradient, key)) {
      multiply('T', 'N', keys, shape.over, rows, weights,
               operand(Tensor::Query, row), true, own);
    }
  }
}

void Head::backward() {
  for (int64_t row = 0; row < shape.queries; row += attentionQueries) {
    backward(row, std::min(shape.queries - row, attentionQueries));
  }
}

/// Calls `visit(data, index)` for each combination of the batch dims.
template <typename Visit>
void forEachHead(const Shape &shape, Each<void *> data, Visit visit) {
  std::array<int64_t, mostBatchDims> index = {};
  for (size_t b = 0; b < shape.batches; ++b) {
    if (shape.batch[b].size == 0) {
      return;
    }
  }
  auto step = [&](size_t b, int64_t by) {
    for (size_t t = 0; t < tensors; ++t) {
      if (data.all[t]) {
        int64_t size = isNarrow(shape, static_cast<Tensor>(t)) ? 2 : 4;
        data.all[t] = static_cast<char *>(data.all[t]) +
                      by * shape.batch[b].stride.all[t] * size;
      }
    }
  };
  while (true) {
    visit(data, index);
    size_t b = shape.batches;
    while (b > 0) {
      --b;
      if (++index[b] < shape.batch[b].size) {
        step(b, 1);
        break;
      }
      step(b, 1 - shape.batch[b].size);
      index[b] = 0;
      if (b == 0) {
        return;
      }
    }
    if (shape.batches == 0) {
      return;
    }
  }
}

/// Sets a tensor of `rows` rows to zero.
void clear(const Shape &shape, const Each<void *> &data, Tensor tensor,
           int64_t rows, int64_t width) {
  if (!data[tensor]) {
    return;
  }
  forEachHead(shape, data, [&](const Each<void *> &head, const auto &index) {
    for (size_t b = 0; b < shape.batches; ++b) {
      if (index[b] > 0 && shape.batch[b].stride[tensor] == 0) {
        return; // the same memory again
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      std::fill_n(static_cast<float *>(head[tensor]) + i * shape.row[tensor],
                  width, 0.0f);
    }
  });
}

} // namespace

void run(const Shape &shape, const Each<void *> &data, float *scratch,
         bool widens) {
  if (!data[Tensor::OutGradient]) {
    forEachHead(shape, data, [&](const Each<void *> &head, const auto &) {
      Head(shape, head, scratch, widens).forward();
    });
    return;
  }
  clear(shape, data, Tensor::QueryGradient, shape.queries, shape.over);
  clear(shape, data, Tensor::KeyGradient, shape.keys, shape.over);
  clear(shape, data, Tensor::ValueGradient, shape.keys, shape.features);
  forEachHead(shape, data, [&](const Each<void *> &head, const auto &) {
    Head(shape, head, scratch, widens).backward();
  });
}

/// The sizes and strides of a call; leaves `integers` behind them.
static Shape readShape(const int64_t *integers,
                       std::array<Tensor, tensors> &order, size_t &count) {
  Shape shape;
  count = static_cast<size_t>(*integers++);
  for (size_t i = 0; i < count; ++i) {
    order[i] = static_cast<Tensor>(*integers++);
  }
  shape.makesSum = *integers++ != 0;
  shape.narrow = *integers++ != 0;
  shape.causal = *integers++ != 0;
  shape.ahead = *integers++;
  uint32_t bits = static_cast<uint32_t>(*integers++);
  std::memcpy(&shape.scale, &bits, sizeof(bits));
  shape.ahead += integers[0] - integers[1];
  integers += 2;
  auto dims = static_cast<size_t>(*integers++);
  // A tensor is row major: a dim's stride is the product of those after it.
  auto sizeOf = [&](size_t dim) { return integers[dim * (2 + count) + 1]; };
  auto placeOf = [&](size_t dim, size_t i) {
    return integers[dim * (2 + count) + 2 + i];
  };
  for (size_t dim = 0; dim < dims; ++dim) {
    auto role = static_cast<format::AttentionRole>(integers[dim * (2 + count)]);
    int64_t size = sizeOf(dim);
    Each<int64_t> strides;
    for (size_t i = 0; i < count; ++i) {
      int64_t stride = placeOf(dim, i) < 0 ? 0 : 1;
      for (size_t other = 0; other < dims; ++other) {
        stride *= placeOf(other, i) > placeOf(dim, i) ? sizeOf(other) : 1;
      }
      strides[order[i]] = stride;
    }
    switch (role) {
    case format::AttentionRole::Batch:
      assert(shape.batches < mostBatchDims && "too many dims");
      shape.batch[shape.batches++] = {size, strides};
      break;
    case format::AttentionRole::Queries:
    case format::AttentionRole::Keys:
      (role == format::AttentionRole::Keys ? shape.keys : shape.queries) = size;
      for (size_t i = 0; i < count; ++i) {
        if (placeOf(dim, i) >= 0) {
          shape.row[order[i]] = strides[order[i]];
        }
      }
      break;
    case format::AttentionRole::Over:
      shape.over *= size;
      break;
    case format::AttentionRole::Feature:
      shape.features *= size;
      break;
    }
  }
  return shape;
}

void kernel(void *const *views, const int64_t *integers) {
  std::array<Tensor, tensors> order;
  size_t count = 0;
  Shape shape = readShape(integers, order, count);
  Each<void *> data;
  for (size_t i = 0; i < count; ++i) {
    data[order[i]] = views[i];
  }
  run(shape, data, static_cast<float *>(views[count]),
      !contraction::multipliesBfloat16());
}

int64_t operationsOf(const int64_t *integers) {
  std::array<Tensor, tensors> order;
  size_t count = 0;
  Shape shape = readShape(integers, order, count);
  int64_t pairs = 0; // of a query and a key that it sees, in all heads
  for (int64_t query = 0; query < shape.queries; ++query) {
    pairs += shape.causal
                 ? std::clamp<int64_t>(shape.ahead + query + 1, 0, shape.keys)
                 : shape.keys;
  }
  for (size_t i = 0; i < shape.batches; ++i) {
    pairs *= shape.batch[i].size;
  }
  auto has = [&](Tensor tensor) {
    return std::find(order.begin(), order.begin() + count, tensor) !=
           order.begin() + count;
  };
  // Scores; then what there is of the result and of the gradients, which all
  // but that of the values need those of the scores.
  int64_t each = shape.over;
  each += has(Tensor::Out) ? shape.features : 0;
  if (has(Tensor::OutGradient)) {
    each += has(Tensor::ValueGradient) ? shape.features : 0;
    bool query = has(Tensor::QueryGradient), key = has(Tensor::KeyGradient);
    each += query || key ? shape.features : 0;
    each += (query ? shape.over : 0) + (key ? shape.over : 0);
  }
  return 2 * pairs * each;
}

} // namespace cleave::attention
