//===- Oracle.h - Schedules, carried out step by step -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What judges the checker: it carries out a schedule by brute force, and shares
// no code with it. It knows the lists of actions and streams, and works out
// placements and dependencies by itself. Slow and obvious.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_SCHEDULE_ORACLE_H
#define CLEAVE_TEST_UNIT_SCHEDULE_ORACLE_H

#include "schedule/Schedule.h"
#include "schedule/Streams.h"

#include <string>
#include <vector>

namespace cleave::oracle {

/// Why the schedule is wrong; empty if it is right: stages run their lists,
/// waiting where an input is not there yet; nothing is done twice; all that has
/// to be done is done in the end.
std::string judge(const schedule::Schedule &schedule);

/// Why the streams are wrong; empty if they are right: a stage does one thing
/// at a time; a receive is posted and waits for nothing, a send waits until it
/// is, an action until what it reads is there; a stage reads only what it made
/// or received; from one stage to another sends and receives have one order;
/// and every stage comes to its end having done its actions in their order.
std::string rendezvous(const schedule::Schedule &schedule,
                       const schedule::Streams &streams);

/// Why some send would wait for a stage that is at work; empty if none does.
/// Stages go on in an order that `seed` gives, as if actions took any time; a
/// stage posts what it can as soon as it has ended an action.
std::string waiting(const schedule::Schedule &schedule,
                    const schedule::Streams &streams, uint64_t seed);

/// The most microbatches of chunks that each stage holds, by replaying.
std::vector<int64_t> held(const schedule::Schedule &schedule);

} // namespace cleave::oracle

#endif // CLEAVE_TEST_UNIT_SCHEDULE_ORACLE_H
