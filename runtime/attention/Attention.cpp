//===- Attention.cpp - Attention over blocks of scores --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks that no query sees are left out. Products are those of oneDNN's sgemm,
// which takes any sizes and adds to its result where asked.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/Attention.h"
#include "runtime/attention/Rows.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

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

/// A matrix whose rows are dense.
struct Matrix {
  float *data = nullptr;
  int64_t stride = 0;

  Matrix from(int64_t row) const { return {data + row * stride, stride}; }
  explicit operator bool() const { return data; }
};

/// c[m, n] = a * b, or more by that: a[m, k], b[k, n]; each may be transposed.
void multiply(char transA, char transB, int64_t m, int64_t n, int64_t k,
              Matrix a, Matrix b, bool adds, Matrix c) {
  dnnl_status_t status =
      dnnl_sgemm(transA, transB, m, n, k, 1.0f, a.data, a.stride, b.data,
                 b.stride, adds ? 1.0f : 0.0f, c.data, c.stride);
  assert(status == dnnl_success && "the library failed to execute");
  (void)status;
}

/// All tensors at one combination of the batch dims.
class Head {
public:
  Head(const Shape &shape, const Each<float *> &data, float *scratch)
      : shape(shape), data(data), scores{scratch, attentionKeys},
        products{scratch + attentionQueries * attentionKeys, attentionKeys},
        most(products.data + attentionQueries * attentionKeys),
        total(most + attentionQueries), shrink(total + attentionQueries) {}

  void forward();
  void backward();

private:
  const Shape &shape;
  const Each<float *> &data;
  Matrix scores, products;
  float *most, *total, *shrink; ///< of each query of a block

  Matrix at(Tensor tensor, int64_t row) const {
    if (!data[tensor]) {
      return {};
    }
    // Of one row the stride says nothing, and may be too short for sgemm.
    int64_t width = tensor == Tensor::Query || tensor == Tensor::Key ||
                            tensor == Tensor::QueryGradient ||
                            tensor == Tensor::KeyGradient
                        ? shape.over
                        : shape.features;
    return Matrix{data[tensor], std::max(shape.row[tensor], width)}.from(row);
  }
  /// The numbers of queries from `row` on, one after the other.
  const float *gather(Tensor tensor, int64_t row, int64_t rows, float *into) {
    for (int64_t i = 0; i < rows; ++i) {
      into[i] = data[tensor][(row + i) * shape.row[tensor]];
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

Block Head::score(int64_t row, int64_t rows, int64_t key, int64_t keys) {
  multiply('N', 'T', rows, keys, shape.over, at(Tensor::Query, row),
           at(Tensor::Key, key), false, scores);
  int64_t first = shape.causal ? shape.ahead + row - key + 1 : keys;
  return {rows, keys, first, shape.scale};
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
    for (int64_t i = 0; shape.makesSum && key > 0 && i < rows; ++i) {
      float *numbers = out.from(i).data;
      for (int64_t f = 0; shrink[i] != 1.0f && f < shape.features; ++f) {
        numbers[f] *= shrink[i];
      }
    }
    multiply('N', 'N', rows, shape.features, keys, scores,
             at(Tensor::Value, key), key > 0, out);
  }
  if (!shape.makesSum) {
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    data[Tensor::Sum][(row + i) * shape.row[Tensor::Sum]] =
        most[i] + std::log(total[i]);
    if (out && total[i] != 0.0f) {
      float *numbers = out.from(i).data, inverse = 1.0f / total[i];
      for (int64_t f = 0; f < shape.features; ++f) {
        numbers[f] *= inverse;
      }
    }
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
  Matrix gradient = at(Tensor::OutGradient, row);
  int64_t end = seenBefore(row + rows);
  for (int64_t key = 0; key < end; key += attentionKeys) {
    int64_t keys = std::min(end - key, attentionKeys);
    Block block = score(row, rows, key, keys);
    kernels.weigh(block, scores.data, sum);
    if (Matrix value = at(Tensor::ValueGradient, key)) {
      multiply('T', 'N', keys, shape.features, rows, scores, gradient, true,
               value);
    }
    if (!ofScores) {
      continue;
    }
    multiply('N', 'T', rows, keys, shape.features, gradient,
             at(Tensor::Value, key), false, products);
    kernels.reverse(block, scores.data, products.data, mean);
    if (Matrix query = at(Tensor::QueryGradient, row)) {
      multiply('N', 'N', rows, shape.over, keys, products, at(Tensor::Key, key),
               true, query);
    }
    if (Matrix own = at(Tensor::KeyGradient, key)) {
      multiply('T', 'N', keys, shape.over, rows, products,
               at(Tensor::Query, row), true, own);
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
void forEachHead(const Shape &shape, Each<float *> data, Visit visit) {
  std::array<int64_t, mostBatchDims> index = {};
  for (size_t b = 0; b < shape.batches; ++b) {
    if (shape.batch[b].size == 0) {
      return;
    }
  }
  auto step = [&](size_t b, int64_t by) {
    for (size_t t = 0; t < tensors; ++t) {
      if (data.all[t]) {
        data.all[t] += by * shape.batch[b].stride.all[t];
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
void clear(const Shape &shape, const Each<float *> &data, Tensor tensor,
           int64_t rows, int64_t width) {
  if (!data[tensor]) {
    return;
  }
  forEachHead(shape, data, [&](const Each<float *> &head, const auto &index) {
    for (size_t b = 0; b < shape.batches; ++b) {
      if (index[b] > 0 && shape.batch[b].stride[tensor] == 0) {
        return; // the same memory again
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      std::fill_n(head[tensor] + i * shape.row[tensor], width, 0.0f);
    }
  });
}

} // namespace

void run(const Shape &shape, const Each<float *> &data, float *scratch) {
  if (!data[Tensor::OutGradient]) {
    forEachHead(shape, data, [&](const Each<float *> &head, const auto &) {
      Head(shape, head, scratch).forward();
    });
    return;
  }
  clear(shape, data, Tensor::QueryGradient, shape.queries, shape.over);
  clear(shape, data, Tensor::KeyGradient, shape.keys, shape.over);
  clear(shape, data, Tensor::ValueGradient, shape.keys, shape.features);
  forEachHead(shape, data, [&](const Each<float *> &head, const auto &) {
    Head(shape, head, scratch).backward();
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
  Each<float *> data;
  for (size_t i = 0; i < count; ++i) {
    data[order[i]] = static_cast<float *>(views[i]);
  }
  run(shape, data, static_cast<float *>(views[count]));
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
