//===- RuleTrial.h - One operation under every layout -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries a rule under every combination of layouts of an operation's operands
// and result on a mesh, none left out. Operands may be pending sums.
//
// What partitioning makes of one operation is: moves of each operand, the
// operation on local types, moves of its result. `decide` says which, from the
// rule and the layouts, and it is asked for each combination. Each of the three
// parts is then looked up among those already run:
//
//   * the moves of one value, by sizes and both layouts (RuleSpace.h);
//   * the operation, by the layouts in which it reads its operands and gives
//   its
//     result. It runs on each device's pieces, with true extents. A result that
//     is not pending must be the piece of the unsharded result on every device;
//     a pending one must reduce to it.
//
// This leaves nothing out: a combination is right if its parts are, since the
// right pieces of a layout are the same whichever moves made them. Only the
// terms of a pending sum are not, and there the numbers are arbitrary on
// purpose: terms are random and of mixed sign, and a move of terms keeps their
// sum.
//
// Costs hide ways: a sum is put off only where that sends no more bytes. Where
// a rule would let one pass and it does not pay, the combination is decided
// once more as if reducing the result cost nothing.
//
// So the millions of combinations of `select` need a few hundred runs. That
// partition() does what `decide` says is checked apart, on whole programs
// (RulePrograms.h).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_RULETRIAL_H
#define CLEAVE_TEST_UNIT_PARTITION_RULETRIAL_H

#include "compiler/partition/Decide.h"
#include "test/unit/partition/RuleCases.h"
#include "test/unit/partition/RuleSpace.h"

#include <unordered_map>

namespace cleave::test {

/// Layouts of the operands (with pending atoms) and of the result.
struct Attempt {
  std::vector<layout::Layout> operands;
  layout::Layout result;
};

std::string spell(const OpCase &op, const Attempt &attempt,
                  const layout::Mesh &mesh);

class RuleTrial {
public:
  /// Both must outlive it.
  RuleTrial(ParsedCase &parsed, Space &space);

  /// The number of combinations that are tried.
  size_t size() const {
    return parsed.op.mostLayouts ? std::min(count, parsed.op.mostLayouts)
                                 : count;
  }

  /// Tries them, or until one is wrong: says which and what is wrong, or
  /// nothing. `scattered`: in an order in which neighbours differ much, that
  /// finds what is broken soon; all are tried all the same. `tried` grows by
  /// the number of combinations tried, `ran` by that of operations run.
  std::string tryAll(const clv::Rule &rule, bool scattered, size_t &tried,
                     size_t &ran);

private:
  struct Side {
    Shape *shape = nullptr;
    std::vector<int> numbers; ///< of its layouts
    std::vector<partitioning::OperandState> states;
    /// The pieces it has in a layout.
    std::unordered_map<int, partitioning::Pieces> pieces;
  };

  void addSide(const std::vector<int64_t> &shape, mlir::Value value,
               bool mayPend);
  std::string tryOne(const partitioning::Query &query,
                     const std::vector<size_t> &digits, size_t &ran);
  Attempt attemptOf(const partitioning::Query &query) const;
  std::string tryPieces(const std::vector<int> &reads, int gives);
  const partitioning::Pieces &piecesIn(size_t operand, int number);

  ParsedCase &parsed;
  Space &space;
  std::vector<Side> sides; ///< of the operands, then of the result
  std::vector<std::vector<layout::Layout>> choices; ///< of each side
  size_t count = 1;
  bool staysPending = false; ///< some operand, by the last decision
  /// What was wrong with each run of the operation.
  std::unordered_map<std::u16string, std::string> runs;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_RULETRIAL_H
