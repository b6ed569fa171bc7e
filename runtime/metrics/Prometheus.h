//===- Prometheus.h - The numbers of a run now ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_METRICS_PROMETHEUS_H
#define CLEAVE_RUNTIME_METRICS_PROMETHEUS_H

#include "runtime/support/Status.h"

#include <string>
#include <vector>

namespace cleave::metrics {

/// One number, as Prometheus's text format has it.
struct Sample {
  std::string name;    ///< `cleave_step`
  std::string help;    ///< one line
  bool counts = false; ///< it never goes down: a counter, else a gauge
  double value = 0;
  std::string label, labelValue; ///< one label, or none
};

/// In Prometheus's text format, version 0.0.4.
std::string prometheusText(const std::vector<Sample> &samples);

/// Replaces the file: a reader sees all of it or all of the one before.
Status writePrometheus(const std::string &path,
                       const std::vector<Sample> &samples);

} // namespace cleave::metrics

#endif // CLEAVE_RUNTIME_METRICS_PROMETHEUS_H
