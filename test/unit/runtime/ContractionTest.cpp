//===- ContractionTest.cpp - Contractions against plain loops -------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Contraction.h"

#include "numerics/Bfloat16.h"

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

/// Rounds to bf16; gives the same numbers as that.
std::vector<uint16_t> narrow(std::vector<float> &numbers) {
  std::vector<uint16_t> result;
  for (float &x : numbers) {
    result.push_back(cleave::numerics::toBfloat16(x));
    x = cleave::numerics::fromBfloat16(result.back());
  }
  return result;
}

void check(Contractor &contractor, const Problem &problem, std::mt19937 &random,
           Order order = Order::Any, Factor factor = Factor::F32) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> lhs(problem.lhs + 8), rhs(problem.rhs + 8);
  for (float &x : lhs) {
    x = uniform(random);
  }
  for (float &x : rhs) {
    x = uniform(random);
  }
  std::vector<uint16_t> left, right;
  bool isNarrow = factor == Factor::BF16;
  if (isNarrow) {
    left = narrow(lhs);
    right = narrow(rhs);
  }
  const float untouched = std::nanf("");
  std::vector<float> out(problem.out + 8, untouched);
  std::vector<double> expected(problem.out + 8, 0.0);
  std::vector<bool> written(problem.out + 8, false);
  naive(problem.shape, 0, 0, 0, 0, lhs, rhs, expected);
  mark(problem.shape, 0, 0, written);
  const Prepared *prepared = contractor.prepare(problem.shape, order, factor);
  if (isNarrow) {
    contractor.execute(prepared, left.data(), right.data(), out.data());
  } else {
    contractor.execute(prepared, lhs.data(), rhs.data(), out.data());
  }
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

/// out[batch, m, n] = sum over j, k of lhs[batch, m, j, k] * rhs[batch, k, j,
/// n] for a piece of it that is its own memory, in one of two orders of dims.
struct Piece {
  int64_t m, rows, n, columns;
  bool swapped;
};

constexpr int64_t wholeB = 2, wholeM = 37, wholeN = 70, wholeJ = 3,
                  wholeK = 211;

float valueAt(uint64_t tensor, int64_t b, int64_t i, int64_t j, int64_t k) {
  std::minstd_rand random(static_cast<uint32_t>(
      ((tensor * 7 + b) * 1000 + i) * 1000000 + j * 1000 + k + 1));
  random.discard(3);
  return std::uniform_real_distribution<float>(-1, 1)(random);
}

/// The piece's elements as [batch, m, n].
std::vector<float> contractPiece(Contractor &contractor, const Piece &piece) {
  int64_t sums = wholeJ * wholeK;
  auto [m, rows, n, columns, swapped] = piece;
  std::vector<float> lhs(wholeB * rows * sums), rhs(wholeB * columns * sums),
      out(wholeB * rows * columns), plain(out.size());
  // lhs [b m j k] or [b k j m]; rhs [b n k j] or [b j k n]; out [b m n], [b n
  // m]
  std::array<int64_t, 3> l = swapped
                                 ? std::array{int64_t(1), rows, rows * wholeJ}
                                 : std::array{sums, wholeK, int64_t(1)};
  std::array<int64_t, 3> r =
      swapped ? std::array{int64_t(1), columns * wholeK, columns}
              : std::array{sums, int64_t(1), wholeJ};
  int64_t outM = swapped ? 1 : columns, outN = swapped ? rows : 1;
  for (int64_t b = 0; b < wholeB; ++b) {
    for (int64_t j = 0; j < wholeJ; ++j) {
      for (int64_t k = 0; k < wholeK; ++k) {
        for (int64_t i = 0; i < rows; ++i) {
          lhs[b * rows * sums + i * l[0] + j * l[1] + k * l[2]] =
              valueAt(0, b, m + i, j, k);
        }
        for (int64_t i = 0; i < columns; ++i) {
          rhs[b * columns * sums + i * r[0] + j * r[1] + k * r[2]] =
              valueAt(1, b, n + i, j, k);
        }
      }
    }
  }
  Shape shape = {
      {wholeB, rows * sums, columns * sums, rows * columns},
      {wholeJ, l[1], r[1]},
      {wholeK, l[2], r[2]},
      {rows, l[0], Dim::absent, outM},
      {columns, Dim::absent, r[0], outN},
  };
  contractor.execute(contractor.prepare(shape, Order::Ordered), lhs.data(),
                     rhs.data(), out.data());
  for (int64_t b = 0; b < wholeB; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        plain[(b * rows + i) * columns + j] =
            out[b * rows * columns + i * outM + j * outN];
      }
    }
  }
  return plain;
}

/// Counts how each kind of execution was met.
void sweep(uint32_t seed, int count, bool unusual,
           std::map<std::string, int> &met, Factor factor = Factor::F32,
           bool widens = true) {
  Contractor::enterThread();
  std::mt19937 random(seed);
  Contractor contractor(widens);
  for (int i = 0; i < count; ++i) {
    Problem problem = randomProblem(random, unusual);
    check(contractor, problem, random, Order::Any, factor);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
    ++met[Contractor::describe(
        contractor.prepare(problem.shape, Order::Any, factor))];
  }
}

} // namespace

TEST(Contraction, BF16) {
  std::map<std::string, int> widened, native;
  sweep(11, 600, true, widened, Factor::BF16, true);
  sweep(11, 600, true, native, Factor::BF16, false);
  auto usesBF16 = [](const std::map<std::string, int> &met) {
    return std::any_of(met.begin(), met.end(), [](const auto &entry) {
      return entry.first.find("bf16") != std::string::npos;
    });
  };
  EXPECT_FALSE(usesBF16(widened));
  EXPECT_EQ(usesBF16(native), __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_GT(widened["loops"], 0);
}

TEST(Contraction, BF16InOrder) {
  std::mt19937 random(12);
  Contractor contractor(false);
  for (int i = 0; i < 200; ++i) {
    check(contractor, randomProblem(random, true), random, Order::Ordered,
          Factor::BF16);
  }
}

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

TEST(Contraction, OrderedRandomDims) {
  std::mt19937 random(4);
  Contractor contractor;
  for (int i = 0; i < 1500 && !testing::Test::HasFatalFailure(); ++i) {
    check(contractor, randomProblem(random, i % 2 == 0), random,
          Order::Ordered);
  }
}

// An element's bits depend neither on the piece it is computed in nor on the
// order of dims in memory.
TEST(Contraction, OrderedPiecesHaveTheSameBits) {
  Contractor contractor;
  std::vector<float> whole =
      contractPiece(contractor, {0, wholeM, 0, wholeN, false});
  const Piece pieces[] = {
      {0, wholeM, 0, wholeN, true}, {0, 1, 0, wholeN, false},
      {5, 32, 3, 33, true},         {36, 1, 69, 1, false},
      {36, 1, 69, 1, true},         {7, 19, 0, 16, false},
      {0, wholeM, 31, 2, true}};
  for (const Piece &piece : pieces) {
    std::vector<float> part = contractPiece(contractor, piece);
    for (int64_t b = 0; b < wholeB; ++b) {
      for (int64_t i = 0; i < piece.rows; ++i) {
        for (int64_t j = 0; j < piece.columns; ++j) {
          ASSERT_EQ(part[(b * piece.rows + i) * piece.columns + j],
                    whole[(b * wholeM + piece.m + i) * wholeN + piece.n + j])
              << piece.m << " " << piece.n << " " << piece.swapped;
        }
      }
    }
  }
}

TEST(Contraction, OrderedTermsAreSums) {
  Contractor contractor;
  // out[m] = sum over k of lhs[m, k]; 256 terms are added in f32, blocks in
  // f64.
  constexpr int64_t rows = 3, terms = 1000;
  std::vector<float> lhs(rows * terms), out(rows);
  for (int64_t i = 0; i < rows * terms; ++i) {
    lhs[i] = valueAt(2, 0, i, 0, 0);
  }
  Shape shape = {{rows, terms, terms, 1}, {terms, 1, 1}};
  contractor.execute(contractor.prepare(shape, Order::OrderedTerms), lhs.data(),
                     lhs.data(), out.data());
  for (int64_t row = 0; row < rows; ++row) {
    double total = 0;
    for (int64_t first = 0; first < terms; first += 256) {
      float sum = 0;
      for (int64_t i = first; i < std::min(terms, first + 256); ++i) {
        sum += lhs[row * terms + i];
      }
      total += sum;
    }
    EXPECT_EQ(out[row], static_cast<float>(total));
  }
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
