//===- Decide.h - How one operation is split --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rule 3 of the language, for one operation, as a pure function of its rule and
// of layouts.
//
//  * A factor is split on an atom if every operand that has the factor is split
//    so, or holds it whole with that atom free (it is then sliced).
//  * A factor that no operand splits follows the result's declared layout, as
//    far as no other factor wants the atoms: with dot(h[seq, ff: t], w[ff: t,
//    embed]) declared [seq: t, embed], ff keeps t and the sum is scattered.
//  * Where two operands' factors want one atom, the one that the result's
//    layout splits on it has it, else the one of the earlier operand; the other
//    is split on what stands before that atom only.
//  * Where two operands split one factor differently, the result's layout
//    decides, else the earlier operand; a longer split of the same major atoms
//    wins over a shorter one.
//  * Operands that do not fit move.
//  * A window (slice, pad) is cut at the same elements on both sides: as its
//    operand is, or as its result is declared, or it is whole, whichever lets
//    all devices send the least. Equal costs: in this order.
//
// Pending sums. A pending operand either stays pending, and then the result is
// pending, or is reduced first. It may stay pending where the rule says that
// the operation is linear in it (`passesSum`: one such operand; `additive`: all
// operands pending over common atoms) and no other operand is split on a
// pending atom. Among the ways that are possible the one is taken for which all
// devices together send the least: moving the operands and then bringing the
// result to its declared layout. Equal costs: pending stays pending. So a sum
// is put off only where that sends no more.
//
// Example. add(dq, dk), each [batch, seq, embed] pending over `tensor`, result
// declared whole: reducing both sends 2 * 2(n-1)/n S, reducing their sum half
// of that, so both stay pending. add(x, h), x whole, h pending: x is the same
// on every device and would be added n times; h is reduced first.
//
// Example. slice(m[16: a], 1 .. 16) on a = 4 has the cuts 0 3 7 11 15 for
// nothing. Where the result is declared whole, 15 elements are gathered,
// not 16. pad(m[4: a], at 2 of 16), declared on a: its operand gets the cuts 0
// 2 4 4 4, for which three elements move; zeros never do.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_DECIDE_H
#define CLEAVE_COMPILER_PARTITION_DECIDE_H

#include "compiler/reshard/Reshard.h"
#include "dialects/clv/Rule.h"
#include "layout/Layout.h"

#include <string>
#include <vector>

namespace cleave::partitioning {

struct OperandState {
  layout::Layout now;      ///< maybe pending
  layout::Layout declared; ///< what it has once nothing is pending
  reshard::Subject subject;
  /// Whether it can be a pending sum at all; i1 values are not.
  bool isNumber = true;
};

struct Query {
  clv::Rule rule;
  std::vector<OperandState> operands;
  layout::Layout result; ///< declared; never pending
  reshard::Subject subject;
  /// Whether the result stays as it is made while nothing in it is pending: its
  /// readers are windows.
  bool resultStays = false;
  /// Of an ordered sum, whose terms come to where all of them are: the atoms
  /// that cut them before. The result may be cut over them.
  std::vector<layout::AtomId> freed;
};

/// Where a factor's split comes from.
struct Origin {
  int operand = -1; ///< of this operand's layout; -1: of the result's
  int dim = -1;     ///< its position there; -1: the factor is whole
};

struct Decision {
  std::vector<layout::Layout> operands; ///< as the operation reads them
  layout::Layout natural; ///< of the result, before it is brought anywhere
  std::vector<layout::Split> splits; ///< of each factor; of a window, as its
                                     ///< origin has it
  std::vector<Origin> origins;       ///< of each factor
  int64_t total = 0;                 ///< bytes that all devices send for it
};

/// As above. With `freed` atoms the dim of the result is cut over them for
/// which least is sent, the result's way to its declared layout included: each
/// device then adds its share, and not all of them the same.
Decision decide(const Query &query, reshard::Cache &cache);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_DECIDE_H
