//===- ReferenceTest.cpp - The evaluator against values done by hand ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/reference/Reference.h"

#include "dialects/clv/Clv.h"
#include "mlir/Parser/Parser.h"
#include "numerics/Random.h"
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using cleave::reference::Tensor;
using Values = std::vector<double>;

namespace {

class Reference : public testing::Test {
protected:
  Reference() {
    context.loadDialect<cleave::clv::ClvDialect, func::FuncDialect>();
  }

  /// The results of `body`, a function's signature and body.
  std::vector<Tensor> run(const std::string &body,
                          std::vector<Tensor> arguments) {
    std::string text = "!ab = tensor<2x3xf32, #clv.dims<a, b>>\n"
                       "!ba = tensor<3x2xf32, #clv.dims<b, a>>\n"
                       "!a = tensor<2xf32, #clv.dims<a>>\n"
                       "!b = tensor<3xf32, #clv.dims<b>>\n"
                       "!ai = tensor<2xi32, #clv.dims<a>>\n"
                       "!bi = tensor<3xi32, #clv.dims<b>>\n"
                       "!s = tensor<f32>\n!i = tensor<i32>\n"
                       "func.func @f" +
                       body;
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << "does not parse:\n" << text;
      return {};
    }
    auto results = cleave::reference::evaluate(
        *module->getOps<func::FuncOp>().begin(), arguments);
    if (!results) {
      ADD_FAILURE() << llvm::toString(results.takeError());
      return {};
    }
    return *results;
  }

  Values one(const std::string &body, std::vector<Tensor> arguments) {
    auto results = run(body, std::move(arguments));
    return results.empty() ? Values() : results[0].values;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

Tensor ab() { return {{2, 3}, {1, 2, 3, 4, 5, 6}}; }

} // namespace

TEST_F(Reference, MatchesOperandsByName) {
  EXPECT_EQ(one("(%x: !ab, %y: !ba) -> !ab {\n"
                "%r = clv.sub %x, %y : (!ab, !ba) -> !ab\n"
                "return %r : !ab }",
                {ab(), {{3, 2}, {1, 4, 2, 5, 3, 6}}}),
            (Values{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(one("(%x: !a, %y: !b) -> !ab {\n"
                "%r = clv.mul %x, %y : (!a, !b) -> !ab\n"
                "return %r : !ab }",
                {{{2}, {1, 10}}, {{3}, {1, 2, 3}}}),
            (Values{1, 2, 3, 10, 20, 30}));
}

TEST_F(Reference, Contracts) {
  EXPECT_EQ(one("(%x: !ab, %y: !b) -> !a {\n"
                "%r = clv.dot %x, %y over [\"b\"] : (!ab, !b) -> !a\n"
                "return %r : !a }",
                {ab(), {{3}, {1, 0, -1}}}),
            (Values{-2, -2}));
  // Kept dims, and a result in another order.
  EXPECT_EQ(one("(%x: !ab, %y: !a) -> !ba {\n"
                "%r = clv.dot %x, %y over [] : (!ab, !a) -> !ba\n"
                "return %r : !ba }",
                {ab(), {{2}, {1, 10}}}),
            (Values{1, 40, 2, 50, 3, 60}));
}

TEST_F(Reference, RoundsToBF16) {
  // Ties go to even; what is below the range has fewer digits, what is above
  // none.
  Values in = {1 + 0x1p-8,
               1 + 0x3p-8,
               1 + 0x1.01p-8,
               -1 - 0x1.01p-8,
               0x1.8p-133,
               0x1.fffp127,
               3,
               0};
  Values wanted = {1,        1 + 0x1p-6, 1 + 0x1p-7, -1 - 0x1p-7,
                   0x1p-132, INFINITY,   3,          0};
  Tensor x{{8}, in};
  EXPECT_EQ(one("(%x: tensor<8xf32, #clv.dims<c>>) -> tensor<8xbf16, "
                "#clv.dims<c>> {\n"
                "%r = clv.cast %x : (tensor<8xf32, #clv.dims<c>>) -> "
                "tensor<8xbf16, #clv.dims<c>>\n"
                "return %r : tensor<8xbf16, #clv.dims<c>> }",
                {x}),
            wanted);
}

TEST_F(Reference, Reduces) {
  EXPECT_EQ(one("(%x: !ab) -> !b {\n"
                "%r = clv.reduce max %x over [\"a\"] : (!ab) -> !b\n"
                "return %r : !b }",
                {ab()}),
            (Values{4, 5, 6}));
  EXPECT_EQ(one("(%x: !ab) -> !a {\n"
                "%r = clv.reduce sum %x over [\"b\"] : (!ab) -> !a\n"
                "return %r : !a }",
                {ab()}),
            (Values{6, 15}));
}

TEST_F(Reference, LooksUpAndScatters) {
  EXPECT_EQ(one("(%t: !ba, %ids: tensor<2xi32, #clv.dims<n>>) -> "
                "tensor<2x2xf32, #clv.dims<n, a>> {\n"
                "%r = clv.lookup %t, %ids along \"b\" : (!ba, tensor<2xi32, "
                "#clv.dims<n>>) -> tensor<2x2xf32, #clv.dims<n, a>>\n"
                "return %r : tensor<2x2xf32, #clv.dims<n, a>> }",
                {{{3, 2}, {1, 2, 3, 4, 5, 6}}, {{2}, {2, 7}}}),
            (Values{5, 6, 0, 0}));
  EXPECT_EQ(one("(%u: !ab, %ids: !ai) -> tensor<4x3xf32, #clv.dims<v, b>> {\n"
                "%r = clv.scatter_add %u, %ids along \"v\" : (!ab, !ai) -> "
                "tensor<4x3xf32, #clv.dims<v, b>>\n"
                "return %r : tensor<4x3xf32, #clv.dims<v, b>> }",
                {ab(), {{2}, {2, 2}}}),
            (Values{0, 0, 0, 0, 0, 0, 5, 7, 9, 0, 0, 0}));
}

TEST_F(Reference, SumsAlong) {
  EXPECT_EQ(one("(%x: !ab) -> !ab {\n"
                "%r = clv.cumsum %x along \"b\" : (!ab) -> !ab\n"
                "return %r : !ab }",
                {ab()}),
            (Values{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(one("(%x: !ab) -> !ba {\n"
                "%r = clv.cumsum %x along \"a\" reverse : (!ab) -> !ba\n"
                "return %r : !ba }",
                {ab()}),
            (Values{5, 4, 7, 5, 9, 6}));
}

TEST_F(Reference, ExtremeIsTheLowestIndex) {
  EXPECT_EQ(one("(%x: !ab, %m: !a) -> !ai {\n"
                "%r = clv.extreme %x, %m along \"b\" : (!ab, !a) -> !ai\n"
                "return %r : !ai }",
                {{{2, 3}, {1, 3, 3, 2, 1, 2}}, {{2}, {3, 2}}}),
            (Values{1, 0}));
}

TEST_F(Reference, SlicesAndPads) {
  EXPECT_EQ(one("(%x: !ab) -> tensor<2x2xf32, #clv.dims<a, c>> {\n"
                "%r = clv.slice %x from \"b\" to \"c\" at 1 : (!ab) -> "
                "tensor<2x2xf32, #clv.dims<a, c>>\n"
                "return %r : tensor<2x2xf32, #clv.dims<a, c>> }",
                {ab()}),
            (Values{2, 3, 5, 6}));
  EXPECT_EQ(one("(%x: !ab) -> tensor<4x3xf32, #clv.dims<c, b>> {\n"
                "%r = clv.pad %x from \"a\" to \"c\" at 1 : (!ab) -> "
                "tensor<4x3xf32, #clv.dims<c, b>>\n"
                "return %r : tensor<4x3xf32, #clv.dims<c, b>> }",
                {ab()}),
            (Values{0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0}));
}

TEST_F(Reference, SoftmaxDoesNotOverflow) {
  Values p = one("(%x: !b) -> !b {\n"
                 "%r = clv.softmax %x over [\"b\"] : (!b) -> !b\n"
                 "return %r : !b }",
                 {{{3}, {1000, 1000, -1000}}});
  EXPECT_EQ(p, (Values{0.5, 0.5, 0}));
  Values l = one("(%x: !b) -> !s {\n"
                 "%r = clv.logsumexp %x over [\"b\"] : (!b) -> !s\n"
                 "return %r : !s }",
                 {{{3}, {1000, 1000, -1000}}});
  EXPECT_DOUBLE_EQ(l[0], 1000 + std::log(2.0));
}

TEST_F(Reference, RepeatCarriesAndStacks) {
  const char *body =
      "(%x: !s, %w: !b) -> (!s, !b) {\n"
      "%r:2 = clv.repeat %i of \"b\" from 4 count 3 carried(%c = %x : !s) "
      "stacked(%s = %w : !b slice !s) -> (!s, !b) {\n"
      "  %f = clv.cast %i : (!i) -> !s\n"
      "  %m = clv.mul %c, %s : (!s, !s) -> !s\n"
      "  %n = clv.add %m, %f : (!s, !s) -> !s\n"
      "  clv.yield %n, %c : !s, !s\n"
      "}\n"
      "return %r#0, %r#1 : !s, !b }";
  // ((1*2 + 4)*3 + 5)*5 + 6
  auto forward = run(body, {Tensor::scalar(1), {{3}, {2, 3, 5}}});
  EXPECT_EQ(forward[0].values, (Values{121}));
  EXPECT_EQ(forward[1].values, (Values{1, 6, 23}));
  std::string reverse = body;
  reverse.insert(reverse.find("carried"), "reverse ");
  // ((1*5 + 6)*3 + 5)*2 + 4, stacked by index, not by turn
  auto backward = run(reverse, {Tensor::scalar(1), {{3}, {2, 3, 5}}});
  EXPECT_EQ(backward[0].values, (Values{80}));
  EXPECT_EQ(backward[1].values, (Values{38, 11, 1}));
}

TEST_F(Reference, CarriedValuesMaySwap) {
  auto results =
      run("(%x: !s, %y: !s) -> (!s, !s) {\n"
          "%r:2 = clv.repeat %i of \"b\" from 0 count 3 carried(%p = %x : !s, "
          "%q = %y : !s) -> (!s, !s) {\n  clv.yield %q, %p : !s, !s\n}\n"
          "return %r#0, %r#1 : !s, !s }",
          {Tensor::scalar(1), Tensor::scalar(2)});
  EXPECT_EQ(results[0].values, (Values{2}));
  EXPECT_EQ(results[1].values, (Values{1}));
}

TEST_F(Reference, RandomFollowsItsDefinition) {
  Values values =
      one("(%seed: !i, %step: !i, %it: !i) -> !ab {\n"
          "%r = clv.random %seed, %step, %it at \"drop\" : "
          "(!i, !i, !i) -> !ab\n"
          "return %r : !ab }",
          {Tensor::scalar(9), Tensor::scalar(4), Tensor::scalar(2)});
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(values[i], cleave::numerics::uniform(9, "drop", i, 2, 4));
  }
}

TEST_F(Reference, IntegersRoundTowardZero) {
  EXPECT_EQ(one("(%x: !b) -> !bi {\n"
                "%r = clv.cast %x : (!b) -> !bi\nreturn %r : !bi }",
                {{{3}, {-1.5, 1.5, 2}}}),
            (Values{-1, 1, 2}));
  EXPECT_EQ(one("(%x: !bi, %y: !bi) -> !bi {\n"
                "%r = clv.div %x, %y : (!bi, !bi) -> !bi\nreturn %r : !bi }",
                {{{3}, {-7, 7, 8}}, {{3}, {2, 2, 2}}}),
            (Values{-3, 3, 4}));
}

TEST_F(Reference, RefusesWhatDoesNotFit) {
  module = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<2xf32, #clv.dims<a>>) { return }", &context);
  auto function = *module->getOps<func::FuncOp>().begin();
  auto message = [](auto results) {
    EXPECT_FALSE(static_cast<bool>(results));
    return llvm::toString(results.takeError());
  };
  EXPECT_EQ(message(cleave::reference::evaluate(function, {})),
            "@f takes 1 arguments, not 0");
  EXPECT_EQ(
      message(cleave::reference::evaluate(function, {Tensor{{3}, {1, 2, 3}}})),
      "argument 0 of @f does not fit its type");
}

TEST_F(Reference, IsFastEnoughForReducedModels) {
  std::string m = "tensor<256x512xf32, #clv.dims<a, k>>";
  std::string n = "tensor<512x512xf32, #clv.dims<k, b>>";
  std::string r = "tensor<256x512xf32, #clv.dims<a, b>>";
  auto start = std::chrono::steady_clock::now();
  Values values = one(
      "(%x: " + m + ", %y: " + n + ") -> " + r +
          " {\n%r = clv.dot %x, %y over [\"k\"] : (" + m + ", " + n + ") -> " +
          r + "\nreturn %r : " + r + " }",
      {{{256, 512}, Values(256 * 512, 1)}, {{512, 512}, Values(512 * 512, 2)}});
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(values[5], 1024);
  EXPECT_LT(took.count(), 5) << "for 6.7e7 products";
  RecordProperty("seconds", std::to_string(took.count()));
}
