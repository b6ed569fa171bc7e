//===- Stored.h - What devices keep of a value ------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages of a pipeline keep different things: their layers, and what lives on
// some of them alone.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LAYOUT_STORED_H
#define CLEAVE_LAYOUT_STORED_H

#include "layout/Plan.h"

namespace cleave::layout {

/// Some devices of a mesh: those with rank `rank` along `atoms` (major first).
/// Without atoms all of them.
struct Part {
  std::vector<AtomId> atoms;
  int64_t rank = 0;
};

/// Whether anything with this residence is on devices of the part.
bool livesOn(const std::vector<Residence> &residence, const Part &part,
             const Mesh &mesh);

/// The largest piece that a device of the part holds of a dim.
int64_t largestPieceOn(int64_t size, const Split &split, const Part &part,
                       const Mesh &mesh);

/// Bytes that a device of the part keeps, at the most.
int64_t bytesOn(const ValueInfo &value, const Layout &layout, const Part &part,
                const Mesh &mesh);

/// The stages of a plan, first to last; without a pipeline one part, of all.
std::vector<Part> stagesOf(const Plan &plan);

/// `pipe[0], pipe[last]`; empty for what lives everywhere.
std::string describe(const std::vector<Residence> &residence, const Mesh &mesh);

} // namespace cleave::layout

#endif // CLEAVE_LAYOUT_STORED_H
