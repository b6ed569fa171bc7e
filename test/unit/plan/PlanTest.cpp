//===- PlanTest.cpp - Plans from source, and what is wrong with them ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/plan/Source.h"

using namespace cleave;
using namespace cleave::plan;
using layout::Role;

namespace {

//===----------------------------------------------------------------------===//
// Meshes and views
//===----------------------------------------------------------------------===//

TEST(Mesh, sizesFactorsAndFree) {
  Source s(planText("mesh [data: free, ctx: [round: 2, inner: 4], tensor: 2] "
                    "on [node: 16, gpu: 8]\nshard batch on data * ctx.round"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:8 ctx.round:2 ctx.inner:4 tensor:2");
  EXPECT_EQ(s.axis("ctx"), "2 4");
  EXPECT_EQ(s.layout(Role::Inputs, "", {"batch", "seq"}),
            "[batch: data * ctx.round, seq]");
  ASSERT_EQ(s.result->plan.hardware.size(), 2u);
  EXPECT_EQ(s.result->plan.hardware[0].name, "node");
  EXPECT_EQ(s.result->plan.hardware[0].size, 16);
}

TEST(Mesh, freeInsideAndByTheCommandLine) {
  Source s(planText("mesh [data: [slice: 12, rest: free], tensor: 2] on 240"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.axis("data"), "12 10");
  PlanOptions options;
  options.devices = 64;
  Source t(planText("mesh [data: free, tensor: 2]"), "p", gptFacts(), options);
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(t.axis("data"), "32");
  Source u(planText("mesh [data: 6, tensor: 2] on [node: free, gpu: 4]"));
  ASSERT_TRUE(u.result) << u.diags.text();
  EXPECT_EQ(u.result->plan.hardware[0].size, 3);
}

TEST(Mesh, views) { // P14
  Source s(
      planText("mesh [pipe: 8, data: free, context: 1, tensor: 2] on 1024\n"
               "view [pipe, rest: free, ep: 64]\n"
               "shard batch on rest\nshard ff on ep"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "pipe:8 rest:2 data.2:32 tensor:2");
  EXPECT_EQ(s.axis("data"), "2 32");
  EXPECT_EQ(s.axis("ep"), "32 2");
  EXPECT_EQ(s.axis("context"), "");
  EXPECT_EQ(s.layout(Role::Activations, "layer/mlp", {"batch", "seq", "ff"}),
            "[batch: rest, seq, ff: ep]");
}

TEST(Mesh, axesThatShareAnAtomConflict) {
  fails(planText("mesh [data: 64, tensor: 2]\nview [rest: 2, ep: 64]\n"
                 "shard vocab on tensor\nshard embed on ep for params in "
                 "embedding/table"),
        Diag::AxisTakenTwice,
        "`shard embed on ep for params in embedding/table` cannot hold for "
        "`embedding/table` [vocab, embed]: `tensor` is taken by `shard vocab "
        "on tensor` at a.clv:4 (and 2 other values)");
}

TEST(Mesh, theLastStandsWhole) {
  Source s("plan base(d) of gpt { mesh [data: d, tensor: 2]; shard batch on "
           "data }\n" +
           planText("use base(4)\nmesh [data: 8]"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:8");
  Source t("plan base(d) of gpt { mesh [data: d, tensor: 2]; shard batch on "
           "data }\n" +
           planText("use base(d: 4)"));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(t.atoms(), "data:4 tensor:2");
}

TEST(Mesh, productsCutAtoms) {
  GptSizes sizes;
  sizes.kv = 8;
  sizes.group = 16;
  Source s(planText("mesh [data: 2, tensor: 16]\nshard head on tensor"), "p",
           gptFacts("gpt", sizes));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:2 tensor.1:8 tensor.2:2");
  EXPECT_EQ(s.layout(Role::Params, "layer/attention/wq",
                     {"embed", "kv", "group", "key"}),
            "[embed, kv: tensor.1, group: tensor.2, key]");
  EXPECT_EQ(
      s.layout(Role::Params, "layer/attention/wk", {"embed", "kv", "key"}),
      "[embed, kv: tensor.1, key]");
}

TEST(Mesh, errors) {
  fails(planText("mesh [data: free, tensor: 3] on 64"), Diag::BadFreeSize,
        "3 = 3 does not divide 64 devices, so `data` has no size");
  fails(planText("mesh [data: free, tensor: 3]"), Diag::BadFreeSize,
        "`data` is `free`, and nothing says how many devices there are",
        "`on 64`");
  fails(planText("mesh [data: free, tensor: free] on 64"), Diag::BadFreeSize,
        "a second `free` axis: `tensor`");
  fails(planText("mesh [data: 4, data: 2]"), Diag::BadMesh,
        "axis `data` twice");
  fails(planText("mesh [data: 0]"), Diag::BadMesh,
        "the size of `data` must be at least 1, not 0");
  fails(planText("mesh [data]"), Diag::BadMesh, "axis `data` has no size");
  fails(planText("mesh [data: 4] on 8"), Diag::BadMesh, "4 = 4, not 8 devices");
  fails(planText("mesh [data: 4] on [node: [a: 2], gpu: 2]"), Diag::BadHardware,
        "a hardware level has no factors");
  fails(planText("mesh [a: 6, b: 4]\nview [c: 8, d: 3]"), Diag::CutsDoNotNest,
        "`c` begins at every 3 devices, `a` at every 4: these cuts do not "
        "nest");
  fails(planText("mesh [a: 6, b: 4]\nview [c: 8, d: 2]"), Diag::BadView,
        "8 * 2 = 16, not 24 devices");
  fails(planText("mesh [a: 4, b: 4]\nview [c: 8, b: 2]"), Diag::BadView,
        "`b` is already an axis of the mesh");
  fails(planText("mesh [a: 4, b: 4]\nview [b, c: 4]"), Diag::BadView,
        "the view's `b` lies elsewhere than the mesh's own");
  fails(planText("mesh [a: 4, b: 4]\nview [bb, c: 4]"), Diag::UnknownAxis,
        "the mesh has no axis `bb`", "did you mean `b`?");
  fails("plan p of gpt { shard batch on data }", Diag::NoMesh,
        "`p` has no mesh");
  fails("strategy s(x: axis) { mesh [data: 2] }\n" +
            planText("mesh [data: 4]\nuse s(data)"),
        Diag::BadPlanStatement,
        "a mesh stands in a plan, and not within `in` or under a condition on "
        "axes");
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

TEST(Shard, namesOfFunctionsSelectTheirRegions) { // X1
  Source s(planText("mesh [dp: free, fsdp: 64, mp: 1] on 256\n"
                    "shard batch on dp * fsdp\n"
                    "shard embed on fsdp for params, gradients, optimizer\n"
                    "shard head, ff, vocab on mp\n"
                    "shard embed on none for norm"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Params, "layer/norm1/gain", {"embed"}), "[embed]");
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed: fsdp, ff]");
  EXPECT_EQ(s.layout(Role::Params, "embedding/table", {"vocab", "embed"}),
            "[vocab, embed: fsdp]");
}

TEST(Shard, sumsAreCutInTheirParts) {
  Source s(planText("mesh [tensor: 4]\nshard qkv on tensor"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Params, "wqkv.q", {"embed", "kv", "group", "key"}),
            "[embed, kv: tensor, group, key]");
  EXPECT_EQ(s.layout(Role::Params, "wqkv.k", {"embed", "kv", "key"}),
            "[embed, kv: tensor, key]");
}

TEST(Shard, likeDimsFollow) {
  Source s(planText("mesh [tensor: 4]\nshard seq on tensor"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Activations, "layer/mlp", {"batch", "half", "embed"},
                     "pooled"),
            "[batch, half: tensor, embed]");
  fails(planText("mesh [tensor: 4]\nshard half on tensor"), Diag::FollowingDim,
        "`half` follows `seq`", "shard `seq`");
}

TEST(Shard, inAndForIntersect) {
  Source s("strategy s(across: axis) {\n"
           "  in attention { shard embed on across for params, activations "
           "where rank > 1 }\n}\n" +
           planText("mesh [data: 2]\nuse s(data) for layer"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Params, "layer/attention/wo", {"key", "embed"}),
            "[key, embed: data]");
  EXPECT_EQ(s.layout(Role::Params, "layer/attention/b", {"embed"}), "[embed]");
  EXPECT_EQ(s.layout(Role::Weights, "layer/attention/wo", {"key", "embed"}),
            "[key, embed]");
  EXPECT_EQ(s.layout(Role::Params, "attention/wo", {"key", "embed"}),
            "[key, embed]");
}

TEST(Shard, letAndIf) {
  Source s(planText("mesh [data: 4, tensor: 2]\nlet wide = ff / tensor\n"
                    "if wide > 1000 and data == 4 { shard ff on tensor }\n"
                    "else { shard ff on data }"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed, ff: tensor]");
}

TEST(Shard, strategiesWithAxesTheMeshLacks) { // as P01's table
  Source s(
      "strategy table using data, fsdp, fsdp_t, expert {\n"
      "  shard batch on data * fsdp * fsdp_t * expert\n"
      "  shard embed on fsdp * fsdp_t? * expert for params\n"
      "  shard ff on fsdp_t for params\n"
      "  shard experts? on expert\n  in moe? { shard embed on none }\n}\n" +
      planText("mesh [fsdp: 8, wide: 4]\nuse table(fsdp_t: wide)"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed: fsdp, ff: wide]");
  EXPECT_EQ(s.layout(Role::Inputs, "", {"batch", "seq"}),
            "[batch: fsdp * wide, seq]");
}

TEST(Shard, selectionsAsParameters) {
  std::string strategy =
      "strategy s(across: axis, what: dim, inside = (attention, mlp)) {\n"
      "  shard what also on across for activations except inside\n}\n";
  Source s(strategy + planText("mesh [data: 2]\nuse s(data, seq)"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.layout(Role::Activations, "layer/norm1", {"seq"}), "[seq: data]");
  EXPECT_EQ(s.layout(Role::Activations, "layer/mlp", {"seq"}), "[seq]");
  Source t(
      strategy +
      planText("mesh [data: 2]\nuse s(data, seq, inside: (layer except mlp))"));
  ASSERT_TRUE(t.result) << t.diags.text();
  EXPECT_EQ(t.layout(Role::Activations, "layer/norm1", {"seq"}), "[seq]");
  EXPECT_EQ(t.layout(Role::Activations, "layer/mlp", {"seq"}), "[seq: data]");
}

TEST(Shard, theLastGatherStands) {
  Source s(planText("mesh [data: 2]\nshard embed on data for params\n"
                    "gather weights per layer\ngather weights per step"));
  ASSERT_TRUE(s.result) << s.diags.text();
  ASSERT_EQ(s.result->plan.gathers.size(), 1u);
  EXPECT_EQ(s.result->plan.gathers[0].per, "step");
  fails(planText("mesh [data: 2]\ngather weights per layr"), Diag::BadLoop,
        "`layr` is neither a repeat of `gpt`, `micro` nor `step`",
        "did you mean `layer`?");
}

TEST(Shard, planParametersAndOverrides) {
  std::string text = "plan p(rows, columns = 2) of gpt {\n"
                     "  mesh [data: rows, tensor: columns]\n}\n";
  fails(text, Diag::BadUseArgument, "`p` needs a value for `rows`");
  PlanOptions options;
  options.overrides["rows"] = sema::Value::ofInteger(6);
  Source s(text, "p", gptFacts(), options);
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.atoms(), "data:6 tensor:2");
}

TEST(Shard, discardedAlsosAreNoted) {
  Source s(planText("mesh [data: 2, tensor: 2]\nshard seq also on tensor\n"
                    "shard seq on data for activations in mlp"));
  ASSERT_TRUE(s.result) << s.diags.text();
  ASSERT_EQ(s.diags.all().size(), 1u) << s.diags.text();
  EXPECT_EQ(s.diags.all()[0].severity, Severity::Note);
  EXPECT_EQ(s.diags.all()[0].kind, Diag::DiscardedAlso);
  EXPECT_EQ(s.diags.all()[0].message.substr(0, 102),
            "`shard seq on data for activations in mlp` discards `shard seq "
            "also on tensor` for `layer/mlp` (and 5 ");
}

//===----------------------------------------------------------------------===//
// Rule 11, and the traps
//===----------------------------------------------------------------------===//

TEST(Traps, unknownNames) {
  std::string mesh = "mesh [data: 16, model: 8]\n";
  // T3: a rule file that maps dims to axes its mesh does not have.
  fails(planText(mesh + "shard seq on context"), Diag::UnknownAxis,
        "unknown axis `context`");
  fails(planText(mesh + "shard ff on modle"), Diag::UnknownAxis,
        "unknown axis `modle`", "did you mean `model`?");
  fails(planText(mesh + "shard fff on model"), Diag::UnknownShardDim,
        "`gpt` has no dim `fff`", "did you mean `ff`?");
  fails(planText(mesh + "shard ff on model for weightz"), Diag::UnknownPath,
        "`weightz` matches nothing in `gpt`", "did you mean `weights`?");
  fails(planText(mesh + "shard ff on model for layer/atention"),
        Diag::UnknownPath, "`layer/atention` matches nothing in `gpt`",
        "did you mean `attention`?");
  fails(planText(mesh + "shard ff on model for mlp/attention"),
        Diag::UnknownPath, "`mlp/attention` matches nothing in `gpt`",
        "not in this order");
  fails(planText(mesh + "use zeroo(stage: 1, across: data)"),
        Diag::UnknownStrategy, "no strategy or plan `zeroo`", "std.parallel");
  fails(planText(mesh + "shard ff on data * data"), Diag::AxisRepeated,
        "`data` twice in one product");
  Source marked(planText(mesh +
                         "shard fff? on model\nin moe? { shard ff on model "
                         "}\nshard ff on tensor? * model"));
  EXPECT_FALSE(marked.result); // the one in moe? governs nothing
  EXPECT_EQ(marked.kinds(), std::vector<Diag>{Diag::GovernsNothing});
}

TEST(Traps, statementsThatGovernNothing) {
  fails(planText("mesh [data: 2]\nshard vocab on data for mlp"),
        Diag::GovernsNothing,
        "`shard vocab on data for mlp` governs no value: nothing that it "
        "selects has these dims");
  fails(planText("mesh [data: 2]\nshard ff on data\nshard ff on none"),
        Diag::GovernsNothing,
        "`shard ff on data` governs no value: later statements govern all "
        "that it selects");
  Source s("strategy s(a: axis) { shard vocab on a for mlp }\n" +
           planText("mesh [data: 2]\nuse s(data)"));
  EXPECT_TRUE(s.result) << s.diags.text();
  EXPECT_EQ(s.kinds(), std::vector<Diag>{Diag::GovernsNothing});
  EXPECT_EQ(s.diags.all()[0].severity, Severity::Note);
}

TEST(Traps, oneAxisTwice) {
  fails(planText("mesh [data: 16, model: 8]\nshard ff on model\n"
                 "shard embed on model for params"),
        Diag::AxisTakenTwice,
        "`shard embed on model for params` cannot hold for `layer/mlp/up` "
        "[layer, embed, ff]: `model` is taken by `shard ff on model` at "
        "a.clv:3 (and 5 other values)",
        "else none");
}

TEST(Traps, unevenVocabulary) { // T7: 51200 over 24
  GptSizes sizes;
  sizes.vocab = 51200;
  Source s(planText("mesh [mdl: 24]\nshard vocab on mdl\n"
                    "expect local(table) == [2134, 768]"),
           "p", gptFacts("gpt", sizes));
  ASSERT_TRUE(s.expect()) << s.diags.text();
  layout::Resolved resolved = layout::resolve(
      s.result->plan, valueOf(s.facts, Role::Params, "embedding/table", "",
                              {"vocab", "embed"}));
  EXPECT_NE(resolved.choices[0].sentence.find("2133 and 2134"),
            std::string::npos);
  fails(planText("mesh [mdl: 24]\nshard vocab on mdl even"), Diag::UnevenSplit,
        "`shard vocab on mdl even` cannot hold for `output/logits` [batch, "
        "seq, vocab]: `vocab` (51200) cannot be split evenly on `mdl` (24) "
        "(and 6 other values)",
        "drop `even`", "p", gptFacts("gpt", sizes));
}

TEST(Traps, fewerKvHeadsThanDevices) { // T11: the policy is stated
  GptSizes sizes;
  sizes.kv = 8;
  sizes.group = 1;
  Source s(planText("mesh [tensor: 16]\nshard head on tensor"), "p",
           gptFacts("gpt", sizes));
  ASSERT_TRUE(s.result) << s.diags.text();
  layout::Resolved resolved = layout::resolve(
      s.result->plan, valueOf(s.facts, Role::Params, "layer/attention/wk", "",
                              {"embed", "kv", "key"}));
  EXPECT_EQ(resolved.choices[1].sentence,
            "`shard head on tensor` at a.clv:3; 8 pieces on the 16 coordinates "
            "of `tensor`, so 2 hold each");
  Source even(planText("mesh [tensor: 16]\nshard head on tensor even"), "p",
              gptFacts("gpt", sizes));
  EXPECT_FALSE(even.result);
  ASSERT_EQ(even.diags.errorCount(), 1u) << even.diags.text();
  EXPECT_EQ(even.diags.all()[0].kind, Diag::UnevenSplit);
}

TEST(Traps, aCommentIsNoContract) { // T5
  std::string mesh = "mesh [data: 4, tensor: 2]\n";
  fails(planText(mesh + "expect batch == 128"), Diag::ContractFails,
        "`batch == 128` does not hold: found 32, wanted == 128");
  Source s(planText(mesh + "expect batch == 16 * data"));
  EXPECT_FALSE(s.expect());
  EXPECT_EQ(s.diags.all()[0].label, "batch = 32, data = 4");
}

TEST(Traps, laterFeaturesAreRefused) {
  std::string mesh = "mesh [pipe: 2, data: 2]\n";
  std::pair<std::string, Diag> cases[] = {
      {"save layer/x", Diag::LaterKeep},
      {"offload optimizer", Diag::LaterKeep},
      {"place embedding on pipe[0]", Diag::LaterPlace},
      {"tune collectives on data with overlap: \"x\"", Diag::LaterTune},
      {"lossy tune all_gather on data with wire: \"fp8\"", Diag::LaterTune},
      {"gather weights per chunk", Diag::LaterPipeline},
      {"shard seq on data folded", Diag::LaterDeal},
      {"shard seq on data dealt 2", Diag::LaterDeal},
      {"shard seq on data for layer[3 ..]", Diag::LaterLayers},
      {"shard head on data for caches", Diag::LaterCaches},
      {"shard layer on pipe", Diag::LaterRepeatSplit},
      {"use ring for attention", Diag::LaterAlgorithm},
      {"expect all_gather on data == 1 per chunk", Diag::LaterContract},
  };
  for (auto &[statement, kind] : cases) {
    Source s("algorithm ring for nn.attend(q, k, v) when seq on R { return q "
             "}\n" +
             planText(mesh + statement));
    s.expect();
    ASSERT_EQ(s.diags.errorCount(), 1u) << statement << s.diags.text();
    EXPECT_EQ(codeOf(s.diags.all()[0].kind), codeOf(kind)) << statement;
    EXPECT_FALSE(s.diags.all()[0].help.empty()) << statement;
  }
  // An axis of size 1 splits nothing: tables that name it stay sayable.
  Source s(planText("mesh [stage: 1, data: 2]\nshard layer on stage\n"
                    "shard batch on data for layer[0 .. last + 1]"));
  EXPECT_FALSE(s.result);
  Source t(planText("mesh [stage: 1, data: 2]\nshard layer on stage\n"
                    "shard batch on data for layer[0 ..]"));
  EXPECT_TRUE(t.result) << t.diags.text();
}

TEST(Traps, uses) {
  std::string mesh = "mesh [data: 2]\n";
  fails("strategy s(a: axis) { use t(a) }\nstrategy t(a: axis) { use s(a) }\n" +
            planText(mesh + "use s(data)"),
        Diag::PlanUsesItself, "`s` uses itself, directly or through others");
  fails("strategy s(a: axis, n: int) { shard ff on a }\n" +
            planText(mesh + "use s(data)"),
        Diag::BadUseArgument, "`s` needs a value for `n`");
  fails("strategy s(a: axis) { shard ff on a }\n" +
            planText(mesh + "use s(acros: data)"),
        Diag::BadUseArgument, "`s` has no parameter `acros`", "", "p");
  fails("strategy s(a: axis) { shard ff on a }\n" + planText(mesh + "use s(3)"),
        Diag::BadUseArgument, "an axis is expected here");
  fails("strategy s(a: bytes) { shard ff on none }\n" +
            planText(mesh + "use s(3 us)"),
        Diag::BadUseArgument, "`a` must be a number of bytes, not a time");
  fails("plan q of other { mesh [data: 2] }\n" + planText(mesh + "use q"),
        Diag::PlanOfOtherModel, "`q` is a plan of `other`, not of `gpt`");
  fails(planText(mesh), Diag::UnknownPlan, "no plan `q`", "`p`", "q");
  fails(planText(mesh + "shard ff on data for params where size > 3"),
        Diag::BadWhere, "selections cannot test this");
}

//===----------------------------------------------------------------------===//
// Contracts
//===----------------------------------------------------------------------===//

TEST(Expect, sizesAndMemory) {
  Source s(
      planText("mesh [data: 4, tensor: 2] on [node: 4, gpu: 2]\n"
               "shard batch on data\nshard head, ff, vocab on tensor\n"
               "shard largest also on data else none for optimizer\n"
               "expect tensor within node\n"
               "expect batch / data == 8 and micros == 1\n"
               "expect local(up) == [768, 1536]\n"
               "expect local(attention/wq) == [768, 6, 1, 64]\n"
               "expect local(mlp_out) == [8, 1024, 768]\n"
               "expect unsharded(params) <= 2%\n"
               "expect size(head) == 12\n"
               "expect memory(params in output) == 3 KiB\n"
               "expect memory(optimizer in layer/mlp/up) == 12 * 2 * 768 * "
               "384 * 4 * 1 B"));
  EXPECT_TRUE(s.expect()) << s.diags.text();
  EXPECT_TRUE(s.diags.all().empty()) << s.diags.text();
}

TEST(Expect, failures) {
  std::string mesh = "mesh [data: 2, tensor: 4] on [node: 4, gpu: 2]\n";
  fails(planText(mesh + "expect tensor within node"), Diag::ContractFails,
        "`tensor` does not lie within a `node`: its groups span 4 devices in "
        "a row, a `node` has 2");
  fails(planText(mesh + "expect tensor within rack"), Diag::BadContract,
        "unknown hardware level `rack`");
  fails(planText(mesh + "expect local(wq) == [1]\n"), Diag::ContractFails,
        "`local(wq) == [1]` does not hold: found [768, 12, 1, 64], wanted == "
        "[1]");
  fails(planText(mesh + "expect local(layer) == [1]"), Diag::BadContract,
        "values of several shapes match");
  fails(planText(mesh + "expect memory(weights) == 1 B"), Diag::BadContract,
        "only what is stored between steps has a size here");
  fails(planText(mesh + "expect unsharded(params) <= 2%"), Diag::ContractFails,
        "`unsharded(params) <= 2%` does not hold: found 1, wanted <= 0.02");
}

layout::CollectiveRecord collective(const Source &s, const std::string &kind,
                                    const std::string &axis, Role role,
                                    const std::string &path,
                                    int64_t iterations) {
  layout::CollectiveRecord record;
  record.kind = kind;
  record.atoms = s.result->plan.mesh.findAxis(axis)->atoms;
  record.value = valueOf(s.facts, role, path, "", {"batch", "seq", "embed"});
  record.repeat = iterations > 1 ? "layer" : "";
  record.iterations = iterations;
  record.bytesBusiest = 1024;
  record.operation = "dot over ff";
  record.reason = "`shard ff on tensor` leaves a sum";
  record.avoid = "do not shard `ff`";
  record.source = {"m.clv", 7, 1, "dot(x, down)"};
  return record;
}

TEST(Expect, collectives) {
  std::string text = planText(
      "mesh [data: 2, tensor: 4, one: 1]\nshard ff on tensor\n"
      "expect all_reduce on tensor for activations in layer == 2 per layer\n"
      "expect all_reduce on tensor in mlp == 1 per layer per micro\n"
      "expect no all_gather on tensor for weights\n"
      "expect no collectives on one\n"
      "expect collectives == 25\n"
      "expect bytes of all_reduce on tensor <= 24 KiB per step\n"
      "expect all_reduce on data * tensor == 0");
  Source s(text);
  ASSERT_TRUE(s.result) << s.diags.text();
  layout::ProgramRecord train;
  train.collectives = {
      collective(s, "all_reduce", "tensor", Role::Activations,
                 "layer/attention", 12),
      collective(s, "all_reduce", "tensor", Role::Activations, "layer/mlp", 12),
      collective(s, "all_reduce", "data", Role::Gradients, "embedding/table",
                 1)};
  EXPECT_TRUE(s.expect(&train)) << s.diags.text();

  train.collectives.push_back(
      collective(s, "all_gather", "tensor", Role::Weights, "layer/mlp/up", 12));
  Source t(text);
  EXPECT_FALSE(t.expect(&train));
  EXPECT_EQ(t.diags.errorCount(), 2u) << t.diags.text();
  const Diagnostic &no = t.diags.all()[0];
  EXPECT_EQ(no.message, "the plan has 12 all_gather on tensor for weights a "
                        "step, and promises none");
  ASSERT_EQ(no.notes.size(), 1u);
  EXPECT_EQ(no.notes[0].message,
            "m.clv:7: all_gather on `tensor`, 12 times a step, at dot over "
            "ff: `shard ff on tensor` leaves a sum");
  EXPECT_EQ(no.help[0], "do not shard `ff`");
  EXPECT_EQ(t.diags.all()[1].message,
            "collectives: found 37 a step, wanted == 25");
}

TEST(Expect, withoutAPartitionedProgramItIsSaid) {
  Source s(planText("mesh [data: 2]\nexpect no all_gather on data\n"
                    "expect peak(memory) <= 2 GiB"));
  EXPECT_TRUE(s.expect());
  EXPECT_EQ(s.kinds(), (std::vector<Diag>{Diag::ContractNotChecked,
                                          Diag::ContractNotChecked}));
}

TEST(Expect, bubbleAndPeakAreOfTheSimulatedPlan) {
  std::string text = planText("mesh [pipe: 2]\nmicro batch into 8\n"
                              "pipeline layer on pipe with one_f_one_b\n"
                              "expect bubble <= 12%\n"
                              "expect peak(memory) <= 2 GiB") +
                     "schedule one_f_one_b(stage, stages, micro) "
                     "{ for m in 0 .. micro { forward m; backward m } }\n";
  Source kept(text);
  EXPECT_TRUE(kept.expect(nullptr, 1.0 / 9, int64_t(2) << 30))
      << kept.diags.text();
  EXPECT_EQ(kept.kinds(), std::vector<Diag>()) << kept.diags.text();
  Source broken(text);
  EXPECT_FALSE(broken.expect(nullptr, 0.125, (int64_t(2) << 30) + 1));
  ASSERT_EQ(broken.diags.errorCount(), 2u) << broken.diags.text();
  EXPECT_EQ(broken.diags.all()[0].message,
            "`bubble <= 12%` does not hold: found 0.125, wanted <= 0.12");
  EXPECT_EQ(broken.diags.all()[1].kind, Diag::ContractFails);
  // Not known here: said, not passed over.
  Source unknown(text);
  EXPECT_TRUE(unknown.expect());
  EXPECT_EQ(unknown.kinds(), (std::vector<Diag>{Diag::ContractNotChecked,
                                                Diag::ContractNotChecked}));
  // Without stages none of them waits for another.
  Source alone(planText("mesh [data: 2]\nexpect bubble == 0"));
  EXPECT_TRUE(alone.expect()) << alone.diags.text();
}

// The schedule's own bubble and the simulated one are two things.
TEST(Expect, bubblesOfEqualTimesAndSimulated) {
  auto text = [](const std::string &contract) {
    return planText("mesh [pipe: 2]\nmicro batch into 8\n"
                    "pipeline layer on pipe with one_f_one_b\nexpect " +
                    contract) +
           "schedule one_f_one_b(stage, stages, micro) "
           "{ for m in 0 .. micro { forward m; backward m } }\n";
  };
  Source kept(text("bubble == 1.0 / 9 and bubble(simulated) <= 20%"));
  EXPECT_TRUE(kept.expect(nullptr, 1.0 / 9, -1, 0.19)) << kept.diags.text();
  Source broken(text("bubble(simulated) <= 12%"));
  EXPECT_FALSE(broken.expect(nullptr, 1.0 / 9, -1, 0.125));
  ASSERT_EQ(broken.diags.errorCount(), 1u) << broken.diags.text();
  EXPECT_EQ(broken.diags.all()[0].message,
            "`bubble(simulated) <= 12%` does not hold: found 0.125, wanted <= "
            "0.12");
  Source other(text("bubble(measured) <= 12%"));
  EXPECT_FALSE(other.expect(nullptr, 1.0 / 9, -1, 0.125));
  EXPECT_NE(other.diags.text().find("write `bubble` or `bubble(simulated)`"),
            std::string::npos)
      << other.diags.text();
  Source unknown(text("bubble(simulated) <= 12%"));
  EXPECT_TRUE(unknown.expect(nullptr, 1.0 / 9));
  EXPECT_EQ(unknown.kinds(), (std::vector<Diag>{Diag::ContractNotChecked}));
}

TEST(Expect, noDeviceSendsForTwoStages) {
  // Stage 0 sends 100 + 20 bytes, stage 1 30 + 80; both send the 15.
  Source s(planText("mesh [pipe: 2]\n"
                    "expect bytes of all_gather on pipe == 120 B\n"
                    "expect bytes of collectives on pipe == 135 B\n"
                    "expect all_gather on pipe == 8"));
  layout::ProgramRecord train;
  train.collectives = {
      collective(s, "all_gather", "pipe", Role::Activations, "layer/mlp", 4),
      collective(s, "all_gather", "pipe", Role::Activations, "embedding", 4),
      collective(s, "all_reduce", "pipe", Role::Gradients, "embedding", 1)};
  train.collectives[0].stageBytes = {100, 30};
  train.collectives[1].stageBytes = {20, 80};
  train.collectives[2].bytesBusiest = 15;
  EXPECT_TRUE(s.expect(&train)) << s.diags.text();
}

//===----------------------------------------------------------------------===//
// The language's own files
//===----------------------------------------------------------------------===//

/// Elaborates a plan of a file of test/lang/Inputs/language.
struct LanguageFile {
  SourceManager sources;
  DiagnosticEngine diags{sources};
  std::unique_ptr<Program> program;
  std::optional<Elaborated> result;
  ModelFacts facts;

  LanguageFile(const std::string &name, const std::string &plan,
               ModelFacts given)
      : facts(std::move(given)) {
    LoadOptions load;
    load.stdlib = {CLEAVE_SOURCE_DIR "/stdlib"};
    program =
        loadProgram(CLEAVE_SOURCE_DIR "/test/lang/Inputs/language/" + name,
                    load, sources, diags);
    if (program) {
      result = elaboratePlan(program->files, plan, facts, {}, diags);
    }
  }
  std::string layout(const std::string &path) {
    if (!result) {
      return diags.text();
    }
    for (const layout::ValueInfo &value : allValues(facts)) {
      if (value.path == path &&
          (value.role == Role::Params || value.role == Role::Activations)) {
        std::vector<std::string> names;
        for (const layout::NamedDim &dim : value.dims) {
          names.push_back(dim.name);
        }
        return layout::describe(layout::resolve(result->plan, value).layout,
                                names, result->plan.mesh);
      }
    }
    return "no `" + path + "`";
  }
};

ModelFacts tinyFacts() {
  ModelFacts facts;
  facts.model = "tiny";
  std::pair<const char *, int64_t> dims[] = {
      {"batch", 64}, {"seq", 16},   {"embed", 4096},  {"head", 64},
      {"key", 64},   {"ff", 10240}, {"vocab", 32128}, {"joined", 4096}};
  for (auto [name, size] : dims) {
    layout::DimInfo info;
    info.name = name;
    info.size = size;
    facts.dims.push_back(info);
  }
  std::pair<const char *, std::vector<std::string>> leaves[] = {
      {"table", {"vocab", "embed"}},
      {"q", {"embed", "head", "key"}},
      {"joint", {"embed", "joined"}},
      {"out", {"joined", "embed"}},
      {"up", {"embed", "ff"}},
      {"gain", {"embed"}},
      {"bias", {"head"}}};
  for (auto &[path, names] : leaves) {
    LeafFact fact;
    fact.path = path;
    fact.dims = valueOf(facts, Role::Params, path, "", names).dims;
    facts.leaves.push_back(fact);
  }
  facts.values = {
      valueOf(facts, Role::Activations, "x", "", {"batch", "seq", "embed"}),
      valueOf(facts, Role::Activations, "h", "", {"batch", "seq", "ff"})};
  return facts;
}

TEST(Language, t5xPriorities) {
  LanguageFile s("t5x.clv", "full_2d", tinyFacts());
  EXPECT_EQ(s.layout("table"), "[vocab: model, embed: data]");
  EXPECT_EQ(s.layout("joint"), "[embed: data, joined: model]");
  EXPECT_EQ(s.layout("out"), "[joined: model, embed: data]");
  EXPECT_EQ(s.layout("up"), "[embed: data, ff: model]");
  EXPECT_EQ(s.layout("gain"), "[embed: model]");
  EXPECT_EQ(s.layout("bias"), "[head: model]");
  EXPECT_EQ(s.layout("x"), "[batch: data, seq, embed: model]");
  LanguageFile d("t5x.clv", "documented", tinyFacts());
  EXPECT_EQ(d.layout("q"), "[embed: data, head: model, key]");
  EXPECT_EQ(d.layout("table"), "[vocab, embed: model]");
}

TEST(Language, bySizeNotByName) { // P22
  LanguageFile s("t5x.clv", "big_vision", tinyFacts());
  EXPECT_EQ(s.layout("table"), "[vocab: fsdp, embed]");
  EXPECT_EQ(s.layout("up"), "[embed, ff: fsdp]");
  EXPECT_EQ(s.layout("gain"), "[embed]"); // 16 KiB
  EXPECT_EQ(s.layout("x"), "[batch: fsdp, seq, embed]");
}

TEST(Language, nestedAxes) {
  LanguageFile s("t5x.clv", "folded", tinyFacts());
  EXPECT_EQ(s.layout("up"), "[embed, ff: tensor * ctx.round]");
  EXPECT_EQ(s.layout("x"), "[batch, seq: ctx.inner, embed]");
}

TEST(Language, badPlans) {
  std::tuple<const char *, Diag, const char *> cases[] = {
      {"twice", Diag::AxisTakenTwice,
       "`shard embed on model` cannot hold for `up` [embed, ff]: `model` is "
       "taken by `shard ff on model`"},
      {"typo", Diag::UnknownAxis, "unknown axis `modle`"},
      {"unfit", Diag::BadFreeSize,
       "8 * 64 = 512 does not divide 64 devices, so `rest` has no size"},
      {"skew", Diag::CutsDoNotNest, "these cuts do not nest"}};
  for (auto &[plan, kind, message] : cases) {
    LanguageFile s("t5x.clv", plan, tinyFacts());
    EXPECT_FALSE(s.result) << plan;
    ASSERT_EQ(s.diags.errorCount(), 1u) << plan << s.diags.text();
    EXPECT_EQ(codeOf(s.diags.all()[0].kind), codeOf(kind));
    EXPECT_NE(s.diags.all()[0].message.find(message), std::string::npos)
        << s.diags.all()[0].message;
  }
}

/// Published plans are refused for what is not built, and for nothing else.
TEST(Language, laterStatementsAlone) {
  using Kinds = std::vector<Diag>;
  struct Case {
    const char *file, *plan, *model;
    Kinds kinds;
  };
  Case cases[] = {
      {"p08_pax_2d.clv", "pax", "gpt3", {}},
      {"p10_levanter.clv", "two_maps", "gpt2", {}},
      {"p11_torchtitan_405b.clv", "titan", "llama", {Diag::LaterTune}},
      {"p17_bloom.clv", "full", "bloom", {}},
      {"p01_maxtext.clv", "v5p_4096_1t", "llama", {}},
      {"rest.clv", "x1", "llama", {}},
      {"rest.clv", "p16", "gpt3", {Diag::LaterTune}},
      {"rest.clv", "x3", "gpt3", {Diag::LaterKeep, Diag::LaterTune}},
  };
  for (const Case &each : cases) {
    LanguageFile s(each.file, each.plan, gptFacts(each.model));
    Kinds found;
    for (const Diagnostic &diagnostic : s.diags.all()) {
      if (diagnostic.severity == Severity::Error) {
        found.push_back(diagnostic.kind);
      }
    }
    EXPECT_EQ(found, each.kinds) << each.plan << "\n" << s.diags.text();
  }
}

//===----------------------------------------------------------------------===//
// The standard library's strategies
//===----------------------------------------------------------------------===//

TEST(Stdlib, strategies) {
  std::string use = "use std.parallel\n";
  Source s(use + planText("mesh [data: 2, tensor: 4]\n"
                          "use data_parallel(across: data)\n"
                          "use megatron_tp(across: tensor)\n"
                          "use zero(stage: 3, across: data, keep: 8 KB)"));
  ASSERT_TRUE(s.result) << s.diags.text();
  EXPECT_TRUE(s.diags.all().empty()) << s.diags.text();
  EXPECT_EQ(
      s.layout(Role::Activations, "layer/norm1", {"batch", "seq", "embed"}),
      "[batch: data, seq: tensor, embed]");
  EXPECT_EQ(
      s.layout(Role::Activations, "layer/attention", {"batch", "seq", "embed"}),
      "[batch: data, seq, embed]");
  EXPECT_EQ(s.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed: data, ff: tensor]");
  EXPECT_EQ(s.layout(Role::Weights, "layer/mlp/up", {"embed", "ff"}),
            "[embed, ff: tensor]");
  EXPECT_EQ(s.layout(Role::Optimizer, "layer/norm1/gain", {"embed"}),
            "[embed]");

  Source u(use + planText("mesh [data: 2, sequence: 4]\n"
                          "use data_parallel(data)\nuse ulysses(sequence)"));
  ASSERT_TRUE(u.result) << u.diags.text();
  EXPECT_EQ(u.layout(Role::Activations, "layer/attention",
                     {"batch", "seq", "kv", "group", "key"}, "query"),
            "[batch: data, seq: sequence, kv, group, key]");
  EXPECT_EQ(u.layout(Role::Activations, "layer/attention/attend",
                     {"batch", "seq", "kv", "group", "keys"}, "score"),
            "[batch: data, seq, kv: sequence, group, keys]");
}

} // namespace
