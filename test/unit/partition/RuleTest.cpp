//===- RuleTest.cpp - Every operation's rule, by brute force --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RulePrograms.h"

#include <gtest/gtest.h>

#include <iostream>
#include <set>

using namespace cleave;
using namespace cleave::test;
using clv::FactorKind;
using clv::Rule;

namespace cleave::test {
static void PrintTo(const OpCase &op, std::ostream *out) { *out << op.name; }
} // namespace cleave::test

namespace {

class EveryOperation : public testing::TestWithParam<OpCase> {};

std::string nameOf(const testing::TestParamInfo<OpCase> &info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

Rule ruleOf(const ParsedCase &parsed) {
  return mlir::cast<clv::RuleInterface>(parsed.operation).getRule();
}

/// One way to break a rule.
struct Mutation {
  std::string name;
  /// Whether results are wrong then; else they cost more than they need.
  bool isWrong = true;
  bool isOfSums = false; ///< or what it says of pending sums
  std::function<void(Rule &)> apply;
};

/// The second sizes are not tried on 2 x 2 devices: on 2 x 3 they are cut into
/// more pieces, of which more are empty.
bool isTried(const Space &space, size_t sizes) {
  return sizes == 0 || space.mesh.atoms.size() == 1 || space.mesh.devices() > 4;
}

constexpr FactorKind kKinds[] = {FactorKind::Parallel, FactorKind::Sum,
                                 FactorKind::Max,      FactorKind::Min,
                                 FactorKind::Window,   FactorKind::Whole};

void breakFactor(const Rule &rule, size_t f, std::vector<Mutation> &mutations) {
  const clv::Factor &factor = rule.factors[f];
  for (FactorKind kind : kKinds) {
    // A window of all of a dim is that dim.
    bool isSame = kind == factor.kind || (kind == FactorKind::Window &&
                                          factor.kind == FactorKind::Parallel);
    if (!isSame) {
      mutations.push_back(
          {factor.name + " to kind " + std::to_string(static_cast<int>(kind)),
           kind != FactorKind::Whole, false,
           [f, kind](Rule &broken) { broken.factors[f].kind = kind; }});
    }
  }
  if (factor.kind == FactorKind::Window) {
    for (int64_t by : {-1, 1}) {
      mutations.push_back(
          {factor.name + " off by " + std::to_string(by), true, false,
           [f, by](Rule &broken) { broken.factors[f].offset += by; }});
    }
  }
}

std::vector<Mutation> mutationsOf(const Rule &rule, const ParsedCase &parsed) {
  std::vector<Mutation> mutations;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    breakFactor(rule, f, mutations);
  }
  size_t numbers = 0;
  for (size_t i = 0; i < rule.passesSum.size(); ++i) {
    numbers += parsed.operands[i].mayPend;
    if (parsed.operands[i].argument < 0) {
      continue; // a constant: it can only be as it is
    }
    mutations.push_back(
        {"passesSum " + std::to_string(i),
         !rule.passesSum[i] && parsed.operands[i].mayPend, true,
         [i](Rule &broken) { broken.passesSum[i] = !broken.passesSum[i]; }});
  }
  if (rule.passesSum.size() > 1) {
    mutations.push_back(
        {"additive", !rule.additive && numbers > 0, true,
         [](Rule &broken) { broken.additive = !broken.additive; }});
  }
  return mutations;
}

/// Whether a program can have what is broken. It has no sums of i32, and edges
/// and the like move values as a whole: partition() does not read their rules.
bool isInPrograms(const Mutation &mutation, const ParsedCase &parsed) {
  if (mlir::isa<clv::EdgeOp, clv::WeightOp, clv::GradientOp>(
          parsed.operation)) {
    return false;
  }
  return !mutation.isOfSums ||
         llvm::none_of(parsed.op.operands, [](const CaseValue &value) {
           return value.element == "i32";
         });
}

} // namespace

TEST_P(EveryOperation, EqualsTheUnshardedOne) {
  size_t tried = 0, ran = 0, wanted = 0;
  const std::vector<Sizes> all = everySizes();
  for (size_t i = 0; i < all.size(); ++i) {
    ParsedCase parsed(GetParam(), all[i]);
    ASSERT_TRUE(parsed.operation) << parsed.error;
    for (const std::unique_ptr<Space> &space : everySpace()) {
      if (!isTried(*space, i)) {
        continue;
      }
      RuleTrial trial(parsed, *space);
      wanted += trial.size();
      ASSERT_EQ(trial.tryAll(ruleOf(parsed), false, tried, ran), "");
    }
  }
  EXPECT_EQ(tried, wanted);
  RecordProperty("layouts", std::to_string(tried));
  std::cout << "[  LAYOUTS ] " << GetParam().name << ": " << tried
            << " combinations of layouts, "
            << (GetParam().mostLayouts ? "a sample" : "none left out") << "; "
            << ran << " different runs of the operation" << std::endl;
}

TEST_P(EveryOperation, IsPartitionedSo) {
  size_t tried = 0;
  const Sizes sizes = everySizes().front();
  ParsedCase parsed(GetParam(), sizes);
  ASSERT_TRUE(parsed.operation) << parsed.error;
  for (const std::vector<int64_t> &atoms :
       {std::vector<int64_t>{2}, {3}, {2, 2}}) {
    ASSERT_EQ(checkPrograms(GetParam(), sizes, meshOf(atoms), ruleOf(parsed),
                            false, tried),
              "");
  }
  RecordProperty("programs", std::to_string(tried));
  std::cout << "[ PROGRAMS ] " << GetParam().name << ": " << tried << std::endl;
}

TEST_P(EveryOperation, CostsNoMoreThanItNeeds) {
  // Not with the other sizes: the maximum of one element is linear.
  const Sizes sizes = everySizes().front();
  ParsedCase parsed(GetParam(), sizes);
  ASSERT_TRUE(parsed.operation) << parsed.error;
  EXPECT_EQ(checkFree(parsed, ruleOf(parsed)), "");
  EXPECT_EQ(checkLinear(parsed, ruleOf(parsed)), "");
}

TEST_P(EveryOperation, BreakingItsRuleIsFound) {
  const Sizes sizes = everySizes().front();
  ParsedCase parsed(GetParam(), sizes);
  ASSERT_TRUE(parsed.operation) << parsed.error;
  std::vector<std::unique_ptr<RuleTrial>> trials;
  for (const std::unique_ptr<Space> &space : everySpace()) {
    trials.push_back(std::make_unique<RuleTrial>(parsed, *space));
  }
  std::vector<Mutation> mutations = mutationsOf(ruleOf(parsed), parsed);
  // Only a rule without factors and operands has nothing to break.
  EXPECT_EQ(mutations.empty(), mlir::isa<clv::ConstantOp>(parsed.operation));
  size_t wrong = 0, tried = 0, ran = 0;
  for (const Mutation &mutation : mutations) {
    Rule rule = ruleOf(parsed);
    mutation.apply(rule);
    if (!mutation.isWrong) {
      EXPECT_NE(checkFree(parsed, rule) + checkLinear(parsed, rule), "")
          << mutation.name;
      continue;
    }
    ++wrong;
    std::string found;
    for (size_t i = 0; i < trials.size() && found.empty(); ++i) {
      found = trials[i]->tryAll(rule, true, tried, ran);
    }
    EXPECT_NE(found, "") << mutation.name;
    if (isInPrograms(mutation, parsed)) {
      found.clear();
      for (const std::vector<int64_t> &atoms :
           {std::vector<int64_t>{2}, {3}, {2, 2}}) {
        if (found.empty()) {
          found = checkPrograms(GetParam(), sizes, meshOf(atoms), rule, true,
                                tried);
        }
      }
      EXPECT_NE(found, "") << mutation.name << " in a program";
    }
  }
  EXPECT_EQ(wrong == 0, mutations.empty());
  std::cout << "[  BROKEN  ] " << GetParam().name << ": " << mutations.size()
            << " ways, " << wrong << " by their numbers" << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Rule, EveryOperation,
                         testing::ValuesIn(everyOperation()), nameOf);

TEST(Rule, NoOperationIsForgotten) {
  std::set<std::string> tried;
  for (const OpCase &op : everyOperation()) {
    tried.insert(op.operation());
  }
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect>();
  size_t rules = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.hasInterface<clv::RuleInterface>()) {
      ++rules;
      EXPECT_TRUE(tried.count(name.getStringRef().str()))
          << name.getStringRef().str() << " has a rule, which nothing tries";
    }
  }
  EXPECT_EQ(tried.size(), rules);
}
