//===- Resolve.cpp - A program for one device's coordinate ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Resolver.h"
#include "runtime/format/Convert.h"

namespace cleave::executor {

using format::Action;
using format::Storage;
using transport::Box;

Resolver::Resolver(const Environment &environment, DeviceProgram &result)
    : env(environment), program(*env.plan->programs[env.program]),
      result(result) {}

char *Resolver::baseOf(uint32_t index, int64_t cell) const {
  const format::ValueT &value = *program.values[index];
  if (value.storage == Storage::Slot) {
    return env.slotMemory + env.slots->offsetOf(value.index, cell) +
           value.offset;
  }
  const std::vector<size_t> &shifts = env.shifts[index];
  return shifts.empty() ? env.values[index]
                        : env.values[index] + shifts[instant];
}

Address Resolver::addressOf(const View &view) const {
  Address address{baseOf(view.value(), cell), view.loop(), 0};
  if (view.loop() >= 0) {
    address.stride =
        boxOf(view).elements() * format::elementSize(valueOf(view).type);
  }
  return address;
}

int64_t Resolver::bytesOf(const View &view) const {
  return static_cast<int64_t>(boxOf(view).elements() *
                              format::elementSize(valueOf(view).type));
}

Status Resolver::present(std::initializer_list<const View *> views) const {
  for (const View *view : views) {
    const format::ValueT &value = valueOf(*view);
    if (value.storage == Storage::Leaf && !env.values[view->value()]) {
      const format::LeafT &leaf = *env.set->leaves[value.index];
      return Status::error("it uses `" + leaf.path + "` on device " +
                           std::to_string(env.deviceNumber) +
                           ", where the plan does not place it");
    }
  }
  return Status();
}

/// The value of the integer that comes next in `integers`.
int64_t Resolver::resolveInteger(const format::Integer &integer) {
  int64_t value = integer.value();
  switch (integer.kind()) {
  case format::IntegerKind::Literal:
    break;
  case format::IntegerKind::ExtentSize:
    return env.placement->piece(value, env.deviceNumber, instant).size();
  case format::IntegerKind::ExtentBegin:
    return env.placement->piece(value, env.deviceNumber, instant).begin;
  case format::IntegerKind::Iteration:
    result.patches.push_back({static_cast<uint32_t>(result.integers.size()),
                              static_cast<int32_t>(value), nullptr, 0,
                              firsts[value]});
    break;
  }
  return value;
}

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
  DeviceProgram::Work work;
  for (const View &view : kernel.views) {
    CLEAVE_TRY(present({&view}));
    work.bytes += bytesOf(view);
    Address address = addressOf(view);
    if (address.depth >= 0) {
      result.patches.push_back({static_cast<uint32_t>(result.pointers.size()),
                                address.depth, address.base, address.stride,
                                0});
    }
    result.pointers.push_back(address.base);
  }
  for (const format::Integer &integer : kernel.integers) {
    result.integers.push_back(resolveInteger(integer));
  }
  call.patchesEnd = static_cast<uint32_t>(result.patches.size());
  work.operations = env.device->operationsOf(
      call.function, result.integers.data() + call.integers);
  emit(Operation::Kernel, result.kernels, call, kernel.site, work);
  return Status();
}

Status Resolver::resolveContraction(const format::ContractionT &contraction) {
  const View *views[] = {contraction.lhs.get(), contraction.rhs.get(),
                         contraction.out.get()};
  CLEAVE_TRY(present({views[0], views[1], views[2]}));
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
    dim.size =
        env.placement->piece(source.extent(), env.deviceNumber, instant).size();
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
  contraction::Order order = contraction.terms
                                 ? contraction::Order::OrderedTerms
                             : contraction.ordered ? contraction::Order::Ordered
                                                   : contraction::Order::Any;
  contraction::Factor factor =
      valueOf(*views[0]).type == format::ElementType::BF16
          ? contraction::Factor::BF16
          : contraction::Factor::F32;
  DeviceProgram::ContractionCall call{
      env.device->prepare(shape, order, factor), addressOf(*views[0]),
      addressOf(*views[1]), addressOf(*views[2])};
  DeviceProgram::Work work{contraction.terms ? 1 : 2, 0};
  for (const contraction::Dim &dim : shape) {
    work.operations *= dim.size;
  }
  for (const View *view : views) {
    work.bytes += bytesOf(*view);
  }
  emit(Operation::Contraction, result.contractions, call, contraction.site,
       work);
  return Status();
}

Status Resolver::resolveFill(const format::FillT &fill) {
  CLEAVE_TRY(present({fill.target.get()}));
  size_t bytes = boxOf(*fill.target).elements() *
                 format::elementSize(valueOf(*fill.target).type);
  emit(Operation::Fill, result.fills,
       DeviceProgram::FillCall{addressOf(*fill.target), bytes}, noSite,
       {0, static_cast<int64_t>(bytes)});
  return Status();
}

/// Copies what the boxes share.
void Resolver::emitMove(format::ElementType type, const Box &source,
                        const Box &target, Address from, Address to,
                        uint32_t site) {
  Box common = transport::intersect(source, target);
  if (common.empty()) {
    return;
  }
  transport::Description description;
  description.type = type;
  description.group = {env.deviceNumber};
  description.sources = {source};
  description.targets = {target};
  description.partial = {0};
  DeviceProgram::MoveCall call{
      transport::makeTask({common, {0}, {0}}, description), from, to};
  emit(Operation::Move, result.moves, std::move(call), site,
       {0, static_cast<int64_t>(2 * common.elements() *
                                format::elementSize(type))});
}

Status Resolver::resolveMove(const format::MoveT &move) {
  CLEAVE_TRY(present({move.source.get(), move.target.get()}));
  // In the source's indices.
  Box target = boxOf(*move.target);
  for (size_t i = 0; i < target.dims.size(); ++i) {
    target.dims[i].begin -= move.shift[i];
    target.dims[i].end -= move.shift[i];
  }
  const format::ValueT &source = valueOf(*move.source);
  Address from = addressOf(*move.source), to = addressOf(*move.target);
  if (env.placement->isInPieces(*env.plan, source) ==
      env.placement->isInPieces(*env.plan, valueOf(*move.target))) {
    emitMove(source.type, boxOf(*move.source), target, from, to, move.site);
    return Status();
  }
  // Pieces that stand one after the other go to their places.
  for (const Placement::Part &part :
       env.placement->partsOf(*env.plan, source, env.deviceNumber)) {
    emitMove(source.type, part.box, target, {from.base + part.offset, -1, 0},
             to, move.site);
  }
  return Status();
}

/// Iterations [first, first + count), of which `index` is the global index of
/// iteration 0.
Status Resolver::resolveRange(const format::LoopT &loop, int64_t first,
                              int64_t count, int64_t index) {
  uint32_t number = static_cast<uint32_t>(result.loops.size());
  DeviceProgram::LoopCall call;
  call.depth = static_cast<int32_t>(firsts.size());
  call.first = first;
  call.count = count;
  call.reverse = loop.reverse;
  call.begin = static_cast<uint32_t>(result.code.size());
  emit(Operation::LoopBegin, result.loops, call, 0);
  firsts.push_back(index);
  CLEAVE_TRY(resolveBody(loop.body));
  firsts.pop_back();
  result.loops[number].end = static_cast<uint32_t>(result.code.size());
  result.code.push_back({Operation::LoopEnd, 0, number});
  return Status();
}

Status Resolver::resolveLoop(const format::LoopT &loop) {
  if (loop.extent < 0) {
    return resolveRange(loop, loop.first, loop.count, 0);
  }
  const format::ExtentT &extent = *env.plan->extents[loop.extent];
  layout::Split split = format::toLayout(*extent.split);
  if (layout::isContiguous(split)) {
    layout::Piece piece = env.placement->piece(
        static_cast<uint32_t>(loop.extent), env.deviceNumber, instant);
    return resolveRange(loop, loop.first, piece.size(), piece.begin);
  }
  // Pieces that stand one after the other: a loop over each.
  std::vector<layout::Piece> pieces = layout::piecesOf(
      extent.size, split, env.placement->mesh, env.deviceNumber);
  std::vector<int64_t> begins = {0};
  for (const layout::Piece &piece : pieces) {
    begins.push_back(begins.back() + piece.size());
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    size_t at = loop.reverse ? pieces.size() - 1 - i : i;
    CLEAVE_TRY(resolveRange(loop, begins[at], pieces[at].size(),
                            pieces[at].begin - begins[at]));
  }
  return Status();
}

Status Resolver::resolveOnly(const format::OnlyT &only) {
  residences.push_back(format::toLayout(only.residence));
  if (format::resides(residences.back(),
                      env.placement->mesh.coordinateOf(env.deviceNumber))) {
    CLEAVE_TRY(resolveBody(only.body));
  }
  residences.pop_back();
  return Status();
}

Status Resolver::resolve(const format::ActionUnion &action) {
  switch (action.type) {
  case Action::Kernel:
    return resolveKernel(*action.AsKernel());
  case Action::Contraction:
    return resolveContraction(*action.AsContraction());
  case Action::Fill:
    return resolveFill(*action.AsFill());
  case Action::Move:
    return resolveMove(*action.AsMove());
  case Action::Collective:
    return resolveCollective(*action.AsCollective());
  case Action::Wait: {
    auto [index, site] = started.at(action.AsWait()->id);
    result.code.push_back({Operation::Wait, site, index});
    return Status();
  }
  case Action::Loop:
    return resolveLoop(*action.AsLoop());
  case Action::Only:
    return resolveOnly(*action.AsOnly());
  case Action::Pipeline:
    return resolvePipeline(*action.AsPipeline());
  case Action::NONE:
    break;
  }
  return Status::error("an unknown action");
}

Status Resolver::resolveBody(const Body &body) {
  for (const auto &instruction : body) {
    CLEAVE_TRY(resolve(instruction->action));
  }
  return Status();
}

Status Resolver::resolveProgram() {
  for (size_t i = 0; i < program.body.size(); ++i) {
    if (i == program.update) {
      result.update = static_cast<uint32_t>(result.code.size());
    }
    CLEAVE_TRY(resolve(program.body[i]->action));
    result.ends.push_back(static_cast<uint32_t>(result.code.size()));
  }
  return Status();
}

Result<DeviceProgram> DeviceProgram::resolve(const Environment &environment) {
  if (environment.program >= mostPrograms) {
    return Status::error("the plan has too many programs");
  }
  DeviceProgram result;
  result.deviceNumber = environment.deviceNumber;
  result.hook = environment.hook;
  result.iterationHook = environment.iterationHook;
  result.device = environment.device;
  result.transport = environment.transport;
  Resolver resolver(environment, result);
  const format::ProgramT &program =
      *environment.plan->programs[environment.program];
  CLEAVE_TRY(resolver.resolveProgram().in("program `" + program.name + "`"));
  result.works.resize(result.code.size());
  return result;
}

} // namespace cleave::executor
