//===- VerifyPipelineTest.cpp - Bad pipelines are refused -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipelinePlan.h"
#include "runtime/format/Verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

using namespace cleave;
using namespace cleave::format;
using namespace cleave::test;

namespace {

PlanSetT soundSet() { return makePipelineSet({{"deep", 2, 2, 2, 3}}); }

ProgramT &programOf(PlanSetT &set) { return *set.plans[0]->programs[0]; }

/// The first instruction of a kind.
template <typename T>
T &first(std::vector<std::unique_ptr<InstructionT>> &body,
         T *(ActionUnion::*as)()) {
  for (auto &instruction : body) {
    if (T *found = (instruction->action.*as)()) {
      return *found;
    }
  }
  std::abort();
}
PipelineT &pipeline(PlanSetT &set) {
  return first(programOf(set).body, &ActionUnion::AsPipeline);
}
OnlyT &only(PlanSetT &set) {
  return first(programOf(set).body, &ActionUnion::AsOnly);
}
/// Of the section that runs the layers forwards.
LoopT &layerLoop(PlanSetT &set) {
  return first(pipeline(set).sections[1]->body, &ActionUnion::AsLoop);
}
CollectiveT &inLayers(PlanSetT &set) {
  return first(layerLoop(set).body, &ActionUnion::AsCollective);
}
/// The first value in a slot.
ValueT &inSlot(PlanSetT &set) {
  for (auto &value : programOf(set).values) {
    if (value->storage == Storage::Slot) {
      return *value;
    }
  }
  std::abort();
}

/// The complaint about the set that `damage` has damaged, without where.
std::string complaint(const std::function<void(PlanSetT &)> &damage) {
  PlanSetT set = soundSet();
  damage(set);
  Status status = verify(set);
  if (status.ok()) {
    return "";
  }
  std::string text = status.message();
  for (const std::string &where :
       {"plan `deep`: ", "program `train`: ", "instruction 2: "}) {
    if (text.starts_with(where)) {
      text = text.substr(where.size());
    }
  }
  return text;
}

std::string streamComplaint(
    const std::function<void(std::vector<Step> &, std::vector<Step> &)>
        &damage) {
  return complaint([&](PlanSetT &set) {
    damage(pipeline(set).streams[0]->steps, pipeline(set).streams[1]->steps);
  });
}

} // namespace

TEST(VerifyPipeline, SoundSet) {
  EXPECT_EQ(complaint([](PlanSetT &) {}), "");
}

TEST(VerifyPipeline, MeshSizes) {
  auto sizes = [](int64_t devices, int64_t micros) {
    return complaint([&](PlanSetT &set) {
      set.plans[0]->mesh->atoms[0]->size = devices;
      set.plans[0]->mesh->atoms[3]->size = micros;
    });
  };
  const std::string impossible = "the mesh has an axis of impossible size";
  EXPECT_EQ(sizes(largestMesh + 1, 1), impossible);
  EXPECT_EQ(sizes(1, largestTime + 1), impossible);
  EXPECT_EQ(sizes(1 << 10, 1 << 14), impossible);
  // A thousand devices and as many microbatches, of which steps are missing.
  EXPECT_NE(sizes(1 << 10, 1 << 10), impossible);
}

TEST(VerifyPipeline, Times) {
  EXPECT_EQ(complaint([](PlanSetT &set) { set.plans[0]->mesh->times = 6; }),
            "the mesh has more times than axes");
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).pipe = {3}; }),
            "the pipeline: stages on an axis that the mesh lacks");
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).pipe = {9}; }),
            "the pipeline: stages on an axis that the mesh lacks");
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).micro = {0}; }),
            "the pipeline: microbatches or chunks on what is no time");
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).chunk = {3}; }),
            "the pipeline: microbatches or chunks on what is no time");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              pipeline(set).placement = static_cast<Placement>(7);
            }),
            "the pipeline: an unknown placement of chunks");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { set.plans[0]->mesh->atoms[4]->size = 2; }),
      "the pipeline: an unknown placement of chunks");
}

TEST(VerifyPipeline, WhereItStands) {
  EXPECT_EQ(complaint([](PlanSetT &set) {
              auto copy = std::make_unique<InstructionT>();
              copy->action.Set(PipelineT(pipeline(set)));
              programOf(set).body.push_back(std::move(copy));
            }),
            "two pipelines");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              auto copy = std::make_unique<InstructionT>();
              copy->action.Set(PipelineT(pipeline(set)));
              only(set).body.push_back(std::move(copy));
            })
                .find("instruction 6: an `only`: instruction 3: a pipeline "
                      "within something else"),
            0u);
}

TEST(VerifyPipeline, Slots) {
  EXPECT_EQ(complaint([](PlanSetT &set) { inSlot(set).index = 3; }),
            "value 4: a group of slots that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) { inSlot(set).offset = 8; }),
            "value 4: an offset that is not a multiple of 64");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { inSlot(set).offset = ~uint64_t(63); }),
      "value 4: it ends outside its slot");
  EXPECT_EQ(complaint([](PlanSetT &set) { inSlot(set).bytes = 4; }),
            "value 4: it has room for 4 bytes and needs 40");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { pipeline(set).groups[2]->bytes = 0; }),
      "value 4: it ends outside its slot");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              pipeline(set).groups[0]->bytes = uint64_t(1) << 60;
            }),
            "the pipeline: a slot of impossible size");
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).groups[0]->end = 3; }),
            "the pipeline: a group of slots at positions that are not there");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { pipeline(set).groups[2]->begin = 1; }),
      "the pipeline: section 0: instruction 0: a kernel: value 4: "
      "positions that have no slot of its group");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              *first(programOf(set).body, &ActionUnion::AsFill).target =
                  View(4, -1);
            }),
            "instruction 0: a fill: value 4 of a slot, outside the pipeline's "
            "sections");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              OutputT &output = *programOf(set).outputs[0];
              output.value = 4;
              output.sizes = {rows, width};
              output.dims = {"row", "width"};
            }),
            "output `layer/w`: a value that is gone when the program ends");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              pipeline(set).groups.resize(300);
              for (auto &group : pipeline(set).groups) {
                group = std::make_unique<SlotGroupT>(*soundSet()
                                                          .plans[0]
                                                          ->programs[0]
                                                          ->body[2]
                                                          ->action.AsPipeline()
                                                          ->groups[0]);
              }
            }),
            "the pipeline: more than 256 groups of slots");
}

TEST(VerifyPipeline, Sections) {
  EXPECT_EQ(
      complaint([](PlanSetT &set) { pipeline(set).sections[1]->end = 3; }),
      "the pipeline: section 1: positions that are not there");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { pipeline(set).sections[1]->end = 0; }),
      "the pipeline: section 1: positions that are not there");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              pipeline(set).sections[1]->kind = static_cast<SectionKind>(3);
            }),
            "the pipeline: section 1: an unknown kind");
  EXPECT_EQ(complaint([](PlanSetT &set) { inLayers(set).group = {1}; }),
            "the pipeline: section 1: instruction 1: instruction 2: collective "
            "0 is in a loop that devices of its group run unequally often");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              layerLoop(set).extent = -1;
              layerLoop(set).count = 1;
              inLayers(set).group = {1};
            }),
            "the pipeline: section 1: instruction 1: instruction 2: collective "
            "0 is in a section and among several stages");
  EXPECT_EQ(complaint([](PlanSetT &set) { inLayers(set).group = {3}; }),
            "the pipeline: section 1: instruction 1: instruction 2: collective "
            "0 has no sensible group");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              layerLoop(set).body.erase(layerLoop(set).body.begin() + 3);
            }),
            "the pipeline: section 1: instruction 1: a loop leaves a "
            "collective unfinished");
}

TEST(VerifyPipeline, Loops) {
  EXPECT_EQ(complaint([](PlanSetT &set) { layerLoop(set).extent = 99; }),
            "the pipeline: section 1: instruction 1: a loop over an extent "
            "that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) { layerLoop(set).extent = -2; }),
            "the pipeline: section 1: instruction 1: a loop over an extent "
            "that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) { layerLoop(set).first = 1; }),
            "the pipeline: section 1: instruction 1: a loop over an extent "
            "that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) { layerLoop(set).extent = 1; }),
            "the pipeline: section 1: instruction 1: instruction 0: a move: "
            "the loop runs past the end of value 6");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              layerLoop(set).extent = -1;
              layerLoop(set).count = 2;
            }),
            "the pipeline: section 1: instruction 1: instruction 0: a move: "
            "the loop runs past the end of value 6");
}

// Layers of a stage in two pieces have no begin.
TEST(VerifyPipeline, SeveralPieces) {
  auto scatter = [](PlanSetT &set) {
    SplitT &split = *set.plans[0]->extents[5]->split;
    split.cuts = {0, 1, 2, 4, 5};
    split.places = {0, 1, 1, 0};
    for (int leaf : {0, 1}) {
      *set.plans[0]->layouts[leaf]->dims[0] = split;
    }
    for (auto &value : programOf(set).values) {
      value->bytes *= 2;
      value->offset *= 2;
    }
    programOf(set).arena_bytes *= 2;
    for (auto &group : pipeline(set).groups) {
      group->bytes *= 2;
    }
  };
  EXPECT_EQ(complaint(scatter),
            "instruction 9: an `only`: instruction 0: a kernel: a global index "
            "into several pieces, which this version does not have");
  auto without = [&](PlanSetT &set) {
    scatter(set);
    OnlyT &ends = *programOf(set).body.back()->action.AsOnly();
    first(ends.body, &ActionUnion::AsKernel).integers[0] =
        Integer(IntegerKind::Literal, 0);
  };
  EXPECT_EQ(complaint(without), "");
  EXPECT_EQ(complaint([&](PlanSetT &set) {
              without(set);
              programOf(set).body[3]->action.AsCollective()->group = {0, 1};
            }),
            "instruction 3: collective 2: its source or target lies in several "
            "pieces");
  // A move takes them to their places, as they are.
  auto spread = [&](PlanSetT &set) -> MoveT & {
    without(set);
    ProgramT &program = programOf(set);
    uint32_t leaf = 0;
    while (program.values[leaf]->storage != Storage::Leaf) {
      ++leaf;
    }
    auto all = std::make_unique<ValueT>(*program.values[leaf]);
    all->storage = Storage::Arena;
    all->extents.front() = all->extents[1]; // of the same size, and whole
    all->bytes = 4 * depth * width * width;
    all->offset = program.arena_bytes;
    program.arena_bytes += (all->bytes + 63) / 64 * 64;
    program.values.push_back(std::move(all));
    MoveT move;
    move.source = std::make_unique<View>(leaf, -1);
    move.target = std::make_unique<View>(program.values.size() - 1, -1);
    move.shift = {0, 0, 0};
    auto instruction = std::make_unique<InstructionT>();
    instruction->action.Set(std::move(move));
    program.body.push_back(std::move(instruction));
    return *program.body.back()->action.AsMove();
  };
  const std::string pieces =
      "instruction 10: a move: its source or target lies in several pieces";
  EXPECT_EQ(complaint([&](PlanSetT &set) { spread(set); }), "");
  EXPECT_EQ(complaint([&](PlanSetT &set) { spread(set).shift[0] = 1; }),
            pieces);
  EXPECT_EQ(complaint([&](PlanSetT &set) {
              MoveT &move = spread(set);
              std::swap(move.source, move.target);
            }),
            pieces);
}

TEST(VerifyPipeline, Residence) {
  const std::string missing =
      "it resides on a part of the mesh that is not there";
  EXPECT_EQ(complaint([](PlanSetT &set) { only(set).residence.clear(); }),
            "instruction 6: an `only`: a part of the mesh that is not said");
  EXPECT_EQ(complaint([](PlanSetT &set) { only(set).residence[0]->end = 3; }),
            "instruction 6: an `only`: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) { only(set).residence[0]->atom = 3; }),
            "instruction 6: an `only`: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) { only(set).residence[0]->atom = 9; }),
            "instruction 6: an `only`: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) {
              only(set).body.erase(only(set).body.begin() + 1);
            }),
            "instruction 6: an `only`: it leaves a collective unfinished");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              auto &holders =
                  programOf(set).body[7]->action.AsCollective()->holders;
              holders[0]->begin = -1;
            }),
            "instruction 7: collective 4: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) {
              programOf(set).outputs.back()->residence[0]->begin = 2;
            }),
            "output `last`: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) {
              set.plans[0]->layouts[3]->residence[1]->end = 9;
            }),
            "leaf `table`: " + missing);
  EXPECT_EQ(complaint([](PlanSetT &set) {
              auto part = std::make_unique<ResidenceT>(
                  *set.plans[0]->layouts[3]->residence[0]);
              set.plans[0]->layouts[0]->residence.push_back(std::move(part));
            }),
            "leaf `layer/w`: it resides on a part of an axis that cuts it");
}

TEST(VerifyPipeline, Messages) {
  auto damage = [](const std::function<void(PlanSetT &, MessageT &)> &change) {
    return complaint(
        [&](PlanSetT &set) { change(set, *pipeline(set).activations[0]); });
  };
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { one.begin = one.end; }),
            "the pipeline: a message: boundaries that are not there");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { ++one.end; }),
            "the pipeline: a message: boundaries that are not there");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { one.source.reset(); }),
            "the pipeline: a message: a value that is not there");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { *one.target = {99, -1}; }),
            "the pipeline: a message: a value that is not there");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { *one.target = {2, -1}; }),
            "the pipeline: a message: it is not a whole value of a slot");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { *one.target = {4, 0}; }),
            "the pipeline: a message: it is not a whole value of a slot");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { *one.target = {6, -1}; }),
            "the pipeline: a message: source and target differ in rank or "
            "type");
  EXPECT_EQ(damage([](PlanSetT &set, MessageT &one) {
              programOf(set).values[one.target->value()]->extents[1] = 4;
            }).find("differ in size") != std::string::npos,
            true);
  // The group at the end has no slot where a message starts.
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) { *one.source = {11, -1}; }),
            "the pipeline: a message: positions that have no slot of its "
            "group");
  EXPECT_EQ(damage([](PlanSetT &, MessageT &one) {
              one.source = std::make_unique<View>(6, -1);
              one.target = std::make_unique<View>(6, -1);
            }),
            "the pipeline: a message: its size is another on each stage");
}

TEST(VerifyPipeline, StepsInRange) {
  using Steps = std::vector<Step>;
  EXPECT_EQ(complaint([](PlanSetT &set) { pipeline(set).streams.pop_back(); }),
            "the pipeline: another number of streams than of stages");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first[0] = Step(StepKind::Forward, 0, 3);
            }),
            "the pipeline: stage 0: step 0: a microbatch or chunk that is not "
            "there");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first[0] = Step(StepKind::Forward, 1, 0);
            }),
            "the pipeline: stage 0: step 0: a microbatch or chunk that is not "
            "there");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first[0] = Step(static_cast<StepKind>(8), 0, 0);
            }),
            "the pipeline: stage 0: step 0: an unknown kind");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first[1] = Step(StepKind::ReceiveActivation, 0, 0);
            }),
            "the pipeline: stage 0: step 1: a message that crosses to no other "
            "stage");
  EXPECT_EQ(streamComplaint([](Steps &, Steps &second) {
              second.push_back(Step(StepKind::SendActivation, 0, 0));
            }),
            "the pipeline: stage 1: step 12: a message that crosses to no "
            "other stage");
}

TEST(VerifyPipeline, StepsInOrder) {
  using Steps = std::vector<Step>;
  EXPECT_EQ(
      streamComplaint([](Steps &first, Steps &) { first.push_back(first[0]); }),
      "the pipeline: stage 0: forward 0: it is there twice");
  EXPECT_EQ(streamComplaint(
                [](Steps &first, Steps &) { std::swap(first[0], first[1]); }),
            "the pipeline: stage 0: send activation 0: it comes before what it "
            "needs, or too late");
  EXPECT_EQ(streamComplaint([](Steps &, Steps &second) {
              std::swap(second[0], second[1]);
            }),
            "the pipeline: stage 1: forward 0: it comes before what it needs, "
            "or too late");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first.push_back(Step(StepKind::WeightGradient, 0, 0));
            }),
            "the pipeline: stage 0: weight gradient 0: it comes before what it "
            "needs, or too late");
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) {
              first.push_back(Step(StepKind::InputGradient, 0, 0));
            }),
            "the pipeline: stage 0: input gradient 0: it comes before what it "
            "needs, or too late");
}

// Both want to send first.
TEST(VerifyPipeline, Deadlock) {
  EXPECT_EQ(complaint([](PlanSetT &set) {
              pipeline(set).streams[0]->steps = {
                  Step(StepKind::Forward, 0, 0),
                  Step(StepKind::SendActivation, 0, 0),
                  Step(StepKind::Forward, 0, 1),
                  Step(StepKind::SendActivation, 0, 1),
                  Step(StepKind::ReceiveGradient, 0, 0),
                  Step(StepKind::Backward, 0, 0)};
              pipeline(set).streams[1]->steps = {
                  Step(StepKind::ReceiveActivation, 0, 0),
                  Step(StepKind::Forward, 0, 0),
                  Step(StepKind::Backward, 0, 0),
                  Step(StepKind::SendGradient, 0, 0),
                  Step(StepKind::ReceiveActivation, 0, 1),
                  Step(StepKind::Forward, 0, 1)};
            }),
            "the pipeline: stage 0 waits for ever in `send activation 1`: "
            "stage 1 stands at `send gradient 0`");
}

TEST(VerifyPipeline, MessagesWithoutAnOtherSide) {
  using Steps = std::vector<Step>;
  EXPECT_EQ(streamComplaint([](Steps &first, Steps &) { first.resize(1); }),
            "the pipeline: stage 1 waits for ever in `forward 0`: "
            "stage 0 is done");
  EXPECT_EQ(streamComplaint([](Steps &, Steps &second) { second.clear(); }),
            "the pipeline: stage 0 waits for ever in `send activation 0`: "
            "stage 1 is done");
}

TEST(VerifyPipeline, MessagesInAnotherOrder) {
  EXPECT_EQ(streamComplaint([](std::vector<Step> &, std::vector<Step> &second) {
              std::vector<Step *> receives;
              for (Step &step : second) {
                if (step.kind() == StepKind::ReceiveActivation) {
                  receives.push_back(&step);
                }
              }
              // Both as early as the first, so that nothing waits for ever.
              Step moved = *receives[1];
              second.erase(second.begin() + (receives[1] - second.data()));
              second.insert(second.begin(), moved);
            }),
            "the pipeline: what stage 0 sends to stage 1 is received in "
            "another order");
}

TEST(VerifyPipeline, NeighboursOnOneStage) {
  PlanSetT set = makePipelineSet({{"fold", 1, 2, 1, 2, Order::ForwardsFirst,
                                   false, false, 2, Placement::Folded}});
  ASSERT_TRUE(verify(set).ok()) << verify(set).message();
  // Stage 1 holds positions 1 and 2, of chunks 0 and 1.
  std::vector<Step> &steps = pipeline(set).streams[1]->steps;
  for (Step &step : steps) {
    if (step.kind() == StepKind::Forward) {
      step = Step(StepKind::Forward, 1 - step.chunk(), step.micro());
    }
  }
  Status status = verify(set);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("before what it needs"), std::string::npos)
      << status.message();
}

// Slots are as many as cells are under way at once; what waits in the inbox
// needs no more than its own.
TEST(Slots, AsManyAsUnderWay) {
  PlanSetT set = makePipelineSet({{"deep", 1, 3, 1, 5}});
  PipelineT &one = pipeline(set);
  layout::Mesh mesh;
  mesh.atoms = {
      {"data", 1}, {"pipe", 3}, {"tensor", 1}, {"micro", 5}, {"chunk", 1}};
  mesh.times = 2;
  PipelineShape shape(one, mesh);
  for (int64_t stage = 0; stage < 3; ++stage) {
    Slots slots = slotsOf(programOf(set), shape, stage);
    EXPECT_EQ(slots.groups[0].count, 3 - stage);
    EXPECT_EQ(slots.groups[1].count, stage == 2 ? 1 : 0);
    EXPECT_EQ(slots.groups[2].count, stage == 0 ? 3 : 4 - stage);
    uint64_t bytes = 0;
    for (size_t group = 0; group < 3; ++group) {
      EXPECT_EQ(slots.groups[group].offset, bytes);
      bytes += one.groups[group]->bytes * slots.groups[group].count;
    }
    EXPECT_EQ(slots.bytes, bytes);
    // No two cells that are under way at once share a slot.
    std::set<int32_t> busy;
    for (const Step &step : one.streams[stage]->steps) {
      int32_t number = slots.groups[0].numbers[step.micro()];
      if (step.kind() == StepKind::Forward) {
        EXPECT_TRUE(busy.insert(number).second);
      }
      if (step.kind() == StepKind::Backward) {
        EXPECT_EQ(busy.erase(number), 1u);
      }
    }
  }
}

TEST(Slots, FoldedPositions) {
  PipelineT fold;
  fold.pipe = {0};
  fold.chunk = {1};
  fold.placement = Placement::Folded;
  layout::Mesh mesh;
  mesh.atoms = {{"pipe", 3}, {"chunk", 2}};
  mesh.times = 1;
  PipelineShape shape(fold, mesh);
  EXPECT_EQ(shape.position(0, 1), 5);
  EXPECT_EQ(shape.position(2, 1), 3);
  for (int64_t position = 0; position < 6; ++position) {
    EXPECT_EQ(shape.position(shape.stageAt(position), shape.chunkAt(position)),
              position);
  }
  EXPECT_EQ(shape.neighbour(Step(StepKind::Forward, 0, 0), 2), 1);
  EXPECT_EQ(shape.neighbour(Step(StepKind::Forward, 0, 0), 1), -1);
  EXPECT_EQ(shape.neighbour(Step(StepKind::Backward, 1, 0), 2), 0);
  EXPECT_EQ(shape.neighbour(Step(StepKind::WeightGradient, 1, 0), 2), -1);
}
