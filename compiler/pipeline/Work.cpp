//===- Work.cpp - What each position of a pipeline costs ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Work.h"

#include "compiler/codegen/Group.h"
#include "compiler/partition/Declare.h"
#include "compiler/pipeline/Streams.h"
#include "compiler/pipeline/Traffic.h"
#include "dialects/pipe/Pipe.h"
#include "dialects/spmd/Spmd.h"
#include "schedule/Schedule.h"

using namespace mlir;
using namespace cleave;
using partitioning::elementBytes;

Work &Work::operator+=(const Work &other) {
  flops += other.flops;
  bytes += other.bytes;
  sent += other.sent;
  return *this;
}

static double bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return static_cast<double>(type.getNumElements() * elementBytes(type));
}

namespace {

class Counter {
public:
  explicit Counter(pipe::MicroOp micro)
      : micro(micro),
        mesh(spmd::fromAttr(
            micro->getParentOfType<ModuleOp>()->getAttrOfType<spmd::MeshAttr>(
                spmd::SpmdDialect::kMesh))) {
    line = lineOf(micro, mesh);
  }

  PipelineWork run();

private:
  int64_t pointOf(int32_t position);
  void addSection(pipe::SectionOp section);
  void addMessage(pipe::MessageOp message);
  Work ofBlock(Block &block, int64_t point);
  Work ofOperation(Operation *op, int64_t point);
  Work ofRepeat(clv::RepeatOp repeat, int64_t point);
  bool leavesKernel(Value value) const;
  layout::Split withoutTimes(const layout::Split &split) const;

  pipe::MicroOp micro;
  layout::Mesh mesh;
  schedule::Schedule line; ///< which stage and chunk a position is
  PipelineWork result;
};

} // namespace

/// A device and an instant at which the position runs.
int64_t Counter::pointOf(int32_t position) {
  std::vector<int64_t> coordinate(mesh.atoms.size());
  auto spread = [&](ArrayRef<int64_t> atoms, int64_t rank) {
    for (int64_t atom : llvm::reverse(atoms)) {
      coordinate[atom] = rank % mesh.atoms[atom].size;
      rank /= mesh.atoms[atom].size;
    }
  };
  spread(micro.getPipe(), line.owner(position));
  spread(micro.getChunk(), line.chunkAt(position));
  return mesh.deviceAt(coordinate);
}

/// Whether something but operations of the same kernel may read `value`.
bool Counter::leavesKernel(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return user->getBlock() != value.getParentBlock() ||
           !codegen::isFusable(user);
  });
}

Work Counter::ofRepeat(clv::RepeatOp repeat, int64_t point) {
  int64_t count = repeat.getCount();
  if (auto split =
          repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit)) {
    count = layout::heldBy(count, spmd::fromAttr(split), mesh, point);
  }
  Work once = ofBlock(*repeat.getBlock(), point);
  double times = static_cast<double>(count);
  return {once.flops * times, once.bytes * times, once.sent * times};
}

Work Counter::ofOperation(Operation *op, int64_t point) {
  if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
    return ofRepeat(repeat, point);
  }
  Work work;
  if (isa<spmd::CollectiveInterface>(op)) {
    work.sent = static_cast<double>(sentBy(op, mesh).busiest);
    return work;
  }
  auto cost = dyn_cast<clv::CostInterface>(op);
  if (!cost || codegen::isCheap(op)) {
    return work;
  }
  work.flops = static_cast<double>(cost.getFlops());
  bool isFused = codegen::isFusable(op);
  for (Value operand : op->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    bool isInside = isFused && maker && maker->getBlock() == op->getBlock() &&
                    codegen::isFusable(maker);
    work.bytes +=
        isInside || (maker && codegen::isCheap(maker)) ? 0 : bytesOf(operand);
  }
  for (Value made : op->getResults()) {
    work.bytes += !isFused || leavesKernel(made) ? bytesOf(made) : 0;
  }
  // A lookup reads the rows that it gives, not the table.
  if (isa<clv::LookupOp>(op)) {
    work.bytes = 2 * bytesOf(op->getResult(0));
  }
  return work;
}

Work Counter::ofBlock(Block &block, int64_t point) {
  Work work;
  for (Operation &op : block) {
    work += ofOperation(&op, point);
  }
  return work;
}

void Counter::addSection(pipe::SectionOp section) {
  for (int64_t at = section.getBegin(); at < int64_t(section.getEnd()); ++at) {
    PositionWork &position = result.positions[at];
    int64_t point = pointOf(static_cast<int32_t>(at));
    Work work = ofBlock(*section.getBlock(), point);
    switch (section.getKind()) {
    case pipe::SectionKind::Forward:
      position.forward += work;
      break;
    case pipe::SectionKind::Backward:
      position.input += work;
      break;
    case pipe::SectionKind::WeightGradient:
      position.weight += work;
      break;
    }
  }
  for (auto repeat : section.getBlock()->getOps<clv::RepeatOp>()) {
    auto split =
        repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit);
    if (!split || llvm::is_contained(result.dims, repeat.getDim().str())) {
      continue;
    }
    result.dims.push_back(repeat.getDim().str());
    for (int32_t at = 0; at < line.positions(); ++at) {
      std::vector<layout::Piece> pieces = layout::piecesOf(
          repeat.getCount(), spmd::fromAttr(split), mesh, pointOf(at));
      result.positions[at].layers.push_back(pieces.empty() ? layout::Piece()
                                                           : pieces.front());
    }
  }
}

/// Of a dim that times cut last: the piece of all instants together. Where that
/// cannot be said, as it was.
layout::Split Counter::withoutTimes(const layout::Split &split) const {
  layout::Split whole = split;
  if (!split.cuts.empty() || !split.places.empty()) {
    return whole;
  }
  while (!whole.atoms.empty() && mesh.isTime(whole.atoms.back())) {
    whole.atoms.pop_back();
  }
  return whole;
}

/// What made a value, within sections and repeats.
static Operation *makerOf(Value value) {
  for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
    unsigned result = cast<OpResult>(value).getResultNumber();
    if (auto section = dyn_cast<pipe::SectionOp>(op)) {
      value = section.getYield()->getOperand(result);
    } else if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      value = repeat.getYield()->getOperand(result);
    } else {
      return op;
    }
  }
  return nullptr;
}

void Counter::addMessage(pipe::MessageOp message) {
  auto type = cast<RankedTensorType>(message.getSource().getType());
  layout::Layout layout = spmd::layoutOf(type);
  MessageWork work;
  work.begin = static_cast<int32_t>(message.getBegin());
  work.end = static_cast<int32_t>(message.getEnd());
  work.isGradient = message.getDirection() == pipe::Direction::Gradient;
  work.value.phase =
      work.isGradient ? layout::Phase::Backward : layout::Phase::Forward;
  work.value.elementBytes = elementBytes(type);
  if (Operation *maker = makerOf(message.getSource())) {
    if (clv::ScopeAttr scope = clv::scopeOf(maker)) {
      work.value.path = scope.getPath().str();
      work.value.label = scope.getLabel() ? scope.getLabel().str() : "";
    }
  }
  // Every microbatch passes once, and every copy of it.
  work.largest = work.busiest = work.value.elementBytes;
  work.total = work.value.elementBytes * mesh.devices() / line.stages;
  SmallVector<int64_t> sizes = spmd::globalSizes(type);
  for (auto [d, name] : llvm::enumerate(clv::dimsOf(type))) {
    const layout::Split &split = layout.dims[d];
    work.value.dims.push_back({name.str(), sizes[d]});
    work.largest *= layout::largestPiece(sizes[d], split, mesh);
    layout::Split whole = withoutTimes(split);
    work.busiest *= layout::largestPiece(sizes[d], whole, mesh);
    for (layout::AtomId atom : split.atoms) {
      work.total /= mesh.isTime(atom) ? 1 : mesh.atoms[atom].size;
      // Cuts in time that are not the rule's: as if all were the largest.
      work.busiest *=
          mesh.isTime(atom) && whole == split ? mesh.atoms[atom].size : 1;
    }
    work.total *= sizes[d];
  }
  result.messages.push_back(std::move(work));
}

PipelineWork Counter::run() {
  result.positions.resize(line.positions());
  for (Operation &op : *micro.getBlock()) {
    if (auto section = dyn_cast<pipe::SectionOp>(op)) {
      addSection(section);
    } else if (auto message = dyn_cast<pipe::MessageOp>(op)) {
      addMessage(message);
    }
  }
  return std::move(result);
}

PipelineWork cleave::workOf(pipe::MicroOp micro) {
  return Counter(micro).run();
}
