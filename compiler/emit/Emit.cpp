//===- Emit.cpp - From a partitioned module to a plan ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"

#include "compiler/emit/Least.h"
#include "compiler/emit/Order.h"
#include "compiler/emit/Prepare.h"
#include "compiler/emit/ProgramWriter.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/format/Convert.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;
using codegen::Extent;

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

layout::Split PlanTables::pieces(uint32_t extent) const {
  return format::toLayout(*plan.extents[extent]->split);
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

format::ElementType emit::elementTypeOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.isF32()         ? format::ElementType::F32
         : element.isBF16()      ? format::ElementType::BF16
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
    int leaf = leaves[argument.getArgNumber()];
    if (leaf < 0) {
      continue;
    }
    layout::Layout &layout = layouts[leaf];
    layout = spmd::layoutOf(argument.getType());
    if (auto residence = function.getArgAttrOfType<DenseI64ArrayAttr>(
            argument.getArgNumber(), pipe::PipeDialect::kResidence)) {
      for (const auto &part : residencesOf(residence)) {
        layout.residence.push_back({part->atom, part->begin, part->end});
      }
    }
  }
  return layouts;
}

/// A value that others find in its place.
std::unique_ptr<format::OutputT> ProgramWriter::outputOf(Value result) {
  auto table = std::make_unique<format::OutputT>();
  table->value = value(result, placement.placeOf(result));
  table->dims = dimNames(result);
  table->sizes = sizesOf(result);
  return table;
}

void ProgramWriter::writeOutputs() {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [i, result] : llvm::enumerate(terminator->getOperands())) {
    if (resultLeaves[i] >= 0) {
      continue;
    }
    StringRef kind = attribute(true, i, "clv.result");
    std::unique_ptr<format::OutputT> table = outputOf(result);
    table->kind = kind == "loss"            ? format::OutputKind::Loss
                  : kind == "gradient_norm" ? format::OutputKind::GradientNorm
                  : kind == "gradient"      ? format::OutputKind::Gradient
                                            : format::OutputKind::Output;
    table->name = attribute(true, i, "clv.path").str();
    if (auto residence = function.getResultAttrOfType<DenseI64ArrayAttr>(
            i, pipe::PipeDialect::kResidence)) {
      table->residence = residencesOf(residence);
    }
    program->outputs.push_back(std::move(table));
  }
}

/// Whether a repeat stacks a value, a slice in each iteration.
static bool isStacked(Value value) {
  auto result = dyn_cast<OpResult>(rootOf(value));
  auto repeat =
      result ? dyn_cast<clv::RepeatOp>(result.getOwner()) : clv::RepeatOp();
  return repeat && result.getResultNumber() >= repeat.getCarried().size();
}

/// The instructions, and where the update begins.
void ProgramWriter::writeUpdate(const Actions &actions) {
  SmallVector<uint32_t> ends; ///< by action: how many instructions
  for (const auto &action : actions) {
    if (action->isUpdate && !handovers.empty() && program->update == 0) {
      program->update = static_cast<uint32_t>(program->body.size());
    }
    writeAction(*action, program->body);
    ends.push_back(static_cast<uint32_t>(program->body.size()));
  }
  for (const Handover &handover : handovers) {
    auto table = std::make_unique<format::HandoverT>();
    table->gradient = outputOf(handover.value);
    table->gradient->kind = format::OutputKind::Gradient;
    table->gradient->name = handover.path.str();
    table->ready = ends[makerOf(handover.value, actions)];
    if (isStacked(handover.value)) {
      table->loop = static_cast<int32_t>(table->ready) - 1;
    }
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto residence = function.getArgAttrOfType<DenseI64ArrayAttr>(
          i, pipe::PipeDialect::kResidence);
      if (residence && attribute(false, i, "clv.role") == "param" &&
          attribute(false, i, "clv.path") == handover.path) {
        table->gradient->residence = residencesOf(residence);
      }
    }
    program->handovers.push_back(std::move(table));
  }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<format::ProgramT>>
ProgramWriter::write(LeastArenas *least) {
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
  if (least) {
    (*least)[program->name] = leastArena(function, *actions, placement);
  }
  handovers = handoversOf(function);
  writeUpdate(*actions);
  writeCopies(placement.last, tables.site(function.getLoc(), {}, "copy", ""),
              program->body);
  writeOutputs();
  return std::move(program);
}

llvm::Expected<std::unique_ptr<format::PlanT>>
emit::emitPlan(ModuleOp module, StringRef name, const Shared &shared,
               codegen::KernelLibrary &library, LeastArenas *least) {
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
    auto program = writer.write(least);
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
