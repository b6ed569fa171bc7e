//===- Session.cpp - A plan on threads of this process --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Session.h"

#include "numerics/Bfloat16.h"
#include "runtime/executor/Crew.h"
#include "runtime/executor/Engine.h"
#include "runtime/executor/Overlap.h"
#include "runtime/format/Convert.h"
#include "runtime/state/Relocation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>

namespace cleave::executor {

using format::InputSource;
using format::OutputKind;

namespace {

/// One device: its memory, beside that of the state. Its thread is the crew's.
struct Place {
  std::unique_ptr<device::CpuDevice> device;
  device::Memory arena, slots, inputs; ///< for whatever plan runs
  device::Memory spare; ///< an arena for the next plan while one runs
};

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

} // namespace

struct Session::Implementation {
  std::shared_ptr<const format::PlanFile> file;
  EngineOptions engineOptions;
  std::shared_ptr<const device::KernelImage> image;
  std::vector<Place> places;
  WorkBytes workBytes;                               ///< that every place has
  std::map<size_t, std::unique_ptr<Engine>> engines; ///< by plan
  Engine *engine = nullptr;                          ///< that runs
  std::optional<state::State> state;
  std::optional<state::Transfers> transfers;
  std::unique_ptr<Crew> crew;        ///< after what its threads use
  std::vector<int64_t> coordinateOf; ///< by device; -1: it has nothing to do
  Status broken;                     ///< the first failure of a device
  bool timesStages = false;
  bool tracing = false;
  size_t traceLimit = 0;
  std::vector<TracedPlan> traced; ///< what ran before the last hop
  std::vector<TracedHop> hops;
  std::vector<EventList> events; ///< since the last hop, by coordinate
  /// The global array of each input of the running program.
  std::vector<const int32_t *> arrays;

  const format::PlanT &plan() const { return engine->plan(); }

  Result<size_t> findPlan(const std::string &name) const;
  Result<Engine *> prepare(size_t plan);
  Status addPlaces(int64_t count);
  Status growWork(const WorkBytes &wanted);
  void activate(Engine &next);
  void place(Engine &next, const std::vector<int64_t> &devices,
             device::Memory Place::*arena,
             const std::function<void *(int64_t, size_t)> &leafAt);
  void seat(Engine &next);
  void relocate(state::Relocation relocation);
  TracedPlan tracedPlan();
  int find(const std::string &program) const { return engine->find(program); }
  Result<int> findOutput(const std::string &program, OutputKind kind,
                         const std::string &name) const;
  void feedScalars(const format::ProgramT &program,
                   std::vector<int32_t> &scalars);
  Status feed(const format::ProgramT &program, std::span<const Feed> feeds,
              std::vector<int32_t> &scalars);
  Status runProgram(size_t program, std::span<const Feed> feeds);
  Status runAll(size_t program, Part part);
  Status runPlace(int64_t device, size_t program, Part part);
  Result<state::Relocation> planHop(Engine &next, const HopOptions &options,
                                    bool overlapped, HopReport &report);
  Status addSpare(Place &place, size_t bytes);
  Status readySpares(std::span<const state::Hop> hops);
};

Result<size_t>
Session::Implementation::findPlan(const std::string &name) const {
  return name.empty() ? Result<size_t>(file->set().start) : file->plan(name);
}

/// As many devices, with their threads.
Status Session::Implementation::addPlaces(int64_t count) {
  int64_t there = static_cast<int64_t>(places.size());
  if (count <= there) {
    return Status();
  }
  // What can fail comes first.
  std::unique_ptr<Crew> larger;
  try {
    larger = std::make_unique<Crew>(count);
  } catch (const std::system_error &error) {
    return Status::error(std::string("cannot start a thread: ") + error.what());
  }
  crew = std::move(larger);
  while (static_cast<int64_t>(places.size()) < count) {
    places.emplace_back().device = std::make_unique<device::CpuDevice>(image);
  }
  coordinateOf.resize(count, -1);
  return crew->all([this](int64_t device) {
    places[device].device->enterThread();
    return Status();
  });
}

/// Enough memory on every device for any plan that is prepared.
Status Session::Implementation::growWork(const WorkBytes &wanted) {
  WorkBytes sizes{std::max(workBytes.arena, wanted.arena),
                  std::max(workBytes.slots, wanted.slots),
                  std::max(workBytes.inputs, wanted.inputs)};
  auto grow = [](Place &place, device::Memory &memory, size_t bytes) -> Status {
    if (memory.data() && memory.size() >= bytes) {
      return Status();
    }
    Result<device::Memory> larger = place.device->allocate(bytes);
    if (!larger) {
      return larger.status();
    }
    memory = std::move(*larger);
    return Status();
  };
  Status status;
  for (Place &place : places) {
    if (status = grow(place, place.arena, sizes.arena); !status) {
      status = status.in("the arena");
      break;
    }
    if (status = grow(place, place.slots, sizes.slots); !status) {
      status = status.in("the slots of microbatches");
      break;
    }
    if (status = grow(place, place.inputs, sizes.inputs); !status) {
      break;
    }
  }
  if (status) {
    workBytes = sizes;
  }
  if (engine) {
    activate(*engine); // what it had may be elsewhere
  }
  return status;
}

Result<Engine *> Session::Implementation::prepare(size_t plan) {
  if (auto known = engines.find(plan); known != engines.end()) {
    return known->second.get();
  }
  Result<std::unique_ptr<Engine>> made =
      Engine::create(file, plan, image, engineOptions);
  if (!made) {
    return made.status();
  }
  Engine &added = **made;
  CLEAVE_TRY(addPlaces(added.coordinates()));
  CLEAVE_TRY(growWork(added.workBytes()));
  CLEAVE_TRY(crew->all([&added](int64_t device) {
    return device < added.coordinates() ? added.resolve(device) : Status();
  }));
  if (timesStages) {
    added.timeStages();
  }
  return engines.emplace(plan, std::move(*made)).first->second.get();
}

/// Where a plan's coordinates work: on these devices, with one of their arenas
/// and these leaves.
void Session::Implementation::place(
    Engine &next, const std::vector<int64_t> &devices,
    device::Memory Place::*arena,
    const std::function<void *(int64_t, size_t)> &leafAt) {
  for (int64_t at = 0; at < next.coordinates(); ++at) {
    Place &place = places[devices[at]];
    Workplace where{
        (place.*arena).data(), place.slots.data(), place.inputs.data(), {}};
    for (size_t leaf = 0; leaf < state->leaves(); ++leaf) {
      where.leaves.push_back(static_cast<char *>(leafAt(devices[at], leaf)));
    }
    next.place(at, where);
  }
}

/// Devices have the coordinates of the plan under which the state is laid out.
void Session::Implementation::seat(Engine &next) {
  std::fill(coordinateOf.begin(), coordinateOf.end(), -1);
  for (int64_t at = 0; at < next.coordinates(); ++at) {
    coordinateOf[state->devices()[at]] = at;
  }
  engine = &next;
}

/// The plan under which the state is laid out runs from here on.
void Session::Implementation::activate(Engine &next) {
  place(next, state->devices(), &Place::arena,
        [this](int64_t device, size_t leaf) {
          return state->pointer(device, leaf);
        });
  seat(next);
}

/// Sets `arrays` of all inputs but tokens.
void Session::Implementation::feedScalars(const format::ProgramT &program,
                                          std::vector<int32_t> &scalars) {
  scalars.resize(program.inputs.size());
  arrays.assign(program.inputs.size(), nullptr);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InputSource source = program.inputs[i]->source;
    if (source != InputSource::Tokens) {
      scalars[i] = static_cast<int32_t>(
          source == InputSource::Step ? state->step + 1 : state->seed);
      arrays[i] = &scalars[i];
    }
  }
}

/// Sets `arrays`, checking every token.
Status Session::Implementation::feed(const format::ProgramT &program,
                                     std::span<const Feed> feeds,
                                     std::vector<int32_t> &scalars) {
  feedScalars(program, scalars);
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
Status Session::Implementation::runPlace(int64_t device, size_t program,
                                         Part part) {
  int64_t at = coordinateOf[device];
  if (at < 0) {
    return Status();
  }
  auto run = [&](EventList *list) {
    return part == Part::Gradients
               ? engine->runGradients(at, program, arrays, list)
               : engine->run(at, program, arrays, list, part);
  };
  EventList *list =
      tracing && events[at].size() < traceLimit ? &events[at] : nullptr;
  if (!list) {
    return run(nullptr);
  }
  size_t first = list->size();
  uint64_t begin = traceClock();
  list->push_back(
      {begin, begin, static_cast<uint32_t>(program), EventKind::Step});
  Status status = run(list);
  (*list)[first].end = traceClock();
  return status;
}

Status Session::Implementation::runAll(size_t program, Part part) {
  broken = crew->all([this, program, part](int64_t device) {
    Status status = runPlace(device, program, part);
    if (!status.ok()) {
      engine->abort(status); // releases the others
    }
    return status;
  });
  return broken;
}

Status Session::Implementation::runProgram(size_t index,
                                           std::span<const Feed> feeds) {
  if (!broken.ok()) {
    return broken;
  }
  std::vector<int32_t> scalars;
  CLEAVE_TRY(feed(*plan().programs[index], feeds, scalars));
  return runAll(index, Part::Whole);
}

/// Takes what was noted since the last hop.
TracedPlan Session::Implementation::tracedPlan() {
  TracedPlan result{&plan(), state->devices(), std::move(events)};
  events.clear();
  events.resize(engine->coordinates());
  return result;
}

void Session::Implementation::relocate(state::Relocation relocation) {
  for (size_t group = 0; group < relocation.groups(); ++group) {
    relocation.prepare(group);
    copyAll(*crew, relocation.copies(group));
  }
  std::move(relocation).finish(*state);
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
  self.file = std::move(file);
  self.engineOptions = {options.transportDelay, options.stepDelay,
                        options.iterationDelay, options.withoutCollectives};
  Result<size_t> index = self.findPlan(plan);
  if (!index) {
    return index.status();
  }
  std::string context = "plan `" + self.file->set().plans[*index]->name + "`";
  Result<std::shared_ptr<const device::KernelImage>> image =
      device::KernelImage::load(self.file->kernels());
  if (!image) {
    return image.status().in(context);
  }
  self.image = *image;
  self.transfers.emplace(self.file->set());
  Result<Engine *> engine = self.prepare(*index);
  if (!engine) {
    return engine.status().in(context);
  }
  std::vector<device::Device *> devices;
  for (Place &place : self.places) {
    devices.push_back(place.device.get());
  }
  Result<state::State> made =
      state::State::create(self.file->set(), *index, devices);
  if (!made) {
    return made.status().in(context);
  }
  self.state.emplace(std::move(*made));
  self.activate(**engine);
  self.events.resize((*engine)->coordinates());
  return session;
}

const format::PlanSetT &Session::set() const {
  return implementation->file->set();
}
const format::PlanT &Session::plan() const { return implementation->plan(); }
int64_t Session::devices() const {
  return implementation->engine->coordinates();
}
state::State &Session::state() { return *implementation->state; }

Status Session::prepare(const std::string &plan) {
  Implementation &self = *implementation;
  Result<size_t> index = self.findPlan(plan);
  if (!index) {
    return index.status();
  }
  Result<Engine *> engine = self.prepare(*index);
  if (!engine) {
    return engine.status().in("plan `" + plan + "`");
  }
  std::vector<device::Device *> devices;
  for (Place &place : self.places) {
    devices.push_back(place.device.get());
  }
  self.state->addDevices(devices);
  return Status();
}

Status Session::planHops(std::span<const HopWay> ways,
                         const HopOptions &options) {
  Implementation &self = *implementation;
  std::vector<state::Hop> hops;
  size_t devices = self.places.size();
  for (const HopWay &way : ways) {
    Result<size_t> begin = self.findPlan(way.from), end = self.findPlan(way.to);
    for (const Result<size_t> *plan : {&begin, &end}) {
      if (!*plan) {
        return plan->status();
      }
      int64_t count = format::toLayout(*set().plans[**plan]->mesh).devices();
      devices = std::max(devices, static_cast<size_t>(count));
    }
    if (way.overlapped) {
      CLEAVE_TRY(checkHandovers(*set().plans[*begin], *set().plans[*end])
                     .in("a hop from `" + way.from + "` to `" + way.to + "`"));
    }
    hops.push_back({*begin, *end, way.overlapped});
  }
  CLEAVE_TRY(state::planHops(set(), self.engine->index(), devices, hops,
                             {options.memory, options.relabel},
                             *self.transfers));
  return self.readySpares(hops);
}

size_t Session::plannedTransfers() const {
  return implementation->transfers->planned();
}

/// The way of the state to a plan that is prepared.
Result<state::Relocation>
Session::Implementation::planHop(Engine &next, const HopOptions &options,
                                 bool overlapped, HopReport &report) {
  report.from = plan().name;
  report.to = next.plan().name;
  report.overlapped = overlapped;
  Result<state::Relocation> relocation = state::Relocation::plan(
      *state, next.index(), {options.memory, options.relabel, overlapped},
      *transfers);
  if (!relocation) {
    return relocation.status().in("a hop from `" + report.from + "` to `" +
                                  report.to + "`");
  }
  const transfer::Summary &summary = relocation->summary();
  report.bytes = summary.bytes;
  report.keptBytes = summary.keptBytes;
  report.busiest = summary.busiest();
  report.extra = relocation->extra();
  report.copied = relocation->copiedBytes();
  return relocation;
}

Result<HopReport> Session::hop(const std::string &plan,
                               const HopOptions &options) {
  Implementation &self = *implementation;
  if (!self.broken.ok()) {
    return self.broken;
  }
  auto begin = std::chrono::steady_clock::now();
  HopReport report;
  CLEAVE_TRY(prepare(plan));
  Engine &next = *self.engines.at(*self.findPlan(plan));
  Result<state::Relocation> relocation =
      self.planHop(next, options, false, report);
  if (!relocation) {
    return relocation.status();
  }
  report.planning = secondsSince(begin);
  if (self.tracing) {
    self.traced.push_back(self.tracedPlan());
  }
  uint64_t traceBegin = traceClock();
  begin = std::chrono::steady_clock::now();
  self.relocate(std::move(*relocation));
  self.activate(next);
  report.seconds = secondsSince(begin);
  self.events.resize(next.coordinates());
  if (self.tracing) {
    self.hops.push_back({report.to, traceBegin, traceClock(), report.bytes,
                         static_cast<int64_t>(self.places.size())});
  }
  return report;
}

/// Work memory of the next plan, while that of the running one is in use. It
/// is kept, for its pages will have been touched; those that no update touches
/// are never there.
Status Session::Implementation::addSpare(Place &place, size_t bytes) {
  if (place.spare.data() && place.spare.size() >= bytes) {
    return Status();
  }
  Result<device::Memory> spare = place.device->allocate(bytes);
  if (!spare) {
    return spare.status().in("a second arena");
  }
  place.spare = std::move(*spare);
  return Status();
}

/// Touches where gradients are handed over to, on every device: fresh pages
/// would cost more than the copies into them, when nothing trains.
Status Session::Implementation::readySpares(std::span<const state::Hop> hops) {
  std::set<size_t> targets;
  for (const state::Hop &hop : hops) {
    if (hop.overlapped && engines.count(hop.to) > 0) {
      targets.insert(hop.to);
    }
  }
  for (Place &place : places) {
    for (size_t target : targets) {
      CLEAVE_TRY(addSpare(place, engines.at(target)->workBytes().arena));
    }
    for (size_t target : targets) {
      const Engine &engine = *engines.at(target);
      const format::ProgramT &program =
          *engine.plan().programs[engine.find("train")];
      for (const auto &handover : program.handovers) {
        const format::ValueT &value =
            *program.values[handover->gradient->value];
        if (value.storage == format::Storage::Arena) {
          std::memset(place.spare.data() + value.offset, 0, value.bytes);
        }
      }
    }
  }
  return Status();
}

/// An output of a single number; nothing where the program has none of the
/// kind.
static std::optional<float> readNumber(const Engine &engine, size_t program,
                                       OutputKind kind) {
  for (const auto &output : engine.plan().programs[program]->outputs) {
    float value = 0;
    if (output->kind == kind && output->sizes.empty() &&
        transport::gather(engine.piecesOf(program, *output), &value).ok()) {
      return value;
    }
  }
  return std::nullopt;
}

Result<HopReport> Session::trainAndHop(std::span<const Feed> feeds,
                                       const std::string &plan,
                                       const HopOptions &options) {
  Implementation &self = *implementation;
  if (!self.broken.ok()) {
    return self.broken;
  }
  // All that can fail without harm.
  auto begin = std::chrono::steady_clock::now();
  CLEAVE_TRY(prepare(plan));
  Engine &old = *self.engine, &next = *self.engines.at(*self.findPlan(plan));
  if (&old == &next) {
    return Status::error("plan `" + plan + "` runs already");
  }
  CLEAVE_TRY(checkHandovers(old.plan(), next.plan())
                 .in("a hop from `" + old.plan().name + "` to `" + plan + "`"));
  HopReport report;
  Result<state::Relocation> relocation =
      self.planHop(next, options, true, report);
  if (!relocation) {
    return relocation.status();
  }
  for (int64_t device : relocation->devices()) {
    CLEAVE_TRY(self.addSpare(self.places[device], next.workBytes().arena));
  }
  std::vector<int64_t> devicesBefore = self.state->devices();
  std::vector<int64_t> devicesAfter = relocation->devices();
  self.place(next, devicesAfter, &Place::spare,
             [&](int64_t device, size_t leaf) -> void * {
               return relocation->pointer(device, leaf);
             });
  Placed from{&old, static_cast<size_t>(old.find("train")), &devicesBefore};
  Placed to{&next, static_cast<size_t>(next.find("train")), &devicesAfter};
  Result<std::unique_ptr<Overlap>> overlap =
      Overlap::plan(from, to, *relocation);
  if (!overlap) {
    return overlap.status();
  }
  std::vector<int32_t> scalars;
  CLEAVE_TRY(self.feed(*old.plan().programs[from.program], feeds, scalars));
  report.gradientBytes = (*overlap)->gradientBytes();
  old.resetProgress();
  report.planning = secondsSince(begin);

  CLEAVE_TRY((*overlap)->start());
  CLEAVE_TRY(self.runAll(from.program, Part::Gradients));
  begin = std::chrono::steady_clock::now();
  uint64_t traceBegin = traceClock();
  (*overlap)->finish(*self.crew);
  report.hidden = (*overlap)->hiddenBytes();
  if (self.tracing) {
    self.traced.push_back(self.tracedPlan());
    self.hops.push_back({report.to, traceBegin, traceClock(), report.bytes,
                         static_cast<int64_t>(self.places.size())});
  }
  std::move(*relocation).finish(*self.state);
  self.seat(next);
  self.events.resize(next.coordinates());
  self.feedScalars(*next.plan().programs[to.program], scalars);
  report.seconds = secondsSince(begin);
  CLEAVE_TRY(self.runAll(to.program, Part::Update));
  begin = std::chrono::steady_clock::now();
  ++self.state->step;
  report.loss = readNumber(old, from.program, OutputKind::Loss).value_or(0);
  report.gradientNorm = readNumber(next, to.program, OutputKind::GradientNorm);
  self.activate(next);
  report.seconds += secondsSince(begin);
  return report;
}

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
    transport::Pieces pieces = self.engine->piecesOf(index, *output);
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
  transport::Pieces pieces = self.engine->piecesOf(index, wanted);
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
    case format::ElementType::BF16:
      values[i] = numerics::fromBfloat16(
          reinterpret_cast<const uint16_t *>(bytes.data())[i]);
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

void Session::timeStages() {
  implementation->timesStages = true;
  for (auto &[plan, engine] : implementation->engines) {
    engine->timeStages();
  }
}

std::vector<double> Session::stageTimes() const {
  return implementation->timesStages ? implementation->engine->stageTimes()
                                     : std::vector<double>();
}

double Session::trafficTime(format::TrafficKind kind,
                            const std::string &axis) const {
  return implementation->timesStages
             ? implementation->engine->trafficTime(kind, axis)
             : std::numeric_limits<double>::quiet_NaN();
}

void Session::cancel(const Status &reason) {
  implementation->engine->abort(reason);
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
  Implementation &self = *implementation;
  std::vector<TracedPlan> plans = self.traced;
  plans.push_back({&plan(), self.state->devices(), self.events});
  return executor::writeTrace(path, plans, self.hops, beside);
}

const std::vector<EventList> &Session::events() const {
  return implementation->events;
}

void Session::clearEvents() {
  implementation->traced.clear();
  for (EventList &events : implementation->events) {
    events.clear();
  }
}

std::vector<std::vector<SiteWork>>
Session::work(const std::string &program) const {
  const Engine &engine = *implementation->engine;
  std::vector<std::vector<SiteWork>> result;
  for (int64_t at = 0; at < engine.coordinates(); ++at) {
    result.push_back(
        engine.workOf(at, static_cast<size_t>(engine.find(program))));
  }
  return result;
}

} // namespace cleave::executor
