//===- Loops.cpp - Contractions and copies by plain loops -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Loops.h"

#include "numerics/Bfloat16.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace cleave::contraction {

namespace {

constexpr size_t deepest = 48;

/// Calls `body(offset of lhs, of rhs, of out)` for each index of the loops.
template <typename Body>
void forEach(const std::vector<Loop> &loops, Body body) {
  assert(loops.size() <= deepest);
  int64_t at[deepest] = {};
  int64_t lhs = 0, rhs = 0, out = 0;
  while (true) {
    body(lhs, rhs, out);
    size_t i = loops.size();
    while (i > 0) {
      const Loop &loop = loops[i - 1];
      lhs += loop.stride[Lhs];
      rhs += loop.stride[Rhs];
      out += loop.stride[Out];
      if (++at[i - 1] < loop.size) {
        break;
      }
      at[i - 1] = 0;
      lhs -= loop.size * loop.stride[Lhs];
      rhs -= loop.size * loop.stride[Rhs];
      out -= loop.size * loop.stride[Out];
      --i;
    }
    if (i == 0) {
      return;
    }
  }
}

/// A sum in a fixed order: four vectors of sixteen, then the tail.
float dotUnit(const float *a, const float *b, int64_t count) {
  constexpr int64_t lanes = 64;
  float sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t j = 0; j < lanes; ++j) {
      sums[j] += a[i + j] * b[i + j];
    }
  }
  for (int64_t width = lanes / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) {
      sums[j] += sums[j + width];
    }
  }
  float sum = sums[0];
  for (; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

float dotStrided(const float *a, int64_t strideA, const float *b,
                 int64_t strideB, int64_t count) {
  float sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t j = 0; j < 4; ++j) {
      sums[j] += a[(i + j) * strideA] * b[(i + j) * strideB];
    }
  }
  float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (; i < count; ++i) {
    sum += a[i * strideA] * b[i * strideB];
  }
  return sum;
}

/// out[i] (+)= a[i] * b[i] along one dim of the result.
template <bool add>
void multiply(const Loop &loop, const float *a, const float *b, float *out) {
  int64_t strideA = loop.stride[Lhs], strideB = loop.stride[Rhs],
          strideO = loop.stride[Out], count = loop.size;
  auto put = [](float &into, float value) {
    into = add ? into + value : value;
  };
  if (strideO == 1 && strideA == 1 && strideB == 1) {
    for (int64_t i = 0; i < count; ++i) {
      put(out[i], a[i] * b[i]);
    }
  } else if (strideO == 1 && strideA == 0 && strideB == 1) {
    float scale = *a;
    for (int64_t i = 0; i < count; ++i) {
      put(out[i], scale * b[i]);
    }
  } else if (strideO == 1 && strideA == 1 && strideB == 0) {
    float scale = *b;
    for (int64_t i = 0; i < count; ++i) {
      put(out[i], a[i] * scale);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      put(out[i * strideO], a[i * strideA] * b[i * strideB]);
    }
  }
}

/// How good a dim is as the innermost loop.
int64_t scoreOf(const Loop &loop, bool summed) {
  auto unit = [&](Side side) { return loop.stride[side] == 1; };
  auto fixed = [&](Side side) { return loop.stride[side] == 0; };
  bool vector = summed ? unit(Lhs) && unit(Rhs)
                       : unit(Out) && (unit(Lhs) || fixed(Lhs)) &&
                             (unit(Rhs) || fixed(Rhs));
  return std::min<int64_t>(loop.size, 4096) * (vector ? 16 : 1) * 2 + !summed;
}

} // namespace

LoopNest makeNest(const Shape &shape) {
  LoopNest nest;
  bool chosen = false;
  int64_t best = 0;
  std::vector<std::pair<Loop, bool>> loops;
  for (const Dim &dim : shape) {
    if (dim.size == 1) {
      continue;
    }
    auto stride = [](int64_t s) { return s == Dim::absent ? 0 : s; };
    bool summed = dim.out == Dim::absent;
    loops.push_back(
        {Loop{dim.size, {stride(dim.lhs), stride(dim.rhs), stride(dim.out)}},
         summed});
  }
  size_t inner = 0;
  for (size_t i = 0; i < loops.size(); ++i) {
    int64_t score = scoreOf(loops[i].first, loops[i].second);
    if (!chosen || score > best) {
      inner = i;
      best = score;
      chosen = true;
    }
  }
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i == inner) {
      nest.inner = loops[i].first;
      nest.innerIsSummed = loops[i].second;
    } else {
      (loops[i].second ? nest.sums : nest.results).push_back(loops[i].first);
    }
  }
  auto byOut = [](const Loop &a, const Loop &b) {
    return a.stride[Out] > b.stride[Out];
  };
  auto byOperands = [](const Loop &a, const Loop &b) {
    return a.stride[Lhs] + a.stride[Rhs] > b.stride[Lhs] + b.stride[Rhs];
  };
  std::sort(nest.results.begin(), nest.results.end(), byOut);
  std::sort(nest.sums.begin(), nest.sums.end(), byOperands);
  return nest;
}

void runNest(const LoopNest &nest, const float *lhs, const float *rhs,
             float *out) {
  const Loop &inner = nest.inner;
  forEach(nest.results, [&](int64_t l, int64_t r, int64_t o) {
    const float *a = lhs + l, *b = rhs + r;
    float *c = out + o;
    if (nest.innerIsSummed) {
      bool unit = inner.stride[Lhs] == 1 && inner.stride[Rhs] == 1;
      float sum = 0;
      forEach(nest.sums, [&](int64_t l, int64_t r, int64_t) {
        sum += unit ? dotUnit(a + l, b + r, inner.size)
                    : dotStrided(a + l, inner.stride[Lhs], b + r,
                                 inner.stride[Rhs], inner.size);
      });
      *c = sum;
      return;
    }
    bool first = true;
    forEach(nest.sums, [&](int64_t l, int64_t r, int64_t) {
      first ? multiply<false>(inner, a + l, b + r, c)
            : multiply<true>(inner, a + l, b + r, c);
      first = false;
    });
  });
}

void zero(const Shape &shape, float *out) {
  std::vector<Loop> loops;
  for (const Dim &dim : shape) {
    if (dim.out != Dim::absent) {
      if (dim.size == 0) {
        return;
      }
      loops.push_back({dim.size, {0, 0, dim.out}});
    }
  }
  forEach(loops, [&](int64_t, int64_t, int64_t o) { out[o] = 0; });
}

/// The packed side is dense, so the innermost loop of a pack has stride 1 in
/// it.
template <typename Row> static void forEachRow(const Pack &pack, Row row) {
  std::vector<Pack::Dim>::const_iterator last = pack.dims.end() - 1;
  int64_t at[deepest] = {};
  int64_t tensor = 0, packed = 0;
  size_t depth = pack.dims.size() - 1;
  while (true) {
    row(tensor, packed, last->size, last->tensor);
    size_t i = depth;
    while (i > 0) {
      const Pack::Dim &dim = pack.dims[i - 1];
      tensor += dim.tensor;
      packed += dim.packed;
      if (++at[i - 1] < dim.size) {
        break;
      }
      at[i - 1] = 0;
      tensor -= dim.size * dim.tensor;
      packed -= dim.size * dim.packed;
      --i;
    }
    if (i == 0) {
      return;
    }
  }
}

static inline __attribute__((always_inline)) void
widenAll(const uint16_t *narrow, float *wide, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    wide[i] = numerics::fromBfloat16(narrow[i]);
  }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
widenFast(const uint16_t *narrow, float *wide, int64_t count) {
  widenAll(narrow, wide, count);
}
#endif

void widen(const uint16_t *narrow, float *wide, int64_t count) {
#ifdef __x86_64__
  static const bool isFast = __builtin_cpu_supports("avx2");
  if (isFast) {
    return widenFast(narrow, wide, count);
  }
#endif
  widenAll(narrow, wide, count);
}

template <typename T>
static void packAs(const Pack &pack, const T *tensor, T *packed) {
  forEachRow(pack, [&](int64_t from, int64_t to, int64_t count, int64_t step) {
    if (step == 1) {
      std::memcpy(packed + to, tensor + from, count * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      packed[to + i] = tensor[from + i * step];
    }
  });
}

void pack(const Pack &pack, int64_t size, const void *tensor, void *packed) {
  if (size == 2) {
    packAs(pack, static_cast<const uint16_t *>(tensor),
           static_cast<uint16_t *>(packed));
  } else {
    packAs(pack, static_cast<const uint32_t *>(tensor),
           static_cast<uint32_t *>(packed));
  }
}

void unpack(const Pack &pack, const float *packed, float *tensor) {
  forEachRow(pack, [&](int64_t to, int64_t from, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i) {
      tensor[to + i * step] = packed[from + i];
    }
  });
}

} // namespace cleave::contraction
