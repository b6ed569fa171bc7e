//===- RuleCases.cpp - Each operation, small enough to try all ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All numbers are small multiples of a quarter, so that sums in any order are
// exact and comparisons have ties.
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RuleCases.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

using namespace cleave;
using namespace cleave::test;
using reference::Tensor;

std::string OpCase::operation() const {
  return text.substr(0, text.find_first_of(" {"));
}

std::vector<Sizes> cleave::test::everySizes() {
  // `c` of slice and pad fits into `a`; `d` is `a` renamed.
  return {{{"a", 5}, {"b", 3}, {"c", 2}, {"d", 5}, {"v", 7}, {"p", 4}},
          {{"a", 7}, {"b", 1}, {"c", 4}, {"d", 7}, {"v", 3}, {"p", 4}}};
}

/// The elementwise operations that are not there yet: all of one operand.
static void addUnary(std::vector<OpCase> &cases) {
  std::set<std::string> listed;
  for (const OpCase &op : cases) {
    listed.insert(op.operation());
  }
  // Outside of these they are not numbers.
  const std::set<std::string> positive = {"clv.log", "clv.sqrt", "clv.rsqrt"};
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect>();
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    std::string text = name.getStringRef().str();
    if (name.hasInterface<clv::ElementwiseInterface>() && !listed.count(text)) {
      cases.push_back({name.stripDialect().str(),
                       text + " %x0",
                       {{{"a", "b"}}},
                       {{"a", "b"}},
                       {},
                       "",
                       positive.count(text) != 0});
    }
  }
}

/// Queries along `a`, keys along `d`, scores over `c`, features along `b`; `v`
/// is a dim of several queries for each key.
static void addAttention(std::vector<OpCase> &cases) {
  const std::string attributes =
      " {seq = \"a\", keys = \"d\", over = [\"c\"], scale = 0.5 : f64, causal, "
      "ahead = 1 : i64}";
  const CaseValue query = {{"a", "c"}}, key = {{"d", "c"}},
                  value = {{"d", "b"}}, sum = {{"a"}}, out = {{"a", "b"}};
  auto add = [&](const char *name, std::vector<CaseValue> operands,
                 CaseValue result, std::vector<std::string> whole) {
    OpCase op{name, "clv." + std::string(name), std::move(operands),
              std::move(result), std::move(whole)};
    for (size_t i = 0; i < op.operands.size(); ++i) {
      op.text += (i ? ", %x" : " %x") + std::to_string(i);
    }
    op.text += attributes;
    if (op.operands.size() > 3) {
      op.mostLayouts = op.operands.size() > 4 ? 2500 : 6000;
      op.mostPrograms = op.operands.size() > 4 ? 600 : 1500;
    }
    cases.push_back(std::move(op));
  };
  add("attention_sum", {query, key}, sum, {"c", "d"});
  add("attention", {query, key, value, sum}, out, {"c"});
  add("attention_query_gradient", {query, key, value, sum, sum, out}, query,
      {"b", "c"});
  add("attention_key_gradient",
      {{{"v", "a", "c"}},
       key,
       value,
       {{"v", "a"}},
       {{"v", "a"}},
       {{"v", "a", "b"}}},
      key, {"b", "c"});
  add("attention_value_gradient",
      {{{"v", "a", "c"}}, key, {{"v", "a"}}, {{"v", "a", "b"}}}, value, {"c"});
}

std::vector<OpCase> cleave::test::everyOperation() {
  const CaseValue ab = {{"a", "b"}}, a = {{"a"}}, b = {{"b"}}, none = {{}};
  const CaseValue abBool = {{"a", "b"}, "i1"}, abInt = {{"a", "b"}, "i32"};
  const CaseValue scalarInt = {{}, "i32"};
  std::vector<OpCase> cases;
  for (const char *name :
       {"add", "sub", "mul", "div", "maximum", "minimum", "pow"}) {
    std::string text = std::string("clv.") + name + " %x0, %x1";
    bool positive = std::string(name) == "pow" || std::string(name) == "div";
    cases.push_back({name, text, {ab, ab}, ab, {}, "", positive});
    cases.push_back({std::string(name) + " of other dims",
                     text,
                     {a, b},
                     ab,
                     {},
                     "",
                     positive});
  }
  cases.push_back({"add of i32", "clv.add %x0, %x1", {abInt, abInt}, abInt});
  for (const char *name : {"less", "less_equal", "equal", "not_equal"}) {
    cases.push_back(
        {name, std::string("clv.") + name + " %x0, %x1", {ab, b}, abBool});
  }
  for (const char *name : {"and", "or"}) {
    cases.push_back({name,
                     std::string("clv.") + name + " %x0, %x1",
                     {abBool, {{"b"}, "i1"}},
                     abBool});
  }
  cases.push_back({"not", "clv.not %x0", {abBool}, abBool});
  cases.push_back(
      {"select", "clv.select %x0, %x1, %x2", {{{"a"}, "i1"}, ab, b}, ab});
  const std::string zero =
      "%zero = clv.constant 0.0 : f32 {clv.scope = #clv.scope<activations, "
      "forward, path = \"zero\">} -> tensor<f32>\n";
  cases.push_back({"select against zero",
                   "clv.select %x0, %x1, %zero",
                   {abBool, ab},
                   ab,
                   {},
                   zero});
  cases.push_back({"select zero against",
                   "clv.select %x0, %zero, %x1",
                   {abBool, ab},
                   ab,
                   {},
                   zero});
  cases.push_back({"cast", "clv.cast %x0", {ab}, abInt});
  cases.push_back({"broadcast", "clv.broadcast %x0", {b}, ab});
  cases.push_back({"index", "clv.index", {}, {{"a"}, "i32"}});
  cases.push_back(
      {"index from two", "clv.index {first = 2 : i64}", {}, {{"a"}, "i32"}});
  cases.push_back({"constant", "clv.constant 0.25 : f32", {}, none});
  cases.push_back({"edge", "clv.edge %x0 {inner = \"inner\"}", {ab}, ab});
  cases.push_back({"weight", "clv.weight %x0", {ab}, ab});
  cases.push_back({"gradient", "clv.gradient %x0", {ab}, ab});
  cases.push_back({"random",
                   "clv.random %x0, %x1, %x2 at \"site\"",
                   {scalarInt, scalarInt, scalarInt},
                   ab});
  for (const char *kind : {"sum", "max", "min"}) {
    std::string text = std::string("clv.reduce ") + kind + " %x0 over ";
    cases.push_back({std::string("reduce ") + kind, text + "[\"b\"]", {ab}, a});
    cases.push_back({std::string("reduce ") + kind + " of all",
                     text + "[\"a\", \"b\"]",
                     {ab},
                     none});
  }
  cases.push_back({"dot",
                   "clv.dot %x0, %x1 over [\"b\"]",
                   {ab, {{"b", "c"}}},
                   {{"a", "c"}}});
  cases.push_back({"dot over two with a kept dim",
                   "clv.dot %x0, %x1 over [\"b\", \"c\"]",
                   {{{"a", "b", "c"}}, {{"c", "a", "b"}}},
                   a});
  cases.push_back({"lookup",
                   "clv.lookup %x0, %x1 along \"v\"",
                   {{{"v", "c"}}, {{"a"}, "i32"}},
                   {{"a", "c"}}});
  cases.push_back({"scatter_add",
                   "clv.scatter_add %x0, %x1 along \"v\"",
                   {{{"a", "c"}}, {{"a"}, "i32"}},
                   {{"v", "c"}}});
  cases.push_back(
      {"extreme", "clv.extreme %x0, %x1 along \"a\"", {ab, b}, {{"b"}, "i32"}});
  cases.push_back({"cumsum", "clv.cumsum %x0 along \"b\"", {ab}, ab, {"b"}});
  cases.push_back({"cumsum reverse",
                   "clv.cumsum %x0 along \"a\" reverse",
                   {ab},
                   ab,
                   {"a"}});
  cases.push_back({"softmax", "clv.softmax %x0 over [\"b\"]", {ab}, ab, {"b"}});
  cases.push_back(
      {"logsumexp", "clv.logsumexp %x0 over [\"b\"]", {ab}, a, {"b"}});
  cases.push_back({"rename",
                   "clv.rename %x0",
                   {ab},
                   {{"d", "b"}},
                   {},
                   "",
                   false,
                   Renamed{"a", "d"}});
  cases.push_back({"slice",
                   "clv.slice %x0 from \"a\" to \"c\" at 2",
                   {ab},
                   {{"c", "b"}},
                   {},
                   "",
                   false,
                   Renamed{"a", "c", -2}});
  cases.push_back({"pad",
                   "clv.pad %x0 from \"c\" to \"a\" at 1",
                   {{{"c", "b"}}},
                   ab,
                   {},
                   "",
                   false,
                   Renamed{"c", "a", 1}});
  addAttention(cases);
  addUnary(cases);
  return cases;
}

std::vector<int64_t> cleave::test::shapeOf(const CaseValue &value,
                                           const Sizes &sizes) {
  std::vector<int64_t> shape;
  for (const std::string &dim : value.dims) {
    shape.push_back(sizes.at(dim));
  }
  return shape;
}

static std::string typeOf(const CaseValue &value, const Sizes &sizes) {
  std::string shape, names;
  for (const std::string &dim : value.dims) {
    shape += std::to_string(sizes.at(dim)) + "x";
    names += (names.empty() ? "" : ", ") + dim;
  }
  return "tensor<" + shape + value.element +
         (names.empty() ? "" : ", #clv.dims<" + names + ">") + ">";
}

static std::string scopeOf(const std::string &path) {
  return "clv.scope = #clv.scope<activations, forward, path = \"" + path +
         "\">";
}

/// The dims of an operand as an argument: a pending one is a sum over `p`.
static CaseValue argumentOf(const CaseValue &value, bool isPending) {
  CaseValue argument = value;
  if (isPending) {
    argument.dims.insert(argument.dims.begin(), "p");
  }
  return argument;
}

std::string cleave::test::programOf(const OpCase &op, const Sizes &sizes,
                                    const std::vector<bool> &pending) {
  std::string arguments, body = op.setup, types;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    std::string number = std::to_string(i);
    std::string type = typeOf(op.operands[i], sizes);
    std::string given = typeOf(argumentOf(op.operands[i], pending[i]), sizes);
    arguments += (i ? ", %" : "%") + std::string(pending[i] ? "y" : "x") +
                 number + ": " + given +
                 " {clv.role = \"input\", clv.path = \"y" + number + "\"}";
    if (pending[i]) {
      body += "%x" + number + " = clv.reduce sum %y" + number +
              " over [\"p\"] {" + scopeOf("x" + number) + "} : (" + given +
              ") -> " + type + "\n";
    }
  }
  // In the order in which the text names them.
  for (size_t at = op.text.find('%'); at != std::string::npos;
       at = op.text.find('%', at + 1)) {
    std::string type = op.text[at + 1] == 'x'
                           ? typeOf(op.operands[op.text[at + 2] - '0'], sizes)
                           : "tensor<f32>";
    types += (types.empty() ? "" : ", ") + type;
  }
  std::string text = op.text, extra;
  if (size_t brace = text.find('{'); brace != std::string::npos) {
    extra = text.substr(brace + 1, text.find('}') - brace - 1) + ", ";
    text = text.substr(0, brace);
  }
  std::string result = typeOf(op.result, sizes);
  body += "%r = " + text + " {" + extra + scopeOf("result") + ", test.it} " +
          (types.empty() ? "-> " : ": (" + types + ") -> ") + result + "\n";
  return "func.func @forward(" + arguments + ") -> " + result + " {\n" + body +
         "return %r : " + result + "\n}\n";
}

Tensor cleave::test::numbersFor(const OpCase &op, const CaseValue &value,
                                const Sizes &sizes, bool isPending,
                                unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor;
  tensor.shape = shapeOf(argumentOf(value, isPending), sizes);
  int64_t count = 1;
  for (int64_t size : tensor.shape) {
    count *= size;
  }
  int64_t terms = isPending ? sizes.at("p") : 1;
  for (int64_t i = 0; i < count; ++i) {
    auto number = static_cast<double>(random() % 13) / 4 - 1.5;
    if (value.element == "i1") {
      number = static_cast<double>(random() % 2);
    } else if (value.element == "i32") {
      number = static_cast<double>(random() % 9) - 1; // some ids do not fit
    } else if (op.positive && isPending && i < count / terms) {
      number += 8; // of mixed sign, but positive in all
    } else if (op.positive && !isPending) {
      number = std::abs(number) + 1;
    }
    tensor.values.push_back(number);
  }
  return tensor;
}

void cleave::test::prepare(mlir::MLIRContext &context, std::string &lastError) {
  context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
  context.allowUnregisteredDialects();
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    lastError = diagnostic.str();
    return mlir::success();
  });
}

bool cleave::test::isSame(double found, double wanted) {
  return found == wanted || (std::isnan(found) && std::isnan(wanted)) ||
         std::abs(found - wanted) <= 1e-11 * std::max(1.0, std::abs(wanted));
}

ParsedCase::ParsedCase(const OpCase &op, const Sizes &sizes)
    : op(op), sizes(sizes) {
  prepare(context, error);
  std::string text =
      programOf(op, sizes, std::vector<bool>(op.operands.size(), false));
  module = mlir::parseSourceString<mlir::ModuleOp>(
      text, mlir::ParserConfig(&context));
  if (!module) {
    error = "does not parse: " + error + "\n" + text;
    return;
  }
  function = module->lookupSymbol<mlir::func::FuncOp>("forward");
  for (size_t i = 0; i < op.operands.size(); ++i) {
    arguments.push_back(numbersFor(op, op.operands[i], sizes, false,
                                   static_cast<unsigned>(i + 1)));
  }
  auto results = reference::evaluate(function, arguments);
  if (!results) {
    error = llvm::toString(results.takeError());
    return;
  }
  wanted = results->front();
  function.walk([&](mlir::Operation *found) {
    if (found->hasAttr("test.it")) {
      operation = found;
    }
  });
  for (mlir::Value value : operation->getOperands()) {
    Operand operand;
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      operand.argument = static_cast<int>(argument.getArgNumber());
      operand.value = arguments[operand.argument];
      operand.shape = operand.value.shape;
      // Bits are never pending sums.
      operand.mayPend = op.operands[operand.argument].element != "i1";
    } else {
      auto constant = value.getDefiningOp<clv::ConstantOp>();
      operand.value = Tensor::scalar(
          mlir::cast<mlir::FloatAttr>(constant.getValue()).getValueAsDouble());
      operand.mayPend = false;
    }
    operands.push_back(std::move(operand));
  }
}
