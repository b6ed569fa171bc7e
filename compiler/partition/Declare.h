//===- Declare.h - What a plan declares of a program's values -*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PARTITION_DECLARE_H
#define CLEAVE_COMPILER_PARTITION_DECLARE_H

#include "compiler/partition/Partition.h"
#include "dialects/clv/Clv.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <memory>

namespace cleave::partitioning {

/// A value as the plan knows it, and what the plan says of it.
struct Declared {
  layout::ValueInfo info;
  layout::Resolved resolved;

  const layout::Layout &layout() const { return resolved.layout; }
};

/// The size in memory of an element.
int64_t elementBytes(mlir::Type type);

/// How often a weight is gathered: once per iteration of the inmost repeat,
/// once per microbatch for each pass, once a step.
enum class GatherLoop : uint8_t { Layer, Micro, Step };

/// Looks up and remembers declared layouts. What it gives lives as long as it.
class Declarations {
public:
  Declarations(const layout::Plan &plan, const PartitionOptions &options,
               std::vector<layout::Resolved> *errors);

  /// Of a value with these dims, by role, path and so on; null after an error,
  /// emitted at `loc`.
  const Declared *of(layout::ValueInfo info, mlir::Location loc);

  /// Of a value of `type` (global or local) in `scope`; with no scope only
  /// scalars have a layout.
  const Declared *of(mlir::Type type, clv::ScopeAttr scope, mlir::Location loc);

  /// Of an argument or result of a function, by the attributes that the front
  /// end and differentiation give it.
  const Declared *ofArgument(mlir::func::FuncOp function, unsigned index);
  /// Null without an error where the result's attributes say nothing.
  const Declared *ofResult(mlir::func::FuncOp function, unsigned index,
                           bool &failed);

  /// By the last `gather` that selects a weight.
  GatherLoop gatherLoopOf(const layout::ValueInfo &weight) const;
  /// Whether the dim is a repeat's.
  bool isRepeated(llvm::StringRef dim) const;

  const layout::Plan &plan;

private:
  std::function<layout::Resolved(const layout::Plan &,
                                 const layout::ValueInfo &)>
      resolve;
  std::vector<layout::Resolved> *errors;
  llvm::StringMap<std::unique_ptr<Declared>> known;
};

/// The dims of a type with their global sizes.
std::vector<layout::NamedDim> namedDims(mlir::Type type);

} // namespace cleave::partitioning

#endif // CLEAVE_COMPILER_PARTITION_DECLARE_H
