//===- VerifyPipeline.cpp - Whether a pipeline can be run -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/ProgramVerifier.h"

namespace cleave::format {

/// Values in slots need its groups, so it is looked for before all else.
Status Verifier::findPipeline() {
  for (const auto &instruction : program.body) {
    if (instruction->action.type == Action::Pipeline) {
      if (pipeline) {
        return Status::error("two pipelines");
      }
      pipeline = instruction->action.AsPipeline();
    }
  }
  if (!pipeline) {
    return Status();
  }
  CLEAVE_TRY(verifyTimes().in("the pipeline"));
  shape.emplace(*pipeline, mesh);
  return verifyGroups().in("the pipeline");
}

Status Verifier::verifyTimes() {
  std::set<uint32_t> seen;
  auto fine = [&](const std::vector<uint32_t> &atoms, bool times) {
    return std::all_of(atoms.begin(), atoms.end(), [&](uint32_t atom) {
      return atom < mesh.atoms.size() && mesh.isTime(atom) == times &&
             seen.insert(atom).second;
    });
  };
  if (!fine(pipeline->pipe, false)) {
    return Status::error("stages on an axis that the mesh lacks");
  }
  if (!fine(pipeline->micro, true) || !fine(pipeline->chunk, true)) {
    return Status::error("microbatches or chunks on what is no time");
  }
  if (pipeline->placement > Placement::Folded ||
      (pipeline->placement == Placement::Plain &&
       mesh.sizeOf(pipeline->chunk) > 1)) {
    return Status::error("an unknown placement of chunks");
  }
  return Status();
}

Status Verifier::verifyGroups() {
  if (pipeline->groups.size() > mostSlotGroups) {
    return Status::error("more than " + number(mostSlotGroups) +
                         " groups of slots");
  }
  for (const auto &group : pipeline->groups) {
    if (group->begin >= group->end || group->end > shape->positions()) {
      return Status::error("a group of slots at positions that are not there");
    }
    if (group->bytes >
        largestArena / pipeline->groups.size() / shape->cells()) {
      return Status::error("a slot of impossible size");
    }
  }
  return Status();
}

Status Verifier::verifyPipeline() {
  for (size_t i = 0; i < pipeline->sections.size(); ++i) {
    CLEAVE_TRY(
        verifySection(*pipeline->sections[i]).in("section " + number(i)));
  }
  for (bool gradient : {false, true}) {
    for (const auto &message :
         gradient ? pipeline->gradients : pipeline->activations) {
      CLEAVE_TRY(verifyMessage(*message, gradient).in("a message"));
    }
  }
  return verifyStreams(*pipeline, *shape);
}

Status Verifier::verifySection(const SectionT &one) {
  if (one.kind > SectionKind::WeightGradient) {
    return Status::error("an unknown kind");
  }
  if (one.begin >= one.end || one.end > shape->positions()) {
    return Status::error("positions that are not there");
  }
  section = &one;
  CLEAVE_TRY(verifyInside(one.body, "it"));
  section = nullptr;
  return Status();
}

/// From position to position, in slots that both have, of a size that no stage
/// or chunk changes.
Status Verifier::verifyMessage(const MessageT &message, bool gradient) {
  if (message.begin >= message.end || message.end > shape->positions() - 1) {
    return Status::error("boundaries that are not there");
  }
  const View *views[] = {message.source.get(), message.target.get()};
  for (int i = 0; i < 2; ++i) {
    if (!views[i] || views[i]->value() >= program.values.size()) {
      return Status::error("a value that is not there");
    }
    if (views[i]->loop() != -1 || valueOf(*views[i]).storage != Storage::Slot) {
      return Status::error("it is not a whole value of a slot");
    }
    int64_t first = (i == 1) != gradient;
    CLEAVE_TRY(verifyPositions(valueOf(*views[i]), message.begin + first,
                               message.end + first));
  }
  const ValueT &source = valueOf(*views[0]), &target = valueOf(*views[1]);
  if (source.type != target.type ||
      source.extents.size() != target.extents.size()) {
    return Status::error("source and target differ in rank or type");
  }
  for (size_t i = 0; i < source.extents.size(); ++i) {
    uint32_t from = source.extents[i], to = target.extents[i];
    if (plan.extents[from]->size != plan.extents[to]->size || !same(from, to)) {
      return Status::error("source and target differ in size");
    }
    for (uint32_t extent : {from, to}) {
      if (!common(splits[extent].atoms, pipeline->pipe, mesh).empty() ||
          !common(splits[extent].atoms, pipeline->chunk, mesh).empty()) {
        return Status::error("its size is another on each stage");
      }
    }
  }
  return Status();
}

} // namespace cleave::format
