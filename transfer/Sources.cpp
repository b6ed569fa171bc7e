//===- Sources.cpp - Which device sends what ------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Share.h"
#include "transfer/Work.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace cleave::transfer {
namespace {

/// Elements that a device lacks.
struct Demand {
  uint32_t target = 0, entry = 0, fromCell = 0, toCell = 0;
  int64_t elements = 0; ///< of each of the entry's leaves
};

/// Collects demands by the devices that can meet them, and deals them out.
class Dealer {
public:
  explicit Dealer(Work &work) : work(work) {}

  void addEntry(size_t index, const std::vector<int64_t> &toDevices);
  void deal();

private:
  size_t listOf(std::vector<int64_t> devices);
  size_t poolOf(size_t list, int64_t group);
  void dealPool(size_t pool, const std::vector<int64_t> &shares);

  Work &work;
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<std::vector<int64_t>> lists; ///< of devices, each once
  /// Of a list and a group: the list of those of the list in the group, or the
  /// list itself if there are none.
  std::unordered_map<int64_t, size_t> inGroup;
  std::vector<Pool> pools;                  ///< by list
  std::vector<std::vector<Demand>> demands; ///< of each pool
};

size_t Dealer::listOf(std::vector<int64_t> devices) {
  auto [at, isNew] = known.try_emplace(std::move(devices), lists.size());
  if (isNew) {
    lists.push_back(at->first);
    pools.push_back({at->first, 0});
    demands.emplace_back();
  }
  return at->second;
}

size_t Dealer::poolOf(size_t list, int64_t group) {
  if (work.groupCount == 1) {
    return list;
  }
  int64_t key = static_cast<int64_t>(list) * work.groupCount + group;
  if (auto at = inGroup.find(key); at != inGroup.end()) {
    return at->second;
  }
  std::vector<int64_t> near;
  for (int64_t device : lists[list]) {
    if (work.groups[device] == group) {
      near.push_back(device);
    }
  }
  size_t pool = near.empty() ? list : listOf(std::move(near));
  inGroup[key] = pool;
  return pool;
}

void Dealer::addEntry(size_t index, const std::vector<int64_t> &toDevices) {
  const Entry &entry = work.entries[index];
  std::vector<int64_t> oldCell(work.devices, -1);
  for (size_t i = 0; i < work.fromDevices.size(); ++i) {
    oldCell[work.fromDevices[i]] = entry.from.cellOf[i];
  }
  std::vector<size_t> list(entry.from.cells());
  for (int64_t cell = 0; cell < entry.from.cells(); ++cell) {
    std::vector<int64_t> devices;
    for (int64_t coordinate : entry.from.holders[cell]) {
      devices.push_back(work.fromDevices[coordinate]);
    }
    std::sort(devices.begin(), devices.end());
    list[cell] = listOf(std::move(devices));
  }
  Overlaps overlaps(entry.from, entry.to);
  for (int64_t cell = 0; cell < entry.to.cells(); ++cell) {
    if (entry.to.holders[cell].empty()) {
      continue;
    }
    for (const Overlaps::Entry &overlap : overlaps.of(cell)) {
      for (int64_t coordinate : entry.to.holders[cell]) {
        int64_t target = toDevices[coordinate];
        if (oldCell[target] == overlap.cell) {
          continue; // in place
        }
        size_t pool = poolOf(list[overlap.cell], work.groups[target]);
        pools[pool].amount += overlap.elements * entry.elementBytes;
        demands[pool].push_back(
            {static_cast<uint32_t>(target), static_cast<uint32_t>(index),
             static_cast<uint32_t>(overlap.cell), static_cast<uint32_t>(cell),
             overlap.elements});
      }
    }
  }
}

/// Fills the shares one after the other with the demands in order of targets,
/// so that a target takes from few devices. A share ends at the nearest whole
/// element, and what that is off goes to the next one.
void Dealer::dealPool(size_t pool, const std::vector<int64_t> &shares) {
  std::sort(demands[pool].begin(), demands[pool].end(),
            [](const Demand &a, const Demand &b) {
              return std::tie(a.target, a.entry, a.toCell, a.fromCell) <
                     std::tie(b.target, b.entry, b.toCell, b.fromCell);
            });
  size_t giver = 0;
  int64_t left = shares[0];
  for (const Demand &demand : demands[pool]) {
    Entry &entry = work.entries[demand.entry];
    int64_t bytes = entry.elementBytes;
    for (int64_t begin = 0; begin < demand.elements;) {
      int64_t rest = demand.elements - begin;
      int64_t count = std::clamp<int64_t>((left + bytes / 2) / bytes, 0, rest);
      if (giver + 1 == shares.size()) {
        count = rest;
      }
      if (count > 0) {
        Move move;
        move.source = static_cast<uint32_t>(pools[pool].devices[giver]);
        move.target = demand.target;
        move.fromCell = demand.fromCell;
        move.toCell = demand.toCell;
        move.begin = begin;
        move.end = begin + count;
        entry.moves.push_back(move);
      }
      begin += count;
      left -= count * bytes;
      if (begin < demand.elements) {
        left += shares[++giver];
      }
    }
  }
}

void Dealer::deal() {
  // Lists that only name the devices of a cell need no share.
  std::vector<Pool> asked;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (!demands[i].empty()) {
      asked.push_back(pools[i]);
      numbers.push_back(i);
    }
  }
  std::vector<std::vector<int64_t>> shares = share(asked, work.devices);
  for (size_t i = 0; i < asked.size(); ++i) {
    dealPool(numbers[i], shares[i]);
  }
}

} // namespace

void chooseSources(Work &work, const std::vector<int64_t> &toDevices) {
  Dealer dealer(work);
  for (size_t i = 0; i < work.entries.size(); ++i) {
    dealer.addEntry(i, toDevices);
  }
  dealer.deal();
}

} // namespace cleave::transfer
