//===- Stop.h - Stopping on request -----------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SUPPORT_STOP_H
#define CLEAVE_RUNTIME_SUPPORT_STOP_H

namespace cleave {

/// From now on the first ^C (SIGINT) or SIGTERM only asks to stop: the run loop
/// polls `stopRequested` between steps, saves and ends. The second one ends the
/// process at once.
void catchStopSignals();

bool stopRequested();
/// The same by program.
void requestStop();
/// Forgets a request, for tests.
void clearStop();

} // namespace cleave

#endif // CLEAVE_RUNTIME_SUPPORT_STOP_H
