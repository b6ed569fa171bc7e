//===- RoundTripTest.cpp - A plan set as text and back --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/exec/Exec.h"
#include "test/unit/runtime/PipelinePlan.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::format;

namespace {

class RoundTrip : public testing::Test {
protected:
  /// The set as text; empty where it is refused.
  std::string textOf(const PlanSetT &set) {
    auto module = toExec(context, set);
    if (!module) {
      ADD_FAILURE() << llvm::toString(module.takeError());
      return "";
    }
    EXPECT_TRUE(succeeded(verify(**module)));
    std::string text;
    llvm::raw_string_ostream stream(text);
    (*module)->print(stream);
    return text;
  }

  /// Whether the set survives both ways, and the text between them.
  void expectSame(const PlanSetT &set) {
    std::string text = textOf(set);
    auto parsed = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(parsed) << text;
    llvm::Expected<PlanSetT> back = fromExec(*parsed);
    ASSERT_TRUE(bool(back)) << llvm::toString(back.takeError());
    EXPECT_EQ(encodePlanFile(*back, {}), encodePlanFile(set, {})) << text;
    EXPECT_EQ(textOf(*back), text);
  }

  void expectRefused(const PlanSetT &set, const std::string &part) {
    auto module = toExec(context, set);
    ASSERT_FALSE(bool(module));
    std::string message = llvm::toString(module.takeError());
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  MLIRContext context;
};

KernelT &firstKernel(PlanSetT &set) {
  return *set.plans[0]->programs[0]->body[0]->action.AsKernel();
}

LoopT &firstLoop(PlanSetT &set) {
  return *set.plans[0]->programs[0]->body[1]->action.AsLoop();
}

} // namespace

TEST_F(RoundTrip, EveryInstruction) {
  expectSame(test::makeSet({{"one", 1, 1}, {"wide", 2, 3}, {"tall", 8, 1}}));
}

TEST_F(RoundTrip, Pipelines) {
  expectSame(test::makePipelineSet(
      {{"one", 1, 1, 1, 1}, {"deep", 2, 3, 2, 4}, {"many", 1, 2, 1, 7}}));
  expectSame(
      test::makePipelineSet({{"fold", 2, 2, 1, 3, test::Order::ForwardsFirst,
                              true, false, 2, Placement::Folded}}));
}

// Iterations are counted through an `only`.
TEST_F(RoundTrip, LoopsAroundOnly) {
  PlanSetT set = test::makeSet({{"one", 2, 4}});
  OnlyT only;
  for (int64_t at : {0, 1}) {
    only.residence.push_back(std::make_unique<ResidenceT>());
    only.residence.back()->begin = at;
    only.residence.back()->end = 2;
  }
  KernelT kernel = firstKernel(set);
  kernel.views = {View(3, 1), View(3, 0)};
  kernel.integers = {Integer(IntegerKind::Iteration, 1)};
  auto instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(kernel));
  LoopT inner;
  inner.count = 7; // ignored, but said
  inner.extent = 5;
  inner.body.push_back(std::move(instruction));
  instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(inner));
  only.body.push_back(std::move(instruction));
  instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(only));
  firstLoop(set).body.push_back(std::move(instruction));
  expectSame(set);
}

TEST_F(RoundTrip, WhatTheHandBuiltPlanLeavesOut) {
  PlanSetT set = test::makeSet({{"one", 2, 4}, {"two", 1, 1}});
  set.start = 1;
  set.eval_every = std::numeric_limits<uint32_t>::max();
  set.target_features = {"avx2", "avx512f"};
  set.leaves[0]->init->a = -0.0;
  set.leaves[0]->init->b = 0.1;
  set.leaves[1]->init->a = std::numeric_limits<double>::infinity();
  set.leaves[1]->init->kind = InitKind::Uniform;
  PlanT &plan = *set.plans[0];
  plan.sites[0]->reason = "a \"quoted\"\nreason, ⌈i·n/k⌉";
  plan.sites[1]->file.clear();
  plan.sites[2]->path.clear();
  auto residence = std::make_unique<ResidenceT>();
  residence->atom = 0;
  residence->begin = 1;
  residence->end = 2;
  plan.layouts[0]->residence.push_back(std::move(residence));
  auto extent = std::make_unique<ExtentT>();
  extent->dim = "a dim, odd";
  extent->size = 9;
  extent->split = std::make_unique<SplitT>();
  extent->split->atoms = {1, 0};
  extent->split->cuts = {0, 0, 4, 9};
  extent->split->places = {7, 2, 0};
  plan.extents.push_back(std::move(extent));
  plan.extents.push_back(std::make_unique<ExtentT>(*plan.extents[0]));
  plan.extents.back()->split->unit = 5;
  firstKernel(set).integers.push_back(
      Integer(IntegerKind::Literal, std::numeric_limits<int64_t>::min()));
  firstKernel(set).views.clear();
  firstLoop(set).reverse = true;
  firstLoop(set).first = 1;
  firstLoop(set).count = 2;
  plan.programs[0]->inputs[0]->shift = 3;
  plan.programs[0]->values[3]->bytes = 336;
  plan.programs.push_back(std::make_unique<ProgramT>());
  plan.programs.back()->name = "an \"eval\"";
  expectSame(set);
}

TEST_F(RoundTrip, Runs) {
  PlanSetT set = test::makeSet({{"one", 2, 4}, {"one@micro=2", 2, 4}});
  set.plans[1]->of = "one";
  set.plans[1]->batch = 5;
  set.plans[1]->micros = 2;
  set.run = std::make_unique<RunT>();
  set.run->name = "a \"run\"";
  expectSame(set); // nothing else said
  set.run->snapshot_every = std::numeric_limits<uint32_t>::max();
  set.run->reproducible = true;
  set.run->batches = {BatchChange(0, 2), BatchChange(int64_t(1) << 40, 5)};
  constexpr TermKind binary[] = {
      TermKind::Add,      TermKind::Subtract,     TermKind::Multiply,
      TermKind::Divide,   TermKind::Less,         TermKind::LessEqual,
      TermKind::Greater,  TermKind::GreaterEqual, TermKind::Equal,
      TermKind::NotEqual, TermKind::And,          TermKind::Or};
  set.loss_hash = 0x8000'0000'0000'0001;
  set.update_hash = 17;
  set.run->gradient_mean = std::make_unique<GradientMeanT>();
  set.run->gradient_mean->state = "first";
  set.run->gradient_mean->keep = 0.9;
  set.run->gradient_mean->limit = 1.5;
  for (TrafficKind kind : EnumValuesTrafficKind()) {
    set.plans[0]->traffic.push_back(std::make_unique<TrafficT>());
    set.plans[0]->traffic.back()->kind = kind;
    set.plans[0]->traffic.back()->axis = uint8_t(kind) % 2 ? "tensor" : "";
    set.plans[0]->traffic.back()->bytes = 1000 * (int64_t(kind) + 1);
  }
  // A rule for each action, with every operation and metric.
  for (RuleAction action : EnumValuesRuleAction()) {
    set.run->rules.push_back(std::make_unique<RuleT>());
    RuleT &rule = *set.run->rules.back();
    rule.action = action;
    rule.plan = action == RuleAction::Go ? "one" : "";
    rule.amount = 3;
    rule.during = 7;
    rule.apart = 10;
    rule.text = "when …";
    rule.file = "a.clv";
    rule.line = 12;
    auto add = [&](TermKind kind) -> TermT & {
      rule.condition.push_back(std::make_unique<TermT>());
      rule.condition.back()->kind = kind;
      return *rule.condition.back();
    };
    add(TermKind::Number).number = 0.1;
    for (Metric metric : EnumValuesMetric()) {
      TermT &term = add(TermKind::Measure);
      term.measure = std::make_unique<MeasureT>();
      term.measure->metric = metric;
      term.measure->statistic = Statistic::Spread;
      term.measure->window = metric == Metric::StageTime ? 1 : 20;
      term.measure->traffic = TrafficKind::ReduceScatter;
      term.measure->axis = "tensor";
      add(TermKind::Negate);
      add(binary[uint8_t(metric) % std::size(binary)]);
      add(TermKind::Not);
    }
  }
  expectSame(set);
}

TEST_F(RoundTrip, ReductionsThatNothingReduces) {
  PlanSetT set = test::makeSet({{"one", 2, 4}});
  firstLoop(set).body[1]->action.AsCollective()->reduction = Reduction::Min;
  expectSame(set);
}

TEST_F(RoundTrip, LoopsInLoops) {
  PlanSetT set = test::makeSet({{"one", 2, 4}});
  LoopT inner;
  inner.count = 2;
  KernelT kernel = firstKernel(set);
  kernel.views = {View(3, 1), View(3, 0), View(3, -1)};
  kernel.integers = {Integer(IntegerKind::Iteration, 1),
                     Integer(IntegerKind::Iteration, 0)};
  auto instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(kernel));
  inner.body.push_back(std::move(instruction));
  instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(inner));
  firstLoop(set).body.push_back(std::move(instruction));
  expectSame(set);
}

TEST_F(RoundTrip, WithoutSitesAndKernels) {
  PlanSetT set = test::makeSet({{"one", 1, 1}});
  set.producer.clear();
  set.symbols.clear();
  set.plans[0]->sites.clear();
  MoveT move;
  move.source = std::make_unique<View>(5, -1);
  move.target = std::make_unique<View>(13, -1);
  move.shift = {0, -2};
  auto instruction = std::make_unique<InstructionT>();
  instruction->action.Set(std::move(move));
  auto &body = set.plans[0]->programs[0]->body;
  body.clear();
  body.push_back(std::move(instruction));
  expectSame(set);
}

TEST_F(RoundTrip, RefusesWhatTheLoaderRefuses) {
  PlanSetT set = test::makeSet({{"one", 1, 1}});
  firstKernel(set).symbol = 99;
  expectRefused(set, "a symbol that is not there");
}

TEST_F(RoundTrip, RefusesNumbersThatMeanNothing) {
  PlanSetT set = test::makeSet({{"one", 1, 1}});
  set.plans[0]->programs[0]->values[5]->index = 1;
  expectRefused(set, "an index into the arena");
  set = test::makeSet({{"one", 1, 1}});
  set.plans[0]->programs[0]->values[0]->offset = 64;
  expectRefused(set, "an offset outside the arena");
}

TEST_F(RoundTrip, RefusesModulesOfOtherThings) {
  OwningOpRef<ModuleOp> empty = ModuleOp::create(UnknownLoc::get(&context));
  llvm::Expected<PlanSetT> set = fromExec(*empty);
  ASSERT_FALSE(bool(set));
  EXPECT_EQ(llvm::toString(set.takeError()),
            "the module does not hold one `exec.set` and nothing else");
}
