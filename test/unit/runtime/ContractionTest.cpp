//===- ContractionTest.cpp - Contractions against plain loops -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Contraction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <thread>

using namespace cleave::contraction;

namespace {

struct Problem {
  Shape shape;
  int64_t lhs = 1, rhs = 1, out = 1; ///< elements
};

/// Gives the dims that `present` names strides in a random order of memory.
int64_t layOut(std::vector<Dim> &dims, int64_t Dim::*stride,
               const std::vector<bool> &present, std::mt19937 &random,
               bool shuffled) {
  std::vector<size_t> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (present[i]) {
      order.push_back(i);
    }
  }
  if (shuffled) {
    std::shuffle(order.begin(), order.end(), random);
  }
  int64_t step = 1;
  // Sometimes a gap, as in a slice of a larger tensor.
  if (random() % 16 == 0) {
    step = 2;
  }
  for (size_t i = order.size(); i-- > 0;) {
    dims[order[i]].*stride = step;
    step *= std::max<int64_t>(dims[order[i]].size, 1);
    if (random() % 12 == 0) {
      step += random() % 5;
    }
  }
  return step;
}

Problem randomProblem(std::mt19937 &random, bool unusual) {
  Problem problem;
  size_t rank = random() % 7;
  std::vector<bool> present[3];
  int64_t volume = 1;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 33, 70};
    Dim dim;
    dim.size = sizes[random() % std::size(sizes)];
    if (random() % 40 == 0) {
      dim.size = 0;
    }
    if (volume * std::max<int64_t>(dim.size, 1) > 60000) {
      dim.size = 1;
    }
    volume *= std::max<int64_t>(dim.size, 1);
    problem.shape.push_back(dim);
    // In two or three of the tensors; sometimes in one.
    int where =
        unusual ? 1 + random() % 7 : std::vector<int>{3, 5, 6, 7}[random() % 4];
    for (int side = 0; side < 3; ++side) {
      present[side].push_back(where >> side & 1);
    }
  }
  bool shuffled = random() % 2;
  problem.lhs = layOut(problem.shape, &Dim::lhs, present[0], random, shuffled);
  problem.rhs = layOut(problem.shape, &Dim::rhs, present[1], random, shuffled);
  problem.out = layOut(problem.shape, &Dim::out, present[2], random, shuffled);
  return problem;
}

void naive(const Shape &shape, size_t depth, int64_t l, int64_t r, int64_t o,
           const std::vector<float> &lhs, const std::vector<float> &rhs,
           std::vector<double> &out) {
  if (depth == shape.size()) {
    out[o] += double(lhs[l]) * double(rhs[r]);
    return;
  }
  const Dim &dim = shape[depth];
  auto step = [](int64_t stride) { return stride == Dim::absent ? 0 : stride; };
  for (int64_t i = 0; i < dim.size; ++i) {
    naive(shape, depth + 1, l + i * step(dim.lhs), r + i * step(dim.rhs),
          o + i * step(dim.out), lhs, rhs, out);
  }
}

/// Which elements of out the contraction writes.
void mark(const Shape &shape, size_t depth, int64_t o,
          std::vector<bool> &written) {
  if (depth == shape.size()) {
    written[o] = true;
    return;
  }
  const Dim &dim = shape[depth];
  if (dim.out == Dim::absent) {
    return mark(shape, depth + 1, o, written);
  }
  for (int64_t i = 0; i < dim.size; ++i) {
    mark(shape, depth + 1, o + i * dim.out, written);
  }
}

std::string textOf(const Shape &shape) {
  std::string text;
  for (const Dim &dim : shape) {
    text += "[" + std::to_string(dim.size) + ": " + std::to_string(dim.lhs) +
            " " + std::to_string(dim.rhs) + " " + std::to_string(dim.out) +
            "] ";
  }
  return text;
}

void check(Contractor &contractor, const Problem &problem,
           std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> lhs(problem.lhs + 8), rhs(problem.rhs + 8);
  for (float &x : lhs) {
    x = uniform(random);
  }
  for (float &x : rhs) {
    x = uniform(random);
  }
  const float untouched = std::nanf("");
  std::vector<float> out(problem.out + 8, untouched);
  std::vector<double> expected(problem.out + 8, 0.0);
  std::vector<bool> written(problem.out + 8, false);
  naive(problem.shape, 0, 0, 0, 0, lhs, rhs, expected);
  mark(problem.shape, 0, 0, written);
  const Prepared *prepared = contractor.prepare(problem.shape);
  contractor.execute(prepared, lhs.data(), rhs.data(), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!written[i]) {
      ASSERT_TRUE(std::isnan(out[i]))
          << "wrote outside, at " << i << " " << textOf(problem.shape)
          << Contractor::describe(prepared);
      continue;
    }
    ASSERT_NEAR(out[i], expected[i], 2e-4)
        << "at " << i << " " << textOf(problem.shape)
        << Contractor::describe(prepared);
  }
}

/// Counts how each kind of execution was met.
void sweep(uint32_t seed, int count, bool unusual,
           std::map<std::string, int> &met) {
  Contractor::enterThread();
  std::mt19937 random(seed);
  Contractor contractor;
  for (int i = 0; i < count; ++i) {
    Problem problem = randomProblem(random, unusual);
    check(contractor, problem, random);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
    ++met[Contractor::describe(contractor.prepare(problem.shape))];
  }
}

} // namespace

TEST(Contraction, RandomDims) {
  std::map<std::string, int> met;
  sweep(1, 4000, false, met);
  int packed = 0, accumulated = 0, products = 0;
  for (auto &[name, count] : met) {
    packed += name.find("packs") != std::string::npos ? count : 0;
    accumulated += name.find("accumulated") != std::string::npos ? count : 0;
    products += name.find("matmul") != std::string::npos ? count : 0;
  }
  // The sweep would prove little if it missed a way of executing.
  EXPECT_GT(products, 300);
  EXPECT_GT(packed, 30);
  EXPECT_GT(accumulated, 8);
  EXPECT_GT(met["loops"], 300);
  EXPECT_GT(met["zero"], 10);
  EXPECT_GT(met["nothing"], 10);
}

TEST(Contraction, DimsOfOneTensor) {
  std::map<std::string, int> met;
  sweep(2, 1500, true, met);
}

TEST(Contraction, Scalars) {
  Contractor contractor;
  float two = 2, three = 3, six = 0;
  contractor.execute(contractor.prepare({}), &two, &three, &six);
  EXPECT_EQ(six, 6);
}

TEST(Contraction, EmptySumIsZero) {
  Contractor contractor;
  // out[m, n] over an empty k.
  Shape shape = {{2, 0, Dim::absent, 3}, {3, Dim::absent, 1, 1}, {0, 1, 3}};
  float out[6] = {1, 2, 3, 4, 5, 6};
  contractor.execute(contractor.prepare(shape), nullptr, nullptr, out);
  for (float x : out) {
    EXPECT_EQ(x, 0);
  }
}

TEST(Contraction, ThreadsAgreeBitwise) {
  Shape shape = {{96, 128, Dim::absent, 80},
                 {80, Dim::absent, 1, 1},
                 {128, 1, 80, Dim::absent}};
  std::vector<float> lhs(96 * 128), rhs(128 * 80);
  std::mt19937 random(3);
  for (std::vector<float> *tensor : {&lhs, &rhs}) {
    for (float &x : *tensor) {
      x = std::uniform_real_distribution<float>(-1, 1)(random);
    }
  }
  std::vector<std::vector<float>> results(4, std::vector<float>(96 * 80));
  std::vector<std::thread> threads;
  for (std::vector<float> &out : results) {
    threads.emplace_back([&] {
      Contractor::enterThread();
      Contractor contractor;
      const Prepared *prepared = contractor.prepare(shape);
      for (int i = 0; i < 50; ++i) {
        contractor.execute(prepared, lhs.data(), rhs.data(), out.data());
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  for (std::vector<float> &out : results) {
    EXPECT_EQ(out, results.front());
  }
}
