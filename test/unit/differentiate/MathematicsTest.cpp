//===- MathematicsTest.cpp - What a training step computes ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Mathematics.h"
#include "test/unit/differentiate/Check.h"

using namespace cleave;

namespace {

/// A model with one parameter, and an optimizer with two states. `REPLACED`
/// parts are what the tests change.
const char *const kModel = R"(
!w = tensor<4xf32, #clv.dims<row>>
!s = tensor<f32>
!i = tensor<i32>
#in = #clv.scope<activations, forward, path = "inner">
module attributes {clv.clip = 1.5 : f64, clv.model = "m"} {
func.func @loss(%w: !w {clv.init = {a = 0.0 : f64, b = 1.0 : f64, kind = "normal"}, clv.path = "w", clv.role = "param"},
    %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> (!s {clv.result = "loss"}) {
  %x = clv.weight %w {clv.scope = #in} : (!w) -> !w
  %p = clv.mul %x, %x {clv.scope = #in} : (!w, !w) -> !w
  %r = clv.reduce sum %p over ["row"] {clv.scope = #in} : (!w) -> !s
  return %r : !s
}
func.func private @update.0(%w: !w {clv.role = "param"}, %g: !w {clv.role = "gradient"},
    %m: !w {clv.role = "optimizer", clv.state = "other"}, %f: !w {clv.role = "optimizer", clv.state = "first"},
    %step: !i {clv.role = "step"}) -> (!w, !w, !w) attributes {clv.param = "w"} {
  %k = clv.constant 0.9 : f32 -> !s
  %d = clv.constant 0.1 : f32 -> !s
  %a = clv.mul %k, %f : (!s, !w) -> !w
  %b = clv.mul %g, %d : (!w, !s) -> !w
  %n = clv.add %b, %a : (!w, !w) -> !w
  %o = clv.add %m, %g : (!w, !w) -> !w
  %u = clv.sub %w, %n : (!w, !w) -> !w
  return %u, %o, %n : !w, !w, !w
}
func.func @eval(%w: !w {clv.path = "w", clv.role = "param"}) -> (!s {clv.result = "loss"}) {
  %r = clv.reduce sum %w over ["row"] : (!w) -> !s
  return %r : !s
}
}
)";

class MathematicsOf : public testing::Test {
protected:
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  /// The model with one part replaced, everywhere.
  std::string with(const std::string &part, const std::string &other) {
    std::string text = kModel;
    EXPECT_NE(text.find(part), std::string::npos) << part;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;
         at += other.size()) {
      text.replace(at, part.size(), other);
    }
    return text;
  }
  Mathematics of(const std::string &text) {
    return mathematicsOf(*parse(text));
  }

  mlir::MLIRContext context;
};

} // namespace

TEST_F(MathematicsOf, WhatOnlySaysWhereThingsAre) {
  Mathematics plain = of(kModel);
  EXPECT_NE(plain.loss, 0u);
  EXPECT_NE(plain.loss, plain.update);
  // Regions, the model's name, first values, other entries, names of values,
  // what nothing uses, and what is computed twice.
  for (const std::string &text :
       {with("path = \"inner\"", "path = \"outer/inner\""),
        with("clv.model = \"m\"", "clv.model = \"n\""),
        with("b = 1.0", "b = 2.0"), with("reduce sum %w", "reduce max %w"),
        with("%p", "%product"),
        with("  %r = clv.reduce sum %p",
             "  %e = clv.exp %p : (!w) -> !w\n  %r = clv.reduce sum %p"),
        with("%p = clv.mul %x, %x", "%y = clv.weight %w : (!w) -> !w\n"
                                    "  %p = clv.mul %x, %y"),
        with("%p = clv.mul %x, %x",
             "%y = clv.edge %x {inner = \"inner\"} : (!w) -> !w\n"
             "  %p = clv.mul %y, %x")}) {
    Mathematics other = of(text);
    EXPECT_EQ(other.lossText, plain.lossText);
    EXPECT_EQ(other.loss, plain.loss);
    EXPECT_EQ(other.update, plain.update);
  }
}

TEST_F(MathematicsOf, TheLoss) {
  Mathematics plain = of(kModel);
  for (const std::string &text :
       {with("%p = clv.mul %x, %x", "%p = clv.add %x, %x"),
        with("<4xf32", "<5xf32"), with("clv.path = \"w\"", "clv.path = \"v\""),
        with("sum %p", "max %p")}) {
    Mathematics other = of(text);
    EXPECT_NE(other.loss, plain.loss) << text;
  }
}

TEST_F(MathematicsOf, TheUpdate) {
  Mathematics plain = of(kModel);
  for (const std::string &text :
       {with("0.9 :", "0.8 :"), with("clip = 1.5", "clip = 2.5"),
        with("clv.clip = 1.5 : f64, ", ""),
        with("%u = clv.sub %w, %n", "%u = clv.sub %w, %o")}) {
    Mathematics other = of(text);
    EXPECT_NE(other.update, plain.update) << text;
    EXPECT_EQ(other.loss, plain.loss) << text;
  }
}

TEST_F(MathematicsOf, MeansOfGradients) {
  std::optional<GradientMean> mean = gradientMeanOf(*parse(kModel));
  ASSERT_TRUE(mean);
  EXPECT_EQ(mean->state, "first");
  EXPECT_NEAR(mean->keep, 0.9, 1e-7);
  // Numbers that do not add up to 1, another operand than the gradient, and a
  // second parameter with another number.
  std::string text = kModel;
  size_t begin = text.find("func.func private @update.0");
  std::string second = text.substr(begin, text.find("func.func @eval") - begin);
  second.replace(second.find("update.0"), 8, "update.1");
  std::string both = text;
  both.insert(begin, second);
  EXPECT_TRUE(gradientMeanOf(*parse(both)));
  second.replace(second.find("0.9 :"), 5, "0.8 :");
  second.replace(second.find("0.1 :"), 5, "0.2 :");
  both = text;
  both.insert(begin, second);
  for (const std::string &other :
       {with("0.9 :", "0.8 :"), with("%b = clv.mul %g", "%b = clv.mul %w"),
        both}) {
    EXPECT_FALSE(gradientMeanOf(*parse(other))) << other;
  }
}
