//===- ContractionBench.cpp - Rates of typical contractions ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints GFLOP/s on one thread for contractions as models write them: of f32,
// and of bf16 as this processor multiplies it.
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Contraction.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

using namespace cleave::contraction;

namespace {

using Sizes = std::map<char, int64_t>;

/// `bsk,btk->bst` with sizes by letter, each tensor row major.
Shape shapeOf(const std::string &text, const Sizes &sizes) {
  std::string parts[3];
  size_t comma = text.find(','), arrow = text.find("->");
  parts[0] = text.substr(0, comma);
  parts[1] = text.substr(comma + 1, arrow - comma - 1);
  parts[2] = text.substr(arrow + 2);
  Shape shape;
  for (auto [letter, size] : sizes) {
    Dim dim{size};
    int64_t *strides[] = {&dim.lhs, &dim.rhs, &dim.out};
    bool used = false;
    for (int i = 0; i < 3; ++i) {
      size_t at = parts[i].find(letter);
      if (at == std::string::npos) {
        continue;
      }
      used = true;
      *strides[i] = 1;
      for (size_t j = at + 1; j < parts[i].size(); ++j) {
        *strides[i] *= sizes.at(parts[i][j]);
      }
    }
    if (used) {
      shape.push_back(dim);
    }
  }
  return shape;
}

void bench(const char *name, const std::string &text, const Sizes &sizes,
           Factor factor) {
  using Clock = std::chrono::steady_clock;
  Shape shape = shapeOf(text, sizes);
  double products = 1, lhs = 1, rhs = 1, out = 1;
  for (const Dim &dim : shape) {
    products *= dim.size;
    lhs *= dim.lhs == Dim::absent ? 1 : dim.size;
    rhs *= dim.rhs == Dim::absent ? 1 : dim.size;
    out *= dim.out == Dim::absent ? 1 : dim.size;
  }
  std::vector<float> a(lhs, 1.0f), b(rhs, 1.0f), c(out);
  Contractor contractor;
  Clock::time_point before = Clock::now();
  const Prepared *prepared = contractor.prepare(shape, Order::Any, factor);
  double create = std::chrono::duration<double>(Clock::now() - before).count();
  int repeats = std::max(1, static_cast<int>(1e9 / (products + 1e4)));
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    before = Clock::now();
    for (int i = 0; i < repeats; ++i) {
      contractor.execute(prepared, a.data(), b.data(), c.data());
    }
    double time = std::chrono::duration<double>(Clock::now() - before).count();
    best = std::min(best, time / repeats);
  }
  std::printf("%-28s %s %7.1f GFLOP/s %9.2f us, prepare %.2f ms, %s\n", name,
              factor == Factor::BF16 ? "bf16" : "f32 ",
              2 * products / best / 1e9, best * 1e6, create * 1e3,
              Contractor::describe(prepared));
}

void bench(const char *name, const std::string &text, const Sizes &sizes) {
  bench(name, text, sizes, Factor::F32);
  bench(name, text, sizes, Factor::BF16);
}

} // namespace

int main() {
  Contractor::enterThread();
  Sizes heads = {{'b', 4}, {'s', 256}, {'t', 256}, {'v', 6},
                 {'g', 1}, {'k', 64},  {'e', 384}, {'f', 1536}};
  bench("linear", "bse,ef->bsf", heads);
  bench("linear, input gradient", "bsf,ef->bse", heads);
  bench("linear, weight gradient", "bse,bsf->ef", heads);
  bench("project q", "bse,evgk->bsvgk", heads);
  bench("project q, weight gradient", "bse,bsvgk->evgk", heads);
  bench("project out", "bsvgk,vgke->bse", heads);
  bench("scores", "bsvgk,btvk->bvgst", heads);
  bench("scores, seq first", "bsvgk,btvk->bsvgt", heads);
  bench("values", "bvgst,btvk->bsvgk", heads);
  bench("values, gradient of p", "bsvgk,btvk->bvgst", heads);
  bench("values, gradient of v", "bvgst,bsvgk->btvk", heads);
  Sizes grouped = heads;
  grouped['v'] = 3;
  grouped['g'] = 2;
  bench("scores, grouped", "bsvgk,btvk->bvgst", grouped);
  bench("values, grouped", "bvgst,btvk->bsvgk", grouped);
  bench("values, grouped, of v", "bvgst,bsvgk->btvk", grouped);
  bench("result transposed", "bse,ef->fbs", heads);
  bench("odd", "mk,kn->mn", {{'m', 77}, {'n', 91}, {'k', 100}});
  bench("tiny", "mk,kn->mn", {{'m', 8}, {'n', 8}, {'k', 8}});
  bench("matrix times vector", "mk,k->m", {{'m', 512}, {'k', 512}});
  bench("vector times matrix", "k,kn->n", {{'n', 512}, {'k', 512}});
  bench("outer product", "m,n->mn", {{'m', 512}, {'n', 512}});
  bench("summed middle", "amkb,bkn->man",
        {{'a', 8}, {'m', 64}, {'k', 16}, {'b', 16}, {'n', 128}});
  return 0;
}
