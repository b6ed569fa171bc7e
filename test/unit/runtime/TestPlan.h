//===- TestPlan.h - A plan set built by hand --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A toy of a training step that uses every kind of instruction on any mesh
// [data, tensor], with uneven pieces:
//
//   x = embed(ids)                                     kernel, batch on data
//   for layer in 0 .. 3 {
//     h = x . w[layer]                                 out on tensor
//     kept[layer] = h + layer + out                    stacked
//     whole = all_gather(h)                            over tensor
//     x += 0.1 whole[.., 0 .. in]
//   }
//   loss = all_reduce(sum(x) + 100 step + 1000 seed)   over data
//   gradient = x^T . whole                             partial over data
//   first += reduce_scatter(gradient)                  in on data
//   shifted[batch + 1] = x[batch]                      move
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_TESTPLAN_H
#define CLEAVE_TEST_UNIT_RUNTIME_TESTPLAN_H

#include "runtime/format/PlanFile.h"

namespace cleave::test {

inline constexpr int64_t batch = 5, seq = 6, in = 4, out = 7, layers = 3;

struct MeshSize {
  std::string name;
  int64_t data = 1, tensor = 1;
};

/// One plan for each mesh, of the same leaves.
format::PlanSetT makeSet(const std::vector<MeshSize> &meshes);
std::vector<char> testKernels();
/// An open file of a sound set.
std::shared_ptr<const format::PlanFile> fileOf(const format::PlanSetT &set);
std::shared_ptr<const format::PlanFile>
makeFile(const std::vector<MeshSize> &meshes);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_TESTPLAN_H
