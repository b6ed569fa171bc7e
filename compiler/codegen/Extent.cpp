//===- Extent.cpp - The dims of local values as code sees them ------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Extent.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

Extents codegen::extentsOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto local = dyn_cast_or_null<spmd::LocalAttr>(tensor.getEncoding());
  Extents extents;
  for (auto [i, name] : llvm::enumerate(clv::dimsOf(type))) {
    Extent extent{StringAttr::get(type.getContext(), name),
                  tensor.getDimSize(i),
                  {},
                  tensor.getDimSize(i)};
    if (local) {
      extent.size = local.getSizes()[i];
      spmd::SplitAttr split = local.getSplits()[i];
      extent.split = split.getAtoms().empty() ? spmd::SplitAttr() : split;
    }
    extents.push_back(extent);
  }
  return extents;
}

bool codegen::isSubset(ArrayRef<Extent> part, ArrayRef<Extent> whole) {
  return llvm::all_of(part,
                      [&](const Extent &dim) { return contains(whole, dim); });
}

Extents codegen::minus(ArrayRef<Extent> a, ArrayRef<Extent> b) {
  Extents rest;
  for (const Extent &dim : a) {
    if (!contains(b, dim)) {
      rest.push_back(dim);
    }
  }
  return rest;
}

int64_t codegen::elementBytes(Type type) {
  Type element = cast<RankedTensorType>(type).getElementType();
  return element.isInteger(1) ? 1 : element.isBF16() ? 2 : 4;
}
