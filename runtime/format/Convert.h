//===- Convert.h - Layouts between the plan file and layout/ ----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_CONVERT_H
#define CLEAVE_RUNTIME_FORMAT_CONVERT_H

#include "layout/Layout.h"
#include "runtime/format/Plan_generated.h"

namespace cleave::format {

layout::Mesh toLayout(const MeshT &mesh);
layout::Split toLayout(const SplitT &split);
/// Of a leaf: never partial.
layout::Layout toLayout(const LayoutT &layout);

std::vector<layout::Residence>
toLayout(const std::vector<std::unique_ptr<ResidenceT>> &parts);

MeshT fromLayout(const layout::Mesh &mesh);
SplitT fromLayout(const layout::Split &split);
LayoutT fromLayout(const layout::Layout &layout);

/// Whether what has this residence is at a coordinate: of every atom that is
/// named, in one of its ranges. Nothing named is everywhere.
bool resides(const std::vector<layout::Residence> &parts,
             const std::vector<int64_t> &coordinate);

/// Bytes of one element.
int64_t elementSize(ElementType type);
const char *nameOf(ElementType type);    ///< f32, i32, bool, bf16
const char *nameOf(CollectiveKind kind); ///< all_reduce, …
const char *nameOf(TrafficKind kind);    ///< collectives, all_reduce, …

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_CONVERT_H
