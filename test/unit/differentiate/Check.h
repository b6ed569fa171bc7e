//===- Check.h - Programs whose gradients are checked -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_DIFFERENTIATE_CHECK_H
#define CLEAVE_TEST_UNIT_DIFFERENTIATE_CHECK_H

#include "compiler/differentiate/Differentiate.h"
#include "compiler/reference/Reference.h"
#include "dialects/clv/Clv.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>

namespace cleave::test {

using reference::Tensor;

inline const char *kTypes = "!ab = tensor<2x3xf32, #clv.dims<a, b>>\n"
                            "!abi1 = tensor<2x3xi1, #clv.dims<a, b>>\n"
                            "!ba = tensor<3x2xf32, #clv.dims<b, a>>\n"
                            "!bc = tensor<3x2xf32, #clv.dims<b, c>>\n"
                            "!cb = tensor<2x3xf32, #clv.dims<c, b>>\n"
                            "!ac = tensor<2x2xf32, #clv.dims<a, c>>\n"
                            "!ca = tensor<2x2xf32, #clv.dims<c, a>>\n"
                            "!nb = tensor<2x3xf32, #clv.dims<n, b>>\n"
                            "!an = tensor<2x2xf32, #clv.dims<a, n>>\n"
                            "!ni = tensor<2xi32, #clv.dims<n>>\n"
                            "!a = tensor<2xf32, #clv.dims<a>>\n"
                            "!b = tensor<3xf32, #clv.dims<b>>\n"
                            "!s = tensor<f32>\n!i = tensor<i32>\n";

/// A module with @loss, and updates by plain descent added; @train beside it.
class Program {
public:
  explicit Program(const std::string &text, bool withUpdates = true)
      : context(std::make_unique<mlir::MLIRContext>()) {
    context->loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
    mlir::ParserConfig config(context.get());
    module = mlir::parseSourceString<mlir::ModuleOp>(text, config);
    EXPECT_TRUE(module) << text;
    if (!module) {
      return;
    }
    if (withUpdates) {
      addUpdates();
    }
    StepOptions options;
    options.probe = true;
    bool built = succeeded(buildStep(*module, options)) &&
                 succeeded(mlir::verify(*module));
    EXPECT_TRUE(built) << "@train is not made";
    if (!built) {
      module->dump();
      module = nullptr;
    }
  }

  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
  std::vector<Tensor> evaluate(llvm::StringRef name,
                               llvm::ArrayRef<Tensor> arguments) {
    auto results = reference::evaluate(function(name), arguments);
    if (!results) {
      ADD_FAILURE() << llvm::toString(results.takeError());
      return {};
    }
    return *results;
  }
  /// The gradients of all parameters. `arguments`: inputs and parameters, of
  /// programs without optimizer leaves; seed 11 and step 3 are added.
  std::vector<Tensor> gradients(std::vector<Tensor> arguments) {
    if (!module) {
      return {};
    }
    withCounters(arguments);
    auto results = evaluate("train", arguments);
    std::vector<Tensor> out;
    for (size_t i = 0; i < results.size(); ++i) {
      auto kind = function("train").getResultAttrOfType<mlir::StringAttr>(
          i, "clv.result");
      if (kind.getValue() == "gradient") {
        out.push_back(results[i]);
      }
    }
    return out;
  }
  static void withCounters(std::vector<Tensor> &arguments) {
    arguments.push_back(Tensor::scalar(11));
    arguments.push_back(Tensor::scalar(3));
  }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

private:
  void addUpdates() {
    using namespace mlir;
    auto loss = function("loss");
    OpBuilder builder(context.get());
    for (BlockArgument argument : loss.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto role = loss.getArgAttrOfType<StringAttr>(i, "clv.role");
      if (role.getValue() != "param") {
        continue;
      }
      builder.setInsertionPointToEnd(module->getBody());
      Type type = argument.getType();
      Type step = RankedTensorType::get({}, builder.getI32Type());
      auto update = builder.create<func::FuncOp>(
          loss.getLoc(), "update." + std::to_string(i),
          builder.getFunctionType({type, type, step}, {type}));
      update.setPrivate();
      update->setAttr("clv.param", loss.getArgAttr(i, "clv.path"));
      builder.setInsertionPointToEnd(update.addEntryBlock());
      clv::Build build(builder, loss.getLoc(), {});
      Value next = build.sub(update.getArgument(0), update.getArgument(1));
      builder.create<func::ReturnOp>(loss.getLoc(), next);
    }
  }
};

/// @loss with parameters %x and %y of type !ab, which are read as weights, and
/// the sum of `%r`, each element times another number if `weighted`.
inline std::string textOf(const std::string &body, const std::string &type,
                          bool weighted = true) {
  std::string text =
      std::string(kTypes) +
      "func.func @loss(%px: !ab {clv.role = \"param\", clv.path = \"x\"}, "
      "%py: !ab {clv.role = \"param\", clv.path = \"y\"}, "
      "%seed: !i {clv.role = \"seed\"}, %step: !i {clv.role = \"step\"}) "
      "-> !s {\n"
      "%x = clv.weight %px : (!ab) -> !ab\n"
      "%y = clv.weight %py : (!ab) -> !ab\n" +
      body;
  std::string value = "%r";
  if (weighted) {
    // sin(1 + global index of sorts) from random numbers: any fixed weights do.
    text += "%wi = clv.constant 7 : i32 -> !i\n"
            "%w = clv.random %seed, %step, %wi at \"weights\" : (!i, !i, !i) "
            "-> " +
            type + "\n%wr = clv.mul %r, %w : (" + type + ", " + type + ") -> " +
            type + "\n";
    value = "%wr";
  }
  // The dims of the type, to sum over.
  static const std::map<std::string, std::string> dims = {
      {"!ab", "\"a\", \"b\""}, {"!ba", "\"a\", \"b\""},
      {"!cb", "\"c\", \"b\""}, {"!ac", "\"a\", \"c\""},
      {"!ca", "\"a\", \"c\""}, {"!nb", "\"n\", \"b\""},
      {"!an", "\"a\", \"n\""}, {"!a", "\"a\""},
      {"!b", "\"b\""},         {"!s", ""}};
  auto found = dims.find(type);
  std::string over = found == dims.end() ? "\"a\", \"d\"" : found->second;
  text += "%l = clv.reduce sum " + value + " over [" + over + "] : (" + type +
          ") -> !s\nreturn %l : !s\n}\n";
  return text;
}

inline Program lossOf(const std::string &body, const std::string &type,
                      bool weighted = true) {
  return Program(textOf(body, type, weighted));
}

/// Values in [low, high] that repeat for a seed, away from each other's ties.
inline Tensor fill(mlir::Type type, double low, double high, uint32_t &state) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  Tensor out{{tensor.getShape().begin(), tensor.getShape().end()}, {}};
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    state = state * 1664525u + 1013904223u;
    double u = (state >> 8) * 0x1p-24;
    bool isInteger = tensor.getElementType().isInteger(32);
    double value = low + (high - low) * u;
    out.values.push_back(isInteger ? std::floor(u * high) : value);
  }
  return out;
}

/// Every gradient of @train against central differences of @loss, before and
/// after the composites are decomposed.
inline void checkGradients(Program &program, double low = -1, double high = 1,
                           double tolerance = 2e-6) {
  using namespace mlir;
  if (!program.module) {
    return;
  }
  auto loss = program.function("loss");
  std::vector<Tensor> arguments;
  std::vector<unsigned> params;
  uint32_t state = 12345;
  for (BlockArgument argument : loss.getArguments()) {
    unsigned i = argument.getArgNumber();
    StringRef role =
        loss.getArgAttrOfType<StringAttr>(i, "clv.role").getValue();
    if (role == "seed" || role == "step") {
      continue;
    }
    if (role == "param") {
      params.push_back(i);
    }
    auto limit = loss.getArgAttrOfType<FloatAttr>(i, "test.limit");
    arguments.push_back(fill(argument.getType(), low,
                             limit ? limit.getValueAsDouble() : high, state));
  }
  auto gradients = program.gradients(arguments);
  ASSERT_EQ(gradients.size(), params.size());
  auto lossAt = [&](std::vector<Tensor> at) {
    Program::withCounters(at);
    return program.evaluate("loss", at)[0].values[0];
  };
  const double h = 1e-5;
  double largest = 0;
  for (auto [index, gradient] : llvm::zip(params, gradients)) {
    double scale = 1e-3;
    for (double value : gradient.values) {
      scale = std::max(scale, std::fabs(value));
      largest = std::max(largest, std::fabs(value));
    }
    ASSERT_EQ(gradient.shape, arguments[index].shape);
    for (size_t e = 0; e < gradient.values.size(); ++e) {
      auto up = arguments, down = arguments;
      up[index].values[e] += h;
      down[index].values[e] -= h;
      double expected = (lossAt(up) - lossAt(down)) / (2 * h);
      EXPECT_NEAR(gradient.values[e], expected, tolerance * scale)
          << "parameter " << index << ", element " << e;
    }
  }
  EXPECT_GT(largest, 1e-3) << "nothing depends on the parameters";

  decompose(*program.module);
  simplify(*program.module);
  ASSERT_TRUE(succeeded(verify(*program.module)));
  auto parts = program.gradients(arguments);
  for (auto [a, b] : llvm::zip(gradients, parts)) {
    for (auto [x, y] : llvm::zip(a.values, b.values)) {
      EXPECT_NEAR(x, y, 1e-12 * std::max(1.0, std::fabs(x)));
    }
  }
}

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_DIFFERENTIATE_CHECK_H
