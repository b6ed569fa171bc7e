//===- Verify.h - Whether a plan set makes sense ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After FlatBuffers' verifier says that a plan set is well formed, these say
// that it can be run: every index in range, every buffer within its arena and
// large enough for the largest piece, sizes that do not overflow, views at
// loops that exist and iterate within the value, collectives that are started
// and waited for in pairs, ranks and types that agree, stages that never wait
// for each other for ever. What the executor does afterwards needs no further
// check. Work is linear in the plan set, whatever the size of its meshes.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_VERIFY_H
#define CLEAVE_RUNTIME_FORMAT_VERIFY_H

#include "layout/Layout.h"
#include "runtime/format/Pipeline.h"
#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"

namespace cleave::format {

inline constexpr int64_t largestMesh = int64_t(1) << 20;    ///< devices
inline constexpr int64_t largestTime = int64_t(1) << 24;    ///< times devices
inline constexpr int64_t largestTensor = int64_t(1) << 50;  ///< elements
inline constexpr uint64_t largestArena = uint64_t(1) << 50; ///< bytes
inline constexpr size_t deepestLoop = 16;                   ///< and `Only`s
inline constexpr size_t mostSlotGroups = 256;
inline constexpr size_t mostRanges = 64; ///< of one residence
inline constexpr size_t highestRank = 16;
inline constexpr size_t mostTerms = 1024;          ///< of one condition
inline constexpr uint32_t longestWindow = 100'000; ///< steps

Status verify(const PlanSetT &set);

// The parts, for `verify`.

/// Of a dim of `size` elements.
Status verifySplit(const SplitT &split, int64_t size, const layout::Mesh &mesh);
/// Ranges of the coordinates of devices.
Status verifyResidence(const std::vector<std::unique_ptr<ResidenceT>> &parts,
                       const layout::Mesh &mesh);
/// That each stage's steps are in range and in an order that respects what they
/// need, and that all of them can be done if every message waits for the other
/// side.
Status verifyStreams(const PipelineT &pipeline, const PipelineShape &shape);
/// That conditions leave one number, and that rules ask for what the set has.
Status verifyRun(const RunT &run, const PlanSetT &set);
Status verifyProgram(const ProgramT &program, const PlanT &plan,
                     const PlanSetT &set, const layout::Mesh &mesh);
/// The product of `sizes`, all at least `least`; fails where it overflows.
Result<int64_t> elementsOf(const std::vector<int64_t> &sizes, int64_t least);
/// Whether every device holds the same number of elements under both.
bool sameSizes(int64_t sizeA, const layout::Split &a, int64_t sizeB,
               const layout::Split &b, const layout::Mesh &mesh);
/// The fewest elements that a device holds.
int64_t smallestPiece(int64_t size, const layout::Split &split,
                      const layout::Mesh &mesh);

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_VERIFY_H
