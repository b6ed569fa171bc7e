//===- Streams.h - Where a schedule's messages go ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule orders work; a stage also sends and receives. This places the
// messages so that the stages cannot deadlock, even if every send waits for its
// receiver (*rendezvous*), and so that no stage waits for anything but what its
// next action needs.
//
// A receive is *posted*: it says where a message may arrive, and waits for
// nothing. The action that uses the message waits for it. So what matters is to
// post early enough that no send ever waits, and no earlier, since a posted
// message needs memory:
//
//   1. Action a comes *before* action b if b needs a's result, or is later on
//      the same stage, or through a chain of these: whatever actions take.
//   2. A receive is posted after the last action of its stage that comes before
//      the message's producer.
//   3. A send stands after its producer, behind what is posted there.
//   4. From one stage to another, sends and receives stand in one order: that
//      in which the sender's schedule makes them.
//
// Any order of all actions that respects `before`, each followed by what is
// posted and sent after it, has each post in front of its send and each send in
// front of its use. So the first event of that order that is not done can
// always be done: no deadlock. And when a message is ready its receive has been
// posted, or will be as soon as the action that stands before it has ended,
// which it has: a send waits for no work.
//
//   1F1B, p = 2, m = 3     stage 0:  F0 send  F1 post B0 send  B0 ...
//                          stage 1:  post F0 F1  F0 B0 post F2 send  F1 ...
//
// Limits. Chains through stages more than some distance away are not looked
// for where stages and microbatches are very many; a receive is then posted
// earlier than it would have to be, and needs memory for longer.
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
/// (activation or gradient), `micro` and `boundary`.
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

/// The most messages that are posted and not yet used, for each stage: how many
/// receive buffers it needs.
std::vector<int64_t> pendingPeaks(const Schedule &schedule,
                                  const Streams &streams);

/// `send activation of 3 to stage 1`, for messages and tests.
std::string describe(const Operation &operation, const Schedule &schedule,
                     int32_t stage);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_STREAMS_H
