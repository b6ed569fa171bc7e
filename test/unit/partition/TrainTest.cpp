//===- TrainTest.cpp - Whole training steps, partitioned ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Recompute.h"
#include "compiler/partition/Partition.h"
#include "compiler/partition/Simulate.h"
#include "test/unit/partition/Gpt.h"
#include "test/unit/partition/Plans.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::test;
using reference::Tensor;

namespace {

/// Runs @train whole and partitioned and compares every result.
void expectSame(const GptSizes &sizes, const PlanBuilder &plan) {
  mlir::MLIRContext context;
  Gpt gpt(context, sizes);
  ASSERT_TRUE(gpt.ok);
  mlir::func::FuncOp train = gpt.function("train");
  std::vector<Tensor> arguments = Gpt::arguments(train, sizes.vocab);
  auto wanted = reference::evaluate(train, arguments);
  ASSERT_TRUE(bool(wanted));
  ASSERT_TRUE(mlir::succeeded(recompute(train, plan.plan)));
  std::vector<layout::ProgramRecord> records;
  ASSERT_TRUE(mlir::succeeded(partition(*gpt.module, plan.plan, &records)));
  auto found = partitioning::simulate(train, arguments);
  if (!found) {
    FAIL() << llvm::toString(found.takeError());
  }
  ASSERT_EQ(found->size(), wanted->size());
  for (size_t i = 0; i < wanted->size(); ++i) {
    ASSERT_EQ((*found)[i].shape, (*wanted)[i].shape);
    double largest = 1e-6, difference = 0;
    for (size_t k = 0; k < (*wanted)[i].values.size(); ++k) {
      double a = (*wanted)[i].values[k], b = (*found)[i].values[k];
      ASSERT_FALSE(std::isnan(b)) << "result " << i;
      largest = std::max(largest, std::abs(a));
      difference = std::max(difference, std::abs(a - b));
    }
    EXPECT_LE(difference, 1e-9 * largest) << "result " << i;
  }
}

} // namespace

TEST(Train, OneDevice) { expectSame({}, PlanBuilder({{"data", 1}}).data()); }

TEST(Train, Data8) {
  GptSizes sizes;
  sizes.batch = 8;
  expectSame(sizes, PlanBuilder({{"data", 8}}).data());
  sizes.batch = 5; // some devices hold nothing
  sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"data", 8}}).data());
}

TEST(Train, Tensor4) {
  GptSizes sizes;
  expectSame(sizes, PlanBuilder({{"tensor", 4}}).megatron(true));
  sizes.heads = 7;
  sizes.embed = 14;
  sizes.vocab = 65;
  sizes.ff = 9;
  sizes.dropout = true;
  sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"tensor", 4}}).megatron(true));
}

TEST(Train, Data2Tensor4) {
  GptSizes sizes;
  sizes.heads = 7;
  sizes.batch = 5;
  sizes.vocab = 65;
  sizes.dropout = true;
  expectSame(sizes,
             PlanBuilder({{"data", 2}, {"tensor", 4}}).data().megatron(true));
}

TEST(Train, SequenceParallel) {
  GptSizes sizes;
  sizes.heads = 7;
  sizes.batch = 5;
  sizes.seq = 6;
  sizes.vocab = 65;
  sizes.dropout = true;
  sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"data", 2}, {"tensor", 4}})
                        .data()
                        .megatron(true)
                        .sequence());
}

TEST(Train, SharedAndClipped) {
  GptSizes sizes;
  sizes.shared = true;
  sizes.clip = true;
  sizes.batch = 5;
  PlanBuilder plan = PlanBuilder({{"data", 2}, {"tensor", 2}});
  plan.data().megatron(true).sequence().zero(3, "data");
  expectSame(sizes, plan);
  layout::GatherStatement gather;
  gather.selection = role(layout::Role::Weights);
  gather.per = "step";
  plan.plan.gathers.push_back(gather);
  expectSame(sizes, plan);
}

TEST(Train, Zero) {
  for (int stage = 1; stage <= 3; ++stage) {
    GptSizes sizes;
    sizes.batch = 5;
    sizes.clip = stage != 2;
    expectSame(sizes, PlanBuilder({{"data", 8}}).data().zero(stage, "data"));
    expectSame(sizes, PlanBuilder({{"data", 2}, {"tensor", 2}})
                          .data()
                          .megatron(true)
                          .zero(stage, "data"));
  }
}

TEST(Train, Recomputed) {
  GptSizes sizes;
  sizes.heads = 7;
  sizes.batch = 5;
  sizes.seq = 6;
  sizes.vocab = 65;
  sizes.dropout = true;
  sizes.clip = true;
  for (const char *what : {"layer", "layer/attention", "layer/mlp"}) {
    PlanBuilder plan = PlanBuilder({{"data", 2}, {"tensor", 2}});
    plan.plan.recomputed.push_back(path(what));
    expectSame(sizes, plan.data().megatron(true));
    expectSame(sizes, plan.sequence().zero(3, "data"));
  }
}
