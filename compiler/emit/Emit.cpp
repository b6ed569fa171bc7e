//===- Emit.cpp - From a partitioned module to a plan ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"

#include "compiler/emit/Order.h"
#include "compiler/emit/Prepare.h"
#include "compiler/emit/Program.h"
#include "runtime/format/Convert.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;
using codegen::Extent;

namespace {

/// What all programs of a plan number together.
class PlanTables {
public:
  explicit PlanTables(format::PlanT &plan) : plan(plan) {}

  uint32_t extent(const Extent &extent);
  uint32_t site(Location loc, clv::ScopeAttr scope, StringRef name,
                StringRef reason);

private:
  format::PlanT &plan;
  llvm::DenseMap<Extent, uint32_t> extents;
  std::map<std::string, uint32_t> sites;
};

/// Writes one function.
class ProgramWriter {
public:
  ProgramWriter(func::FuncOp function, const Shared &shared,
                codegen::KernelLibrary &library, PlanTables &tables)
      : function(function), shared(shared), library(library), tables(tables) {}

  llvm::Expected<std::unique_ptr<format::ProgramT>> write();
  /// The layouts of the leaves that the function has.
  llvm::DenseMap<int, layout::Layout> leafLayouts();

private:
  func::FuncOp function;
  const Shared &shared;
  codegen::KernelLibrary &library;
  PlanTables &tables;
  std::unique_ptr<format::ProgramT> program =
      std::make_unique<format::ProgramT>();
  SmallVector<int> leaves, inputs, resultLeaves;
  Placement placement;
  std::map<std::vector<int64_t>, uint32_t> values;
  llvm::DenseMap<const Action *, uint32_t> collectives;

  using Body = std::vector<std::unique_ptr<format::InstructionT>>;

  StringRef attribute(bool ofResult, unsigned index, StringRef name);
  int findLeaf(StringRef path, StringRef state);
  llvm::Error readArguments();
  llvm::Error addInput(unsigned index, StringRef role);
  llvm::Error readResults();
  void writeOutputs();

  uint32_t value(Value value, const Place &place);
  format::View view(Value value, const Place &place);
  format::View view(Value v) { return view(v, placement.placeOf(v)); }
  uint32_t siteOf(const Action &action, StringRef name, StringRef reason = "");
  template <typename T> void push(Body &body, T &&action);
  void writeActions(const Actions &actions, Body &body);
  void writeKernel(const Action &action, Body &body);
  void writeContraction(const Action &action, Body &body);
  void writeMove(const Action &action, Body &body);
  void writeStart(const Action &action, Body &body);
  void writeLoop(const Action &action, Body &body);
  void writeCopies(const std::vector<Copy> &copies, uint32_t site, Body &body);
};

} // namespace

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static format::SplitT splitOf(const Extent &extent) {
  format::SplitT split;
  if (extent.split) {
    split.atoms.assign(extent.split.getAtoms().begin(),
                       extent.split.getAtoms().end());
    split.unit = extent.split.getUnit();
    split.cuts.assign(extent.split.getCuts().begin(),
                      extent.split.getCuts().end());
    split.places.assign(extent.split.getPlaces().begin(),
                        extent.split.getPlaces().end());
  }
  return split;
}

uint32_t PlanTables::extent(const Extent &extent) {
  auto [entry, added] = extents.try_emplace(extent, plan.extents.size());
  if (added) {
    auto table = std::make_unique<format::ExtentT>();
    table->dim = extent.name.str();
    table->size = extent.size;
    table->split = std::make_unique<format::SplitT>(splitOf(extent));
    plan.extents.push_back(std::move(table));
  }
  return entry->second;
}

/// The file and line a location leads to, if any.
static FileLineColLoc fileOf(Location loc) {
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    return file;
  }
  if (auto name = dyn_cast<NameLoc>(loc)) {
    return fileOf(name.getChildLoc());
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    return fileOf(call.getCallee());
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations()) {
      if (FileLineColLoc file = fileOf(part)) {
        return file;
      }
    }
  }
  return {};
}

uint32_t PlanTables::site(Location loc, clv::ScopeAttr scope, StringRef name,
                          StringRef reason) {
  auto site = std::make_unique<format::SiteT>();
  site->name = name.str();
  site->reason = reason.str();
  if (scope) {
    site->path = scope.getPath().str();
  }
  if (FileLineColLoc file = fileOf(loc)) {
    site->file = file.getFilename().str();
    site->line = file.getLine();
  }
  std::string key = site->name + '\0' + site->path + '\0' + site->file + '\0' +
                    std::to_string(site->line) + '\0' + site->reason;
  auto [entry, added] = sites.try_emplace(key, plan.sites.size());
  if (added) {
    plan.sites.push_back(std::move(site));
  }
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

static format::ElementType elementTypeOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.isF32()         ? format::ElementType::F32
         : element.isInteger(32) ? format::ElementType::I32
                                 : format::ElementType::Bool;
}

static std::vector<std::string> dimNames(Value value) {
  std::vector<std::string> names;
  for (StringRef name : clv::dimsOf(value)) {
    names.push_back(name.str());
  }
  return names;
}

static std::vector<int64_t> sizesOf(Value value) {
  SmallVector<int64_t> sizes = spmd::globalSizes(value.getType());
  return std::vector<int64_t>(sizes.begin(), sizes.end());
}

StringRef ProgramWriter::attribute(bool ofResult, unsigned index,
                                   StringRef name) {
  StringAttr attr = ofResult
                        ? function.getResultAttrOfType<StringAttr>(index, name)
                        : function.getArgAttrOfType<StringAttr>(index, name);
  return attr ? attr.getValue() : StringRef();
}

int ProgramWriter::findLeaf(StringRef path, StringRef state) {
  for (auto [i, leaf] : llvm::enumerate(shared.leaves)) {
    if (leaf.path == path && leaf.state == state) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

llvm::Error ProgramWriter::addInput(unsigned index, StringRef role) {
  Value argument = function.getArgument(index);
  auto input = std::make_unique<format::InputT>();
  StringRef path = attribute(false, index, "clv.path");
  if (role == "input") {
    const auto *known = llvm::find_if(
        shared.inputs, [&](const format::InputT &i) { return i.name == path; });
    if (known == shared.inputs.end()) {
      return llvm::createStringError("input `" + path.str() +
                                     "` is not declared");
    }
    *input = *known;
  } else {
    input->name = path.empty() ? role.str() : path.str();
    input->source =
        role == "seed" ? format::InputSource::Seed : format::InputSource::Step;
  }
  input->type = elementTypeOf(argument);
  input->dims = dimNames(argument);
  input->sizes = sizesOf(argument);
  inputs[index] = static_cast<int>(program->inputs.size());
  program->inputs.push_back(std::move(input));
  return llvm::Error::success();
}

llvm::Error ProgramWriter::readArguments() {
  leaves.assign(function.getNumArguments(), -1);
  inputs.assign(function.getNumArguments(), -1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef role = attribute(false, i, "clv.role");
    StringRef path = attribute(false, i, "clv.path");
    if (role == "param" || role == "optimizer") {
      leaves[i] = findLeaf(path, attribute(false, i, "clv.state"));
      if (leaves[i] < 0) {
        return llvm::createStringError("no leaf `" + path.str() + "`");
      }
    } else if (role == "input" || role == "seed" || role == "step") {
      if (llvm::Error error = addInput(i, role)) {
        return error;
      }
    } else {
      return llvm::createStringError("argument " + std::to_string(i) + " of @" +
                                     function.getName().str() +
                                     " has no `clv.role`");
    }
  }
  return llvm::Error::success();
}

llvm::Error ProgramWriter::readResults() {
  resultLeaves.assign(function.getNumResults(), -1);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    StringRef kind = attribute(true, i, "clv.result");
    if (kind != "param" && kind != "optimizer") {
      continue;
    }
    StringRef path = attribute(true, i, "clv.path");
    resultLeaves[i] = findLeaf(path, attribute(true, i, "clv.state"));
    if (resultLeaves[i] < 0) {
      return llvm::createStringError("no leaf `" + path.str() + "`");
    }
  }
  return llvm::Error::success();
}

llvm::DenseMap<int, layout::Layout> ProgramWriter::leafLayouts() {
  llvm::DenseMap<int, layout::Layout> layouts;
  for (BlockArgument argument : function.getArguments()) {
    if (int leaf = leaves[argument.getArgNumber()]; leaf >= 0) {
      layouts[leaf] = spmd::layoutOf(argument.getType());
    }
  }
  return layouts;
}

void ProgramWriter::writeOutputs() {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [i, result] : llvm::enumerate(terminator->getOperands())) {
    if (resultLeaves[i] >= 0) {
      continue;
    }
    StringRef kind = attribute(true, i, "clv.result");
    auto table = std::make_unique<format::OutputT>();
    table->kind = kind == "loss"            ? format::OutputKind::Loss
                  : kind == "gradient_norm" ? format::OutputKind::GradientNorm
                  : kind == "gradient"      ? format::OutputKind::Gradient
                                            : format::OutputKind::Output;
    table->name = attribute(true, i, "clv.path").str();
    table->value = value(result, placement.placeOf(result));
    table->dims = dimNames(result);
    table->sizes = sizesOf(result);
    program->outputs.push_back(std::move(table));
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

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
  auto dot = cast<clv::DotOp>(action.op);
  Value operands[] = {dot.getLhs(), dot.getRhs(), dot.getResult()};
  format::ContractionT table;
  table.lhs = boxed(view(operands[0]));
  table.rhs = boxed(view(operands[1]));
  table.out = boxed(view(operands[2]));
  SmallVector<StringRef> names;
  for (Value operand : operands) {
    for (const Extent &extent : codegen::extentsOf(operand)) {
      StringRef name = extent.name.getValue();
      if (llvm::is_contained(names, name)) {
        continue;
      }
      names.push_back(name);
      table.dims.push_back({tables.extent(extent),
                            clv::findDim(operands[0].getType(), name),
                            clv::findDim(operands[1].getType(), name),
                            clv::findDim(operands[2].getType(), name)});
    }
  }
  std::string name = "dot over";
  for (Attribute dim : dot.getOver()) {
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
                                                   : CollectiveKind::AllToAll;
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
  writeActions(action.body, table.body);
  if (auto found = placement.atEnd.find(&action);
      found != placement.atEnd.end()) {
    writeCopies(found->second, site, table.body);
  }
  push(body, std::move(table));
}

void ProgramWriter::writeActions(const Actions &actions, Body &body) {
  for (const auto &action : actions) {
    switch (action->kind) {
    case Action::Kernel:
      writeKernel(*action, body);
      break;
    case Action::Contraction:
      writeContraction(*action, body);
      break;
    case Action::Move:
      writeMove(*action, body);
      break;
    case Action::Start:
      writeStart(*action, body);
      break;
    case Action::Wait: {
      format::WaitT wait;
      wait.id = collectives.lookup(action->start);
      push(body, std::move(wait));
      break;
    }
    case Action::Loop:
      writeLoop(*action, body);
      break;
    }
  }
}

llvm::Expected<std::unique_ptr<format::ProgramT>> ProgramWriter::write() {
  StringRef name = function.getName();
  program->name = name == "loss" ? "eval" : name.str();
  if (llvm::Error error = prepare(function)) {
    return std::move(error);
  }
  chooseOrders(function);
  if (llvm::Error error = readArguments()) {
    return std::move(error);
  }
  if (llvm::Error error = readResults()) {
    return std::move(error);
  }
  llvm::Expected<Actions> actions = buildActions(function, library);
  if (!actions) {
    return actions.takeError();
  }
  placement = place(
      function, *actions, [&](unsigned i) { return leaves[i]; },
      [&](unsigned i) { return inputs[i]; },
      [&](unsigned i) { return resultLeaves[i]; });
  program->arena_bytes = placement.arenaBytes;
  writeActions(*actions, program->body);
  writeCopies(placement.last, tables.site(function.getLoc(), {}, "copy", ""),
              program->body);
  writeOutputs();
  return std::move(program);
}

llvm::Expected<std::unique_ptr<format::PlanT>>
emit::emitPlan(ModuleOp module, StringRef name, const Shared &shared,
               codegen::KernelLibrary &library) {
  auto plan = std::make_unique<format::PlanT>();
  plan->name = name.str();
  layout::Mesh mesh;
  if (auto attr =
          module->getAttrOfType<spmd::MeshAttr>(spmd::SpmdDialect::kMesh)) {
    mesh = spmd::fromAttr(attr);
  }
  plan->mesh = std::make_unique<format::MeshT>(format::fromLayout(mesh));
  PlanTables tables(*plan);
  llvm::DenseMap<int, layout::Layout> layouts;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate() || function.isDeclaration()) {
      continue;
    }
    ProgramWriter writer(function, shared, library, tables);
    auto program = writer.write();
    if (!program) {
      return program.takeError();
    }
    for (auto &[leaf, layout] : writer.leafLayouts()) {
      auto [entry, added] = layouts.try_emplace(leaf, layout);
      if (!added && !(entry->second == layout)) {
        return llvm::createStringError(
            "leaf `" + shared.leaves[leaf].path +
            "` has two layouts in the programs of plan `" + name.str() + "`");
      }
    }
    plan->programs.push_back(std::move(*program));
  }
  for (auto [i, leaf] : llvm::enumerate(shared.leaves)) {
    layout::Layout whole;
    whole.dims.resize(leaf.sizes.size());
    auto found = layouts.find(static_cast<int>(i));
    plan->layouts.push_back(std::make_unique<format::LayoutT>(
        format::fromLayout(found == layouts.end() ? whole : found->second)));
  }
  return std::move(plan);
}
