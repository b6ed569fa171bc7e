//===- Extent.h - The dims of local values as code sees them ----*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_CODEGEN_EXTENT_H
#define CLEAVE_COMPILER_CODEGEN_EXTENT_H

#include "dialects/spmd/Spmd.h"
#include "llvm/ADT/DenseMapInfo.h"

namespace cleave::codegen {

/// One dim of a local value: its name, global size and split. Equal extents
/// have equal pieces on every device.
struct Extent {
  mlir::StringAttr name;
  int64_t size = 0;      ///< global
  spmd::SplitAttr split; ///< null = whole
  int64_t largest = 0;   ///< the largest piece

  bool operator==(const Extent &other) const {
    return name == other.name && size == other.size && split == other.split;
  }
};

using Extents = llvm::SmallVector<Extent, 4>;

/// The dims of a local type, or of a global one (all whole).
Extents extentsOf(mlir::Type type);
inline Extents extentsOf(mlir::Value value) {
  return extentsOf(value.getType());
}

inline bool contains(llvm::ArrayRef<Extent> dims, const Extent &dim) {
  return llvm::is_contained(dims, dim);
}
/// Whether every dim of `part` is in `whole`.
bool isSubset(llvm::ArrayRef<Extent> part, llvm::ArrayRef<Extent> whole);
/// The dims of `a` that `b` lacks, in order.
Extents minus(llvm::ArrayRef<Extent> a, llvm::ArrayRef<Extent> b);
/// Bytes of one element in memory: 4, or 1 for a boolean.
int64_t elementBytes(mlir::Type type);

} // namespace cleave::codegen

template <> struct llvm::DenseMapInfo<cleave::codegen::Extent> {
  using Extent = cleave::codegen::Extent;
  using Name = DenseMapInfo<mlir::StringAttr>;
  static Extent getEmptyKey() { return {Name::getEmptyKey(), 0, {}, 0}; }
  static Extent getTombstoneKey() {
    return {Name::getTombstoneKey(), 0, {}, 0};
  }
  static unsigned getHashValue(const Extent &extent) {
    return llvm::hash_combine(Name::getHashValue(extent.name), extent.size,
                              mlir::hash_value(extent.split));
  }
  static bool isEqual(const Extent &a, const Extent &b) { return a == b; }
};

#endif // CLEAVE_COMPILER_CODEGEN_EXTENT_H
