//===- Area.cpp - Sets of elements that are products of intervals ---------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Area.h"

#include <algorithm>

namespace cleave::transfer {

using layout::Piece;

int64_t sizeOf(const Intervals &intervals) {
  int64_t size = 0;
  for (const Piece &piece : intervals) {
    size += piece.size();
  }
  return size;
}

Intervals intersect(const Intervals &a, const Intervals &b) {
  Intervals result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    Piece both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) {
      result.push_back(both);
    }
    (a[i].end < b[j].end ? i : j)++;
  }
  return result;
}

int64_t elementsOf(const Box &box) {
  int64_t product = 1;
  for (const Piece &piece : box) {
    product *= piece.size();
  }
  return product;
}

int64_t Area::elements() const {
  int64_t product = 1;
  for (const Intervals &intervals : dims) {
    product *= sizeOf(intervals);
  }
  return product;
}

Area intersect(const Area &a, const Area &b) {
  Area result;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    result.dims.push_back(intersect(a.dims[i], b.dims[i]));
  }
  return result;
}

namespace {

/// Cuts a row-major range of one box into boxes.
struct RangeCutter {
  std::vector<Box> &result;
  Box box; ///< dims before the current one have their part of the result

  void add(size_t dim, Piece rows) {
    Box part = box;
    part[dim] = rows;
    result.push_back(std::move(part));
  }

  /// [begin, end) counts the elements of the dims from `dim` on. As deep as
  /// the tensor has dims.
  void cut(size_t dim, int64_t begin, int64_t end) {
    if (begin >= end) {
      return;
    }
    if (dim == box.size()) {
      result.push_back(box);
      return;
    }
    int64_t row = 1; // elements of one index of this dim
    for (size_t i = dim + 1; i < box.size(); ++i) {
      row *= box[i].size();
    }
    Piece whole = box[dim];
    int64_t first = begin / row, last = end / row;
    if (begin % row != 0) {
      box[dim] = {whole.begin + first, whole.begin + first + 1};
      cut(dim + 1, begin % row, first == last ? end % row : row);
      box[dim] = whole;
      if (first == last) {
        return;
      }
      ++first;
    }
    if (first < last) {
      add(dim, {whole.begin + first, whole.begin + last});
    }
    if (end % row != 0) {
      box[dim] = {whole.begin + last, whole.begin + last + 1};
      cut(dim + 1, 0, end % row);
      box[dim] = whole;
    }
  }
};

} // namespace

std::vector<Box> boxesOf(const Area &area, int64_t begin, int64_t end) {
  std::vector<Box> result;
  if (area.elements() == 0) {
    return result;
  }
  std::vector<size_t> at(area.dims.size(), 0); // which interval of each dim
  int64_t before = 0;
  while (before < end) {
    Box box;
    for (size_t i = 0; i < at.size(); ++i) {
      box.push_back(area.dims[i][at[i]]);
    }
    int64_t elements = elementsOf(box);
    RangeCutter{result, box}.cut(0, std::max<int64_t>(begin - before, 0),
                                 std::min(end - before, elements));
    before += elements;
    size_t dim = at.size();
    while (dim > 0 && ++at[dim - 1] == area.dims[dim - 1].size()) {
      at[--dim] = 0;
    }
    if (dim == 0) {
      break;
    }
  }
  return result;
}

std::vector<Box> boxesOf(const Area &area) {
  return boxesOf(area, 0, area.elements());
}

} // namespace cleave::transfer
