//===- Record.h - Why a collective is there ---------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sentences of `explain`, made where the collective is.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_RECORD_H
#define CLEAVE_COMPILER_PARTITION_RECORD_H

#include "compiler/reshard/Reshard.h"
#include "layout/Plan.h"
#include "mlir/IR/Operation.h"

#include <string>
#include <vector>

namespace cleave::partitioning {

/// What is remembered of a value to explain its layout.
struct Notes {
  layout::ValueInfo info;
  std::vector<std::string>
      why;             ///< of each dim: what split it, or left it whole
  std::string pending; ///< why it is a pending reduction
  std::string pendingOperation; ///< what made it one
  layout::SourcePoint pendingSource;
};

/// `dot over ff`, `scatter_add along vocab`, `add`.
std::string nameOf(mlir::Operation *op);

/// The innermost place in a file that a location knows.
layout::SourcePoint pointOf(mlir::Location loc);

struct Change {
  layout::Layout from, to; ///< of one move
  layout::Layout target;   ///< of all moves together
  reshard::Kind kind;
  std::vector<layout::AtomId> atoms;
};

/// Why a move happens: what the value was, what `need` makes it.
std::string reasonFor(const Change &change, const Notes &before,
                      const std::vector<std::string> &whyAfter,
                      const std::string &need, const layout::Mesh &mesh);

/// What a user could write to avoid it; empty where nothing plain helps.
std::string avoidFor(const Change &change, const layout::ValueInfo &info,
                     const layout::Mesh &mesh);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_RECORD_H
