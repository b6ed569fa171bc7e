//===- ThreadTransport.h - Devices that are threads -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives directly between the memories of threads of one process. `start`
// publishes the addresses. Once all of the group have, the transfer is a list
// of independent tasks over disjoint elements, and every thread that waits
// takes tasks until none is left, whoever's target they fill. So a thread that
// has not been scheduled yet holds nobody up, work is shared when devices are
// more than cores, one sleep and one wake-up per device and collective suffice,
// and no thread exists but the devices' own. Which thread runs a task changes
// no bit.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_THREADTRANSPORT_H
#define CLEAVE_RUNTIME_TRANSPORT_THREADTRANSPORT_H

#include "runtime/transport/Transport.h"

#include <functional>
#include <memory>

namespace cleave::transport {

/// What the threads share; one for each mesh of threads.
class ThreadHub {
public:
  /// `devices`: how many threads will be busy at once; they spin before they
  /// sleep only where each has a core.
  explicit ThreadHub(int64_t devices);
  ~ThreadHub();

  /// The transport of one device. Lives no longer than the hub.
  std::unique_ptr<Transport> connect(int64_t device);
  void abort(const Status &reason);
  bool aborted() const;

  /// For tests: called by device threads at each step of a collective; may
  /// sleep. Set before any channel is used.
  void setDelay(std::function<void(int64_t device)> hook);

  struct Shared;

private:
  std::unique_ptr<Shared> shared;
};

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_THREADTRANSPORT_H
