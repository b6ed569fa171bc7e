//===- Passes.cpp - Partitioning as a pass, for cleave-opt ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan of the language is more than an option can say. This has what tests of
// the partitioner need: a mesh and shard statements in a few words.
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Partition.h"

#include "dialects/spmd/Spmd.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace cleave;

namespace {

struct PartitionPass : PassWrapper<PartitionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PartitionPass)

  PartitionPass() = default;
  PartitionPass(const PartitionPass &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "spmd-partition"; }
  StringRef getDescription() const final {
    return "split a global program over a mesh";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<spmd::SpmdDialect>();
  }
  void runOnOperation() final;

  ListOption<std::string> mesh{
      *this, "mesh", llvm::cl::desc("axes, major first: data:2,tensor:4")};
  ListOption<std::string> shards{
      *this, "shard",
      llvm::cl::desc("dims on axes, of all values or those of one role: "
                     "batch:data,ff:data*tensor,embed:data@optimizer")};
};

/// A plan as its options are read.
class PlanOptions {
public:
  LogicalResult addAxis(StringRef text);
  LogicalResult addShard(StringRef text);
  void addRepeats(ModuleOp module);

  layout::Plan plan;
};

} // namespace

LogicalResult PlanOptions::addAxis(StringRef text) {
  auto [name, size] = text.split(':');
  layout::Atom atom{name.str(), 0};
  if (name.empty() || size.getAsInteger(10, atom.size) || atom.size < 1) {
    return failure();
  }
  plan.mesh.axes.push_back(
      {name.str(), {static_cast<layout::AtomId>(plan.mesh.atoms.size())}});
  plan.mesh.atoms.push_back(atom);
  return success();
}

LogicalResult PlanOptions::addShard(StringRef text) {
  layout::ShardStatement statement;
  statement.source.text = "shard " + text.str();
  auto [where, roleName] = text.split('@');
  auto [dim, axes] = where.split(':');
  statement.dims = {dim.str()};
  if (!roleName.empty()) {
    std::optional<clv::Role> role = clv::symbolizeRole(roleName);
    if (!role) {
      return failure();
    }
    statement.selection.kind = layout::Selection::Kind::Role;
    statement.selection.role = static_cast<layout::Role>(*role);
  }
  layout::Alternative alternative;
  alternative.text = axes.str();
  SmallVector<StringRef> names;
  axes.split(names, '*', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    const layout::Axis *axis = plan.mesh.findAxis(name.str());
    if (!axis) {
      return failure();
    }
    alternative.atoms.insert(alternative.atoms.end(), axis->atoms.begin(),
                             axis->atoms.end());
  }
  statement.alternatives = {alternative};
  plan.shards.push_back(std::move(statement));
  return success(!dim.empty());
}

void PlanOptions::addRepeats(ModuleOp module) {
  module.walk([&](clv::RepeatOp repeat) {
    layout::DimInfo dim;
    dim.name = repeat.getDim().str();
    dim.repeated = true;
    plan.dims.push_back(dim);
  });
}

void PartitionPass::runOnOperation() {
  PlanOptions options;
  options.plan.name = "options";
  for (const std::string &axis : mesh) {
    if (failed(options.addAxis(axis))) {
      getOperation().emitError("`") << axis << "` is no axis: say `name:size`";
      return signalPassFailure();
    }
  }
  for (const std::string &shard : shards) {
    if (failed(options.addShard(shard))) {
      getOperation().emitError("`")
          << shard
          << "` is no shard statement: say `dim:axis`, with axes of the mesh";
      return signalPassFailure();
    }
  }
  options.addRepeats(getOperation());
  if (failed(partition(getOperation(), options.plan))) {
    signalPassFailure();
  }
}

void cleave::registerPartitionPasses() { PassRegistration<PartitionPass>(); }
