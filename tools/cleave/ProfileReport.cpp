//===- ProfileReport.cpp - Where steps' time went, as text ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/ProfileReport.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace cleave::tools {

using executor::Bound;
using executor::EventKind;
using executor::PlanProfile;
using executor::ProfiledOperation;

namespace {

/// An operation in words and numbers, of a mean step on a mean device.
struct Row {
  std::string kind, name, path, source;
  double seconds = 0, share = 0, calls = 0;
  double operations = 0, bytes = 0; ///< a second
  double ofBound = 0;
};

} // namespace

static std::string kindName(EventKind kind) {
  switch (kind) {
  case EventKind::Kernel:
    return "kernel";
  case EventKind::Contraction:
    return "contraction";
  case EventKind::Fill:
    return "fill";
  case EventKind::Move:
    return "move";
  default:
    return "collective";
  }
}

static Row rowOf(const PlanProfile &profile, const ProfiledOperation &operation,
                 double stepSeconds, const Bound &bound) {
  double runs = static_cast<double>(profile.steps) *
                static_cast<double>(profile.seconds.size());
  double total = std::max(operation.total(), 1e-12);
  Row row;
  row.kind = kindName(operation.work.kind);
  if (operation.work.site < profile.plan->sites.size()) {
    const format::SiteT &site = *profile.plan->sites[operation.work.site];
    row.name = site.name;
    row.path = site.path;
    row.source =
        site.file.empty() ? "" : site.file + ":" + std::to_string(site.line);
  } else {
    row.name = operation.work.kind == EventKind::Start ? "message" : row.kind;
  }
  row.seconds = total / runs;
  row.share = row.seconds / stepSeconds;
  row.calls = static_cast<double>(operation.work.calls) / runs;
  row.operations = operation.work.operations / total;
  row.bytes = operation.work.bytes / total;
  row.ofBound =
      std::max(row.operations / bound.operations, row.bytes / bound.bytes);
  return row;
}

static double meanStep(const PlanProfile &profile) {
  double sum = 0;
  for (double seconds : profile.seconds) {
    sum += seconds;
  }
  return sum / static_cast<double>(profile.seconds.size()) /
         static_cast<double>(profile.steps);
}

static std::vector<Row> rowsOf(const PlanProfile &profile, const Bound &bound) {
  std::vector<Row> rows;
  for (const ProfiledOperation &operation : profile.operations) {
    rows.push_back(rowOf(profile, operation, meanStep(profile), bound));
  }
  return rows;
}

/// What noting an instruction costs: the clock is read twice.
static double noteSeconds() {
  constexpr int times = 2000;
  uint64_t begin = executor::traceClock();
  for (int i = 0; i < times; ++i) {
    executor::traceClock();
    executor::traceClock();
  }
  return static_cast<double>(executor::traceClock() - begin) * 1e-9 / times;
}

template <typename... Values>
static void add(std::string &text, const char *format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  text += line;
}

/// A kernel's without the digits that tell it from others.
static std::string shortName(const std::string &name) {
  size_t digits = name.rfind('_') + 1;
  bool hashed =
      digits > 1 && name.size() - digits == 16 &&
      name.find_first_not_of("0123456789abcdef", digits) == std::string::npos;
  return hashed ? name.substr(0, digits - 1) : name;
}

/// One row, or a sum of some.
static void addRow(std::string &text, const Row &row) {
  add(text, "%5.1f%% %9.3f %7.0f ", 100 * row.share, row.seconds * 1e3,
      row.calls);
  if (row.operations > 0) {
    add(text, "%8.1f ", row.operations * 1e-9);
  } else {
    text += "       - ";
  }
  if (row.bytes > 0) {
    add(text, "%7.1f %6.0f%%  ", row.bytes * 1e-9, 100 * row.ofBound);
  } else {
    text += "      -       -  ";
  }
  std::string what =
      row.kind == "kernel" ? "kernel " + shortName(row.name) : row.name;
  if (!row.path.empty()) {
    what += " in " + row.path;
  }
  text += what + (row.source.empty() ? "" : "  " + row.source) + "\n";
}

/// Sums of rows by kind, and what is left of the step.
static std::vector<Row> partsOf(const std::vector<Row> &rows,
                                double stepSeconds, const Bound &bound) {
  std::map<std::string, Row> kinds;
  Row rest;
  rest.name = "between instructions";
  rest.seconds = stepSeconds;
  for (const Row &row : rows) {
    Row &sum = kinds[row.kind];
    sum.name = row.kind + "s";
    sum.seconds += row.seconds;
    sum.calls += row.calls;
    sum.operations += row.operations * row.seconds; // divided below
    sum.bytes += row.bytes * row.seconds;
    rest.seconds -= row.seconds;
    rest.calls = 0;
  }
  std::vector<Row> parts;
  for (auto &[kind, sum] : kinds) {
    sum.operations /= sum.seconds;
    sum.bytes /= sum.seconds;
    sum.ofBound =
        std::max(sum.operations / bound.operations, sum.bytes / bound.bytes);
    parts.push_back(sum);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Row &a, const Row &b) { return a.seconds > b.seconds; });
  rest.seconds = std::max(0.0, rest.seconds);
  parts.push_back(rest);
  for (Row &part : parts) {
    part.share = part.seconds / stepSeconds;
  }
  return parts;
}

std::string profileText(const PlanProfile &profile, const Bound &bound) {
  constexpr size_t most = 24;
  double step = meanStep(profile);
  std::vector<Row> rows = rowsOf(profile, bound);
  std::string text;
  add(text,
      "where a step of plan %s went: %.3f ms, the mean of %lld steps and %zu "
      "devices\n",
      profile.plan->name.c_str(), step * 1e3,
      static_cast<long long>(profile.steps), profile.seconds.size());
  add(text,
      "bound, of a device: products %.1f GFLOP/s, memory %.1f GB/s read and "
      "written (as a copy does)\n",
      bound.operations * 1e-9, bound.bytes * 1e-9);
  add(text, "noting the times took about %.3f ms a step of a device\n\n",
      noteSeconds() * 1e3 * static_cast<double>(profile.events) /
          static_cast<double>(profile.steps) /
          static_cast<double>(profile.seconds.size()));
  text += " share        ms   calls  GFLOP/s    GB/s  of bound  what\n";
  for (const Row &part : partsOf(rows, step, bound)) {
    addRow(text, part);
  }
  text += "\n";
  for (size_t i = 0; i < rows.size() && i < most; ++i) {
    addRow(text, rows[i]);
  }
  if (rows.size() > most) {
    Row others;
    others.name = std::to_string(rows.size() - most) + " others";
    for (size_t i = most; i < rows.size(); ++i) {
      others.seconds += rows[i].seconds;
      others.share += rows[i].share;
      others.calls += rows[i].calls;
    }
    addRow(text, others);
  }
  return text;
}

std::string profileJson(const PlanProfile &profile, const Bound &bound) {
  using Json = nlohmann::ordered_json;
  double steps = static_cast<double>(profile.steps);
  Json operations = Json::array();
  std::vector<Row> rows = rowsOf(profile, bound);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    std::vector<double> devices;
    for (double seconds : profile.operations[i].seconds) {
      devices.push_back(seconds / steps);
    }
    operations.push_back({{"kind", row.kind},
                          {"name", row.name},
                          {"path", row.path},
                          {"source", row.source},
                          {"share", row.share},
                          {"seconds", row.seconds},
                          {"calls", row.calls},
                          {"gflops", row.operations * 1e-9},
                          {"gbytes", row.bytes * 1e-9},
                          {"of_bound", row.ofBound},
                          {"devices", devices}});
  }
  Json object = {
      {"plan", profile.plan->name},
      {"steps", profile.steps},
      {"devices", profile.seconds.size()},
      {"seconds", meanStep(profile)},
      {"bound",
       {{"gflops", bound.operations * 1e-9}, {"gbytes", bound.bytes * 1e-9}}},
      {"operations", operations}};
  return object.dump(1, ' ', false, Json::error_handler_t::replace);
}

} // namespace cleave::tools
