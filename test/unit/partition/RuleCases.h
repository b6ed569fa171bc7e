//===- RuleCases.h - Each operation, small enough to try all ---*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_RULECASES_H
#define CLEAVE_TEST_UNIT_PARTITION_RULECASES_H

#include "dialects/clv/Rule.h"
#include "layout/Layout.h"
#include "mlir/IR/Operation.h"

#include <functional>
#include <string>
#include <vector>

namespace cleave::test {

struct CaseValue {
  std::vector<std::string> dims;
  std::string element = "f32"; ///< f32, i32, i1
};

/// One operation `%r = TEXT {scope} : TYPES`, over %x0, %x1, …
struct OpCase {
  std::string name;
  std::string text;
  std::vector<CaseValue> operands;
  CaseValue result;
  /// Dims that it needs whole; any other may be split on both sides for nothing
  /// (or for one reduction, where the result lacks it).
  std::vector<std::string> whole = {};
  std::string setup = ""; ///< operations before it
  bool positive = false;  ///< operands are positive
};

/// Every operation of the clv dialect that a decomposed program may hold, and
/// the composite ones.
std::vector<OpCase> everyOperation();
int64_t sizeOfDim(const std::string &dim);

using RuleOf = std::function<clv::Rule(mlir::Operation *)>;

/// Tries an operation on meshes of one and two axes, under layouts of its
/// operands and result, with operands that are pending sums. The first thing
/// found wrong, or nothing. `limit`: layouts tried on each mesh; all where
/// there are fewer.
std::string checkOperation(const OpCase &op, size_t limit,
                           const RuleOf &ruleOf = {});

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_RULECASES_H
