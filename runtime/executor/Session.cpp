//===- Session.cpp - A plan on threads of this process --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Session.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/executor/Crew.h"
#include "runtime/executor/DeviceProgram.h"
#include "runtime/format/Convert.h"
#include "runtime/transport/HostCopy.h"
#include "runtime/transport/ThreadTransport.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>

namespace cleave::executor {

using format::InputSource;
using format::OutputKind;
using format::Storage;

namespace {

/// An input of one program on one device: which global array it comes from.
struct InputPiece {
  size_t input = 0;
  transport::TransferTask task;
  bool empty = false;
  char *memory = nullptr;
};

/// What one device has.
struct Seat {
  std::unique_ptr<device::CpuDevice> device;
  std::unique_ptr<transport::Transport> transport;
  device::Memory arena;
  device::Memory inputs;
  device::Memory slots; ///< of the pipelines, one program's at a time
  std::vector<std::vector<char *>> values; ///< by program, value
  /// By program, value, instant: see Environment.
  std::vector<std::vector<std::vector<size_t>>> shifts;
  std::vector<std::optional<format::Slots>> slotTables; ///< by program
  std::vector<std::optional<DeviceProgram>> programs;
  std::vector<std::vector<InputPiece>> inputPieces; ///< by program
};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace

struct Session::Implementation {
  std::shared_ptr<const format::PlanFile> file;
  size_t planIndex = 0;
  std::optional<Placement> placement;
  StepHook stepDelay;
  std::unique_ptr<transport::ThreadHub> hub;
  std::vector<Seat> seats;
  std::optional<state::State> state;
  std::unique_ptr<Crew> crew; ///< after what its threads use
  Status broken;              ///< the first failure of a device
  bool tracing = false;
  size_t traceLimit = 0;
  std::vector<EventList> events;
  /// The global array of each input of the running program.
  std::vector<const int32_t *> arrays;

  const format::PlanT &plan() const { return *file->set().plans[planIndex]; }

  Status prepare(const SessionOptions &options);
  Status prepareSeat(int64_t device);
  Result<device::Memory> allocateSlots(Seat &seat, int64_t device);
  Status resolvePrograms(Seat &seat, int64_t device);
  Status placeValues(Seat &seat, int64_t device, size_t program,
                     size_t &inputBytes);
  void placeInput(Seat &seat, int64_t device, size_t program, size_t value,
                  size_t &inputBytes);
  size_t inputBytes(const format::ValueT &value, int64_t device) const;
  Status checkLeaf(const format::ValueT &value, int64_t device) const;
  void placeChunks(Seat &seat, int64_t device, size_t index, size_t number);
  int find(const std::string &program) const;
  Result<int> findOutput(const std::string &program, OutputKind kind,
                         const std::string &name) const;
  transport::Pieces piecesOf(size_t program,
                             const format::OutputT &output) const;
  Status feed(const format::ProgramT &program, std::span<const Feed> feeds,
              std::vector<int32_t> &scalars);
  Status runProgram(size_t program, std::span<const Feed> feeds);
  Status runSeat(int64_t device, size_t program);
};

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
Status Session::Implementation::checkLeaf(const format::ValueT &value,
                                          int64_t device) const {
  std::vector<transport::Box> used, held;
  if (value.chunks) {
    for (int64_t instant : instantsOf(*placement, value, device)) {
      transport::Box box = placement->boxOf(value, device, instant);
      if (!box.empty() &&
          std::find(used.begin(), used.end(), box) == used.end()) {
        used.push_back(std::move(box));
      }
    }
  } else {
    for (Placement::Part &part : placement->partsOf(plan(), value, device)) {
      if (!part.box.empty()) {
        used.push_back(std::move(part.box));
      }
    }
  }
  for (const state::State::Part &part : state->parts(device, value.index)) {
    if (!part.box.empty()) {
      held.push_back(part.box);
    }
  }
  if (used != held) {
    return Status::error("a program uses another piece of `" +
                         state::nameOf(state->leaf(value.index)) +
                         "` than the plan places on device " +
                         std::to_string(device));
  }
  return Status();
}

size_t Session::Implementation::inputBytes(const format::ValueT &value,
                                           int64_t device) const {
  std::vector<int64_t> instants = instantsOf(*placement, value, device);
  size_t bytes = 0;
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] == static_cast<int64_t>(i)) {
      bytes += aligned(placement->boxOf(value, device, instants[i]).elements() *
                       format::elementSize(value.type));
    }
  }
  return bytes;
}

/// Gives each piece of an input a place after `inputBytes`.
void Session::Implementation::placeInput(Seat &seat, int64_t device,
                                         size_t index, size_t number,
                                         size_t &inputBytes) {
  const format::ProgramT &program = *plan().programs[index];
  const format::ValueT &value = *program.values[number];
  std::vector<int64_t> instants = instantsOf(*placement, value, device);
  std::vector<size_t> shifts;
  char *base = seat.inputs.data() + inputBytes;
  seat.values[index].push_back(base);
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] < static_cast<int64_t>(i)) {
      shifts.push_back(shifts[instants[i]]);
      continue;
    }
    transport::Box box = placement->boxOf(value, device, instants[i]);
    InputPiece piece;
    piece.input = value.index;
    piece.empty = box.empty();
    if (!piece.empty) {
      piece.task = transport::scatterTask(
          value.type, program.inputs[value.index]->sizes, box);
    }
    piece.memory = seat.inputs.data() + inputBytes;
    shifts.push_back(static_cast<size_t>(piece.memory - base));
    inputBytes += aligned(box.elements() * format::elementSize(value.type));
    seat.inputPieces[index].push_back(std::move(piece));
  }
  if (shifts.size() > 1) {
    seat.shifts[index][number] = std::move(shifts);
  }
}

/// Of a value that stands for the running chunk: how far on it is.
void Session::Implementation::placeChunks(Seat &seat, int64_t device,
                                          size_t index, size_t number) {
  const format::ValueT &value = *plan().programs[index]->values[number];
  std::vector<int64_t> instants = instantsOf(*placement, value, device);
  std::vector<size_t> shifts;
  size_t next = 0;
  for (size_t i = 0; i < instants.size(); ++i) {
    if (instants[i] < static_cast<int64_t>(i)) {
      shifts.push_back(shifts[instants[i]]);
      continue;
    }
    shifts.push_back(next);
    next += placement->boxOf(value, device, instants[i]).elements() *
            format::elementSize(value.type);
  }
  seat.shifts[index][number] = std::move(shifts);
}

Status Session::Implementation::placeValues(Seat &seat, int64_t device,
                                            size_t index, size_t &inputBytes) {
  const format::ProgramT &program = *plan().programs[index];
  std::vector<char *> &values = seat.values[index];
  seat.shifts[index].resize(program.values.size());
  for (size_t i = 0; i < program.values.size(); ++i) {
    const format::ValueT &value = *program.values[i];
    if (value.chunks) {
      placeChunks(seat, device, index, i);
    }
    switch (value.storage) {
    case Storage::Arena:
      values.push_back(seat.arena.data() + value.offset);
      break;
    case Storage::Leaf:
      if (!state->holds(device, value.index)) {
        values.push_back(nullptr);
        break;
      }
      CLEAVE_TRY(checkLeaf(value, device));
      values.push_back(
          static_cast<char *>(state->pointer(device, value.index)));
      break;
    case Storage::Input:
      placeInput(seat, device, index, i, inputBytes);
      break;
    case Storage::Slot:
      values.push_back(nullptr);
      break;
    }
  }
  return Status();
}

/// As many slots as the device's stage needs in the hungriest program.
Result<device::Memory> Session::Implementation::allocateSlots(Seat &seat,
                                                              int64_t number) {
  size_t bytes = 0;
  for (const auto &program : plan().programs) {
    std::optional<format::Slots> &slots = seat.slotTables.emplace_back();
    if (const format::PipelineT *pipeline = format::pipelineOf(*program)) {
      format::PipelineShape shape(*pipeline, placement->mesh);
      slots = format::slotsOf(
          *program, shape, placement->mesh.rankAlong(number, pipeline->pipe));
      bytes = std::max<size_t>(bytes, slots->bytes);
    }
  }
  return seat.device->allocate(bytes);
}

Status Session::Implementation::resolvePrograms(Seat &seat, int64_t number) {
  size_t programs = plan().programs.size();
  seat.values.resize(programs);
  seat.shifts.resize(programs);
  seat.inputPieces.resize(programs);
  size_t inputAt = 0;
  for (size_t i = 0; i < programs; ++i) {
    CLEAVE_TRY(placeValues(seat, number, i, inputAt));
    Environment environment;
    environment.set = &file->set();
    environment.plan = &plan();
    environment.program = i;
    environment.placement = &*placement;
    environment.deviceNumber = number;
    environment.device = seat.device.get();
    environment.transport = seat.transport.get();
    environment.values = seat.values[i];
    environment.shifts = seat.shifts[i];
    environment.slots = seat.slotTables[i] ? &*seat.slotTables[i] : nullptr;
    environment.slotMemory = seat.slots.data();
    environment.hook = &stepDelay;
    Result<DeviceProgram> resolved = DeviceProgram::resolve(environment);
    if (!resolved) {
      return resolved.status();
    }
    seat.programs.push_back(std::move(*resolved));
  }
  return Status();
}

/// On the device's thread.
Status Session::Implementation::prepareSeat(int64_t number) {
  Seat &seat = seats[number];
  seat.device->enterThread();
  size_t arenaBytes = 0, allInputs = 0;
  for (const auto &program : plan().programs) {
    arenaBytes = std::max<size_t>(arenaBytes, program->arena_bytes);
    for (const auto &value : program->values) {
      if (value->storage == Storage::Input) {
        allInputs += inputBytes(*value, number);
      }
    }
  }
  Result<device::Memory> arena = seat.device->allocate(arenaBytes);
  if (!arena) {
    return arena.status().in("the arena");
  }
  Result<device::Memory> slots = allocateSlots(seat, number);
  if (!slots) {
    return slots.status().in("the slots of microbatches");
  }
  Result<device::Memory> inputs = seat.device->allocate(allInputs);
  if (!inputs) {
    return inputs.status();
  }
  seat.arena = std::move(*arena);
  seat.slots = std::move(*slots);
  seat.inputs = std::move(*inputs);
  return resolvePrograms(seat, number);
}

Status Session::Implementation::prepare(const SessionOptions &options) {
  int64_t devices = format::toLayout(*plan().mesh).devices();
  if (devices > mostThreads) {
    return Status::error("its mesh has " + std::to_string(devices) +
                         " devices; one process runs at most " +
                         std::to_string(mostThreads));
  }
  Result<Placement> pieces = Placement::create(plan());
  if (!pieces) {
    return pieces.status();
  }
  placement = std::move(*pieces);
  stepDelay = options.stepDelay;
  Result<std::shared_ptr<const device::KernelImage>> image =
      device::KernelImage::load(file->kernels());
  if (!image) {
    return image.status();
  }
  hub = std::make_unique<transport::ThreadHub>(devices);
  if (options.transportDelay) {
    hub->setDelay(options.transportDelay);
  }
  std::vector<device::Device *> all;
  for (int64_t device = 0; device < devices; ++device) {
    Seat &seat = seats.emplace_back();
    seat.device = std::make_unique<device::CpuDevice>(*image);
    seat.transport = hub->connect(device);
    all.push_back(seat.device.get());
  }
  Result<state::State> made = state::State::create(file->set(), planIndex, all);
  if (!made) {
    return made.status();
  }
  state.emplace(std::move(*made));
  events.resize(devices);
  try {
    crew = std::make_unique<Crew>(devices);
  } catch (const std::system_error &error) {
    return Status::error(std::string("cannot start a thread: ") + error.what());
  }
  return crew->all([this](int64_t device) { return prepareSeat(device); });
}

int Session::Implementation::find(const std::string &name) const {
  for (size_t i = 0; i < plan().programs.size(); ++i) {
    if (plan().programs[i]->name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// Sets `arrays`, checking every token.
Status Session::Implementation::feed(const format::ProgramT &program,
                                     std::span<const Feed> feeds,
                                     std::vector<int32_t> &scalars) {
  scalars.resize(program.inputs.size());
  arrays.assign(program.inputs.size(), nullptr);
  for (const Feed &one : feeds) {
    bool known = std::any_of(
        program.inputs.begin(), program.inputs.end(),
        [&](const auto &input) { return input->name == one.input; });
    if (!known) {
      return Status::error("program `" + program.name +
                           "` has no input called `" + one.input + "`");
    }
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const format::InputT &input = *program.inputs[i];
    if (input.source != InputSource::Tokens) {
      scalars[i] = static_cast<int32_t>(
          input.source == InputSource::Step ? state->step + 1 : state->seed);
      arrays[i] = &scalars[i];
      continue;
    }
    auto found = std::find_if(feeds.begin(), feeds.end(), [&](const Feed &one) {
      return one.input == input.name;
    });
    if (found == feeds.end()) {
      return Status::error("input `" + input.name + "` is missing");
    }
    size_t expected = 1;
    for (int64_t size : input.sizes) {
      expected *= static_cast<size_t>(size);
    }
    if (found->tokens.size() != expected) {
      return Status::error("input `" + input.name + "` has " +
                           std::to_string(found->tokens.size()) +
                           " tokens; the program takes " +
                           std::to_string(expected));
    }
    for (size_t at = 0; input.bound > 0 && at < expected; ++at) {
      if (found->tokens[at] < 0 || found->tokens[at] >= input.bound) {
        return Status::error("input `" + input.name + "` has the id " +
                             std::to_string(found->tokens[at]) +
                             " at position " + std::to_string(at) +
                             "; ids are below " + std::to_string(input.bound));
      }
    }
    arrays[i] = found->tokens.data();
  }
  return Status();
}

/// On the device's thread.
Status Session::Implementation::runSeat(int64_t number, size_t program) {
  Seat &seat = seats[number];
  for (const InputPiece &piece : seat.inputPieces[program]) {
    if (!piece.empty) {
      transport::Tensors tensors{arrays[piece.input], piece.memory};
      transport::runTask(piece.task, &tensors);
    }
  }
  bool traces = tracing && events[number].size() < traceLimit;
  if (!traces) {
    return seat.programs[program]->run(nullptr);
  }
  size_t first = events[number].size();
  uint64_t begin = traceClock();
  events[number].push_back(
      {begin, begin, static_cast<uint32_t>(program), EventKind::Step});
  Status status = seat.programs[program]->run(&events[number]);
  events[number][first].end = traceClock();
  return status;
}

Status Session::Implementation::runProgram(size_t index,
                                           std::span<const Feed> feeds) {
  if (!broken.ok()) {
    return broken;
  }
  std::vector<int32_t> scalars;
  CLEAVE_TRY(feed(*plan().programs[index], feeds, scalars));
  broken = crew->all([this, index](int64_t device) {
    Status status = runSeat(device, index);
    if (!status.ok()) {
      hub->abort(status); // releases the others
    }
    return status;
  });
  return broken;
}

Result<int>
Session::Implementation::findOutput(const std::string &name, OutputKind kind,
                                    const std::string &output) const {
  int index = find(name);
  if (index < 0) {
    return Status::error("the plan has no program called `" + name + "`");
  }
  const format::ProgramT &program = *plan().programs[index];
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const format::OutputT &candidate = *program.outputs[i];
    if (candidate.kind == kind &&
        (output.empty() || candidate.name == output)) {
      return static_cast<int>(i);
    }
  }
  static const char *const kinds[] = {"loss", "gradient norm", "gradient",
                                      "output"};
  return Status::error("program `" + name + "` has no " +
                       kinds[static_cast<size_t>(kind)] +
                       (output.empty() ? "" : " called `" + output + "`"));
}

Session::Session() : implementation(std::make_unique<Implementation>()) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>>
Session::open(std::shared_ptr<const format::PlanFile> file,
              const std::string &plan, const SessionOptions &options) {
  std::unique_ptr<Session> session(new Session);
  Implementation &self = *session->implementation;
  int index =
      plan.empty() ? static_cast<int>(file->set().start) : file->findPlan(plan);
  if (index < 0) {
    std::string names;
    for (const auto &one : file->set().plans) {
      names += (names.empty() ? "`" : ", `") + one->name + "`";
    }
    return Status::error("the plan file has no plan called `" + plan +
                         "`; it has " + names);
  }
  self.file = std::move(file);
  self.planIndex = static_cast<size_t>(index);
  CLEAVE_TRY(self.prepare(options).in("plan `" + self.plan().name + "`"));
  return session;
}

const format::PlanSetT &Session::set() const {
  return implementation->file->set();
}
const format::PlanT &Session::plan() const { return implementation->plan(); }
int64_t Session::devices() const {
  return static_cast<int64_t>(implementation->seats.size());
}
state::State &Session::state() { return *implementation->state; }

bool Session::hasProgram(const std::string &name) const {
  return implementation->find(name) >= 0;
}

const format::ProgramT &Session::program(const std::string &name) const {
  int index = implementation->find(name);
  assert(index >= 0 && "no such program");
  return *plan().programs[index];
}

Status Session::run(const std::string &program, std::span<const Feed> feeds) {
  int index = implementation->find(program);
  if (index < 0) {
    return Status::error("plan `" + plan().name + "` has no program called `" +
                         program + "`");
  }
  return implementation->runProgram(static_cast<size_t>(index), feeds);
}

Status Session::train(std::span<const Feed> feeds) {
  CLEAVE_TRY(run("train", feeds));
  ++state().step;
  return Status();
}

transport::Pieces
Session::Implementation::piecesOf(size_t program,
                                  const format::OutputT &output) const {
  const format::ValueT &value = *plan().programs[program]->values[output.value];
  transport::Pieces pieces{value.type, output.sizes, {}, {}, {}};
  // A leading dim of one, empty where it does not reside: so may be a scalar.
  pieces.sizes.insert(pieces.sizes.begin(), 1);
  std::vector<layout::Residence> parts = format::toLayout(output.residence);
  for (size_t i = 0; i < seats.size(); ++i) {
    int64_t device = static_cast<int64_t>(i);
    bool resides = format::resides(parts, placement->mesh.coordinateOf(device));
    for (Placement::Part &part : placement->partsOf(plan(), value, device)) {
      part.box.dims.insert(part.box.dims.begin(), {0, resides});
      pieces.boxes.push_back(std::move(part.box));
      pieces.memory.push_back(seats[i].values[program][output.value] +
                              part.offset);
      pieces.devices.push_back(device);
    }
  }
  return pieces;
}

Status Session::compareCopies(const std::string &name) {
  Implementation &self = *implementation;
  int index = self.find(name);
  if (index < 0) {
    return Status::error("the plan has no program `" + name + "`");
  }
  for (size_t leaf = 0; leaf < self.state->leaves(); ++leaf) {
    CLEAVE_TRY(self.state->compareCopies(leaf));
  }
  for (const auto &output : plan().programs[index]->outputs) {
    transport::Pieces pieces = self.piecesOf(index, *output);
    std::vector<char> global(transport::wholeBox(output->sizes).elements() *
                             format::elementSize(pieces.type));
    Status status = transport::gather(pieces, global.data());
    if (status) {
      status = transport::compare(global.data(), pieces);
    }
    CLEAVE_TRY(status.in("output `" + output->name + "`"));
  }
  return Status();
}

Result<std::vector<float>> Session::output(const std::string &name,
                                           OutputKind kind,
                                           const std::string &output) {
  Implementation &self = *implementation;
  Result<int> found = self.findOutput(name, kind, output);
  if (!found) {
    return found.status();
  }
  int index = self.find(name);
  const format::ProgramT &program = *plan().programs[index];
  const format::OutputT &wanted = *program.outputs[*found];
  const format::ValueT &value = *program.values[wanted.value];
  transport::Pieces pieces = self.piecesOf(index, wanted);
  size_t elements =
      static_cast<size_t>(transport::wholeBox(wanted.sizes).elements());
  std::vector<char> bytes(elements * format::elementSize(value.type));
  CLEAVE_TRY(transport::gather(pieces, bytes.data())
                 .in("output `" + wanted.name + "`"));
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    switch (value.type) {
    case format::ElementType::F32:
      values[i] = reinterpret_cast<const float *>(bytes.data())[i];
      break;
    case format::ElementType::I32:
      values[i] = static_cast<float>(
          reinterpret_cast<const int32_t *>(bytes.data())[i]);
      break;
    case format::ElementType::Bool:
      values[i] = bytes[i];
      break;
    }
  }
  return values;
}

Result<float> Session::scalar(const std::string &program, OutputKind kind) {
  Result<std::vector<float>> values = output(program, kind);
  if (!values) {
    return values.status();
  }
  if (values->size() != 1) {
    return Status::error("the output is not a scalar");
  }
  return values->front();
}

void Session::cancel(const Status &reason) {
  implementation->hub->abort(reason);
}

void Session::startTrace(size_t limit) {
  implementation->tracing = true;
  implementation->traceLimit = limit;
  for (EventList &events : implementation->events) {
    events.clear();
    events.reserve(std::min<size_t>(limit, 1 << 16));
  }
}

Status Session::writeTrace(const std::string &path,
                           const TraceGroup &beside) const {
  return executor::writeTrace(path, plan(), implementation->events, beside);
}

const std::vector<EventList> &Session::events() const {
  return implementation->events;
}

} // namespace cleave::executor
