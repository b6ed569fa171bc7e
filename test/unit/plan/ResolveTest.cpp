//===- ResolveTest.cpp - Rules 4 to 7, and the published resolutions ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "layout/Plan.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace cleave::layout;

namespace {

Selection all() { return {}; }
Selection role(Role role) {
  Selection selection;
  selection.kind = Selection::Kind::Role;
  selection.role = role;
  return selection;
}
Selection path(const std::string &text) {
  Selection selection;
  selection.kind = Selection::Kind::Path;
  std::stringstream stream(text);
  for (std::string step; std::getline(stream, step, '/');) {
    if (step.empty()) {
      selection.anchored = true;
    } else {
      Step one;
      one.name = step;
      selection.path.push_back(one);
    }
  }
  return selection;
}
Selection combine(Selection::Kind kind, std::vector<Selection> children) {
  Selection selection;
  selection.kind = kind;
  selection.children = std::move(children);
  return selection;
}
Selection stored() {
  return combine(
      Selection::Kind::Any,
      {role(Role::Params), role(Role::Gradients), role(Role::Optimizer)});
}

/// Plans in a few words; every mesh axis is one atom unless given more.
struct Builder {
  Plan plan;

  Builder &axis(const std::string &name, std::vector<int64_t> sizes) {
    Axis axis{name, {}};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] > 1) {
        axis.atoms.push_back(static_cast<AtomId>(plan.mesh.atoms.size()));
        plan.mesh.atoms.push_back(
            {sizes.size() > 1 ? name + "." + std::to_string(i + 1) : name,
             sizes[i]});
      }
    }
    plan.mesh.axes.push_back(axis);
    return *this;
  }
  Builder &dim(const std::string &name, int64_t size) {
    plan.dims.push_back({name, size, {}, {}, "", false});
    return *this;
  }
  Builder &repeat(const std::string &name, int64_t size) {
    dim(name, size);
    plan.dims.back().repeated = true;
    return *this;
  }
  Builder &like(const std::string &name, int64_t size, const std::string &of) {
    dim(name, size);
    plan.dims.back().like = of;
    return *this;
  }

  /// `on`: axes joined by `*`, a trailing `?` marks one; `none`.
  ShardStatement &product(std::vector<std::string> dims,
                          std::vector<std::string> on, Selection selection) {
    ShardStatement statement;
    statement.largest = dims == std::vector<std::string>{"largest"};
    if (!statement.largest) {
      statement.dims = dims;
    }
    statement.yields = on.size() > 1;
    std::string text = "shard " + dims[0] + " on ";
    for (const std::string &words : on) {
      Alternative alternative;
      alternative.text = words;
      text += (alternative.text == on[0] ? "" : " else ") + words;
      std::stringstream stream(words);
      for (std::string name; std::getline(stream, name, '*');) {
        bool optional = name.back() == '?';
        statement.yields |= optional;
        const Axis *axis = plan.mesh.findAxis(
            optional ? name.substr(0, name.size() - 1) : name);
        if (name == "none") {
          continue;
        }
        EXPECT_NE(axis, nullptr) << name;
        for (AtomId atom : axis->atoms) {
          alternative.atoms.push_back(atom);
          if (optional) {
            alternative.optional.push_back(atom);
          }
        }
        if (optional) {
          alternative.optionalRefs.push_back(axis->atoms);
        }
      }
      statement.alternatives.push_back(alternative);
    }
    statement.selection = std::move(selection);
    statement.source = {"a.clv", static_cast<uint32_t>(plan.shards.size() + 1),
                        3, text};
    plan.shards.push_back(statement);
    return plan.shards.back();
  }
  ShardStatement &shard(const std::string &dim, const std::string &on,
                        Selection selection = all()) {
    std::vector<std::string> alternatives;
    std::string rest = on;
    for (size_t at; (at = rest.find(" else ")) != std::string::npos;) {
      alternatives.push_back(rest.substr(0, at));
      rest = rest.substr(at + 6);
    }
    alternatives.push_back(rest);
    return product(std::vector<std::string>{dim}, alternatives,
                   std::move(selection));
  }
  ShardStatement &also(const std::string &dim, const std::string &on,
                       Selection selection = all()) {
    ShardStatement &statement = shard(dim, on, std::move(selection));
    statement.also = true;
    return statement;
  }

  ValueInfo value(Role role, const std::string &path,
                  std::vector<std::string> names) const {
    ValueInfo value;
    value.role = role;
    value.phase = role == Role::Gradients   ? Phase::Backward
                  : role == Role::Optimizer ? Phase::Update
                                            : Phase::Forward;
    value.path = path;
    for (const std::string &name : names) {
      for (const DimInfo &info : plan.dims) {
        if (info.name == name) {
          value.dims.push_back({name, info.size});
        }
      }
    }
    EXPECT_EQ(value.dims.size(), names.size()) << path;
    return value;
  }
  std::string layout(const ValueInfo &value) const {
    Resolved resolved = resolve(plan, value);
    if (!resolved.error.empty()) {
      return "error: " + resolved.error;
    }
    std::vector<std::string> names;
    for (const NamedDim &dim : value.dims) {
      names.push_back(dim.name);
    }
    return describe(resolved.layout, names, plan.mesh);
  }
  std::string layout(Role role, const std::string &path,
                     std::vector<std::string> names) const {
    return layout(value(role, path, std::move(names)));
  }
  std::string local(Role role, const std::string &path,
                    std::vector<std::string> names) const {
    ValueInfo info = value(role, path, std::move(names));
    Resolved resolved = resolve(plan, info);
    std::string text;
    for (size_t i = 0; i < info.dims.size(); ++i) {
      text += (i ? "," : "") +
              std::to_string(largestPiece(info.dims[i].size,
                                          resolved.layout.dims[i], plan.mesh));
    }
    return text;
  }
};

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

ValueInfo named(Role role, const std::string &path,
                const std::string &label = "", const std::string &reader = "") {
  ValueInfo value;
  value.role = role;
  value.path = path;
  value.label = label;
  value.reader = reader;
  return value;
}

TEST(Match, paths) {
  ValueInfo wq = named(Role::Params, "layer/attention/wq");
  EXPECT_TRUE(matches(path("attention"), wq));
  EXPECT_TRUE(matches(path("attention/wq"), wq));
  EXPECT_TRUE(matches(path("layer/attention"), wq));
  EXPECT_TRUE(matches(path("/layer"), wq));
  EXPECT_TRUE(matches(path("layer/*/wq"), wq));
  EXPECT_TRUE(matches(path("/**/wq"), wq));
  EXPECT_FALSE(matches(path("/attention"), wq));
  EXPECT_FALSE(matches(path("layer/wq"), wq));
  EXPECT_FALSE(matches(path("/layer/*/*/wq"), wq));
  EXPECT_FALSE(matches(path("atten"), wq));
  EXPECT_TRUE(matches(path("mlp/mlp_out"),
                      named(Role::Activations, "layer/mlp", "mlp_out")));
  // All parts of a packed projection, and one of them.
  ValueInfo packed = named(Role::Params, "layer/attention/wqkv.q");
  EXPECT_TRUE(matches(path("wqkv"), packed));
  EXPECT_TRUE(matches(path("wqkv.q"), packed));
  EXPECT_FALSE(matches(path("wqkv.k"), packed));
}

TEST(Match, weightsBelongToTheirReaderToo) {
  ValueInfo tied = named(Role::Weights, "embedding/table", "", "output");
  EXPECT_TRUE(matches(path("output"), tied));
  EXPECT_TRUE(matches(path("embedding"), tied));
  tied.role = Role::Params;
  EXPECT_FALSE(matches(path("output"), tied));
}

TEST(Match, regionsByTheirFunction) {
  Selection norm = path("norm");
  norm.path[0].regions = {"layer/norm1", "final"};
  EXPECT_TRUE(matches(norm, named(Role::Params, "layer/norm1/gain")));
  EXPECT_TRUE(matches(norm, named(Role::Params, "final/gain")));
  EXPECT_TRUE(matches(norm, named(Role::Params, "output/norm/gain")));
  EXPECT_FALSE(matches(norm, named(Role::Params, "other/norm1/gain")));
}

TEST(Match, clausesFilterWhatIsLeftOfThem) {
  Selection selection = combine(
      Selection::Kind::Except,
      {combine(Selection::Kind::In, {role(Role::Activations), path("layer")}),
       combine(Selection::Kind::Any, {path("attention"), path("mlp")})});
  EXPECT_TRUE(matches(selection, named(Role::Activations, "layer/norm1")));
  EXPECT_FALSE(matches(selection, named(Role::Activations, "layer/mlp")));
  EXPECT_FALSE(matches(selection, named(Role::Activations, "output")));
  EXPECT_FALSE(matches(selection, named(Role::Params, "layer/norm1/gain")));
}

TEST(Match, whereCountsOneIteration) {
  Selection big = combine(Selection::Kind::Where, {all()});
  big.attribute = "bytes";
  big.comparison = ">";
  big.number = 4000;
  big.repeated = {"layer"};
  ValueInfo value = named(Role::Params, "layer/mlp/up");
  value.dims = {{"layer", 100}, {"embed", 10}, {"ff", 100}};
  EXPECT_FALSE(matches(big, value));
  value.dims[2].size = 101;
  EXPECT_TRUE(matches(big, value));
  big.attribute = "rank";
  big.comparison = "==";
  big.number = 2;
  EXPECT_TRUE(matches(big, value));
}

//===----------------------------------------------------------------------===//
// The rules, one at a time
//===----------------------------------------------------------------------===//

Builder small() {
  Builder b;
  b.axis("data", {4}).axis("tensor", {2}).axis("one", {1});
  b.dim("batch", 8).dim("seq", 16).dim("embed", 64).dim("ff", 256);
  b.repeat("layer", 12);
  return b;
}

TEST(Resolve, notNamedIsWhole) {
  Builder b = small();
  b.shard("batch", "data");
  EXPECT_EQ(b.layout(Role::Activations, "layer", {"batch", "seq"}),
            "[batch: data, seq]");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}), "[embed, ff]");
  EXPECT_EQ(b.layout(Role::Activations, "", {}), "[]");
}

TEST(Resolve, theLastPlainGovernsEachDim) {
  Builder b = small();
  b.shard("ff", "data");
  b.shard("ff", "tensor");
  b.shard("ff", "none", path("output"));
  EXPECT_EQ(b.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed, ff: tensor]");
  EXPECT_EQ(b.layout(Role::Params, "output/up", {"embed", "ff"}),
            "[embed, ff]");
  Resolved resolved =
      resolve(b.plan, b.value(Role::Params, "layer/mlp/up", {"embed", "ff"}));
  EXPECT_EQ(resolved.governing, std::vector<int>{1});
  EXPECT_EQ(resolved.choices[1].statement, 1);
  EXPECT_EQ(resolved.choices[1].sentence, "`shard ff on tensor` at a.clv:2");
  EXPECT_EQ(resolved.choices[0].statement, -1);
}

TEST(Resolve, alsoAppendsMinorAxesInSourceOrder) {
  Builder b = small();
  b.axis("extra", {3});
  b.shard("seq", "data");
  b.also("seq", "extra else none");
  b.also("seq", "tensor");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"seq"}),
            "[seq: data * extra * tensor]");
}

TEST(Resolve, aPlainStatementDiscardsAlsosBeforeIt) {
  Builder b = small();
  b.also("seq", "tensor");
  b.shard("seq", "data");
  ValueInfo x = b.value(Role::Activations, "x", {"seq"});
  EXPECT_EQ(b.layout(x), "[seq: data]");
  Resolved resolved = resolve(b.plan, x);
  ASSERT_EQ(resolved.discarded.size(), 1u);
  EXPECT_EQ(resolved.discarded[0], std::make_pair(0, 1));
  EXPECT_EQ(resolved.governing, std::vector<int>{1});
}

TEST(Resolve, anAxisUsedTwiceIsAnErrorThatNamesBoth) {
  Builder b = small();
  b.shard("ff", "tensor");
  b.shard("embed", "tensor");
  Resolved resolved =
      resolve(b.plan, b.value(Role::Params, "mlp/up", {"embed", "ff"}));
  EXPECT_EQ(resolved.error,
            "`shard embed on tensor` cannot hold for `mlp/up` [embed, ff]: "
            "`tensor` is taken by `shard ff on tensor` at a.clv:1");
  EXPECT_EQ(resolved.errorAt.line, 2u);
  EXPECT_EQ(resolved.errorOther.line, 1u);
}

TEST(Resolve, anAxisOfSizeOneIsNeverTaken) {
  Builder b = small();
  b.shard("ff", "one");
  b.shard("embed", "one");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}), "[embed, ff]");
  // Nor is it skipped: its alternative fits.
  b.shard("ff", "one else data");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}), "[embed, ff]");
}

TEST(Resolve, whatYieldsClaimsAfterWhatDoesNot) {
  Builder b = small();
  b.shard("embed", "tensor else data");
  b.shard("ff", "tensor");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
            "[embed: data, ff: tensor]");
  Resolved resolved =
      resolve(b.plan, b.value(Role::Params, "up", {"embed", "ff"}));
  EXPECT_EQ(resolved.choices[0].alternative, 1);
  EXPECT_NE(resolved.choices[0].sentence.find(
                "second choice: `tensor` is taken by `shard ff on tensor`"),
            std::string::npos)
      << resolved.choices[0].sentence;
}

TEST(Resolve, amongThoseThatYieldTheLaterIsStronger) {
  Builder b = small();
  b.shard("embed", "tensor else none");
  b.shard("ff", "tensor else none");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
            "[embed, ff: tensor]");
}

TEST(Resolve, aMarkedReferenceIsLeftOutWhereTaken) {
  Builder b = small();
  b.shard("ff", "tensor");
  b.shard("embed", "data*tensor?");
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
            "[embed: data, ff: tensor]");
  EXPECT_EQ(b.layout(Role::Params, "gain", {"embed"}),
            "[embed: data * tensor]");
}

TEST(Resolve, evenMustDivide) {
  Builder b = small();
  b.axis("six", {6});
  b.shard("embed", "six").even = true;
  EXPECT_EQ(b.layout(Role::Params, "gain", {"embed"}),
            "error: `shard embed on six` cannot hold for `gain` [embed]: "
            "`embed` (64) cannot be split evenly on `six` (6)");
  b.shard("embed", "six else tensor").even = true;
  EXPECT_EQ(b.layout(Role::Params, "gain", {"embed"}), "[embed: tensor]");
  b.shard("embed", "six");
  EXPECT_EQ(b.layout(Role::Params, "gain", {"embed"}), "[embed: six]");
  EXPECT_EQ(b.local(Role::Params, "gain", {"embed"}), "11");
}

TEST(Resolve, likeDimsFollow) {
  Builder b = small();
  b.dim("row", 32).like("row2", 16, "row").like("row4", 8, "row2");
  b.shard("row", "data");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"row4"}), "[row4: data]");
  // Where both stand in one value, the named one has the axis.
  EXPECT_EQ(b.layout(Role::Activations, "x", {"row2", "row"}),
            "[row2, row: data]");
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Builder heads(int64_t kv, int64_t group, std::vector<int64_t> tensor) {
  Builder b;
  b.axis("data", {4}).axis("tensor", std::move(tensor));
  b.dim("embed", 4096).dim("kv", kv).dim("group", group).dim("key", 64);
  b.product({"kv", "group"}, {"tensor"}, all());
  return b;
}

TEST(Resolve, aProductPassesItsSplitToItsFactors) {
  Builder whole = heads(16, 4, {8});
  EXPECT_EQ(whole.layout(Role::Params, "wq", {"embed", "kv", "group", "key"}),
            "[embed, kv: tensor, group, key]");
  // 8 kv heads on 16: each is held by a pair; queries are cut sixteenfold.
  Builder pairs = heads(8, 16, {8, 2});
  EXPECT_EQ(pairs.layout(Role::Params, "wq", {"embed", "kv", "group", "key"}),
            "[embed, kv: tensor.1, group: tensor.2, key]");
  EXPECT_EQ(pairs.layout(Role::Params, "wk", {"embed", "kv", "key"}),
            "[embed, kv: tensor.1, key]");
  // 7 heads over 4, unevenly; 2 kv heads on 4 with 3 queries each: 2, then 3
  // over 2.
  EXPECT_EQ(heads(7, 1, {4}).local(Role::Params, "wk", {"kv", "key"}), "2,64");
  EXPECT_EQ(heads(2, 3, {2, 2}).local(Role::Params, "wq", {"kv", "group"}),
            "1,2");
  // A smaller factor takes what divides: nothing of 4 for 3 heads.
  EXPECT_EQ(heads(3, 8, {4}).layout(Role::Params, "wq", {"kv", "group"}),
            "[kv, group: tensor]");
}

TEST(Resolve, evenOnAProductRefusesReplicas) {
  Builder b = heads(8, 1, {8, 2});
  b.plan.shards[0].even = true;
  EXPECT_NE(b.layout(Role::Params, "wk", {"embed", "kv", "key"})
                .find("take 8 of the 16 coordinates of `tensor`"),
            std::string::npos);
}

TEST(Resolve, aFactorMayBeGovernedByAnotherStatement) {
  Builder b = heads(16, 4, {4});
  b.shard("kv", "none");
  EXPECT_EQ(b.layout(Role::Params, "wq", {"kv", "group"}),
            "[kv, group: tensor]");
}

TEST(Resolve, alsoOnAProduct) {
  Builder b = heads(8, 4, {4});
  ShardStatement &also = b.product({"kv", "group"}, {"data"}, all());
  also.also = true;
  // kv is 2 on each of tensor's coordinates, less than 4: it takes what
  // divides, and one atom of 4 does not.
  EXPECT_EQ(b.layout(Role::Params, "wq", {"kv", "group"}),
            "[kv: tensor, group: data]");
}

//===----------------------------------------------------------------------===//
// `largest`, and ZeRO
//===----------------------------------------------------------------------===//

TEST(Resolve, largestTakesTheLargestLocalExtent) {
  Builder b = small();
  b.shard("ff", "tensor");
  b.also("largest", "data else none", role(Role::Optimizer)).yields = true;
  ValueInfo up =
      b.value(Role::Optimizer, "layer/mlp/up", {"layer", "embed", "ff"});
  EXPECT_EQ(b.layout(up), "[layer, embed, ff: tensor * data]");
  up.role = Role::Params;
  EXPECT_EQ(b.layout(up), "[layer, embed, ff: tensor]");
  EXPECT_EQ(b.layout(Role::Optimizer, "gain", {"layer", "embed"}),
            "[layer, embed: data]");
  EXPECT_EQ(b.layout(Role::Optimizer, "scalar", {"layer"}), "[layer]");
  // Ties go to the first in the type.
  b.dim("width", 64);
  EXPECT_EQ(b.layout(Role::Optimizer, "w", {"width", "embed"}),
            "[width: data, embed]");
}

TEST(Resolve, plainLargestTakesAFreeDim) {
  Builder b = small();
  b.shard("ff", "tensor");
  b.shard("largest", "data else none", stored());
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
            "[embed: data, ff: tensor]");
  b.dim("odd", 999);
  b.plan.shards.back().even = true;
  EXPECT_EQ(b.layout(Role::Params, "w", {"odd", "embed"}),
            "[odd, embed: data]");
  EXPECT_EQ(b.layout(Role::Params, "w", {"odd"}), "[odd]");
}

TEST(Resolve, gradientsFollowTheOptimizerAndItTheParameter) {
  Builder b = small();
  b.shard("ff", "tensor");
  b.shard("embed", "data", role(Role::Params));
  for (Role role : {Role::Params, Role::Gradients, Role::Optimizer}) {
    EXPECT_EQ(b.layout(role, "up", {"embed", "ff"}),
              "[embed: data, ff: tensor]");
  }
  EXPECT_EQ(b.layout(Role::Weights, "up", {"embed", "ff"}),
            "[embed, ff: tensor]");
  b.shard("embed", "none", role(Role::Optimizer));
  EXPECT_EQ(b.layout(Role::Optimizer, "up", {"embed", "ff"}),
            "[embed, ff: tensor]");
  EXPECT_EQ(b.layout(Role::Gradients, "up", {"embed", "ff"}),
            "[embed, ff: tensor]");
}

TEST(Resolve, zero) {
  for (int stage = 1; stage <= 3; ++stage) {
    Builder b = small();
    b.shard("batch", "data");
    Role roles[] = {Role::Optimizer, Role::Gradients, Role::Params};
    for (int i = 0; i < stage; ++i) {
      b.also("largest", "data else none", role(roles[i]));
    }
    std::string cut = "[embed, ff: data]", whole = "[embed, ff]";
    EXPECT_EQ(b.layout(Role::Optimizer, "up", {"embed", "ff"}), cut);
    // Unstated in stage 1: the optimizer's, so that it pays a reduce-scatter.
    EXPECT_EQ(b.layout(Role::Gradients, "up", {"embed", "ff"}), cut);
    EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
              stage == 3 ? cut : whole);
    EXPECT_EQ(b.layout(Role::Weights, "up", {"embed", "ff"}), whole);
  }
}

//===----------------------------------------------------------------------===//
// Published resolutions
//===----------------------------------------------------------------------===//

TEST(Published, t5xFull2D) { // P06, rule set (2,2)
  Builder b;
  b.axis("data", {16}).axis("model", {8});
  b.dim("batch", 64).dim("length", 512).dim("embed", 4096).dim("heads", 64);
  b.dim("kv", 64).dim("mlp", 10240).dim("vocab", 32128).dim("joined", 4096);
  b.dim("relpos", 32);
  b.shard("batch", "data");
  b.shard("embed", "model else data");
  b.shard("vocab", "model else none");
  for (const char *dim : {"mlp", "heads", "joined"}) {
    b.shard(dim, "model");
  }
  EXPECT_EQ(b.layout(Role::Params, "table", {"vocab", "embed"}),
            "[vocab: model, embed: data]");
  EXPECT_EQ(b.layout(Role::Params, "q", {"embed", "joined"}),
            "[embed: data, joined: model]");
  EXPECT_EQ(b.layout(Role::Params, "out", {"joined", "embed"}),
            "[joined: model, embed: data]");
  EXPECT_EQ(b.layout(Role::Params, "in", {"embed", "mlp"}),
            "[embed: data, mlp: model]");
  EXPECT_EQ(b.layout(Role::Params, "scale", {"embed"}), "[embed: model]");
  EXPECT_EQ(b.layout(Role::Params, "bias", {"heads", "relpos"}),
            "[heads: model, relpos]");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"batch", "length", "embed"}),
            "[batch: data, length, embed: model]");
  EXPECT_EQ(
      b.layout(Role::Activations, "h", {"batch", "length", "heads", "kv"}),
      "[batch: data, length, heads: model, kv]");
}

TEST(Published, t5xDocumented) {
  Builder b;
  b.axis("data", {16}).axis("model", {8});
  b.dim("embed", 4096).dim("head", 64).dim("vocab", 32128);
  b.shard("vocab", "model else none");
  b.shard("embed", "model else data");
  b.shard("head", "model");
  EXPECT_EQ(b.layout(Role::Params, "q", {"embed", "head"}),
            "[embed: data, head: model]");
  EXPECT_EQ(b.layout(Role::Params, "table", {"vocab", "embed"}),
            "[vocab, embed: model]");
}

TEST(Published, maxtextBaseRules) { // P01: fsdp 512, every other axis 1
  Builder b;
  for (const char *axis : {"data", "fsdp_t", "context", "ulysses", "tensor",
                           "tensor_seq", "expert", "autoreg"}) {
    b.axis(axis, {1});
  }
  b.axis("fsdp", {512});
  b.dim("batch", 1024).dim("seq", 8192).dim("embed", 16384).dim("ff", 53248);
  b.dim("vocab", 128256).dim("kv", 8).dim("group", 16).dim("key", 128);
  b.shard("batch", "data*fsdp*fsdp_t*expert");
  b.shard("seq", "context*ulysses");
  b.shard("ff", "tensor*tensor_seq");
  b.shard("embed", "tensor", role(Role::Activations));
  b.shard("ff", "fsdp_t*tensor*tensor_seq*autoreg", stored());
  b.shard("embed", "fsdp*fsdp_t?*context*ulysses*expert", stored());
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}), "[embed: fsdp, ff]");
  EXPECT_EQ(b.local(Role::Params, "up", {"embed", "ff"}), "32,53248");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"batch", "seq", "embed"}),
            "[batch: fsdp, seq, embed]");
  EXPECT_EQ(b.layout(Role::Weights, "up", {"embed", "ff"}), "[embed, ff]");
}

Builder pax() { // P08
  Builder b;
  b.axis("data", {64}).axis("mdl", {24});
  b.dim("batch", 1536).dim("seq", 2048).dim("embed", 12288).dim("ff", 49152);
  b.dim("vocab", 51200).dim("kv", 96).dim("group", 1).dim("key", 128);
  b.repeat("layer", 96);
  b.shard("batch", "data");
  b.product({"kv", "group"}, {"mdl"}, all());
  b.shard("ff", "mdl");
  b.shard("vocab", "mdl");
  b.shard("embed", "mdl", role(Role::Activations));
  b.shard("embed", "data", stored());
  return b;
}

TEST(Published, pax2D) {
  Builder b = pax();
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}),
            "[embed: data, ff: mdl]");
  EXPECT_EQ(b.local(Role::Params, "up", {"embed", "ff"}), "192,2048");
  EXPECT_EQ(b.layout(Role::Params, "down", {"ff", "embed"}),
            "[ff: mdl, embed: data]");
  EXPECT_EQ(b.layout(Role::Params, "wq", {"embed", "kv", "group", "key"}),
            "[embed: data, kv: mdl, group, key]");
  EXPECT_EQ(b.local(Role::Params, "wq", {"embed", "kv", "group", "key"}),
            "192,4,1,128");
  EXPECT_EQ(b.layout(Role::Params, "table", {"vocab", "embed"}),
            "[vocab: mdl, embed: data]");
  EXPECT_EQ(b.local(Role::Params, "table", {"vocab", "embed"}), "2134,192");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"batch", "seq", "embed"}),
            "[batch: data, seq, embed: mdl]");
  EXPECT_EQ(b.local(Role::Activations, "x", {"batch", "seq", "embed"}),
            "24,2048,512");
  EXPECT_EQ(b.layout(Role::Activations, "h", {"batch", "seq", "ff"}),
            "[batch: data, seq, ff: mdl]");
  EXPECT_EQ(b.layout(Role::Activations, "logits", {"batch", "seq", "vocab"}),
            "[batch: data, seq, vocab: mdl]");
}

TEST(Published, levanterTwoMaps) { // P10 on data 64
  Builder b;
  b.axis("data", {64}).axis("model", {1});
  b.dim("embed", 6144).dim("ff", 24576).dim("vocab", 50257).dim("batch", 1024);
  b.shard("batch", "data");
  b.shard("ff", "model");
  b.shard("vocab", "model");
  b.shard("embed", "data", stored());
  EXPECT_EQ(b.layout(Role::Params, "up", {"embed", "ff"}), "[embed: data, ff]");
  EXPECT_EQ(b.local(Role::Params, "up", {"embed", "ff"}), "96,24576");
  EXPECT_EQ(b.layout(Role::Weights, "up", {"embed", "ff"}), "[embed, ff]");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"batch", "embed"}),
            "[batch: data, embed]");
}

TEST(Published, torchtitan) { // P11 on data 8, context 2, tensor 8
  Builder b;
  b.axis("data", {8}).axis("context", {2}).axis("tensor", {8});
  b.dim("batch", 256).dim("seq", 8192).dim("keys", 8192).dim("embed", 16384);
  b.dim("ff", 53248).dim("vocab", 128256);
  b.dim("kv", 8).dim("group", 16).dim("key", 128);
  b.shard("batch", "data");
  b.shard("seq", "context");
  b.product({"kv", "group"}, {"tensor"}, all());
  b.shard("ff", "tensor");
  b.shard("vocab", "tensor");
  b.also("seq", "tensor",
         combine(Selection::Kind::Except,
                 {role(Role::Activations),
                  combine(Selection::Kind::Any,
                          {path("attention"), path("mlp"), path("output")})}));
  for (Role kept : {Role::Optimizer, Role::Gradients, Role::Params}) {
    b.also("largest", "data*context else none", role(kept));
  }
  EXPECT_EQ(
      b.layout(Role::Activations, "layer/norm1", {"batch", "seq", "embed"}),
      "[batch: data, seq: context * tensor, embed]");
  EXPECT_EQ(
      b.layout(Role::Activations, "layer/attention", {"batch", "seq", "embed"}),
      "[batch: data, seq: context, embed]");
  EXPECT_EQ(b.layout(Role::Activations, "layer/attention",
                     {"batch", "seq", "kv", "group", "key"}),
            "[batch: data, seq: context, kv: tensor, group, key]");
  EXPECT_EQ(b.layout(Role::Activations, "layer/attention/attend",
                     {"batch", "keys", "kv", "key"}),
            "[batch: data, keys, kv: tensor, key]");
  EXPECT_EQ(b.layout(Role::Params, "embedding/table", {"vocab", "embed"}),
            "[vocab: tensor, embed: data * context]");
  EXPECT_EQ(b.layout(Role::Params, "layer/mlp/down", {"ff", "embed"}),
            "[ff: tensor, embed: data * context]");
  EXPECT_EQ(b.layout(Role::Weights, "layer/mlp/down", {"ff", "embed"}),
            "[ff: tensor, embed]");
  EXPECT_EQ(b.layout(Role::Params, "layer/norm1/gain", {"embed"}),
            "[embed: data * context]");
}

TEST(Published, easyLM) { // X1
  Builder b;
  b.axis("dp", {4}).axis("fsdp", {64}).axis("mp", {1});
  b.dim("batch", 2048).dim("embed", 4096).dim("ff", 11008).dim("vocab", 32000);
  b.shard("batch", "dp*fsdp");
  b.shard("embed", "fsdp", stored());
  b.shard("ff", "mp");
  b.shard("vocab", "mp");
  b.shard("embed", "none", path("norm"));
  EXPECT_EQ(b.layout(Role::Params, "layer/mlp/up", {"embed", "ff"}),
            "[embed: fsdp, ff]");
  EXPECT_EQ(b.local(Role::Params, "layer/mlp/up", {"embed", "ff"}), "64,11008");
  EXPECT_EQ(b.layout(Role::Params, "layer/norm/gain", {"embed"}), "[embed]");
  EXPECT_EQ(b.layout(Role::Activations, "x", {"batch", "embed"}),
            "[batch: dp * fsdp, embed]");
}

TEST(Resolve, explainsUnevenPiecesAndReplicas) {
  Builder b = pax();
  Resolved table =
      resolve(b.plan, b.value(Role::Params, "table", {"vocab", "embed"}));
  EXPECT_EQ(table.choices[0].sentence,
            "`shard vocab on mdl` at a.clv:4; 51200 over 24 in pieces of 2133 "
            "and 2134");
  Builder pairs = heads(8, 16, {16});
  Resolved wk = resolve(
      pairs.plan, pairs.value(Role::Params, "wk", {"embed", "kv", "key"}));
  // One atom of 16 cannot be cut here; who made the mesh is told where.
  EXPECT_TRUE(wk.wantsCut);
  EXPECT_EQ(wk.wantedAtom, 1u);
  EXPECT_EQ(wk.wantedSize, 8);
  pairs = heads(8, 16, {8, 2});
  wk = resolve(pairs.plan,
               pairs.value(Role::Params, "wk", {"embed", "kv", "key"}));
  EXPECT_FALSE(wk.wantsCut);
  EXPECT_EQ(wk.choices[1].sentence,
            "`shard kv on tensor` at a.clv:1; 8 pieces on the 16 coordinates "
            "of `tensor`, so 2 hold each");
}

} // namespace
