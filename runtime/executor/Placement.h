//===- Placement.h - The pieces of a plan's extents -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_PLACEMENT_H
#define CLEAVE_RUNTIME_EXECUTOR_PLACEMENT_H

#include "layout/Layout.h"
#include "runtime/format/Pipeline.h"
#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"
#include "runtime/transport/Box.h"

#include <vector>

namespace cleave::executor {

/// The pieces of every extent of a plan, on every device at every instant. What
/// no time cuts is the same at all of them.
class Placement {
public:
  /// Of a plan whose mesh has few devices. Fails where it has so many instants
  /// that nothing could run it.
  static Result<Placement> create(const format::PlanT &plan);

  layout::Mesh mesh;

  const layout::Piece &piece(uint32_t extent, int64_t device,
                             int64_t instant) const {
    const std::vector<layout::Piece> &row = pieces[extent];
    return row[row.size() > deviceCount ? instant * deviceCount + device
                                        : device];
  }
  bool isTimed(uint32_t extent) const {
    return pieces[extent].size() > deviceCount;
  }
  /// Whether a value's piece is another at another instant.
  bool isTimed(const format::ValueT &value) const;

  /// What `device` holds of a value; `dropped` leading dims left out.
  transport::Box boxOf(const format::ValueT &value, int64_t device,
                       int64_t instant, size_t dropped = 0) const;

  /// A box of a value, and where in its memory it begins.
  struct Part {
    transport::Box box;
    size_t offset = 0;
  };
  /// Whether a value's first dim lies in several pieces on one device.
  bool isInPieces(const format::PlanT &plan, const format::ValueT &value) const;
  /// What `device` holds of a value whose first dim may lie in several pieces,
  /// in global indices.
  std::vector<Part> partsOf(const format::PlanT &plan,
                            const format::ValueT &value, int64_t device) const;

  /// The instant of a microbatch in a chunk.
  int64_t instantOf(const format::PipelineT &pipeline, int64_t micro,
                    int64_t chunk) const;

private:
  size_t deviceCount = 0;
  std::vector<std::vector<layout::Piece>> pieces; ///< by extent, by point
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_PLACEMENT_H
