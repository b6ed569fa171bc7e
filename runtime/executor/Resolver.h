//===- Resolver.h - Makes a device's program --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of Resolve.cpp (instructions), ResolveCollective.cpp and ResolvePipeline.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_RESOLVER_H
#define CLEAVE_RUNTIME_EXECUTOR_RESOLVER_H

#include "runtime/executor/DeviceProgram.h"

#include <initializer_list>
#include <map>

namespace cleave::executor {

class Resolver {
public:
  using Body = std::vector<std::unique_ptr<format::InstructionT>>;

  Resolver(const Environment &environment, DeviceProgram &result);

  Status resolveProgram();
  Status resolveBody(const Body &body);

private:
  using Operation = DeviceProgram::Operation;
  using View = format::View;

  /// A collective of the plan file: who takes part, and the channels that are
  /// open, by the pieces that they carry.
  struct Meeting {
    std::vector<int64_t> members;
    int64_t rank = 0;             ///< of this device
    std::vector<int64_t> partial; ///< by rank
    std::vector<bool> gives;      ///< by rank
    bool timed = false;           ///< pieces change with the instant
    std::map<std::vector<int64_t>, transport::Channel> channels;
  };

  const Environment &env;
  const format::ProgramT &program;
  DeviceProgram &result;
  std::vector<int64_t> firsts; ///< of the loops around: index of iteration 0
  std::vector<std::vector<layout::Residence>> residences; ///< of `Only`s around
  std::map<uint32_t, Meeting> meetings; ///< by the collective's number
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> started; ///< index, site

  // What is running: see Pipeline.h for cells.
  int64_t instant = 0;
  int64_t cell = -1;

  Status resolve(const format::ActionUnion &action);
  Status resolveKernel(const format::KernelT &kernel);
  int64_t resolveInteger(const format::Integer &integer);
  Status resolveContraction(const format::ContractionT &contraction);
  Status resolveFill(const format::FillT &fill);
  Status resolveMove(const format::MoveT &move);
  Status resolveLoop(const format::LoopT &loop);
  Status resolveRange(const format::LoopT &loop, int64_t first, int64_t count,
                      int64_t index);
  Status resolveOnly(const format::OnlyT &only);

  Status resolveCollective(const format::CollectiveT &collective);
  /// The number of its traffic, which is new or not.
  uint32_t trafficOf(format::TrafficKind kind,
                     const std::vector<uint32_t> &atoms);
  Meeting meetingOf(const format::CollectiveT &collective) const;
  std::vector<int64_t> piecesOf(const format::CollectiveT &collective,
                                const Meeting &meeting) const;
  std::vector<int64_t> aroundOf(const format::CollectiveT &collective) const;
  Result<transport::Channel> open(const format::CollectiveT &collective,
                                  const Meeting &meeting) const;

  Status resolvePipeline(const format::PipelineT &pipeline);
  friend class PipelineResolver;

  /// Fails where this device has not what an instruction wants.
  Status present(std::initializer_list<const View *> views) const;
  const format::ValueT &valueOf(const View &view) const {
    return *program.values[view.value()];
  }
  transport::Box boxOf(const View &view, int64_t device) const {
    return env.placement->boxOf(valueOf(view), device, instant,
                                view.loop() >= 0);
  }
  transport::Box boxOf(const View &view) const {
    return boxOf(view, env.deviceNumber);
  }
  char *baseOf(uint32_t value, int64_t cell) const;
  Address addressOf(const View &view) const;
  template <typename Call>
  void emit(Operation::Kind kind, std::vector<Call> &list, Call call,
            uint32_t site, DeviceProgram::Work work = {}) {
    result.code.push_back({kind, site, static_cast<uint32_t>(list.size())});
    list.push_back(std::move(call));
    result.works.resize(result.code.size());
    result.works.back() = work;
  }
  /// Of what this device has of a view.
  int64_t bytesOf(const View &view) const;
  void emitMove(format::ElementType type, const transport::Box &source,
                const transport::Box &target, Address from, Address to,
                uint32_t site);
};

/// The number of a collective's channel; `variant` counts the descriptions that
/// it has at different instants. Messages have the highest bit.
uint64_t channelNumber(size_t program, uint32_t collective, size_t variant);

inline constexpr size_t mostPrograms = size_t(1) << 15;
inline constexpr size_t mostVariants = size_t(1) << 16;
inline constexpr uint32_t noSite = ~uint32_t(0);

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_RESOLVER_H
