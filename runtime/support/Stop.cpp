//===- Stop.cpp - Stopping on request -------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Stop.h"

#include <atomic>
#include <csignal>

namespace cleave {

static std::atomic<bool> stopping{false};
static_assert(std::atomic<bool>::is_always_lock_free);

static void onSignal(int) { stopping.store(true); }

void catchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  // After the first signal the default action is back; calls in progress go on.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool stopRequested() { return stopping.load(); }
void requestStop() { stopping.store(true); }
void clearStop() { stopping.store(false); }

} // namespace cleave
