//===- Placement.cpp - The pieces of a plan's extents ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Placement.h"
#include "runtime/format/Convert.h"

#include <algorithm>

namespace cleave::executor {

/// Above what any program needs, below what memory has.
static constexpr int64_t mostPieces = int64_t(1) << 26;

Result<Placement> Placement::create(const format::PlanT &plan) {
  Placement result;
  const layout::Mesh &mesh = result.mesh = format::toLayout(*plan.mesh);
  result.deviceCount = static_cast<size_t>(mesh.devices());
  int64_t total = 0;
  for (const auto &extent : plan.extents) {
    layout::Split split = format::toLayout(*extent->split);
    bool timed = std::any_of(split.atoms.begin(), split.atoms.end(),
                             [&](auto atom) { return mesh.isTime(atom); });
    int64_t points = mesh.devices() * (timed ? mesh.instants() : 1);
    if ((total += points) > mostPieces) {
      return Status::error("its mesh has too many devices and microbatches");
    }
    std::vector<layout::Piece> &row = result.pieces.emplace_back();
    for (int64_t point = 0; point < points; ++point) {
      // Of several pieces, which stand one after the other, only the sizes
      // matter here.
      row.push_back(layout::isContiguous(split)
                        ? layout::pieceOf(extent->size, split, mesh, point)
                        : layout::Piece{0, layout::heldBy(extent->size, split,
                                                          mesh, point)});
    }
  }
  return result;
}

bool Placement::isInPieces(const format::PlanT &plan,
                           const format::ValueT &value) const {
  return !value.extents.empty() &&
         !layout::isContiguous(
             format::toLayout(*plan.extents[value.extents.front()]->split));
}

std::vector<Placement::Part> Placement::partsOf(const format::PlanT &plan,
                                                const format::ValueT &value,
                                                int64_t device) const {
  std::vector<Part> parts = {{boxOf(value, device, 0), 0}};
  if (!isInPieces(plan, value)) {
    return parts;
  }
  const format::ExtentT &first = *plan.extents[value.extents.front()];
  layout::Split split = format::toLayout(*first.split);
  transport::Box whole = parts.front().box;
  parts.clear();
  size_t offset = 0;
  for (const layout::Piece &piece :
       layout::piecesOf(first.size, split, mesh, device)) {
    Part part{whole, offset};
    part.box.dims.front() = piece;
    offset += part.box.elements() * format::elementSize(value.type);
    parts.push_back(std::move(part));
  }
  return parts;
}

bool Placement::isTimed(const format::ValueT &value) const {
  return std::any_of(value.extents.begin(), value.extents.end(),
                     [&](uint32_t extent) { return isTimed(extent); });
}

transport::Box Placement::boxOf(const format::ValueT &value, int64_t device,
                                int64_t instant, size_t dropped) const {
  transport::Box box;
  for (size_t i = dropped; i < value.extents.size(); ++i) {
    box.dims.push_back(piece(value.extents[i], device, instant));
  }
  return box;
}

/// Puts `rank` along the ordered atoms into a coordinate.
static void place(std::vector<int64_t> &coordinate, const layout::Mesh &mesh,
                  const std::vector<uint32_t> &atoms, int64_t rank) {
  for (size_t i = atoms.size(); i-- > 0;) {
    coordinate[atoms[i]] = rank % mesh.atoms[atoms[i]].size;
    rank /= mesh.atoms[atoms[i]].size;
  }
}

int64_t Placement::instantOf(const format::PipelineT &pipeline, int64_t micro,
                             int64_t chunk) const {
  std::vector<int64_t> coordinate(mesh.atoms.size(), 0);
  place(coordinate, mesh, pipeline.micro, micro);
  place(coordinate, mesh, pipeline.chunk, chunk);
  return mesh.deviceAt(coordinate) / mesh.devices();
}

} // namespace cleave::executor
