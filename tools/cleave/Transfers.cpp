//===- Transfers.cpp - What a hop between two plans costs -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Transfers.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace cleave::tools {

using layout::LeafRecord;
using layout::Role;
using transfer::Request;

/// The leaves that a plan keeps from step to step.
static std::vector<const LeafRecord *> stateOf(const PlanReport &report) {
  std::vector<const LeafRecord *> state;
  for (const layout::ProgramRecord &program : report.programs) {
    for (const LeafRecord &leaf : program.leaves) {
      if (program.entry == "train" && (leaf.value.role == Role::Params ||
                                       leaf.value.role == Role::Optimizer)) {
        state.push_back(&leaf);
      }
    }
  }
  return state;
}

static bool addLeaves(const PlanReport &from, const PlanReport &to,
                      Request &request) {
  std::vector<const LeafRecord *> wanted = stateOf(to);
  for (const LeafRecord *old : stateOf(from)) {
    auto at = std::find_if(wanted.begin(), wanted.end(), [&](auto *leaf) {
      return leaf->value.role == old->value.role &&
             leaf->value.path == old->value.path && leaf->state == old->state;
    });
    if (at == wanted.end()) {
      return false;
    }
    transfer::Leaf leaf;
    leaf.path = old->value.path;
    for (const layout::NamedDim &dim : old->value.dims) {
      leaf.sizes.push_back(dim.size);
    }
    leaf.elementBytes = old->value.elementBytes;
    leaf.from = old->layout;
    leaf.to = (*at)->layout;
    request.leaves.push_back(std::move(leaf));
    wanted.erase(at);
  }
  return wanted.empty();
}

/// How many devices share a node: the product of the levels below the first.
/// 0 where the plan does not say.
static int64_t nodeSize(const layout::Plan &plan) {
  int64_t size = plan.hardware.size() < 2 ? 0 : 1;
  for (size_t i = 1; i < plan.hardware.size(); ++i) {
    size *= plan.hardware[i].size;
  }
  return size;
}

/// Two devices are near where no plan puts them in different nodes.
static void addGroups(const layout::Plan &from, const layout::Plan &to,
                      Request &request) {
  request.devices = std::max(from.mesh.devices(), to.mesh.devices());
  int64_t first = nodeSize(from), second = nodeSize(to);
  if (first == 0 && second == 0) {
    return;
  }
  for (int64_t device = 0; device < request.devices; ++device) {
    int64_t group = first == 0 ? 0 : device / first;
    group = group * request.devices + (second == 0 ? 0 : device / second);
    request.groups.push_back(group);
  }
}

static TransferReport reportPair(const PlanReport &from, const PlanReport &to,
                                 const transfer::Links &links) {
  TransferReport report;
  report.from = from.plan.name;
  report.to = to.plan.name;
  Request request;
  request.from.mesh = from.plan.mesh;
  request.to.mesh = to.plan.mesh;
  request.links = links;
  addGroups(from.plan, to.plan, request);
  report.knowsNodes = !request.groups.empty();
  if (!addLeaves(from, to, request)) {
    report.error = "the plans have other leaves";
    return report;
  }
  if (std::optional<transfer::Transfer> transfer =
          transfer::planTransfer(request, report.error)) {
    report.summary = transfer->summary;
  }
  return report;
}

std::vector<TransferReport>
reportTransfers(const std::vector<PlanReport> &reports,
                const transfer::Links &links) {
  std::vector<TransferReport> transfers;
  for (size_t i = 0; i < reports.size(); ++i) {
    for (size_t j = 0; j < reports.size(); ++j) {
      if (i != j) {
        transfers.push_back(reportPair(reports[i], reports[j], links));
      }
    }
  }
  return transfers;
}

static std::string formatSeconds(const std::optional<double> &seconds) {
  if (!seconds) {
    return "-";
  }
  char text[32];
  bool isLong = *seconds >= 1;
  std::snprintf(text, sizeof text, isLong ? "%.2f s" : "%.2f ms",
                isLong ? *seconds : *seconds * 1e3);
  return text;
}

void printTransfers(const std::vector<TransferReport> &transfers,
                    std::ostream &out) {
  if (transfers.empty()) {
    return;
  }
  out << "transfers of the state from plan to plan\n";
  char row[320];
  auto print = [&](const char *from, const char *to, const char *total,
                   const char *busiest, const char *slow, const char *staged,
                   const char *copies, const char *time) {
    std::snprintf(row, sizeof row,
                  "  %-15s %-15s %11s %11s %11s %11s %11s %11s\n", from, to,
                  total, busiest, slow, staged, copies, time);
    out << row;
  };
  print("from", "to", "in all", "a device", "slow links", "staged",
        "both copies", "predicted");
  for (const TransferReport &report : transfers) {
    if (!report.error.empty()) {
      out << "  " << report.from << " to " << report.to << ": " << report.error
          << "\n";
      continue;
    }
    const transfer::Summary &summary = report.summary;
    print(report.from.c_str(), report.to.c_str(),
          formatBytes(summary.bytes).c_str(),
          formatBytes(summary.busiest()).c_str(),
          report.knowsNodes ? formatBytes(summary.slowBytes).c_str() : "-",
          formatBytes(summary.staging).c_str(),
          formatBytes(summary.bothCopies).c_str(),
          formatSeconds(summary.seconds).c_str());
  }
  out << "\n";
}

} // namespace cleave::tools
