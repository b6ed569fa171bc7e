//===- ProgramVerifier.h - What verifying a program knows -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of VerifyProgram.cpp and VerifyPipeline.cpp alone.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_PROGRAMVERIFIER_H
#define CLEAVE_RUNTIME_FORMAT_PROGRAMVERIFIER_H

#include "runtime/format/Convert.h"
#include "runtime/format/Verify.h"

#include <algorithm>
#include <optional>
#include <set>

namespace cleave::format {

inline std::string number(int64_t value) { return std::to_string(value); }

using Body = std::vector<std::unique_ptr<InstructionT>>;

/// The atoms of `a` that are in `b`.
inline std::set<uint32_t> common(const std::vector<uint32_t> &a,
                                 const std::vector<uint32_t> &b,
                                 const layout::Mesh &mesh) {
  std::set<uint32_t> both;
  for (uint32_t atom : a) {
    if (mesh.atoms[atom].size > 1 &&
        std::find(b.begin(), b.end(), atom) != b.end()) {
      both.insert(atom);
    }
  }
  return both;
}

/// Looks at one program. What it says of an instruction holds for every device
/// and every instant.
struct Verifier {
  const ProgramT &program;
  const PlanT &plan;
  const PlanSetT &set;
  const layout::Mesh &mesh;
  std::vector<layout::Split> splits; ///< of the plan's extents
  std::vector<int64_t> largest;      ///< of the plan's extents
  std::vector<const LoopT *> loops;  ///< enclosing, outermost first
  size_t nesting = 0;                ///< loops and `Only`s around
  std::set<uint32_t> pending;        ///< collectives not yet waited for
  std::set<uint32_t> started;        ///< all collectives seen
  const PipelineT *pipeline = nullptr;
  std::optional<PipelineShape> shape; ///< of `pipeline`
  const SectionT *section = nullptr;  ///< around what is looked at

  Verifier(const ProgramT &program, const PlanT &plan, const PlanSetT &set,
           const layout::Mesh &mesh)
      : program(program), plan(plan), set(set), mesh(mesh) {
    for (const auto &extent : plan.extents) {
      splits.push_back(toLayout(*extent->split));
      largest.push_back(
          layout::largestPiece(extent->size, splits.back(), mesh));
    }
  }

  Status verifyInput(const InputT &input);
  Status verifyValue(const ValueT &value);
  Status verifyRoom(const ValueT &value, uint64_t needed);
  Status verifyChunks(const ValueT &value);
  int64_t allChunks(uint32_t extent) const;
  Status verifyOutput(const OutputT &output);
  Status verifyUpdate();
  /// `update`: where that begins; 0 for none.
  Status verifyBody(const Body &body, size_t update = 0);
  Status verifyInside(const Body &body, const char *what);
  Status verifyInstruction(const InstructionT &instruction);
  Status verifyLoop(const LoopT &loop);
  Status verifyKernel(const KernelT &kernel);
  Status verifyContraction(const ContractionT &contraction);
  Status verifyMove(const MoveT &move);
  Status verifyCollective(const CollectiveT &collective);
  Status verifyGroup(const CollectiveT &collective, const std::string &what);
  Status verifyShift(const CollectiveT &collective,
                     const std::vector<uint32_t> &extents);
  Status verifyView(const View *view);
  Status verifyIterations(const View &view, const LoopT &loop);
  Status verifyPositions(const ValueT &value, int64_t begin, int64_t end);
  Status verifyOnly(const OnlyT &only);
  Status findPipeline();
  Status verifyTimes();
  Status verifyGroups();
  Status verifyPipeline();
  Status verifySection(const SectionT &section);
  Status verifyMessage(const MessageT &message, bool gradient);
  Status verifySite(uint32_t site);

  const ValueT &valueOf(const View &view) {
    return *program.values[view.value()];
  }
  /// The extents of what a verified view shows.
  std::vector<uint32_t> extentsOf(const View &view) {
    std::vector<uint32_t> extents = valueOf(view).extents;
    if (view.loop() >= 0) {
      extents.erase(extents.begin());
    }
    return extents;
  }
  /// Whether an extent is cut over a time.
  bool isTimed(uint32_t extent) const {
    return std::any_of(splits[extent].atoms.begin(), splits[extent].atoms.end(),
                       [&](uint32_t atom) {
                         return mesh.isTime(atom) && mesh.atoms[atom].size > 1;
                       });
  }
  /// Whether a device may hold several pieces of an extent: then it has no
  /// begin, and no global index follows from a local one.
  bool isScattered(uint32_t extent) const {
    return !layout::isContiguous(splits[extent]);
  }
  /// Whether local indices of the one are those of the other, in pieces or not.
  bool isTimed(const View &view);
  bool matches(uint32_t a, uint32_t b) const {
    return (!isScattered(a) && !isScattered(b)) || splits[a] == splits[b];
  }
  bool same(uint32_t a, uint32_t b) {
    return a == b || sameSizes(plan.extents[a]->size, splits[a],
                               plan.extents[b]->size, splits[b], mesh);
  }
  /// Whether two verified views may share memory.
  bool overlap(const View &a, const View &b) {
    const ValueT &x = valueOf(a), &y = valueOf(b);
    if (x.storage != y.storage) {
      return false;
    }
    if (x.storage == Storage::Slot && x.index != y.index) {
      return false;
    }
    if (x.storage == Storage::Arena || x.storage == Storage::Slot) {
      return x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
    }
    return x.storage == Storage::Leaf ? x.index == y.index
                                      : a.value() == b.value();
  }
};

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_PROGRAMVERIFIER_H
