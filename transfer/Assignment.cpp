//===- Assignment.cpp - Which device takes which coordinate ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Assignment.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace cleave::transfer {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

Assignment::Assignment(size_t n)
    : n(n), allowed(n * n, 1), columnOf(n), rowOf(n), rowDual(n), columnDual(n),
      level(n), next(n) {
  for (size_t i = 0; i < n; ++i) {
    columnOf[i] = rowOf[i] = static_cast<int64_t>(i);
  }
}

template <typename Keep>
Assignment::Edges Assignment::edgesWhere(Keep keep) const {
  Edges edges(n);
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      if (allowed[row * n + column] && keep(row, column)) {
        edges[row].push_back(static_cast<uint32_t>(column));
      }
    }
  }
  return edges;
}

/// Keeps the pairs of the matching that are edges, and adds edges that fit, a
/// row's own number first.
void Assignment::start(const Edges &edges) {
  for (size_t row = 0; row < n; ++row) {
    const std::vector<uint32_t> &to = edges[row];
    if (columnOf[row] >= 0 &&
        !std::binary_search(to.begin(), to.end(), columnOf[row])) {
      rowOf[columnOf[row]] = -1;
      columnOf[row] = -1;
    }
  }
  for (size_t row = 0; row < n; ++row) {
    if (columnOf[row] < 0 && rowOf[row] < 0 &&
        std::binary_search(edges[row].begin(), edges[row].end(), row)) {
      columnOf[row] = rowOf[row] = static_cast<int64_t>(row);
    }
  }
}

/// Distances of rows from the free ones along alternating paths. Whether a
/// free column is in reach.
bool Assignment::findLevels(const Edges &edges) {
  std::vector<size_t> queue;
  std::fill(level.begin(), level.end(), -1);
  for (size_t row = 0; row < n; ++row) {
    if (columnOf[row] < 0) {
      level[row] = 0;
      queue.push_back(row);
    }
  }
  bool found = false;
  for (size_t at = 0; at < queue.size(); ++at) {
    for (uint32_t column : edges[queue[at]]) {
      int64_t row = rowOf[column];
      if (row < 0) {
        found = true;
      } else if (level[row] < 0) {
        level[row] = level[queue[at]] + 1;
        queue.push_back(row);
      }
    }
  }
  return found;
}

/// Matches a free row along a path of rising levels. Walks with a stack of its
/// own: a path may be as long as there are rows.
bool Assignment::augment(const Edges &edges, size_t row) {
  std::vector<size_t> path{row};
  while (!path.empty()) {
    size_t last = path.back();
    if (next[last] == edges[last].size()) {
      path.pop_back();
      if (!path.empty()) {
        ++next[path.back()];
      }
      continue;
    }
    uint32_t column = edges[last][next[last]];
    int64_t owner = rowOf[column];
    if (owner >= 0 && level[owner] == level[last] + 1) {
      path.push_back(owner);
      continue;
    }
    if (owner >= 0) {
      ++next[last];
      continue;
    }
    for (size_t step : path) { // each row takes the column it stopped at
      column = edges[step][next[step]];
      columnOf[step] = column;
      rowOf[column] = static_cast<int64_t>(step);
      level[step] = -1; // paths of one search share no row
    }
    return true;
  }
  return false;
}

/// A largest matching on `edges` from the one there is. Whether it is perfect.
bool Assignment::matchAll(const Edges &edges) {
  start(edges);
  while (findLevels(edges)) {
    std::fill(next.begin(), next.end(), 0);
    for (size_t row = 0; row < n; ++row) {
      if (columnOf[row] < 0 && level[row] == 0) {
        augment(edges, row);
      }
    }
  }
  return std::find(columnOf.begin(), columnOf.end(), -1) == columnOf.end();
}

/// Moves the duals so that the nearest free columns come in reach of the free
/// rows along pairs of reduced cost 0, and no reduced cost falls below 0.
void Assignment::raiseDuals(const Costs &costs) {
  std::vector<int64_t> rowDistance(n, never), distance(n, never);
  std::vector<bool> done(n, false);
  auto scan = [&](size_t row) {
    for (size_t column = 0; column < n; ++column) {
      if (allowed[row * n + column] && !done[column]) {
        distance[column] = std::min(distance[column],
                                    rowDistance[row] + costs.at(row, column) -
                                        rowDual[row] - columnDual[column]);
      }
    }
  };
  for (size_t row = 0; row < n; ++row) {
    if (columnOf[row] < 0) {
      rowDistance[row] = 0;
      scan(row);
    }
  }
  int64_t reach = never;
  while (reach == never) {
    size_t nearest = n;
    for (size_t column = 0; column < n; ++column) {
      if (!done[column] && distance[column] != never &&
          (nearest == n || distance[column] < distance[nearest])) {
        nearest = column;
      }
    }
    assert(nearest < n && "the allowed pairs have no perfect matching");
    done[nearest] = true;
    if (rowOf[nearest] < 0) {
      reach = distance[nearest];
      continue;
    }
    rowDistance[rowOf[nearest]] = distance[nearest];
    scan(rowOf[nearest]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (rowDistance[i] < reach) {
      rowDual[i] += reach - rowDistance[i];
    }
    if (done[i] && distance[i] < reach) {
      columnDual[i] -= reach - distance[i];
    }
  }
}

void Assignment::minimiseSum(const Costs &costs) {
  for (size_t row = 0; row < n; ++row) {
    rowDual[row] = never;
    for (size_t column = 0; column < n; ++column) {
      if (allowed[row * n + column]) {
        rowDual[row] = std::min(rowDual[row], costs.at(row, column));
      }
    }
  }
  std::fill(columnDual.begin(), columnDual.end(), never);
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      if (allowed[row * n + column]) {
        columnDual[column] =
            std::min(columnDual[column], costs.at(row, column) - rowDual[row]);
      }
    }
  }
  auto isTight = [&](size_t row, size_t column) {
    return costs.at(row, column) == rowDual[row] + columnDual[column];
  };
  while (!matchAll(edgesWhere(isTight))) {
    raiseDuals(costs);
  }
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      allowed[row * n + column] &= isTight(row, column);
    }
  }
}

void Assignment::minimiseLargest(const Costs &costs) {
  std::vector<int64_t> values;
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      if (allowed[row * n + column]) {
        values.push_back(costs.at(row, column));
      }
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  auto isAtMost = [&](int64_t limit) {
    return [&costs, limit](size_t row, size_t column) {
      return costs.at(row, column) <= limit;
    };
  };
  size_t low = 0, high = values.empty() ? 0 : values.size() - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (matchAll(edgesWhere(isAtMost(values[middle])))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (values.empty()) {
    return;
  }
  matchAll(edgesWhere(isAtMost(values[high])));
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      allowed[row * n + column] &= costs.at(row, column) <= values[high];
    }
  }
}

} // namespace cleave::transfer
