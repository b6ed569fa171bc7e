//===- TrainTest.cpp - Training steps, compiled and run -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small transformer is partitioned by each of several plans, emitted into a
// plan file and run by the runtime; loss, gradients and the state after the
// step are compared with the reference's of the whole program.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"
#include "compiler/partition/Partition.h"
#include "runtime/executor/Session.h"
#include "test/unit/partition/Gpt.h"
#include "test/unit/partition/Plans.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace cleave;
using namespace cleave::test;
using reference::Tensor;

namespace {

format::LeafT leafOf(mlir::func::FuncOp function, unsigned argument) {
  format::LeafT leaf;
  auto text = [&](llvm::StringRef name) {
    auto attr = function.getArgAttrOfType<mlir::StringAttr>(argument, name);
    return attr ? attr.getValue().str() : std::string();
  };
  leaf.path = text("clv.path");
  leaf.state = text("clv.state");
  leaf.type = format::ElementType::F32;
  auto type = llvm::cast<mlir::RankedTensorType>(
      function.getArgument(argument).getType());
  for (llvm::StringRef dim : clv::dimsOf(type)) {
    leaf.dims.push_back(dim.str());
  }
  leaf.sizes.assign(type.getShape().begin(), type.getShape().end());
  leaf.init = std::make_unique<format::InitT>();
  return leaf;
}

std::string roleOf(mlir::func::FuncOp function, unsigned argument) {
  return function.getArgAttrOfType<mlir::StringAttr>(argument, "clv.role")
      .getValue()
      .str();
}

/// The largest difference over the largest number of `scale`.
double errorOf(const std::vector<float> &found, const Tensor &wanted,
               double scale) {
  double difference = 0;
  if (found.size() != wanted.values.size()) {
    return INFINITY;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    double d = std::abs(found[i] - wanted.values[i]);
    difference = std::max(difference, std::isnan(d) ? INFINITY : d);
  }
  return difference / scale;
}

double largest(const Tensor &tensor) {
  double most = 0;
  for (double value : tensor.values) {
    most = std::max(most, std::abs(value));
  }
  return most;
}

class Step {
public:
  Step(const GptSizes &sizes, const PlanBuilder &builder)
      : gpt(context, sizes), plan(builder.plan) {}

  void run();

private:
  mlir::MLIRContext context;
  Gpt gpt;
  layout::Plan plan;
  std::vector<Tensor> arguments, wanted;
  format::PlanSetT set;
  std::unique_ptr<executor::Session> session;

  void compile();
  void execute();
  void compare();
};

void Step::compile() {
  mlir::func::FuncOp train = gpt.function("train");
  arguments = Gpt::arguments(train, gpt.sizes.vocab);
  for (Tensor &tensor : arguments) {
    for (double &value : tensor.values) {
      value = static_cast<float>(value);
    }
  }
  auto expected = reference::evaluate(train, arguments);
  ASSERT_TRUE(bool(expected));
  wanted = std::move(*expected);

  std::vector<format::LeafT> leaves;
  std::vector<format::InputT> inputs;
  for (unsigned i = 0; i < train.getNumArguments(); ++i) {
    std::string role = roleOf(train, i);
    if (role == "param" || role == "optimizer") {
      leaves.push_back(leafOf(train, i));
    } else if (role == "input") {
      format::InputT input;
      input.name = leafOf(train, i).path;
      input.bound = gpt.sizes.vocab;
      inputs.push_back(input);
    }
  }
  gpt.function("loss").erase();
  ASSERT_TRUE(mlir::succeeded(partition(*gpt.module, plan)));
  codegen::KernelLibrary library(context);
  auto emitted = emit::emitPlan(*gpt.module, "test", {leaves, inputs}, library);
  if (!emitted) {
    FAIL() << llvm::toString(emitted.takeError());
  }
  if (std::getenv("CLEAVE_TEST_DUMP")) {
    gpt.module->print(llvm::errs());
    library.getModule().print(llvm::errs());
  }
  auto kernels = library.finish();
  if (!kernels) {
    FAIL() << llvm::toString(kernels.takeError());
  }
  set.model = "gpt";
  set.target_features = library.targetFeatures();
  set.symbols = library.symbols();
  for (const format::LeafT &leaf : leaves) {
    set.leaves.push_back(std::make_unique<format::LeafT>(leaf));
  }
  set.plans.push_back(std::move(*emitted));
  auto image = reinterpret_cast<const char *>(kernels->data());
  auto file = format::PlanFile::parse(
      format::encodePlanFile(set, {image, kernels->size()}), "test.plan");
  ASSERT_TRUE(bool(file)) << file.message();
  auto opened = executor::Session::open(
      std::make_shared<format::PlanFile>(std::move(*file)), "test");
  ASSERT_TRUE(bool(opened)) << opened.message();
  session = std::move(*opened);
}

void Step::execute() {
  mlir::func::FuncOp train = gpt.function("train");
  state::State &state = session->state();
  state.step = 2;
  state.seed = 3;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<executor::Feed> feeds;
  size_t leaf = 0;
  tokens.reserve(arguments.size());
  for (unsigned i = 0; i < arguments.size(); ++i) {
    std::string role = roleOf(train, i);
    const std::vector<double> &values = arguments[i].values;
    if (role == "input") {
      tokens.emplace_back(values.begin(), values.end());
      feeds.push_back({leafOf(train, i).path, tokens.back()});
    } else if (role == "param" || role == "optimizer") {
      std::vector<float> floats(values.begin(), values.end());
      Status set = state.set(leaf++, floats);
      ASSERT_TRUE(bool(set)) << set.message();
    }
  }
  Status ran = session->train(std::span<const executor::Feed>(feeds));
  ASSERT_TRUE(bool(ran)) << ran.message();
}

void Step::compare() {
  mlir::func::FuncOp train = gpt.function("train");
  auto text = [&](unsigned i, llvm::StringRef name) {
    auto attr = train.getResultAttrOfType<mlir::StringAttr>(i, name);
    return attr ? attr.getValue().str() : std::string();
  };
  double gradients = 0;
  for (unsigned i = 0; i < wanted.size(); ++i) {
    if (text(i, "clv.result") == "gradient") {
      gradients = std::max(gradients, largest(wanted[i]));
    }
  }
  for (unsigned i = 0; i < wanted.size(); ++i) {
    std::string kind = text(i, "clv.result"), path = text(i, "clv.path");
    std::string name = text(i, "clv.state");
    std::vector<float> found;
    if (kind == "loss" || kind == "gradient_norm") {
      auto scalar = session->scalar(
          "train", kind == "loss" ? format::OutputKind::Loss
                                  : format::OutputKind::GradientNorm);
      ASSERT_TRUE(bool(scalar)) << scalar.message();
      found = {*scalar};
    } else if (kind == "gradient") {
      auto gradient =
          session->output("train", format::OutputKind::Gradient, path);
      ASSERT_TRUE(bool(gradient)) << gradient.message();
      found = *gradient;
    } else {
      int leaf = session->state().find(kind == "param"
                                           ? "params/" + path
                                           : "optimizer/" + path + "/" + name);
      ASSERT_GE(leaf, 0);
      found = session->state().get(leaf);
    }
    double scale = largest(wanted[i]);
    if (kind == "gradient") {
      scale = std::max(scale, 1e-3 * gradients);
    }
    EXPECT_LE(errorOf(found, wanted[i], scale), 1e-5)
        << kind << " " << path << " " << name;
  }
}

void Step::run() {
  ASSERT_TRUE(gpt.ok);
  compile();
  if (!testing::Test::HasFatalFailure()) {
    execute();
  }
  if (!testing::Test::HasFatalFailure()) {
    compare();
  }
}

void expectSame(const GptSizes &sizes, const PlanBuilder &plan) {
  Step(sizes, plan).run();
}

TEST(Train, OneDevice) {
  GptSizes sizes;
  expectSame(sizes, PlanBuilder({{"data", 1}}).data());
  sizes.clip = sizes.dropout = true;
  expectSame(sizes, PlanBuilder({{"data", 1}}).data());
}

TEST(Train, Data8) {
  GptSizes sizes;
  sizes.batch = 5; // some devices hold nothing
  sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"data", 8}}).data());
}

TEST(Train, Tensor4) {
  GptSizes sizes;
  sizes.heads = 7;
  sizes.embed = 14;
  sizes.vocab = 65;
  sizes.ff = 9;
  sizes.dropout = sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"tensor", 4}}).megatron(true));
}

TEST(Train, SequenceParallel) {
  GptSizes sizes;
  sizes.heads = 7;
  sizes.batch = 5;
  sizes.vocab = 65;
  sizes.dropout = sizes.clip = true;
  expectSame(sizes, PlanBuilder({{"data", 2}, {"tensor", 4}})
                        .data()
                        .megatron(true)
                        .sequence());
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

} // namespace
