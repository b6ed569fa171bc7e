//===- RuleCases.cpp - Every operation, tried under every layout ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All numbers are small multiples of a quarter, so that sums in any order are
// exact and comparisons have ties.
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RuleCases.h"

#include "compiler/partition/Partition.h"
#include "compiler/partition/Simulate.h"
#include "dialects/spmd/Spmd.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <random>

using namespace cleave;
using namespace cleave::test;
using layout::AtomId;
using layout::Layout;
using layout::Mesh;
using reference::Tensor;

int64_t cleave::test::sizeOfDim(const std::string &dim) {
  switch (dim[0]) {
  case 'a':
  case 'd':
    return 5;
  case 'b':
    return 3;
  case 'c':
  case 'n':
    return 2;
  case 'v':
    return 7;
  case 'p':
    return 4; // the terms of a pending sum
  default:
    return 3;
  }
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
  for (const char *name :
       {"neg", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf",
        "relu", "gelu", "silu", "sigmoid", "abs", "stop_gradient"}) {
    bool positive = std::string(name) == "log" || std::string(name) == "sqrt" ||
                    std::string(name) == "rsqrt";
    cases.push_back({name,
                     std::string("clv.") + name + " %x0",
                     {ab},
                     ab,
                     {},
                     "",
                     positive});
  }
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
  cases.push_back({"select", "clv.select %x0, %x1, %x2", {abBool, ab, b}, ab});
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
  cases.push_back({"rename", "clv.rename %x0", {ab}, {{"d", "b"}}});
  cases.push_back({"slice",
                   "clv.slice %x0 from \"a\" to \"c\" at 2",
                   {ab},
                   {{"c", "b"}},
                   {"a", "c"}});
  cases.push_back({"pad",
                   "clv.pad %x0 from \"c\" to \"a\" at 1",
                   {{{"c", "b"}}},
                   ab,
                   {"a", "c"}});
  return cases;
}

namespace {

/// The layouts of one attempt.
struct Attempt {
  std::vector<Layout> operands; ///< pending atoms too
  Layout result;
};

std::string typeOf(const CaseValue &value) {
  std::string shape, names;
  for (const std::string &dim : value.dims) {
    shape += std::to_string(sizeOfDim(dim)) + "x";
    names += (names.empty() ? "" : ", ") + dim;
  }
  return "tensor<" + shape + value.element +
         (names.empty() ? "" : ", #clv.dims<" + names + ">") + ">";
}

std::string scopeOf(const std::string &path) {
  return "clv.scope = #clv.scope<activations, forward, path = \"" + path +
         "\">";
}

/// The dims of an operand as an argument: a pending one is a sum over `p`.
CaseValue argumentOf(const CaseValue &value, bool isPending) {
  CaseValue argument = value;
  if (isPending) {
    argument.dims.insert(argument.dims.begin(), "p");
  }
  return argument;
}

std::string programOf(const OpCase &op, const std::vector<bool> &pending) {
  std::string arguments, body = op.setup, types;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    std::string number = std::to_string(i);
    std::string type = typeOf(op.operands[i]);
    std::string given = typeOf(argumentOf(op.operands[i], pending[i]));
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
                           ? typeOf(op.operands[op.text[at + 2] - '0'])
                           : "tensor<f32>";
    types += (types.empty() ? "" : ", ") + type;
  }
  std::string text = op.text, extra;
  if (size_t brace = text.find('{'); brace != std::string::npos) {
    extra = text.substr(brace + 1, text.find('}') - brace - 1) + ", ";
    text = text.substr(0, brace);
  }
  std::string result = typeOf(op.result);
  body += "%r = " + text + " {" + extra + scopeOf("result") + ", test.it} " +
          (types.empty() ? "-> " : ": (" + types + ") -> ") + result + "\n";
  return "func.func @forward(" + arguments + ") -> " + result + " {\n" + body +
         "return %r : " + result + "\n}\n";
}

Tensor numbersFor(const CaseValue &value, bool isPending, bool positive,
                  unsigned seed) {
  CaseValue given = argumentOf(value, isPending);
  std::mt19937 random(seed);
  Tensor tensor;
  int64_t count = 1;
  for (const std::string &dim : given.dims) {
    tensor.shape.push_back(sizeOfDim(dim));
    count *= sizeOfDim(dim);
  }
  int64_t terms = isPending ? sizeOfDim("p") : 1;
  for (int64_t i = 0; i < count; ++i) {
    auto number = static_cast<double>(random() % 13) / 4 - 1.5;
    if (value.element == "i1") {
      number = static_cast<double>(random() % 2);
    } else if (value.element == "i32") {
      number = static_cast<double>(random() % 9) - 1; // some ids do not fit
    } else if (positive && i < count / terms) {
      number += 8; // of mixed sign, but positive in all
    } else if (positive && !isPending) {
      number = std::abs(number) + 1;
    }
    tensor.values.push_back(number);
  }
  return tensor;
}

/// Parsed programs and what they should give, one for each set of pending
/// operands.
class Trial {
public:
  Trial(const OpCase &op, const RuleOf &ruleOf) : op(op), ruleOf(ruleOf) {
    context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
    context.allowUnregisteredDialects();
    // What a broken rule makes is often not a program: not worth a message.
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      lastError = diagnostic.str();
      return mlir::success();
    });
  }

  /// What is wrong with one attempt, or nothing. `only`, where given: the one
  /// collective there must be, or none; and nothing is sliced.
  std::string run(const Attempt &attempt, const Mesh &mesh,
                  std::optional<std::string> only = std::nullopt) {
    std::vector<bool> pending;
    for (const Layout &layout : attempt.operands) {
      pending.push_back(layout.isPartial());
    }
    std::string text = programOf(op, pending);
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceString<mlir::ModuleOp>(text,
                                                mlir::ParserConfig(&context));
    if (!module) {
      return "does not parse: " + lastError + "\n" + text;
    }
    auto function = module->lookupSymbol<mlir::func::FuncOp>("forward");
    std::vector<Tensor> arguments;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      arguments.push_back(numbersFor(op.operands[i], pending[i], op.positive,
                                     static_cast<unsigned>(i + 1)));
    }
    auto wanted = reference::evaluate(function, arguments);
    if (!wanted) {
      return llvm::toString(wanted.takeError());
    }
    layout::Plan plan;
    plan.mesh = mesh;
    PartitionOptions options;
    options.resolve = [&](const layout::Plan &, const layout::ValueInfo &info) {
      return resolve(attempt, info);
    };
    if (ruleOf) {
      options.ruleOf = [&](mlir::Operation *operation) {
        return operation->hasAttr("test.it")
                   ? ruleOf(operation)
                   : mlir::cast<clv::RuleInterface>(operation).getRule();
      };
    }
    std::vector<layout::ProgramRecord> records;
    if (failed(partition(*module, plan, &records, nullptr, options))) {
      return "is not partitioned: " + lastError;
    }
    if (only) {
      std::string made;
      function.walk([&](spmd::CollectiveInterface collective) {
        made += (made.empty() ? "" : ", ") + collective.getKindName().str();
      });
      if (made != *only) {
        return "makes [" + made + "], not [" + *only + "]";
      }
    }
    auto found = partitioning::simulate(function, arguments);
    if (!found) {
      return llvm::toString(found.takeError());
    }
    const std::vector<double> &a = wanted->front().values,
                              &b = found->front().values;
    for (size_t i = 0; i < a.size(); ++i) {
      bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                  std::abs(a[i] - b[i]) <= 1e-12 * std::abs(a[i]);
      if (!same) {
        return "element " + std::to_string(i) + " is " + std::to_string(b[i]) +
               ", not " + std::to_string(a[i]);
      }
    }
    return "";
  }

  std::string lastError;

private:
  static layout::Resolved resolve(const Attempt &attempt,
                                  const layout::ValueInfo &info) {
    layout::Resolved resolved;
    resolved.layout.dims.resize(info.dims.size());
    if (info.path == "result") {
      resolved.layout = attempt.result;
    } else if (info.path.size() == 2 && !info.dims.empty()) {
      const Layout &operand = attempt.operands[info.path[1] - '0'];
      resolved.layout = operand;
      resolved.layout.partial.clear();
      if (info.path[0] == 'y' && operand.isPartial()) {
        layout::Split terms;
        terms.atoms = operand.partial;
        resolved.layout.dims.insert(resolved.layout.dims.begin(), terms);
      }
    }
    resolved.choices.resize(info.dims.size());
    return resolved;
  }

  const OpCase &op;
  const RuleOf &ruleOf;
  mlir::MLIRContext context;
};

Mesh meshOf(const std::vector<int64_t> &sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.atoms.push_back(
        {std::string(1, static_cast<char>('s' + i)), sizes[i]});
    mesh.axes.push_back({mesh.atoms.back().name, {static_cast<AtomId>(i)}});
  }
  return mesh;
}

/// Every layout of a value on a mesh: each atom nowhere, on a dim (in every
/// order), or pending; on one atom also with units and cuts.
std::vector<Layout> layoutsOf(const CaseValue &value, const Mesh &mesh,
                              bool mayPend) {
  std::vector<Layout> all;
  std::vector<AtomId> order;
  for (AtomId atom = 0; atom < mesh.atoms.size(); ++atom) {
    order.push_back(atom);
  }
  do {
    std::vector<Layout> grown(1);
    grown.front().dims.resize(value.dims.size());
    for (AtomId atom : order) {
      std::vector<Layout> next;
      for (const Layout &layout : grown) {
        next.push_back(layout);
        for (size_t d = 0; d < value.dims.size(); ++d) {
          next.push_back(layout);
          next.back().dims[d].atoms.push_back(atom);
        }
        if (mayPend) {
          next.push_back(layout);
          next.back().partial.push_back(atom);
        }
      }
      grown = std::move(next);
    }
    for (Layout &layout : grown) {
      std::sort(layout.partial.begin(), layout.partial.end());
      if (std::find(all.begin(), all.end(), layout) == all.end()) {
        all.push_back(layout);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  if (mesh.atoms.size() == 1) {
    for (size_t d = 0; d < value.dims.size(); ++d) {
      Layout unit, cuts;
      unit.dims.resize(value.dims.size());
      unit.dims[d].atoms = {0};
      unit.dims[d].unit = 2;
      cuts = unit;
      cuts.dims[d].unit = 1;
      int64_t size = sizeOfDim(value.dims[d]), count = mesh.devices();
      for (int64_t i = 0; i < count; ++i) {
        cuts.dims[d].cuts.push_back(std::min<int64_t>(i, size));
      }
      cuts.dims[d].cuts.push_back(size);
      all.push_back(unit);
      all.push_back(cuts);
    }
  }
  return all;
}

std::string spell(const OpCase &op, const Attempt &attempt, const Mesh &mesh) {
  std::string text = op.name + " of";
  for (size_t i = 0; i < attempt.operands.size(); ++i) {
    text += " " + describe(attempt.operands[i], op.operands[i].dims, mesh);
  }
  return text + " -> " + describe(attempt.result, op.result.dims, mesh) +
         " on " + std::to_string(mesh.devices()) + " devices";
}

bool has(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The dims that are one loop with `dim`: for rename, one name on each side.
bool sameFactor(const OpCase &op, const std::string &dim,
                const std::string &other) {
  return dim == other || (op.name == "rename" && (dim == "a" || dim == "d") &&
                          (other == "a" || other == "d"));
}

/// A dim that is split everywhere it appears costs nothing, or the reduction of
/// what the result lacks.
std::string checkFree(const OpCase &op, Trial &trial) {
  std::vector<std::string> dims = op.result.dims;
  for (const CaseValue &operand : op.operands) {
    dims.insert(dims.end(), operand.dims.begin(), operand.dims.end());
  }
  for (const std::string &dim : dims) {
    if (has(op.whole, dim)) {
      continue;
    }
    for (int64_t size : {2, 3}) {
      Mesh mesh = meshOf({size});
      auto split = [&](const CaseValue &value) {
        Layout layout;
        for (const std::string &name : value.dims) {
          layout.dims.emplace_back();
          if (sameFactor(op, dim, name)) {
            layout.dims.back().atoms = {0};
          }
        }
        return layout;
      };
      Attempt attempt;
      bool isRead = false;
      for (const CaseValue &operand : op.operands) {
        attempt.operands.push_back(split(operand));
        isRead |= !attempt.operands.back().usedAtoms().empty();
      }
      attempt.result = split(op.result);
      bool isKept = !attempt.result.usedAtoms().empty();
      std::string wrong =
          trial.run(attempt, mesh, isRead && !isKept ? "all_reduce" : "");
      if (!wrong.empty()) {
        return spell(op, attempt, mesh) + ": " + wrong;
      }
    }
  }
  return "";
}

/// Whether the rule says of pending sums what the operation does to sums.
std::string checkLinear(const OpCase &op, const RuleOf &ruleOf) {
  mlir::MLIRContext context;
  context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
  context.allowUnregisteredDialects();
  std::vector<bool> pending(op.operands.size(), false);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(programOf(op, pending),
                                              mlir::ParserConfig(&context));
  auto function = module->lookupSymbol<mlir::func::FuncOp>("forward");
  clv::Rule rule;
  size_t numbersRead = 0;
  std::vector<unsigned> numberOf(op.operands.size());
  function.walk([&](mlir::Operation *operation) {
    if (operation->hasAttr("test.it")) {
      rule = ruleOf ? ruleOf(operation)
                    : mlir::cast<clv::RuleInterface>(operation).getRule();
      for (unsigned i = 0; i < operation->getNumOperands(); ++i) {
        auto type = mlir::cast<mlir::RankedTensorType>(
            operation->getOperand(i).getType());
        numbersRead += !type.getElementType().isInteger(1);
        auto argument =
            mlir::dyn_cast<mlir::BlockArgument>(operation->getOperand(i));
        if (argument) {
          numberOf[argument.getArgNumber()] = i;
        }
      }
    }
  });
  auto numbers = [&](unsigned seed) {
    std::vector<Tensor> tensors;
    for (const CaseValue &operand : op.operands) {
      tensors.push_back(numbersFor(operand, false, op.positive, seed++));
    }
    return tensors;
  };
  // f(x + y) = f(x) + f(y) in the chosen operands, the others alike.
  auto isLinear = [&](const std::vector<bool> &chosen) {
    for (unsigned seed : {10, 20, 30}) {
      std::vector<Tensor> x = numbers(seed), y = numbers(seed + 100), both = x;
      for (size_t i = 0; i < chosen.size(); ++i) {
        if (!chosen[i]) {
          y[i] = x[i];
          continue;
        }
        for (size_t k = 0; k < x[i].values.size(); ++k) {
          both[i].values[k] += y[i].values[k];
        }
      }
      auto fx = reference::evaluate(function, x);
      auto fy = reference::evaluate(function, y);
      auto fboth = reference::evaluate(function, both);
      for (size_t k = 0; k < fx->front().values.size(); ++k) {
        double sum = fx->front().values[k] + fy->front().values[k];
        if (!std::isfinite(sum) || !std::isfinite(fboth->front().values[k])) {
          continue; // a division by zero says nothing
        }
        if (!(std::abs(sum - fboth->front().values[k]) <= 1e-9)) {
          return false;
        }
      }
    }
    return true;
  };
  std::vector<bool> allNumbers;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    // Bits are never pending sums.
    bool isNumber = op.operands[i].element != "i1";
    allNumbers.push_back(isNumber);
    std::vector<bool> chosen(op.operands.size(), false);
    chosen[i] = true;
    if (rule.passesSum[numberOf[i]] != (isNumber && isLinear(chosen))) {
      return op.name + ": passesSum of operand " + std::to_string(i) +
             " is wrong";
    }
  }
  if (rule.additive != (numbersRead >= 2 && isLinear(allNumbers))) {
    return op.name + ": additive is wrong";
  }
  return "";
}

} // namespace

std::string cleave::test::checkOperation(const OpCase &op, size_t limit,
                                         const RuleOf &ruleOf) {
  Trial trial(op, ruleOf);
  if (std::string wrong = checkLinear(op, ruleOf); !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = checkFree(op, trial); !wrong.empty()) {
    return wrong;
  }
  for (const std::vector<int64_t> &sizes :
       {std::vector<int64_t>{2}, {3}, {4}, {2, 2}}) {
    Mesh mesh = meshOf(sizes);
    std::vector<std::vector<Layout>> choices;
    size_t count = 1;
    for (const CaseValue &operand : op.operands) {
      bool mayPend = operand.element == "f32";
      choices.push_back(layoutsOf(operand, mesh, mayPend));
      count *= choices.back().size();
    }
    choices.push_back(layoutsOf(op.result, mesh, false));
    count *= choices.back().size();
    // Evenly over all, by a stride that shares no factor with their number.
    size_t tries = std::min(count, limit);
    size_t stride = std::max<size_t>(1, count / tries);
    while (std::gcd(stride, count) != 1) {
      ++stride;
    }
    for (size_t i = 0, at = 0; i < tries; ++i, at = (at + stride) % count) {
      Attempt attempt;
      size_t rest = at;
      for (const std::vector<Layout> &layouts : choices) {
        attempt.operands.push_back(layouts[rest % layouts.size()]);
        rest /= layouts.size();
      }
      attempt.result = attempt.operands.back();
      attempt.operands.pop_back();
      if (std::string wrong = trial.run(attempt, mesh); !wrong.empty()) {
        return spell(op, attempt, mesh) + ": " + wrong;
      }
    }
  }
  return "";
}
