//===- TransferTask.h - Copies and sums between memories --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_TRANSFERTASK_H
#define CLEAVE_RUNTIME_TRANSPORT_TRANSFERTASK_H

#include "runtime/transport/Exchange.h"

#include <cstddef>

namespace cleave::transport {

/// A region as strided loops: dims that are contiguous in every tensor merged,
/// the innermost contiguous in all. Strides and offsets are in elements.
struct TransferTask {
  format::ElementType type = format::ElementType::F32;
  layout::Reduction reduction = layout::Reduction::Sum;
  int64_t run = 1;            ///< elements of the innermost loop
  std::vector<int64_t> sizes; ///< of the loops around it, outermost first
  struct Side {
    int64_t rank = 0;
    int64_t offset = 0;
    std::vector<int64_t> strides; ///< one for each of `sizes`
  };
  std::vector<Side> sources; ///< in the order in which they are combined
  std::vector<Side> targets;
  /// Of a reduction: its results are too large for the caches, and are written
  /// past them.
  bool streams = false;
};

TransferTask makeTask(const Region &region, const Description &description);

/// The tensors of one rank.
struct Tensors {
  const void *source = nullptr;
  void *target = nullptr;
};

/// Runs a task on the tensors of all ranks. Every element is read from all
/// sources before it is written to a target, so that a target may be a source
/// with the same box. Allocates nothing.
void runTask(const TransferTask &task, const Tensors *tensors);

/// The same of a task with one source, for what is larger than the caches and
/// will not be read soon: writes past them, which spares memory the reading of
/// lines that are then overwritten. Source and target do not overlap.
void streamTask(const TransferTask &task, const Tensors *tensors);

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_TRANSFERTASK_H
