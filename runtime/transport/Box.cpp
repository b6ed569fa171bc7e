//===- Box.cpp - Boxes of global indices ----------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/Box.h"

#include <algorithm>

namespace cleave::transport {

int64_t Box::elements() const {
  int64_t product = 1;
  for (const layout::Piece &piece : dims) {
    product *= std::max<int64_t>(piece.size(), 0);
  }
  return product;
}

Box intersect(const Box &a, const Box &b) {
  Box result = a;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    result.dims[i] = {std::max(a.dims[i].begin, b.dims[i].begin),
                      std::min(a.dims[i].end, b.dims[i].end)};
  }
  return result;
}

std::vector<Box> subtract(const Box &whole, const Box &part) {
  std::vector<Box> rest;
  Box middle = whole;
  for (size_t i = 0; i < whole.dims.size(); ++i) {
    Box before = middle, after = middle;
    before.dims[i].end = part.dims[i].begin;
    after.dims[i].begin = part.dims[i].end;
    for (const Box &side : {before, after}) {
      if (!side.empty()) {
        rest.push_back(side);
      }
    }
    middle.dims[i] = part.dims[i];
  }
  return rest;
}

std::vector<int64_t> stridesOf(const Box &box) {
  std::vector<int64_t> strides(box.dims.size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= box.dims[i].size();
  }
  return strides;
}

int64_t offsetOf(const Box &inner, const Box &outer) {
  std::vector<int64_t> strides = stridesOf(outer);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += (inner.dims[i].begin - outer.dims[i].begin) * strides[i];
  }
  return offset;
}

} // namespace cleave::transport
