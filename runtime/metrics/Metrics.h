//===- Metrics.h - Numbers of a run, line by line ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_METRICS_METRICS_H
#define CLEAVE_RUNTIME_METRICS_METRICS_H

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cleave::metrics {

using Value = std::variant<int64_t, double, std::string, bool>;
using Record = std::vector<std::pair<std::string, Value>>;

/// A file of JSON objects, one a line, in the order of the record's fields. A
/// number that JSON cannot say (NaN, infinity) is written as null. Each line is
/// written at once, so that a reader never sees half of one.
class MetricsFile {
public:
  /// Replaces the file, or adds to it.
  static Result<MetricsFile> open(const std::string &path, bool append);
  MetricsFile(MetricsFile &&other) noexcept;
  MetricsFile &operator=(MetricsFile &&) = delete;
  ~MetricsFile();

  Status write(const Record &record);

private:
  MetricsFile() = default;
  std::string path;
  int descriptor = -1;
};

/// The field `by` of an event that a rule brought about.
inline constexpr const char *byRule = "rule";

/// Removes from a file what a run wrote after `step`, to which another goes
/// back: lines of later steps, events at it or later (but those of rules at it,
/// which a snapshot comes after), and a line that was cut short. A file that is
/// not there is left so.
Status cutAfter(const std::string &path, int64_t step);

/// One line, without the newline.
std::string lineOf(const Record &record);

} // namespace cleave::metrics

#endif // CLEAVE_RUNTIME_METRICS_METRICS_H
