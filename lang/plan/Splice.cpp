#include "lang/plan/Splice.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::ast;

namespace cleave::plan {

using layout::Selection;
using Kind = layout::Selection::Kind;

// Plans that use plans nest at most this deep.
static constexpr size_t mostOpen = 64;

static Selection intersect(Selection inner, const Selection &outer) {
  if (outer.kind == Kind::All) {
    return inner;
  }
  if (inner.kind == Kind::All) {
    return outer;
  }
  Selection result;
  result.kind = Kind::In;
  result.children = {std::move(inner), outer};
  return result;
}

std::shared_ptr<Scope> Splicer::newScope(bool spliced) const {
  auto scope = std::make_shared<Scope>();
  scope->root = root;
  scope->environment.parent = root ? &root->environment : nullptr;
  scope->spliced = spliced;
  return scope;
}

std::optional<Selection>
Splicer::selectionOf(const std::optional<ast::Selection> &written,
                     const Scope &scope, const Stack &around) {
  Selection result;
  if (written) {
    std::optional<Selection> own = names.selection(*written, scope);
    if (!own) {
      return std::nullopt;
    }
    result = std::move(*own);
  }
  for (const Selection &outer : around) {
    result = intersect(std::move(result), outer);
  }
  return result;
}

static bool encloses(const SourceRange &outer, const SourceRange &inner) {
  return outer.file == inner.file && outer.begin <= inner.begin &&
         inner.end <= outer.end;
}

const Decl *Splicer::findUsed(const DottedName &name, bool &isLater) const {
  const std::string &wanted = name.parts.back().text;
  const Decl *found = nullptr, *itself = nullptr;
  for (const std::unique_ptr<File> &file : files) {
    for (const std::unique_ptr<Decl> &decl : file->decls) {
      if (decl->name.text != wanted) {
        continue;
      }
      isLater |= decl->kind == DeclKind::Algorithm;
      if (decl->kind == DeclKind::Strategy || decl->kind == DeclKind::Plan) {
        // The file that says `use` goes first, then the last that it uses. A
        // plan may have the name of a strategy that it uses.
        if (encloses(decl->range, name.range)) {
          itself = decl.get();
        } else if (!found || decl->range.file == name.range.file ||
                   found->range.file != name.range.file) {
          found = decl.get();
        }
      }
    }
  }
  return found ? found : itself;
}

//===----------------------------------------------------------------------===//
// The mesh: found before anything else is read
//===----------------------------------------------------------------------===//

void Splicer::findMesh(const Block &block, const std::shared_ptr<Scope> &scope,
                       DiagnosticEngine &scratch, unsigned depth) {
  for (const StmtPtr &stmt : block.stmts) {
    if (auto *found = dynCast<MeshStmt>(stmt)) {
      mesh = {found, scope};
      seenMeshes.insert(found);
    } else if (auto *view = dynCast<ViewStmt>(stmt)) {
      views.push_back({view, scope});
      seenMeshes.insert(view);
    } else if (auto *let = dynCast<LetStmt>(stmt)) {
      visitLet(*let, *scope, scratch);
    } else if (auto *branch = dynCast<IfStmt>(stmt)) {
      std::optional<bool> taken = sema::evaluateBool(
          *branch->condition, scope->environment, scratch, "the condition");
      if (taken && *taken) {
        findMesh(branch->thenBlock, scope, scratch, depth);
      } else if (taken && branch->elseBlock) {
        findMesh(*branch->elseBlock, scope, scratch, depth);
      }
    } else if (auto *use = dynCast<UseStmt>(stmt)) {
      bool later = false;
      auto *plan = dynCast<PlanDecl>(findUsed(use->call->callee, later));
      if (!plan || depth == mostOpen) {
        continue;
      }
      std::shared_ptr<Scope> inner = newScope(true);
      if (bind(plan->params, use->call->args, use->range, "", nullptr, *scope,
               *inner, scratch)) {
        findMesh(plan->body, inner, scratch, depth + 1);
      } else {
        unbound = {use, plan, scope};
      }
    }
  }
}

void Splicer::visitLet(const LetStmt &stmt, Scope &scope,
                       DiagnosticEngine &to) {
  for (size_t i = 0; i < stmt.names.size() && i < stmt.values.size(); ++i) {
    const Name &name = stmt.names[i];
    if (scope.environment.values.count(name.text)) {
      to.error(Diag::DuplicateName, name.range,
               "`" + name.text + "` is already declared here");
      continue;
    }
    if (std::optional<sema::Value> value =
            sema::evaluate(*stmt.values[i], scope.environment, to)) {
      scope.environment.values[name.text] = std::move(*value);
    }
  }
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

bool Splicer::refuseLater(const Stmt &stmt) {
  auto refuse = [&](Diag kind, const std::string &message,
                    const std::string &help) {
    diags.error(kind, stmt.keyword, message).help(help);
    return true;
  };
  switch (stmt.kind) {
  case StmtKind::Tune: {
    bool lossy = static_cast<const TuneStmt &>(stmt).lossy;
    return refuse(Diag::LaterTune,
                  lossy ? "`lossy tune` is not built yet"
                        : "`tune` is not built yet",
                  "leave it out: it would not change results");
  }
  default:
    return false;
  }
}

void Splicer::visitShard(const ShardStmt &stmt,
                         const std::shared_ptr<Scope> &scope,
                         const Stack &around) {
  OpenShard base;
  layout::ShardStatement &shard = base.statement;
  shard.largest = stmt.largest;
  shard.also = stmt.also;
  shard.even = stmt.even;
  shard.yields = stmt.alternatives.size() > 1;
  shard.fromStrategy = scope->spliced;
  shard.source = sourcePoint(stmt.range, diags.sourceManager());
  bool ok = true;
  if (stmt.dealt || stmt.folded) {
    diags
        .error(Diag::LaterDeal, stmt.keyword,
               std::string("`") + (stmt.folded ? "folded" : "dealt") +
                   "` is not built yet")
        .help("leave it out: every coordinate then holds one contiguous piece");
    ok = false;
  }
  std::vector<std::vector<std::string>> dims;
  for (const Ref &ref : stmt.dims) {
    auto named = names.dims(ref, *scope);
    ok &= named.has_value();
    if (named) {
      dims.insert(dims.end(), named->begin(), named->end());
    }
  }
  int64_t largestProduct = 1;
  for (const AxisExpr &written : stmt.alternatives) {
    shard.yields |= std::any_of(written.factors.begin(), written.factors.end(),
                                [](const Ref &ref) { return ref.optional; });
    std::optional<AxisProduct> product = names.axis(written, *scope);
    ok &= product.has_value();
    if (product) {
      largestProduct = std::max(largestProduct, product->size());
      base.alternatives.push_back(std::move(*product));
    }
  }
  std::optional<Selection> selection =
      selectionOf(stmt.selection, *scope, around);
  if (!ok || !selection) {
    return;
  }
  shard.selection = std::move(*selection);
  if (stmt.largest) {
    shards.push_back(std::move(base));
    return;
  }
  // One statement for each dim: a product's factors stay together.
  for (std::vector<std::string> &leaves : dims) {
    const layout::DimInfo *info = names.findDim(leaves[0]);
    if (info && info->repeated && largestProduct > 1) {
      diags
          .error(Diag::LaterRepeatSplit, stmt.dimsRange,
                 "splitting the repeated dim `" + info->name +
                     "` is not built yet")
          .help("shard another dim of what the layers hold");
      continue;
    }
    shards.push_back(base);
    shards.back().statement.dims = std::move(leaves);
  }
}

void Splicer::visitGather(const PerStmt &stmt,
                          const std::shared_ptr<Scope> &scope,
                          const Stack &around) {
  const std::string &loop = stmt.loop.text;
  const layout::DimInfo *dim = names.findDim(loop);
  if (loop == "chunk") {
    diags
        .error(Diag::LaterPipeline, stmt.loop.range,
               "`gather … per chunk` is not built yet")
        .help("gather per iteration of a repeat, per micro, or per step");
    return;
  }
  if (loop != "step" && loop != "micro" && !(dim && dim->repeated)) {
    std::vector<std::string> known{"micro", "step"};
    for (const layout::DimInfo &each : facts.dims) {
      if (each.repeated) {
        known.push_back(each.name);
      }
    }
    diags
        .error(Diag::BadLoop, stmt.loop.range,
               "`" + loop + "` is neither a repeat of `" + facts.model +
                   "`, `micro` nor `step`")
        .help(suggestion(loop, known));
    return;
  }
  std::optional<Selection> selection =
      selectionOf(clone(stmt.selection), *scope, around);
  if (selection) {
    gather =
        layout::GatherStatement{std::move(*selection), loop,
                                sourcePoint(stmt.range, diags.sourceManager())};
  }
}

void Splicer::visitUse(const UseStmt &stmt, const std::shared_ptr<Scope> &scope,
                       const Stack &around) {
  const CallExpr &call = *stmt.call;
  bool isLater = false;
  const Decl *decl = findUsed(call.callee, isLater);
  std::string name = call.callee.text();
  if (!decl && isLater) {
    diags
        .error(Diag::LaterAlgorithm, call.callee.range,
               "the algorithm `" + name + "` is not built yet")
        .help("leave it out: the operation is partitioned by its rule");
    return;
  }
  if (!decl) {
    std::vector<std::string> known;
    for (const std::unique_ptr<File> &file : files) {
      for (const std::unique_ptr<Decl> &each : file->decls) {
        if (each->kind == DeclKind::Strategy || each->kind == DeclKind::Plan) {
          known.push_back(each->name.text);
        }
      }
    }
    diags
        .error(Diag::UnknownStrategy, call.callee.range,
               "no strategy or plan `" + name + "`")
        .help(suggestion(name, known))
        .help("`use std.parallel` at the head of the file brings those of the "
              "standard library");
    return;
  }
  if (std::find(open.begin(), open.end(), decl) != open.end() ||
      open.size() >= mostOpen) {
    diags
        .error(Diag::PlanUsesItself, call.range,
               "`" + name + "` uses itself, directly or through others")
        .note(decl->name.range, "declared here");
    return;
  }
  Stack inner = around;
  if (stmt.selection) {
    std::optional<Selection> selection =
        names.selection(*stmt.selection, *scope);
    if (!selection) {
      return;
    }
    inner.push_back(std::move(*selection));
  }
  auto *strategy = dynCast<StrategyDecl>(decl);
  auto *used = dynCast<PlanDecl>(decl);
  if (used && used->model.text != facts.model) {
    diags
        .error(Diag::PlanOfOtherModel, call.callee.range,
               "`" + name + "` is a plan of `" + used->model.text +
                   "`, not of `" + facts.model + "`")
        .note(used->model.range, "declared here")
        .help("put what both need into a strategy");
    return;
  }
  std::shared_ptr<Scope> body = newScope(true);
  open.push_back(decl);
  bool bound = bind(strategy ? strategy->params : used->params, call.args,
                    call.range, "`" + name + "`",
                    strategy ? &strategy->axes : nullptr, *scope, *body, diags);
  if (bound) {
    walk(strategy ? strategy->body : used->body, body, inner);
  }
  open.pop_back();
}

void Splicer::visitExpect(const ExpectStmt &stmt,
                          const std::shared_ptr<Scope> &scope,
                          const Stack &around) {
  OpenExpectation made;
  Expectation &expectation = made.expectation;
  expectation.statement = &stmt;
  expectation.scope = scope;
  expectation.source = sourcePoint(stmt.range, diags.sourceManager());
  if (stmt.form == ExpectStmt::Within || stmt.form == ExpectStmt::Holds) {
    expectations.push_back(std::move(made));
    return;
  }
  bool ok = true;
  if (stmt.comm.axis) {
    made.axis = names.axis(*stmt.comm.axis, *scope);
    expectation.hasAxis = true;
    ok &= made.axis.has_value();
  }
  Selection all;
  std::optional<Selection> selection =
      stmt.comm.hasGroup
          ? names.selection(stmt.comm.selection, *scope)
          : names.clauses(stmt.comm.selection.clauses, all, *scope);
  ok &= selection.has_value();
  if (stmt.value) {
    std::optional<sema::Value> wanted =
        sema::evaluate(*stmt.value, scope->environment, diags);
    if (wanted && !wanted->isNumber()) {
      diags.error(Diag::BadContract, stmt.value->range,
                  "collectives are compared with a number, not with " +
                      wanted->describe());
      wanted = std::nullopt;
    }
    ok &= wanted.has_value();
    expectation.wanted = wanted.value_or(sema::Value{});
  }
  for (const Name &loop : stmt.per) {
    const layout::DimInfo *dim = names.findDim(loop.text);
    if (dim && dim->repeated) {
      expectation.divisor *= dim->size;
      expectation.perLoop = loop.text;
    } else if (loop.text == "micro") {
      ++expectation.perMicro;
    } else if (loop.text != "step") {
      bool later = loop.text == "chunk";
      diags
          .error(later ? Diag::LaterContract : Diag::BadContract, loop.range,
                 later ? "`per chunk` is not built yet"
                       : "`" + loop.text + "` is no loop of `" + facts.model +
                             "`")
          .help("write `per step`, or `per` and a repeat's dim");
      ok = false;
    }
  }
  if (!ok) {
    return;
  }
  expectation.selection = std::move(*selection);
  for (const Selection &outer : around) {
    expectation.selection = intersect(std::move(expectation.selection), outer);
  }
  expectation.description =
      std::string(diags.sourceManager().text(stmt.comm.range));
  expectations.push_back(std::move(made));
}

void Splicer::walk(const Block &block, const std::shared_ptr<Scope> &scope,
                   const Stack &around) {
  for (const StmtPtr &stmt : block.stmts) {
    if (refuseLater(*stmt)) {
      continue;
    }
    switch (stmt->kind) {
    case StmtKind::Mesh:
    case StmtKind::View:
      if (!seenMeshes.count(stmt.get())) {
        diags
            .error(Diag::BadPlanStatement, stmt->keyword,
                   stmt->kind == StmtKind::Mesh
                       ? "a mesh stands in a plan, and not within `in` or "
                         "under a condition on axes"
                       : "a view stands in a plan, and not within `in` or "
                         "under a condition on axes")
            .help("strategies take axes as parameters: `across: axis`");
      }
      break;
    case StmtKind::Shard:
      visitShard(static_cast<const ShardStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Per: {
      auto &per = static_cast<const PerStmt &>(*stmt);
      per.what == PerStmt::Gather ? visitGather(per, scope, around)
                                  : visitReduce(per, scope, around);
      break;
    }
    case StmtKind::Micro:
      visitMicro(static_cast<const MicroStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Pipeline:
      visitPipeline(static_cast<const PipelineStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Place:
      visitPlace(static_cast<const PlaceStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Keep:
      visitKeep(static_cast<const KeepStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Use:
      visitUse(static_cast<const UseStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Expect:
      visitExpect(static_cast<const ExpectStmt &>(*stmt), scope, around);
      break;
    case StmtKind::Let:
      visitLet(static_cast<const LetStmt &>(*stmt), *scope, diags);
      break;
    case StmtKind::In: {
      auto &in = static_cast<const InStmt &>(*stmt);
      if (std::optional<Selection> selection =
              names.selection(in.selection, *scope)) {
        Stack inner = around;
        inner.push_back(std::move(*selection));
        walk(in.body, scope, inner);
      }
      break;
    }
    case StmtKind::If: {
      auto &branch = static_cast<const IfStmt &>(*stmt);
      std::optional<bool> taken = sema::evaluateBool(
          *branch.condition, scope->environment, diags, "the condition");
      if (taken && *taken) {
        walk(branch.thenBlock, scope, around);
      } else if (taken && branch.elseBlock) {
        walk(*branch.elseBlock, scope, around);
      }
      break;
    }
    default:
      diags.error(Diag::BadPlanStatement, stmt->keyword,
                  "this statement has no meaning in a plan");
      break;
    }
  }
}

bool Splicer::run(const PlanDecl &plan, const CallExpr *call) {
  size_t before = diags.errorCount();
  source = sourcePoint(plan.name.range, diags.sourceManager());
  root = newScope(false);
  for (const layout::DimInfo &dim : facts.dims) {
    root->environment.values[dim.name] = sema::Value::ofInteger(dim.size);
  }
  open.push_back(&plan);
  static const std::vector<Arg> none;
  const std::vector<Arg> &args = call ? call->args : none;
  SourceRange at =
      call && call->range.isValid() ? call->range : plan.name.range;
  // The mesh: errors of what is read on the way are reported by the walk.
  {
    DiagnosticEngine scratch(diags.sourceManager());
    std::shared_ptr<Scope> scope = newScope(false);
    bind(plan.params, args, at, "`" + plan.name.text + "`", nullptr, *root,
         *scope, scratch);
    findMesh(plan.body, scope, scratch, 0);
  }
  // Errors in the arguments come before those of a mesh that needs them.
  std::shared_ptr<Scope> scope = newScope(false);
  if (!mesh.first && unbound.plan &&
      !bind(unbound.plan->params, unbound.use->call->args, unbound.use->range,
            "`" + unbound.plan->name.text + "`", nullptr, *unbound.scope,
            *newScope(true), diags)) {
    return false;
  }
  if (!mesh.first) {
    diags
        .error(Diag::NoMesh, plan.name.range,
               "`" + plan.name.text + "` has no mesh")
        .help("begin it with `mesh [data: 8]`");
    return false;
  }
  bool needsAxes = std::any_of(
      plan.params.begin(), plan.params.end(), [](const Param &param) {
        return param.type && param.type->text == "axis";
      });
  if (!needsAxes && !bind(plan.params, args, at, "`" + plan.name.text + "`",
                          nullptr, *root, *scope, diags)) {
    return false;
  }
  if (!devices.setMesh(*mesh.first, mesh.second->environment, options.devices,
                       diags)) {
    return false;
  }
  auto addAxes = [&] {
    for (const DeviceAxis &axis : devices.allAxes()) {
      root->environment.values[axis.name] =
          sema::Value::ofInteger(axis.interval.size());
    }
  };
  addAxes();
  for (auto &[view, viewScope] : views) {
    if (!devices.addView(*view, viewScope->environment, diags)) {
      return false;
    }
    addAxes();
  }
  if (needsAxes && !bind(plan.params, args, at, "`" + plan.name.text + "`",
                         nullptr, *root, *scope, diags)) {
    return false;
  }
  walk(plan.body, scope, {});
  return checkPlaces() && diags.errorCount() == before;
}

Elaborated Splicer::finish(const std::string &name) const {
  Elaborated result;
  layout::Plan &plan = result.plan;
  plan.name = name;
  plan.mesh = devices.mesh();
  plan.hardware = devices.hardware();
  plan.dims = facts.dims;
  plan.source = source;
  auto append = [](std::vector<layout::AtomId> &to,
                   const std::vector<layout::AtomId> &atoms) {
    to.insert(to.end(), atoms.begin(), atoms.end());
  };
  for (const OpenShard &open : shards) {
    plan.shards.push_back(open.statement);
    for (const AxisProduct &product : open.alternatives) {
      layout::Alternative alternative;
      alternative.text = product.text();
      for (const AxisFactor &factor : product.factors) {
        std::vector<layout::AtomId> atoms = devices.atomsOf(factor.interval);
        append(alternative.atoms, atoms);
        if (factor.optional) {
          append(alternative.optional, atoms);
          alternative.optionalRefs.push_back(std::move(atoms));
        }
      }
      plan.shards.back().alternatives.push_back(std::move(alternative));
    }
  }
  addPipeline(plan);
  addPlaces(plan);
  addMicro(plan);
  if (gather) {
    plan.gathers.push_back(*gather);
  }
  if (reduction && reduction->per != "step") {
    plan.reductions.push_back(*reduction);
  }
  plan.recomputed = recomputed;
  if (pipeline) {
    result.schedule = pipeline->schedule;
  }
  for (const OpenExpectation &open : expectations) {
    result.expectations.push_back(open.expectation);
    for (size_t i = 0; i < open.expectation.perMicro; ++i) {
      result.expectations.back().divisor *= plan.micros();
    }
    if (open.axis) {
      for (const AxisFactor &factor : open.axis->factors) {
        result.expectations.back().axes.push_back(
            devices.atomsOf(factor.interval));
      }
    }
  }
  return result;
}

} // namespace cleave::plan
