//===- RulePrograms.cpp - One operation as a program ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RulePrograms.h"

#include "compiler/partition/Partition.h"
#include "dialects/spmd/Spmd.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace cleave;
using namespace cleave::test;
using layout::Layout;
using layout::Mesh;
using reference::Tensor;

namespace {

/// Programs of one operation, parsed once for each set of pending operands.
class Programs {
public:
  Programs(const OpCase &op, const Sizes &sizes, const clv::Rule &rule)
      : op(op), sizes(sizes), rule(rule) {
    prepare(context, lastError);
  }

  std::string run(const Attempt &attempt, const Mesh &mesh) {
    std::vector<bool> pending;
    for (const Layout &layout : attempt.operands) {
      pending.push_back(layout.isPartial());
    }
    Program &program = programs[pending];
    if (!program.module) {
      if (std::string wrong = parse(pending, program); !wrong.empty()) {
        return wrong;
      }
    }
    mlir::OwningOpRef<mlir::ModuleOp> module = program.module->clone();
    layout::Plan plan;
    plan.mesh = mesh;
    PartitionOptions options;
    options.resolve = [&](const layout::Plan &, const layout::ValueInfo &info) {
      return resolve(attempt, info);
    };
    options.ruleOf = [&](mlir::Operation *operation) {
      return operation->hasAttr("test.it")
                 ? rule
                 : mlir::cast<clv::RuleInterface>(operation).getRule();
    };
    if (failed(partition(*module, plan, nullptr, nullptr, options))) {
      return "is not partitioned: " + lastError;
    }
    auto found = partitioning::simulate(
        module->lookupSymbol<mlir::func::FuncOp>("forward"), program.arguments);
    if (!found) {
      return llvm::toString(found.takeError());
    }
    const std::vector<double> &wanted = program.wanted.values;
    for (size_t i = 0; i < wanted.size(); ++i) {
      double number = found->front().values[i];
      if (!isSame(number, wanted[i])) {
        return "element " + std::to_string(i) + " is " +
               std::to_string(number) + ", not " + std::to_string(wanted[i]);
      }
    }
    return "";
  }

private:
  struct Program {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::vector<Tensor> arguments;
    Tensor wanted;
  };

  std::string parse(const std::vector<bool> &pending, Program &program) {
    std::string text = programOf(op, sizes, pending);
    program.module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context));
    if (!program.module) {
      return "does not parse: " + lastError + "\n" + text;
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      program.arguments.push_back(numbersFor(
          op, op.operands[i], sizes, pending[i], static_cast<unsigned>(i + 1)));
    }
    auto results = reference::evaluate(
        program.module->lookupSymbol<mlir::func::FuncOp>("forward"),
        program.arguments);
    if (!results) {
      return llvm::toString(results.takeError());
    }
    program.wanted = results->front();
    return "";
  }

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
  const Sizes &sizes;
  const clv::Rule &rule;
  std::string lastError;
  mlir::MLIRContext context;
  std::map<std::vector<bool>, Program> programs;
};

} // namespace

std::string cleave::test::checkPrograms(const OpCase &op, const Sizes &sizes,
                                        const Mesh &mesh, const clv::Rule &rule,
                                        bool scattered, size_t &tried) {
  std::vector<Cut> ways = {Cut::Rule};
  if (mesh.atoms.size() == 1) {
    ways = {Cut::Rule, Cut::Unit, Cut::Cuts, Cut::Places};
  }
  std::vector<std::vector<Layout>> choices;
  size_t count = 1;
  for (const CaseValue &operand : op.operands) {
    // A sum of i32 cannot be written, nor one of bits.
    choices.push_back(layoutsOf(shapeOf(operand, sizes), mesh,
                                operand.element == "f32", ways));
    count *= choices.back().size();
  }
  choices.push_back(layoutsOf(shapeOf(op.result, sizes), mesh, false, ways));
  count *= choices.back().size();
  size_t most = op.mostPrograms ? std::min(count, op.mostPrograms) : count;
  size_t stride = scattered ? std::max<size_t>(1, count * 382 / 1000) : 1;
  while (std::gcd(stride, count) != 1) {
    ++stride;
  }
  Programs programs(op, sizes, rule);
  for (size_t i = 0, at = 0; i < most; ++i, at = (at + stride) % count) {
    Attempt attempt;
    size_t rest = at;
    std::vector<size_t> sample;
    if (most < count) {
      sample = sampleOf(i, choices);
    }
    for (size_t s = 0; s < choices.size(); ++s) {
      size_t size = choices[s].size();
      attempt.operands.push_back(
          choices[s][sample.empty() ? rest % size : sample[s]]);
      rest /= size;
    }
    attempt.result = attempt.operands.back();
    attempt.operands.pop_back();
    ++tried;
    if (std::string wrong = programs.run(attempt, mesh); !wrong.empty()) {
      return spell(op, attempt, mesh) + ": " + wrong;
    }
  }
  return "";
}

/// How a value is split where `dim` is split on the one atom of a mesh wherever
/// it appears, under its other name too.
static Layout splitOn(const OpCase &op, const Sizes &sizes, const Mesh &mesh,
                      const std::vector<std::string> &names,
                      const std::string &dim, bool isResult) {
  Layout layout;
  for (const std::string &name : names) {
    layout::Split &split = layout.dims.emplace_back();
    if (op.renamed && isResult && name == op.renamed->to &&
        (dim == op.renamed->from || dim == op.renamed->to)) {
      // Every device has what it has of the operand.
      split.atoms = {0};
      split = windowOf(sizes.at(op.renamed->from), split, op.renamed->offset,
                       sizes.at(op.renamed->to), mesh);
    } else if (name == dim || (op.renamed && dim == op.renamed->to &&
                               name == op.renamed->from)) {
      split.atoms = {0};
    }
  }
  return layout;
}

/// What moves then.
static std::string movesOf(ParsedCase &parsed, const clv::Rule &rule,
                           const std::string &dim, const Mesh &mesh,
                           bool &isRead, bool &isKept) {
  auto split = [&](const std::vector<std::string> &names, bool isResult) {
    return splitOn(parsed.op, parsed.sizes, mesh, names, dim, isResult);
  };
  partitioning::Query query;
  query.rule = rule;
  isRead = false;
  for (const ParsedCase::Operand &operand : parsed.operands) {
    partitioning::OperandState state;
    if (operand.argument >= 0) {
      state.now = split(parsed.op.operands[operand.argument].dims, false);
    }
    state.declared = state.now;
    state.subject = {operand.shape, 4, &mesh};
    state.isNumber = operand.mayPend;
    isRead |= !state.now.usedAtoms().empty();
    query.operands.push_back(std::move(state));
  }
  query.result = split(parsed.op.result.dims, true);
  query.subject = {shapeOf(parsed.op.result, parsed.sizes), 4, &mesh};
  isKept = !query.result.usedAtoms().empty();
  reshard::Cache cache;
  partitioning::Decision decision = decide(query, cache);
  std::string made;
  auto add = [&](const Layout &from, const Layout &to,
                 const reshard::Subject &subject) {
    for (const reshard::Move &move : cache.reshard(from, to, subject).moves) {
      made += (made.empty() ? "" : ", ") + std::string(nameOf(move.kind));
    }
  };
  for (size_t i = 0; i < query.operands.size(); ++i) {
    add(query.operands[i].now, decision.operands[i], query.operands[i].subject);
  }
  add(decision.natural, query.result, query.subject);
  return made;
}

std::string cleave::test::checkFree(ParsedCase &parsed, const clv::Rule &rule) {
  const OpCase &op = parsed.op;
  std::vector<std::string> dims = op.result.dims;
  for (const CaseValue &operand : op.operands) {
    dims.insert(dims.end(), operand.dims.begin(), operand.dims.end());
  }
  for (const std::string &dim : dims) {
    if (std::find(op.whole.begin(), op.whole.end(), dim) != op.whole.end()) {
      continue;
    }
    for (int64_t size : {2, 3}) {
      bool isRead = false, isKept = false;
      std::string made =
          movesOf(parsed, rule, dim, meshOf({size}), isRead, isKept);
      std::string wanted = isRead && !isKept ? "all_reduce" : "";
      if (made != wanted) {
        return op.name + " with `" + dim + "` split over " +
               std::to_string(size) + " makes [" + made + "], not [" + wanted +
               "]";
      }
    }
  }
  return "";
}

/// f(x + y) = f(x) + f(y) in the chosen arguments, the others alike.
static bool isLinear(ParsedCase &parsed, const std::vector<bool> &chosen) {
  auto numbers = [&](unsigned seed) {
    std::vector<Tensor> tensors;
    for (const CaseValue &operand : parsed.op.operands) {
      tensors.push_back(
          numbersFor(parsed.op, operand, parsed.sizes, false, seed++));
    }
    return tensors;
  };
  auto evaluate = [&](const std::vector<Tensor> &x) {
    return llvm::cantFail(reference::evaluate(parsed.function, x))
        .front()
        .values;
  };
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
    std::vector<double> fx = evaluate(x), fy = evaluate(y), f = evaluate(both);
    for (size_t k = 0; k < fx.size(); ++k) {
      double sum = fx[k] + fy[k];
      // A division by zero says nothing.
      if (std::isfinite(sum) && std::isfinite(f[k]) &&
          !(std::abs(sum - f[k]) <= 1e-9)) {
        return false;
      }
    }
  }
  return true;
}

std::string cleave::test::checkLinear(ParsedCase &parsed,
                                      const clv::Rule &rule) {
  size_t numbersRead = 0;
  std::vector<bool> all(parsed.op.operands.size(), false);
  for (size_t i = 0; i < parsed.operands.size(); ++i) {
    const ParsedCase::Operand &operand = parsed.operands[i];
    bool isConstant = operand.argument < 0;
    numbersRead += operand.mayPend || isConstant;
    if (isConstant) {
      continue;
    }
    all[operand.argument] = operand.mayPend;
    std::vector<bool> chosen(parsed.op.operands.size(), false);
    chosen[operand.argument] = true;
    if (rule.passesSum[i] != (operand.mayPend && isLinear(parsed, chosen))) {
      return parsed.op.name + ": passesSum of operand " + std::to_string(i) +
             " is wrong";
    }
  }
  if (rule.additive != (numbersRead >= 2 && isLinear(parsed, all))) {
    return parsed.op.name + ": additive is wrong";
  }
  return "";
}
