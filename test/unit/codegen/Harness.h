//===- Harness.h - Runs emitted plans beside the reference ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function of the clv dialect is emitted as a plan, run by a small
// interpreter of the plan's instructions on one device after the other, and
// compared with the reference's values of the global function.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_CODEGEN_HARNESS_H
#define CLEAVE_TEST_UNIT_CODEGEN_HARNESS_H

#include "compiler/reference/Reference.h"
#include "layout/Layout.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>

namespace cleave::test {

using Sizes = std::map<std::string, int64_t>;
/// Gives an argument's element from its global row-major position.
using Data = std::function<double(unsigned argument, int64_t position)>;

struct Options {
  layout::Mesh mesh;                                   ///< one device
  std::map<std::string, std::vector<uint32_t>> splits; ///< atoms of each dim
  double tolerance = 1e-5;
  bool native = true;
  Data data; ///< default: numbers of both signs, ids, alternating booleans
  /// The largest id + 1, for i32 arguments.
  int64_t bound = 7;
};

/// How many instructions of a kind a program has, those of loops once.
struct Instructions {
  int kernels = 0, contractions = 0, moves = 0;
};

/// `text` is a module with one function @f. In it `{b e}` is an f32 tensor type
/// of the dims b and e, `{i: b}` an i32 one, `{h: b}` a bf16 one, `{p: b}` one
/// of booleans, `{f:}` a scalar. Fails the test where a result differs from the
/// reference on any device.
Instructions check(const std::string &text, const Sizes &sizes,
                   const Options &options = {});

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_CODEGEN_HARNESS_H
