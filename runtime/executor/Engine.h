//===- Engine.h - One plan, ready to run ------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every program of a plan, resolved for every coordinate of its mesh. Resolved
// programs have addresses in them: of leaves, which lie where the state puts
// them, and of the devices' work memory. An engine is made against addresses
// that stand for those (of pages that are never touched), so that plans can be
// made ready whose state is elsewhere. `place` says where all lies now and
// corrects the addresses; where nothing moved since the last time it costs next
// to nothing.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_ENGINE_H
#define CLEAVE_RUNTIME_EXECUTOR_ENGINE_H

#include "runtime/device/CpuDevice.h"
#include "runtime/executor/DeviceProgram.h"
#include "runtime/format/PlanFile.h"
#include "runtime/state/Pieces.h"
#include "runtime/transport/HostCopy.h"
#include "runtime/transport/ThreadTransport.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cleave::executor {

inline constexpr int64_t mostThreads = 512;

struct EngineOptions {
  /// For tests: see ThreadHub::setDelay.
  std::function<void(int64_t device)> transportDelay;
  /// For tests: called on a device's thread as it begins a computing step of a
  /// pipeline; may sleep, so that steps take a given time.
  StepHook stepDelay;
  /// The same at the end of each iteration of an outermost loop.
  IterationHook iterationDelay;
  /// For benchmarks: collectives move nothing and wait for nobody, so that all
  /// results are wrong.
  bool withoutCollectives = false;
};

/// What a coordinate works with: the memory of its device.
struct Workplace {
  char *arena = nullptr;  ///< of WorkBytes::arena
  char *slots = nullptr;  ///< of pipelines, one program's at a time
  char *inputs = nullptr; ///< of all programs' inputs
  std::vector<char *>
      leaves; ///< by leaf; of those that it does not hold unread
};

/// How much of it all coordinates of a plan need at most.
struct WorkBytes {
  size_t arena = 0, slots = 0, inputs = 0;
};

class Engine {
public:
  static Result<std::unique_ptr<Engine>>
  create(std::shared_ptr<const format::PlanFile> file, size_t plan,
         std::shared_ptr<const device::KernelImage> image,
         const EngineOptions &options);
  ~Engine();

  const format::PlanT &plan() const { return *file->set().plans[planIndex]; }
  size_t index() const { return planIndex; } ///< of the plan in its set
  int64_t coordinates() const { return placement->mesh.devices(); }
  const WorkBytes &workBytes() const { return bytes; }
  /// The position of the program called `name`, or -1.
  int find(const std::string &name) const;

  /// Resolves all programs of a coordinate. On the thread that will run it, or
  /// any other before it runs.
  Status resolve(int64_t coordinate);
  /// Where a coordinate works from now on; after `resolve`, before `run`.
  void place(int64_t coordinate, const Workplace &where);

  /// Runs a program for one coordinate; the others must run it too. `arrays`
  /// are the global arrays of its inputs.
  Status run(int64_t coordinate, size_t program,
             std::span<const int32_t *const> arrays, EventList *events,
             Part part = Part::Whole);
  /// The same up to the gradients; other threads may ask `isReady` meanwhile.
  Status runGradients(int64_t coordinate, size_t program,
                      std::span<const int32_t *const> arrays,
                      EventList *events);
  /// Before `runGradients`, of all coordinates.
  void resetProgress();
  /// Whether a coordinate has made a gradient, or the slice at an index of its
  /// first dim.
  bool isReady(int64_t coordinate, size_t program,
               const format::HandoverT &handover, int64_t slice) const;
  /// Notes from now on how long each coordinate works in a run, and how long it
  /// waits for others.
  void timeStages();
  /// What each stage worked in the program that ran last, in seconds, without
  /// waiting for others: of its devices the one that took longest. Without a
  /// pipeline each device is a stage.
  std::vector<double> stageTimes() const;
  /// What is sent of one kind, over an axis of the mesh (empty: over any), cost
  /// the device that it cost most in the program that ran last, in seconds:
  /// copies, and waiting for those that come later.
  double trafficTime(format::TrafficKind kind, const std::string &axis) const;
  /// What one run of a program does at a coordinate.
  std::vector<SiteWork> workOf(int64_t coordinate, size_t program) const {
    return seats[coordinate].programs[program]->work();
  }
  /// Releases all that wait.
  void abort(const Status &reason) { hub->abort(reason); }

  /// Where an output of the program that ran last lies.
  transport::Pieces piecesOf(size_t program,
                             const format::OutputT &output) const;

private:
  Engine() = default;

  /// An input of one program at one coordinate: which global array it is of.
  struct InputPiece {
    size_t input = 0;
    transport::TransferTask task;
    bool empty = false;
    size_t offset = 0; ///< in Workplace::inputs
  };

  /// What one coordinate has.
  struct Seat {
    std::unique_ptr<device::CpuDevice> device;
    std::unique_ptr<transport::Transport> transport;
    std::vector<std::vector<char *>> values; ///< by program, value
    /// By program, value, instant: see Environment.
    std::vector<std::vector<std::vector<size_t>>> shifts;
    std::vector<std::optional<format::Slots>> slotTables; ///< by program
    std::vector<std::optional<DeviceProgram>> programs;
    std::vector<std::vector<InputPiece>> inputPieces; ///< by program
    uint64_t worked = 0; ///< nanoseconds of the last run
    std::unique_ptr<Progress> progress = std::make_unique<Progress>(0);
    Workplace where;        ///< to which the addresses in programs belong
    device::Memory standIn; ///< until the first `place`
  };

  std::shared_ptr<const format::PlanFile> file;
  size_t planIndex = 0;
  std::optional<Placement> placement;
  state::Pieces held; ///< of the state: by leaf, by coordinate
  StepHook stepDelay;
  IterationHook iterationDelay;
  std::unique_ptr<transport::ThreadHub> hub;
  std::vector<Seat> seats; ///< by coordinate
  WorkBytes bytes;
  bool timesStages = false;
  size_t ranLast = 0; ///< program

  Status run(int64_t coordinate, size_t program,
             std::span<const int32_t *const> arrays, EventList *events,
             Part part, Progress *progress);
  Status measure(Seat &seat, int64_t coordinate);
  Status standIn(Seat &seat, int64_t coordinate);
  Status resolvePrograms(Seat &seat, int64_t coordinate);
  Status placeValues(Seat &seat, int64_t coordinate, size_t program,
                     size_t &inputBytes);
  void placeInput(Seat &seat, int64_t coordinate, size_t program, size_t value,
                  size_t &inputBytes);
  void placeChunks(Seat &seat, int64_t coordinate, size_t program,
                   size_t value);
  size_t inputBytes(const format::ValueT &value, int64_t coordinate) const;
  Status checkLeaf(const format::ValueT &value, int64_t coordinate) const;
  std::vector<AddressRange> rangesOf(const Seat &seat, const Workplace &where,
                                     int64_t coordinate) const;
};

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_ENGINE_H
