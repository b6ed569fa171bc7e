//===- Rules.cpp - What a run does between steps --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/policy/Rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace cleave::policy {

using format::MeasureT;
using format::Metric;
using format::Statistic;
using format::TermKind;

static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

static bool isTraffic(const MeasureT &measure) {
  return measure.metric == Metric::Bytes || measure.metric == Metric::Time;
}

static bool isSameTraffic(const MeasureT &a, const MeasureT &b) {
  return a.metric == b.metric && a.traffic == b.traffic && a.axis == b.axis;
}

/// Not there after the first step of a run, and no reason for a note.
static bool isEstimate(const MeasureT &measure) {
  return measure.metric == Metric::GradientNoise ||
         measure.metric == Metric::GradientSignal;
}

Rules::Rules(const format::RunT &run) : run(run) {
  for (const auto &table : run.rules) {
    rules.push_back({table.get()});
    for (const auto &term : table->condition) {
      const MeasureT *measure = term->measure.get();
      if (measure && measure->statistic != Statistic::Last &&
          measure->metric != Metric::StageTime) {
        windows.push_back({measure, std::vector<double>(measure->window)});
      }
      if (measure && isTraffic(*measure) &&
          std::none_of(trafficRead.begin(), trafficRead.end(),
                       [&](const MeasureT *other) {
                         return isSameTraffic(*measure, *other);
                       })) {
        trafficRead.push_back(measure);
      }
    }
  }
}

bool Rules::reads(format::Metric metric) const {
  for (const auto &table : run.rules) {
    for (const auto &term : table->condition) {
      if (term->measure && term->measure->metric == metric) {
        return true;
      }
    }
  }
  return false;
}

/// Over a full window, or over all stages. The spread is the largest by the
/// smallest.
static double statisticOf(Statistic statistic,
                          const std::vector<double> &values) {
  double sum = 0, least = values.front(), most = values.front();
  for (double value : values) {
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (std::isnan(sum)) {
    return unknown;
  }
  if (statistic == Statistic::Mean) {
    return sum / static_cast<double>(values.size());
  }
  return statistic == Statistic::Max ? most
         : least > 0                 ? most / least
                                     : unknown;
}

double Rules::current(const MeasureT &measure, const Readings &readings) const {
  if (!isTraffic(measure)) {
    return readings[measure.metric];
  }
  for (size_t i = 0; i < readings.traffic.size(); ++i) {
    if (isSameTraffic(measure, *trafficRead[i])) {
      return readings.traffic[i];
    }
  }
  return unknown;
}

double Rules::valueOf(const MeasureT &measure, const Readings &readings,
                      bool &filling) const {
  if (measure.metric == Metric::StageTime) {
    return readings.stages.empty()
               ? unknown
               : statisticOf(measure.statistic, readings.stages);
  }
  if (measure.statistic == Statistic::Last) {
    double value = current(measure, readings);
    filling |= isEstimate(measure) && std::isnan(value);
    return value;
  }
  auto window = std::find_if(
      windows.begin(), windows.end(),
      [&](const Window &candidate) { return candidate.measure == &measure; });
  if (window->count < window->values.size()) {
    filling = true;
    return unknown;
  }
  return statisticOf(measure.statistic, window->values);
}

/// `a OP b`; NaN where either decides nothing.
static double combine(TermKind kind, double a, double b) {
  if (kind == TermKind::And || kind == TermKind::Or) {
    double deciding = kind == TermKind::And ? 0 : 1;
    if (a == deciding || b == deciding) {
      return deciding;
    }
    return std::isnan(a) || std::isnan(b) ? unknown : 1 - deciding;
  }
  if (std::isnan(a) || std::isnan(b)) {
    return unknown;
  }
  switch (kind) {
  case TermKind::Add:
    return a + b;
  case TermKind::Subtract:
    return a - b;
  case TermKind::Multiply:
    return a * b;
  case TermKind::Divide:
    return b == 0 ? unknown : a / b;
  case TermKind::Less:
    return a < b;
  case TermKind::LessEqual:
    return a <= b;
  case TermKind::Greater:
    return a > b;
  case TermKind::GreaterEqual:
    return a >= b;
  case TermKind::Equal:
    return a == b;
  case TermKind::NotEqual:
    return a != b;
  default:
    return unknown;
  }
}

double Rules::evaluate(const format::RuleT &rule, const Readings &readings,
                       bool &filling) {
  stack.clear();
  for (const auto &term : rule.condition) {
    switch (term->kind) {
    case TermKind::Number:
      stack.push_back(term->number);
      break;
    case TermKind::Measure:
      stack.push_back(valueOf(*term->measure, readings, filling));
      break;
    case TermKind::Negate:
      stack.back() = -stack.back();
      break;
    case TermKind::Not:
      stack.back() = std::isnan(stack.back()) ? unknown : stack.back() == 0;
      break;
    default: {
      double right = stack.back();
      stack.pop_back();
      stack.back() = combine(term->kind, stack.back(), right);
    }
    }
  }
  return stack.back();
}

std::vector<const format::RuleT *>
Rules::after(const Readings &readings, std::vector<std::string> &notes) {
  for (Window &window : windows) {
    double value = current(*window.measure, readings);
    if (!isEstimate(*window.measure) || !std::isnan(value)) {
      window.values[window.count++ % window.values.size()] = value;
    }
  }
  sinceHop =
      std::min<int64_t>(sinceHop + 1, std::numeric_limits<int32_t>::max());
  std::vector<const format::RuleT *> result;
  for (Rule &rule : rules) {
    bool filling = false;
    double holds = evaluate(*rule.table, readings, filling);
    if (std::isnan(holds) && !filling && !rule.noted) {
      rule.noted = true;
      char step[32];
      std::snprintf(step, sizeof step, "%.0f", readings[Metric::Step]);
      notes.push_back("rule `" + rule.table->text + "` (" + rule.table->file +
                      ":" + std::to_string(rule.table->line) +
                      ") cannot be computed at step " + step +
                      ": a number is missing or something is divided by zero; "
                      "it does not fire, and training goes on");
    }
    if (std::isnan(holds) || holds == 0) {
      rule.held = 0;
      rule.fired = false;
      continue;
    }
    rule.held += rule.held < std::numeric_limits<uint32_t>::max();
    if (!rule.fired && rule.held >= rule.table->during &&
        sinceHop >= static_cast<int64_t>(rule.table->apart)) {
      rule.fired = true;
      result.push_back(rule.table);
    }
  }
  return result;
}

std::string Rules::text() const {
  std::ostringstream out;
  out << rules.size() << ' ' << windows.size() << ' ' << sinceHop;
  for (const Rule &rule : rules) {
    out << ' ' << rule.held << ' ' << rule.fired << ' ' << rule.noted;
  }
  for (const Window &window : windows) {
    out << ' ' << window.values.size() << ' ' << window.count;
    for (double value : window.values) {
      char text[40];
      std::snprintf(text, sizeof text, " %a", value);
      out << text;
    }
  }
  return out.str();
}

/// As `%a` writes it, which streams do not read.
static bool readDouble(std::istream &in, double &value) {
  std::string text;
  if (!(in >> text)) {
    return false;
  }
  char *end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return *end == '\0';
}

Status Rules::restore(const std::string &text) {
  Rules fresh(run), blank(run);
  std::istringstream in(text);
  size_t ruleCount = 0, windowCount = 0;
  bool good =
      static_cast<bool>(in >> ruleCount >> windowCount >> fresh.sinceHop) &&
      ruleCount == rules.size() && windowCount == windows.size();
  for (size_t i = 0; good && i < ruleCount; ++i) {
    Rule &rule = fresh.rules[i];
    good = static_cast<bool>(in >> rule.held >> rule.fired >> rule.noted);
  }
  for (size_t i = 0; good && i < windowCount; ++i) {
    Window &window = fresh.windows[i];
    size_t size = 0;
    good = static_cast<bool>(in >> size >> window.count) &&
           size == window.values.size();
    for (size_t k = 0; good && k < size; ++k) {
      good = readDouble(in, window.values[k]);
    }
  }
  Rules &next = good ? fresh : blank;
  rules = std::move(next.rules);
  windows = std::move(next.windows);
  sinceHop = next.sinceHop;
  return good ? Status()
              : Status::error("what the rules knew is of other rules: they "
                              "begin anew");
}

int64_t batchAt(const format::RunT &run, int64_t samples) {
  int64_t batch = 0;
  for (const format::BatchChange &change : run.batches) {
    if (change.samples() > samples) {
      break;
    }
    batch = change.batch();
  }
  return batch;
}

} // namespace cleave::policy
