//===- Overlap.h - A hop while the last step runs ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the end of one update to the begin of the next the state does not
// change. So while a step under the old plan makes its gradients, a thread
// copies the state to where the new plan wants it, and then gradients, each as
// soon as it is whole: of layers in a loop, one layer after the other. The
// update is the new plan's. What is left to copy when the step has made its
// last gradient is little, where the step was long enough.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_OVERLAP_H
#define CLEAVE_RUNTIME_EXECUTOR_OVERLAP_H

#include "runtime/executor/Crew.h"
#include "runtime/executor/Engine.h"
#include "runtime/state/Relocation.h"

#include <map>
#include <thread>
#include <tuple>

namespace cleave::executor {

/// A plan's program of a training step, placed, and the device of each of its
/// coordinates.
struct Placed {
  const Engine *engine = nullptr;
  size_t program = 0;
  const std::vector<int64_t> *devices = nullptr;
};

/// Whether the update of one plan can follow the gradients of another.
Status checkHandovers(const format::PlanT &from, const format::PlanT &to);

/// Makes copies on all threads: whichever is free takes the next.
void copyAll(Crew &crew, std::span<const state::Relocation::Copy> copies);

/// The copies of one overlapped hop, and the thread that makes them.
class Overlap {
public:
  /// `relocation` outlives this. Fails where the plans' gradients do not match.
  static Result<std::unique_ptr<Overlap>>
  plan(const Placed &from, const Placed &to,
       const state::Relocation &relocation);
  ~Overlap();

  /// Begins to copy on a thread of its own.
  Status start();
  /// After the last gradient was made: ends the thread, and all threads of the
  /// crew copy what is left.
  void finish(Crew &crew);

  /// Of gradients, from device to device.
  int64_t gradientBytes() const { return movedGradients; }
  /// Copied by the thread, of state and gradients.
  int64_t hiddenBytes() const { return hidden; }

private:
  using Copy = state::Relocation::Copy;

  /// What can be copied once `coordinate` has made it.
  struct Gradient {
    int64_t coordinate = 0;
    const format::HandoverT *handover = nullptr;
    int64_t slice = 0; ///< of the coordinate's piece, where a loop stacks it
    std::vector<Copy> copies;
    bool done = false;
  };

  Overlap(const Placed &from, const state::Relocation &relocation)
      : from(from), relocation(relocation) {}

  Status add(const format::HandoverT &handover, const Placed &to,
             const format::HandoverT &target);
  void addGradient(const format::HandoverT &handover, int64_t coordinate,
                   int64_t slice, std::vector<Copy> copies);
  void work();
  void copyState();
  bool copyGradients();
  void copy(const Copy &one);

  Placed from;
  const state::Relocation &relocation;
  std::vector<Gradient> gradients;
  /// The position in `gradients`, by its first three members.
  std::map<std::tuple<const format::HandoverT *, int64_t, int64_t>, size_t>
      known;
  size_t group = 0, next = 0; ///< the copy of the state that is next
  int64_t movedGradients = 0, hidden = 0;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_OVERLAP_H
