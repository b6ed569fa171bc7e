//===- FieldCasesTest.cpp - Failures reported of other systems ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each test names the report and has the right answer in it.
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Partition.h"
#include "compiler/partition/Simulate.h"
#include "dialects/clv/Clv.h"
#include "dialects/spmd/Spmd.h"
#include "test/unit/partition/Plans.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace cleave;
using namespace cleave::test;
using reference::Tensor;

namespace {

const char *kTypes = R"(
#s = #clv.scope<activations, forward, path = "m">
#in = #clv.scope<activations, forward, path = "m/in">
!n = tensor<f32>
!i = tensor<i32>
)";

struct Outcome {
  std::vector<Tensor> results;
  std::vector<std::string> collectives; ///< `all_reduce a`
  std::vector<layout::CollectiveRecord> records;

  const std::vector<double> &values() const { return results.front().values; }
};

Outcome run(const std::string &text, const PlanBuilder &plan,
            std::vector<Tensor> arguments) {
  Outcome outcome;
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(kTypes + text,
                                              mlir::ParserConfig(&context));
  EXPECT_TRUE(module);
  auto function = module->lookupSymbol<mlir::func::FuncOp>("forward");
  auto wanted = reference::evaluate(function, arguments);
  EXPECT_TRUE(bool(wanted));
  std::vector<layout::ProgramRecord> records;
  bool ok = mlir::succeeded(partition(*module, plan.plan, &records));
  EXPECT_TRUE(ok);
  if (!ok) {
    return outcome;
  }
  auto found = partitioning::simulate(function, arguments);
  if (!found) {
    ADD_FAILURE() << llvm::toString(found.takeError());
    return outcome;
  }
  outcome.results = *found;
  for (size_t i = 0; i < wanted->size(); ++i) {
    for (size_t k = 0; k < (*wanted)[i].values.size(); ++k) {
      EXPECT_NEAR((*wanted)[i].values[k], (*found)[i].values[k], 1e-12);
    }
  }
  outcome.records = records.front().collectives;
  for (const layout::CollectiveRecord &record : outcome.records) {
    outcome.collectives.push_back(record.kind + " " +
                                  plan.plan.mesh.describe(record.atoms));
  }
  return outcome;
}

Tensor counting(std::vector<int64_t> shape, double first = 0) {
  Tensor tensor{shape, {}};
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1),
                                  std::multiplies<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    tensor.values.push_back(first + static_cast<double>(i));
  }
  return tensor;
}

using Strings = std::vector<std::string>;

PlanBuilder two() { return PlanBuilder({{"d", 2}}); }

} // namespace

// A scalar was added to a partial sum on every rank: 65.
TEST(FieldCases, Pytorch163193) {
  PlanBuilder plan = two();
  plan.shard({"a"}, {"d"});
  Outcome outcome = run(R"(
func.func @forward(%x: tensor<10xf32, #clv.dims<a>> {clv.role = "input", clv.path = "x"}) -> !n {
  %s = clv.reduce sum %x over ["a"] {clv.scope = #s} : (tensor<10xf32, #clv.dims<a>>) -> !n
  %c = clv.constant 10.0 : f32 {clv.scope = #s} -> !n
  %r = clv.add %s, %c {clv.scope = #s} : (!n, !n) -> !n
  return %r : !n
})",
                        plan, {counting({10})});
  EXPECT_EQ(outcome.values(), std::vector<double>{55});
  EXPECT_EQ(outcome.collectives, Strings{"all_reduce d"});
}

// argmax was reduced as if it were linear: 1.
TEST(FieldCases, Pytorch173936) {
  PlanBuilder plan = two();
  plan.shard({"a"}, {"d"});
  Outcome outcome = run(R"(
!a = tensor<4xf32, #clv.dims<a>>
func.func @forward(%x: !a {clv.role = "input", clv.path = "x"}) -> !i {
  %m = clv.reduce max %x over ["a"] {clv.scope = #s} : (!a) -> !n
  %r = clv.extreme %x, %m along "a" {clv.scope = #s} : (!a, !n) -> !i
  return %r : !i
})",
                        plan, {{{4}, {10, 5, 3, 8}}});
  EXPECT_EQ(outcome.values(), std::vector<double>{0});
}

// The maximum, and a clip, of a value that still is a pending sum.
TEST(FieldCases, Pytorch165962) {
  PlanBuilder plan = two();
  plan.shard({"k"}, {"d"});
  Outcome outcome =
      run(R"(
!ak = tensor<3x4xf32, #clv.dims<a, k>>
!a = tensor<3xf32, #clv.dims<a>>
func.func @forward(%x: !ak {clv.role = "input", clv.path = "x"}) -> (!n, !a) {
  %s = clv.reduce sum %x over ["k"] {clv.scope = #s} : (!ak) -> !a
  %m = clv.reduce max %s over ["a"] {clv.scope = #s} : (!a) -> !n
  %c = clv.constant 2.0 : f32 {clv.scope = #s} -> !n
  %r = clv.minimum %s, %c {clv.scope = #s} : (!a, !n) -> !a
  return %m, %r : !n, !a
})",
          plan, {{{3, 4}, {5, 5, -4, -4, 1, 0, 0, 0, -9, 3, 3, 4}}});
  EXPECT_EQ(outcome.values(), std::vector<double>{2});
  EXPECT_EQ(outcome.results[1].values, (std::vector<double>{2, 1, 1}));
  // Two readers, one reduction.
  EXPECT_EQ(outcome.collectives, Strings{"all_reduce d"});
}

// The mean over an uneven shard was a mean of means: 2.25.
TEST(FieldCases, Pytorch163241) {
  PlanBuilder plan = two();
  plan.shard({"a"}, {"d"});
  Outcome outcome = run(R"(
!a = tensor<5xf32, #clv.dims<a>>
func.func @forward(%x: !a {clv.role = "input", clv.path = "x"}) -> !n {
  %s = clv.reduce sum %x over ["a"] {clv.scope = #s} : (!a) -> !n
  %c = clv.constant 2.000000e-01 : f32 {clv.scope = #s} -> !n
  %r = clv.mul %s, %c {clv.scope = #s} : (!n, !n) -> !n
  return %r : !n
})",
                        plan, {counting({5})});
  EXPECT_NEAR(outcome.values()[0], 2, 1e-7);
  EXPECT_EQ(outcome.collectives, Strings{"all_reduce d"});
}

// Which operands of a product or sum may be pending.
TEST(FieldCases, Pytorch157340) {
  PlanBuilder plan = two();
  plan.shard({"k"}, {"d"});
  std::string head = R"(
!ak = tensor<3x4xf32, #clv.dims<a, k>>
!a = tensor<3xf32, #clv.dims<a>>
func.func @forward(%x: !ak {clv.role = "input", clv.path = "x"},
                   %w: !a {clv.role = "input", clv.path = "w"}) -> !a {
  %p = clv.reduce sum %x over ["k"] {clv.scope = #s} : (!ak) -> !a
  %y = clv.neg %x {clv.scope = #s} : (!ak) -> !ak
  %q = clv.reduce sum %y over ["k"] {clv.scope = #s} : (!ak) -> !a
)";
  auto of = [&](const std::string &body) {
    return run(head + body + "return %r : !a\n}", plan,
               {counting({3, 4}, -5), counting({3}, 1)});
  };
  // P * P: one is reduced first, then the product.
  EXPECT_EQ(
      of("%r = clv.mul %p, %q {clv.scope = #s} : (!a, !a) -> !a\n").collectives,
      (Strings{"all_reduce d", "all_reduce d"}));
  // P * R stays pending, as does P / R and P + P.
  for (const char *text : {"%r = clv.mul %p, %w {clv.scope = #s}",
                           "%r = clv.div %p, %w {clv.scope = #s}",
                           "%r = clv.sub %p, %q {clv.scope = #s}"}) {
    Outcome outcome = of(text + std::string(" : (!a, !a) -> !a\n"));
    EXPECT_EQ(outcome.collectives, Strings{"all_reduce d"}) << text;
    EXPECT_EQ(outcome.records[0].reason.find(
                  "`reduce over k` is done in parts: `k` is split on `d`") == 0,
              true)
        << text;
  }
  // P + R must not add R on every rank.
  EXPECT_EQ(
      of("%r = clv.add %p, %w {clv.scope = #s} : (!a, !a) -> !a\n").collectives,
      Strings{"all_reduce d"});
}

// A layer norm gathered dims that it does not normalise.
TEST(FieldCases, Pytorch120542) {
  PlanBuilder plan({{"d", 2}, {"c", 2}});
  plan.shard({"batch"}, {"d"}).dims = {"batch"};
  plan.shard({"seq"}, {"c"});
  Outcome outcome = run(R"(
!x = tensor<5x3x4xf32, #clv.dims<batch, seq, embed>>
!y = tensor<5x3xf32, #clv.dims<batch, seq>>
func.func @forward(%x: !x {clv.role = "input", clv.path = "x"}) -> !x {
  %c = clv.constant 2.500000e-01 : f32 {clv.scope = #s} -> !n
  %s = clv.reduce sum %x over ["embed"] {clv.scope = #s} : (!x) -> !y
  %m = clv.mul %s, %c {clv.scope = #s} : (!y, !n) -> !y
  %d = clv.sub %x, %m {clv.scope = #s} : (!x, !y) -> !x
  %q = clv.mul %d, %d {clv.scope = #s} : (!x, !x) -> !x
  %v = clv.reduce sum %q over ["embed"] {clv.scope = #s} : (!x) -> !y
  %i = clv.rsqrt %v {clv.scope = #s} : (!y) -> !y
  %r = clv.mul %d, %i {clv.scope = #s} : (!x, !y) -> !x
  return %r : !x
})",
                        plan, {counting({5, 3, 4})});
  EXPECT_TRUE(outcome.collectives.empty());
}

// Both axes of a 2 x 2 mesh on five rows, gathered back: a row lost.
TEST(FieldCases, Pytorch194457) {
  PlanBuilder plan({{"d", 2}, {"t", 2}});
  plan.shard({"a"}, {"d", "t"}, path("x"));
  Outcome outcome = run(R"(
!x = tensor<5x3xf32, #clv.dims<a, b>>
func.func @forward(%x: !x {clv.role = "input", clv.path = "x"}) -> !x {
  %r = clv.edge %x {inner = "m/in", clv.scope = #in} : (!x) -> !x
  %e = clv.edge %r {inner = "m/in", clv.scope = #s} : (!x) -> !x
  %y = clv.neg %e {clv.scope = #s} : (!x) -> !x
  return %y : !x
})",
                        plan, {counting({5, 3})});
  EXPECT_EQ(outcome.collectives, Strings{"all_gather d * t"});
  // At a region's edge, so of the inner region.
  EXPECT_EQ(outcome.records[0].value.path, "m/in");
}

// Five rows on four devices came back as eight; six over four are 2, 1, 2, 1.
TEST(FieldCases, Pytorch103306) {
  for (int64_t rows : {5, 6, 7, 12}) {
    PlanBuilder plan({{"d", 4}});
    plan.shard({"a"}, {"d"}, path("x"));
    std::string type = "tensor<" + std::to_string(rows) + "xf32, #clv.dims<a>>";
    Outcome outcome =
        run("func.func @forward(%x: " + type +
                " {clv.role = \"input\", clv.path = \"x\"}) -> " + type +
                " {\n %y = clv.neg %x {clv.scope = #s} : (" + type + ") -> " +
                type + "\n return %y : " + type + "\n}",
            plan, {counting({rows})});
    EXPECT_EQ(outcome.results[0].shape, std::vector<int64_t>{rows});
    EXPECT_EQ(outcome.collectives, Strings{"all_gather d"});
  }
  auto sizes = [](int64_t rows) {
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < 4; ++i) {
      sizes.push_back(layout::splitRule(rows, 4, i).size());
    }
    return sizes;
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes(6), (Sizes{2, 1, 2, 1}));
  EXPECT_EQ(sizes(7), (Sizes{2, 2, 2, 1}));
  EXPECT_EQ(sizes(12), (Sizes{3, 3, 3, 3})); // DeepSpeed #8291: 4, 4, 4, 0
}

// concat of two replicated and ten sharded ones gave fours.
TEST(FieldCases, Jax19106) {
  PlanBuilder plan({{"d", 4}, {"t", 2}});
  plan.shard({"ten"}, {"d", "t"});
  Outcome outcome =
      run(R"(
!a = tensor<2xf32, #clv.dims<two>>
!b = tensor<10xf32, #clv.dims<ten>>
!c = tensor<12xf32, #clv.dims<all>>
func.func @forward(%x: !a {clv.role = "input", clv.path = "x"},
                   %y: !b {clv.role = "input", clv.path = "y"}) -> !c {
  %p = clv.pad %x from "two" to "all" at 0 {clv.scope = #s} : (!a) -> !c
  %q = clv.pad %y from "ten" to "all" at 2 {clv.scope = #s} : (!b) -> !c
  %r = clv.add %p, %q {clv.scope = #s} : (!c, !c) -> !c
  return %r : !c
})",
          plan, {{{2}, {1, 1}}, {{10}, std::vector<double>(10, 1)}});
  EXPECT_EQ(outcome.values(), std::vector<double>(12, 1));
}

/// A roll of x, whose element i is element (i + by) mod n of x.
static Outcome roll(int64_t size, int64_t by, const PlanBuilder &plan,
                    const std::string &setup = "",
                    std::vector<int64_t> shape = {}) {
  auto type = [](const std::string &dim, int64_t n) {
    return "tensor<" + std::to_string(n) + "xf32, #clv.dims<" + dim + ">>";
  };
  std::string text =
      "!m = " + type("m", size) + "\n!low = " + type("low", by) +
      "\n!high = " + type("high", size - by) + "\n" +
      (setup.empty() ? "func.func @forward(%x: !m {clv.role = \"input\", "
                       "clv.path = \"x\"}) -> !m {\n"
                     : setup) +
      "%a = clv.slice %x from \"m\" to \"high\" at " + std::to_string(by) +
      " {clv.scope = #s} : (!m) -> !high\n"
      "%b = clv.slice %x from \"m\" to \"low\" at 0 {clv.scope = #s} : (!m) "
      "-> !low\n"
      "%p = clv.pad %a from \"high\" to \"m\" at 0 {clv.scope = #s} : (!high) "
      "-> !m\n"
      "%q = clv.pad %b from \"low\" to \"m\" at " +
      std::to_string(size - by) +
      " {clv.scope = #s} : (!low) -> !m\n"
      "%r = clv.add %p, %q {clv.scope = #s} : (!m, !m) -> !m\n"
      "return %r : !m\n}";
  return run(text, plan, {counting(shape.empty() ? std::vector{size} : shape)});
}

// A static roll became an all-reduce.
TEST(FieldCases, Jax15773) {
  PlanBuilder plan({{"d", 4}});
  plan.shard({"m"}, {"d"});
  Outcome outcome = roll(16, 1, plan);
  EXPECT_EQ(outcome.collectives, Strings{"shift d"});
  EXPECT_EQ(outcome.records.front().bytesBusiest, 4) << "the edge";
  EXPECT_EQ(outcome.records.front().bytesTotal, 4 * 4);
  // Any distance, pieces that are uneven or empty, two axes in either order.
  for (int64_t size = 2; size <= 9; ++size) {
    for (int64_t by = 1; by < size; ++by) {
      PlanBuilder both({{"d", 2}, {"t", 3}});
      both.shard({"m"}, {"t", "d"});
      EXPECT_EQ(roll(size, by, plan).collectives, Strings{"shift d"});
      EXPECT_EQ(roll(size, by, both).collectives, Strings{"shift d * t"});
    }
  }
  // Where the dim is whole there is nothing to send.
  PlanBuilder other({{"d", 4}});
  other.shard({"n"}, {"d"});
  EXPECT_EQ(roll(5, 2, other).collectives, Strings{});
}

// A roll is linear: a pending sum stays one, and is reduced once.
TEST(FieldCases, ARollOfAPendingSum) {
  PlanBuilder plan({{"d", 3}, {"t", 2}});
  plan.shard({"m"}, {"d"});
  plan.shard({"k"}, {"t"});
  Outcome outcome = roll(5, 2, plan,
                         R"(!mk = tensor<5x4xf32, #clv.dims<m, k>>
func.func @forward(%y: !mk {clv.role = "input", clv.path = "x"}) -> !m {
%x = clv.reduce sum %y over ["k"] {clv.scope = #s} : (!mk) -> !m
)",
                         {5, 4});
  EXPECT_EQ(outcome.collectives, (Strings{"shift d", "all_reduce t"}));
}

// Picking one layer of a layer-sharded stack gathered the stack.
TEST(FieldCases, Xla44795) {
  PlanBuilder plan({{"d", 4}});
  plan.shard({"stack"}, {"d"});
  for (int64_t size : {8, 7, 3}) {
    for (int64_t layer = 0; layer < size; ++layer) {
      std::string stack = std::to_string(size) + "x6xf32";
      Outcome outcome =
          run("!w = tensor<" + stack + ", #clv.dims<stack, n>>\n" +
                  "!one = tensor<1x6xf32, #clv.dims<one, n>>\n" +
                  "func.func @forward(%w: !w {clv.role = \"input\", clv.path = "
                  "\"x\"}) -> !one {\n%r = clv.slice %w from \"stack\" to "
                  "\"one\" at " +
                  std::to_string(layer) +
                  " {clv.scope = #s} : (!w) -> !one\nreturn %r : !one\n}",
              plan, {counting({size, 6})});
      EXPECT_EQ(outcome.collectives, Strings{"all_gather d"});
      // Six numbers, to three devices.
      EXPECT_EQ(outcome.records.front().bytesTotal, 6 * 4 * 3);
      EXPECT_EQ(outcome.records.front().bytesBusiest, 6 * 4 * 3);
    }
  }
}

// A position sees the one before it: the edge moves, and the first stays.
TEST(FieldCases, APreviousElementIsAShiftOfTheEdge) {
  PlanBuilder plan({{"d", 4}});
  plan.shard({"m"}, {"d"});
  Outcome outcome = run(R"(
!m = tensor<16xf32, #clv.dims<m>>
!tail = tensor<15xf32, #clv.dims<tail>>
!one = tensor<1xf32, #clv.dims<one>>
func.func @forward(%x: !m {clv.role = "input", clv.path = "x"}) -> !m {
  %a = clv.slice %x from "m" to "one" at 0 {clv.scope = #s} : (!m) -> !one
  %b = clv.slice %x from "m" to "tail" at 0 {clv.scope = #s} : (!m) -> !tail
  %p = clv.pad %a from "one" to "m" at 0 {clv.scope = #s} : (!one) -> !m
  %q = clv.pad %b from "tail" to "m" at 1 {clv.scope = #s} : (!tail) -> !m
  %r = clv.add %p, %q {clv.scope = #s} : (!m, !m) -> !m
  return %r : !m
})",
                        plan, {counting({16})});
  EXPECT_EQ(outcome.collectives, Strings{"shift d"});
  EXPECT_EQ(outcome.records.front().bytesTotal, 3 * 4);
}

// The embedding gradient: a slice before the reduction mixed rows.
TEST(FieldCases, Xla42481) {
  PlanBuilder plan({{"d", 2}, {"t", 2}});
  plan.shard({"n"}, {"d"});
  plan.shard({"vocab"}, {"t"});
  Outcome outcome = run(R"(
!u = tensor<3x2xf32, #clv.dims<n, embed>>
!v = tensor<5x2xf32, #clv.dims<vocab, embed>>
!ids = tensor<3xi32, #clv.dims<n>>
func.func @forward(%u: !u {clv.role = "input", clv.path = "u"},
                   %ids: !ids {clv.role = "input", clv.path = "ids"}) -> !v {
  %r = clv.scatter_add %u, %ids along "vocab" {clv.scope = #s} : (!u, !ids) -> !v
  return %r : !v
})",
                        plan, {counting({3, 2}, 1), {{3}, {3, 1, 3}}});
  EXPECT_EQ(outcome.values(),
            (std::vector<double>{0, 0, 3, 4, 0, 0, 6, 8, 0, 0}));
  EXPECT_EQ(outcome.collectives, (Strings{"all_reduce d"}));
}

// Random values depended on the number of shards.
TEST(FieldCases, Jax40232) {
  std::vector<double> first;
  for (int64_t devices : {1, 4, 8, 16}) {
    PlanBuilder plan({{"d", devices}});
    plan.shard({"a"}, {"d"});
    Outcome outcome = run(R"(
!a = tensor<11xf32, #clv.dims<a>>
func.func @forward(%seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !a {
  %c = clv.constant 0 : i32 {clv.scope = #s} -> !i
  %r = clv.random %seed, %step, %c at "m/drop" {clv.scope = #s} : (!i, !i, !i) -> !a
  return %r : !a
})",
                          plan, {Tensor::scalar(5), Tensor::scalar(2)});
    EXPECT_TRUE(outcome.collectives.empty());
    if (devices == 1) {
      first = outcome.values();
    }
    EXPECT_EQ(outcome.values(), first);
  }
}

// Tokens counted locally: 14/3 instead of 4.
TEST(FieldCases, Megatron7452) {
  PlanBuilder plan = two();
  plan.shard({"a"}, {"d"});
  Outcome outcome = run(R"(
!a = tensor<4xf32, #clv.dims<a>>
func.func @forward(%l: !a {clv.role = "input", clv.path = "l"},
                   %m: !a {clv.role = "input", clv.path = "m"}) -> !n {
  %k = clv.mul %l, %m {clv.scope = #s} : (!a, !a) -> !a
  %s = clv.reduce sum %k over ["a"] {clv.scope = #s} : (!a) -> !n
  %c = clv.reduce sum %m over ["a"] {clv.scope = #s} : (!a) -> !n
  %r = clv.div %s, %c {clv.scope = #s} : (!n, !n) -> !n
  return %r : !n
})",
                        plan, {{{4}, {2, 9, 6, 4}}, {{4}, {1, 0, 1, 1}}});
  EXPECT_EQ(outcome.values(), std::vector<double>{4});
}

// Clipping used the local norm: 3, 4, 12 have the norm 13.
TEST(FieldCases, Torchtitan596) {
  PlanBuilder plan({{"d", 3}});
  plan.shard({"a"}, {"d"});
  Outcome outcome = run(R"(
!a = tensor<3xf32, #clv.dims<a>>
func.func @forward(%x: !a {clv.role = "input", clv.path = "x"}) -> !n {
  %q = clv.mul %x, %x {clv.scope = #s} : (!a, !a) -> !a
  %s = clv.reduce sum %q over ["a"] {clv.scope = #s} : (!a) -> !n
  %r = clv.sqrt %s {clv.scope = #s} : (!n) -> !n
  return %r : !n
})",
                        plan, {{{3}, {3, 4, 12}}});
  EXPECT_EQ(outcome.values(), std::vector<double>{13});
  EXPECT_EQ(outcome.collectives, Strings{"all_reduce d"});
}

// Label smoothing used the local vocabulary: 8 over 2 equals the unsharded.
TEST(FieldCases, Megatron737) {
  PlanBuilder plan = two();
  plan.shard({"vocab"}, {"d"});
  Outcome outcome = run(R"(
!l = tensor<3x8xf32, #clv.dims<n, vocab>>
!p = tensor<3xf32, #clv.dims<n>>
func.func @forward(%x: !l {clv.role = "input", clv.path = "x"}) -> !p {
  %m = clv.reduce max %x over ["vocab"] {clv.scope = #s} : (!l) -> !p
  %d = clv.sub %x, %m {clv.scope = #s} : (!l, !p) -> !l
  %e = clv.exp %d {clv.scope = #s} : (!l) -> !l
  %z = clv.reduce sum %e over ["vocab"] {clv.scope = #s} : (!l) -> !p
  %g = clv.log %z {clv.scope = #s} : (!p) -> !p
  %t = clv.reduce sum %d over ["vocab"] {clv.scope = #s} : (!l) -> !p
  %c = clv.constant 1.250000e-01 : f32 {clv.scope = #s} -> !n
  %u = clv.mul %t, %c {clv.scope = #s} : (!p, !n) -> !p
  %r = clv.sub %g, %u {clv.scope = #s} : (!p, !p) -> !p
  return %r : !p
})",
                        plan, {counting({3, 8}, -3)});
  // The maximum, the sum of exponentials, the mean.
  EXPECT_EQ(outcome.collectives,
            (Strings{"all_reduce d", "all_reduce d", "all_reduce d"}));
}

// A sum that leaves two regions at once is scattered, not reduced at the inner
// edge and sliced at the outer one (tt-xla #3071).
TEST(FieldCases, SumsCrossEdgesThatChangeNothing) {
  PlanBuilder plan = two();
  plan.shard({"ff"}, {"d"});
  plan.shard({"seq"}, {"d"});
  plan.shard({"seq"}, {}, path("m/in"));
  plan.shard({"seq"}, {}, role(layout::Role::Inputs));
  Outcome outcome = run(R"(
!h = tensor<5x3xf32, #clv.dims<seq, ff>>
!w = tensor<3x2xf32, #clv.dims<ff, embed>>
!x = tensor<5x2xf32, #clv.dims<seq, embed>>
func.func @forward(%h: !h {clv.role = "input", clv.path = "h"},
                   %w: !w {clv.role = "input", clv.path = "w"}) -> !x {
  %p = clv.dot %h, %w over ["ff"] {clv.scope = #clv.scope<activations, forward, path = "m/in/lin">} : (!h, !w) -> !x
  %q = clv.edge %p {inner = "m/in/lin", clv.scope = #in} : (!x) -> !x
  %r = clv.edge %q {inner = "m/in", clv.scope = #s} : (!x) -> !x
  %e = clv.exp %r {clv.scope = #s} : (!x) -> !x
  return %e : !x
})",
                        plan, {counting({5, 3}), counting({3, 2}, -3)});
  EXPECT_EQ(outcome.collectives, Strings{"reduce_scatter d"});
  EXPECT_EQ(outcome.records[0].value.path, "m/in");
  EXPECT_EQ(outcome.records[0].operation, "dot over ff");
}

// Splitting the dim of a repeat is refused, with the statement that asks for
// it.
TEST(FieldCases, RepeatDimIsRefused) {
  PlanBuilder plan = two();
  plan.shard({"layer"}, {"d"});
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(std::string(kTypes) + R"(
!a = tensor<3xf32, #clv.dims<a>>
!la = tensor<2x3xf32, #clv.dims<layer, a>>
func.func @forward(%x: !a {clv.role = "input", clv.path = "x"},
                   %p: !la {clv.role = "param", clv.path = "layer/p"}) -> !a {
  %r = clv.repeat %i of "layer" from 0 count 2 carried(%c = %x : !a)
      stacked(%q = %p : !la slice !a) -> !a attributes {clv.scope = #s} {
    %w = clv.weight %q {clv.scope = #clv.scope<weights, forward, path = "layer/p", reader = "layer">} : (!a) -> !a
    %y = clv.add %c, %w {clv.scope = #s} : (!a, !a) -> !a
    clv.yield %y : !a
  }
  return %r : !a
})",
                                              mlir::ParserConfig(&context));
  ASSERT_TRUE(module);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message = diagnostic.str();
                                          return mlir::success();
                                        });
  EXPECT_TRUE(mlir::failed(partition(*module, plan.plan)));
  EXPECT_NE(message.find("the dim `layer` of `layer/p` is split on `d` by "
                         "`shard layer on d` at test.clv:1"),
            std::string::npos)
      << message;
}
