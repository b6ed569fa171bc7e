//===- RuleTest.cpp - Every operation's rule, by brute force --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RuleCases.h"

#include "dialects/clv/Clv.h"

#include <gtest/gtest.h>

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

/// One way to break a rule.
struct Mutation {
  std::string name;
  std::function<void(Rule &)> apply;
};

/// `fixed`: operands that the operation can only have as they are.
std::vector<Mutation> mutationsOf(const Rule &rule,
                                  const std::vector<bool> &fixed) {
  std::vector<Mutation> mutations;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    for (FactorKind kind :
         {FactorKind::Parallel, FactorKind::Sum, FactorKind::Max,
          FactorKind::Min, FactorKind::Whole}) {
      if (kind != rule.factors[f].kind) {
        mutations.push_back(
            {rule.factors[f].name + " to kind " +
                 std::to_string(static_cast<int>(kind)),
             [f, kind](Rule &broken) { broken.factors[f].kind = kind; }});
      }
    }
  }
  for (size_t i = 0; i < rule.passesSum.size(); ++i) {
    if (fixed[i]) {
      continue;
    }
    mutations.push_back({"passesSum " + std::to_string(i), [i](Rule &broken) {
                           broken.passesSum[i] = !broken.passesSum[i];
                         }});
  }
  if (rule.passesSum.size() > 1) {
    mutations.push_back(
        {"additive", [](Rule &broken) { broken.additive = !broken.additive; }});
  }
  return mutations;
}

} // namespace

TEST_P(EveryOperation, EqualsTheUnshardedOne) {
  EXPECT_EQ(checkOperation(GetParam(), 400), "");
}

TEST_P(EveryOperation, BreakingItsRuleIsFound) {
  // The rule itself, from a first run.
  Rule rule;
  std::vector<bool> fixed;
  RuleOf read = [&](mlir::Operation *op) {
    fixed.clear();
    for (mlir::Value operand : op->getOperands()) {
      fixed.push_back(bool(operand.getDefiningOp<clv::ConstantOp>()));
    }
    rule = mlir::cast<clv::RuleInterface>(op).getRule();
    return rule;
  };
  ASSERT_EQ(checkOperation(GetParam(), 1, read), "");
  for (const Mutation &mutation : mutationsOf(rule, fixed)) {
    RuleOf broken = [&](mlir::Operation *op) {
      Rule copy = mlir::cast<clv::RuleInterface>(op).getRule();
      mutation.apply(copy);
      return copy;
    };
    EXPECT_NE(checkOperation(GetParam(), 400, broken), "") << mutation.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rule, EveryOperation,
                         testing::ValuesIn(everyOperation()), nameOf);

TEST(Rule, NoOperationIsForgotten) {
  std::set<std::string> tried;
  for (const OpCase &op : everyOperation()) {
    tried.insert(op.text.substr(0, op.text.find_first_of(" {")));
  }
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect>();
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    // Identities move a value as a whole; a repeat is no operation of its own.
    std::set<std::string> others = {"clv.edge",   "clv.weight", "clv.gradient",
                                    "clv.repeat", "clv.yield",  "clv.constant"};
    std::string text = name.getStringRef().str();
    if (!name.getStringRef().starts_with("clv.")) {
      continue;
    }
    EXPECT_TRUE(tried.count(text) || others.count(text)) << text;
  }
}
