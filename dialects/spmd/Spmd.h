//===- Spmd.h - The dialect of partitioned programs -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SPMD_SPMD_H
#define CLEAVE_DIALECTS_SPMD_SPMD_H

#include "dialects/clv/Clv.h"
#include "layout/Layout.h"

namespace cleave::spmd {
class AxisAttr;
class SplitAttr;
} // namespace cleave::spmd

#include "dialects/spmd/SpmdDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/spmd/SpmdAttrs.h.inc"
#include "dialects/spmd/SpmdOpInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/spmd/SpmdOps.h.inc"

namespace cleave::spmd {

MeshAttr toAttr(mlir::MLIRContext *context, const layout::Mesh &mesh);
layout::Mesh fromAttr(MeshAttr mesh);
SplitAttr toAttr(mlir::MLIRContext *context, const layout::Split &split);
layout::Split fromAttr(SplitAttr split);

/// The layout of a local type; a type without encoding is whole.
layout::Layout layoutOf(mlir::Type type);
/// The global sizes of a local type's dims, in its order.
llvm::SmallVector<int64_t> globalSizes(mlir::Type type);

/// The local type of a value with these dims, global sizes and layout. Always
/// has a `LocalAttr`, scalars too.
mlir::RankedTensorType localType(mlir::Type element,
                                 llvm::ArrayRef<llvm::StringRef> dims,
                                 llvm::ArrayRef<int64_t> sizes,
                                 const layout::Layout &layout,
                                 const layout::Mesh &mesh);

} // namespace cleave::spmd

#endif // CLEAVE_DIALECTS_SPMD_SPMD_H
