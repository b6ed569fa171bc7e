//===- RuleCases.h - Each operation, small enough to try all ----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_RULECASES_H
#define CLEAVE_TEST_UNIT_PARTITION_RULECASES_H

#include "compiler/reference/Reference.h"
#include "dialects/clv/Clv.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::test {

struct CaseValue {
  std::vector<std::string> dims;
  std::string element = "f32"; ///< f32, i32, i1
};

/// A dim of an operand and one of the result that are one loop under two names:
/// the index of the result's is that of the operand's plus `offset`.
struct Renamed {
  std::string from, to;
  int64_t offset = 0;
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
  std::optional<Renamed> renamed = {};
  /// Of the combinations of layouts, how many are tried on one mesh, and in
  /// programs (sampleOf in RuleSpace.h); 0 = all. Of four operands and more
  /// there are too many.
  size_t mostLayouts = 0, mostPrograms = 0;

  /// `clv.add`.
  std::string operation() const;
};

/// Every operation of the clv dialect that has a rule. Elementwise operations
/// of one operand are taken from the dialect, the others are listed.
std::vector<OpCase> everyOperation();

/// The size of each dim, by its name.
using Sizes = std::map<std::string, int64_t>;
/// Uneven ones: some dims are shorter than a mesh has devices.
std::vector<Sizes> everySizes();

std::vector<int64_t> shapeOf(const CaseValue &value, const Sizes &sizes);

/// A function `forward` of the operation alone. Where an operand is `pending`,
/// the argument has a dim `p` more, over which it is summed first. The
/// operation has the attribute `test.it`, the scope of its result is `result`,
/// those of its operands `x0`, `x1` …, those of arguments to be summed `y0` ….
std::string programOf(const OpCase &op, const Sizes &sizes,
                      const std::vector<bool> &pending);

/// Multiples of a quarter, of mixed sign unless all operands are positive; ids
/// of which some do not fit; bits. The terms of a pending one are of mixed
/// sign.
reference::Tensor numbersFor(const OpCase &op, const CaseValue &value,
                             const Sizes &sizes, bool isPending, unsigned seed);

/// `programOf` where nothing is pending, parsed, with numbers to run it on.
struct ParsedCase {
  ParsedCase(const OpCase &op, const Sizes &sizes);

  /// One operand of the operation: an argument, or a constant before it.
  struct Operand {
    std::vector<int64_t> shape;
    reference::Tensor value;
    int argument = -1; ///< -1: a constant
    bool mayPend = true;
  };

  const OpCase &op;
  const Sizes &sizes;
  std::string error; ///< why there is no operation
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::Operation *operation = nullptr;
  std::vector<Operand> operands;
  std::vector<reference::Tensor> arguments;
  reference::Tensor wanted; ///< what the unsharded operation gives
};

/// A context that takes messages instead of printing them: what a broken rule
/// makes is often not a program.
void prepare(mlir::MLIRContext &context, std::string &lastError);

/// Whether two numbers are the same but for reassociation.
bool isSame(double found, double wanted);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_RULECASES_H
