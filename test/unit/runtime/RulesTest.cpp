//===- RulesTest.cpp - When rules fire ------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/policy/Rules.h"

#include <gtest/gtest.h>

#include <cmath>

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
