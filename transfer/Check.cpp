//===- Check.cpp - Whether a request makes sense --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Work.h"

#include <algorithm>

namespace cleave::transfer {

/// Sums of bytes over devices stay below it, with room to add two.
constexpr int64_t mostBytes = int64_t(1) << 61;

static std::string quoted(const std::string &name) { return "`" + name + "`"; }

/// a * b, or -1 if that is over `mostBytes`.
static int64_t product(int64_t a, int64_t b) {
  __int128 result = static_cast<__int128>(a) * b;
  return a < 0 || b < 0 || result > mostBytes ? -1
                                              : static_cast<int64_t>(result);
}

static std::string problemOf(const Side &side, const std::string &name) {
  int64_t devices = 1;
  for (layout::AtomId i = 0; i < side.mesh.atoms.size(); ++i) {
    const layout::Atom &atom = side.mesh.atoms[i];
    if (atom.size < 1) {
      return "the " + name + " mesh has an axis of no size";
    }
    if (side.mesh.isTime(i)) {
      continue; // one device runs through it
    }
    devices = product(devices, atom.size);
    if (devices < 0 || devices > mostDevices) {
      return "the " + name + " mesh has more than " +
             std::to_string(mostDevices) + " devices";
    }
  }
  if (side.devices.empty()) {
    return "";
  }
  if (static_cast<int64_t>(side.devices.size()) != devices) {
    return "the " + name + " mesh has " + std::to_string(devices) +
           " coordinates, but " + std::to_string(side.devices.size()) +
           " devices are named for it";
  }
  std::vector<int64_t> sorted = side.devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return "two coordinates of the " + name + " mesh are on one device";
  }
  if (sorted.front() < 0 || sorted.back() >= mostDevices) {
    return "the " + name + " mesh is on a device that is not there";
  }
  return "";
}

/// How many devices a side needs there to be.
static int64_t reach(const Side &side) {
  return side.devices.empty()
             ? side.mesh.devices()
             : *std::max_element(side.devices.begin(), side.devices.end()) + 1;
}

/// Adds the leaf's bytes to `total`.
static std::string problemOf(const Leaf &leaf, const Request &request,
                             int64_t &total) {
  int64_t bytes = leaf.elementBytes;
  for (int64_t size : leaf.sizes) {
    bytes = bytes < 0 ? bytes : product(bytes, size);
  }
  if (leaf.elementBytes < 1 || bytes < 0 || total + bytes > mostBytes) {
    return quoted(leaf.path) + " has sizes that make no sense";
  }
  total += bytes;
  for (bool isOld : {true, false}) {
    const Side &side = isOld ? request.from : request.to;
    std::string problem =
        problemOf(leaf.sizes, isOld ? leaf.from : leaf.to, side.mesh);
    if (!problem.empty()) {
      return quoted(leaf.path) + " under the " + (isOld ? "old" : "new") +
             " plan: " + problem;
    }
  }
  if (request.budget / 2 < leaf.elementBytes) {
    return "a budget of " + std::to_string(request.budget) +
           " bytes does not hold two elements of " + quoted(leaf.path) +
           ", one to send and one to receive";
  }
  return "";
}

std::string problemOf(const Request &request) {
  for (bool isOld : {true, false}) {
    std::string problem =
        problemOf(isOld ? request.from : request.to, isOld ? "old" : "new");
    if (!problem.empty()) {
      return problem;
    }
  }
  int64_t needed = std::max(reach(request.from), reach(request.to));
  if (request.devices != 0 &&
      (request.devices < needed || request.devices > mostDevices)) {
    return "the plans need " + std::to_string(needed) + " devices, but there " +
           (request.devices == 1 ? "is " : "are ") +
           std::to_string(request.devices);
  }
  int64_t devices = request.devices == 0 ? needed : request.devices;
  if (!request.groups.empty() &&
      static_cast<int64_t>(request.groups.size()) != devices) {
    return "groups are given for " + std::to_string(request.groups.size()) +
           " of " + std::to_string(devices) + " devices";
  }
  if (request.budget < 2) {
    return "a budget of " + std::to_string(request.budget) +
           " bytes holds nothing";
  }
  int64_t total = 0;
  for (const Leaf &leaf : request.leaves) {
    if (std::string problem = problemOf(leaf, request, total);
        !problem.empty()) {
      return problem;
    }
  }
  if (product(total, devices) < 0) {
    return "the state is too large to count its bytes";
  }
  return "";
}

} // namespace cleave::transfer
