//===- Chunks.cpp - Several chunks of layers on each stage ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Chunks.h"

#include "compiler/partition/Partition.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

namespace {

class ChunkViewer {
public:
  ChunkViewer(pipe::MicroOp micro, const layout::PipelineStatement &pipeline,
              const layout::Mesh &mesh)
      : micro(micro), pipeline(pipeline), mesh(mesh),
        builder(micro.getOperation()) {}

  void run();

private:
  pipe::MicroOp micro;
  const layout::PipelineStatement &pipeline;
  const layout::Mesh &mesh;
  OpBuilder builder;

  layout::Split chunkOf(const layout::Split &whole) const;
  bool isWhole(Type type) const;
  RankedTensorType chunkType(Type type) const;
  void viewRepeat(clv::RepeatOp repeat);
  void viewMove(Operation *op);
  void viewSum(clv::AddOp add);
  void viewStore(pipe::StoreOp store);
  void viewResult(Operation *op, unsigned whole);
};

} // namespace

/// The same pieces, cut over rounds and stages.
layout::Split ChunkViewer::chunkOf(const layout::Split &whole) const {
  layout::Split split = whole;
  split.atoms.insert(split.atoms.begin(), pipeline.chunkAtom);
  int64_t stages = mesh.sizeOf(pipeline.atoms);
  for (auto [i, place] : llvm::enumerate(split.places)) {
    place += static_cast<int64_t>(i) / stages * stages;
  }
  return split;
}

/// Whether a value has all layers of a stage, in several pieces.
bool ChunkViewer::isWhole(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  return !layout.dims.empty() && !layout::isContiguous(layout.dims.front());
}

RankedTensorType ChunkViewer::chunkType(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  layout.dims.front() = chunkOf(layout.dims.front());
  return spmd::localType(cast<RankedTensorType>(type).getElementType(),
                         clv::dimsOf(type), spmd::globalSizes(type), layout,
                         mesh);
}

void ChunkViewer::viewRepeat(clv::RepeatOp repeat) {
  auto split = repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit);
  repeat->setAttr(
      clv::ClvDialect::kSplit,
      spmd::toAttr(repeat.getContext(), chunkOf(spmd::fromAttr(split))));
  builder.setInsertionPoint(repeat);
  unsigned first = repeat.getCarried().size();
  for (unsigned i = 0; i < repeat.getStacked().size(); ++i) {
    Value stack = repeat.getStacked()[i];
    if (isWhole(stack.getType())) {
      repeat->setOperand(
          first + i, builder.create<pipe::ChunkOp>(
                         repeat.getLoc(), chunkType(stack.getType()), stack));
    }
  }
  for (Value stack : repeat.getStackedResults()) {
    stack.setType(chunkType(stack.getType()));
  }
}

/// A stack reduced over devices, or gathered, of the chunk's layers.
void ChunkViewer::viewMove(Operation *op) {
  Value result = op->getResult(0);
  Value stack = op->getOperand(0);
  if (op->hasAttr(kPerMicro) && isWhole(stack.getType())) {
    builder.setInsertionPoint(op);
    op->setOperand(0, builder.create<pipe::ChunkOp>(
                          op->getLoc(), chunkType(stack.getType()), stack));
  }
  if (isWhole(result.getType()) && !isWhole(op->getOperand(0).getType())) {
    result.setType(chunkType(result.getType()));
  }
}

/// Lets `op` read its operand `whole`, and give its result, of the chunk's
/// layers.
void ChunkViewer::viewResult(Operation *op, unsigned whole) {
  builder.setInsertionPoint(op);
  Value operand = op->getOperand(whole), result = op->getResult(0);
  Type type = result.getType();
  op->setOperand(whole,
                 builder.create<pipe::ChunkOp>(
                     op->getLoc(), chunkType(operand.getType()), operand));
  result.setType(cast<RankedTensorType>(chunkType(type)));
  builder.setInsertionPointAfter(op);
  auto merge = builder.create<pipe::MergeOp>(op->getLoc(), type, result);
  result.replaceAllUsesExcept(merge, merge);
}

/// `sum + stack`, of the chunk's layers.
void ChunkViewer::viewSum(clv::AddOp add) {
  if (isWhole(add.getLhs().getType()) && !isWhole(add.getRhs().getType())) {
    viewResult(add, 0);
  }
}

/// A stack stored for a microbatch, likewise.
void ChunkViewer::viewStore(pipe::StoreOp store) {
  if (isWhole(store.getWhole().getType()) &&
      !isWhole(store.getPart().getType())) {
    viewResult(store, 1);
  }
}

void ChunkViewer::run() {
  for (auto section : micro.getBlock()->getOps<pipe::SectionOp>()) {
    for (Operation &op : llvm::make_early_inc_range(*section.getBlock())) {
      auto repeat = dyn_cast<clv::RepeatOp>(op);
      if (repeat && repeat->hasAttr(clv::ClvDialect::kSplit)) {
        viewRepeat(repeat);
      } else if (isa<spmd::CollectiveInterface, spmd::LocalSliceOp>(op) ||
                 op.hasAttr(kPerMicro)) {
        viewMove(&op);
      } else if (auto add = dyn_cast<clv::AddOp>(op)) {
        viewSum(add);
      } else if (auto store = dyn_cast<pipe::StoreOp>(op)) {
        viewStore(store);
      }
    }
    for (auto [result, value] :
         llvm::zip(section.getResults(), section.getYield()->getOperands())) {
      result.setType(value.getType());
    }
  }
}

void pipelining::viewChunks(pipe::MicroOp micro,
                            const layout::PipelineStatement &pipeline,
                            const layout::Mesh &mesh) {
  ChunkViewer(micro, pipeline, mesh).run();
}
