//===- Devices.cpp - Which device takes which coordinate ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Assignment.h"
#include "transfer/Work.h"

namespace cleave::transfer {
namespace {

/// Rows are coordinates of the new mesh, then nobody's, for devices that the
/// new plan leaves idle: those cost nothing anywhere. Columns are devices.
class Chooser {
public:
  explicit Chooser(const Work &work)
      : work(work), coordinates(work.request.to.mesh.devices()),
        received(work.devices), slow(work.groupCount > 1 ? work.devices : 0) {}

  std::vector<int64_t> run();

private:
  void addEntry(const Entry &entry);
  void addSlow(const std::vector<int64_t> &coordinatesOfCell, int64_t wanted,
               const Entry &entry, const std::vector<Overlaps::Entry> &common);
  Costs strangeness() const;

  const Work &work;
  int64_t coordinates;
  Costs received; ///< bytes that a coordinate lacks on a device
  Costs slow;     ///< those that no device of its group has
};

void Chooser::addEntry(const Entry &entry) {
  Overlaps overlaps(entry.from, entry.to);
  for (int64_t cell = 0; cell < entry.to.cells(); ++cell) {
    const std::vector<int64_t> &holders = entry.to.holders[cell];
    if (holders.empty()) {
      continue;
    }
    int64_t wanted = entry.to.areaOf(cell).elements() * entry.elementBytes;
    std::vector<Overlaps::Entry> common = overlaps.of(cell);
    for (int64_t coordinate : holders) {
      for (int64_t device = 0; device < work.devices; ++device) {
        received.at(coordinate, device) += wanted;
      }
      for (const Overlaps::Entry &overlap : common) {
        for (int64_t old : entry.from.holders[overlap.cell]) {
          received.at(coordinate, work.fromDevices[old]) -=
              overlap.elements * entry.elementBytes;
        }
      }
    }
    if (work.groupCount > 1) {
      addSlow(holders, wanted, entry, common);
    }
  }
}

void Chooser::addSlow(const std::vector<int64_t> &coordinatesOfCell,
                      int64_t wanted, const Entry &entry,
                      const std::vector<Overlaps::Entry> &common) {
  std::vector<int64_t> lacks(work.groupCount, wanted);
  std::vector<int64_t> seen(work.groupCount, -1); // the last cell found there
  for (const Overlaps::Entry &overlap : common) {
    for (int64_t old : entry.from.holders[overlap.cell]) {
      int64_t group = work.groups[work.fromDevices[old]];
      if (seen[group] != overlap.cell) {
        seen[group] = overlap.cell;
        lacks[group] -= overlap.elements * entry.elementBytes;
      }
    }
  }
  for (int64_t coordinate : coordinatesOfCell) {
    for (int64_t device = 0; device < work.devices; ++device) {
      slow.at(coordinate, device) += lacks[work.groups[device]];
    }
  }
}

/// 1 where a coordinate is not on the device that the request prefers.
Costs Chooser::strangeness() const {
  Costs costs(work.devices);
  for (int64_t coordinate = 0; coordinate < coordinates; ++coordinate) {
    for (int64_t device = 0; device < work.devices; ++device) {
      costs.at(coordinate, device) = work.preferred[coordinate] != device;
    }
  }
  return costs;
}

std::vector<int64_t> Chooser::run() {
  for (const Entry &entry : work.entries) {
    addEntry(entry);
  }
  Assignment assignment(work.devices);
  assignment.minimiseSum(received);
  if (work.groupCount > 1) {
    assignment.minimiseSum(slow);
  }
  assignment.minimiseLargest(received);
  assignment.minimiseSum(strangeness());
  std::vector<int64_t> devices = assignment.columns();
  devices.resize(coordinates);
  return devices;
}

} // namespace

std::vector<int64_t> chooseDevices(const Work &work) {
  if (!work.request.relabel || work.devices > mostRelabelled) {
    return work.preferred;
  }
  return Chooser(work).run();
}

} // namespace cleave::transfer
