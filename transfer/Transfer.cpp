//===- Transfer.cpp - From one plan's layout to another's -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Transfer.h"

#include "transfer/Rounds.h"
#include "transfer/Work.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace cleave::transfer {

//===----------------------------------------------------------------------===//
// The request with its defaults
//===----------------------------------------------------------------------===//

static std::vector<int64_t> devicesOf(const Side &side) {
  std::vector<int64_t> devices = side.devices;
  if (devices.empty()) {
    devices.resize(side.mesh.devices());
    std::iota(devices.begin(), devices.end(), 0);
  }
  return devices;
}

static void addGroups(Work &work) {
  std::map<int64_t, int64_t> numbers;
  work.groups.assign(work.devices, 0);
  for (size_t i = 0; i < work.request.groups.size(); ++i) {
    int64_t next = static_cast<int64_t>(numbers.size());
    work.groups[i] =
        numbers.try_emplace(work.request.groups[i], next).first->second;
  }
  work.groupCount = std::max<int64_t>(1, static_cast<int64_t>(numbers.size()));
}

/// Leaves that are cut alike, in the order of their first.
static void addEntries(Work &work) {
  const std::vector<Leaf> &leaves = work.request.leaves;
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto isLike = [&](const Entry &entry) {
      const Leaf &first = leaves[entry.leaves.front()];
      return first.sizes == leaves[i].sizes && first.from == leaves[i].from &&
             first.to == leaves[i].to;
    };
    auto at = std::find_if(work.entries.begin(), work.entries.end(), isLike);
    if (at == work.entries.end()) {
      Entry entry;
      entry.from =
          gridOf(leaves[i].sizes, leaves[i].from, work.request.from.mesh);
      entry.to = gridOf(leaves[i].sizes, leaves[i].to, work.request.to.mesh);
      at = work.entries.insert(at, std::move(entry));
    }
    at->leaves.push_back(i);
    at->elementBytes += leaves[i].elementBytes;
  }
}

Work prepare(const Request &request) {
  Work work{request, 0, {}, {}, {}, 1, {}};
  work.fromDevices = devicesOf(request.from);
  work.preferred = devicesOf(request.to);
  work.devices = request.devices;
  for (const std::vector<int64_t> *side :
       {&work.fromDevices, &work.preferred}) {
    int64_t reach = *std::max_element(side->begin(), side->end()) + 1;
    work.devices = std::max(work.devices, reach);
  }
  addGroups(work);
  addEntries(work);
  return work;
}

//===----------------------------------------------------------------------===//
// Exchanges and figures
//===----------------------------------------------------------------------===//

static void addExchanges(Transfer &transfer, const Work &work) {
  std::vector<Part> &parts = transfer.parts;
  for (size_t i = 0; i < transfer.entries.size(); ++i) {
    for (size_t j = 0; j < transfer.entries[i].moves.size(); ++j) {
      parts.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(j)});
    }
  }
  auto moveOf = [&](const Part &part) -> const Move & {
    return transfer.entries[part.entry].moves[part.move];
  };
  auto endsOf = [&](const Part &part) {
    const Move &move = moveOf(part);
    return static_cast<int64_t>(move.source) * work.devices + move.target;
  };
  std::sort(parts.begin(), parts.end(), [&](const Part &a, const Part &b) {
    return std::make_tuple(endsOf(a), a.entry, a.move) <
           std::make_tuple(endsOf(b), b.entry, b.move);
  });
  for (size_t i = 0; i < parts.size(); ++i) {
    const Move &move = moveOf(parts[i]);
    if (i == 0 || endsOf(parts[i]) != endsOf(parts[i - 1])) {
      Exchange exchange;
      exchange.source = move.source;
      exchange.target = move.target;
      exchange.slow = work.groups[move.source] != work.groups[move.target];
      exchange.firstPart = i;
      transfer.exchanges.push_back(exchange);
    }
    Exchange &exchange = transfer.exchanges.back();
    exchange.lastPart = i + 1;
    exchange.bytes +=
        move.elements() * transfer.entries[parts[i].entry].elementBytes;
  }
  transfer.rounds = orderExchanges(transfer.exchanges, work.devices);
}

/// Bytes that each device holds of all leaves under one of the plans.
static std::vector<int64_t> heldBytes(const Work &work,
                                      const Transfer &transfer, bool isOld) {
  std::vector<int64_t> bytes(work.devices, 0);
  const std::vector<int64_t> &devices =
      isOld ? work.fromDevices : transfer.devices;
  for (const Entry &entry : transfer.entries) {
    const Grid &grid = isOld ? entry.from : entry.to;
    for (int64_t cell = 0; cell < grid.cells(); ++cell) {
      int64_t held = grid.areaOf(cell).elements() * entry.elementBytes;
      for (int64_t coordinate : grid.holders[cell]) {
        bytes[devices[coordinate]] += held;
      }
    }
  }
  return bytes;
}

/// The most that a device stages: in each round a message out and one in.
static int64_t stagingOf(const Transfer &transfer, int64_t devices) {
  std::vector<int64_t> staged(devices, 0), round(devices, -1);
  int64_t most = 0;
  for (const Exchange &exchange : transfer.exchanges) {
    for (int64_t device : {exchange.source, exchange.target}) {
      if (round[device] != exchange.round) {
        round[device] = exchange.round;
        staged[device] = 0;
      }
      staged[device] += std::min(exchange.bytes, transfer.messageBytes);
      most = std::max(most, staged[device]);
    }
  }
  return most;
}

static int64_t largest(const std::vector<int64_t> &values) {
  return *std::max_element(values.begin(), values.end());
}

static void summarise(Transfer &transfer, const Work &work) {
  Summary &summary = transfer.summary;
  transfer.sent.assign(work.devices, 0);
  transfer.received.assign(work.devices, 0);
  for (const Exchange &exchange : transfer.exchanges) {
    transfer.sent[exchange.source] += exchange.bytes;
    transfer.received[exchange.target] += exchange.bytes;
    summary.bytes += exchange.bytes;
    summary.slowBytes += exchange.slow ? exchange.bytes : 0;
  }
  summary.mostSent = largest(transfer.sent);
  summary.mostReceived = largest(transfer.received);
  std::vector<int64_t> before = heldBytes(work, transfer, true);
  std::vector<int64_t> after = heldBytes(work, transfer, false);
  summary.stateBefore = largest(before);
  summary.stateAfter = largest(after);
  for (int64_t device = 0; device < work.devices; ++device) {
    summary.keptBytes += after[device];
    summary.bothCopies =
        std::max(summary.bothCopies, std::min(before[device], after[device]));
  }
  summary.keptBytes -= summary.bytes;
  summary.staging = stagingOf(transfer, work.devices);
  summary.seconds = predictSeconds(transfer.exchanges, work.devices,
                                   transfer.messageBytes, work.request.links);
}

//===----------------------------------------------------------------------===//
// The public functions
//===----------------------------------------------------------------------===//

std::optional<Transfer> planTransfer(const Request &request,
                                     std::string &error) {
  error = problemOf(request);
  if (!error.empty()) {
    return std::nullopt;
  }
  Work work = prepare(request);
  Transfer transfer;
  transfer.devices = chooseDevices(work);
  transfer.messageBytes = request.budget / 2;
  chooseSources(work, transfer.devices);
  transfer.entries = std::move(work.entries);
  addExchanges(transfer, work);
  summarise(transfer, work);
  return transfer;
}

std::optional<std::vector<int64_t>> chooseDevices(const Request &request,
                                                  std::string &error) {
  error = problemOf(request);
  if (!error.empty()) {
    return std::nullopt;
  }
  return chooseDevices(prepare(request));
}

Area areaOf(const Entry &entry, const Move &move) {
  return intersect(entry.from.areaOf(move.fromCell),
                   entry.to.areaOf(move.toCell));
}

std::vector<Box> boxesOf(const Entry &entry, const Move &move) {
  return boxesOf(areaOf(entry, move), move.begin, move.end);
}

static std::optional<Area> heldOn(const Grid &grid, int64_t coordinate) {
  int64_t cell = grid.cellOf[coordinate];
  return cell < 0 ? std::nullopt : std::optional<Area>(grid.areaOf(cell));
}

std::optional<Area> heldBefore(const Entry &entry, int64_t coordinate) {
  return heldOn(entry.from, coordinate);
}

std::optional<Area> heldAfter(const Entry &entry, int64_t coordinate) {
  return heldOn(entry.to, coordinate);
}

} // namespace cleave::transfer
