//===- Instructions.cpp - Actions as instructions -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/ProgramWriter.h"
#include "compiler/reproducible/Reproducible.h"
#include "dialects/pipe/Pipe.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;
using codegen::Extent;

/// A value of the plan: memory, and the extents it is seen with.
uint32_t ProgramWriter::value(Value v, const Place &place) {
  const Buffer &buffer = placement.buffers[place.buffer];
  std::vector<uint32_t> extents;
  if (place.loop >= 0) {
    extents.push_back(tables.extent(place.stack));
  }
  for (const Extent &extent : codegen::extentsOf(v)) {
    extents.push_back(tables.extent(extent));
  }
  format::ElementType type = elementTypeOf(v);
  // What is contiguous where all chunks lie is one of them.
  bool isChunk = buffer.hasChunks;
  if (isChunk) {
    layout::Split first = tables.pieces(extents.front());
    isChunk = layout::isContiguous(first);
  }
  std::vector<int64_t> key = {place.buffer, int64_t(type)};
  key.insert(key.end(), extents.begin(), extents.end());
  auto [entry, added] = values.try_emplace(key, program->values.size());
  if (added) {
    auto table = std::make_unique<format::ValueT>();
    table->storage = buffer.storage;
    table->index = buffer.index;
    table->offset = buffer.offset;
    table->bytes = buffer.bytes;
    table->type = type;
    table->extents = extents;
    table->chunks = isChunk;
    program->values.push_back(std::move(table));
  }
  return entry->second;
}

format::View ProgramWriter::view(Value v, const Place &place) {
  return format::View(value(v, place), place.loop);
}

uint32_t ProgramWriter::siteOf(const Action &action, StringRef name,
                               StringRef reason) {
  return tables.site(action.loc, action.scope, name, reason);
}

template <typename T> void ProgramWriter::push(Body &body, T &&action) {
  auto instruction = std::make_unique<format::InstructionT>();
  instruction->action.Set(std::forward<T>(action));
  body.push_back(std::move(instruction));
}

static std::unique_ptr<format::View> boxed(format::View view) {
  return std::make_unique<format::View>(view);
}

/// The number of repeats around a value's block.
static int depthOf(Value value) {
  int depth = 0;
  for (Operation *op = value.getParentBlock()->getParentOp(); op;
       op = op->getParentOp()) {
    depth += isa<clv::RepeatOp>(op);
  }
  return depth;
}

void ProgramWriter::writeKernel(const Action &action, Body &body) {
  const codegen::Kernel &kernel = action.kernel;
  format::KernelT table;
  table.symbol = kernel.symbol;
  for (Value value : kernel.inputs) {
    table.views.push_back(view(value));
  }
  for (Value value : kernel.outputs) {
    table.views.push_back(view(value));
  }
  for (int buffer : placement.scratch.lookup(&action)) {
    // Scratch is bytes that only the kernel understands.
    auto scratch = std::make_unique<format::ValueT>();
    scratch->storage = format::Storage::Arena;
    scratch->offset = placement.buffers[buffer].offset;
    scratch->bytes = placement.buffers[buffer].bytes;
    table.views.push_back(format::View(program->values.size(), -1));
    program->values.push_back(std::move(scratch));
  }
  for (const codegen::KernelInteger &integer : kernel.integers) {
    switch (integer.kind) {
    case codegen::KernelInteger::Size:
      table.integers.push_back({format::IntegerKind::ExtentSize,
                                int64_t(tables.extent(integer.extent))});
      break;
    case codegen::KernelInteger::Begin:
      table.integers.push_back({format::IntegerKind::ExtentBegin,
                                int64_t(tables.extent(integer.extent))});
      break;
    case codegen::KernelInteger::Literal:
      table.integers.push_back({format::IntegerKind::Literal, integer.literal});
      break;
    case codegen::KernelInteger::Iteration:
      table.integers.push_back(
          {format::IntegerKind::Iteration, depthOf(integer.iteration) - 1});
      break;
    }
  }
  table.site = siteOf(action, library.symbols()[kernel.symbol]);
  push(body, std::move(table));
}

void ProgramWriter::writeContraction(const Action &action, Body &body) {
  auto reduce = dyn_cast<clv::ReduceOp>(action.op);
  Value operands[] = {action.op->getOperand(0),
                      action.op->getOperand(reduce ? 0 : 1),
                      action.op->getResult(0)};
  format::ContractionT table;
  table.ordered = action.op->hasAttr(kOrdered);
  table.terms = reduce != nullptr;
  table.lhs = boxed(view(operands[0]));
  table.rhs = boxed(view(operands[1]));
  table.out = boxed(view(operands[2]));
  llvm::MapVector<StringRef, Extent> dims;
  for (Value operand : operands) {
    for (const Extent &extent : codegen::extentsOf(operand)) {
      dims.insert({extent.name.getValue(), extent});
    }
  }
  auto list = dims.takeVector();
  if (table.ordered) {
    // By name: the order in memory is a plan's.
    llvm::sort(list, llvm::less_first());
  }
  for (const auto &[name, extent] : list) {
    table.dims.push_back({tables.extent(extent),
                          clv::findDim(operands[0].getType(), name),
                          clv::findDim(operands[1].getType(), name),
                          clv::findDim(operands[2].getType(), name)});
  }
  std::string name = reduce ? "sum over" : "dot over";
  for (Attribute dim :
       reduce ? reduce.getOver() : cast<clv::DotOp>(action.op).getOver()) {
    name += " " + cast<StringAttr>(dim).getValue().str();
  }
  table.site = siteOf(action, name);
  push(body, std::move(table));
}

void ProgramWriter::writeMove(const Action &action, Body &body) {
  Value source = action.op->getOperand(0), target = action.op->getResult(0);
  format::MoveT table;
  table.source = boxed(view(source));
  table.target = boxed(view(target));
  table.shift.assign(cast<RankedTensorType>(source.getType()).getRank(), 0);
  if (auto slice = dyn_cast<clv::SliceOp>(action.op)) {
    table.shift[clv::findDim(source.getType(), slice.getDim())] =
        -static_cast<int64_t>(slice.getFirst());
  }
  if (auto pad = dyn_cast<clv::PadOp>(action.op)) {
    table.shift[clv::findDim(source.getType(), pad.getDim())] =
        static_cast<int64_t>(pad.getFirst());
  }
  if (isa<clv::PadOp, pipe::SpreadOp>(action.op)) {
    format::FillT fill;
    fill.target = boxed(view(target));
    push(body, std::move(fill));
  }
  table.site = siteOf(action, action.op->getName().stripDialect());
  push(body, std::move(table));
}

void ProgramWriter::writeStart(const Action &action, Body &body) {
  using format::CollectiveKind;
  auto collective = cast<spmd::CollectiveInterface>(action.op);
  Value source = action.op->getOperand(0), target = action.op->getResult(0);
  layout::Layout from = spmd::layoutOf(source.getType()),
                 to = spmd::layoutOf(target.getType());
  format::CollectiveT table;
  table.id = collectives.size();
  collectives[&action] = table.id;
  table.kind = isa<spmd::AllReduceOp>(action.op) ? CollectiveKind::AllReduce
               : isa<spmd::ReduceScatterOp>(action.op)
                   ? CollectiveKind::ReduceScatter
               : isa<spmd::AllGatherOp>(action.op) ? CollectiveKind::AllGather
               : isa<spmd::ShiftOp>(action.op)     ? CollectiveKind::Shift
                                                   : CollectiveKind::AllToAll;
  if (auto shift = dyn_cast<spmd::ShiftOp>(action.op);
      shift && shift.getDim()) {
    table.shift.assign(from.dims.size(), 0);
    table.shift[clv::findDim(source.getType(), *shift.getDim())] =
        static_cast<int64_t>(shift.getBy());
  }
  table.reduction = static_cast<format::Reduction>(from.reduction);
  table.group.assign(collective.getGroup().begin(),
                     collective.getGroup().end());
  for (layout::AtomId atom : from.partial) {
    if (!llvm::is_contained(to.partial, atom)) {
      table.partial.push_back(atom);
    }
  }
  table.source = boxed(view(source));
  table.target = boxed(view(target));
  auto reason = action.op->getAttrOfType<StringAttr>("reason");
  std::string name = collective.getKindName().str();
  if (auto module = action.op->getParentOfType<ModuleOp>()) {
    if (auto mesh =
            module->getAttrOfType<spmd::MeshAttr>(spmd::SpmdDialect::kMesh)) {
      name += " " + spmd::fromAttr(mesh).describe(
                        {table.group.begin(), table.group.end()});
    }
  }
  table.site = siteOf(action, name, reason ? reason.getValue() : "");
  push(body, std::move(table));
}

void ProgramWriter::writeCopies(const std::vector<Copy> &copies, uint32_t site,
                                Body &body) {
  for (const Copy &copy : copies) {
    format::MoveT table;
    table.source = boxed(view(copy.value, copy.source));
    table.target = boxed(view(copy.value, copy.target));
    table.shift.assign(cast<RankedTensorType>(copy.value.getType()).getRank(),
                       0);
    table.site = site;
    push(body, std::move(table));
  }
}

void ProgramWriter::writeLoop(const Action &action, Body &body) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  uint32_t site = siteOf(action, "copy");
  if (auto found = placement.before.find(&action);
      found != placement.before.end()) {
    writeCopies(found->second, site, body);
  }
  // Slices count from the start of what is stacked; kernels that ask for the
  // index add `first` themselves.
  format::LoopT table;
  table.first = 0;
  table.count = static_cast<int64_t>(repeat.getCount());
  table.reverse = repeat.getReverse();
  if (auto split =
          repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit)) {
    table.extent =
        tables.extent({repeat.getDimAttr(),
                       static_cast<int64_t>(repeat.getCount()), split, 0});
  }
  writeActions(action.body, table.body);
  if (auto found = placement.atEnd.find(&action);
      found != placement.atEnd.end()) {
    writeCopies(found->second, site, table.body);
  }
  push(body, std::move(table));
}

using Residences = std::vector<std::unique_ptr<format::ResidenceT>>;

Residences emit::residencesOf(ArrayRef<int64_t> triples) {
  Residences residences;
  for (size_t i = 0; i + 2 < triples.size(); i += 3) {
    auto residence = std::make_unique<format::ResidenceT>();
    residence->atom = static_cast<uint32_t>(triples[i]);
    residence->begin = triples[i + 1];
    residence->end = triples[i + 2];
    residences.push_back(std::move(residence));
  }
  return residences;
}

/// What stands in a frame, and the copies at its end.
void ProgramWriter::writeFrame(const Action &action, Body &body) {
  writeActions(action.body, body);
  if (auto found = placement.atEnd.find(&action);
      found != placement.atEnd.end()) {
    writeCopies(found->second, siteOf(action, "copy"), body);
  }
}

void ProgramWriter::writeOnly(const Action &action, Body &body) {
  format::OnlyT table;
  table.residence = residencesOf(cast<pipe::OnlyOp>(action.op).getResidence());
  writeFrame(action, table.body);
  push(body, std::move(table));
}

void ProgramWriter::writeShare(const Action &action, Body &body) {
  auto share = cast<pipe::ShareOp>(action.op);
  format::CollectiveT table;
  table.id = collectives.size();
  collectives[&action] = table.id;
  table.kind = format::CollectiveKind::Broadcast;
  table.group.assign(share.getPipe().begin(), share.getPipe().end());
  table.holders = residencesOf(share.getResidence());
  table.source = boxed(view(share.getSource()));
  table.target = boxed(view(share.getResult()));
  table.site = siteOf(action, "broadcast over stages",
                      "stages that do not have it read it");
  push(body, std::move(table));
}

void ProgramWriter::writeMicro(const Action &action, Body &body) {
  auto micro = cast<pipe::MicroOp>(action.op);
  if (auto found = placement.before.find(&action);
      found != placement.before.end()) {
    writeCopies(found->second, siteOf(action, "copy"), body);
  }
  format::PipelineT table;
  table.pipe.assign(micro.getPipe().begin(), micro.getPipe().end());
  table.micro.assign(micro.getMicro().begin(), micro.getMicro().end());
  table.chunk.assign(micro.getChunk().begin(), micro.getChunk().end());
  table.placement = static_cast<format::Placement>(micro.getPlacement());
  for (const auto &frame : action.body) {
    auto section = cast<pipe::SectionOp>(frame->op);
    auto written = std::make_unique<format::SectionT>();
    written->kind = static_cast<format::SectionKind>(section.getKind());
    written->begin = section.getBegin();
    written->end = section.getEnd();
    writeFrame(*frame, written->body);
    table.sections.push_back(std::move(written));
  }
  for (const SlotGroup &group : placement.slots) {
    auto slots = std::make_unique<format::SlotGroupT>();
    slots->bytes = group.bytes;
    slots->begin = static_cast<uint32_t>(group.begin);
    slots->end = static_cast<uint32_t>(group.end);
    table.groups.push_back(std::move(slots));
  }
  for (auto message : micro.getBlock()->getOps<pipe::MessageOp>()) {
    auto written = std::make_unique<format::MessageT>();
    written->source = boxed(view(message.getSource()));
    written->target = boxed(view(message.getTarget()));
    written->begin = static_cast<uint32_t>(message.getBegin());
    written->end = static_cast<uint32_t>(message.getEnd());
    (message.getDirection() == pipe::Direction::Activation ? table.activations
                                                           : table.gradients)
        .push_back(std::move(written));
  }
  for (Attribute attr : micro.getStreams()) {
    auto stream = std::make_unique<format::StreamT>();
    ArrayRef<int32_t> numbers = cast<DenseI32ArrayAttr>(attr);
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) {
      stream->steps.emplace_back(static_cast<format::StepKind>(numbers[i]),
                                 static_cast<uint16_t>(numbers[i + 1]),
                                 static_cast<uint32_t>(numbers[i + 2]));
    }
    table.streams.push_back(std::move(stream));
  }
  push(body, std::move(table));
}

void ProgramWriter::writeAction(const Action &action, Body &body) {
  switch (action.kind) {
  case Action::Kernel:
    return writeKernel(action, body);
  case Action::Contraction:
    return writeContraction(action, body);
  case Action::Move:
    return writeMove(action, body);
  case Action::Start:
    return isa<pipe::ShareOp>(action.op) ? writeShare(action, body)
                                         : writeStart(action, body);
  case Action::Wait: {
    format::WaitT wait;
    wait.id = collectives.lookup(action.start);
    return push(body, std::move(wait));
  }
  case Action::Loop:
    return writeLoop(action, body);
  case Action::Frame:
    return writeOnly(action, body);
  case Action::Micro:
    return writeMicro(action, body);
  }
}

void ProgramWriter::writeActions(const Actions &actions, Body &body) {
  for (const auto &action : actions) {
    writeAction(*action, body);
  }
}
