//===- Schedule.h - The order of work of a pipeline -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vocabulary of pipeline schedules, shared by the language, the compiler
// and the tools. It depends on nothing but the standard library.
//
// Definition. A model is cut into a line of *positions*, 0 first: each is a
// contiguous range of layers. p *stages* (coordinates of a pipe axis) hold v
// *chunks* each, so there are p * v positions. The batch is cut into m
// *microbatches*. A *schedule* is, for each stage, the ordered list of
// *actions* that it carries out, one after the other:
//
//   forward         needs the forward of the position before;
//   backward        the whole backward pass: needs its own forward, and the
//                   backward or the input gradient of the position after;
//   input gradient  the same, without the gradients of the weights;
//   weight gradient needs its own input gradient.
//
// A schedule says nothing about messages: they follow from it (Streams.h). It
// is used only after it was proven (Check.h).
//
//   1F1B, p = 2, m = 3        stage 0:  F0 F1 B0 F2 B1 B2
//                             stage 1:  F0 B0 F1 B1 F2 B2
//
// *Placement* says which position chunk c of stage s is:
//
//   plain    v = 1: position s
//   dealt    c * p + s (Megatron's interleaved stages)
//   folded   every other round runs backwards: c * p + s for even c,
//            c * p + (p - 1 - s) for odd c, so that v = 2 looks like a V and
//            the last position lies on stage 0
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SCHEDULE_SCHEDULE_H
#define CLEAVE_SCHEDULE_SCHEDULE_H

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::schedule {

enum class Kind : uint8_t { Forward, Backward, InputGradient, WeightGradient };

/// `forward`, `backward`, `input_grad`, `weight_grad`: as the language says it.
const char *spelling(Kind kind);

/// What an action has for a source where nothing is known.
inline constexpr uint32_t noSource = ~uint32_t(0);

struct Action {
  int32_t micro = 0;          ///< in [0, micros)
  uint32_t source = noSource; ///< what it means is its maker's affair
  uint16_t chunk = 0;         ///< in [0, chunks), of the stage that runs it
  Kind kind = Kind::Forward;

  /// The same work; where it was written does not matter.
  bool operator==(const Action &other) const {
    return micro == other.micro && chunk == other.chunk && kind == other.kind;
  }
};

enum class Placement : uint8_t { Plain, Dealt, Folded };
/// `plain`, `dealt`, `folded`.
const char *spelling(Placement placement);

/// Largest sizes that anything here takes: far above any cluster, and small
/// enough that no product of them overflows.
inline constexpr int32_t mostStages = 1 << 14;
inline constexpr int32_t mostChunks = 1 << 10;
inline constexpr int32_t mostMicros = 1 << 20;
/// And of stages * micros * chunks.
inline constexpr int64_t mostCells = int64_t(1) << 24;

struct Schedule {
  std::string name;
  int32_t stages = 1;
  int32_t micros = 1;
  int32_t chunks = 1; ///< for each stage
  Placement placement = Placement::Plain;
  std::vector<std::vector<Action>> actions; ///< for each stage, in order

  int32_t positions() const { return stages * chunks; }
  /// The position that a chunk of a stage is; both are in range.
  int32_t position(int32_t stage, int32_t chunk) const;
  /// The stage that holds a position, and which of its chunks it is.
  int32_t owner(int32_t position) const;
  int32_t chunkAt(int32_t position) const { return position / stages; }
  int32_t positionOf(int32_t stage, const Action &action) const {
    return position(stage, action.chunk);
  }
  /// Whether activations between `position` and the next one need a message.
  bool crosses(int32_t position) const {
    return owner(position) != owner(position + 1);
  }
};

/// `forward 3`, or `forward (3, 1)` where there are several chunks.
std::string describe(const Action &action, int32_t chunks);
/// `F3`, `B3`, `I3`, `W3`; with several chunks `F3.1`: for pictures.
std::string label(const Action &action, int32_t chunks);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_SCHEDULE_H
