//===- RulePrograms.h - One operation as a program --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What RuleTrial.h leaves open: that partition() does what a rule says, and
// what a rule promises beyond right numbers.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_RULEPROGRAMS_H
#define CLEAVE_TEST_UNIT_PARTITION_RULEPROGRAMS_H

#include "test/unit/partition/RuleTrial.h"

namespace cleave::test {

/// Partitions programs of the operation and runs them on all devices: under
/// every layout on the mesh, dims of more than one atom cut by the split rule
/// alone. Pending operands are sums that the program begins. The first thing
/// found wrong, or nothing; `tried` grows by the number of programs.
std::string checkPrograms(const OpCase &op, const Sizes &sizes,
                          const layout::Mesh &mesh, const clv::Rule &rule,
                          bool scattered, size_t &tried);

/// A dim that is split on every side moves nothing, but for one all_reduce
/// where the result lacks it. Nothing but OpCase::whole is exempt.
std::string checkFree(ParsedCase &parsed, const clv::Rule &rule);

/// Whether the rule says of pending sums what the operation does to sums.
std::string checkLinear(ParsedCase &parsed, const clv::Rule &rule);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_RULEPROGRAMS_H
