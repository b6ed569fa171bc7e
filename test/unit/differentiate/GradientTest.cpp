//===- GradientTest.cpp - Gradients against finite differences ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/differentiate/Check.h"

#include <set>

using namespace cleave;
using namespace cleave::test;

namespace {

struct Case {
  const char *name;
  const char *body; ///< of a function of %x: !ab, %y: !ab; ends with %r
  const char *type; ///< of %r
  double low = -2, high = 2;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << c.name;
}

class EveryOperation : public testing::TestWithParam<Case> {};

#define UNARY(NAME) {#NAME, "%r = clv." #NAME " %x : (!ab) -> !ab\n", "!ab"}
#define BINARY(NAME)                                                           \
  {#NAME, "%r = clv." #NAME " %x, %y : (!ab, !ab) -> !ab\n", "!ab"}
#define POSITIVE(NAME)                                                         \
  {#NAME, "%r = clv." #NAME " %x : (!ab) -> !ab\n", "!ab", 0.5, 2}

const Case kCases[] = {
    BINARY(add),
    BINARY(sub),
    BINARY(mul),
    {"div", "%r = clv.div %x, %y : (!ab, !ab) -> !ab\n", "!ab", 0.5, 2},
    {"pow", "%r = clv.pow %x, %y : (!ab, !ab) -> !ab\n", "!ab", 0.5, 2},
    BINARY(maximum),
    BINARY(minimum),
    UNARY(neg),
    UNARY(exp),
    POSITIVE(log),
    POSITIVE(sqrt),
    POSITIVE(rsqrt),
    UNARY(sin),
    UNARY(cos),
    UNARY(tanh),
    UNARY(erf),
    UNARY(relu),
    UNARY(gelu),
    UNARY(silu),
    UNARY(sigmoid),
    UNARY(abs),
    {"select",
     "%c = clv.less %x, %y : (!ab, !ab) -> !abi1\n"
     "%m = clv.mul %x, %y : (!ab, !ab) -> !ab\n"
     "%r = clv.select %c, %m, %y : (!abi1, !ab, !ab) -> !ab\n",
     "!ab"},
    {"cast",
     "%c = clv.cast %x : (!ab) -> tensor<2x3xf64, #clv.dims<a, b>>\n"
     "%r = clv.cast %c : (tensor<2x3xf64, #clv.dims<a, b>>) -> !ab\n",
     "!ab"},
    {"reduce_sum", "%r = clv.reduce sum %x over [\"a\"] : (!ab) -> !b\n", "!b"},
    {"reduce_max", "%r = clv.reduce max %x over [\"a\", \"b\"] : (!ab) -> !s\n",
     "!s"},
    {"reduce_max_kept", "%r = clv.reduce max %x over [\"b\"] : (!ab) -> !a\n",
     "!a"},
    {"reduce_min", "%r = clv.reduce min %x over [\"b\", \"a\"] : (!ab) -> !s\n",
     "!s"},
    {"broadcast_by_name",
     "%p = clv.reduce sum %x over [\"a\"] : (!ab) -> !b\n"
     "%r = clv.mul %p, %y : (!b, !ab) -> !ba\n",
     "!ba"},
    {"broadcast",
     "%p = clv.reduce sum %x over [\"b\"] : (!ab) -> !a\n"
     "%r = clv.broadcast %p : (!a) -> !ab\n",
     "!ab"},
    {"transpose", "%r = clv.broadcast %x : (!ab) -> !ba\n", "!ba"},
    {"dot", "%r = clv.dot %x, %y over [\"b\"] : (!ab, !ab) -> !a\n", "!a"},
    {"dot_all", "%r = clv.dot %x, %y over [\"a\", \"b\"] : (!ab, !ab) -> !s\n",
     "!s"},
    {"dot_matrix",
     "%z = clv.rename %y : (!ab) -> !cb\n"
     "%r = clv.dot %x, %z over [\"b\"] : (!ab, !cb) -> !ac\n",
     "!ac"},
    {"dot_turned",
     "%z = clv.rename %y : (!ab) -> !cb\n"
     "%r = clv.dot %x, %z over [\"b\"] : (!ab, !cb) -> !ca\n",
     "!ca"},
    {"dot_outer",
     "%p = clv.reduce sum %x over [\"b\"] : (!ab) -> !a\n"
     "%q = clv.reduce sum %y over [\"a\"] : (!ab) -> !b\n"
     "%r = clv.dot %p, %q over [] : (!a, !b) -> !ab\n",
     "!ab"},
    {"lookup",
     "%i = clv.index {first = 1 : i64} -> !ni\n"
     "%r = clv.lookup %x, %i along \"a\" : (!ab, !ni) -> !nb\n",
     "!nb"},
    {"scatter_add",
     "%i = clv.index -> tensor<2xi32, #clv.dims<a>>\n"
     "%r = clv.scatter_add %x, %i along \"c\" : (!ab, tensor<2xi32, "
     "#clv.dims<a>>) -> tensor<2x3xf32, #clv.dims<c, b>>\n",
     "!cb"},
    {"cumsum", "%r = clv.cumsum %x along \"b\" : (!ab) -> !ab\n", "!ab"},
    {"cumsum_reverse",
     "%r = clv.cumsum %x along \"a\" reverse : (!ab) -> !ab\n", "!ab"},
    {"cumsum_turned", "%r = clv.cumsum %x along \"a\" : (!ab) -> !ba\n", "!ba"},
    {"attention",
     "%k = clv.rename %y : (!ab) -> !cb\n"
     "%m = clv.mul %x, %y : (!ab, !ab) -> !ab\n"
     "%v = clv.rename %m : (!ab) -> !cb\n"
     "%n = clv.attention_sum %x, %k {seq = \"a\", keys = \"c\", over = "
     "[\"b\"], scale = 0.5 : f64, causal} : (!ab, !cb) -> !a\n"
     "%r = clv.attention %x, %k, %v, %n {seq = \"a\", keys = \"c\", over = "
     "[\"b\"], scale = 0.5 : f64, causal} : (!ab, !cb, !cb, !a) -> !ab\n",
     "!ab"},
    {"softmax", "%r = clv.softmax %x over [\"b\"] : (!ab) -> !ab\n", "!ab"},
    {"softmax_two", "%r = clv.softmax %x over [\"b\", \"a\"] : (!ab) -> !ab\n",
     "!ab"},
    {"logsumexp", "%r = clv.logsumexp %x over [\"a\"] : (!ab) -> !b\n", "!b"},
    {"rename", "%r = clv.rename %x : (!ab) -> !cb\n", "!cb"},
    {"rename_turned",
     "%t = clv.mul %p, %y : (!b, !ab) -> !ba\n"
     "%u = clv.rename %t : (!ba) -> !bc\n"
     "%r = clv.broadcast %u : (!bc) -> !cb\n",
     "!cb"},
    {"slice", "%r = clv.slice %x from \"b\" to \"n\" at 1 : (!ab) -> !an\n",
     "!an"},
    {"pad",
     "%r = clv.pad %x from \"b\" to \"d\" at 1 : (!ab) -> "
     "tensor<2x5xf32, #clv.dims<a, d>>\n",
     "tensor<2x5xf32, #clv.dims<a, d>>"},
    {"edge", "%r = clv.edge %x {inner = \"r\"} : (!ab) -> !ab\n", "!ab"},
    {"weight", "%r = clv.weight %x : (!ab) -> !ab\n", "!ab"},
    {"gradient", "%r = clv.gradient %x : (!ab) -> !ab\n", "!ab"},
    {"stop_gradient_beside",
     "%t = clv.stop_gradient %y : (!ab) -> !ab\n"
     "%u = clv.sub %t, %t : (!ab, !ab) -> !ab\n"
     "%v = clv.mul %x, %y : (!ab, !ab) -> !ab\n"
     "%r = clv.add %u, %v : (!ab, !ab) -> !ab\n",
     "!ab"},
    {"random",
     "%i = clv.constant 0 : i32 -> !i\n"
     "%u = clv.random %seed, %step, %i at \"drop\" : (!i, !i, !i) -> !ab\n"
     "%r = clv.mul %x, %u : (!ab, !ab) -> !ab\n",
     "!ab"},
};

} // namespace

TEST_P(EveryOperation, GradientIsThatOfFiniteDifferences) {
  Case c = GetParam();
  std::string body = c.body;
  if (body.find("%p,") != std::string::npos &&
      body.find("%p =") == std::string::npos) {
    body = "%p = clv.reduce sum %x over [\"a\"] : (!ab) -> !b\n" + body;
  }
  Program program = lossOf(body, c.type);
  checkGradients(program, c.low, c.high);
}

INSTANTIATE_TEST_SUITE_P(All, EveryOperation, testing::ValuesIn(kCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST(Gradient, NoOperationIsForgotten) {
  const std::set<std::string> withoutGradient = {"clv.attention_query_gradient",
                                                 "clv.attention_key_gradient",
                                                 "clv.attention_value_gradient",
                                                 "clv.constant",
                                                 "clv.index",
                                                 "clv.random",
                                                 "clv.extreme",
                                                 "clv.less",
                                                 "clv.less_equal",
                                                 "clv.equal",
                                                 "clv.not_equal",
                                                 "clv.and",
                                                 "clv.or",
                                                 "clv.not"};
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect>();
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    std::string op = name.getStringRef().str();
    if (!name.hasInterface<clv::GradientInterface>() ||
        withoutGradient.count(op)) {
      continue;
    }
    EXPECT_TRUE(llvm::any_of(kCases, [&](const Case &c) {
      return llvm::StringRef(c.body).contains(op + " ");
    })) << op;
  }
}

//===----------------------------------------------------------------------===//
// Where finite differences say nothing
//===----------------------------------------------------------------------===//

namespace {

std::vector<double> gradientAt(const char *body, const char *type, Tensor x,
                               Tensor y) {
  Program program = lossOf(body, type, /*weighted=*/false);
  auto gradients = program.gradients({std::move(x), std::move(y)});
  return gradients.empty() ? std::vector<double>() : gradients[0].values;
}

const Tensor kX = {{2, 3}, {1, 0, 2, -1, 2, 2}};
const Tensor kY = {{2, 3}, {1, 1, 1, -1, 2, 3}};

} // namespace

TEST(Ties, FollowTheirDefinitions) {
  using Values = std::vector<double>;
  EXPECT_EQ(gradientAt("%r = clv.maximum %x, %y : (!ab, !ab) -> !ab\n", "!ab",
                       kX, kY),
            (Values{1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(gradientAt("%r = clv.minimum %x, %y : (!ab, !ab) -> !ab\n", "!ab",
                       kX, kY),
            (Values{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(gradientAt("%r = clv.relu %x : (!ab) -> !ab\n", "!ab", kX, kY),
            (Values{1, 0, 1, 0, 1, 1}));
  EXPECT_EQ(gradientAt("%r = clv.abs %x : (!ab) -> !ab\n", "!ab", kX, kY),
            (Values{1, 0, 1, -1, 1, 1}));
  EXPECT_EQ(gradientAt("%r = clv.reduce max %x over [\"a\", \"b\"] : (!ab) -> "
                       "!s\n",
                       "!s", kX, kY),
            (Values{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(gradientAt("%r = clv.reduce max %x over [\"b\"] : (!ab) -> !a\n",
                       "!a", kX, kY),
            (Values{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(gradientAt("%r = clv.reduce min %y over [\"b\"] : (!ab) -> !a\n"
                       "%k = clv.reduce min %x over [\"a\"] : (!ab) -> !b\n",
                       "!a", kX, kY),
            (Values{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(
      gradientAt("%r = clv.stop_gradient %x : (!ab) -> !ab\n", "!ab", kX, kY),
      (Values{0, 0, 0, 0, 0, 0}));
}
