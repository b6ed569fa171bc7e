//===- Verify.cpp - cleave verify -----------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs each plan and, once, the reference on the same state and data, and
// compares. Loss and gradients are compared with the reference's own. Updated
// state is compared with the double-precision update of that plan's own
// gathered gradients: Adam's first steps divide by tiny gradients, so that end
// to end the comparison would measure noise.
//
// An element that several devices hold must have the same bits on each; then
// the first copy is compared.
//
// The error of a leaf is max |a - b| over max(max |b|, 1e-3 * the largest
// gradient of all leaves).
//
// In mixed precision the reference rounds where the program does. A number that
// lies near the middle of two of bf16 may still become the one in the plan and
// the other in the reference; what follows differs, and more numbers become
// others. How much that matters is measured: the reference runs a second time,
// with each number moved by 2^-16 of itself before it is rounded. That is more
// than f32 may be off by, and the tolerance is twice what it changes.
// Updates are f32 as ever.
//
//===----------------------------------------------------------------------===//

#include "compiler/differentiate/Differentiate.h"
#include "compiler/reference/Reference.h"
#include "numerics/Random.h"
#include "runtime/executor/Session.h"
#include "tools/cleave/Compile.h"
#include "tools/cleave/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

using namespace mlir;
using cleave::reference::Tensor;

namespace cleave::tools {

namespace {

/// What the arguments and results of a function of the step are called.
struct Slot {
  std::string role; ///< input, param, optimizer, loss, gradient, …
  std::string path;
  std::string state;

  std::string key() const {
    return role + ":" + path + (state.empty() ? "" : "." + state);
  }
};

struct Error {
  double worst = 0;
  std::string where;

  void add(double error, const std::string &name) {
    // A NaN is worse than any number.
    if (!(error <= worst)) {
      worst = error;
      where = name;
    }
  }
};

/// Largest errors that pass.
struct Tolerance {
  double computed = 1e-5; ///< of the loss and of gradients
  double updated = 1e-5;  ///< of the new state
};

class Verifier {
public:
  Verifier(Compilation &compilation, const Options &options)
      : compilation(compilation), options(options) {
    if (options.tolerance) {
      tolerance = {*options.tolerance, *options.tolerance};
    }
  }

  int run();

private:
  void makeArguments();
  bool runReference();
  std::optional<std::map<std::string, Tensor>> evaluate(double nudge);
  Error errorsOf(const std::map<std::string, Tensor> &gradients) const;
  Status runPlan(const std::string &plan);
  Result<Error> compareUpdates(executor::Session &session,
                               const std::map<std::string, Tensor> &gradients);
  Status setState(executor::Session &session);

  Compilation &compilation;
  const Options &options;
  Tolerance tolerance;
  std::shared_ptr<const format::PlanFile> file;
  std::map<std::string, Tensor> arguments; ///< by Slot::key
  std::map<std::string, Tensor> expected;
  double largestGradient = 0;
  bool passed = true;
};

} // namespace

static StringRef text(Attribute attribute) {
  auto string = dyn_cast_or_null<StringAttr>(attribute);
  return string ? string.getValue() : "";
}

static Slot argumentSlot(func::FuncOp function, unsigned i) {
  return {text(function.getArgAttr(i, "clv.role")).str(),
          text(function.getArgAttr(i, "clv.path")).str(),
          text(function.getArgAttr(i, "clv.state")).str()};
}

static Slot resultSlot(func::FuncOp function, unsigned i) {
  return {text(function.getResultAttr(i, "clv.result")).str(),
          text(function.getResultAttr(i, "clv.path")).str(),
          text(function.getResultAttr(i, "clv.state")).str()};
}

static func::FuncOp trainOf(const Compilation &compilation) {
  ModuleOp module = *compilation.model().module;
  return module.lookupSymbol<func::FuncOp>("train");
}

static int64_t elements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

/// As the plan's own f32 leaves would hold it.
static double toFloat(double value) { return static_cast<float>(value); }

/// Parameters as a run begins, moments as after some steps (random, so that
/// nothing is hidden by zeros; second moments are never negative), ids at
/// random, some labels ignored where the model allows it.
void Verifier::makeArguments() {
  const sema::Model &model = compilation.model();
  for (const sema::LeafInfo &leaf : model.leaves) {
    Tensor tensor{leaf.sizes, {}};
    std::string name = leaf.path + "." + leaf.state;
    for (int64_t i = 0; i < elements(leaf.sizes); ++i) {
      double value = 0;
      double normal = numerics::normal(options.seed, name, i);
      if (!leaf.state.empty()) {
        value = 1e-3 * std::fabs(normal);
      } else if (leaf.init.kind == sema::Init::Kind::Constant) {
        // Off its constant: a gain of exactly one hides a missing product.
        value = leaf.init.a + 0.1 * normal;
      } else if (leaf.init.kind == sema::Init::Kind::Normal) {
        value = leaf.init.a + leaf.init.b * normal;
      } else {
        value = leaf.init.a + (leaf.init.b - leaf.init.a) *
                                  numerics::uniform(options.seed, name, i);
      }
      tensor.values.push_back(toFloat(value));
    }
    Slot slot{leaf.state.empty() ? "param" : "optimizer", leaf.path,
              leaf.state};
    arguments[slot.key()] = std::move(tensor);
  }
  for (const sema::InputInfo &input : model.inputs) {
    Tensor tensor{input.sizes, {}};
    for (int64_t i = 0; i < elements(input.sizes); ++i) {
      double u = numerics::uniform(options.seed, "input " + input.name, i);
      tensor.values.push_back(std::floor(
          u * static_cast<double>(std::max<int64_t>(input.bound, 1))));
    }
    arguments[Slot{"input", input.name, ""}.key()] = std::move(tensor);
  }
  arguments["seed:"] = Tensor::scalar(static_cast<double>(options.seed));
  arguments["step:"] = Tensor::scalar(3);
}

/// The reference's results.
std::optional<std::map<std::string, Tensor>> Verifier::evaluate(double nudge) {
  func::FuncOp train = trainOf(compilation);
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < train.getNumArguments(); ++i) {
    inputs.push_back(arguments.at(argumentSlot(train, i).key()));
  }
  llvm::Expected<std::vector<Tensor>> results =
      reference::evaluate(train, inputs, nudge);
  if (!results) {
    std::cerr << "error: the reference: " << llvm::toString(results.takeError())
              << "\n";
    return std::nullopt;
  }
  std::map<std::string, Tensor> named;
  for (auto [i, tensor] : llvm::enumerate(*results)) {
    named[resultSlot(train, i).key()] = std::move(tensor);
  }
  return named;
}

bool Verifier::runReference() {
  std::optional<std::map<std::string, Tensor>> results = evaluate(0);
  if (!results) {
    return false;
  }
  expected = std::move(*results);
  for (const auto &[key, tensor] : expected) {
    for (double value : tensor.values) {
      if (StringRef(key).starts_with("gradient:")) {
        largestGradient = std::max(largestGradient, std::fabs(value));
      }
    }
  }
  ModuleOp source = *compilation.source;
  if (source->hasAttr(kCompute) && !options.tolerance) {
    results = evaluate(0x1p-16);
    tolerance.computed += results ? 2 * errorsOf(*results).worst : 0;
  }
  return results.has_value();
}

/// Of gradients, by the slots of results.
Error Verifier::errorsOf(const std::map<std::string, Tensor> &gradients) const {
  Error error;
  for (const sema::LeafInfo &leaf : compilation.model().leaves) {
    if (!leaf.state.empty()) {
      continue;
    }
    std::string key = Slot{"gradient", leaf.path, ""}.key();
    double largest = 1e-3 * largestGradient, worst = 0;
    for (auto [a, b] :
         llvm::zip(gradients.at(key).values, expected.at(key).values)) {
      largest = std::max(largest, std::fabs(b));
      double difference = std::fabs(a - b);
      worst = difference <= worst ? worst : difference;
    }
    error.add(largest > 0 ? worst / largest : worst, leaf.path);
  }
  return error;
}

Status Verifier::setState(executor::Session &session) {
  state::State &state = session.state();
  state.seed = options.seed;
  state.step = 2; // the step that runs is the third
  for (size_t i = 0; i < state.leaves(); ++i) {
    const format::LeafT &leaf = state.leaf(i);
    Slot slot{leaf.state.empty() ? "param" : "optimizer", leaf.path,
              leaf.state};
    const Tensor &tensor = arguments.at(slot.key());
    std::vector<float> values(tensor.values.begin(), tensor.values.end());
    CLEAVE_TRY(state.set(i, values));
  }
  return Status();
}

/// The update functions of the source, in double, on this plan's gradients.
Result<Error>
Verifier::compareUpdates(executor::Session &session,
                         const std::map<std::string, Tensor> &gradients) {
  ModuleOp source = *compilation.source;
  double scale = 1;
  if (auto limit = source->getAttrOfType<FloatAttr>("clv.clip")) {
    double squares = 0;
    for (const auto &[path, gradient] : gradients) {
      for (double value : gradient.values) {
        squares += value * value;
      }
    }
    double norm = std::sqrt(squares);
    scale = norm > 0 ? std::min(1.0, limit.getValueAsDouble() / norm) : 1.0;
  }
  Error error;
  for (auto update : source.getOps<func::FuncOp>()) {
    std::string path = text(update->getAttr("clv.param")).str();
    if (path.empty()) {
      continue;
    }
    std::vector<Tensor> inputs;
    std::vector<std::string> names;
    for (unsigned i = 0; i < update.getNumArguments(); ++i) {
      Slot slot = argumentSlot(update, i);
      if (slot.role == "gradient") {
        Tensor scaled = gradients.at(path);
        for (double &value : scaled.values) {
          value *= scale;
        }
        inputs.push_back(std::move(scaled));
        continue;
      }
      if (slot.role == "param" || slot.role == "optimizer") {
        slot.path = path;
        names.push_back(slot.role == "param"
                            ? "params/" + path
                            : "optimizer/" + path + "/" + slot.state);
      }
      inputs.push_back(arguments.at(slot.key()));
    }
    llvm::Expected<std::vector<Tensor>> results =
        reference::evaluate(update, inputs);
    if (!results) {
      return Status::error("the reference: " +
                           llvm::toString(results.takeError()));
    }
    for (auto [name, tensor] : llvm::zip(names, *results)) {
      std::vector<float> got = session.state().get(session.state().find(name));
      double largest = 0, worst = 0;
      for (auto [a, b] : llvm::zip(got, tensor.values)) {
        largest = std::max(largest, std::fabs(b));
        double difference = std::fabs(a - b);
        worst = difference <= worst ? worst : difference;
      }
      // A leaf of zeros stays zero exactly, or is off by an absolute amount.
      error.add(worst / std::max(largest, 1e-12), name);
    }
  }
  return error;
}

Status Verifier::runPlan(const std::string &plan) {
  Result<std::unique_ptr<executor::Session>> opened =
      executor::Session::open(file, plan);
  if (!opened) {
    return opened.status();
  }
  executor::Session &session = **opened;
  CLEAVE_TRY(setState(session));
  std::vector<std::vector<int32_t>> tokens;
  std::vector<executor::Feed> feeds;
  for (const sema::InputInfo &input : compilation.model().inputs) {
    const Tensor &tensor = arguments.at(Slot{"input", input.name, ""}.key());
    tokens.emplace_back(tensor.values.begin(), tensor.values.end());
  }
  for (auto [i, input] : llvm::enumerate(compilation.model().inputs)) {
    feeds.push_back({input.name, tokens[i]});
  }
  CLEAVE_TRY(session.train(feeds));
  CLEAVE_TRY(session.compareCopies("train"));

  Result<float> loss = session.scalar("train", format::OutputKind::Loss);
  if (!loss) {
    return loss.status();
  }
  double wanted = expected.at("loss:").values[0];
  double lossError =
      std::fabs(*loss - wanted) / std::max(std::fabs(wanted), 1e-12);

  std::map<std::string, Tensor> gradients, byKey;
  for (const sema::LeafInfo &leaf : compilation.model().leaves) {
    if (!leaf.state.empty()) {
      continue;
    }
    Result<std::vector<float>> got =
        session.output("train", format::OutputKind::Gradient, leaf.path);
    if (!got) {
      return got.status();
    }
    Tensor gradient{leaf.sizes, {got->begin(), got->end()}};
    byKey[Slot{"gradient", leaf.path, ""}.key()] = gradient;
    gradients[leaf.path] = std::move(gradient);
  }
  Error gradientError = errorsOf(byKey);
  Result<Error> updateError = compareUpdates(session, gradients);
  if (!updateError) {
    return updateError.status();
  }
  bool good = lossError <= tolerance.computed &&
              gradientError.worst <= tolerance.computed &&
              updateError->worst <= tolerance.updated;
  passed &= good;
  std::printf("%-16s %8lld %11.2e %11.2e %11.2e  %s%s\n", plan.c_str(),
              static_cast<long long>(session.devices()), lossError,
              gradientError.worst, updateError->worst, good ? "ok" : "WRONG: ",
              good ? ""
                   : (gradientError.worst > tolerance.computed
                          ? "gradient of " + gradientError.where
                          : (updateError->worst > tolerance.updated
                                 ? updateError->where
                                 : std::string("loss")))
                         .c_str());
  std::fflush(stdout);
  return Status();
}

int Verifier::run() {
  std::vector<char> bytes =
      format::encodePlanFile(compilation.set, compilation.kernels);
  Result<format::PlanFile> parsed =
      format::PlanFile::parse(std::move(bytes), options.file);
  if (!parsed) {
    std::cerr << "error: " << parsed.message() << "\n";
    return WrongInput;
  }
  file = std::make_shared<const format::PlanFile>(std::move(*parsed));
  makeArguments();
  if (!runReference()) {
    return WrongInput;
  }
  std::printf("%-16s %8s %11s %11s %11s\n", "plan", "devices", "loss",
              "gradients", "update");
  for (const auto &plan : compilation.set.plans) {
    if (Status status = runPlan(plan->name); !status) {
      std::cerr << "error: plan `" << plan->name << "`: " << status.message()
                << "\n";
      passed = false;
    }
  }
  std::printf("largest errors against the double-precision reference; "
              "tolerance %g: %s\n",
              tolerance.computed, passed ? "every plan agrees" : "FAILED");
  return passed ? Done : WrongInput;
}

int verifyCommand(const Options &options) {
  Frontend frontend(options);
  if (!frontend.load()) {
    return frontend.finish();
  }
  CompileOptions compileOptions;
  compileOptions.probe = true;
  compileOptions.trainOnly = true;
  if (!options.full) {
    compileOptions.overrides =
        sema::reducedOverrides(*frontend.program, frontend.modelName);
  }
  std::optional<Compilation> compilation = compile(frontend, compileOptions);
  int code = frontend.finish();
  if (code != Done || !compilation) {
    return code;
  }
  return Verifier(*compilation, options).run();
}

} // namespace cleave::tools
