//===- Partition.cpp - From a global program to a local one ---------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using clv::RepeatOp;
using layout::Layout;

LogicalResult FunctionPartitioner::runReturn(func::ReturnOp op) {
  for (unsigned i = 0; i < op.getNumOperands(); ++i) {
    Value value = op.getOperand(i);
    bool hasFailed = false;
    const Declared *declared = declarations.ofResult(function, i, hasFailed);
    if (hasFailed) {
      return failure();
    }
    if (!declared && clv::scopeOfValue(value)) {
      declared = declaredOf(value, op.getLoc());
      if (!declared) {
        return failure();
      }
    }
    Need need;
    need.op = op;
    need.operation = nameOf(op);
    need.source = pointOf(op->getLoc());
    need.scope = clv::scopeOfValue(value);
    need.info = declared ? declared->info : notes.lookup(value).info;
    need.sentence = "as a result of the step";
    if (declared) {
      need.layout = declared->layout();
      need.why = sentencesOf(*declared);
      if (need.info.role == layout::Role::Params) {
        need.info.phase = layout::Phase::Update;
        need.sentence = "as the parameter's new value";
      }
    } else {
      need.layout = spmd::layoutOf(value.getType());
      need.layout.partial.clear();
    }
    op->setOperand(i, move(value, need));
  }
  return success();
}

LogicalResult FunctionPartitioner::runOperation(Operation *op) {
  if (hasFailed) {
    return failure();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<clv::EdgeOp, clv::GradientOp>(
          [&](Operation *identity) { return runIdentity(identity); })
      .Case([&](clv::WeightOp weight) { return runWeight(weight); })
      .Case([&](RepeatOp repeat) { return runRepeat(repeat); })
      .Case([&](clv::AddOp sum) { return runSum(sum); })
      .Case([&](spmd::ShiftOp shift) {
        // Of foldRolls; any other is of a program that is partitioned already.
        return shift.getAtoms().empty() ? runRoll(shift) : runCompute(shift);
      })
      .Case([&](func::ReturnOp end) { return runReturn(end); })
      .Case([&](clv::YieldOp) { return success(); })
      .Case([&](spmd::LocalSliceOp) { return success(); }) // an input's
      .Default([&](Operation *other) { return runCompute(other); });
}

LogicalResult FunctionPartitioner::runBlock(Block &block) {
  SmallVector<Operation *> operations;
  for (Operation &op : block) {
    operations.push_back(&op);
  }
  for (Operation *op : operations) {
    if (failed(runOperation(op))) {
      return failure();
    }
  }
  return failure(hasFailed);
}

/// An input is there for all instants; what reads it reads an instant's part.
void FunctionPartitioner::sliceInTime(BlockArgument argument,
                                      const Declared &declared) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(argument.getOwner());
  Need need;
  need.op = &argument.getOwner()->front();
  need.operation = "input";
  need.layout = declared.layout();
  need.info = declared.info;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : argument.getUses()) {
    uses.push_back(&use);
  }
  Value slice = move(argument, need);
  for (OpOperand *use : uses) {
    use->set(slice);
  }
}

Layout partitioning::atRest(Layout layout, const layout::Mesh &mesh) {
  for (layout::Split &split : layout.dims) {
    std::erase_if(split.atoms,
                  [&](layout::AtomId a) { return mesh.isTime(a); });
  }
  return layout;
}

LogicalResult FunctionPartitioner::runArguments() {
  for (BlockArgument argument : function.getArguments()) {
    const Declared *declared =
        declarations.ofArgument(function, argument.getArgNumber());
    if (!declared) {
      return failure();
    }
    bool isLeaf = !clv::dimsOf(argument).empty() &&
                  (declared->info.role == layout::Role::Params ||
                   declared->info.role == layout::Role::Optimizer);
    bool isInput = declared->info.role == layout::Role::Inputs;
    argument.setType(
        localOf(argument.getType(), isInput ? atRest(declared->layout(), mesh)
                                            : declared->layout()));
    note(argument, *declared);
    if (isInput && !argument.use_empty()) {
      sliceInTime(argument, *declared);
    }
    if (!isLeaf) {
      continue;
    }
    auto state = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                       "clv.state");
    record.leaves.push_back({declared->info, state ? state.str() : "",
                             declared->layout(), declared->resolved.choices});
    if (declared->info.role == layout::Role::Params &&
        function.getName() == "train") {
      layout::ValueInfo info = declared->info;
      info.role = layout::Role::Gradients;
      info.phase = layout::Phase::Backward;
      const Declared *gradient = declarations.of(info, function.getLoc());
      if (!gradient) {
        return failure();
      }
      record.leaves.push_back(
          {gradient->info, "", gradient->layout(), gradient->resolved.choices});
    }
  }
  return success();
}

/// A value that nothing reads must not cost a collective.
static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    for (Region &region : op.getRegions()) {
      for (Block &inner : region) {
        eraseUnread(inner);
      }
    }
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

LogicalResult FunctionPartitioner::run() {
  if (!llvm::hasSingleElement(function.getBody())) {
    return function.emitError("must have one block");
  }
  Block &body = function.getBody().front();
  eraseUnread(body);
  foldRolls(body);
  if (failed(runArguments()) || failed(runBlock(body))) {
    return failure();
  }
  SmallVector<Type> results(body.getTerminator()->getOperandTypes());
  function.setFunctionType(FunctionType::get(function.getContext(),
                                             body.getArgumentTypes(), results));
  return success();
}

LogicalResult cleave::partition(ModuleOp module, const layout::Plan &plan,
                                std::vector<layout::ProgramRecord> *records,
                                std::vector<layout::Resolved> *errors,
                                const PartitionOptions &given) {
  PartitionOptions options = given;
  if (!options.resolve) {
    options.resolve = layout::resolve;
  }
  module.getContext()->loadDialect<spmd::SpmdDialect>();
  module->setAttr(spmd::SpmdDialect::kMesh,
                  spmd::toAttr(module.getContext(), plan.mesh));
  Declarations declarations(plan, options, errors);
  reshard::Cache cache;
  bool hasEval = module.lookupSymbol("eval") != nullptr;
  for (auto function : module.getOps<func::FuncOp>()) {
    layout::ProgramRecord record;
    StringRef name = function.getName();
    record.entry = name == "loss" && !hasEval ? "eval" : name.str();
    if (failed(
            FunctionPartitioner(function, declarations, cache, options, record)
                .run())) {
      return failure();
    }
    if (records) {
      records->push_back(std::move(record));
    }
  }
  return verify(module);
}
