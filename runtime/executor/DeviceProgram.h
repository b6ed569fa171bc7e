//===- DeviceProgram.h - A program as one device runs it --------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// At load a device resolves a program for its coordinate: extents become
// integers, views become addresses (with a stride where they follow a loop),
// contractions are prepared, collectives are opened, and nested loops become
// jumps in one flat list. A pipeline becomes what the device's stage does, step
// by step, with the extents and the slots of each microbatch. Running an
// instruction is then a few loads and a call; a step allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_DEVICEPROGRAM_H
#define CLEAVE_RUNTIME_EXECUTOR_DEVICEPROGRAM_H

#include "runtime/device/Device.h"
#include "runtime/executor/Placement.h"
#include "runtime/executor/Trace.h"
#include "runtime/format/Verify.h"
#include "runtime/transport/TransferTask.h"
#include "runtime/transport/Transport.h"

#include <atomic>
#include <functional>
#include <span>

namespace cleave::executor {

/// An address, `stride` bytes further in each iteration of the loop at `depth`.
struct Address {
  char *base = nullptr;
  int32_t depth = -1;
  int64_t stride = 0;
};

/// Memory that is elsewhere now.
struct AddressRange {
  char *begin = nullptr;
  size_t bytes = 0;
  char *target = nullptr; ///< where `begin` is now
};

/// Corrects an address that lies in one of the ranges, which are sorted and
/// do not overlap.
void moveAddress(char *&address, std::span<const AddressRange> ranges);

/// Called at the begin of each computing step of a pipeline.
using StepHook = std::function<void(int64_t device, const format::Step &step)>;

/// Called at the end of each iteration of an outermost loop.
using IterationHook = std::function<void(int64_t device)>;

/// What a program is resolved against. All outlive the result.
struct Environment {
  const format::PlanSetT *set = nullptr;
  const format::PlanT *plan = nullptr;
  size_t program = 0; ///< its position in the plan
  const Placement *placement = nullptr;
  int64_t deviceNumber = 0;
  device::Device *device = nullptr;
  transport::Transport *transport = nullptr;
  /// The base address of each value, at the first instant; null where the
  /// device has none. Of those in slots not read.
  std::vector<char *> values;
  /// By value: bytes from there to what it is at each instant; empty where it
  /// stays.
  std::vector<std::vector<size_t>> shifts;
  const format::Slots *slots = nullptr; ///< null without a pipeline
  char *slotMemory = nullptr;
  const StepHook *hook = nullptr;               ///< may be empty
  const IterationHook *iterationHook = nullptr; ///< likewise
};

/// A training step up to its gradients, and what it makes of them: Plan.fbs,
/// Program.update.
enum class Part : uint8_t { Whole, Gradients, Update };

/// How far a program has run, for other threads: the position of the
/// instruction that runs, and below it the iterations that the outermost loop
/// around it has finished.
using Progress = std::atomic<uint64_t>;

class DeviceProgram {
public:
  static Result<DeviceProgram> resolve(const Environment &environment);

  /// Runs the program once, or a part of it. Appends to `events` and tells its
  /// `progress` where they are not null.
  Status run(EventList *events, Part part = Part::Whole,
             Progress *progress = nullptr);

  /// Whether a handover is whole at a progress; one that a loop stacks, at an
  /// index of its first dim.
  bool isReady(const format::HandoverT &handover, int64_t slice,
               uint64_t progress) const;

  /// Corrects all addresses; between two runs.
  void moveAddresses(std::span<const AddressRange> ranges);

  /// From now on the time spent waiting for others is counted.
  void countWaits() { countsWaits = true; }
  /// What collectives of one kind over one group cost the device.
  struct Traffic {
    format::TrafficKind kind = format::TrafficKind::Collectives;
    std::vector<uint32_t> atoms; ///< of the group
    uint64_t waited = 0;         ///< nanoseconds of the last run, if counted
  };
  const std::vector<Traffic> &traffic() const { return trafficOf; }
  /// Of all runs so far, in nanoseconds.
  uint64_t waited() const { return nanosecondsWaited; }

  size_t instructions() const { return code.size(); }
  /// What one run does, by site.
  std::vector<SiteWork> work() const;

private:
  struct Operation {
    enum Kind : uint8_t {
      Kernel,
      Contraction,
      Fill,
      Move,
      Start,
      Wait,
      LoopBegin,
      LoopEnd,
      StepBegin, ///< of a pipeline
      StepEnd
    } kind;
    uint32_t site = 0;
    uint32_t index = 0; ///< into the list of its kind
  };
  /// A kernel's arguments lie in `pointers` and `integers`; what follows a
  /// loop is patched before each call.
  struct KernelCall {
    device::Kernel function = nullptr;
    uint32_t pointers = 0, integers = 0;
    uint32_t patches = 0, patchesEnd = 0;
  };
  struct Patch {
    uint32_t slot = 0;
    int32_t depth = 0;
    char *base = nullptr; ///< null: an integer, `first` and the iteration
    int64_t stride = 0;
    int64_t first = 0;
  };
  struct ContractionCall {
    const contraction::Prepared *prepared = nullptr;
    Address lhs, rhs, out;
  };
  struct FillCall {
    Address target;
    size_t bytes = 0;
  };
  struct MoveCall {
    transport::TransferTask task;
    Address source, target;
  };
  struct CollectiveCall {
    transport::Channel channel = 0;
    Address source, target;
    uint32_t traffic = 0; ///< in `trafficOf`
  };
  struct LoopCall {
    int32_t depth = 0;
    int64_t first = 0, count = 0;
    bool reverse = false;
    uint32_t begin = 0, end = 0; ///< positions of LoopBegin and LoopEnd
    int64_t done = 0;            ///< iterations finished
  };

  /// What one instruction does each time.
  struct Work {
    int64_t operations = 0, bytes = 0;
  };

  struct StepCall {
    format::Step step;
    size_t event = 0; ///< the one that its begin noted
  };

  device::Device *device = nullptr;
  transport::Transport *transport = nullptr;
  int64_t deviceNumber = 0;
  const StepHook *hook = nullptr;
  const IterationHook *iterationHook = nullptr;
  bool countsWaits = false;
  uint64_t nanosecondsWaited = 0;
  int64_t finished = 0; ///< iterations of the outermost loop
  std::vector<Operation> code;
  std::vector<uint32_t> ends; ///< of the body's instructions, in `code`
  uint32_t update = 0;        ///< where it begins in `code`
  std::vector<Work> works;    ///< by position in `code`
  std::vector<KernelCall> kernels;
  std::vector<Patch> patches;
  std::vector<void *> pointers;
  std::vector<int64_t> integers;
  std::vector<ContractionCall> contractions;
  std::vector<FillCall> fills;
  std::vector<MoveCall> moves;
  std::vector<CollectiveCall> collectives;
  std::vector<Traffic> trafficOf;
  std::vector<LoopCall> loops;
  std::vector<StepCall> steps;
  int64_t iterations[format::deepestLoop] = {};

  char *at(const Address &address) const {
    return address.depth < 0
               ? address.base
               : address.base + iterations[address.depth] * address.stride;
  }
  void call(const KernelCall &kernel);
  Status execute(const Operation &operation);
  uint32_t control(uint32_t at, EventList *events);

  friend class Resolver;
  friend class PipelineResolver;
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_DEVICEPROGRAM_H
