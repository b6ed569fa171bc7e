//===- Prometheus.cpp - The numbers of a run now --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/metrics/Prometheus.h"

#include "runtime/support/File.h"

#include <cmath>
#include <cstdio>

namespace cleave::metrics {

static std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') {
      result += '\\';
    }
    result += c;
  }
  return result;
}

static std::string numberText(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string prometheusText(const std::vector<Sample> &samples) {
  std::string text;
  for (const Sample &sample : samples) {
    text += "# HELP " + sample.name + " " + sample.help + "\n# TYPE " +
            sample.name + (sample.counts ? " counter\n" : " gauge\n") +
            sample.name;
    if (!sample.label.empty()) {
      text += "{" + sample.label + "=\"" + escaped(sample.labelValue) + "\"}";
    }
    text += " " + numberText(sample.value) + "\n";
  }
  return text;
}

Status writePrometheus(const std::string &path,
                       const std::vector<Sample> &samples) {
  Result<ReplacedFile> file = ReplacedFile::create(path);
  if (!file) {
    return file.status();
  }
  std::string text = prometheusText(samples);
  CLEAVE_TRY(file->write(text.data(), text.size()));
  return file->commit();
}

} // namespace cleave::metrics
