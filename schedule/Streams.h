//===- Streams.h - Where a schedule's messages go ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule orders work; a stage also sends and receives. This places the
// messages so that the stages cannot deadlock, even if every send waits for its
// receiver (*rendezvous*) and a stage does one thing at a time.
//
// It matters where. Of two neighbours that both want to send to each other, one
// must receive first; that is what batched point-to-point calls are for in
// PyTorch and Megatron, where each stage decides on its own. Here one global
// order decides:
//
//   1. Run the schedule with unit times (forward, input and weight gradient 1,
//      whole backward 2, messages 0), each action as early as it can be.
//   2. A message happens when its producer ends. Messages of one moment go in a
//      fixed order: by boundary, activations first, by microbatch.
//   3. A stage's stream is its actions, by start, and its messages, by moment;
//   at
//      the same moment messages go first.
//
// Every stream is then the restriction of one order of all actions and
// messages, in which what an event needs stands before it. So the first event
// of that order that is not done can always be done by all that take part: no
// deadlock. A message stands as soon as the receiver could take it, and at the
// latest before its consumer.
//
//   1F1B, p = 2, m = 2     stage 0:  F0 send  F1 send  receive B0 receive B1
//                          stage 1:  receive F0 receive B0 send F1 B1 send
//
// Limits. The order is by unit times, so a stage that is far slower than the
// others may keep a sender waiting where sends wait; where sends do not wait
// (the simulator's and the runtime's rule) the order costs nothing.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SCHEDULE_STREAMS_H
#define CLEAVE_SCHEDULE_STREAMS_H

#include "schedule/Schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::schedule {

/// One thing that a stage does. A send and its receive agree in what they carry
/// (activation or gradient), `micro` and `boundary`. Between two stages, sends
/// and receives of each direction stand in the same order on both.
struct Operation {
  enum class Kind : uint8_t {
    Compute,
    SendActivation,    ///< from position `boundary` to the next
    ReceiveActivation, ///< by position `boundary + 1`
    SendGradient,      ///< from position `boundary + 1` to the one before
    ReceiveGradient    ///< by position `boundary`
  };
  Kind kind = Kind::Compute;
  uint16_t chunk = 0;   ///< of this stage: who computes, sends or receives
  int32_t micro = 0;    ///< microbatch
  uint32_t action = 0;  ///< of Compute: the index in `Schedule::actions[stage]`
  int32_t boundary = 0; ///< of messages: between positions boundary and
                        ///< boundary + 1
  int32_t peer = 0;     ///< of messages: the other stage, never this one

  bool isMessage() const { return kind != Kind::Compute; }
  bool isSend() const {
    return kind == Kind::SendActivation || kind == Kind::SendGradient;
  }
  bool operator==(const Operation &) const = default;
};

/// What each stage does, in order. Neighbouring positions on one stage need no
/// message.
struct Streams {
  std::vector<std::vector<Operation>> stages;
};

/// Places the messages of a schedule that `check` proved (which calls this).
Streams placeMessages(const Schedule &schedule);

/// The most messages that a stage has received and not yet used, for each
/// stage: how many receive buffers it needs.
std::vector<int64_t> pendingPeaks(const Schedule &schedule,
                                  const Streams &streams);

/// `send activation of 3 to stage 1`, for messages and tests.
std::string describe(const Operation &operation, const Schedule &schedule,
                     int32_t stage);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_STREAMS_H
