//===- AttentionTest.cpp - Attention in blocks against plain loops --------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/Attention.h"

#include "numerics/Bfloat16.h"
#include "runtime/attention/Rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace cleave::attention;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One batch dim that all have, and one that only what belongs to queries has.
struct Problem {
  int64_t batch = 2, group = 2, queries = 5, keys = 7, over = 3, features = 4;
  bool causal = true;
  int64_t ahead = 0;
  bool narrow = false; ///< what is multiplied is bf16
  bool widens = true;

  int64_t rowsOf(Tensor t) const {
    return t == Tensor::Key || t == Tensor::Value || t == Tensor::KeyGradient ||
                   t == Tensor::ValueGradient
               ? keys
               : queries;
  }
  bool hasGroup(Tensor t) const {
    return rowsOf(t) == queries && t != Tensor::Key && t != Tensor::Value &&
           t != Tensor::KeyGradient && t != Tensor::ValueGradient;
  }
  int64_t widthOf(Tensor t) const {
    return t == Tensor::Sum || t == Tensor::Mean ? 1
           : t == Tensor::Query || t == Tensor::Key ||
                   t == Tensor::QueryGradient || t == Tensor::KeyGradient
               ? over
               : features;
  }
  /// [batch, rows, group, width]: heads lie interleaved.
  int64_t at(Tensor t, int64_t b, int64_t g, int64_t row, int64_t w) const {
    int64_t groups = hasGroup(t) ? group : 1;
    return ((b * rowsOf(t) + row) * groups + (hasGroup(t) ? g : 0)) *
               widthOf(t) +
           w;
  }
  int64_t elements(Tensor t) const {
    return batch * rowsOf(t) * (hasGroup(t) ? group : 1) * widthOf(t);
  }
  Shape shape() const {
    Shape shape;
    shape.queries = queries;
    shape.keys = keys;
    shape.over = over;
    shape.features = features;
    shape.causal = causal;
    shape.ahead = ahead;
    shape.narrow = narrow;
    shape.scale = 0.5f;
    shape.batches = 2;
    shape.batch[0].size = batch;
    shape.batch[1].size = group;
    for (size_t i = 0; i < tensors; ++i) {
      auto t = static_cast<Tensor>(i);
      int64_t groups = hasGroup(t) ? group : 1;
      shape.row[t] = groups * widthOf(t);
      shape.batch[0].stride[t] = rowsOf(t) * groups * widthOf(t);
      shape.batch[1].stride[t] = hasGroup(t) ? widthOf(t) : 0;
    }
    return shape;
  }
};

using Numbers = std::vector<double>;

double rounded(double x) {
  return cleave::numerics::fromBfloat16(
      cleave::numerics::toBfloat16(static_cast<float>(x)));
}

/// Everything in double, with all scores at once.
Each<Numbers> plain(const Problem &p, const Each<std::vector<float>> &in) {
  Each<Numbers> out;
  for (Tensor t :
       {Tensor::Sum, Tensor::Out, Tensor::Mean, Tensor::QueryGradient,
        Tensor::KeyGradient, Tensor::ValueGradient}) {
    out[t].assign(p.elements(t), 0);
  }
  auto x = [&](Tensor t, int64_t b, int64_t g, int64_t row, int64_t w) {
    return double(in[t][p.at(t, b, g, row, w)]);
  };
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t g = 0; g < p.group; ++g) {
      for (int64_t i = 0; i < p.queries; ++i) {
        Numbers score(p.keys, -kInfinity), products(p.keys, 0);
        double most = -kInfinity, total = 0, mean = 0;
        for (int64_t j = 0; j < p.keys; ++j) {
          if (p.causal && j > i + p.ahead) {
            continue;
          }
          score[j] = 0;
          for (int64_t c = 0; c < p.over; ++c) {
            score[j] +=
                0.5 * x(Tensor::Query, b, g, i, c) * x(Tensor::Key, b, g, j, c);
          }
          most = std::max(most, score[j]);
        }
        // Forward, weights are rounded before they are divided by their sum.
        Numbers weight(p.keys);
        double power = M_LN2 * std::ceil(most / M_LN2);
        for (int64_t j = 0; j < p.keys; ++j) {
          bool isHidden = std::isinf(score[j]);
          weight[j] = isHidden ? 0 : std::exp(score[j] - power);
          weight[j] = p.narrow ? rounded(weight[j]) : weight[j];
          weight[j] *= isHidden ? 0 : std::exp(power - most);
          score[j] = isHidden ? 0 : std::exp(score[j] - most);
          total += score[j];
        }
        out[Tensor::Sum][p.at(Tensor::Sum, b, g, i, 0)] =
            most + std::log(total);
        for (int64_t j = 0; j < p.keys; ++j) {
          score[j] = total > 0 ? score[j] / total : 0;
          weight[j] = total > 0 ? weight[j] / total : 0;
          double ofGradient = p.narrow ? rounded(score[j]) : score[j];
          for (int64_t f = 0; f < p.features; ++f) {
            double v = x(Tensor::Value, b, g, j, f);
            double dout = x(Tensor::OutGradient, b, g, i, f);
            out[Tensor::Out][p.at(Tensor::Out, b, g, i, f)] += weight[j] * v;
            products[j] += dout * v;
            out[Tensor::ValueGradient]
               [p.at(Tensor::ValueGradient, b, g, j, f)] += ofGradient * dout;
          }
          mean += score[j] * products[j];
        }
        out[Tensor::Mean][p.at(Tensor::Mean, b, g, i, 0)] = mean;
        for (int64_t j = 0; j < p.keys; ++j) {
          double ds = 0.5 * score[j] * (products[j] - mean);
          ds = p.narrow ? rounded(ds) : ds;
          for (int64_t c = 0; c < p.over; ++c) {
            out[Tensor::QueryGradient]
               [p.at(Tensor::QueryGradient, b, g, i, c)] +=
                ds * x(Tensor::Key, b, g, j, c);
            out[Tensor::KeyGradient][p.at(Tensor::KeyGradient, b, g, j, c)] +=
                ds * x(Tensor::Query, b, g, i, c);
          }
        }
      }
    }
  }
  return out;
}

class Check {
public:
  explicit Check(const Problem &problem) : p(problem) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (Tensor t :
         {Tensor::Query, Tensor::Key, Tensor::Value, Tensor::OutGradient}) {
      in[t].resize(p.elements(t));
      for (float &x : in[t]) {
        x = normal(random);
        if (p.narrow) {
          halves[t].push_back(cleave::numerics::toBfloat16(x));
          x = cleave::numerics::fromBfloat16(halves[t].back());
        }
      }
    }
    wanted = plain(p, in);
    for (Tensor t : {Tensor::Sum, Tensor::Mean}) {
      in[t].assign(wanted[t].begin(), wanted[t].end());
    }
  }

  /// Runs with these results, everything else that is needed read.
  Each<std::vector<float>> run(std::vector<Tensor> reads,
                               std::vector<Tensor> makes, bool makesSum) {
    Each<std::vector<float>> out;
    Each<void *> data;
    for (Tensor t : reads) {
      in[t].reserve(1); // what is empty has an address too
      halves[t].reserve(1);
      bool isNarrow = p.narrow && t != Tensor::Sum && t != Tensor::Mean;
      data[t] = isNarrow ? static_cast<void *>(halves[t].data()) : in[t].data();
    }
    for (Tensor t : makes) {
      out[t].assign(p.elements(t) + 1, kNaN); // with a guard behind
      data[t] = out[t].data();
    }
    Shape shape = p.shape();
    shape.makesSum = makesSum;
    int64_t bytes = cleave::format::attentionScratchBytes(
        p.narrow, std::max(p.over, p.features));
    std::vector<float> scratch(bytes / 4 + 1, kNaN);
    cleave::attention::run(shape, data, scratch.data(), p.widens);
    EXPECT_TRUE(std::isnan(scratch.back())) << "wrote past the scratch";
    for (Tensor t : makes) {
      EXPECT_TRUE(std::isnan(out[t].back())) << "wrote past the end";
      out[t].pop_back();
      compare(t, out[t]);
    }
    return out;
  }

  void all() {
    using enum Tensor;
    run({Query, Key}, {Sum}, true);
    auto once = run({Query, Key, Value}, {Sum, Out}, true);
    auto again = run({Query, Key, Value}, {Sum, Out}, true);
    EXPECT_EQ(once[Out], again[Out]) << "other bits";
    run({Query, Key, Value, Sum}, {Out}, false);
    std::vector<Tensor> reads = {Query, Key, Value, Sum, Mean, OutGradient};
    run(reads, {QueryGradient, KeyGradient, ValueGradient}, false);
    run(reads, {QueryGradient}, false);
    run(reads, {KeyGradient}, false);
    run({Query, Key, Sum, OutGradient}, {ValueGradient}, false);
  }

private:
  void compare(Tensor t, const std::vector<float> &found) {
    double largest = 1e-3;
    for (double x : wanted[t]) {
      largest = std::isinf(x) ? largest : std::max(largest, std::fabs(x));
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isinf(wanted[t][i])) {
        ASSERT_EQ(found[i], wanted[t][i]);
        continue;
      }
      // A number near the middle of two of bf16 may become the other one.
      double error = p.narrow ? 0x1p-8 / 4 : 3e-6;
      ASSERT_NEAR(found[i], wanted[t][i], error * largest)
          << "element " << i << " of tensor " << static_cast<int>(t);
    }
  }

  Problem p;
  Each<std::vector<float>> in;
  Each<std::vector<uint16_t>> halves;
  Each<Numbers> wanted;
};

} // namespace

TEST(Attention, EqualsPlainLoops) {
  Check({}).all();
  // Several blocks of queries and of keys, with ends of blocks.
  Check({1, 1, 77, 77, 20, 20}).all();
  Check({1, 3, 130, 300, 8, 16}).all();
  Check({2, 1, 64, 256, 16, 16}).all();
  Check({1, 1, 1, 1, 1, 1}).all();
  Problem open{2, 2, 70, 530, 5, 9};
  open.causal = false;
  Check(open).all();
}

TEST(Attention, PiecesOfASequence) {
  // Later queries, and queries some or all of which see no key.
  for (int64_t ahead : {100, 3, -3, -40, -1000}) {
    Problem problem{1, 2, 70, 300, 8, 8};
    problem.ahead = ahead;
    Check(problem).all();
  }
}

TEST(Attention, OfBF16) {
  bool hasNarrow = __builtin_cpu_supports("avx512bw");
  for (bool widens : {true, false}) {
    for (Problem problem : {Problem(), Problem{1, 3, 130, 300, 8, 16},
                            Problem{2, 1, 77, 77, 20, 12}}) {
      problem.narrow = true;
      problem.widens = widens || !hasNarrow;
      Check(problem).all();
      problem.ahead = -40;
      Check(problem).all();
    }
  }
}

TEST(Attention, NothingInNothingOut) {
  Check({0, 2, 5, 7, 3, 4}).all();
  Check({1, 2, 0, 7, 3, 4}).all();
  Check({1, 1, 5, 0, 3, 4}).all();
}

namespace {

std::vector<const Rows *> everyRows() {
  std::vector<const Rows *> all = {&baseline::rows};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back(&avx2::rows);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    all.push_back(&avx512::rows);
  }
  return all;
}

} // namespace

TEST(AttentionRows, WeightsAreExponentials) {
  constexpr int64_t keys = cleave::format::attentionKeys;
  for (const Rows *rows : everyRows()) {
    for (float from = -90; from < 0; from += 1.7f) {
      std::vector<float> scores(keys);
      for (int64_t i = 0; i < keys; ++i) {
        scores[i] = from + static_cast<float>(i) * 0.0066f;
      }
      std::vector<float> weights = scores;
      float sum = 0;
      rows->weigh({1, keys, keys, 1.0f}, weights.data(), &sum);
      for (int64_t i = 0; i < keys; ++i) {
        double wanted = std::exp(double(scores[i]));
        double error = std::fabs(weights[i] - wanted);
        // Below that, zero: it is nothing beside a weight of the same row.
        ASSERT_LE(error, scores[i] < -86 ? 1e-37 : 1.5e-7 * wanted)
            << "at " << scores[i];
      }
    }
  }
}

TEST(AttentionRows, HiddenKeysHaveNoWeightAndNaNStays) {
  constexpr int64_t keys = cleave::format::attentionKeys;
  for (const Rows *rows : everyRows()) {
    std::vector<float> scores(2 * keys, kNaN);
    std::fill_n(scores.begin(), 3, 1.0f);
    std::fill_n(scores.begin() + keys, 4, 1.0f);
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {}, shrink[2];
    rows->advance({2, 40, 3, 1.0f}, scores.data(), most, total, shrink);
    EXPECT_EQ(total[0], 3);
    EXPECT_EQ(total[1], 4);
    for (int64_t i = 3; i < 40; ++i) {
      EXPECT_EQ(scores[i], 0);
    }
    scores[1] = kNaN;
    rows->advance({1, 40, 3, 1.0f}, scores.data(), most, total, shrink);
    EXPECT_TRUE(std::isnan(total[0]));
  }
}
