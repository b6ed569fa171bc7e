//===- RuleTrial.cpp - One operation under every layout -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/partition/RuleTrial.h"

#include "dialects/spmd/Spmd.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace cleave;
using namespace cleave::test;
using layout::Layout;
using layout::Mesh;
using partitioning::Decision;
using partitioning::Pieces;
using partitioning::Query;

std::string cleave::test::spell(const OpCase &op, const Attempt &attempt,
                                const Mesh &mesh) {
  std::string text = op.name + " of";
  auto add = [&](const Layout &layout, const std::vector<std::string> &dims) {
    text += " " + describe(layout, dims, mesh);
    for (size_t d = 0; d < dims.size(); ++d) {
      const layout::Split &split = layout.dims[d];
      if (split.unit != 1 || !split.cuts.empty()) {
        text += " (" + dims[d] + " in " +
                (!split.places.empty() ? "placed cuts"
                 : !split.cuts.empty() ? "cuts"
                                       : "units") +
                ")";
      }
    }
  };
  for (size_t i = 0; i < attempt.operands.size(); ++i) {
    add(attempt.operands[i], op.operands[i].dims);
  }
  text += " ->";
  add(attempt.result, op.result.dims);
  return text + " on " + std::to_string(mesh.devices()) + " devices";
}

RuleTrial::RuleTrial(ParsedCase &parsed, Space &space)
    : parsed(parsed), space(space) {
  parsed.context.loadDialect<spmd::SpmdDialect>();
  for (size_t i = 0; i < parsed.operands.size(); ++i) {
    const ParsedCase::Operand &operand = parsed.operands[i];
    addSide(operand.shape, parsed.operation->getOperand(i), operand.mayPend);
  }
  addSide(shapeOf(parsed.op.result, parsed.sizes),
          parsed.operation->getResult(0), false);
}

void RuleTrial::addSide(const std::vector<int64_t> &shape, mlir::Value value,
                        bool mayPend) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  int64_t bits = type.getElementType().getIntOrFloatBitWidth();
  Side &side = sides.emplace_back();
  side.shape = &space.shape(shape, std::max<int64_t>(1, bits / 8));
  for (const Layout &layout :
       layoutsOf(shape, space.mesh, mayPend, space.ways)) {
    side.numbers.push_back(side.shape->numberOf(layout));
    partitioning::OperandState state;
    state.now = layout;
    state.declared = layout;
    state.declared.partial.clear();
    state.subject = side.shape->subject;
    state.isNumber = bits > 1;
    side.states.push_back(std::move(state));
  }
  choices.push_back(layoutsOf(shape, space.mesh, mayPend, space.ways));
  count *= side.numbers.size();
}

static bool isPending(const Query &query) {
  return llvm::any_of(query.operands,
                      [](const partitioning::OperandState &operand) {
                        return operand.now.isPartial();
                      });
}

Attempt RuleTrial::attemptOf(const Query &query) const {
  Attempt attempt;
  attempt.operands.resize(parsed.op.operands.size());
  for (size_t i = 0; i < query.operands.size(); ++i) {
    if (int argument = parsed.operands[i].argument; argument >= 0) {
      attempt.operands[argument] = query.operands[i].now;
    }
  }
  attempt.result = query.result;
  return attempt;
}

std::string RuleTrial::tryAll(const clv::Rule &rule, bool scattered,
                              size_t &tried, size_t &ran) {
  size_t stride = 1;
  if (scattered) {
    // Shares no factor with their number, so that it comes by all of them.
    stride = std::max<size_t>(1, count * 382 / 1000);
    while (std::gcd(stride, count) != 1) {
      ++stride;
    }
  }
  Query query;
  query.rule = rule;
  query.subject = sides.back().shape->subject;
  query.operands.resize(sides.size() - 1);
  bool hasWindow = llvm::any_of(rule.factors, [](const clv::Factor &factor) {
    return factor.kind == clv::FactorKind::Window;
  });
  bool passes = rule.additive || llvm::is_contained(rule.passesSum, true);
  std::vector<size_t> digits(sides.size(), static_cast<size_t>(-1));
  for (size_t i = 0, at = 0; i < size(); ++i, at = (at + stride) % count) {
    size_t rest = at;
    std::vector<size_t> sample;
    if (size() < count) {
      sample = sampleOf(i, choices);
    }
    for (size_t s = sides.size(); s-- > 0;) { // the result changes fastest
      size_t digit =
          sample.empty() ? rest % sides[s].numbers.size() : sample[s];
      rest /= sides[s].numbers.size();
      if (digit == digits[s]) {
        continue;
      }
      digits[s] = digit;
      if (s + 1 == sides.size()) {
        query.result = sides[s].states[digit].now;
      } else {
        query.operands[s] = sides[s].states[digit];
      }
    }
    ++tried;
    std::string wrong = tryOne(query, digits, ran);
    if (wrong.empty() && hasWindow) {
      // As if other windows read it: then the costs are others.
      query.resultStays = true;
      wrong = tryOne(query, digits, ran);
      query.resultStays = false;
    }
    if (wrong.empty() && passes && !staysPending && isPending(query)) {
      // As if it cost nothing to reduce the result.
      query.subject.elementBytes = 0;
      wrong = tryOne(query, digits, ran);
      query.subject = sides.back().shape->subject;
    }
    if (!wrong.empty()) {
      return spell(parsed.op, attemptOf(query), space.mesh) + ": " + wrong;
    }
  }
  return "";
}

/// An atom splits one dim or is pending.
static bool isLayout(const Layout &layout) {
  std::vector<layout::AtomId> atoms = layout.usedAtoms();
  return std::adjacent_find(atoms.begin(), atoms.end()) == atoms.end();
}

std::string RuleTrial::tryOne(const Query &query,
                              const std::vector<size_t> &digits, size_t &ran) {
  // As partition() refuses it too.
  for (const clv::Factor &factor : query.rule.factors) {
    bool reduces = factor.kind == clv::FactorKind::Sum ||
                   factor.kind == clv::FactorKind::Max ||
                   factor.kind == clv::FactorKind::Min;
    if (reduces && factor.results[0] >= 0) {
      return "declares that it reduces what its result has";
    }
  }
  Decision decision = decide(query, space.cache);
  if (!isLayout(decision.natural)) {
    return "one atom twice in the result";
  }
  staysPending = llvm::any_of(decision.operands, [](const Layout &layout) {
    return layout.isPartial();
  });
  std::vector<int> reads;
  std::u16string numbers; // of the layouts
  for (size_t i = 0; i < query.operands.size(); ++i) {
    if (!isLayout(decision.operands[i])) {
      return "one atom twice in operand " + std::to_string(i);
    }
    Shape &shape = *sides[i].shape;
    reads.push_back(shape.numberOf(decision.operands[i]));
    const std::string &wrong =
        shape.checkMoves(sides[i].numbers[digits[i]], reads.back());
    if (!wrong.empty()) {
      return "moving operand " + std::to_string(i) + ": " + wrong;
    }
    numbers.push_back(static_cast<char16_t>(reads.back()));
  }
  Shape &shape = *sides.back().shape;
  int gives = shape.numberOf(decision.natural);
  assert(gives < 1 << 16 && "numbers overlap");
  numbers.push_back(static_cast<char16_t>(gives));
  auto [found, isNew] = runs.try_emplace(std::move(numbers));
  if (isNew) {
    ++ran;
    found->second = tryPieces(reads, gives);
  }
  if (!found->second.empty()) {
    return found->second;
  }
  const std::string &wrong =
      shape.checkMoves(gives, sides.back().numbers[digits.back()]);
  return wrong.empty() ? "" : "moving the result: " + wrong;
}

const Pieces &RuleTrial::piecesIn(size_t operand, int number) {
  auto [found, isNew] = sides[operand].pieces.try_emplace(number);
  if (isNew) {
    found->second = pendingPieces(
        parsed.operands[operand].value, sides[operand].shape->placed(number),
        space.mesh, static_cast<unsigned>(1000 * operand + number));
  }
  return found->second;
}

std::string RuleTrial::tryPieces(const std::vector<int> &reads, int gives) {
  auto localOf = [&](mlir::Value value, const Side &side, int number) {
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    return spmd::localType(type.getElementType(), clv::dimsOf(type),
                           side.shape->subject.sizes,
                           side.shape->layout(number), space.mesh);
  };
  mlir::Location loc = parsed.operation->getLoc();
  mlir::Block block;
  std::vector<Pieces> pieces;
  for (size_t i = 0; i < reads.size(); ++i) {
    block.addArgument(
        localOf(parsed.operation->getOperand(i), sides[i], reads[i]), loc);
    pieces.push_back(piecesIn(i, reads[i]));
  }
  mlir::OpBuilder builder(&parsed.context);
  builder.setInsertionPointToEnd(&block);
  mlir::Operation *local = builder.clone(*parsed.operation);
  local->setOperands(block.getArguments());
  mlir::Value result = local->getResult(0);
  result.setType(localOf(result, sides.back(), gives));
  if (failed(mlir::verify(local))) {
    return "the local operation is wrong: " + parsed.error;
  }
  llvm::Expected<Pieces> found =
      partitioning::simulateOperation(local, pieces, space.mesh);
  if (!found) {
    return llvm::toString(found.takeError());
  }
  return compare(*found, sides.back().shape->placed(gives), parsed.wanted,
                 space.mesh);
}
