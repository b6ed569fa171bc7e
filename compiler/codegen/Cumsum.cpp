//===- Cumsum.cpp - Kernels of running sums -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over all other dims, the last of them by vectors, around one loop along
// the summed dim, which carries the sums. They are f64: the error of a long
// chain of additions in f32 grows with its length.
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Kernel.h"
#include "compiler/codegen/Scalar.h"
#include "compiler/codegen/Writer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

namespace {

class CumsumKernel {
public:
  CumsumKernel(clv::CumsumOp op, KernelLibrary &library)
      : w(library, op->getContext()), b(w.b), op(op), x(add(op.getX())),
        result(add(op.getResult())) {}

  Kernel build();

private:
  Writer w;
  ImplicitLocOpBuilder &b;
  clv::CumsumOp op;
  Memory x, result;
  SmallVector<Extents> outer;
  Extents columns;
  Value size; ///< of the summed dim

  Memory add(Value value) {
    return w.addMemory(value, b.getF32Type(), extentsOf(value));
  }
  void findLoops();
  void sum(ValueRange outerIndices, Value column, Value mask);
};

} // namespace

void CumsumKernel::findLoops() {
  Extents along;
  for (const Extent &extent : x.dims) {
    if (extent.name.getValue() == op.getDim()) {
      along = {extent};
      size = w.sizeOf(extent);
    } else {
      outer.push_back({extent});
    }
  }
  if (!outer.empty()) {
    columns = outer.pop_back_val();
  }
  SmallVector<Extents> all = outer;
  all.push_back(along);
  w.setStrides(x, all, columns);
  w.setStrides(result, all, columns);
}

/// The sums of a vector of columns, or of a single row where `column` is null.
void CumsumKernel::sum(ValueRange outerIndices, Value column, Value mask) {
  Value zero = constantLike(b, b.getF64Type(), 0);
  auto loop = b.create<scf::ForOp>(w.i64(0), size, w.i64(1),
                                   ValueRange{column ? w.splat(zero) : zero});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar();
  if (op.getReverse()) {
    Value last = b.create<arith::SubIOp>(size, w.i64(1));
    at = b.create<arith::SubIOp>(last, at);
  }
  SmallVector<Value> indices(outerIndices);
  indices.push_back(at);
  w.moveTo(x, indices);
  w.moveTo(result, indices);
  Value before = loop.getRegionIterArg(0);
  Value element = column ? w.loadVector(x, column, mask) : w.loadScalar(x);
  Value after = b.create<arith::AddFOp>(
      before, b.create<arith::ExtFOp>(before.getType(), element));
  Value rounded = b.create<arith::TruncFOp>(element.getType(), after);
  if (column) {
    w.storeVector(result, column, mask, rounded);
  } else {
    w.storeScalar(result, rounded);
  }
  b.create<scf::YieldOp>(after);
}

Kernel CumsumKernel::build() {
  w.kernel.inputs = {op.getX()};
  w.kernel.outputs = {op.getResult()};
  if (x.dims == result.dims) {
    w.kernel.inPlace.push_back({0, 0}); // each element is read, then written
  }
  findLoops();
  auto counts = llvm::map_to_vector(
      outer, [&](const Extents &dims) { return w.countOf(dims); });
  w.rows(counts, [&](ValueRange outerIndices) {
    if (columns.empty()) {
      sum(outerIndices, {}, {});
      return;
    }
    w.vectors(w.countOf(columns), {},
              [&](Value column, Value mask, ValueRange) {
                sum(outerIndices, column, mask);
                return SmallVector<Value>();
              });
  });
  return w.finish("cumsum");
}

llvm::Expected<Kernel> codegen::buildCumsum(clv::CumsumOp op,
                                            KernelLibrary &library) {
  return CumsumKernel(op, library).build();
}
