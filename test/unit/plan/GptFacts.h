//===- GptFacts.h - What plans know of a small transformer ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The facts of a GPT with grouped queries and a tied embedding, as elaborating
// the model would give them, written by hand.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PLAN_GPTFACTS_H
#define CLEAVE_TEST_UNIT_PLAN_GPTFACTS_H

#include "lang/plan/Elaborate.h"
#include "lang/plan/Expect.h"

#include <string>
#include <vector>

namespace cleave::plan {

struct GptSizes {
  int64_t layers = 12, batch = 32, seq = 1024, embed = 768, ff = 3072,
          vocab = 50304, kv = 12, group = 1, key = 64;
};

inline layout::ValueInfo valueOf(const ModelFacts &facts, layout::Role role,
                                 const std::string &path,
                                 const std::string &label,
                                 std::vector<std::string> dims) {
  layout::ValueInfo value;
  value.role = role;
  value.phase = role == layout::Role::Gradients   ? layout::Phase::Backward
                : role == layout::Role::Optimizer ? layout::Phase::Update
                                                  : layout::Phase::Forward;
  value.path = path;
  value.label = label;
  for (const std::string &name : dims) {
    for (const layout::DimInfo &dim : facts.dims) {
      if (dim.name == name) {
        value.dims.push_back({name, dim.size});
      }
    }
  }
  return value;
}

inline ModelFacts gptFacts(const std::string &model = "gpt",
                           const GptSizes &sizes = {}) {
  ModelFacts facts;
  facts.model = model;
  auto dim = [&](const std::string &name, int64_t size) {
    layout::DimInfo info;
    info.name = name;
    info.size = size;
    facts.dims.push_back(info);
  };
  dim("batch", sizes.batch);
  dim("seq", sizes.seq);
  dim("keys", sizes.seq);
  dim("embed", sizes.embed);
  dim("ff", sizes.ff);
  dim("vocab", sizes.vocab);
  dim("kv", sizes.kv);
  dim("group", sizes.group);
  dim("head", sizes.kv * sizes.group);
  facts.dims.back().factors = {"kv", "group"};
  dim("key", sizes.key);
  dim("qkv", (sizes.kv * sizes.group + 2 * sizes.kv) * sizes.key);
  facts.dims.back().parts = {
      {"q", {"head", "key"}}, {"k", {"kv", "key"}}, {"v", {"kv", "key"}}};
  dim("half", sizes.seq / 2);
  facts.dims.back().like = "seq";
  dim("layer", sizes.layers);
  facts.dims.back().repeated = true;

  auto leaf = [&](const std::string &path, std::vector<std::string> dims) {
    LeafFact fact;
    fact.path = path;
    fact.dims = valueOf(facts, layout::Role::Params, path, "", dims).dims;
    fact.states = {"first", "second"};
    facts.leaves.push_back(fact);
  };
  leaf("embedding/table", {"vocab", "embed"});
  leaf("embedding/place", {"seq", "embed"});
  leaf("layer/norm1/gain", {"layer", "embed"});
  leaf("layer/attention/wq", {"layer", "embed", "kv", "group", "key"});
  leaf("layer/attention/wk", {"layer", "embed", "kv", "key"});
  leaf("layer/attention/wv", {"layer", "embed", "kv", "key"});
  leaf("layer/attention/wo", {"layer", "kv", "group", "key", "embed"});
  leaf("layer/norm2/gain", {"layer", "embed"});
  leaf("layer/mlp/up", {"layer", "embed", "ff"});
  leaf("layer/mlp/down", {"layer", "ff", "embed"});
  leaf("output/norm/gain", {"embed"});

  facts.regions = {{"embedding", ""},
                   {"layer/norm1", "norm"},
                   {"layer/attention", "attention"},
                   {"layer/attention/attend", "attend"},
                   {"layer/norm2", "norm"},
                   {"layer/mlp", "mlp"},
                   {"output", ""},
                   {"output/norm", "norm"}};
  auto add = [&](layout::Role role, const std::string &path,
                 const std::string &label, std::vector<std::string> dims) {
    facts.values.push_back(valueOf(facts, role, path, label, std::move(dims)));
  };
  using layout::Role;
  add(Role::Inputs, "", "ids", {"batch", "seq"});
  add(Role::Activations, "embedding", "start", {"batch", "seq", "embed"});
  add(Role::Activations, "layer", "x", {"batch", "seq", "embed"});
  add(Role::Activations, "layer/norm1", "", {"batch", "seq", "embed"});
  add(Role::Activations, "layer/attention", "", {"batch", "seq", "embed"});
  add(Role::Activations, "layer/attention", "query",
      {"batch", "seq", "kv", "group", "key"});
  add(Role::Activations, "layer/attention", "past_k",
      {"batch", "keys", "kv", "key"});
  add(Role::Activations, "layer/attention/attend", "score",
      {"batch", "seq", "kv", "group", "keys"});
  add(Role::Activations, "layer/norm2", "", {"batch", "seq", "embed"});
  add(Role::Activations, "layer/mlp", "", {"batch", "seq", "ff"});
  add(Role::Activations, "layer/mlp", "mlp_out", {"batch", "seq", "embed"});
  add(Role::Activations, "layer/mlp", "pooled", {"batch", "half", "embed"});
  add(Role::Activations, "output", "logits", {"batch", "seq", "vocab"});
  add(Role::Activations, "output", "loss", {});
  for (const LeafFact &fact : std::vector<LeafFact>(facts.leaves)) {
    layout::ValueInfo weight;
    weight.role = Role::Weights;
    weight.path = fact.path;
    weight.reader = fact.path.substr(0, fact.path.rfind('/'));
    weight.dims = fact.dims;
    facts.values.push_back(weight);
    if (fact.path == "embedding/table") {
      weight.reader = "output";
      facts.values.push_back(weight);
    }
  }
  return facts;
}

} // namespace cleave::plan

#endif // CLEAVE_TEST_UNIT_PLAN_GPTFACTS_H
