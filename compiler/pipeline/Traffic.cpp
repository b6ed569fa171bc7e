//===- Traffic.cpp - What programs in microbatches and stages send --------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Traffic.h"

#include "compiler/partition/Declare.h"
#include "compiler/pipeline/Streams.h"
#include "compiler/reshard/Reshard.h"
#include "dialects/pipe/Pipe.h"
#include "dialects/spmd/Spmd.h"
#include "runtime/format/Convert.h"
#include "runtime/format/Plan_generated.h"
#include "schedule/Schedule.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using layout::CollectiveRecord;
using partitioning::elementBytes;

Sent cleave::sentBy(Operation *op, const layout::Mesh &mesh) {
  using reshard::Kind;
  std::optional<Kind> kind =
      llvm::TypeSwitch<Operation *, std::optional<Kind>>(op)
          .Case([](spmd::AllReduceOp) { return Kind::AllReduce; })
          .Case([](spmd::ReduceScatterOp) { return Kind::ReduceScatter; })
          .Case([](spmd::AllGatherOp) { return Kind::AllGather; })
          .Case([](spmd::AllToAllOp) { return Kind::AllToAll; })
          .Case([](spmd::ShiftOp) { return Kind::Shift; })
          .Default([](Operation *) { return std::nullopt; });
  if (!kind) {
    return {};
  }
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  reshard::Subject subject;
  subject.mesh = &mesh;
  subject.elementBytes = elementBytes(from);
  for (int64_t size : spmd::globalSizes(from)) {
    subject.sizes.push_back(size);
  }
  std::vector<layout::AtomId> group =
      atomsOf(cast<spmd::CollectiveInterface>(op).getGroup());
  layout::Layout before = spmd::layoutOf(from), after = spmd::layoutOf(to);
  if (auto shift = dyn_cast<spmd::ShiftOp>(op); shift && shift.getDim()) {
    size_t dim = clv::findDim(from, *shift.getDim());
    reshard::Traffic roll = reshard::rollTraffic(
        before, after, dim, static_cast<int64_t>(shift.getBy()), subject);
    return {roll.busiest, roll.total * mesh.instants()};
  }
  return {reshard::trafficOf(*kind, group, before, after, subject).busiest,
          reshard::totalOf(*kind, group, before, after, subject)};
}

namespace {

class TrafficRecorder {
public:
  TrafficRecorder(func::FuncOp function, const layout::Plan &plan,
                  const StageStreams &streams, layout::ProgramRecord &record)
      : function(function), plan(plan), streams(streams), record(record),
        mesh(spmd::fromAttr(
            function->getParentOfType<ModuleOp>()
                ->getAttrOfType<spmd::MeshAttr>(spmd::SpmdDialect::kMesh))),
        stages(static_cast<int64_t>(streams.size())) {}

  void run();

private:
  /// How often each stage does something in a step.
  using Times = std::vector<int64_t>;

  void correct();
  void addSends(pipe::MicroOp micro);
  Times sendsOf(const MessageWork &message) const;
  void addShare(pipe::ShareOp share);
  Times timesOf(Operation *op);
  int64_t loopsAround(Operation *op, int64_t stage, int64_t chunk);
  bool isWithin(ArrayRef<int64_t> residence, int64_t stage) const;
  int64_t pointOf(int64_t stage, int64_t chunk) const;
  std::string axis() const;

  func::FuncOp function;
  const layout::Plan &plan;
  const StageStreams &streams;
  layout::ProgramRecord &record;
  layout::Mesh mesh;
  int64_t stages;
  pipe::MicroOp micro;
  schedule::Schedule line; ///< which stage and chunk a position is
  int64_t micros = 1;
};

} // namespace

std::string TrafficRecorder::axis() const {
  return "`" + plan.mesh.describe(plan.pipeline->atoms) + "`";
}

/// A device of the stage, while it works at the chunk.
int64_t TrafficRecorder::pointOf(int64_t stage, int64_t chunk) const {
  std::vector<int64_t> coordinate(mesh.atoms.size());
  if (plan.pipeline) {
    for (layout::AtomId atom : llvm::reverse(plan.pipeline->atoms)) {
      coordinate[atom] = stage % mesh.atoms[atom].size;
      stage /= mesh.atoms[atom].size;
    }
    if (plan.pipeline->chunks > 1) {
      coordinate[plan.pipeline->chunkAtom] = chunk;
    }
  }
  return mesh.deviceAt(coordinate);
}

/// Iterations of the repeats around an operation, on one stage.
int64_t TrafficRecorder::loopsAround(Operation *op, int64_t stage,
                                     int64_t chunk) {
  int64_t times = 1;
  for (auto loop = op->getParentOfType<clv::RepeatOp>(); loop;
       loop = loop->getParentOfType<clv::RepeatOp>()) {
    auto split = loop->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit);
    times *= split ? layout::heldBy(loop.getCount(), spmd::fromAttr(split),
                                    mesh, pointOf(stage, chunk))
                   : loop.getCount();
  }
  return times;
}

bool TrafficRecorder::isWithin(ArrayRef<int64_t> residence,
                               int64_t stage) const {
  std::vector<layout::Residence> parts;
  for (size_t i = 0; i + 2 < residence.size(); i += 3) {
    parts.push_back({static_cast<layout::AtomId>(residence[i]),
                     residence[i + 1], residence[i + 2]});
  }
  return format::resides(parts, mesh.coordinateOf(pointOf(stage, 0)));
}

TrafficRecorder::Times TrafficRecorder::timesOf(Operation *op) {
  Times times(stages);
  if (auto section = op->getParentOfType<pipe::SectionOp>()) {
    for (int64_t at = section.getBegin(); at < int64_t(section.getEnd());
         ++at) {
      int32_t position = static_cast<int32_t>(at);
      int64_t stage = line.owner(position);
      times[stage] += micros * loopsAround(op, stage, line.chunkAt(position));
    }
    return times;
  }
  auto only = op->getParentOfType<pipe::OnlyOp>();
  for (int64_t stage = 0; stage < stages; ++stage) {
    bool isThere = !only || isWithin(only.getResidence(), stage);
    times[stage] = isThere ? loopsAround(op, stage, 0) : 0;
  }
  return times;
}

/// Gives records the bytes of a step.
void TrafficRecorder::correct() {
  llvm::DenseMap<int64_t, std::pair<Operation *, Times>> found;
  llvm::DenseMap<int64_t, int64_t> uses; // more than one of a sum's parts
  function.walk([&](Operation *op) {
    auto number = op->getAttrOfType<IntegerAttr>(kRecordNumber);
    if (!number) {
      return;
    }
    auto &[first, sum] = found[number.getInt()];
    first = op;
    ++uses[number.getInt()];
    Times times = timesOf(op);
    sum.resize(stages);
    for (int64_t stage = 0; stage < stages; ++stage) {
      sum[stage] += times[stage];
    }
  });
  for (auto &[number, use] : found) {
    auto &[op, times] = use;
    CollectiveRecord &entry = record.collectives[number];
    // Gradients that a plan reduces for each microbatch, counted once so far.
    if (!entry.perMicro && op->getParentOfType<pipe::SectionOp>()) {
      entry.perMicro = true;
      entry.iterations *= micros * uses[number];
    }
    layout::Layout from = spmd::layoutOf(op->getOperand(0).getType());
    bool isOfStages = plan.pipeline &&
                      llvm::any_of(plan.pipeline->atoms,
                                   [&](auto atom) { return from.uses(atom); });
    if (isOfStages) {
      continue; // a value of all stages: each has its part
    }
    Sent sent = sentBy(op, mesh);
    int64_t all = 0;
    entry.stageBytes.clear();
    for (int64_t own : times) {
      all += own;
      entry.stageBytes.push_back(sent.busiest * own);
    }
    entry.stepTotal = static_cast<int64_t>(static_cast<__int128>(sent.total) *
                                           all / (mesh.instants() * stages));
  }
}

/// How often each stage sends a message in a step.
TrafficRecorder::Times
TrafficRecorder::sendsOf(const MessageWork &message) const {
  Times sends;
  for (int32_t stage = 0; stage < stages; ++stage) {
    int64_t &own = sends.emplace_back(0);
    ArrayRef<int32_t> stream = streams[stage];
    for (size_t i = 0; i < stream.size(); i += 3) {
      auto kind = static_cast<format::StepKind>(stream[i]);
      int32_t position = line.position(stage, stream[i + 1]);
      own += message.isGradient ? kind == format::StepKind::SendGradient &&
                                      message.crosses(position - 1)
                                : kind == format::StepKind::SendActivation &&
                                      message.crosses(position);
    }
  }
  return sends;
}

void TrafficRecorder::addSends(pipe::MicroOp micro) {
  PipelineWork work = workOf(micro);
  std::string dims = "`" + llvm::join(work.dims, "` and `") + "`";
  for (const MessageWork &message : work.messages) {
    Times sends = sendsOf(message);
    int64_t count = std::accumulate(sends.begin(), sends.end(), int64_t(0));
    if (count == 0) {
      continue;
    }
    CollectiveRecord entry;
    entry.kind = "send";
    entry.atoms = plan.pipeline->atoms;
    entry.value = message.value;
    entry.iterations = count;
    entry.perMicro = true;
    entry.bytesBusiest = message.largest;
    // Every microbatch goes once over each boundary.
    for (int64_t own : sends) {
      entry.stageBytes.push_back(message.busiest * (own / micros));
    }
    entry.stepTotal = message.total * (count / micros);
    entry.bytesTotal = entry.stepTotal / count;
    entry.source = plan.pipeline->source;
    entry.operation = "repeat " + llvm::join(work.dims, ", ");
    entry.reason = "the iterations of " + dims + " are on the coordinates of " +
                   axis() + " by `" + plan.pipeline->source.text + "` at " +
                   plan.pipeline->source.where();
    entry.avoid = "fewer stages, or fewer chunks";
    record.collectives.push_back(std::move(entry));
  }
}

/// What a value is to a plan; of one that says nothing, what reads it.
static clv::ScopeAttr scopeOf(pipe::ShareOp share) {
  if (clv::ScopeAttr scope = clv::scopeOf(share)) {
    return scope;
  }
  for (Operation *user : share.getResult().getUsers()) {
    if (clv::ScopeAttr scope = clv::scopeOf(user)) {
      return scope;
    }
  }
  return nullptr;
}

void TrafficRecorder::addShare(pipe::ShareOp share) {
  auto type = cast<RankedTensorType>(share.getSource().getType());
  auto only = share->getParentOfType<pipe::OnlyOp>();
  int64_t takers = 0, giver = -1;
  for (int64_t stage = 0; stage < stages; ++stage) {
    bool gives = isWithin(share.getResidence(), stage);
    takers += !gives && (!only || isWithin(only.getResidence(), stage));
    giver = gives && giver < 0 ? stage : giver;
  }
  CollectiveRecord entry;
  entry.kind = "broadcast";
  entry.atoms = plan.pipeline->atoms;
  entry.value.elementBytes = elementBytes(type);
  if (clv::ScopeAttr scope = scopeOf(share)) {
    entry.value.role = static_cast<layout::Role>(scope.getRole());
    entry.value.phase = static_cast<layout::Phase>(scope.getPhase());
    entry.value.path = scope.getPath().str();
  }
  // One giver serves all that have it not.
  layout::Layout layout = spmd::layoutOf(type);
  entry.bytesBusiest = entry.value.elementBytes * takers;
  entry.bytesTotal = entry.bytesBusiest * mesh.devices() / stages;
  SmallVector<int64_t> sizes = spmd::globalSizes(type);
  for (auto [d, name] : llvm::enumerate(clv::dimsOf(type))) {
    entry.value.dims.push_back({name.str(), sizes[d]});
    entry.bytesBusiest *= layout::largestPiece(sizes[d], layout.dims[d], mesh);
    entry.bytesTotal =
        entry.bytesTotal / mesh.sizeOf(layout.dims[d].atoms) * sizes[d];
  }
  entry.stageBytes.assign(stages, 0);
  entry.stageBytes[std::max<int64_t>(0, giver)] = entry.bytesBusiest;
  entry.stepTotal = entry.bytesTotal;
  entry.operation = "what stages share";
  entry.source = plan.pipeline->source;
  entry.reason = "not every stage of " + axis() +
                 " makes it, and others read it once a step";
  record.collectives.push_back(std::move(entry));
}

void TrafficRecorder::run() {
  auto micros = function.getOps<pipe::MicroOp>();
  if (micros.empty()) {
    return;
  }
  micro = *micros.begin();
  line = lineOf(micro, mesh);
  this->micros = line.micros;
  correct();
  if (!plan.pipeline) {
    return;
  }
  addSends(micro);
  function.walk([&](pipe::ShareOp share) { addShare(share); });
}

void cleave::recordTraffic(func::FuncOp function, const layout::Plan &plan,
                           const StageStreams &streams,
                           layout::ProgramRecord &record) {
  TrafficRecorder(function, plan, streams, record).run();
}
