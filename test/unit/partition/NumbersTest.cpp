//===- NumbersTest.cpp - Published collective counts and bytes ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of PartIR (ASPLOS'25) for a transformer of 32 blocks with nine
// parameters each and a tied embedding; the formula of each count stands beside
// it. Bytes as of ring algorithms.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Recompute.h"
#include "compiler/partition/Partition.h"
#include "test/unit/partition/Gpt.h"
#include "test/unit/partition/Plans.h"

#include <gtest/gtest.h>

#include <ctime>

using namespace cleave;
using namespace cleave::test;

namespace {

GptSizes large(int64_t layers) {
  GptSizes sizes;
  sizes.layers = layers;
  sizes.embed = 1024;
  sizes.heads = 16;
  sizes.key = 64;
  sizes.ff = 4096;
  sizes.vocab = 50304;
  sizes.batch = 32;
  sizes.seq = 512;
  return sizes;
}

struct Counts {
  int64_t gather = 0, reduce = 0, scatter = 0, exchange = 0;
  int64_t bytes = 0; ///< sent by the busiest device in a step

  bool operator==(const Counts &other) const {
    return std::tie(gather, reduce, scatter, exchange) ==
           std::tie(other.gather, other.reduce, other.scatter, other.exchange);
  }
};

std::ostream &operator<<(std::ostream &out, const Counts &counts) {
  return out << counts.gather << " AG, " << counts.reduce << " AR, "
             << counts.scatter << " RS, " << counts.exchange << " A2A";
}

/// Without what recomputation repeats, or that alone.
Counts count(const layout::ProgramRecord &record, bool recomputed = false) {
  Counts counts;
  for (const layout::CollectiveRecord &entry : record.collectives) {
    if (entry.recomputed != recomputed) {
      continue;
    }
    (entry.kind == "all_gather"       ? counts.gather
     : entry.kind == "all_reduce"     ? counts.reduce
     : entry.kind == "reduce_scatter" ? counts.scatter
                                      : counts.exchange) += entry.iterations;
    counts.bytes += entry.iterations * entry.bytesBusiest;
  }
  return counts;
}

layout::ProgramRecord recordOf(const GptSizes &sizes, const PlanBuilder &plan) {
  mlir::MLIRContext context;
  // Gradients are no results here: a step as it is run.
  Gpt gpt(context, sizes, /*probe=*/false);
  EXPECT_TRUE(gpt.ok);
  EXPECT_TRUE(mlir::succeeded(recompute(*gpt.module, plan.plan)));
  std::vector<layout::ProgramRecord> records;
  EXPECT_TRUE(mlir::succeeded(partition(*gpt.module, plan.plan, &records)));
  for (layout::ProgramRecord &record : records) {
    if (record.entry == "train") {
      return record;
    }
  }
  ADD_FAILURE() << "no record of @train";
  return {};
}

PlanBuilder data() { return PlanBuilder({{"data", 8}}).data(); }
PlanBuilder both() {
  return PlanBuilder({{"data", 8}, {"tensor", 4}}).data().megatron(false);
}
constexpr int64_t kKeep = 1 << 20; ///< vectors are smaller, matrices larger

} // namespace

TEST(Numbers, Counts) {
  for (int64_t layers : {2, 32}) {
    GptSizes sizes = large(layers);
    int64_t matrices = 4 * layers + 1, parameters = 9 * layers + 1;
    // Every gradient and the loss.
    EXPECT_EQ(count(recordOf(sizes, data())),
              (Counts{0, parameters + 1, 0, 0}));
    // And two a block forward, two backward.
    EXPECT_EQ(count(recordOf(sizes, both())),
              (Counts{0, parameters + 1 + 4 * layers, 0, 0}));
    // Matrices are scattered and gathered instead.
    int64_t reduced = parameters - matrices + 4 * layers + 1;
    EXPECT_EQ(count(recordOf(sizes, both().zero(2, "data", kKeep))),
              (Counts{matrices, reduced, matrices, 0}));
    EXPECT_EQ(count(recordOf(sizes, both().zero(1, "data", kKeep))),
              (Counts{matrices, reduced, matrices, 0}));
    // Matrices gathered forward and backward; the embedding for its lookup, the
    // output and the output's backward.
    EXPECT_EQ(count(recordOf(sizes, both().zero(3, "data", kKeep))),
              (Counts{2 * 4 * layers + 3, reduced, matrices, 0}));
    EXPECT_EQ(
        count(recordOf(sizes, PlanBuilder({{"tensor", 4}}).megatron(false))),
        (Counts{0, 4 * layers, 0, 0}));
  }
}

TEST(Numbers, Bytes) {
  const int64_t layers = 2, n = 8, t = 4;
  GptSizes sizes = large(layers);
  const int64_t matrices = 4 * (layers * 12 * 1024 * 1024 + 50304 * 1024);
  const int64_t vectors = 4 * layers * (4 * 1024 + 4096);
  // One number: the device that adds it up sends it to the others.
  const int64_t loss = (n - 1) * 4;
  EXPECT_EQ(count(recordOf(sizes, data())).bytes,
            2 * (n - 1) * (matrices + vectors) / n + loss);
  for (int stage : {1, 2}) {
    EXPECT_EQ(count(recordOf(sizes, data().zero(stage, "data", kKeep))).bytes,
              2 * (n - 1) * (matrices + vectors) / n + loss);
  }
  // Three times the matrices, the tied embedding four times.
  EXPECT_EQ(count(recordOf(sizes, data().zero(3, "data", kKeep))).bytes,
            (n - 1) * (3 * matrices + 4 * 50304 * 1024 + 2 * vectors) / n +
                loss);
  // Two all-reduces forward and two backward of batch * seq * model.
  const int64_t stream = 4 * 32 * 512 * 1024;
  EXPECT_EQ(count(recordOf(sizes, PlanBuilder({{"tensor", t}}).megatron(false)))
                .bytes,
            layers * 4 * 2 * (t - 1) * stream / t);
}

TEST(Numbers, SequenceParallelism) {
  // Forward the same bytes as pairs; one gather more backward for each of the
  // two inputs that are saved sharded. Gains, shifts and nothing else of a
  // layer are then pending over tensor too.
  const int64_t layers = 3, t = 4;
  GptSizes sizes = large(layers);
  layout::ProgramRecord record =
      recordOf(sizes, PlanBuilder({{"tensor", t}}).megatron(false).sequence());
  const int64_t stream = 4 * 32 * 512 * 1024;
  int64_t forward = 0, backward = 0, gathers = 0, scatters = 0, gradients = 0;
  for (const layout::CollectiveRecord &entry : record.collectives) {
    if (entry.value.role == layout::Role::Gradients) {
      EXPECT_EQ(entry.kind, "all_reduce");
      gradients += entry.iterations;
      continue;
    }
    if (entry.repeat != "layer") {
      continue; // where the stream enters and leaves the layers
    }
    EXPECT_EQ(entry.bytesBusiest, (t - 1) * stream / t);
    bool isForward = entry.value.phase == layout::Phase::Forward;
    (isForward ? forward : backward) += entry.iterations;
    (entry.kind == "all_gather" ? gathers : scatters) += entry.iterations;
    EXPECT_TRUE(entry.value.path == "layer/attention" ||
                entry.value.path == "layer/mlp")
        << entry.value.path;
    EXPECT_FALSE(entry.reason.empty());
  }
  EXPECT_EQ(forward, 4 * layers);
  EXPECT_EQ(backward, 6 * layers);
  EXPECT_EQ(gathers, (2 + 4) * layers);
  EXPECT_EQ(scatters, (2 + 2) * layers);
  EXPECT_EQ(gradients, 4 * layers);
}

TEST(Numbers, WhatRecomputationRepeatsIsApart) {
  const int64_t layers = 3, t = 4;
  GptSizes sizes = large(layers);
  auto compare = [&](const PlanBuilder &plan, const Counts &repeated) {
    PlanBuilder again = plan;
    again.plan.recomputed.push_back(path("layer"));
    layout::ProgramRecord record = recordOf(sizes, again);
    EXPECT_EQ(count(record), count(recordOf(sizes, plan)));
    EXPECT_EQ(count(record, /*recomputed=*/true), repeated);
  };
  // The sum of the attention; that of the mlp is the next layer's input, which
  // is saved.
  PlanBuilder tensor = PlanBuilder({{"tensor", t}}).megatron(false);
  compare(tensor, {0, layers, 0, 0});
  // Scattered. The gather before each region is there without recomputation.
  compare(PlanBuilder({{"tensor", t}}).megatron(false).sequence(),
          {0, 0, layers, 0});
  // Weights are gathered again anyway.
  compare(data().zero(3, "data", kKeep), {});
}

TEST(Numbers, SharedParametersAreReducedOnce) {
  // Its gradient adds up over the layers and stays pending until the end.
  GptSizes sizes = large(3);
  sizes.shared = true;
  EXPECT_EQ(count(recordOf(sizes, data())), (Counts{0, 9 * 3 + 2 + 1, 0, 0}));
}

TEST(Numbers, TheGlobalNormIsReducedByKind) {
  // Squares of leaves that are split alike are added before they are reduced.
  GptSizes sizes = large(3);
  sizes.clip = true;
  auto norm = [&](const PlanBuilder &plan) {
    int64_t reduced = 0;
    for (const layout::CollectiveRecord &entry :
         recordOf(sizes, plan).collectives) {
      bool isScalar = entry.value.dims.empty() &&
                      entry.value.phase == layout::Phase::Update;
      reduced += isScalar ? entry.iterations : 0;
    }
    return reduced;
  };
  EXPECT_EQ(norm(data()), 0);
  EXPECT_EQ(norm(both()), 1); // over tensor
  EXPECT_EQ(norm(data().zero(1, "data", kKeep)), 1);
  // Over both, over tensor alone, over data alone.
  EXPECT_LE(norm(both().zero(1, "data", kKeep)), 3);
}

TEST(Numbers, GatheringPerStep) {
  GptSizes sizes = large(3);
  PlanBuilder plan = data().zero(3, "data", kKeep);
  layout::GatherStatement gather;
  gather.selection = role(layout::Role::Weights);
  gather.per = "step";
  plan.plan.gathers.push_back(gather);
  // Once for forward and backward together, the tied embedding too.
  EXPECT_EQ(count(recordOf(sizes, plan)).gather, 4 * 3 + 1);
}

TEST(Numbers, CompileTimeDoesNotGrowWithDevices) {
  // Processor time, the least of three: other work on the machine is not ours.
  auto time = [](int64_t data, int64_t tensor) {
    GptSizes sizes = large(32);
    PlanBuilder plan =
        PlanBuilder({{"data", data}, {"tensor", tensor}}).data().megatron(true);
    plan.sequence().zero(3, "data", kKeep);
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      std::clock_t begin = std::clock();
      recordOf(sizes, plan);
      least = std::min(least, static_cast<double>(std::clock() - begin) /
                                  CLOCKS_PER_SEC);
    }
    return least;
  };
  double small = time(2, 4), large = time(64, 8);
  EXPECT_LT(large, 2 * small + 0.05) << small << " s, " << large << " s";
}
