#include "lang/run/Run.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::run;
using format::Metric;

// Counts that never go down while a run goes on.
static bool grows(Metric metric) {
  return metric == Metric::Step || metric == Metric::Samples ||
         metric == Metric::Tokens || metric == Metric::WallTime;
}

static bool isCount(Metric metric) {
  return metric == Metric::Step || metric == Metric::Samples ||
         metric == Metric::Tokens || metric == Metric::Batch;
}

bool run::becomesTrueOnce(const Condition &condition) {
  return !condition.isPartly &&
         std::all_of(condition.bounds.begin(), condition.bounds.end(),
                     [](const Condition::Bounds &bounds) {
                       return grows(bounds.metric) ||
                              (bounds.metric == Metric::Batch &&
                               std::isinf(bounds.interval.high));
                     });
}

// What the metric can be at all, after a step.
static Interval rangeOf(Metric metric, const std::vector<int64_t> &batches) {
  Interval range;
  // Estimates of noise may be negative by chance.
  if (metric == Metric::Loss || metric == Metric::GradientNoise) {
    return range;
  }
  range.low = isCount(metric) ? 1 : 0;
  if (metric == Metric::Batch && !batches.empty()) {
    range.low = static_cast<double>(batches.front());
    range.high = static_cast<double>(batches.back());
  }
  return range;
}

// Whole numbers only.
static Interval counted(Interval interval) {
  double low = std::ceil(interval.low), high = std::floor(interval.high);
  if (low == interval.low && interval.lowOpen) {
    low += 1;
  }
  if (high == interval.high && interval.highOpen) {
    high -= 1;
  }
  return {low, high, false, false};
}

std::string run::whyNever(const Condition &condition,
                          const std::vector<int64_t> &batches) {
  if (condition.constant) {
    return *condition.constant ? ""
                               : "the condition is false, whatever happens";
  }
  for (const Condition::Bounds &bounds : condition.bounds) {
    Interval range = rangeOf(bounds.metric, batches);
    Interval interval =
        isCount(bounds.metric) ? counted(bounds.interval) : bounds.interval;
    if (interval.isEmpty()) {
      return "`" + bounds.what + "` cannot be all that the condition asks for";
    }
    if (interval.low > range.high || interval.high < range.low ||
        (interval.high == range.low && interval.highOpen)) {
      return "`" + bounds.what + "` is never so" +
             (bounds.metric == Metric::Step
                  ? ": rules are looked at after a step, from step 1 on"
                  : "");
    }
  }
  return "";
}

bool run::mayAlternate(const Condition &a, const Condition &b) {
  for (const Condition::Bounds &one : a.bounds) {
    for (const Condition::Bounds &other : b.bounds) {
      if (one.what == other.what && (one.interval.high < other.interval.low ||
                                     other.interval.high < one.interval.low)) {
        return false;
      }
    }
  }
  return true;
}
