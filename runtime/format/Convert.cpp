//===- Convert.cpp - Layouts between the plan file and layout/ ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Convert.h"

#include <algorithm>

namespace cleave::format {

layout::Mesh toLayout(const MeshT &mesh) {
  layout::Mesh result;
  for (const auto &atom : mesh.atoms) {
    result.atoms.push_back({atom->name, atom->size});
  }
  for (const auto &axis : mesh.axes) {
    result.axes.push_back({axis->name, axis->atoms});
  }
  result.times = mesh.times;
  return result;
}

layout::Split toLayout(const SplitT &split) {
  return {split.atoms, split.unit, split.cuts, split.places};
}

layout::Layout toLayout(const LayoutT &source) {
  layout::Layout result;
  for (const auto &split : source.dims) {
    result.dims.push_back(toLayout(*split));
  }
  result.residence = toLayout(source.residence);
  return result;
}

std::vector<layout::Residence>
toLayout(const std::vector<std::unique_ptr<ResidenceT>> &parts) {
  std::vector<layout::Residence> result;
  for (const auto &part : parts) {
    result.push_back({part->atom, part->begin, part->end});
  }
  return result;
}

bool resides(const std::vector<layout::Residence> &parts,
             const std::vector<int64_t> &coordinate) {
  auto inRange = [&](const layout::Residence &part) {
    return coordinate[part.atom] >= part.begin &&
           coordinate[part.atom] < part.end;
  };
  return std::all_of(parts.begin(), parts.end(), [&](const auto &part) {
    return std::any_of(parts.begin(), parts.end(), [&](const auto &other) {
      return other.atom == part.atom && inRange(other);
    });
  });
}

MeshT fromLayout(const layout::Mesh &mesh) {
  MeshT result;
  for (const layout::Atom &atom : mesh.atoms) {
    auto copy = std::make_unique<AtomT>();
    copy->name = atom.name;
    copy->size = atom.size;
    result.atoms.push_back(std::move(copy));
  }
  for (const layout::Axis &axis : mesh.axes) {
    auto copy = std::make_unique<AxisT>();
    copy->name = axis.name;
    copy->atoms = axis.atoms;
    result.axes.push_back(std::move(copy));
  }
  result.times = static_cast<uint32_t>(mesh.times);
  return result;
}

SplitT fromLayout(const layout::Split &split) {
  SplitT result;
  result.atoms = split.atoms;
  result.unit = split.unit;
  result.cuts = split.cuts;
  result.places = split.places;
  return result;
}

LayoutT fromLayout(const layout::Layout &layout) {
  LayoutT result;
  for (const layout::Split &split : layout.dims) {
    result.dims.push_back(std::make_unique<SplitT>(fromLayout(split)));
  }
  for (const layout::Residence &part : layout.residence) {
    auto copy = std::make_unique<ResidenceT>();
    copy->atom = part.atom;
    copy->begin = part.begin;
    copy->end = part.end;
    result.residence.push_back(std::move(copy));
  }
  return result;
}

int64_t elementSize(ElementType type) {
  return type == ElementType::Bool ? 1 : type == ElementType::BF16 ? 2 : 4;
}

const char *nameOf(ElementType type) {
  const char *names[] = {"f32", "i32", "bool", "bf16"};
  return names[static_cast<size_t>(type)];
}

const char *nameOf(CollectiveKind kind) {
  const char *names[] = {"all_reduce", "all_gather", "reduce_scatter",
                         "all_to_all", "broadcast",  "shift",
                         "slice"};
  return names[static_cast<size_t>(kind)];
}

const char *nameOf(TrafficKind kind) {
  const char *names[] = {"collectives",    "all_reduce", "all_gather",
                         "reduce_scatter", "all_to_all", "broadcast",
                         "shift",          "send"};
  return names[static_cast<size_t>(kind)];
}

} // namespace cleave::format
