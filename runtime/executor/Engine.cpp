//===- Engine.cpp - One plan, ready to run --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Engine.h"
#include "runtime/device/Addresses.h"
#include "runtime/format/Convert.h"
#include "runtime/state/State.h"

#include <algorithm>
#include <map>

namespace cleave::executor {

using format::Storage;

namespace {

/// See EngineOptions::withoutCollectives.
class NoTransport : public transport::Transport {
public:
  Result<transport::Channel> open(const transport::Description &,
                                  int64_t) override {
    return transport::Channel(0);
  }
  void start(transport::Channel, const void *, void *) override {}
  Status wait(transport::Channel) override { return Status(); }
  void abort(const Status &) override {}
};

} // namespace

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The different pieces of a value over all instants, by their first instant.
static std::vector<int64_t> instantsOf(const Placement &placement,
                                       const format::ValueT &value,
                                       int64_t device) {
  std::vector<int64_t> instants = {0};
  if (!placement.isTimed(value)) {
    return instants;
  }
  std::map<std::vector<int64_t>, int64_t> seen;
  instants.clear();
  for (int64_t instant = 0; instant < placement.mesh.instants(); ++instant) {
    std::vector<int64_t> key;
    for (const layout::Piece &piece :
         placement.boxOf(value, device, instant).dims) {
      key.insert(key.end(), {piece.begin, piece.end});
    }
    instants.push_back(seen.try_emplace(key, instant).first->second);
  }
  return instants;
}

/// The executor takes a leaf's pieces from the extents: both must agree.
Status Engine::checkLeaf(const format::ValueT &value,
                         int64_t coordinate) const {
  std::vector<transport::Box> used, there;
  if (value.chunks) {
    for (int64_t instant : instantsOf(*placement, value, coordinate)) {
      transport::Box box = placement->boxOf(value, coordinate, instant);
      if (!box.empty() &&
          std::find(used.begin(), used.end(), box) == used.end()) {
        used.push_back(std::move(box));
      }
    }
  } else {
    for (Placement::Part &part :
         placement->partsOf(plan(), value, coordinate)) {
      if (!part.box.empty()) {
        used.push_back(std::move(part.box));
      }
    }
  }
  for (const state::Part &part : held[value.index][coordinate].parts) {
    if (!part.box.empty()) {
      there.push_back(part.box);
    }
  }
  if (used != there) {
    return Status::error("a program uses another piece of `" +
                         state::nameOf(*file->set().leaves[value.index]) +
                         "` than the plan places on device " +
                         std::to_string(coordinate));
  }
  return Status();
}

size_t Engine::inputBytes(const format::ValueT &value,
                          int64_t coordinate) const {
  std::vector<int64_t> instants = instantsOf(*placement, value, coordinate);
  size_t bytes = 0;
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] == static_cast<int64_t>(i)) {
      bytes +=
          aligned(placement->boxOf(value, coordinate, instants[i]).elements() *
                  format::elementSize(value.type));
    }
  }
  return bytes;
}

/// Gives each piece of an input a place after `inputBytes`.
void Engine::placeInput(Seat &seat, int64_t coordinate, size_t index,
                        size_t number, size_t &inputBytes) {
  const format::ProgramT &program = *plan().programs[index];
  const format::ValueT &value = *program.values[number];
  std::vector<int64_t> instants = instantsOf(*placement, value, coordinate);
  std::vector<size_t> shifts;
  size_t base = inputBytes;
  seat.values[index].push_back(seat.where.inputs + base);
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] < static_cast<int64_t>(i)) {
      shifts.push_back(shifts[instants[i]]);
      continue;
    }
    transport::Box box = placement->boxOf(value, coordinate, instants[i]);
    InputPiece piece;
    piece.input = value.index;
    piece.empty = box.empty();
    if (!piece.empty) {
      piece.task = transport::scatterTask(
          value.type, program.inputs[value.index]->sizes, box);
    }
    piece.offset = inputBytes;
    shifts.push_back(inputBytes - base);
    inputBytes += aligned(box.elements() * format::elementSize(value.type));
    seat.inputPieces[index].push_back(std::move(piece));
  }
  if (shifts.size() > 1) {
    seat.shifts[index][number] = std::move(shifts);
  }
}

/// Of a value that stands for the running chunk: how far on it is.
void Engine::placeChunks(Seat &seat, int64_t coordinate, size_t index,
                         size_t number) {
  const format::ValueT &value = *plan().programs[index]->values[number];
  std::vector<int64_t> instants = instantsOf(*placement, value, coordinate);
  std::vector<size_t> shifts;
  size_t next = 0;
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] < static_cast<int64_t>(i)) {
      shifts.push_back(shifts[instants[i]]);
      continue;
    }
    shifts.push_back(next);
    next += placement->boxOf(value, coordinate, instants[i]).elements() *
            format::elementSize(value.type);
  }
  seat.shifts[index][number] = std::move(shifts);
}

Status Engine::placeValues(Seat &seat, int64_t coordinate, size_t index,
                           size_t &inputBytes) {
  const format::ProgramT &program = *plan().programs[index];
  std::vector<char *> &values = seat.values[index];
  seat.shifts[index].resize(program.values.size());
  for (size_t i = 0; i < program.values.size(); ++i) {
    const format::ValueT &value = *program.values[i];
    if (value.chunks) {
      placeChunks(seat, coordinate, index, i);
    }
    switch (value.storage) {
    case Storage::Arena:
      values.push_back(seat.where.arena + value.offset);
      break;
    case Storage::Leaf:
      if (!held[value.index][coordinate].resides) {
        values.push_back(nullptr);
        break;
      }
      CLEAVE_TRY(checkLeaf(value, coordinate));
      values.push_back(seat.where.leaves[value.index]);
      break;
    case Storage::Input:
      placeInput(seat, coordinate, index, i, inputBytes);
      break;
    case Storage::Slot:
      values.push_back(nullptr);
      break;
    }
  }
  return Status();
}

/// What the coordinate needs of its device's memory.
Status Engine::measure(Seat &seat, int64_t coordinate) {
  size_t inputs = 0;
  for (const auto &program : plan().programs) {
    bytes.arena = std::max<size_t>(bytes.arena, program->arena_bytes);
    for (const auto &value : program->values) {
      if (value->storage == Storage::Input) {
        inputs += inputBytes(*value, coordinate);
      }
    }
    std::optional<format::Slots> &slots = seat.slotTables.emplace_back();
    if (const format::PipelineT *pipeline = format::pipelineOf(*program)) {
      format::PipelineShape shape(*pipeline, placement->mesh);
      slots = format::slotsOf(
          *program, shape,
          placement->mesh.rankAlong(coordinate, pipeline->pipe));
      bytes.slots = std::max<size_t>(bytes.slots, slots->bytes);
    }
  }
  bytes.inputs = std::max(bytes.inputs, inputs);
  return Status();
}

/// Addresses for all that the coordinate works with, without memory.
Status Engine::standIn(Seat &seat, int64_t coordinate) {
  size_t size = aligned(bytes.arena + 1) + aligned(bytes.slots + 1) +
                aligned(bytes.inputs + 1);
  for (const std::vector<state::Held> &leaf : held) {
    size += device::Pool::sizeOfBlock(leaf[coordinate].bytes);
  }
  Result<device::Memory> addresses = device::reserveAddresses(size);
  if (!addresses) {
    return addresses.status();
  }
  seat.standIn = std::move(*addresses);
  char *next = seat.standIn.data();
  auto take = [&](size_t count) { return std::exchange(next, next + count); };
  seat.where.arena = take(aligned(bytes.arena + 1));
  seat.where.slots = take(aligned(bytes.slots + 1));
  seat.where.inputs = take(aligned(bytes.inputs + 1));
  for (const std::vector<state::Held> &leaf : held) {
    seat.where.leaves.push_back(
        take(device::Pool::sizeOfBlock(leaf[coordinate].bytes)));
  }
  return Status();
}

Status Engine::resolvePrograms(Seat &seat, int64_t coordinate) {
  size_t programs = plan().programs.size();
  seat.values.resize(programs);
  seat.shifts.resize(programs);
  seat.inputPieces.resize(programs);
  size_t inputAt = 0;
  for (size_t i = 0; i < programs; ++i) {
    CLEAVE_TRY(placeValues(seat, coordinate, i, inputAt));
    Environment environment;
    environment.set = &file->set();
    environment.plan = &plan();
    environment.program = i;
    environment.placement = &*placement;
    environment.deviceNumber = coordinate;
    environment.device = seat.device.get();
    environment.transport = seat.transport.get();
    environment.values = seat.values[i];
    environment.shifts = seat.shifts[i];
    environment.slots = seat.slotTables[i] ? &*seat.slotTables[i] : nullptr;
    environment.slotMemory = seat.where.slots;
    environment.hook = &stepDelay;
    environment.iterationHook = &iterationDelay;
    Result<DeviceProgram> resolved = DeviceProgram::resolve(environment);
    if (!resolved) {
      return resolved.status();
    }
    seat.programs.push_back(std::move(*resolved));
  }
  return Status();
}

Status Engine::resolve(int64_t coordinate) {
  Seat &seat = seats[coordinate];
  seat.device->enterThread();
  CLEAVE_TRY(standIn(seat, coordinate));
  return resolvePrograms(seat, coordinate);
}

/// From where the coordinate works to `where`; what stays is left out.
std::vector<AddressRange> Engine::rangesOf(const Seat &seat,
                                           const Workplace &where,
                                           int64_t coordinate) const {
  std::vector<AddressRange> ranges;
  auto add = [&](char *from, size_t size, char *to) {
    if (from != to) {
      // An empty value may lie just behind the others.
      ranges.push_back({from, size + 1, to});
    }
  };
  add(seat.where.arena, bytes.arena, where.arena);
  add(seat.where.slots, bytes.slots, where.slots);
  add(seat.where.inputs, bytes.inputs, where.inputs);
  for (size_t leaf = 0; leaf < held.size(); ++leaf) {
    if (held[leaf][coordinate].resides) {
      add(seat.where.leaves[leaf], held[leaf][coordinate].bytes,
          where.leaves[leaf]);
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange &a, const AddressRange &b) {
              return a.begin < b.begin;
            });
  return ranges;
}

void Engine::place(int64_t coordinate, const Workplace &where) {
  Seat &seat = seats[coordinate];
  std::vector<AddressRange> ranges = rangesOf(seat, where, coordinate);
  if (ranges.empty()) {
    return;
  }
  for (std::vector<char *> &values : seat.values) {
    for (char *&value : values) {
      moveAddress(value, ranges);
    }
  }
  for (std::optional<DeviceProgram> &program : seat.programs) {
    program->moveAddresses(ranges);
  }
  seat.where = where;
  seat.standIn = device::Memory();
}

Status Engine::run(int64_t coordinate, size_t program,
                   std::span<const int32_t *const> arrays, EventList *events,
                   Part part, Progress *progress) {
  Seat &seat = seats[coordinate];
  for (const InputPiece &piece : seat.inputPieces[program]) {
    // The update reads no tokens; there may be those of another batch.
    bool isRead = part != Part::Update ||
                  plan().programs[program]->inputs[piece.input]->source !=
                      format::InputSource::Tokens;
    if (isRead && !piece.empty) {
      transport::Tensors tensors{arrays[piece.input],
                                 seat.where.inputs + piece.offset};
      transport::runTask(piece.task, &tensors);
    }
  }
  DeviceProgram &code = *seat.programs[program];
  if (!timesStages) {
    return code.run(events, part, progress);
  }
  uint64_t begin = traceClock(), waited = code.waited();
  Status status = code.run(events, part, progress);
  seat.worked = traceClock() - begin - (code.waited() - waited);
  if (coordinate == 0) {
    ranLast = program;
  }
  return status;
}

Status Engine::run(int64_t coordinate, size_t program,
                   std::span<const int32_t *const> arrays, EventList *events,
                   Part part) {
  return run(coordinate, program, arrays, events, part, nullptr);
}

Status Engine::runGradients(int64_t coordinate, size_t program,
                            std::span<const int32_t *const> arrays,
                            EventList *events) {
  return run(coordinate, program, arrays, events, Part::Gradients,
             seats[coordinate].progress.get());
}

void Engine::resetProgress() {
  for (Seat &seat : seats) {
    seat.progress->store(0, std::memory_order_relaxed);
  }
}

bool Engine::isReady(int64_t coordinate, size_t program,
                     const format::HandoverT &handover, int64_t slice) const {
  const Seat &seat = seats[coordinate];
  return seat.programs[program]->isReady(
      handover, slice, seat.progress->load(std::memory_order_acquire));
}

void Engine::timeStages() {
  timesStages = true;
  for (Seat &seat : seats) {
    for (std::optional<DeviceProgram> &program : seat.programs) {
      program->countWaits();
    }
  }
}

std::vector<double> Engine::stageTimes() const {
  const format::PipelineT *pipeline =
      format::pipelineOf(*plan().programs[ranLast]);
  std::vector<double> times;
  for (int64_t at = 0; at < coordinates(); ++at) {
    size_t stage =
        static_cast<size_t>(pipeline && !pipeline->pipe.empty()
                                ? placement->mesh.rankAlong(at, pipeline->pipe)
                                : at);
    times.resize(std::max(times.size(), stage + 1));
    times[stage] =
        std::max(times[stage], static_cast<double>(seats[at].worked) * 1e-9);
  }
  return times;
}

double Engine::trafficTime(format::TrafficKind kind,
                           const std::string &axis) const {
  const layout::Axis *found = placement->mesh.findAxis(axis);
  auto counts = [&](const DeviceProgram::Traffic &traffic) {
    bool isKind = kind == format::TrafficKind::Collectives
                      ? !traffic.atoms.empty()
                      : kind == traffic.kind;
    return isKind &&
           (axis.empty() ||
            (found && std::any_of(traffic.atoms.begin(), traffic.atoms.end(),
                                  [&](uint32_t atom) {
                                    return std::find(found->atoms.begin(),
                                                     found->atoms.end(),
                                                     atom) !=
                                           found->atoms.end();
                                  })));
  };
  uint64_t most = 0;
  for (const Seat &seat : seats) {
    uint64_t waited = 0;
    for (const DeviceProgram::Traffic &traffic :
         seat.programs[ranLast]->traffic()) {
      waited += counts(traffic) ? traffic.waited : 0;
    }
    most = std::max(most, waited);
  }
  return static_cast<double>(most) * 1e-9;
}

int Engine::find(const std::string &name) const {
  for (size_t i = 0; i < plan().programs.size(); ++i) {
    if (plan().programs[i]->name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

transport::Pieces Engine::piecesOf(size_t program,
                                   const format::OutputT &output) const {
  const format::ValueT &value = *plan().programs[program]->values[output.value];
  transport::Pieces pieces{value.type, output.sizes, {}, {}, {}};
  // A leading dim of one, empty where it does not reside: so may be a scalar.
  pieces.sizes.insert(pieces.sizes.begin(), 1);
  std::vector<layout::Residence> parts = format::toLayout(output.residence);
  for (int64_t at = 0; at < coordinates(); ++at) {
    bool resides = format::resides(parts, placement->mesh.coordinateOf(at));
    for (Placement::Part &part : placement->partsOf(plan(), value, at)) {
      part.box.dims.insert(part.box.dims.begin(), {0, resides});
      pieces.boxes.push_back(std::move(part.box));
      pieces.memory.push_back(seats[at].values[program][output.value] +
                              part.offset);
      pieces.devices.push_back(at);
    }
  }
  return pieces;
}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>>
Engine::create(std::shared_ptr<const format::PlanFile> file, size_t plan,
               std::shared_ptr<const device::KernelImage> image,
               const EngineOptions &options) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->file = std::move(file);
  engine->planIndex = plan;
  engine->stepDelay = options.stepDelay;
  engine->iterationDelay = options.iterationDelay;
  int64_t devices = format::toLayout(*engine->plan().mesh).devices();
  if (devices > mostThreads) {
    return Status::error("its mesh has " + std::to_string(devices) +
                         " devices; one process runs at most " +
                         std::to_string(mostThreads));
  }
  Result<Placement> placement = Placement::create(engine->plan());
  if (!placement) {
    return placement.status();
  }
  engine->placement = std::move(*placement);
  Result<state::Pieces> held = state::piecesOf(engine->file->set(), plan);
  if (!held) {
    return held.status();
  }
  engine->held = std::move(*held);
  engine->hub = std::make_unique<transport::ThreadHub>(devices);
  if (options.transportDelay) {
    engine->hub->setDelay(options.transportDelay);
  }
  for (int64_t at = 0; at < devices; ++at) {
    Seat &seat = engine->seats.emplace_back();
    seat.device = std::make_unique<device::CpuDevice>(image);
    seat.transport = options.withoutCollectives
                         ? std::make_unique<NoTransport>()
                         : engine->hub->connect(at);
    CLEAVE_TRY(engine->measure(seat, at));
  }
  return engine;
}

} // namespace cleave::executor
