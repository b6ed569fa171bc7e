//===- Pipeline.h - Positions and slots of a pipeline -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What follows from a pipeline's streams alone: who holds which position, and
// how much memory its stages keep for the microbatches that are under way.
//
// A *cell* is a microbatch in a chunk. For each group a stage gives it a
// *slot*, from the first of the stage's steps that uses the group for this cell
// to the last. A computing step uses the groups that its sections name, a
// message those of its values. What goes to a position on the same stage is
// copied at the end of the step that makes it, which so uses the other cell
// too.
//
//   1F1B, stage 0 of 2, 3 microbatches    F0 F1 B0 F2 B1 B2
//   slots                                 0: F0..B0, F2..B2   1: F1..B1
//
// A step that receives *posts*: it waits for nothing, and the message may
// arrive from then on. The computing step that uses it waits for it. So a
// message may be there long before it is used; values that messages write are
// best in groups of their own, so that only theirs are kept so long.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_PIPELINE_H
#define CLEAVE_RUNTIME_FORMAT_PIPELINE_H

#include "layout/Layout.h"
#include "runtime/format/Plan_generated.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cleave::format {

/// The pipeline of a program; null where it has none.
const PipelineT *pipelineOf(const ProgramT &program);

/// Of a pipeline whose atoms are in range.
struct PipelineShape {
  int64_t stages = 1, micros = 1;
  int64_t chunks = 1; ///< of each stage
  Placement placement = Placement::Plain;

  PipelineShape(const PipelineT &pipeline, const layout::Mesh &mesh);

  int64_t positions() const { return stages * chunks; }
  int64_t cells() const { return micros * chunks; }
  int64_t cell(int64_t micro, int64_t chunk) const {
    return micro * chunks + chunk;
  }
  int64_t position(int64_t stage, int64_t chunk) const;
  int64_t stageAt(int64_t position) const;
  int64_t chunkAt(int64_t position) const { return position / stages; }
  /// Where the result of a computing step at `position` goes: the next
  /// position, of a gradient the one before; -1 where there is none.
  int64_t receiver(StepKind kind, int64_t position) const;
  /// The cell, on the same stage, that gets what `step` makes; or -1.
  int64_t neighbour(const Step &step, int64_t stage) const;
};

/// Whether a message goes over the boundary between `position` and the next.
bool crosses(const MessageT &message, int64_t position);

/// Bytes of the arena that a stage uses: where values have one place for all,
/// the end of the furthest of those that it works with. Of a verified program.
uint64_t arenaOf(const ProgramT &program, const layout::Mesh &mesh,
                 int64_t stage);

/// `forward 3`, or `forward (3, 1)` where there are several chunks.
std::string describe(const Step &step, bool severalChunks);
bool isMessage(StepKind kind);

/// Which slots the steps of one stage use. Of a verified program that has a
/// pipeline; outlives nothing that it was made of.
class SlotUse {
public:
  struct Touch {
    uint32_t group = 0;
    int64_t cell = 0;
  };

  SlotUse(const ProgramT &program, const PipelineShape &shape, int64_t stage);

  std::vector<Touch> of(const Step &step) const;
  /// Whether messages start there.
  bool isSource(uint32_t group) const;

private:
  PipelineShape shape;
  int64_t stage;
  std::vector<std::set<uint32_t>> sections[3]; ///< by kind, by chunk
  /// Of activations, of gradients, by chunk: of what leaves its position, and
  /// of what arrives there.
  std::vector<std::set<uint32_t>> sources[2], targets[2];
};

/// The memory of one stage's slots, one group after the other.
struct Slots {
  struct Group {
    uint64_t offset = 0;          ///< of the first slot, in bytes
    uint64_t stride = 0;          ///< from one slot to the next
    int64_t count = 0;            ///< the most that are in use at once
    std::vector<int32_t> numbers; ///< by cell: its slot, or -1
  };
  std::vector<Group> groups; ///< of the pipeline
  uint64_t bytes = 0;        ///< of all

  /// Where the group's slot of a cell that has one begins.
  uint64_t offsetOf(uint32_t group, int64_t cell) const {
    return groups[group].offset +
           groups[group].stride * groups[group].numbers[cell];
  }
};

/// Of a verified program that has a pipeline.
Slots slotsOf(const ProgramT &program, const PipelineShape &shape,
              int64_t stage);

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_PIPELINE_H
