//===- RulesTest.cpp - When rules fire ------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/policy/Rules.h"
#include "runtime/policy/Noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace cleave;
using namespace cleave::format;
using namespace cleave::policy;

namespace {

using Terms = std::vector<std::unique_ptr<TermT>>;

std::unique_ptr<TermT> term(TermKind kind, double number = 0) {
  auto result = std::make_unique<TermT>();
  result->kind = kind;
  result->number = number;
  return result;
}

std::unique_ptr<TermT> measure(Metric metric, Statistic statistic,
                               uint32_t window) {
  auto result = term(TermKind::Measure);
  result->measure = std::make_unique<MeasureT>();
  result->measure->metric = metric;
  result->measure->statistic = statistic;
  result->measure->window = window;
  return result;
}

/// `METRIC OP limit`.
std::unique_ptr<RuleT> rule(Metric metric, TermKind op, double limit,
                            uint32_t during = 1, uint32_t apart = 0) {
  auto result = std::make_unique<RuleT>();
  result->condition.push_back(measure(metric, Statistic::Last, 1));
  result->condition.push_back(term(TermKind::Number, limit));
  result->condition.push_back(term(op));
  result->during = during;
  result->apart = apart;
  return result;
}

TEST(Rules, StatisticsOverStages) {
  RunT run;
  auto spread = std::make_unique<RuleT>();
  spread->condition.push_back(measure(Metric::StageTime, Statistic::Spread, 1));
  spread->condition.push_back(term(TermKind::Number, 1.25));
  spread->condition.push_back(term(TermKind::Greater));
  spread->during = 2;
  run.rules.push_back(std::move(spread));
  Rules rules(run);
  EXPECT_TRUE(rules.reads(Metric::StageTime));
  std::vector<std::string> notes;
  auto fires = [&](const std::vector<double> &stages) {
    Readings readings;
    readings.stages = stages;
    return rules.after(readings, notes).size();
  };
  EXPECT_EQ(fires({1, 1.2, 1}), 0u);
  EXPECT_EQ(fires({1, 1.3, 1}), 0u);
  EXPECT_EQ(fires({1.3, 1.2, 1}), 1u); // for two steps
  EXPECT_EQ(fires({1.3, 1.2, 1}), 0u); // once
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(fires({}), 0u); // nobody measured
  EXPECT_EQ(notes.size(), 1u);
}

struct Driver {
  explicit Driver(RunT &run) : rules(run) {}

  /// Which rules fire after a step with this loss.
  std::vector<const RuleT *> after(double loss) {
    Readings readings;
    readings[Metric::Step] = ++step;
    readings[Metric::Loss] = loss;
    return rules.after(readings, notes);
  }
  /// The steps with these losses after which something fires.
  std::vector<int> firing(const std::vector<double> &losses) {
    std::vector<int> result;
    for (double loss : losses) {
      if (!after(loss).empty()) {
        result.push_back(step);
      }
    }
    return result;
  }

  Rules rules;
  int step = 0;
  std::vector<std::string> notes;
};

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

} // namespace

TEST(Rules, FireOnceUntilTheyHaveNotHeld) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2));
  EXPECT_EQ(Driver(run).firing({1, 3, 3, 3, 1, 3, 3}),
            (std::vector<int>{2, 6}));
}

TEST(Rules, HoldForSomeStepsInARow) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2, 3));
  EXPECT_EQ(Driver(run).firing({3, 3, 1, 3, 3, 3, 3, 1, 3, 3, 3}),
            (std::vector<int>{6, 11}));
}

// Also a rule that began to hold in the meantime fires, if it still holds.
TEST(Rules, WaitAfterAHop) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2, 1, 4));
  Driver driver(run);
  EXPECT_EQ(driver.firing({3}), (std::vector<int>{1}));
  driver.rules.hopped();
  EXPECT_EQ(driver.firing({1, 3, 1, 3, 3}), (std::vector<int>{5}));
}

TEST(Rules, WhatIsMissingFiresNothingAndIsNotedOnce) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2));
  run.rules.back()->text = "when loss > 2 -> stop";
  Driver driver(run);
  EXPECT_EQ(driver.firing({missing, missing, 3, missing, 3}),
            (std::vector<int>{3, 5}));
  ASSERT_EQ(driver.notes.size(), 1u);
  EXPECT_NE(driver.notes[0].find("`when loss > 2 -> stop`"), std::string::npos);
  EXPECT_NE(driver.notes[0].find("at step 1"), std::string::npos);
}

TEST(Rules, DivisionByZeroIsMissing) {
  RunT run; // 1 / loss > 2
  run.rules.push_back(std::make_unique<RuleT>());
  Terms &terms = run.rules[0]->condition;
  terms.push_back(term(TermKind::Number, 1));
  terms.push_back(measure(Metric::Loss, Statistic::Last, 1));
  terms.push_back(term(TermKind::Divide));
  terms.push_back(term(TermKind::Number, 2));
  terms.push_back(term(TermKind::Greater));
  Driver driver(run);
  EXPECT_EQ(driver.firing({0, 1, 0.25}), (std::vector<int>{3}));
  EXPECT_EQ(driver.notes.size(), 1u);
}

// What is false without the missing number is false, what is true is true.
TEST(Rules, MissingNumbersThatDecideNothing) {
  for (bool isOr : {false, true}) {
    RunT run; // step >= 2 and/or gradient_norm > 0
    run.rules.push_back(rule(Metric::Step, TermKind::GreaterEqual, 2));
    Terms &terms = run.rules[0]->condition;
    terms.push_back(measure(Metric::GradientNorm, Statistic::Last, 1));
    terms.push_back(term(TermKind::Number, 0));
    terms.push_back(term(TermKind::Greater));
    terms.push_back(term(isOr ? TermKind::Or : TermKind::And));
    Driver driver(run);
    EXPECT_EQ(driver.firing({1, 1, 1}),
              isOr ? std::vector<int>{2} : std::vector<int>{});
    EXPECT_EQ(driver.notes.size(), 1u);
    driver.notes.clear();
  }
}

TEST(Rules, Windows) {
  struct Case {
    Statistic statistic;
    double limit;
    std::vector<int> fires;
  };
  // Means of three: -, -, 2, 3, 10/3; largest: -, -, 3, 6, 6; by the smallest:
  // -, -, 3, 6, 6.
  for (const Case &each :
       {Case{Statistic::Mean, 2.5, {4}}, Case{Statistic::Max, 5, {4}},
        Case{Statistic::Spread, 2.9, {3}}}) {
    RunT run;
    run.rules.push_back(rule(Metric::Loss, TermKind::Greater, each.limit));
    run.rules[0]->condition[0] = measure(Metric::Loss, each.statistic, 3);
    Driver driver(run);
    EXPECT_EQ(driver.firing({1, 2, 3, 6, 1}), each.fires);
    EXPECT_TRUE(driver.notes.empty()); // while the window fills
  }
}

// A run that is cut anywhere and goes on from the text fires as one that is
// not.
TEST(Rules, GoOnFromTheirText) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2, 2, 3));
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2.2, 2));
  run.rules[1]->condition[0] = measure(Metric::Loss, Statistic::Mean, 3);
  std::vector<double> losses;
  for (int i = 0; i < 60; ++i) {
    losses.push_back(2.2 + std::sin(i * i) * 1.7);
  }
  std::vector<int> whole = Driver(run).firing(losses);
  EXPECT_GT(whole.size(), 5u);
  for (size_t cut = 0; cut <= losses.size(); ++cut) {
    Driver first(run), second(run);
    std::vector<int> fired =
        first.firing({losses.begin(), losses.begin() + cut});
    ASSERT_TRUE(second.rules.restore(first.rules.text()).ok());
    second.step = first.step;
    for (int step : second.firing({losses.begin() + cut, losses.end()})) {
      fired.push_back(step);
    }
    EXPECT_EQ(fired, whole) << cut;
  }
}

TEST(Rules, TextsOfOtherRulesAreRefused) {
  RunT run;
  run.rules.push_back(rule(Metric::Loss, TermKind::Greater, 2));
  Driver driver(run);
  for (const char *text :
       {"", "x", "2 0 5 0 0 0 0 0 0", "1 1 5 0 0 0", "1 0"}) {
    EXPECT_FALSE(driver.rules.restore(text).ok()) << text;
  }
  EXPECT_EQ(driver.firing({1, 3}), (std::vector<int>{2}));
}

TEST(Rules, BatchesBySamples) {
  RunT run;
  EXPECT_EQ(batchAt(run, 5), 0);
  run.batches = {BatchChange(0, 2), BatchChange(10, 4), BatchChange(30, 8)};
  std::vector<int64_t> batches;
  for (int64_t samples : {0, 9, 10, 29, 30, 1000}) {
    batches.push_back(batchAt(run, samples));
  }
  EXPECT_EQ(batches, (std::vector<int64_t>{2, 2, 4, 4, 8, 8}));
}

//===----------------------------------------------------------------------===//
// What devices send
//===----------------------------------------------------------------------===//

static std::unique_ptr<TermT> traffic(Metric metric, TrafficKind kind,
                                      const std::string &axis,
                                      Statistic statistic = Statistic::Last,
                                      uint32_t window = 1) {
  auto result = measure(metric, statistic, window);
  result->measure->traffic = kind;
  result->measure->axis = axis;
  return result;
}

TEST(Rules, TrafficByKindAndAxis) {
  RunT run;
  auto both = std::make_unique<RuleT>();
  both->condition.push_back(traffic(Metric::Bytes, TrafficKind::AllReduce, ""));
  both->condition.push_back(term(TermKind::Number, 100));
  both->condition.push_back(term(TermKind::Greater));
  both->condition.push_back(traffic(Metric::Time, TrafficKind::AllReduce,
                                    "data", Statistic::Mean, 2));
  both->condition.push_back(term(TermKind::Number, 0.5));
  both->condition.push_back(term(TermKind::Greater));
  both->condition.push_back(term(TermKind::And));
  run.rules.push_back(std::move(both));
  auto ratio = std::make_unique<RuleT>(); // asks for the first again
  ratio->condition.push_back(traffic(Metric::Time, TrafficKind::Send, ""));
  ratio->condition.push_back(
      traffic(Metric::Bytes, TrafficKind::AllReduce, ""));
  ratio->condition.push_back(term(TermKind::Divide));
  ratio->condition.push_back(term(TermKind::Number, 1));
  ratio->condition.push_back(term(TermKind::Less));
  run.rules.push_back(std::move(ratio));
  auto anywhere = std::make_unique<RuleT>(); // on another axis than the first
  anywhere->condition.push_back(
      traffic(Metric::Time, TrafficKind::AllReduce, ""));
  anywhere->condition.push_back(term(TermKind::Number, 9));
  anywhere->condition.push_back(term(TermKind::Greater));
  run.rules.push_back(std::move(anywhere));
  Rules rules(run);
  ASSERT_EQ(rules.traffic().size(), 4u);
  EXPECT_EQ(rules.traffic()[0]->traffic, TrafficKind::AllReduce);
  EXPECT_EQ(rules.traffic()[1]->axis, "data");
  EXPECT_EQ(rules.traffic()[2]->traffic, TrafficKind::Send);
  std::vector<std::string> notes;
  auto fires = [&](const std::vector<double> &values) {
    Readings readings;
    readings.traffic = values;
    std::vector<int> fired;
    for (const RuleT *rule : rules.after(readings, notes)) {
      fired.push_back(rule == run.rules[0].get()   ? 0
                      : rule == run.rules[1].get() ? 1
                                                   : 2);
    }
    return fired;
  };
  using Fired = std::vector<int>;
  EXPECT_EQ(fires({200, 1, 300, 4}), Fired{});
  EXPECT_EQ(fires({200, 0.25, 100, 4}), (Fired{0, 1})); // a mean of 0.625
  EXPECT_EQ(fires({90, 4, 100, 10}), Fired{2});
  EXPECT_TRUE(notes.empty());
  // Nothing is sent: a division by zero, which neither fires nor ends the run.
  EXPECT_EQ(fires({0, 4, 0, 10}), Fired{});
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(fires({200, missing, 100, 4}), Fired{1});
  EXPECT_EQ(notes.size(), 2u);
  EXPECT_EQ(fires({}), Fired{}); // nobody measured
}

//===----------------------------------------------------------------------===//
// The noise of gradients
//===----------------------------------------------------------------------===//

static GradientMeanT gradientMean(double keep, double limit = 1e9) {
  GradientMeanT mean;
  mean.state = "first";
  mean.keep = keep;
  mean.limit = limit;
  return mean;
}

TEST(Noise, OfGradientsWithoutNoiseIsNone) {
  GradientMeanT mean = gradientMean(0.9);
  double moment = 0;
  for (uint64_t step = 1; step < 40; ++step) {
    moment = 0.9 * moment + 0.1 * 3; // all gradients are 3
    GradientEstimate estimate =
        estimateNoise(mean, 3, moment * moment, step, 8);
    if (step == 1) {
      EXPECT_TRUE(std::isnan(estimate.noise) && std::isnan(estimate.signal));
      continue;
    }
    EXPECT_NEAR(estimate.signal, 9, 1e-8) << step;
    EXPECT_NEAR(estimate.noise, 0, 1e-6) << step;
  }
}

// Batches of 4 samples whose gradients are a fixed vector and normal noise.
TEST(Noise, IsThatOfTheSamples) {
  constexpr size_t size = 60;
  constexpr double deviation = 1.5, batch = 4;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> truth(size), moment(size);
  double signal = 0;
  for (double &value : truth) {
    value = normal(random) * 0.3;
    signal += value * value;
  }
  for (double keep : {0.0, 0.9, 0.95}) {
    GradientMeanT mean = gradientMean(keep);
    double noiseSum = 0, signalSum = 0;
    std::fill(moment.begin(), moment.end(), 0);
    int count = 0;
    for (uint64_t step = 1; step <= 4000; ++step) {
      double norm = 0, squares = 0;
      for (size_t i = 0; i < size; ++i) {
        double gradient =
            truth[i] + deviation / std::sqrt(batch) * normal(random);
        moment[i] = keep * moment[i] + (1 - keep) * gradient;
        norm += gradient * gradient;
        squares += moment[i] * moment[i];
      }
      GradientEstimate estimate =
          estimateNoise(mean, std::sqrt(norm), squares, step, batch);
      if (keep == 0) {
        // The mean is the gradient: nothing can be told apart.
        EXPECT_FALSE(std::isfinite(estimate.signal));
        continue;
      }
      if (step >= 2) {
        noiseSum += estimate.noise;
        signalSum += estimate.signal;
        ++count;
      }
    }
    if (keep > 0) {
      double variance = deviation * deviation * size;
      EXPECT_NEAR(noiseSum / count, variance, 0.03 * variance) << keep;
      EXPECT_NEAR(signalSum / count, signal, 0.1 * signal) << keep;
    }
  }
}

TEST(Noise, IsOfClippedGradients) {
  GradientEstimate clipped = estimateNoise(gradientMean(0.5, 2), 10, 3, 4, 1);
  GradientEstimate small = estimateNoise(gradientMean(0.5, 9), 2, 3, 4, 1);
  EXPECT_EQ(clipped.signal, small.signal);
  EXPECT_EQ(clipped.noise, small.noise);
}

// `noise_scale > 5` and its mean: noise / (signal * (signal > 0)).
TEST(Rules, NoiseScaleIsARatioOfMeans) {
  RunT run;
  auto add = [&](Statistic statistic, uint32_t window) {
    auto rule = std::make_unique<RuleT>();
    auto &terms = rule->condition;
    terms.push_back(measure(Metric::GradientNoise, statistic, window));
    terms.push_back(measure(Metric::GradientSignal, statistic, window));
    terms.push_back(measure(Metric::GradientSignal, statistic, window));
    terms.push_back(term(TermKind::Number, 0));
    terms.push_back(term(TermKind::Greater));
    terms.push_back(term(TermKind::Multiply));
    terms.push_back(term(TermKind::Divide));
    terms.push_back(term(TermKind::Number, 5));
    terms.push_back(term(TermKind::Less));
    run.rules.push_back(std::move(rule));
  };
  add(Statistic::Last, 1);
  add(Statistic::Mean, 3);
  Rules rules(run);
  std::vector<std::string> notes;
  int step = 0;
  auto fires = [&](double noise, double signal) {
    Readings readings;
    readings[Metric::Step] = ++step;
    readings[Metric::GradientNoise] = noise;
    readings[Metric::GradientSignal] = signal;
    std::vector<int> fired;
    for (const RuleT *rule : rules.after(readings, notes)) {
      fired.push_back(rule == run.rules[0].get() ? 0 : 1);
    }
    return fired;
  };
  using Fired = std::vector<int>;
  EXPECT_EQ(fires(missing, missing), Fired{}); // the first step has none
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(fires(10, 1), Fired{});
  EXPECT_EQ(fires(1, 1), Fired{0});
  EXPECT_EQ(fires(10, 2), Fired{}); // 5, and (10 + 1 + 10) / (1 + 1 + 2)
  EXPECT_EQ(fires(1, 2), (Fired{0, 1}));
  // Lost in noise: a negative ratio would be less than 5.
  EXPECT_EQ(fires(10, -1), Fired{});
  EXPECT_EQ(notes.size(), 1u);
}
