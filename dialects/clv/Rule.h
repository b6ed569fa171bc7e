//===- Rule.h - How an operation behaves when its dims are split *- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. The *factors* of an operation are the indices of its loop nest.
// Each dim of an operand or result is one factor. Since dims have names, a
// factor usually is a name: `dot(x[batch, embed], w[embed, ff])` has the
// factors batch, embed and ff.
//
// A factor may be split on atoms of the mesh if each tensor that has it is
// split so. What happens then is its kind:
//
//   Parallel  each device computes its piece of the results that have the
//             factor. A result that lacks it would be computed alike by all.
//   Reduced   the results lack it; each device's result is a pending reduction
//             over the atoms (sum, max or min).
//   Window    of one operand and the result, whose sizes may differ: the
//             result's index is the operand's plus the factor's *offset*. Each
//             device computes what its piece has of the window. A split of one
//             side is a split of the other at the same elements (windowOf in
//             layout/Layout.h): slice has the offset -first, pad has first.
//   Whole     it must not be split.
//
// A factor that a result has and no operand does (the dim of `index`, the rows
// of `scatter_add`) is Parallel: each device makes its own piece.
//
// Pending reductions of operands. `passesSum[i]` says that the operation is
// linear in operand i while the other operands stay whole: if operand i alone
// is a pending sum, so is the result. `additive` says that the operation is
// linear in all operands together (add, sub): if *all* are pending sums over
// the same atoms, so is the result. Otherwise the operand is reduced first.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_CLV_RULE_H
#define CLEAVE_DIALECTS_CLV_RULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <string>

namespace cleave::clv {

enum class FactorKind : uint8_t { Parallel, Sum, Max, Min, Window, Whole };

struct Factor {
  std::string name; ///< for messages: the dim's name
  FactorKind kind = FactorKind::Parallel;
  llvm::SmallVector<int, 3> operands; ///< dim position per operand, -1 absent
  llvm::SmallVector<int, 1> results;  ///< dim position per result, -1 absent
  int64_t offset = 0; ///< of a Window: result index minus operand index
};

struct Rule {
  llvm::SmallVector<Factor, 4> factors;
  llvm::SmallVector<bool, 3> passesSum; ///< per operand
  bool additive = false;
};

} // namespace cleave::clv

#endif // CLEAVE_DIALECTS_CLV_RULE_H
