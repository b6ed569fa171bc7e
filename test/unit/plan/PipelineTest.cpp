//===- PipelineTest.cpp - Microbatches, stages, and what is kept ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/plan/Source.h"

#include <limits>

using namespace cleave;
using namespace cleave::plan;
using layout::Role;

namespace {

const std::string mesh = "mesh [pipe: 4, data: 2]\nshard batch on data\n";
const std::string schedules =
    "schedule gpipe(stage, stages, micro) {\n"
    "  for m in 0 .. micro { forward m }\n"
    "  for m in 0 .. micro { backward m }\n}\n"
    "schedule dealt_out(stage, stages, micro, chunks) dealt { forward 0 }\n"
    "schedule vee(stage, stages, micro, chunks = 2) folded { forward 0 }\n"
    "schedule twice(stage, stages, micro, chunks = 2) { forward 0 }\n";

std::string piped(const std::string &body) {
  return schedules + planText(mesh + body);
}

/// The sizes of the pieces of `layer` that the stages hold.
std::vector<int64_t> stages(const Source &source) {
  layout::ValueInfo value =
      valueOf(source.facts, Role::Params, "layer/mlp/up", "", {"layer"});
  const layout::Plan &plan = source.result->plan;
  layout::Split split = layout::resolve(plan, value).layout.dims[0];
  std::vector<int64_t> sizes;
  for (int64_t device : plan.mesh.groupOf(0, split.atoms)) {
    sizes.push_back(
        layout::pieceOf(value.dims[0].size, split, plan.mesh, device).size());
  }
  return sizes;
}

using Sizes = std::vector<int64_t>;

//===----------------------------------------------------------------------===//
// Microbatches
//===----------------------------------------------------------------------===//

TEST(Micro, isTheMinorMostCutInTime) {
  Source s(planText("mesh [data: 4, tensor: 2]\nmicro batch into 3\n"
                    "shard batch on data\nshard batch also on tensor for all "
                    "except inputs"));
  ASSERT_TRUE(s.result) << s.diags.text();
  const layout::Plan &plan = s.result->plan;
  EXPECT_EQ(s.atoms(), "data:4 tensor:2 micro:3");
  EXPECT_EQ(plan.mesh.times, 1u);
  EXPECT_EQ(plan.mesh.devices(), 8);
  EXPECT_EQ(plan.mesh.instants(), 3);
  ASSERT_TRUE(plan.micro);
  EXPECT_EQ(plan.micro->dim, "batch");
  EXPECT_EQ(plan.micro->atom, 2u);
  EXPECT_EQ(plan.micro->source.text, "micro batch into 3");
  EXPECT_EQ(
      s.layout(Role::Activations, "layer/norm1", {"batch", "seq", "embed"}),
      "[batch: data * tensor * micro, seq, embed]");
  // Of inputs it says what a microbatch reads.
  EXPECT_EQ(s.layout(Role::Inputs, "", {"batch", "seq"}),
            "[batch: data * micro, seq]");
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed, ff]");
}

TEST(Micro, ofASizeOnEachShard) {
  // 32 over 3 is 11, 11, 10: of 4 that makes three microbatches.
  Source s(planText("mesh [data: 3]\nshard batch on data\nmicro batch of 4\n"
                    "expect micros == 3"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:3 micro:3");
  // The size is that of the layout that stands, wherever it is said.
  Source t(planText("mesh [data: 4]\nmicro batch of 4\nshard batch on data\n"
                    "expect micros == 2 and stages == 1"));
  EXPECT_TRUE(t.expect()) << t.diags.text();
}

TEST(Micro, theLastStandsAndOneIsNone) {
  Source s(planText("mesh [data: 2]\nmicro batch into 4\nmicro batch into 2"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:2 micro:2");
  Source t(planText("mesh [data: 2]\nmicro batch into 4\nmicro batch of 32"));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(t.atoms(), "data:2");
  EXPECT_FALSE(t.result->plan.micro);
  EXPECT_EQ(t.result->plan.mesh.times, 0u);
}

TEST(Micro, withoutIt) {
  Source s(piped("pipeline layer on pipe with gpipe\nmicro batch into 8"));
  Source t(piped("pipeline layer on pipe with gpipe"));
  ASSERT_TRUE(s.result && t.result) << s.diags.text() << t.diags.text();
  layout::Plan whole = withoutMicro(s.result->plan);
  EXPECT_EQ(whole.mesh, s.result->plan.mesh); // which programs share
  EXPECT_EQ(whole.shards.size(), t.result->plan.shards.size());
  EXPECT_FALSE(whole.micro);
  EXPECT_TRUE(whole.pipeline);
  EXPECT_EQ(withoutMicro(t.result->plan).shards.size(),
            t.result->plan.shards.size());
}

TEST(Micro, errors) {
  std::string mesh = "mesh [data: 2]\n";
  fails(planText(mesh + "micro bacth into 2"), Diag::UnknownShardDim,
        "`gpt` has no dim `bacth`", "did you mean `batch`?");
  fails(planText(mesh + "micro head into 2"), Diag::BadMicro,
        "`head` is a product or a sum of dims", "a plain dim of the inputs");
  fails(planText(mesh + "micro layer into 2"), Diag::BadMicro,
        "`layer` is the dim of a `repeat`, not of the inputs");
  fails(planText(mesh + "micro seq into 2"), Diag::BadMicro,
        "`seq` is a dim of the parameter `embedding/place`, which every "
        "microbatch reads whole");
  fails(planText(mesh + "micro keys into 2"), Diag::BadMicro,
        "no input has `keys`");
  fails(planText(mesh + "micro batch into 0"), Diag::BadMicro,
        "the number of microbatches must be from 1 to 65536, not 0");
  fails(planText(mesh + "micro batch of 0"), Diag::BadMicro,
        "the size of a microbatch must be at least 1, not 0");
  fails(planText(mesh + "micro batch into 65537"), Diag::BadMicro,
        "the number of microbatches must be from 1 to 65536, not 65537");
  GptSizes many;
  many.batch = 200000;
  fails(planText(mesh + "micro batch of 2"), Diag::BadMicro,
        "`batch` (200000) makes 100000 microbatches of 2; there may be 65536",
        "make them larger", "p", gptFacts("gpt", many));
  fails(planText(mesh + "in layer { micro batch into 2 }"),
        Diag::BadPlanStatement,
        "`micro` holds for the whole plan, so it cannot stand within `in`, or "
        "in what is used `for` a selection");
}

TEST(Micro, moreThanTheDimHasAreEmpty) {
  Source s(planText("mesh [data: 2]\nmicro batch into 40"));
  ASSERT_TRUE(s.result) << s.diags.text();
  ASSERT_EQ(s.diags.all().size(), 1u);
  EXPECT_EQ(s.diags.all()[0].kind, Diag::EmptyMicrobatches);
  EXPECT_EQ(s.diags.all()[0].message,
            "of 40 microbatches 8 are empty: `batch` (32) has fewer elements");
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

TEST(Pipeline, cutsTheRepeatOverTheStages) {
  Source s(piped("pipeline layer on pipe with gpipe\nmicro batch into 8\n"
                 "expect stages == 4 and micros == 8\n"
                 "expect layers(pipe) == [3, 3, 3, 3]\n"
                 "expect local(mlp/up) == [768, 3072]"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
  const layout::Plan &plan = s.result->plan;
  ASSERT_TRUE(plan.pipeline);
  EXPECT_EQ(plan.pipeline->dim, "layer");
  EXPECT_EQ(plan.pipeline->atoms, std::vector<layout::AtomId>{0});
  EXPECT_EQ(plan.pipeline->schedule, "gpipe");
  ASSERT_TRUE(s.result->schedule);
  EXPECT_EQ(s.result->schedule->decl->name.text, "gpipe");
  EXPECT_EQ(s.result->schedule->call->callee.text(), "gpipe");
  EXPECT_TRUE(s.result->schedule->scope->environment.lookup("pipe"));
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"layer", "embed", "ff"}),
            "[layer: pipe, embed, ff]");
  EXPECT_EQ(stages(s), (Sizes{3, 3, 3, 3}));
  // The microbatches are minor, whatever stands first.
  EXPECT_EQ(plan.shards.back().source.text, "micro batch into 8");
}

TEST(Pipeline, unevenStagesAndRegionsThatCount) {
  Source s(piped("pipeline layer on pipe counting embedding, output with "
                 "gpipe\nexpect layers(pipe) == [3, 3, 4, 2]"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
  EXPECT_EQ(stages(s), (Sizes{3, 3, 4, 2}));
  GptSizes sizes;
  sizes.layers = 126; // P11
  Source t(schedules +
               planText("mesh [pipe: 8]\npipeline layer on pipe counting "
                        "embedding, output with gpipe"),
           "p", gptFacts("gpt", sizes));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(stages(t), (Sizes{15, 16, 16, 16, 16, 16, 16, 15}));
  Source u(piped("pipeline layer on pipe counting output with gpipe"));
  ASSERT_TRUE(u.result) << u.diags.text();
  EXPECT_EQ(stages(u), (Sizes{4, 3, 3, 2}));
}

TEST(Pipeline, piecesAsWritten) {
  Source s(piped("pipeline layer on pipe as [embedding, 1 layer], [], 1 of [9 "
                 "layer], [layer, layer, output] with gpipe"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(stages(s), (Sizes{1, 0, 9, 2}));
  layout::Resolved resolved = layout::resolve(
      s.result->plan, valueOf(s.facts, Role::Params, "layer/mlp/up", "",
                              {"layer", "embed", "ff"}));
  EXPECT_NE(resolved.choices[0].sentence.find("; 12 in pieces of 1, 0, 9, 2"),
            std::string::npos)
      << resolved.choices[0].sentence;
}

// 12 layers in 8 chunks of 4 stages, 2, 1, 2, 1 …: rounds go on, or turn.
TEST(Pipeline, severalChunks) {
  using Places = std::vector<int64_t>;
  std::pair<const char *, Places> cases[] = {
      {"pipeline layer on pipe chunks 2 with dealt_out",
       {0, 1, 2, 3, 0, 1, 2, 3}},
      {"pipeline layer on pipe with vee", {0, 1, 2, 3, 3, 2, 1, 0}}};
  for (auto &[statement, places] : cases) {
    Source s(piped(statement));
    ASSERT_TRUE(s.result) << s.diags.text();
    layout::Resolved resolved = layout::resolve(
        s.result->plan, valueOf(s.facts, Role::Params, "layer/mlp/up", "",
                                {"layer", "embed", "ff"}));
    const layout::Split &split = resolved.layout.dims[0];
    EXPECT_EQ(split.places, places);
    EXPECT_EQ(split.cuts, (Places{0, 2, 3, 5, 6, 8, 9, 11, 12}));
    EXPECT_EQ(s.result->plan.pipeline->folded, places[4] == 3);
    EXPECT_EQ(s.result->plan.pipeline->chunks, 2);
  }
}

/// `region@position` of each that a plan places.
std::vector<std::string> regionsOf(const Source &source) {
  std::vector<std::string> regions;
  for (const layout::StagedRegion &region :
       source.result->plan.pipeline->regions) {
    regions.push_back(region.path + "@" + std::to_string(region.position));
  }
  return regions;
}

TEST(Pipeline, itemsHavePositions) {
  using Regions = std::vector<std::string>;
  Source s(piped("pipeline layer on pipe as [embedding], [6 layer], [6 layer], "
                 "[output] with gpipe"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(stages(s), (Sizes{0, 6, 6, 0}));
  EXPECT_EQ(regionsOf(s), (Regions{"embedding@0", "output@3"}));
  // 14 items over 4 stages are 4, 3, 4, 3.
  Source t(piped("pipeline layer on pipe counting output, embedding with "
                 "gpipe"));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(regionsOf(t), (Regions{"embedding@0", "output@3"}));
}

TEST(Pipeline, placesOfParameters) {
  Source s(piped("pipeline layer on pipe with gpipe\n"
                 "place embedding/table on pipe[0], pipe[last]\n"
                 "place embedding/place on pipe[1 .. 4 every 2]"));
  ASSERT_TRUE(s.result) << s.diags.text();
  const std::vector<layout::PlaceStatement> &places = s.result->plan.places;
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].stages, (Sizes{0, 3}));
  EXPECT_EQ(places[1].stages, (Sizes{1, 3}));
  EXPECT_EQ(places[0].source.text,
            "place embedding/table on pipe[0], pipe[last]");
  fails(piped("place embedding on pipe[0]"), Diag::LaterPlace,
        "`place` on an axis that has no stages is not built yet",
        "say `pipeline layer on pipe with one_f_one_b`");
  std::string staged = "pipeline layer on pipe with gpipe\n";
  fails(piped(staged + "place embedding on data[0]"), Diag::LaterPlace,
        "`place` on an axis that has no stages is not built yet",
        "name `pipe`");
  fails(piped(staged + "place mlp on pipe[0]"), Diag::BadPlanStatement,
        "`layer/mlp/up` is cut over the stages by its `layer`, so each has its "
        "own part",
        "`pipeline layer … as` says which");
  fails(piped(staged + "place table on pipe[4]"), Diag::BadPlanStatement,
        "these coordinates of `pipe` are none of 0 .. 4", "`last` is 3");
  fails(piped(staged + "place gradients on pipe[0]"), Diag::GovernsNothing,
        "`place gradients on pipe[0]` selects no parameter");
}

TEST(Pipeline, moreStagesThanLayers) {
  GptSizes sizes;
  sizes.layers = 3;
  Source s(piped("pipeline layer on pipe with gpipe"), "p",
           gptFacts("gpt", sizes));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(stages(s), (Sizes{1, 1, 1, 0}));
  ASSERT_EQ(s.diags.all().size(), 1u) << s.diags.text();
  EXPECT_EQ(s.diags.all()[0].kind, Diag::EmptyStages);
}

/// What the largest piece costs, of layers cut into `sizes`.
double largestCost(const RepeatFact &fact, const Sizes &sizes) {
  double most = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    most = std::max(most, static_cast<double>(sizes[i]) * fact.each +
                              (i == 0 ? fact.before : 0) +
                              (i + 1 == sizes.size() ? fact.after : 0));
  }
  return most;
}

/// The least of all ways to cut 12 layers into 4 pieces.
double leastCost(const RepeatFact &fact) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t a = 0; a <= 12; ++a) {
    for (int64_t b = a; b <= 12; ++b) {
      for (int64_t c = b; c <= 12; ++c) {
        least = std::min(least, largestCost(fact, {a, b - a, c - b, 12 - c}));
      }
    }
  }
  return least;
}

TEST(Pipeline, byCost) {
  auto cut = [](const RepeatFact &fact) {
    ModelFacts facts = gptFacts();
    facts.repeats = {fact};
    Source s(piped("pipeline layer on pipe by cost with gpipe"), "p", facts);
    EXPECT_TRUE(s.result) << s.diags.text();
    return s.result ? stages(s) : Sizes(4);
  };
  EXPECT_EQ(cut({"layer", 0, 10, 0}), (Sizes{3, 3, 3, 3}));
  EXPECT_EQ(cut({"layer", 0, 10, 25}), (Sizes{4, 4, 3, 1}));
  EXPECT_EQ(cut({"layer", 500, 10, 500}), (Sizes{0, 6, 6, 0}));
  for (int before = 0; before < 50; before += 7) {
    for (int after = 0; after < 90; after += 11) {
      RepeatFact fact{"layer", double(before), 10, double(after)};
      EXPECT_EQ(largestCost(fact, cut(fact)), leastCost(fact))
          << before << " before, " << after << " after";
    }
  }
  ModelFacts facts = gptFacts();
  facts.repeats = {{"layer", 0, 10e9, 25e9}};
  Source s(piped("pipeline layer on pipe by cost with gpipe"), "p", facts);
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.result->plan.pipeline->why,
            "by cost: each `layer` takes 10 GFLOP forward, what stands before "
            "them 0, after them 25; the largest piece 40");
  fails(piped("pipeline layer on pipe by cost with gpipe"), Diag::BadPieces,
        "`by cost` counts floating-point operations, and `layer` has none that "
        "are known",
        "leave `by cost` out");
}

TEST(Pipeline, oneStageIsNone) {
  Source s(schedules +
           planText("mesh [pipe: 1, data: 2]\npipeline layer on pipe "
                    "with gpipe\nexpect stages == 1"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
  EXPECT_FALSE(s.result->plan.pipeline);
}

TEST(Pipeline, theLastStandsAndMayComeFromAStrategy) {
  Source s(schedules +
           "strategy staged(across: axis, what: dim) {\n"
           "  pipeline what on across counting output with gpipe\n}\n" +
           planText(mesh + "pipeline layer on data with gpipe\n"
                           "use staged(across: pipe, what: layer)"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(stages(s), (Sizes{4, 3, 3, 2}));
  EXPECT_EQ(s.result->plan.pipeline->atoms, std::vector<layout::AtomId>{0});
}

TEST(Pipeline, overAProductOfAxes) {
  Source s(schedules + planText("mesh [pod: 2, pipe: [outer: 2, inner: 3]]\n"
                                "pipeline layer on pipe with gpipe"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.result->plan.pipeline->atoms,
            (std::vector<layout::AtomId>{1, 2}));
  EXPECT_EQ(stages(s), (Sizes{2, 2, 2, 2, 2, 2}));
}

TEST(Pipeline, errors) {
  fails(piped("pipeline layr on pipe with gpipe"), Diag::UnknownShardDim,
        "`gpt` has no dim `layr`", "did you mean `layer`?");
  fails(piped("pipeline seq on pipe with gpipe"), Diag::BadPipeline,
        "`seq` is not the dim of a `repeat`", "`layer`");
  fails(piped("pipeline * on pipe with gpipe"), Diag::BadPipeline,
        "a pipeline has one dim, not a pattern");
  fails(piped("pipeline layer on pip with gpipe"), Diag::UnknownAxis,
        "unknown axis `pip`", "did you mean `pipe`?");
  fails(piped("pipeline layer on pipe with gpip"), Diag::UnknownSchedule,
        "no schedule `gpip`", "did you mean `gpipe`?");
  fails(piped("pipeline layer on pipe chunks 0 with gpipe"), Diag::BadPipeline,
        "a stage holds at least 1 chunk, not 0");
  fails(piped("pipeline layer on data with gpipe"), Diag::StagesTakenTwice,
        "`shard batch on data` splits `batch` of `ids` over the stages of "
        "`layer`",
        "name another axis");
  fails(piped("shard vocab on pipe?\npipeline layer on pipe with gpipe"),
        Diag::StagesTakenTwice,
        "`shard vocab on pipe?` splits `vocab` of `output/logits` over the "
        "stages of `layer`");
  fails(piped("in layer { pipeline layer on pipe with gpipe }"),
        Diag::BadPlanStatement,
        "`pipeline` holds for the whole plan, so it cannot stand within `in`, "
        "or in what is used `for` a selection");
  ModelFacts nested = gptFacts();
  nested.dims.push_back(nested.dims.back());
  nested.dims.back().name = "block";
  nested.leaves[2].dims.insert(nested.leaves[2].dims.begin(), {"block", 2});
  fails(piped("pipeline layer on pipe with gpipe"), Diag::BadPipeline,
        "the `repeat` over `layer` stands within the one over `block`",
        "pipeline `block`", "p", nested);
}

TEST(Pipeline, piecesThatDoNotFit) {
  auto cut = [](const std::string &cuts) {
    return piped("pipeline layer on pipe " + cuts + " with gpipe");
  };
  fails(cut("counting embeding"), Diag::UnknownPath,
        "`gpt` has no region `embeding` outside its layers",
        "did you mean `embedding`?");
  fails(cut("counting mlp"), Diag::BadPieces,
        "`layer/mlp` is a part of each `layer`");
  fails(cut("counting output, output"), Diag::BadPieces,
        "`output` is counted twice");
  fails(cut("as 3 of [4 layer]"), Diag::BadPieces, "3 pieces for 4 stages",
        "`[]` is an empty one");
  fails(cut("as 4 of [2 layer], [4 layer]"), Diag::BadPieces,
        "5 pieces for 4 stages");
  fails(cut("as 5 of [2 layer]"), Diag::BadPieces,
        "5 pieces, where there are 4 in all");
  fails(cut("as 4 of [2 layer]"), Diag::BadPieces,
        "the pieces have 8 `layer`, and the model 12");
  fails(cut("as [13 layer], 3 of []"), Diag::BadPieces,
        "there are 12 `layer`, not 13");
  fails(cut("as [2 embedding, 6 layer], 2 of [], [6 layer]"), Diag::BadPieces,
        "`embedding` is there once");
  fails(cut("as [6 layer], [embedding], [], [6 layer]"), Diag::BadPieces,
        "`embedding` comes before `layer` in the model, and here in a later "
        "piece",
        "write the items in the order of the model");
  fails(cut("as [6 layer, output], [], [], [6 layer]"), Diag::BadPieces,
        "`layer` comes before `output` in the model, and here in a later "
        "piece");
}

TEST(Pipeline, whatIsNotBuilt) {
  fails(piped("pipeline layer[3 ..] on pipe with gpipe"), Diag::LaterLayers,
        "a pipeline of some of `layer` is not built yet");
}

TEST(Pipeline, contracts) {
  fails(piped("expect layers(pipe) == [3, 3, 3, 3]"), Diag::BadContract,
        "`layers` speaks of stages, and the plan has no pipeline");
  fails(piped("pipeline layer on pipe with gpipe\n"
              "expect layers(data) == [6, 6]"),
        Diag::BadContract,
        "`layers` is of the axis of the stages, or of each `chunk`",
        "write `layers(pipe)`");
  fails(piped("pipeline layer on pipe with gpipe\n"
              "expect layers(pipe) == [3, 3, 3, 4]"),
        Diag::ContractFails,
        "`layers(pipe) == [3, 3, 3, 4]` does not hold: found [3, 3, 3, 3], "
        "wanted == [3, 3, 3, 4]");
  fails(piped("micro batch into 8\nexpect micros == 4"), Diag::ContractFails,
        "`micros == 4` does not hold: found 8, wanted == 4");
  // Times are no devices: they lie within every level.
  Source s(planText("mesh [data: 2, tensor: 2] on [node: 2, gpu: 2]\n"
                    "micro batch into 3\nexpect tensor within node"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
}

TEST(Pipeline, countsPerMicroAndWithoutWhatIsRepeated) {
  std::string text = planText("mesh [data: 2, tensor: 4]\nshard ff on tensor\n"
                              "expect all_reduce on tensor == 1 per layer per "
                              "micro\nmicro batch into 5\nrecompute layer\n"
                              "expect bytes of all_reduce == 120 KiB");
  Source s(text);
  ASSERT_TRUE(s.result) << s.diags.text();
  layout::CollectiveRecord record;
  record.kind = "all_reduce";
  record.atoms = {1};
  record.value = valueOf(s.facts, Role::Activations, "layer/mlp", "", {"ff"});
  record.repeat = "layer";
  record.iterations = 60;
  record.bytesBusiest = 1024;
  layout::ProgramRecord train;
  train.collectives = {record, record};
  train.collectives.back().recomputed = true;
  EXPECT_TRUE(s.expect(&train)) << s.diags.text();
  train.collectives.back().recomputed = false;
  Source t(text);
  EXPECT_FALSE(t.expect(&train));
  EXPECT_EQ(t.diags.all()[0].message,
            "all_reduce on tensor: found 2 per layer per micro, wanted == 1");
}

//===----------------------------------------------------------------------===//
// What is kept, and reductions
//===----------------------------------------------------------------------===//

/// Whether a plan makes a value of the forward pass again.
bool recomputes(const Source &source, const std::string &path,
                const std::string &label) {
  layout::ValueInfo value =
      valueOf(source.facts, Role::Activations, path, label, {"batch"});
  for (const layout::Selection &selection : source.result->plan.recomputed) {
    if (layout::matches(selection, value)) {
      return true;
    }
  }
  return false;
}

TEST(Keep, theLastThatMatchesStands) {
  Source s(
      planText("mesh [data: 2]\nrecompute layer\nsave attention/query, mlp\n"
               "recompute mlp_out"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_TRUE(recomputes(s, "layer/norm1", ""));
  EXPECT_FALSE(recomputes(s, "layer/attention", "query"));
  EXPECT_FALSE(recomputes(s, "layer/mlp", ""));
  EXPECT_TRUE(recomputes(s, "layer/mlp", "mlp_out"));
  EXPECT_FALSE(recomputes(s, "output", "logits"));
  Source t(
      planText("mesh [data: 2]\nin layer { recompute attention except query }"
               "\nrecompute weights"));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_TRUE(recomputes(t, "layer/attention/attend", "score"));
  EXPECT_FALSE(recomputes(t, "layer/attention", "query"));
  EXPECT_FALSE(recomputes(t, "layer/norm1", ""));
}

TEST(Keep, errors) {
  std::string mesh = "mesh [data: 2]\n";
  fails(planText(mesh + "recompute layr"), Diag::UnknownPath,
        "`layr` matches nothing in `gpt`", "did you mean `layer`?");
  fails(planText(mesh + "recompute params"), Diag::GovernsNothing,
        "`recompute params` selects no activation of the forward pass",
        "recompute layer");
  fails(planText(mesh + "recompute output"), Diag::LaterKeep,
        "`recompute output` selects nothing within a `repeat`; recomputing "
        "what stands outside is not built yet");
  fails(planText(mesh + "recompute layer\nsave output"), Diag::LaterKeep,
        "`save output` selects nothing that a `recompute` before it selects");
  fails(planText(mesh + "save weights"), Diag::LaterKeep,
        "`save` of gathered weights is not built yet",
        "`gather weights per step`");
  fails(planText(mesh + "offload layer"), Diag::LaterKeep,
        "`offload` is not built yet");
  fails(planText(mesh + "recompute layer with rate: 2"), Diag::UnknownOption,
        "`recompute` has no option `rate`");
}

TEST(Reduce, perStepIsTheDefault) {
  std::string mesh = "mesh [data: 2]\nshard batch on data\n";
  Source s(planText(mesh + "micro batch into 4\nreduce gradients per micro\n"
                           "reduce gradients per step"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_TRUE(s.result->plan.reductions.empty());
  // One microbatch: both are the same.
  Source t(planText(mesh + "reduce gradients in mlp per micro"));
  ASSERT_TRUE(t.result) << t.diags.text();
  ASSERT_EQ(t.result->plan.reductions.size(), 1u);
  EXPECT_EQ(t.result->plan.reductions[0].per, "micro");
  Source each(planText(mesh + "micro batch into 4\n"
                              "reduce gradients per micro"));
  ASSERT_TRUE(each.result) << each.diags.text();
  EXPECT_EQ(each.result->plan.reductions.size(), 1u);
  fails(planText(mesh + "reduce gradients per layer"), Diag::BadLoop,
        "gradients are reduced per `micro` or per `step`, not per `layer`");
  fails(planText(mesh + "reduce activations per micro"), Diag::GovernsNothing,
        "`reduce activations per micro` selects no gradient of a parameter");
}

} // namespace
