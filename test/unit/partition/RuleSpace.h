//===- RuleSpace.h - All layouts on a mesh, and moves between them *- C++
//-*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything about a small mesh that no operation changes: the layouts of a
// value, by number, and whether the moves that resharding finds from one to
// another are right.
//
// A move does not look at numbers: it takes elements from where they are, and
// adds pending terms (or takes their maximum). So it is tried once, on numbers
// that are all different and of mixed sign, and is then right for every value
// of those sizes: what it makes must, reduced over the atoms that are still
// pending, be the value.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_RULESPACE_H
#define CLEAVE_TEST_UNIT_PARTITION_RULESPACE_H

#include "compiler/partition/Simulate.h"
#include "compiler/reshard/Reshard.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace cleave::test {

/// The ways in which a split may cut a dim.
enum class Cut {
  Rule,   ///< by the split rule
  Unit,   ///< in multiples of two
  Cuts,   ///< explicitly, short pieces first
  Places, ///< explicitly, long pieces first, placed in reverse
};

layout::Mesh meshOf(const std::vector<int64_t> &atoms);

/// Every layout of a value on a mesh: each atom nowhere, on a dim (in every
/// order), or pending where it may; each dim that is split cut in each way.
std::vector<layout::Layout> layoutsOf(const std::vector<int64_t> &sizes,
                                      const layout::Mesh &mesh, bool mayPend,
                                      const std::vector<Cut> &ways);

/// Whether pieces, reduced over what is pending, are those of a value. What is
/// wrong, or nothing.
/// The layout of each tensor, the result last, in the i-th try of a sample. By
/// turns: any layouts; with one operand alone pending; with all pending over
/// the same atoms.
std::vector<size_t>
sampleOf(size_t i, const std::vector<std::vector<layout::Layout>> &choices);

std::string compare(const partitioning::Pieces &pieces,
                    const partitioning::Placed &placed,
                    const reference::Tensor &wanted, const layout::Mesh &mesh);

/// Pieces of which the terms of what is pending reduce to the value.
partitioning::Pieces pendingPieces(const reference::Tensor &value,
                                   const partitioning::Placed &placed,
                                   const layout::Mesh &mesh, unsigned seed);

/// Values of one shape on one mesh.
class Shape {
public:
  Shape(const layout::Mesh &mesh, reshard::Cache &cache,
        std::vector<int64_t> sizes, int64_t elementBytes);

  int numberOf(const layout::Layout &layout);
  const layout::Layout &layout(int number) const { return layouts[number]; }
  partitioning::Placed placed(int number) const {
    return {sizes, layouts[number]};
  }
  /// What is wrong with the moves between two layouts, or nothing.
  const std::string &checkMoves(int from, int to);

  const reshard::Subject subject;

private:
  std::string tryMoves(const layout::Layout &from, const layout::Layout &to);

  const layout::Mesh &mesh;
  reshard::Cache &cache;
  std::vector<int64_t> sizes;
  std::vector<layout::Layout> layouts;
  std::unordered_map<std::string, int> numbers;
  std::unordered_map<uint64_t, std::string> moves;
};

/// A mesh, and what is known of it. One of each mesh for the whole program.
struct Space {
  layout::Mesh mesh;
  std::vector<Cut> ways; ///< in which dims are cut on it
  reshard::Cache cache;
  std::map<std::pair<std::vector<int64_t>, int64_t>, std::unique_ptr<Shape>>
      shapes;

  Shape &shape(const std::vector<int64_t> &sizes, int64_t elementBytes);
};

/// Meshes of one atom and of two, of 2 to 6 devices. Dims are cut in every way
/// on one atom, where two operands may have different explicit cuts of one dim;
/// on two atoms by the rule, by units and by explicit cuts. Places have no case
/// of their own there: splits with cuts or places are compared as wholes and
/// taken apart by nothing.
std::vector<std::unique_ptr<Space>> &everySpace();

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_RULESPACE_H
