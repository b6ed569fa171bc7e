//===- VerifyProgram.cpp - Whether a program can be run -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/ProgramVerifier.h"

namespace cleave::format {

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

/// Of a value that has a place of its own in the arena or a slot.
Status Verifier::verifyRoom(const ValueT &value, uint64_t needed) {
  bool arena = value.storage == Storage::Arena;
  if (!arena && (!pipeline || value.index >= pipeline->groups.size())) {
    return Status::error("a group of slots that is not there");
  }
  if (value.offset % 64 != 0) {
    return Status::error("an offset that is not a multiple of 64");
  }
  uint64_t room =
      arena ? program.arena_bytes : pipeline->groups[value.index]->bytes;
  if (value.offset > room || value.bytes > room - value.offset) {
    return Status::error(arena ? "it ends outside the arena"
                               : "it ends outside its slot");
  }
  if (value.bytes < needed) {
    return Status::error("it has room for " + number(value.bytes) +
                         " bytes and needs " + number(needed));
  }
  return Status();
}

/// Of a value that stands for the running chunk of what a stage holds.
Status Verifier::verifyChunks(const ValueT &value) {
  if (value.storage != Storage::Arena && value.storage != Storage::Leaf) {
    return Status::error("chunks of what is neither in the arena nor a leaf");
  }
  if (!pipeline || value.extents.empty() || pipeline->chunk.empty()) {
    return Status::error("chunks without a pipeline that has them");
  }
  for (size_t i = 0; i < value.extents.size(); ++i) {
    for (uint32_t atom : splits[value.extents[i]].atoms) {
      bool isChunk =
          i == 0 && std::find(pipeline->chunk.begin(), pipeline->chunk.end(),
                              atom) != pipeline->chunk.end();
      if (mesh.isTime(atom) && mesh.atoms[atom].size > 1 && !isChunk) {
        return Status::error("chunks of what is cut over another time");
      }
    }
  }
  return Status();
}

/// The most that a device holds of an extent in all chunks.
int64_t Verifier::allChunks(uint32_t extent) const {
  std::vector<uint32_t> others;
  for (uint32_t atom : splits[extent].atoms) {
    if (!mesh.isTime(atom)) {
      others.push_back(atom);
    }
  }
  std::vector<uint32_t> chunk = pipeline->chunk;
  int64_t most = 0, size = plan.extents[extent]->size;
  for (int64_t device : mesh.groupOf(0, others)) {
    int64_t held = 0;
    for (int64_t point : mesh.groupOf(device, chunk)) {
      held += layout::heldBy(size, splits[extent], mesh, point);
    }
    most = std::max(most, held);
  }
  return most;
}

Status Verifier::verifyValue(const ValueT &value) {
  if (value.storage > Storage::Slot || value.type > ElementType::BF16) {
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
  if (value.chunks) {
    CLEAVE_TRY(verifyChunks(value));
    // Those of all chunks together.
    uint32_t first = value.extents.front();
    pieces.front() = allChunks(first);
    elements = elementsOf(pieces, 0);
    if (!elements) {
      return elements.status();
    }
  }
  bool empty = std::find(pieces.begin(), pieces.end(), 0) != pieces.end();
  uint64_t needed = empty ? 0 : uint64_t(*elements * elementSize(value.type));
  if (value.storage == Storage::Arena || value.storage == Storage::Slot) {
    return verifyRoom(value, needed);
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
    // placed; the executor compares those device by device, and chunks too.
    if (leaf && !(value.chunks && i == 0) &&
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
  CLEAVE_TRY(verifyResidence(output.residence, mesh));
  const ValueT &value = *program.values[output.value];
  if (value.storage == Storage::Slot) {
    return Status::error("a value that is gone when the program ends");
  }
  if (output.dims.size() != output.sizes.size() ||
      output.sizes.size() != value.extents.size()) {
    return Status::error("another rank than its value");
  }
  for (size_t i = 0; i < output.sizes.size(); ++i) {
    if (plan.extents[value.extents[i]]->size != output.sizes[i]) {
      return Status::error("another size than its value");
    }
    if (isTimed(value.extents[i])) {
      return Status::error("a value that is another for each microbatch");
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
  const ValueT &value = *program.values[view->value()];
  if (value.storage == Storage::Slot) {
    if (!section) {
      return Status::error("value " + number(view->value()) +
                           " of a slot, outside the pipeline's sections");
    }
    CLEAVE_TRY(verifyPositions(value, section->begin, section->end)
                   .in("value " + number(view->value())));
  }
  if (view->loop() == -1) {
    return Status();
  }
  if (view->loop() < 0 || view->loop() >= static_cast<int64_t>(loops.size())) {
    return Status::error("a loop that does not enclose it");
  }
  if (value.extents.empty()) {
    return Status::error("a scalar has no iterations");
  }
  return verifyIterations(*view, *loops[view->loop()]);
}

/// Whether the positions [begin, end) all have the slots of a value.
Status Verifier::verifyPositions(const ValueT &value, int64_t begin,
                                 int64_t end) {
  const SlotGroupT &group = *pipeline->groups[value.index];
  if (begin < end && (begin < group.begin || end > group.end)) {
    return Status::error("positions that have no slot of its group");
  }
  return Status();
}

Status Verifier::verifyIterations(const View &view, const LoopT &loop) {
  uint32_t extent = valueOf(view).extents.front();
  bool fits;
  if (loop.extent >= 0) {
    uint32_t wanted = static_cast<uint32_t>(loop.extent);
    fits = same(wanted, extent) ||
           largest[wanted] <=
               smallestPiece(plan.extents[extent]->size, splits[extent], mesh);
  } else {
    fits = loop.count == 0 ||
           loop.first + loop.count <=
               smallestPiece(plan.extents[extent]->size, splits[extent], mesh);
  }
  if (!fits) {
    return Status::error("the loop runs past the end of value " +
                         number(view.value()));
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
    bool fine = true, whole = true;
    switch (integer.kind()) {
    case IntegerKind::Literal:
      break;
    case IntegerKind::ExtentSize:
    case IntegerKind::ExtentBegin:
      fine = integer.value() >= 0 &&
             integer.value() < static_cast<int64_t>(plan.extents.size());
      whole = !fine || integer.kind() == IntegerKind::ExtentSize ||
              !isScattered(static_cast<uint32_t>(integer.value()));
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
    if (!whole) {
      return Status::error("a global index into several pieces, which this "
                           "version does not have");
    }
  }
  return verifySite(kernel.site);
}

static bool isSameView(const View &a, const View &b) {
  return a.value() == b.value() && a.loop() == b.loop();
}

Status Verifier::verifyContraction(const ContractionT &contraction) {
  const View *views[] = {contraction.lhs.get(), contraction.rhs.get(),
                         contraction.out.get()};
  std::vector<uint32_t> extents[3];
  std::vector<bool> covered[3];
  for (int i = 0; i < 3; ++i) {
    CLEAVE_TRY(verifyView(views[i]));
    ElementType type = valueOf(*views[i]).type;
    if (type != ElementType::F32 && (i == 2 || type != ElementType::BF16)) {
      return Status::error(i == 2 ? "a result that is not f32"
                                  : "an operand that is neither f32 nor bf16");
    }
    extents[i] = extentsOf(*views[i]);
    covered[i].resize(extents[i].size());
  }
  if (valueOf(*views[0]).type != valueOf(*views[1]).type) {
    return Status::error("operands of two types");
  }
  if (contraction.terms &&
      (!contraction.ordered || !isSameView(*views[0], *views[1]))) {
    return Status::error("a sum of terms that names a second operand");
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

/// Whether a view's piece is another at another instant.
bool Verifier::isTimed(const View &view) {
  for (uint32_t extent : valueOf(view).extents) {
    for (uint32_t atom : splits[extent].atoms) {
      if (mesh.isTime(atom) && mesh.atoms[atom].size > 1) {
        return true;
      }
    }
  }
  return false;
}

Status Verifier::verifyMove(const MoveT &move) {
  CLEAVE_TRY(verifyView(move.source.get()));
  CLEAVE_TRY(verifyView(move.target.get()));
  size_t rank = extentsOf(*move.source).size();
  if (extentsOf(*move.target).size() != rank || move.shift.size() != rank ||
      valueOf(*move.source).type != valueOf(*move.target).type) {
    return Status::error("source and target differ in rank or type");
  }
  for (size_t i = 0; i < rank; ++i) {
    uint32_t from = extentsOf(*move.source)[i], to = extentsOf(*move.target)[i];
    // Pieces one after the other may go to their places, at rest.
    bool isSpread = i == 0 && isScattered(from) && !isScattered(to) &&
                    move.source->loop() < 0 && !isTimed(*move.source);
    if ((!matches(from, to) && !isSpread) ||
        (isScattered(from) && move.shift[i] != 0)) {
      return Status::error("its source or target lies in several pieces");
    }
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

/// Who takes part: devices that all get there, equally often.
Status Verifier::verifyGroup(const CollectiveT &collective,
                             const std::string &what) {
  std::set<uint32_t> group;
  for (uint32_t atom : collective.group) {
    if (atom >= mesh.atoms.size() || mesh.isTime(atom) ||
        !group.insert(atom).second) {
      return Status::error(what + " has no sensible group");
    }
  }
  std::set<uint32_t> partial;
  for (uint32_t atom : collective.partial) {
    if (!group.contains(atom) || !partial.insert(atom).second) {
      return Status::error(what + " reduces outside its group");
    }
  }
  for (const LoopT *loop : loops) {
    if (loop->extent >= 0 &&
        !common(collective.group, splits[loop->extent].atoms, mesh).empty()) {
      return Status::error(what + " is in a loop that devices of its group run "
                                  "unequally often");
    }
  }
  if (section && !common(collective.group, pipeline->pipe, mesh).empty()) {
    return Status::error(what + " is in a section and among several stages");
  }
  return verifyResidence(collective.holders, mesh).in(what);
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
  if (moved > 0 && !collective.holders.empty()) {
    return Status::error("a shift of what only some devices have");
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
  CLEAVE_TRY(verifyGroup(collective, what));
  CLEAVE_TRY(verifyView(collective.source.get()).in(what));
  CLEAVE_TRY(verifyView(collective.target.get()).in(what));
  std::vector<uint32_t> source = extentsOf(*collective.source);
  std::vector<uint32_t> target = extentsOf(*collective.target);
  const ValueT &from = valueOf(*collective.source);
  if (source.size() != target.size() ||
      from.type != valueOf(*collective.target).type) {
    return Status::error(what + ": source and target differ in rank or type");
  }
  if (!collective.partial.empty() && from.type != ElementType::F32 &&
      from.type != ElementType::I32) {
    return Status::error(what + " reduces " + nameOf(from.type));
  }
  CLEAVE_TRY(verifyShift(collective, source).in(what));
  bool identical = true;
  for (size_t i = 0; i < source.size(); ++i) {
    if (plan.extents[source[i]]->size != plan.extents[target[i]]->size) {
      return Status::error(what + ": source and target differ in size");
    }
    if (!matches(source[i], target[i]) ||
        (isScattered(source[i]) &&
         !common(collective.group, splits[source[i]].atoms, mesh).empty())) {
      return Status::error(what + ": its source or target lies in several "
                                  "pieces");
    }
    identical &= same(source[i], target[i]);
  }
  // In place only where each element is read and written by one device alone.
  bool inPlace =
      identical && !collective.partial.empty() && collective.shift.empty() &&
      collective.source->loop() == collective.target->loop() &&
      (collective.source->value() == collective.target->value() ||
       ((from.storage == Storage::Arena || from.storage == Storage::Slot) &&
        from.offset == valueOf(*collective.target).offset));
  if (overlap(*collective.source, *collective.target) && !inPlace) {
    return Status::error(what + ": its target overlaps its source");
  }
  return verifySite(collective.site);
}

/// What a loop or an `Only` holds finishes what it starts.
Status Verifier::verifyInside(const Body &body, const char *what) {
  if (nesting >= deepestLoop) {
    return Status::error("loops are nested too deeply");
  }
  std::set<uint32_t> before = pending;
  ++nesting;
  CLEAVE_TRY(verifyBody(body));
  --nesting;
  if (pending != before) {
    return Status::error(std::string(what) + " leaves a collective unfinished");
  }
  return Status();
}

Status Verifier::verifyLoop(const LoopT &loop) {
  if (loop.first < 0 || loop.count < 0 || loop.first > largestTensor ||
      loop.count > largestTensor) {
    return Status::error("a loop of impossible length");
  }
  if (loop.extent < -1 ||
      loop.extent >= static_cast<int64_t>(plan.extents.size()) ||
      (loop.extent >= 0 && loop.first != 0)) {
    return Status::error("a loop over an extent that is not there");
  }
  loops.push_back(&loop);
  CLEAVE_TRY(verifyInside(loop.body, "a loop"));
  loops.pop_back();
  return Status();
}

Status Verifier::verifyOnly(const OnlyT &only) {
  if (only.residence.empty()) {
    return Status::error("a part of the mesh that is not said");
  }
  CLEAVE_TRY(verifyResidence(only.residence, mesh));
  return verifyInside(only.body, "it");
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
  case Action::Only:
    return verifyOnly(*action.AsOnly()).in("an `only`");
  case Action::Pipeline:
    if (nesting > 0 || section) {
      return Status::error("a pipeline within something else");
    }
    return verifyPipeline().in("the pipeline");
  default:
    return Status::error("an unknown action");
  }
}

Status Verifier::verifyBody(const Body &body, size_t update) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (update > 0 && i == update && !pending.empty()) {
      return Status::error("collective " + number(*pending.begin()) +
                           " is not waited for before the update");
    }
    CLEAVE_TRY(verifyInstruction(*body[i]).in("instruction " + number(i)));
  }
  return Status();
}

/// What runs as two parts must be whole in each.
Status Verifier::verifyUpdate() {
  size_t size = program.body.size();
  if (program.update >= size && program.update > 0) {
    return Status::error("its update begins behind its last instruction");
  }
  if ((program.update == 0) != program.handovers.empty()) {
    return Status::error("it has handovers without an update, or an update "
                         "without");
  }
  for (const auto &handover : program.handovers) {
    const OutputT &gradient = *handover->gradient;
    std::string what = "handover `" + gradient.name + "`";
    CLEAVE_TRY(verifyOutput(gradient).in(what));
    auto leaf = std::find_if(
        set.leaves.begin(), set.leaves.end(), [&](const auto &one) {
          return one->path == gradient.name && one->state.empty();
        });
    if (leaf == set.leaves.end() || (*leaf)->sizes != gradient.sizes ||
        (*leaf)->dims != gradient.dims ||
        program.values[gradient.value]->type != ElementType::F32) {
      return Status::error("its shape is that of no parameter").in(what);
    }
    bool loops = handover->loop >= 0 &&
                 static_cast<size_t>(handover->loop) < size &&
                 program.body[handover->loop]->action.type == Action::Loop;
    if (handover->ready > program.update ||
        (handover->loop != -1 && (!loops || gradient.sizes.empty()))) {
      return Status::error("it is ready where no instruction makes it")
          .in(what);
    }
  }
  return Status();
}

Status verifyProgram(const ProgramT &program, const PlanT &plan,
                     const PlanSetT &set, const layout::Mesh &mesh) {
  Verifier verifier(program, plan, set, mesh);
  if (program.arena_bytes > largestArena) {
    return Status::error("an arena of impossible size");
  }
  CLEAVE_TRY(verifier.findPipeline());
  for (const auto &input : program.inputs) {
    CLEAVE_TRY(verifier.verifyInput(*input).in("input `" + input->name + "`"));
  }
  for (size_t i = 0; i < program.values.size(); ++i) {
    CLEAVE_TRY(
        verifier.verifyValue(*program.values[i]).in("value " + number(i)));
  }
  CLEAVE_TRY(verifier.verifyBody(program.body, program.update));
  if (!verifier.pending.empty()) {
    return Status::error("collective " + number(*verifier.pending.begin()) +
                         " is never waited for");
  }
  CLEAVE_TRY(verifier.verifyUpdate());
  for (const auto &output : program.outputs) {
    CLEAVE_TRY(
        verifier.verifyOutput(*output).in("output `" + output->name + "`"));
  }
  return Status();
}

} // namespace cleave::format
