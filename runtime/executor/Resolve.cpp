//===- Resolve.cpp - A program for one device's coordinate ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/DeviceProgram.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <map>

namespace cleave::executor {

using format::Action;
using format::View;
using transport::Box;

Placement::Placement(const format::PlanT &plan)
    : mesh(format::toLayout(*plan.mesh)) {
  for (const auto &extent : plan.extents) {
    layout::Split split = format::toLayout(*extent->split);
    std::vector<layout::Piece> &row = pieces.emplace_back();
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      row.push_back(layout::pieceOf(extent->size, split, mesh, device));
    }
  }
}

Box Placement::boxOf(const format::ValueT &value, int64_t device,
                     size_t dropped) const {
  Box box;
  for (size_t i = dropped; i < value.extents.size(); ++i) {
    box.dims.push_back(pieces[value.extents[i]][device]);
  }
  return box;
}

class Resolver {
public:
  Resolver(const Environment &environment, DeviceProgram &result)
      : env(environment), program(*env.plan->programs[env.program]),
        result(result) {}

  Status
  resolveBody(const std::vector<std::unique_ptr<format::InstructionT>> &body);

private:
  using Operation = DeviceProgram::Operation;

  const Environment &env;
  const format::ProgramT &program;
  DeviceProgram &result;
  int32_t depth = 0;
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> started; ///< index, site

  Status resolve(const format::ActionUnion &action);
  Status resolveKernel(const format::KernelT &kernel);
  Status resolveContraction(const format::ContractionT &contraction);
  void resolveFill(const format::FillT &fill);
  void resolveMove(const format::MoveT &move);
  std::vector<int64_t> aroundOf(const format::CollectiveT &collective) const;
  Status resolveCollective(const format::CollectiveT &collective);
  Status resolveLoop(const format::LoopT &loop);

  const format::ValueT &valueOf(const View &view) const {
    return *program.values[view.value()];
  }
  Box boxOf(const View &view, int64_t device) const {
    return env.placement->boxOf(valueOf(view), device, view.loop() >= 0);
  }
  Box boxOf(const View &view) const { return boxOf(view, env.deviceNumber); }
  Address addressOf(const View &view) const {
    Address address{env.values[view.value()], view.loop(), 0};
    if (view.loop() >= 0) {
      address.stride =
          boxOf(view).elements() * format::elementSize(valueOf(view).type);
    }
    return address;
  }
  template <typename Call>
  void emit(Operation::Kind kind, std::vector<Call> &list, Call call,
            uint32_t site) {
    result.code.push_back({kind, site, static_cast<uint32_t>(list.size())});
    list.push_back(std::move(call));
  }
};

Status Resolver::resolveKernel(const format::KernelT &kernel) {
  DeviceProgram::KernelCall call;
  Result<device::Kernel> function =
      env.device->findKernel(env.set->symbols[kernel.symbol]);
  if (!function) {
    return function.status();
  }
  call.function = *function;
  call.pointers = static_cast<uint32_t>(result.pointers.size());
  call.integers = static_cast<uint32_t>(result.integers.size());
  call.patches = static_cast<uint32_t>(result.patches.size());
  for (const View &view : kernel.views) {
    Address address = addressOf(view);
    if (address.depth >= 0) {
      result.patches.push_back({static_cast<uint32_t>(result.pointers.size()),
                                address.depth, address.base, address.stride});
    }
    result.pointers.push_back(address.base);
  }
  for (const format::Integer &integer : kernel.integers) {
    int64_t value = integer.value();
    switch (integer.kind()) {
    case format::IntegerKind::Literal:
      break;
    case format::IntegerKind::ExtentSize:
      value = env.placement->pieces[value][env.deviceNumber].size();
      break;
    case format::IntegerKind::ExtentBegin:
      value = env.placement->pieces[value][env.deviceNumber].begin;
      break;
    case format::IntegerKind::Iteration:
      result.patches.push_back({static_cast<uint32_t>(result.integers.size()),
                                static_cast<int32_t>(value), nullptr, 0});
      break;
    }
    result.integers.push_back(value);
  }
  call.patchesEnd = static_cast<uint32_t>(result.patches.size());
  emit(Operation::Kernel, result.kernels, call, kernel.site);
  return Status();
}

Status Resolver::resolveContraction(const format::ContractionT &contraction) {
  const View *views[] = {contraction.lhs.get(), contraction.rhs.get(),
                         contraction.out.get()};
  std::vector<int64_t> strides[3], sizes[3];
  for (int i = 0; i < 3; ++i) {
    Box box = boxOf(*views[i]);
    strides[i] = transport::stridesOf(box);
    for (const layout::Piece &piece : box.dims) {
      sizes[i].push_back(piece.size());
    }
  }
  contraction::Shape shape;
  for (const format::ContractedDim &source : contraction.dims) {
    contraction::Dim dim;
    dim.size = env.placement->pieces[source.extent()][env.deviceNumber].size();
    const int32_t at[] = {source.lhs(), source.rhs(), source.out()};
    int64_t *into[] = {&dim.lhs, &dim.rhs, &dim.out};
    for (int i = 0; i < 3; ++i) {
      if (at[i] < 0) {
        continue;
      }
      *into[i] = strides[i][at[i]];
      if (sizes[i][at[i]] != dim.size) {
        return Status::error(
            "a contraction's dim has " + std::to_string(dim.size) +
            " elements and " + std::to_string(sizes[i][at[i]]) +
            " in an operand, on device " + std::to_string(env.deviceNumber));
      }
    }
    shape.push_back(dim);
  }
  DeviceProgram::ContractionCall call{
      env.device->prepare(shape), addressOf(*views[0]), addressOf(*views[1]),
      addressOf(*views[2])};
  emit(Operation::Contraction, result.contractions, call, contraction.site);
  return Status();
}

void Resolver::resolveFill(const format::FillT &fill) {
  size_t bytes = boxOf(*fill.target).elements() *
                 format::elementSize(valueOf(*fill.target).type);
  emit(Operation::Fill, result.fills,
       DeviceProgram::FillCall{addressOf(*fill.target), bytes}, 0);
}

void Resolver::resolveMove(const format::MoveT &move) {
  // In the source's indices.
  Box source = boxOf(*move.source), target = boxOf(*move.target);
  for (size_t i = 0; i < target.dims.size(); ++i) {
    target.dims[i].begin -= move.shift[i];
    target.dims[i].end -= move.shift[i];
  }
  Box common = transport::intersect(source, target);
  if (common.empty()) {
    return;
  }
  transport::Description description;
  description.type = valueOf(*move.source).type;
  description.group = {env.deviceNumber};
  description.sources = {source};
  description.targets = {target};
  description.partial = {0};
  DeviceProgram::MoveCall call{
      transport::makeTask({common, {0}, {0}}, description),
      addressOf(*move.source), addressOf(*move.target)};
  emit(Operation::Move, result.moves, std::move(call), move.site);
}

/// `box` at a distance along each dim.
static Box moved(Box box, const std::vector<int64_t> &distance) {
  for (size_t i = 0; i < distance.size(); ++i) {
    box.dims[i].begin += distance[i];
    box.dims[i].end += distance[i];
  }
  return box;
}

/// Whether every rank has what it needs.
static bool isLocal(const transport::Description &description) {
  if (!description.images.empty()) {
    return false;
  }
  for (size_t i = 0; i < description.group.size(); ++i) {
    const Box &target = description.targets[i];
    if (description.partial[i] != 0 ||
        (!target.empty() &&
         transport::intersect(target, description.sources[i]) != target)) {
      return false;
    }
  }
  return true;
}

/// From the end of the dim that a collective moves around to its beginning;
/// none where it moves nothing.
std::vector<int64_t>
Resolver::aroundOf(const format::CollectiveT &collective) const {
  const std::vector<int64_t> &shift = collective.shift;
  std::vector<int64_t> around(shift.size());
  const format::ValueT &value = valueOf(*collective.source);
  size_t dropped = collective.source->loop() >= 0;
  bool moves = false;
  for (size_t i = 0; i < shift.size(); ++i) {
    moves |= shift[i] != 0;
    around[i] =
        shift[i] ? -env.plan->extents[value.extents[i + dropped]]->size : 0;
  }
  return moves ? around : std::vector<int64_t>();
}

Status Resolver::resolveCollective(const format::CollectiveT &collective) {
  const layout::Mesh &mesh = env.placement->mesh;
  transport::Description description;
  description.id = uint64_t(env.program) << 32 | collective.id;
  description.name = format::nameOf(collective.kind);
  if (collective.site < env.plan->sites.size() &&
      !env.plan->sites[collective.site]->name.empty()) {
    description.name = env.plan->sites[collective.site]->name;
  }
  description.type = valueOf(*collective.source).type;
  description.reduction = static_cast<layout::Reduction>(collective.reduction);
  description.group = mesh.groupOf(env.deviceNumber, collective.group);
  std::vector<int64_t> around = aroundOf(collective);
  for (int64_t member : description.group) {
    Box source = moved(boxOf(*collective.source, member), collective.shift);
    if (!around.empty()) {
      description.images.push_back(moved(source, around));
    }
    description.sources.push_back(std::move(source));
    description.targets.push_back(boxOf(*collective.target, member));
    description.partial.push_back(mesh.rankAlong(member, collective.partial));
  }
  int64_t rank = mesh.rankAlong(env.deviceNumber, collective.group);
  if (isLocal(description)) {
    description.group = {env.deviceNumber};
    description.sources = {description.sources[rank]};
    description.targets = {description.targets[rank]};
    description.partial = {0};
    rank = 0;
  }
  Result<transport::Channel> channel = env.transport->open(description, rank);
  if (!channel) {
    return channel.status();
  }
  started[collective.id] = {static_cast<uint32_t>(result.collectives.size()),
                            collective.site};
  emit(Operation::Start, result.collectives,
       DeviceProgram::CollectiveCall{*channel, addressOf(*collective.source),
                                     addressOf(*collective.target)},
       collective.site);
  return Status();
}

Status Resolver::resolveLoop(const format::LoopT &loop) {
  uint32_t index = static_cast<uint32_t>(result.loops.size());
  DeviceProgram::LoopCall call;
  call.depth = depth;
  call.first = loop.first;
  call.count = loop.count;
  call.reverse = loop.reverse;
  call.begin = static_cast<uint32_t>(result.code.size());
  emit(Operation::LoopBegin, result.loops, call, 0);
  ++depth;
  CLEAVE_TRY(resolveBody(loop.body));
  --depth;
  result.loops[index].end = static_cast<uint32_t>(result.code.size());
  result.code.push_back({Operation::LoopEnd, 0, index});
  return Status();
}

Status Resolver::resolve(const format::ActionUnion &action) {
  switch (action.type) {
  case Action::Kernel:
    return resolveKernel(*action.AsKernel());
  case Action::Contraction:
    return resolveContraction(*action.AsContraction());
  case Action::Fill:
    resolveFill(*action.AsFill());
    return Status();
  case Action::Move:
    resolveMove(*action.AsMove());
    return Status();
  case Action::Collective:
    return resolveCollective(*action.AsCollective());
  case Action::Wait: {
    auto [index, site] = started.at(action.AsWait()->id);
    result.code.push_back({Operation::Wait, site, index});
    return Status();
  }
  case Action::Loop:
    return resolveLoop(*action.AsLoop());
  case Action::NONE:
    break;
  }
  return Status::error("an unknown action");
}

Status Resolver::resolveBody(
    const std::vector<std::unique_ptr<format::InstructionT>> &body) {
  for (const auto &instruction : body) {
    CLEAVE_TRY(resolve(instruction->action));
  }
  return Status();
}

Result<DeviceProgram> DeviceProgram::resolve(const Environment &environment) {
  DeviceProgram result;
  result.device = environment.device;
  result.transport = environment.transport;
  Resolver resolver(environment, result);
  const format::ProgramT &program =
      *environment.plan->programs[environment.program];
  CLEAVE_TRY(
      resolver.resolveBody(program.body).in("program `" + program.name + "`"));
  return result;
}

} // namespace cleave::executor
