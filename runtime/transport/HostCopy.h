//===- HostCopy.h - Pieces to a global array and back -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_HOSTCOPY_H
#define CLEAVE_RUNTIME_TRANSPORT_HOSTCOPY_H

#include "runtime/transport/TransferTask.h"

namespace cleave::transport {

/// A tensor of `sizes` in dense, host-addressable pieces.
struct Pieces {
  format::ElementType type = format::ElementType::F32;
  std::vector<int64_t> sizes;
  std::vector<Box> boxes;       ///< may overlap, and be empty
  std::vector<void *> memory;   ///< one for each box
  std::vector<int64_t> devices; ///< the same, for messages; or empty
};

Box wholeBox(const std::vector<int64_t> &sizes);

/// The dense global array, each element from the first piece that has it.
/// Fails where none has.
Status gather(const Pieces &pieces, void *global);
/// Every piece from the global array.
void scatter(const void *global, const Pieces &pieces);
/// Fails where a piece has other bits than the global array, and says which.
Status compare(const void *global, const Pieces &pieces);
/// One box from the global array; a task to be run with {global, piece}.
TransferTask scatterTask(format::ElementType type,
                         const std::vector<int64_t> &sizes, const Box &box);

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_HOSTCOPY_H
