//===- Gather.cpp - Kernels of lookup and its gradient --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over the dims of the ids, in their order, around loops over the other
// dims of the table; the last of these is a vector loop. An id that is not of
// this device's piece of the table gives a row of zeros, or adds nothing.
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

/// Both kernels: `table` and `rows` (the looked-up or added rows) share the
/// dims that ids lack.
class GatherKernel {
public:
  GatherKernel(KernelLibrary &library, MLIRContext *context, Value ids,
               StringRef dim)
      : w(library, context), b(w.b), idsValue(ids), dim(dim) {}

  Kernel lookup(Value table, Value result);
  Kernel scatterAdd(Value updates, Value result);

private:
  Writer w;
  ImplicitLocOpBuilder &b;
  Value idsValue;
  StringRef dim;

  Extent tableDim;
  Value tableStride; ///< of one row of the table
  SmallVector<Extents> outer, inner;
  Extents columns;
  Value id, inRange; ///< of the current row: local id

  Memory add(Value value) {
    return w.addMemory(value,
                       cast<RankedTensorType>(value.getType()).getElementType(),
                       extentsOf(value));
  }
  void findLoops(const Memory &table);
  void setStrides(Memory &memory);
  void readId(Memory &ids, ValueRange indices);
  SmallVector<Value> counts(ArrayRef<Extents> loops) {
    return llvm::map_to_vector(
        loops, [&](const Extents &dims) { return w.countOf(dims); });
  }
};

} // namespace

void GatherKernel::findLoops(const Memory &table) {
  for (const Extent &extent : extentsOf(idsValue)) {
    outer.push_back({extent});
  }
  for (auto [i, extent] : llvm::enumerate(table.dims)) {
    if (extent.name.getValue() == dim) {
      tableDim = extent;
      tableStride = w.countOf(ArrayRef<Extent>(table.dims).drop_front(i + 1));
    } else {
      inner.push_back({extent});
    }
  }
  if (!inner.empty()) {
    columns = inner.pop_back_val();
  }
}

void GatherKernel::setStrides(Memory &memory) {
  SmallVector<Extents> all = outer;
  llvm::append_range(all, inner);
  w.setStrides(memory, all, columns);
}

void GatherKernel::readId(Memory &ids, ValueRange indices) {
  w.moveTo(ids, indices);
  Value global = b.create<arith::ExtSIOp>(b.getI64Type(), w.loadScalar(ids));
  id = b.create<arith::SubIOp>(global, w.beginOf(tableDim));
  inRange = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, id,
                                    w.sizeOf(tableDim));
}

Kernel GatherKernel::lookup(Value tableValue, Value resultValue) {
  Memory table = add(tableValue), ids = add(idsValue),
         result = add(resultValue);
  w.kernel.inputs = {tableValue, idsValue};
  w.kernel.outputs = {resultValue};
  findLoops(table);
  for (Memory *memory : {&table, &ids, &result}) {
    setStrides(*memory);
  }
  w.rows(counts(outer), [&](ValueRange outerIndices) {
    readId(ids, outerIndices);
    // An id out of range reads row 0 of nothing: its lanes are all masked.
    Value row = b.create<arith::SelectOp>(inRange, id, w.i64(0));
    w.rows(counts(inner), [&](ValueRange innerIndices) {
      SmallVector<Value> indices(outerIndices);
      llvm::append_range(indices, innerIndices);
      w.moveTo(table, indices, w.mul(row, tableStride));
      w.moveTo(result, indices);
      auto branch = b.create<scf::IfOp>(inRange, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      for (bool found : {true, false}) {
        Block *block = found ? branch.thenBlock() : branch.elseBlock();
        b.setInsertionPoint(block->getTerminator());
        if (columns.empty()) {
          w.storeScalar(result, found ? w.loadScalar(table)
                                      : constantLike(b, table.element, 0));
          continue;
        }
        w.vectors(
            w.countOf(columns), {}, [&](Value index, Value mask, ValueRange) {
              Value x = found ? w.loadVector(table, index, mask)
                              : w.splat(constantLike(b, table.element, 0));
              w.storeVector(result, index, mask, x);
              return SmallVector<Value>();
            });
      }
    });
  });
  return w.finish("lookup");
}

Kernel GatherKernel::scatterAdd(Value updatesValue, Value resultValue) {
  Memory updates = add(updatesValue), ids = add(idsValue),
         result = add(resultValue);
  w.kernel.inputs = {updatesValue, idsValue};
  w.kernel.outputs = {resultValue};
  findLoops(result);
  for (Memory *memory : {&updates, &ids, &result}) {
    setStrides(*memory);
  }
  w.fill(result, constantLike(b, result.element, 0));
  w.rows(counts(outer), [&](ValueRange outerIndices) {
    readId(ids, outerIndices);
    auto branch = b.create<scf::IfOp>(inRange, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    w.rows(counts(inner), [&](ValueRange innerIndices) {
      SmallVector<Value> indices(outerIndices);
      llvm::append_range(indices, innerIndices);
      w.moveTo(updates, indices);
      w.moveTo(result, indices, w.mul(id, tableStride));
      if (columns.empty()) {
        w.storeScalar(result, b.create<arith::AddFOp>(w.loadScalar(result),
                                                      w.loadScalar(updates)));
        return;
      }
      w.vectors(
          w.countOf(columns), {}, [&](Value index, Value mask, ValueRange) {
            Value sum =
                b.create<arith::AddFOp>(w.loadVector(result, index, mask),
                                        w.loadVector(updates, index, mask));
            w.storeVector(result, index, mask, sum);
            return SmallVector<Value>();
          });
    });
  });
  return w.finish("scatter_add");
}

llvm::Expected<Kernel> codegen::buildLookup(clv::LookupOp op,
                                            KernelLibrary &library) {
  return GatherKernel(library, op->getContext(), op.getIds(), op.getDim())
      .lookup(op.getTable(), op.getResult());
}

llvm::Expected<Kernel> codegen::buildScatterAdd(clv::ScatterAddOp op,
                                                KernelLibrary &library) {
  return GatherKernel(library, op->getContext(), op.getIds(), op.getDim())
      .scatterAdd(op.getUpdates(), op.getResult());
}
