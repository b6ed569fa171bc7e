//===- VerifyRun.cpp - Whether the rules of a run make sense --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Verify.h"

#include <algorithm>

namespace cleave::format {

static Status verifyMeasure(const MeasureT &measure) {
  if (measure.metric > Metric::MAX || measure.statistic > Statistic::MAX ||
      measure.traffic > TrafficKind::MAX) {
    return Status::error("it reads an unknown metric");
  }
  if (measure.metric == Metric::StageTime &&
      (measure.statistic == Statistic::Last || measure.window != 1)) {
    return Status::error("it reads the time of stages, and not what of it");
  }
  if (measure.window < 1 || measure.window > longestWindow) {
    return Status::error("it reads a window of " +
                         std::to_string(measure.window) + " steps");
  }
  return Status();
}

/// How many numbers a term takes; it leaves one.
static size_t operandsOf(TermKind kind) {
  switch (kind) {
  case TermKind::Number:
  case TermKind::Measure:
    return 0;
  case TermKind::Negate:
  case TermKind::Not:
    return 1;
  default:
    return 2;
  }
}

static Status verifyCondition(const RuleT &rule) {
  if (rule.condition.size() > mostTerms) {
    return Status::error("its condition is too long");
  }
  size_t height = 0;
  for (const auto &term : rule.condition) {
    if (term->kind > TermKind::MAX) {
      return Status::error("its condition has an unknown operation");
    }
    if ((term->kind == TermKind::Measure) != (term->measure != nullptr)) {
      return Status::error("its condition reads a metric where there is none");
    }
    if (term->measure) {
      CLEAVE_TRY(verifyMeasure(*term->measure));
    }
    size_t operands = operandsOf(term->kind);
    if (height < operands) {
      return Status::error("its condition lacks an operand");
    }
    height += 1 - operands;
  }
  return height == 1 ? Status()
                     : Status::error("its condition is not one expression");
}

/// What rules need to know of the optimizer.
static Status verifyMean(const RunT &run) {
  if (const GradientMeanT *mean = run.gradient_mean.get()) {
    return mean->keep >= 0 && mean->keep < 1 && mean->limit > 0
               ? Status()
               : Status::error("its mean of gradients has impossible numbers");
  }
  for (const auto &rule : run.rules) {
    for (const auto &term : rule->condition) {
      if (term->measure && (term->measure->metric == Metric::GradientNoise ||
                            term->measure->metric == Metric::GradientSignal)) {
        return Status::error("a rule reads the noise of gradients, of which no "
                             "leaf is a mean");
      }
    }
  }
  return Status();
}

static Status verifyRule(const RuleT &rule, const PlanSetT &set) {
  CLEAVE_TRY(verifyCondition(rule));
  if (rule.during < 1) {
    return Status::error("it asks for no step");
  }
  if (rule.action > RuleAction::MAX) {
    return Status::error("its action is unknown");
  }
  bool counts =
      rule.action == RuleAction::Micros || rule.action == RuleAction::Batch;
  if (counts && (rule.amount < 1 || rule.amount > largestTensor)) {
    return Status::error("its action has an impossible number");
  }
  auto isTarget = [&](const auto &plan) {
    return plan->name == rule.plan || plan->of == rule.plan;
  };
  if (rule.action == RuleAction::Go &&
      std::none_of(set.plans.begin(), set.plans.end(), isTarget)) {
    return Status::error("it goes to plan `" + rule.plan +
                         "`, which the set does not hold");
  }
  return Status();
}

Status verifyRun(const RunT &run, const PlanSetT &set) {
  int64_t last = -1;
  for (const BatchChange &change : run.batches) {
    bool first = last < 0;
    if (change.samples() <= last || (first && change.samples() != 0) ||
        change.batch() < 1 || change.batch() > largestTensor) {
      return Status::error("its batches are not in order");
    }
    last = change.samples();
  }
  for (size_t i = 0; i < run.rules.size(); ++i) {
    CLEAVE_TRY(
        verifyRule(*run.rules[i], set).in("rule " + std::to_string(i + 1)));
  }
  return verifyMean(run);
}

} // namespace cleave::format
