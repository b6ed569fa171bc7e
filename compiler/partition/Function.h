//===- Function.h - Partitions one function ---------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function is rewritten in place, operation after operation in program order:
// a value's type says where it is, global until its operation is done, local
// after. Partition.cpp walks; Operations.cpp, Sums.cpp, Rolls.cpp, Terms.cpp
// and Repeats.cpp do one kind of operation each; Moves.cpp brings values from
// layout to layout.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_FUNCTION_H
#define CLEAVE_COMPILER_PARTITION_FUNCTION_H

#include "compiler/partition/Decide.h"
#include "compiler/partition/Declare.h"
#include "compiler/partition/Partition.h"
#include "compiler/partition/Record.h"
#include "dialects/spmd/Spmd.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::partitioning {

/// A change of a value's layout that some operation needs.
struct Need {
  mlir::Operation *op = nullptr; ///< moves stand before it
  std::string operation;         ///< what the record calls the operation
  layout::SourcePoint source;    ///< and where that is
  layout::Layout layout;         ///< what it needs
  std::string sentence;          ///< why, the end of the reason
  std::vector<std::string> why;  ///< of the dims of `layout`
  layout::ValueInfo info;        ///< what the record calls the value
  clv::ScopeAttr scope;          ///< of the collectives
  bool shared = true;      ///< one move for all who need it, where it can be
  bool perMicro = false;   ///< of a weight that each microbatch gathers
  bool recomputed = false; ///< only because recomputation repeats something
};

class FunctionPartitioner {
public:
  FunctionPartitioner(mlir::func::FuncOp function, Declarations &declarations,
                      reshard::Cache &cache, const PartitionOptions &options,
                      layout::ProgramRecord &record)
      : function(function), declarations(declarations), cache(cache),
        options(options), mesh(declarations.plan.mesh), record(record),
        builder(function.getContext()) {}

  mlir::LogicalResult run();

private:
  mlir::LogicalResult runArguments();
  void sliceInTime(mlir::BlockArgument argument, const Declared &declared);
  mlir::LogicalResult runBlock(mlir::Block &block);
  mlir::LogicalResult runOperation(mlir::Operation *op);
  mlir::LogicalResult runCompute(mlir::Operation *op);
  mlir::LogicalResult runIdentity(mlir::Operation *op);
  bool crossesPending(clv::EdgeOp edge, const Declared &declared);
  mlir::LogicalResult runWeight(clv::WeightOp op);
  mlir::LogicalResult runRepeat(clv::RepeatOp op);
  mlir::LogicalResult runReturn(mlir::func::ReturnOp op);

  mlir::LogicalResult ask(mlir::Operation *op, const Declared &declared,
                          Query &query);
  std::string sentenceOf(mlir::Operation *op, const Declared &declared,
                         const Origin &origin);
  Notes explain(mlir::Operation *op, const Declared &declared,
                const Query &query, const Decision &decision);
  mlir::LogicalResult runSum(clv::AddOp root);
  mlir::LogicalResult runRoll(spmd::ShiftOp roll);
  mlir::Value rollWhole(spmd::ShiftOp roll);
  void rollSplit(spmd::ShiftOp roll, const Need &need,
                 const layout::Layout &result);
  mlir::Value bringTerms(mlir::Value value, int dim, mlir::Operation *reader);
  void addFreed(mlir::Value value, int dim, Query &query);
  mlir::Value gatherInTime(mlir::Value value, mlir::Operation *reader);
  mlir::Value gatherStages(mlir::Value value, int dim, mlir::Operation *reader);

  mlir::LogicalResult enterRepeat(clv::RepeatOp op);
  bool isAccumulator(clv::RepeatOp op, unsigned carried);
  bool staysPendingAsStack(mlir::Value yielded);
  mlir::LogicalResult enterCarried(clv::RepeatOp op, unsigned carried);
  mlir::LogicalResult startAccumulator(mlir::BlockArgument argument,
                                       mlir::Value added);
  mlir::LogicalResult leaveRepeat(clv::RepeatOp op);
  void castStack(clv::RepeatOp op, unsigned stacked);
  void hoistWeights(clv::RepeatOp op, unsigned stacked);

  bool staysPending(mlir::Value value);
  bool staysWindow(mlir::Value value);
  void settle(mlir::Value value, const Declared &declared);
  void keepInAnyCase(mlir::Value moved);
  mlir::Value move(mlir::Value value, const Need &need);
  mlir::Value emit(mlir::Value value, const reshard::Move &step,
                   const Need &need, const Notes &before);
  void addRecord(mlir::Operation *op, const reshard::Move &step,
                 const Need &need, const Notes &before, llvm::StringRef reason,
                 llvm::StringRef avoid);

  mlir::Type localOf(mlir::Type type, const layout::Layout &layout) {
    return spmd::localType(
        mlir::cast<mlir::RankedTensorType>(type).getElementType(),
        clv::dimsOf(type), spmd::globalSizes(type), layout, mesh);
  }
  reshard::Subject subjectOf(mlir::Value value) {
    llvm::SmallVector<int64_t> sizes = spmd::globalSizes(value.getType());
    return {{sizes.begin(), sizes.end()}, elementBytes(value.getType()), &mesh};
  }
  const Declared *declaredOf(mlir::Value value, mlir::Location loc) {
    return declarations.of(value.getType(), clv::scopeOfValue(value), loc);
  }
  void note(mlir::Value value, const Declared &declared) {
    Notes &entry = notes[value];
    entry.info = declared.info;
    entry.why.clear();
    for (const layout::Choice &choice : declared.resolved.choices) {
      entry.why.push_back(choice.sentence);
    }
    entry.why.resize(declared.info.dims.size());
  }
  clv::Rule ruleOf(mlir::Operation *op) {
    return options.ruleOf ? options.ruleOf(op)
                          : mlir::cast<clv::RuleInterface>(op).getRule();
  }

  mlir::func::FuncOp function;
  bool hasFailed = false; ///< a move is impossible; reported
  Declarations &declarations;
  reshard::Cache &cache;
  const PartitionOptions &options;
  const layout::Mesh &mesh;
  layout::ProgramRecord &record;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, Notes> notes;
  /// Carried sums whose layout waits for what is added.
  llvm::DenseSet<mlir::Value> accumulators;
  llvm::DenseMap<mlir::Value, mlir::Value> castStacks; ///< by stack
  /// Values that were moved already: by value, type and phase.
  llvm::DenseMap<std::pair<mlir::Value, std::pair<mlir::Type, unsigned>>,
                 mlir::Value>
      moved;
  /// The records of collectives that only recomputation needs.
  llvm::DenseMap<mlir::Operation *, size_t> repeatedRecords;
};

/// Writes the sums of two parts of a value that are rolls of it as shifts, of
/// global types and over no atoms yet.
void foldRolls(mlir::Block &block);
/// Whether a value is zero everywhere.
bool isZero(mlir::Value value);
/// A layout without times.
layout::Layout atRest(layout::Layout layout, const layout::Mesh &mesh);
/// What a plan says of each dim.
std::vector<std::string> sentencesOf(const Declared &declared);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_FUNCTION_H
