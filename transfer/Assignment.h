//===- Assignment.h - Which device takes which coordinate -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Perfect matchings of n rows with n columns that are best by several aims, one
// after the other. By complementary slackness the optimal matchings of a linear
// assignment problem are exactly the perfect matchings among the pairs whose
// reduced cost is 0 under any optimal dual. So each aim narrows the allowed
// pairs, and the next one chooses among what is left; none is traded for
// another, and no costs of several aims have to fit into one number.
//
// Sums are minimised by the primal-dual method (Kuhn's Hungarian method in
// phases): a largest matching on pairs of reduced cost 0 (Hopcroft and Karp),
// then all duals move by the shortest distance from a free row to a free
// column. Duals start at the least of each row and column, so that the cost of
// structured matrices, where most rows find their column at once, is a few
// phases of n^2. A maximum is minimised by bisection over the costs.
//
// H. W. Kuhn, The Hungarian method for the assignment problem, 1955.
// J. E. Hopcroft, R. M. Karp, An n^(5/2) algorithm for maximum matchings in
// bipartite graphs, 1973.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_ASSIGNMENT_H
#define CLEAVE_TRANSFER_ASSIGNMENT_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cleave::transfer {

/// n x n numbers, row major.
class Costs {
public:
  explicit Costs(size_t n) : n(n), values(n * n, 0) {}

  size_t size() const { return n; }
  int64_t &at(size_t row, size_t column) { return values[row * n + column]; }
  int64_t at(size_t row, size_t column) const {
    return values[row * n + column];
  }

private:
  size_t n;
  std::vector<int64_t> values;
};

class Assignment {
public:
  /// All pairs are allowed.
  explicit Assignment(size_t n);

  /// Keeps the matchings whose costs add up to the least. Sums of n costs must
  /// stay below 2^62.
  void minimiseSum(const Costs &costs);
  /// Keeps the matchings whose largest cost is least.
  void minimiseLargest(const Costs &costs);

  /// The column of each row in one matching that is left.
  const std::vector<int64_t> &columns() const { return columnOf; }

private:
  using Edges = std::vector<std::vector<uint32_t>>; ///< columns, by row

  template <typename Keep> Edges edgesWhere(Keep keep) const;
  void start(const Edges &edges);
  bool findLevels(const Edges &edges);
  bool augment(const Edges &edges, size_t row);
  bool matchAll(const Edges &edges);
  void raiseDuals(const Costs &costs);

  size_t n;
  std::vector<uint8_t> allowed;         ///< row major
  std::vector<int64_t> columnOf, rowOf; ///< -1 = free
  std::vector<int64_t> rowDual, columnDual;
  std::vector<int64_t> level; ///< of rows, in the search of Hopcroft and Karp
  std::vector<size_t> next;   ///< of rows: the edge to try next
};

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_ASSIGNMENT_H
