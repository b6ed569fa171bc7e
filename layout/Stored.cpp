//===- Stored.cpp - What devices keep of a value --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "layout/Stored.h"

#include <algorithm>
#include <iterator>

namespace cleave::layout {

/// Sets the coordinates along `atoms` to those of a rank.
static void spread(std::vector<int64_t> &coordinate,
                   const std::vector<AtomId> &atoms, int64_t rank,
                   const Mesh &mesh) {
  for (size_t i = atoms.size(); i-- > 0;) {
    coordinate[atoms[i]] = rank % mesh.atoms[atoms[i]].size;
    rank /= mesh.atoms[atoms[i]].size;
  }
}

bool livesOn(const std::vector<Residence> &residence, const Part &part,
             const Mesh &mesh) {
  std::vector<int64_t> coordinate(mesh.atoms.size());
  spread(coordinate, part.atoms, part.rank, mesh);
  auto isThere = [&](const Residence &range) {
    return coordinate[range.atom] >= range.begin &&
           coordinate[range.atom] < range.end;
  };
  // Of each atom that is named and that the part fixes, one of its ranges.
  for (AtomId atom : part.atoms) {
    bool isNamed = false, isIn = false;
    for (const Residence &range : residence) {
      isNamed |= range.atom == atom;
      isIn |= range.atom == atom && isThere(range);
    }
    if (isNamed && !isIn) {
      return false;
    }
  }
  return true;
}

int64_t largestPieceOn(int64_t size, const Split &split, const Part &part,
                       const Mesh &mesh) {
  auto isFixed = [&](AtomId atom) {
    return std::find(part.atoms.begin(), part.atoms.end(), atom) !=
           part.atoms.end();
  };
  std::vector<AtomId> others;
  std::copy_if(split.atoms.begin(), split.atoms.end(),
               std::back_inserter(others),
               [&](AtomId atom) { return !isFixed(atom); });
  if (others.size() == split.atoms.size()) {
    return largestPiece(size, split, mesh);
  }
  std::vector<int64_t> coordinate(mesh.atoms.size());
  spread(coordinate, part.atoms, part.rank, mesh);
  int64_t largest = 0;
  for (int64_t rank = 0, n = mesh.sizeOf(others); rank < n; ++rank) {
    spread(coordinate, others, rank, mesh);
    largest =
        std::max(largest, heldBy(size, split, mesh, mesh.deviceAt(coordinate)));
  }
  return largest;
}

int64_t bytesOn(const ValueInfo &value, const Layout &layout, const Part &part,
                const Mesh &mesh) {
  if (!livesOn(layout.residence, part, mesh)) {
    return 0;
  }
  int64_t bytes = value.elementBytes;
  for (size_t i = 0; i < value.dims.size(); ++i) {
    bytes *= largestPieceOn(value.dims[i].size, layout.dims[i], part, mesh);
  }
  return bytes;
}

std::vector<Part> stagesOf(const Plan &plan) {
  std::vector<Part> stages;
  if (!plan.pipeline) {
    return {{}};
  }
  const std::vector<AtomId> &atoms = plan.pipeline->atoms;
  for (int64_t rank = 0, n = plan.mesh.sizeOf(atoms); rank < n; ++rank) {
    stages.push_back({atoms, rank});
  }
  return stages;
}

/// Adds number by number; the shorter list ends in zeros.
static void addTo(std::vector<int64_t> &sums,
                  const std::vector<int64_t> &more) {
  sums.resize(std::max(sums.size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i) {
    sums[i] += more[i];
  }
}

void BusiestDevice::add(const CollectiveRecord &record) {
  if (record.stageBytes.empty()) {
    everywhere += record.bytesBusiest * record.iterations;
  }
  addTo(stages, record.stageBytes);
}

void BusiestDevice::add(const BusiestDevice &other) {
  everywhere += other.everywhere;
  addTo(stages, other.stages);
}

int64_t BusiestDevice::bytes() const {
  int64_t most = 0;
  for (int64_t own : stages) {
    most = std::max(most, own);
  }
  return everywhere + most;
}

std::string describe(const std::vector<Residence> &residence,
                     const Mesh &mesh) {
  std::string text;
  for (const Residence &range : residence) {
    const Atom &atom = mesh.atoms[range.atom];
    auto say = [&](int64_t coordinate) {
      return coordinate + 1 == atom.size ? std::string("last")
                                         : std::to_string(coordinate);
    };
    text += (text.empty() ? "" : ", ") + atom.name + "[";
    text += range.end == range.begin + 1
                ? say(range.begin)
                : std::to_string(range.begin) + " .. " +
                      (range.end == atom.size ? "" : std::to_string(range.end));
    text += "]";
  }
  return text;
}

} // namespace cleave::layout
