// Nodes of the region tree: where operations go, and how values cross.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;

static std::string join(const std::string &path, const std::string &step) {
  return path.empty() ? step : path + "/" + step;
}

RegionNode &Elaborator::addNode(RegionNode &parent, const std::string &step) {
  RegionNode &child = nodes.emplace_back();
  child.parent = &parent;
  child.path = join(parent.path, step);
  child.paramPath = join(parent.paramPath, step);
  child.block = parent.block;
  return child;
}

mlir::Location Elaborator::location(SourceRange range) {
  if (!range.isValid()) {
    return mlir::UnknownLoc::get(&context);
  }
  const SourceManager &sources = diags.sourceManager();
  LineColumn place = sources.lineColumn(range.file, range.begin);
  return mlir::FileLineColLoc::get(&context, sources.file(range.file).name,
                                   place.line, place.column);
}

clv::ScopeAttr Elaborator::scopeOf(const RegionNode &where) {
  bool update = !updatePath.empty();
  return clv::ScopeAttr::get(
      &context, update ? clv::Role::Optimizer : clv::Role::Activations,
      update ? clv::Phase::Update : clv::Phase::Forward,
      update ? updatePath : where.path, mlir::StringAttr(), mlir::StringAttr());
}

clv::Build Elaborator::atEndOf(RegionNode &where, SourceRange range) {
  builder.setInsertionPointToEnd(where.block);
  return clv::Build(builder, location(range), scopeOf(where));
}

clv::Build Elaborator::at(SourceRange range) { return atEndOf(*node, range); }

/// One step between neighbours of the tree; `inner` is the lower one.
static Tensor cross(Tensor value, RegionNode &to, const RegionNode &inner,
                    clv::Build build, const std::string &label) {
  Tensor &cached = to.edges[value];
  if (!cached) {
    if (!label.empty()) {
      build.scope = clv::ScopeAttr::get(
          build.scope.getContext(), build.scope.getRole(),
          build.scope.getPhase(), build.scope.getPath(),
          mlir::StringAttr::get(build.scope.getContext(), label),
          mlir::StringAttr());
    }
    cached = build.edge(value, inner.path);
  }
  return cached;
}

Tensor Elaborator::bring(Tensor value, RegionNode &from, RegionNode &to,
                         const std::string &label, SourceRange range) {
  // A scalar has no layout to change, and an update has no regions.
  if (&from == &to || !updatePath.empty() || clv::dimsOf(value).empty()) {
    return value;
  }
  // Up to the nearest node that holds both, then down.
  llvm::SmallVector<RegionNode *> down;
  llvm::SmallVector<RegionNode *> above;
  for (RegionNode *n = &from; n; n = n->parent) {
    above.push_back(n);
  }
  RegionNode *meet = &to;
  for (; !llvm::is_contained(above, meet); meet = meet->parent) {
    down.push_back(meet);
  }
  for (RegionNode *n = &from; n != meet; n = n->parent) {
    if (!n->isRepeat) {
      value = cross(value, *n->parent, *n, atEndOf(*n->parent, range), "");
    }
  }
  for (RegionNode *n : llvm::reverse(down)) {
    if (!n->isRepeat) {
      value = cross(value, *n, *n, atEndOf(*n, range), label);
    }
  }
  return value;
}

Val Elaborator::bring(const Val &value, RegionNode &from, RegionNode &to,
                      const std::string &label, SourceRange range) {
  Val result = value;
  if (value.isTensor()) {
    result.tensor = bring(value.tensor, from, to, label, range);
  }
  for (auto &[part, tensor] : result.parts) {
    tensor = bring(tensor, from, to, label, range);
  }
  for (Val &item : result.items) {
    item = bring(item, from, to, label, range);
  }
  return result;
}

Tensor Elaborator::weight(Tensor value, const std::string &path, RegionNode &to,
                          SourceRange range) {
  Tensor &cached = to.weights[value];
  if (!cached) {
    clv::Build build = atEndOf(to, range);
    build.scope = clv::ScopeAttr::get(
        &context, clv::Role::Weights, clv::Phase::Forward, path,
        mlir::StringAttr(), builder.getStringAttr(to.path));
    cached = build.weight(value);
  }
  return cached;
}

/// `value` with exactly the dims of `type`, in its order. The caller has
/// checked that `value` has no others.
Tensor Elaborator::conform(Tensor value, mlir::RankedTensorType type,
                           SourceRange range) {
  return at(range).broadcast(value, type);
}
