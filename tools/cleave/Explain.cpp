//===- Explain.cpp - What a plan costs, and why ---------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Explain.h"

#include "layout/Stored.h"
#include "tools/cleave/Transfers.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

namespace cleave::tools {

using namespace layout;

std::string formatBytes(int64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

static const char *nameOf(Role role) {
  const char *names[] = {"activations", "params",    "weights",
                         "gradients",   "optimizer", "inputs"};
  return names[static_cast<size_t>(role)];
}

static const char *nameOf(Phase phase) {
  const char *names[] = {"forward", "backward", "update"};
  return names[static_cast<size_t>(phase)];
}

static std::vector<int64_t> localShape(const LeafRecord &leaf,
                                       const Mesh &mesh) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < leaf.value.dims.size(); ++i) {
    shape.push_back(
        largestPiece(leaf.value.dims[i].size, leaf.layout.dims[i], mesh));
  }
  return shape;
}

static const ProgramRecord *trainOf(const PlanReport &report) {
  for (const ProgramRecord &program : report.programs) {
    if (program.entry == "train") {
      return &program;
    }
  }
  return report.programs.empty() ? nullptr : &report.programs.front();
}

static int64_t *bytesOf(StageMemory &memory, Role role) {
  switch (role) {
  case Role::Params:
    return &memory.params;
  case Role::Gradients:
    return &memory.gradients;
  case Role::Optimizer:
    return &memory.optimizer;
  case Role::Activations:
  case Role::Weights:
  case Role::Inputs:
    break;
  }
  return nullptr;
}

std::vector<StageMemory> leafMemory(const PlanReport &report) {
  std::vector<StageMemory> memory;
  const ProgramRecord *program = trainOf(report);
  for (const Part &stage : stagesOf(report.plan)) {
    StageMemory &own = memory.emplace_back();
    for (size_t i = 0; program && i < program->leaves.size(); ++i) {
      const LeafRecord &leaf = program->leaves[i];
      if (int64_t *bytes = bytesOf(own, leaf.value.role)) {
        *bytes += bytesOn(leaf.value, leaf.layout, stage, report.plan.mesh);
      }
    }
  }
  return memory;
}

int64_t leafBytes(const PlanReport &report, Role role) {
  int64_t most = 0;
  for (StageMemory memory : leafMemory(report)) {
    most = std::max(most, *bytesOf(memory, role));
  }
  return most;
}

int64_t PlanReport::peak() const {
  int64_t most = -1;
  for (const StageMemory &stage : memory) {
    most = stage.arena < 0 ? -1 : std::max(most, stage.peak());
  }
  return most;
}

static std::vector<std::string> dimNames(const LeafRecord &leaf) {
  std::vector<std::string> names;
  for (const NamedDim &dim : leaf.value.dims) {
    names.push_back(dim.name);
  }
  return names;
}

static std::string place(const SourcePoint &source) {
  return source.file.empty() ? std::string("the optimizer's step")
                             : source.file + ":" + std::to_string(source.line);
}

/// Records that differ in place only, counted together.
namespace {
struct Line {
  std::string kind, axis, what, where;
  int64_t count = 0, perLayer = 0, total = 0;
  BusiestDevice busiest;
};
} // namespace

static const char *phaseOf(const CollectiveRecord &record) {
  return record.recomputed ? "recomputed" : nameOf(record.value.phase);
}

/// Those that recomputation repeats, or the others.
static std::vector<Line> summarize(const ProgramRecord &program,
                                   const Mesh &mesh, bool recomputed) {
  std::map<std::vector<std::string>, Line> lines;
  for (const CollectiveRecord &record : program.collectives) {
    if (record.recomputed != recomputed) {
      continue;
    }
    std::string axis = mesh.describe(record.atoms);
    std::string what =
        std::string(nameOf(record.value.role)) + ", " + phaseOf(record);
    std::string where = record.kind == "send"   ? "between stages"
                        : record.repeat.empty() ? "outside the layers"
                                                : "per " + record.repeat;
    Line &line = lines[{record.kind, axis, what, where}];
    line.kind = record.kind;
    line.axis = axis;
    line.what = what;
    line.where = where;
    line.count += record.iterations;
    ++line.perLayer;
    line.busiest.add(record);
    line.total += record.totalInStep();
  }
  std::vector<Line> result;
  for (auto &[key, line] : lines) {
    result.push_back(line);
  }
  return result;
}

static void printLine(const Line &line, std::ostream &out) {
  std::string where = line.where;
  if (where.rfind("per ", 0) == 0) {
    where = std::to_string(line.perLayer) + " " + where;
  }
  char row[256];
  std::snprintf(row, sizeof row, "  %-15s %-18s %-23s %7lld %-20s %11s %11s\n",
                line.kind.c_str(), line.axis.c_str(), line.what.c_str(),
                static_cast<long long>(line.count), where.c_str(),
                formatBytes(line.busiest.bytes()).c_str(),
                formatBytes(line.total).c_str());
  out << row;
}

static int64_t bytesInStep(const ProgramRecord &program) {
  int64_t total = 0;
  for (const CollectiveRecord &record : program.collectives) {
    total += record.totalInStep();
  }
  return total;
}

/// The price of reproducible sums, in bytes.
static void printReproducible(const PlanReport &report,
                              const ProgramRecord &program, std::ostream &out) {
  out << "  reproducible: " << formatBytes(bytesInStep(program)) << " in all, "
      << formatBytes(bytesInStep(*report.ordinary))
      << " where sums are made in parts; contractions are added in order\n";
}

static void printCollectives(const ProgramRecord &program, const Mesh &mesh,
                             std::ostream &out) {
  if (program.collectives.empty()) {
    out << "  no collectives\n";
    return;
  }
  char row[256];
  std::snprintf(row, sizeof row, "  %-15s %-18s %-23s %7s %-20s %11s %11s\n",
                "collective", "over", "of", "a step", "", "a device", "in all");
  out << row;
  Line sum;
  auto printAll = [&](bool recomputed, const char *title) {
    std::vector<Line> lines = summarize(program, mesh, recomputed);
    for (const Line &line : lines) {
      printLine(line, out);
      sum.count += line.count;
      sum.busiest.add(line.busiest);
      sum.total += line.total;
    }
    sum.kind = title;
    if (!recomputed || !lines.empty()) {
      printLine(sum, out);
    }
  };
  printAll(false, "in all");
  printAll(true, "with recomputed");
}

/// `3 microbatches, each at most 2 of batch on a device`.
static std::string microbatches(const PlanReport &report) {
  const Plan &plan = report.plan;
  int64_t count = plan.micros();
  std::string text =
      std::to_string(count) + (count == 1 ? " microbatch" : " microbatches");
  for (const DimInfo &dim : plan.dims) {
    if (plan.micro && dim.name == plan.micro->dim) {
      ValueInfo value;
      value.role = Role::Inputs;
      value.dims = {{dim.name, dim.size}};
      Split split = resolve(plan, value).layout.dims.front();
      text += std::string(", ") + (count == 1 ? "" : "each ") + "at most " +
              std::to_string(largestPiece(dim.size, split, plan.mesh)) +
              " of " + dim.name + " on a device";
    }
  }
  return text;
}

/// A row for each stage.
static void printStages(const PlanReport &report, std::ostream &out) {
  const PipelineReport &pipeline = *report.pipeline;
  out << "\n  " << pipeline.schedule.name << " of " << pipeline.schedule.stages
      << " stages, ";
  if (pipeline.schedule.chunks > 1) {
    out << pipeline.schedule.chunks << " chunks a stage, ";
  }
  out << microbatches(report) << "\n";
  const char *format = "    %5s %6s %11s %11s %11s %11s %11s %11s  ";
  char row[256];
  std::snprintf(row, sizeof row, format, "stage", "held", "params", "gradients",
                "optimizer", "arena", "slots", "peak");
  out << row
      << (pipeline.work.dims.size() == 1 ? pipeline.work.dims.front() : "items")
      << "\n";
  for (int32_t stage = 0; stage < pipeline.schedule.stages; ++stage) {
    const StageMemory &memory = report.memory[stage];
    auto bytes = [](int64_t count) { return formatBytes(count); };
    char held[32];
    std::snprintf(held, sizeof held, "%.4g",
                  static_cast<double>(pipeline.held[stage]) /
                      pipeline.schedule.chunks);
    std::snprintf(row, sizeof row, format, std::to_string(stage).c_str(), held,
                  bytes(memory.params).c_str(), bytes(memory.gradients).c_str(),
                  bytes(memory.optimizer).c_str(), bytes(memory.arena).c_str(),
                  bytes(memory.slots).c_str(), bytes(memory.peak()).c_str());
    out << row << layersOf(pipeline, stage) << "\n";
  }
  out << "    held: microbatches whose activations a stage has at most\n";
  if (!pipeline.why.empty()) {
    out << "    cut " << pipeline.why << "\n";
  }
}

static void printMemory(const PlanReport &report, std::ostream &out) {
  out << "\n  bytes of the busiest device\n";
  char row[256];
  auto line = [&](const char *name, int64_t bytes) {
    std::snprintf(row, sizeof row, "    %-22s %12s\n", name,
                  formatBytes(bytes).c_str());
    out << row;
  };
  for (Role role : {Role::Params, Role::Gradients, Role::Optimizer}) {
    line(nameOf(role), leafBytes(report, role));
  }
  if (report.peak() < 0) {
    return;
  }
  int64_t arena = 0, slots = 0;
  for (const StageMemory &stage : report.memory) {
    arena = std::max(arena, stage.arena);
    slots = std::max(slots, stage.slots);
  }
  // Activations, gradients on their way and temporaries, packed by lifetime.
  line("activations (arena)", arena);
  if (slots > 0) {
    line("of microbatches (slots)", slots);
  }
  line("peak", report.peak());
}

static void printLeaves(const ProgramRecord &program, const Mesh &mesh,
                        std::ostream &out) {
  out << "\n  parameters, and the piece of the largest device\n";
  for (const LeafRecord &leaf : program.leaves) {
    if (leaf.value.role != Role::Params) {
      continue;
    }
    out << "    " << leaf.value.path << " "
        << describe(leaf.layout, dimNames(leaf), mesh) << " [";
    const char *separator = "";
    for (int64_t size : localShape(leaf, mesh)) {
      out << separator << size;
      separator = ", ";
    }
    out << "]";
    if (!leaf.layout.residence.empty()) {
      out << " on " << describe(leaf.layout.residence, mesh);
    }
    out << "\n";
    for (size_t i = 0; i < leaf.choices.size(); ++i) {
      if (leaf.choices[i].alternative > 0) {
        out << "      " << leaf.value.dims[i].name << ": "
            << leaf.choices[i].sentence << "\n";
      }
    }
  }
}

static void printReasons(const ProgramRecord &program, const Mesh &mesh,
                         std::ostream &out) {
  out << "\n  why each collective is there\n";
  for (const CollectiveRecord &record : program.collectives) {
    out << "    " << record.kind << " over " << mesh.describe(record.atoms)
        << " of " << nameOf(record.value.role);
    if (!record.value.path.empty()) {
      out << " in " << record.value.path;
    }
    out << ", " << phaseOf(record) << ": " << record.operation << " at "
        << place(record.source) << ", " << formatBytes(record.bytesBusiest)
        << " a device";
    if (record.iterations > 1) {
      out << ", " << record.iterations << " times";
    }
    out << "\n      because " << record.reason << "\n";
    if (!record.avoid.empty()) {
      out << "      avoided by " << record.avoid << "\n";
    }
  }
}

void explainText(const PlanReport &report, std::ostream &out) {
  const Mesh &mesh = report.plan.mesh;
  out << "plan " << report.plan.name << " of " << report.model << ": "
      << mesh.devices() << (mesh.devices() == 1 ? " device" : " devices")
      << " [";
  for (size_t i = 0; i + mesh.times < mesh.atoms.size(); ++i) {
    out << (i ? ", " : "") << mesh.atoms[i].name << ": " << mesh.atoms[i].size;
  }
  out << "]";
  if (report.plan.micros() > 1) {
    out << ", " << report.plan.micros() << " microbatches";
  }
  out << "\n";
  const ProgramRecord *program = trainOf(report);
  if (!program) {
    return;
  }
  printCollectives(*program, mesh, out);
  if (report.compute != "f32") {
    out << "  mixed precision: contractions multiply " << report.compute
        << "; their sums, all else and the state are f32\n";
  }
  if (report.ordinary) {
    printReproducible(report, *program, out);
  }
  if (report.pipeline) {
    printStages(report, out);
    printCrossings(*report.pipeline, out);
    printTimeline(*report.pipeline, out);
  } else if (report.plan.micros() > 1) {
    out << "\n  " << microbatches(report) << "\n";
  }
  printMemory(report, out);
  printLeaves(*program, mesh, out);
  if (!program->collectives.empty()) {
    printReasons(*program, mesh, out);
  }
  out << "\n";
}

static nlohmann::json toJson(const SourcePoint &source) {
  return {{"file", source.file},
          {"line", source.line},
          {"column", source.column},
          {"text", source.text}};
}

static nlohmann::json toJson(const TransferReport &report) {
  nlohmann::json json = {{"to", report.to}};
  if (!report.error.empty()) {
    json["error"] = report.error;
    return json;
  }
  const transfer::Summary &summary = report.summary;
  json["bytes_total"] = summary.bytes;
  json["bytes_busiest"] = summary.busiest();
  json["bytes_sent"] = summary.mostSent;
  json["bytes_received"] = summary.mostReceived;
  if (report.knowsNodes) {
    json["bytes_slow"] = summary.slowBytes;
  }
  json["staging"] = summary.staging;
  json["both_copies"] = summary.bothCopies;
  if (summary.seconds) {
    json["seconds"] = *summary.seconds;
  }
  return json;
}

void explainJson(const std::vector<PlanReport> &reports,
                 const std::vector<TransferReport> &transfers,
                 std::ostream &out) {
  nlohmann::json plans = nlohmann::json::array();
  for (const PlanReport &report : reports) {
    const Mesh &mesh = report.plan.mesh;
    nlohmann::json plan = {{"plan", report.plan.name},
                           {"model", report.model},
                           {"devices", mesh.devices()}};
    plan["mesh"] = nlohmann::json::array();
    for (size_t i = 0; i + mesh.times < mesh.atoms.size(); ++i) {
      plan["mesh"].push_back(
          {{"name", mesh.atoms[i].name}, {"size", mesh.atoms[i].size}});
    }
    plan["micros"] = report.plan.micros();
    plan["compute"] = report.compute;
    plan["reproducible"] = report.ordinary.has_value();
    if (report.ordinary) {
      plan["bytes_ordinary"] = bytesInStep(*report.ordinary);
    }
    plan["bytes"] = {{"params", leafBytes(report, Role::Params)},
                     {"gradients", leafBytes(report, Role::Gradients)},
                     {"optimizer", leafBytes(report, Role::Optimizer)}};
    plan["stages"] = nlohmann::json::array();
    for (const StageMemory &stage : report.memory) {
      plan["stages"].push_back({{"params", stage.params},
                                {"gradients", stage.gradients},
                                {"optimizer", stage.optimizer},
                                {"arena", stage.arena},
                                {"least_arena", stage.leastArena},
                                {"slots", stage.slots},
                                {"peak", stage.peak()}});
    }
    if (report.pipeline) {
      plan["pipeline"] = toJson(*report.pipeline);
    }
    for (const ProgramRecord &program : report.programs) {
      nlohmann::json entry = {{"entry", program.entry}};
      entry["collectives"] = nlohmann::json::array();
      std::map<std::string, int64_t> counts;
      BusiestDevice busiest;
      int64_t total = 0;
      for (const CollectiveRecord &record : program.collectives) {
        counts[record.kind] += record.recomputed ? 0 : record.iterations;
        busiest.add(record);
        total += record.totalInStep();
        entry["collectives"].push_back({{"kind", record.kind},
                                        {"axis", mesh.describe(record.atoms)},
                                        {"role", nameOf(record.value.role)},
                                        {"phase", nameOf(record.value.phase)},
                                        {"recomputed", record.recomputed},
                                        {"path", record.value.path},
                                        {"repeat", record.repeat},
                                        {"count", record.iterations},
                                        {"bytes_busiest", record.bytesBusiest},
                                        {"bytes_total", record.bytesTotal},
                                        {"bytes_step", record.totalInStep()},
                                        {"operation", record.operation},
                                        {"reason", record.reason},
                                        {"avoid", record.avoid},
                                        {"source", toJson(record.source)}});
      }
      entry["counts"] = counts;
      entry["bytes_busiest"] = busiest.bytes();
      entry["bytes_total"] = total;
      if (program.arena >= 0) {
        entry["arena"] = program.arena;
        entry["peak"] = report.peak();
      }
      entry["leaves"] = nlohmann::json::array();
      for (const LeafRecord &leaf : program.leaves) {
        entry["leaves"].push_back(
            {{"path", leaf.value.path},
             {"state", leaf.state},
             {"role", nameOf(leaf.value.role)},
             {"layout", describe(leaf.layout, dimNames(leaf), mesh)},
             {"on", describe(leaf.layout.residence, mesh)},
             {"local", localShape(leaf, mesh)},
             {"bytes", bytesOn(leaf.value, leaf.layout, {}, mesh)}});
      }
      plan["programs"].push_back(entry);
    }
    plan["transfers"] = nlohmann::json::array();
    for (const TransferReport &transfer : transfers) {
      if (transfer.from == report.plan.name) {
        plan["transfers"].push_back(toJson(transfer));
      }
    }
    plans.push_back(plan);
  }
  out << plans.dump(2) << "\n";
}

} // namespace cleave::tools
