//===- VerifyProgram.cpp - Whether a program can be run -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Convert.h"
#include "runtime/format/Verify.h"

#include <algorithm>
#include <set>

namespace cleave::format {

namespace {

std::string number(int64_t value) { return std::to_string(value); }

struct Verifier {
  const ProgramT &program;
  const PlanT &plan;
  const PlanSetT &set;
  const layout::Mesh &mesh;
  std::vector<layout::Split> splits; ///< of the plan's extents
  std::vector<int64_t> largest;      ///< of the plan's extents
  std::vector<const LoopT *> loops;  ///< enclosing, outermost first
  std::set<uint32_t> pending;        ///< collectives not yet waited for
  std::set<uint32_t> started;        ///< all collectives seen

  Verifier(const ProgramT &program, const PlanT &plan, const PlanSetT &set,
           const layout::Mesh &mesh)
      : program(program), plan(plan), set(set), mesh(mesh) {
    for (const auto &extent : plan.extents) {
      splits.push_back(toLayout(*extent->split));
      largest.push_back(
          layout::largestPiece(extent->size, splits.back(), mesh));
    }
  }

  Status verifyInput(const InputT &input);
  Status verifyValue(const ValueT &value);
  Status verifyOutput(const OutputT &output);
  Status verifyBody(const std::vector<std::unique_ptr<InstructionT>> &body);
  Status verifyInstruction(const InstructionT &instruction);
  Status verifyLoop(const LoopT &loop);
  Status verifyKernel(const KernelT &kernel);
  Status verifyContraction(const ContractionT &contraction);
  Status verifyMove(const MoveT &move);
  Status verifyCollective(const CollectiveT &collective);
  Status verifyShift(const CollectiveT &collective,
                     const std::vector<uint32_t> &extents);
  Status verifyView(const View *view);
  Status verifySite(uint32_t site);

  const ValueT &valueOf(const View &view) {
    return *program.values[view.value()];
  }
  /// The extents of what a verified view shows.
  std::vector<uint32_t> extentsOf(const View &view) {
    std::vector<uint32_t> extents = valueOf(view).extents;
    if (view.loop() >= 0) {
      extents.erase(extents.begin());
    }
    return extents;
  }
  bool same(uint32_t a, uint32_t b) {
    return a == b || sameSizes(plan.extents[a]->size, splits[a],
                               plan.extents[b]->size, splits[b], mesh);
  }
  /// Whether two verified views may share memory.
  bool overlap(const View &a, const View &b) {
    const ValueT &x = valueOf(a), &y = valueOf(b);
    if (x.storage != y.storage) {
      return false;
    }
    if (x.storage == Storage::Arena) {
      return x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
    }
    return x.storage == Storage::Leaf ? x.index == y.index
                                      : a.value() == b.value();
  }
};

Status Verifier::verifyInput(const InputT &input) {
  if (input.source > InputSource::Seed || input.type > ElementType::Bool) {
    return Status::error("an unknown source or type");
  }
  if (input.dims.size() != input.sizes.size()) {
    return Status::error("another number of sizes than of dims");
  }
  if (Result<int64_t> elements = elementsOf(input.sizes, 1); !elements) {
    return elements.status();
  }
  size_t rank = input.source == InputSource::Tokens ? 2 : 0;
  if (input.sizes.size() != rank || input.type != ElementType::I32) {
    return Status::error(rank == 2 ? "tokens are not i32[sample, position]"
                                   : "the step and the seed are i32 scalars");
  }
  if (input.shift < 0 || input.shift > largestTensor || input.bound < 0) {
    return Status::error("a negative shift or bound");
  }
  return Status();
}

Status Verifier::verifyValue(const ValueT &value) {
  if (value.storage > Storage::Input || value.type > ElementType::Bool) {
    return Status::error("an unknown storage or type");
  }
  if (value.extents.size() > highestRank) {
    return Status::error("it has more than " + number(highestRank) + " dims");
  }
  std::vector<int64_t> pieces;
  for (uint32_t extent : value.extents) {
    if (extent >= plan.extents.size()) {
      return Status::error("an extent that is not there");
    }
    pieces.push_back(largest[extent]);
  }
  Result<int64_t> elements = elementsOf(pieces, 0);
  if (!elements) {
    return elements.status();
  }
  bool empty = std::find(pieces.begin(), pieces.end(), 0) != pieces.end();
  uint64_t needed = empty ? 0 : uint64_t(*elements * elementSize(value.type));
  if (value.storage == Storage::Arena) {
    if (value.offset % 64 != 0) {
      return Status::error("an offset that is not a multiple of 64");
    }
    if (value.offset > program.arena_bytes ||
        value.bytes > program.arena_bytes - value.offset) {
      return Status::error("it ends outside the arena");
    }
    if (value.bytes < needed) {
      return Status::error("it has room for " + number(value.bytes) +
                           " bytes and needs " + number(needed));
    }
    return Status();
  }
  bool leaf = value.storage == Storage::Leaf;
  if (value.index >= (leaf ? set.leaves.size() : program.inputs.size())) {
    return Status::error(leaf ? "a leaf that is not there"
                              : "an input that is not there");
  }
  ElementType type =
      leaf ? set.leaves[value.index]->type : program.inputs[value.index]->type;
  const std::vector<int64_t> &sizes = leaf ? set.leaves[value.index]->sizes
                                           : program.inputs[value.index]->sizes;
  if (type != value.type || sizes.size() != value.extents.size()) {
    return Status::error("another type or rank than what it stands for");
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (plan.extents[value.extents[i]]->size != sizes[i]) {
      return Status::error("another size than what it stands for");
    }
    // Same sizes on each device do not make the same pieces where cuts are
    // placed; the executor compares those device by device.
    if (leaf &&
        !sameSizes(sizes[i], splits[value.extents[i]], sizes[i],
                   toLayout(*plan.layouts[value.index]->dims[i]), mesh)) {
      return Status::error("another layout than the leaf's");
    }
  }
  return Status();
}

Status Verifier::verifyOutput(const OutputT &output) {
  if (output.kind > OutputKind::Output) {
    return Status::error("an unknown kind");
  }
  if (output.value >= program.values.size()) {
    return Status::error("a value that is not there");
  }
  const ValueT &value = *program.values[output.value];
  if (output.dims.size() != output.sizes.size() ||
      output.sizes.size() != value.extents.size()) {
    return Status::error("another rank than its value");
  }
  for (size_t i = 0; i < output.sizes.size(); ++i) {
    if (plan.extents[value.extents[i]]->size != output.sizes[i]) {
      return Status::error("another size than its value");
    }
  }
  bool scalar = output.kind == OutputKind::Loss ||
                output.kind == OutputKind::GradientNorm;
  if (scalar && (!output.sizes.empty() || value.type != ElementType::F32)) {
    return Status::error("it is not an f32 scalar");
  }
  return Status();
}

Status Verifier::verifySite(uint32_t site) {
  if (site >= plan.sites.size() && !(site == 0 && plan.sites.empty())) {
    return Status::error("a site that is not there");
  }
  return Status();
}

Status Verifier::verifyView(const View *view) {
  if (!view) {
    return Status::error("a view is missing");
  }
  if (view->value() >= program.values.size()) {
    return Status::error("a value that is not there");
  }
  if (view->loop() == -1) {
    return Status();
  }
  if (view->loop() < 0 || view->loop() >= static_cast<int64_t>(loops.size())) {
    return Status::error("a loop that does not enclose it");
  }
  const ValueT &value = *program.values[view->value()];
  if (value.extents.empty()) {
    return Status::error("a scalar has no iterations");
  }
  const LoopT &loop = *loops[view->loop()];
  uint32_t extent = value.extents.front();
  if (loop.count > 0 &&
      loop.first + loop.count >
          smallestPiece(plan.extents[extent]->size, splits[extent], mesh)) {
    return Status::error("the loop runs past the end of value " +
                         number(view->value()));
  }
  return Status();
}

Status Verifier::verifyKernel(const KernelT &kernel) {
  if (kernel.symbol >= set.symbols.size()) {
    return Status::error("a symbol that is not there");
  }
  for (const View &view : kernel.views) {
    CLEAVE_TRY(verifyView(&view));
  }
  for (const Integer &integer : kernel.integers) {
    bool fine = true;
    switch (integer.kind()) {
    case IntegerKind::Literal:
      break;
    case IntegerKind::ExtentSize:
    case IntegerKind::ExtentBegin:
      fine = integer.value() >= 0 &&
             integer.value() < static_cast<int64_t>(plan.extents.size());
      break;
    case IntegerKind::Iteration:
      fine = integer.value() >= 0 &&
             integer.value() < static_cast<int64_t>(loops.size());
      break;
    default:
      fine = false;
    }
    if (!fine) {
      return Status::error("an integer of an extent or loop that is not there");
    }
  }
  return verifySite(kernel.site);
}

Status Verifier::verifyContraction(const ContractionT &contraction) {
  const View *views[] = {contraction.lhs.get(), contraction.rhs.get(),
                         contraction.out.get()};
  std::vector<uint32_t> extents[3];
  std::vector<bool> covered[3];
  for (int i = 0; i < 3; ++i) {
    CLEAVE_TRY(verifyView(views[i]));
    if (valueOf(*views[i]).type != ElementType::F32) {
      return Status::error("an operand that is not f32");
    }
    extents[i] = extentsOf(*views[i]);
    covered[i].resize(extents[i].size());
  }
  if (overlap(*views[0], *views[2]) || overlap(*views[1], *views[2])) {
    return Status::error("its result overlaps an operand");
  }
  for (const ContractedDim &dim : contraction.dims) {
    if (dim.extent() >= plan.extents.size()) {
      return Status::error("an extent that is not there");
    }
    const int32_t at[] = {dim.lhs(), dim.rhs(), dim.out()};
    for (int i = 0; i < 3; ++i) {
      if (at[i] == -1) {
        continue;
      }
      if (at[i] < 0 || at[i] >= static_cast<int64_t>(extents[i].size()) ||
          covered[i][at[i]]) {
        return Status::error("a dim at a position that is not there");
      }
      covered[i][at[i]] = true;
      if (!same(dim.extent(), extents[i][at[i]])) {
        return Status::error("a dim whose size is another in an operand");
      }
    }
  }
  for (int i = 0; i < 3; ++i) {
    if (std::find(covered[i].begin(), covered[i].end(), false) !=
        covered[i].end()) {
      return Status::error("a dim of an operand that is not named");
    }
  }
  return verifySite(contraction.site);
}

Status Verifier::verifyMove(const MoveT &move) {
  CLEAVE_TRY(verifyView(move.source.get()));
  CLEAVE_TRY(verifyView(move.target.get()));
  size_t rank = extentsOf(*move.source).size();
  if (extentsOf(*move.target).size() != rank || move.shift.size() != rank ||
      valueOf(*move.source).type != valueOf(*move.target).type) {
    return Status::error("source and target differ in rank or type");
  }
  for (int64_t shift : move.shift) {
    if (shift < -largestTensor || shift > largestTensor) {
      return Status::error("a shift that overflows");
    }
  }
  if (overlap(*move.source, *move.target)) {
    return Status::error("its target overlaps its source");
  }
  return verifySite(move.site);
}

/// How far a collective moves its source along each dim.
Status Verifier::verifyShift(const CollectiveT &collective,
                             const std::vector<uint32_t> &extents) {
  if (collective.shift.empty()) {
    return Status();
  }
  if (collective.shift.size() != extents.size()) {
    return Status::error("another number of distances than of dims");
  }
  int64_t moved = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    int64_t distance = collective.shift[i];
    if (distance < 0 ||
        (distance > 0 && distance >= plan.extents[extents[i]]->size)) {
      return Status::error("a shift of " + number(distance) + " around " +
                           number(plan.extents[extents[i]]->size));
    }
    moved += distance > 0;
  }
  return moved > 1 ? Status::error("a shift of more than one dim") : Status();
}

Status Verifier::verifyCollective(const CollectiveT &collective) {
  std::string what = "collective " + number(collective.id);
  if (!started.insert(collective.id).second) {
    return Status::error(what + " is there twice");
  }
  pending.insert(collective.id);
  if (collective.kind > CollectiveKind::Slice ||
      collective.reduction > Reduction::Min) {
    return Status::error(what + " is of an unknown kind");
  }
  std::set<uint32_t> group;
  for (uint32_t atom : collective.group) {
    if (atom >= mesh.atoms.size() || !group.insert(atom).second) {
      return Status::error(what + " has no sensible group");
    }
  }
  std::set<uint32_t> partial;
  for (uint32_t atom : collective.partial) {
    if (!group.contains(atom) || !partial.insert(atom).second) {
      return Status::error(what + " reduces outside its group");
    }
  }
  CLEAVE_TRY(verifyView(collective.source.get()).in(what));
  CLEAVE_TRY(verifyView(collective.target.get()).in(what));
  std::vector<uint32_t> source = extentsOf(*collective.source);
  std::vector<uint32_t> target = extentsOf(*collective.target);
  const ValueT &from = valueOf(*collective.source);
  if (source.size() != target.size() ||
      from.type != valueOf(*collective.target).type) {
    return Status::error(what + ": source and target differ in rank or type");
  }
  if (!partial.empty() && from.type == ElementType::Bool) {
    return Status::error(what + " reduces booleans");
  }
  CLEAVE_TRY(verifyShift(collective, source).in(what));
  bool identical = true;
  for (size_t i = 0; i < source.size(); ++i) {
    if (plan.extents[source[i]]->size != plan.extents[target[i]]->size) {
      return Status::error(what + ": source and target differ in size");
    }
    identical &= same(source[i], target[i]);
  }
  // In place only where each element is read and written by one device alone.
  bool inPlace = identical && !partial.empty() && collective.shift.empty() &&
                 collective.source->loop() == collective.target->loop() &&
                 (collective.source->value() == collective.target->value() ||
                  (from.storage == Storage::Arena &&
                   from.offset == valueOf(*collective.target).offset));
  if (overlap(*collective.source, *collective.target) && !inPlace) {
    return Status::error(what + ": its target overlaps its source");
  }
  return verifySite(collective.site);
}

Status Verifier::verifyLoop(const LoopT &loop) {
  if (loop.first < 0 || loop.count < 0 || loop.first > largestTensor ||
      loop.count > largestTensor) {
    return Status::error("a loop of impossible length");
  }
  if (loops.size() >= deepestLoop) {
    return Status::error("loops are nested too deeply");
  }
  std::set<uint32_t> before = pending;
  loops.push_back(&loop);
  CLEAVE_TRY(verifyBody(loop.body));
  loops.pop_back();
  if (pending != before) {
    return Status::error("a loop leaves a collective unfinished");
  }
  return Status();
}

Status Verifier::verifyInstruction(const InstructionT &instruction) {
  const ActionUnion &action = instruction.action;
  switch (action.type) {
  case Action::Kernel:
    return verifyKernel(*action.AsKernel()).in("a kernel");
  case Action::Contraction:
    return verifyContraction(*action.AsContraction()).in("a contraction");
  case Action::Fill:
    return verifyView(action.AsFill()->target.get()).in("a fill");
  case Action::Move:
    return verifyMove(*action.AsMove()).in("a move");
  case Action::Collective:
    return verifyCollective(*action.AsCollective());
  case Action::Wait:
    if (!pending.erase(action.AsWait()->id)) {
      return Status::error("a wait for a collective that was not started");
    }
    return Status();
  case Action::Loop:
    return verifyLoop(*action.AsLoop());
  default:
    return Status::error("an unknown action");
  }
}

Status
Verifier::verifyBody(const std::vector<std::unique_ptr<InstructionT>> &body) {
  for (size_t i = 0; i < body.size(); ++i) {
    CLEAVE_TRY(verifyInstruction(*body[i]).in("instruction " + number(i)));
  }
  return Status();
}

} // namespace

Status verifyProgram(const ProgramT &program, const PlanT &plan,
                     const PlanSetT &set, const layout::Mesh &mesh) {
  Verifier verifier(program, plan, set, mesh);
  if (program.arena_bytes > largestArena) {
    return Status::error("an arena of impossible size");
  }
  for (const auto &input : program.inputs) {
    CLEAVE_TRY(verifier.verifyInput(*input).in("input `" + input->name + "`"));
  }
  for (size_t i = 0; i < program.values.size(); ++i) {
    CLEAVE_TRY(
        verifier.verifyValue(*program.values[i]).in("value " + number(i)));
  }
  CLEAVE_TRY(verifier.verifyBody(program.body));
  if (!verifier.pending.empty()) {
    return Status::error("collective " + number(*verifier.pending.begin()) +
                         " is never waited for");
  }
  for (const auto &output : program.outputs) {
    CLEAVE_TRY(
        verifier.verifyOutput(*output).in("output `" + output->name + "`"));
  }
  return Status();
}

} // namespace cleave::format
