// `micro`, `pipeline`, `recompute` and `save`: what a plan says of time, stages
// and of what the backward pass keeps.
//
// Both `micro` and `pipeline` are layouts. Microbatches cut a dim over a time
// of the mesh, as the minor-most atom; a pipeline cuts the dim of a repeat over
// the axis of the stages. So both become `shard` statements, and everything
// after this knows them as such.
#include "lang/plan/Splice.h"

#include <algorithm>

using namespace cleave::ast;

namespace cleave::plan {

using layout::Selection;
using Kind = layout::Selection::Kind;

// Schedules have at most so many microbatches.
static constexpr int64_t mostMicrobatches = 65536;

static Ref refTo(const Name &name) {
  Ref ref;
  ref.range = name.range;
  ref.parts.push_back(name);
  return ref;
}

// `micro` and `pipeline` speak of the whole plan.
bool Splicer::refuseSelected(const Stmt &stmt, const Stack &around) {
  if (around.empty()) {
    return false;
  }
  std::string word(diags.sourceManager().text(stmt.keyword));
  diags
      .error(Diag::BadPlanStatement, stmt.keyword,
             "`" + word +
                 "` holds for the whole plan, so it cannot stand "
                 "within `in`, or in what is used `for` a selection")
      .help("write it in the plan itself");
  return true;
}

std::vector<std::string> Splicer::repeatedDims() const {
  std::vector<std::string> loops;
  for (const layout::DimInfo &dim : facts.dims) {
    if (dim.repeated) {
      loops.push_back(dim.name);
    }
  }
  return loops;
}

//===----------------------------------------------------------------------===//
// Microbatches
//===----------------------------------------------------------------------===//

// The dim that microbatches cut, or nothing after an error.
std::optional<std::string> Splicer::microDim(const MicroStmt &stmt,
                                             const Scope &scope) {
  auto dims = names.dims(refTo(stmt.dim), scope);
  if (!dims) {
    return std::nullopt;
  }
  auto refuse = [&](const std::string &message) {
    diags.error(Diag::BadMicro, stmt.dim.range, message)
        .help("microbatches cut a plain dim of the inputs, such as the batch");
    return std::nullopt;
  };
  if (dims->size() != 1 || dims->front().size() != 1) {
    return refuse("`" + stmt.dim.text + "` is a product or a sum of dims");
  }
  const std::string &dim = dims->front().front();
  if (names.findDim(dim)->repeated) {
    return refuse("`" + dim + "` is the dim of a `repeat`, not of the inputs");
  }
  auto has = [&](const std::vector<layout::NamedDim> &dims) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const layout::NamedDim &one) {
                         const layout::DimInfo *info = names.findDim(one.name);
                         return one.name == dim || (info && info->like == dim);
                       });
  };
  for (const LeafFact &leaf : facts.leaves) {
    if (has(leaf.dims)) {
      return refuse("`" + dim + "` is a dim of the parameter `" + leaf.path +
                    "`, which every microbatch reads whole");
    }
  }
  bool isInput = std::any_of(facts.values.begin(), facts.values.end(),
                             [&](const layout::ValueInfo &value) {
                               return value.role == layout::Role::Inputs &&
                                      has(value.dims);
                             });
  if (!isInput) {
    return refuse("no input has `" + dim + "`");
  }
  return dim;
}

void Splicer::visitMicro(const MicroStmt &stmt,
                         const std::shared_ptr<Scope> &scope,
                         const Stack &around) {
  if (refuseSelected(stmt, around)) {
    return;
  }
  std::string what =
      stmt.into ? "the number of microbatches" : "the size of a microbatch";
  std::optional<std::string> dim = microDim(stmt, *scope);
  std::optional<int64_t> count =
      sema::evaluateInteger(*stmt.count, scope->environment, diags, what);
  if (!dim || !count) {
    return;
  }
  if (*count < 1 || (stmt.into && *count > mostMicrobatches)) {
    diags.error(Diag::BadMicro, stmt.count->range,
                what + " must be " +
                    (stmt.into ? "from 1 to " + std::to_string(mostMicrobatches)
                               : "at least 1") +
                    ", not " + std::to_string(*count));
    return;
  }
  micro.emplace();
  micro->dim = std::move(*dim);
  micro->size = stmt.into ? 0 : *count;
  micro->number = stmt.into ? *count : 1;
  micro->range = stmt.range;
  micro->fromStrategy = scope->spliced;
}

bool Splicer::settleMicro(const layout::Plan &plan) {
  if (!micro) {
    return true;
  }
  if (options.micros) {
    micro->size = 0;
    micro->number = *options.micros;
  }
  int64_t whole = names.findDim(micro->dim)->size;
  if (micro->size > 0) {
    int64_t largest = 1;
    for (const layout::ValueInfo &value : facts.values) {
      layout::Resolved resolved;
      for (size_t i = 0; i < value.dims.size(); ++i) {
        if (value.role != layout::Role::Inputs ||
            value.dims[i].name != micro->dim) {
          continue;
        }
        resolved = layout::resolve(plan, value);
        if (resolved.error.empty()) {
          largest = std::max(
              largest,
              layout::largestPiece(whole, resolved.layout.dims[i], plan.mesh));
        }
      }
    }
    micro->number = (largest + micro->size - 1) / micro->size;
  }
  std::string dim = "`" + micro->dim + "` (" + std::to_string(whole) + ")";
  if (micro->number > mostMicrobatches) {
    diags
        .error(Diag::BadMicro, micro->range,
               dim + " makes " + std::to_string(micro->number) +
                   " microbatches of " + std::to_string(micro->size) +
                   "; there may be " + std::to_string(mostMicrobatches))
        .help("make them larger");
    return false;
  }
  if (micro->number > whole) {
    diags.note(Diag::EmptyMicrobatches, micro->range,
               "of " + std::to_string(micro->number) + " microbatches " +
                   std::to_string(micro->number - whole) +
                   (micro->number - whole == 1 ? " is" : " are") +
                   " empty: " + dim + " has fewer elements");
  }
  return true;
}

// Adds the time to the mesh and cuts the dim over it, as the last statement:
// what is minor-most.
void Splicer::addMicro(layout::Plan &plan) const {
  if (!micro || micro->number == 1) {
    return;
  }
  auto atom = static_cast<layout::AtomId>(plan.mesh.atoms.size());
  plan.mesh.atoms.push_back({"micro", micro->number});
  plan.mesh.times = 1;
  layout::ShardStatement shard;
  shard.dims = {micro->dim};
  shard.also = true;
  shard.fromStrategy = micro->fromStrategy;
  shard.source = sourcePoint(micro->range, diags.sourceManager());
  layout::Alternative alternative;
  alternative.atoms = {atom};
  alternative.text = "micro";
  shard.alternatives.push_back(std::move(alternative));
  // Of inputs it says what a microbatch reads; they are there at once.
  plan.micro = layout::MicroStatement{micro->dim, atom, shard.source};
  plan.shards.push_back(std::move(shard));
}

layout::Plan withoutMicro(const layout::Plan &plan) {
  layout::Plan whole = plan;
  if (plan.micro) {
    whole.micro.reset();
    whole.shards.pop_back(); // the mesh stays: programs of a plan share it
  }
  return whole;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

// The repeated dim that a pipeline cuts, or null: after an error, or where it
// is absent and marked `?`.
const layout::DimInfo *Splicer::pipelineDim(const PathStep &step,
                                            const Scope &scope) {
  std::string example = "name the dim of a `repeat`: `pipeline layer on pipe "
                        "with one_f_one_b`";
  if (step.kind != PathStep::Named) {
    diags
        .error(Diag::BadPipeline, step.range,
               "a pipeline has one dim, not a pattern")
        .help(example);
    return nullptr;
  }
  if (step.index) {
    diags
        .error(Diag::LaterLayers, step.index->range,
               "a pipeline of some of `" + step.name.text +
                   "` is not built yet")
        .help("leave the indices out");
    return nullptr;
  }
  Ref ref = refTo(step.name);
  ref.optional = step.optional;
  auto dims = names.dims(ref, scope);
  if (!dims || dims->empty()) {
    return nullptr;
  }
  const layout::DimInfo *dim = names.findDim(dims->front().front());
  if (dims->size() != 1 || dims->front().size() != 1 || !dim->repeated) {
    std::vector<std::string> loops = repeatedDims();
    diags
        .error(Diag::BadPipeline, step.range,
               "`" + step.name.text + "` is not the dim of a `repeat`")
        .help(loops.empty() ? "`" + facts.model + "` has no `repeat`"
                            : suggestion(step.name.text, loops));
    return nullptr;
  }
  for (const LeafFact &leaf : facts.leaves) {
    for (const layout::NamedDim &outer : leaf.dims) {
      const layout::DimInfo *info = names.findDim(outer.name);
      if (outer.name == dim->name || !info || !info->repeated) {
        break;
      }
      bool isInner = std::any_of(
          leaf.dims.begin(), leaf.dims.end(),
          [&](const layout::NamedDim &one) { return one.name == dim->name; });
      if (isInner) {
        diags
            .error(Diag::BadPipeline, step.range,
                   "the `repeat` over `" + dim->name +
                       "` stands within the one over `" + outer.name + "`")
            .help("pipeline `" + outer.name + "`");
        return nullptr;
      }
    }
  }
  return dim;
}

const ScheduleDecl *Splicer::findSchedule(const CallExpr &call) {
  std::string name = call.callee.parts.back().text;
  std::vector<std::string> known;
  // The root file stands last, and goes first.
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    for (const std::unique_ptr<Decl> &decl : (*file)->decls) {
      auto *schedule = dynCast<ScheduleDecl>(decl);
      if (schedule && schedule->name.text == name) {
        return schedule;
      }
      if (schedule) {
        known.push_back(schedule->name.text);
      }
    }
  }
  auto builder = diags.error(Diag::UnknownSchedule, call.callee.range,
                             "no schedule `" + name + "`");
  if (!known.empty()) {
    builder.help(suggestion(name, known));
  }
  builder.help("`use std.schedules` at the head of the file brings those of "
               "the standard library");
  return nullptr;
}

// How many pieces of the dim a stage holds: what the pipeline says, else what
// its schedule is written for.
std::optional<int64_t> Splicer::chunksOf(const PipelineStmt &stmt,
                                         const ScheduleDecl &schedule,
                                         const Scope &scope) {
  const Expr *written = stmt.chunks.get();
  for (const Param &param : schedule.params) {
    if (!written && param.name.text == "chunks") {
      written = param.defaultValue.get();
    }
  }
  if (!written) {
    return 1;
  }
  std::optional<int64_t> chunks =
      sema::evaluateInteger(*written, scope.environment, diags, "`chunks`");
  if (chunks && *chunks < 1) {
    diags.error(Diag::BadPipeline, written->range,
                "a stage holds at least 1 chunk, not " +
                    std::to_string(*chunks));
    return std::nullopt;
  }
  return chunks;
}

void Splicer::visitPipeline(const PipelineStmt &stmt,
                            const std::shared_ptr<Scope> &scope,
                            const Stack &around) {
  if (refuseSelected(stmt, around)) {
    return;
  }
  const layout::DimInfo *dim = pipelineDim(stmt.step, *scope);
  AxisExpr written;
  written.range = stmt.axis.range;
  written.factors.push_back(refTo(stmt.axis));
  std::optional<AxisProduct> axis = names.axis(written, *scope);
  const ScheduleDecl *schedule = findSchedule(*stmt.schedule);
  if (!dim || !axis || !schedule) {
    return;
  }
  std::optional<int64_t> chunks = chunksOf(stmt, *schedule, *scope);
  if (!chunks) {
    return;
  }
  StageCuts cuts(facts, *dim, axis->size() * *chunks, diags);
  if (!cuts.find(stmt, *scope)) {
    return;
  }
  if (axis->size() > dim->size) {
    diags.note(Diag::EmptyStages, stmt.range,
               "of " + std::to_string(axis->size()) + " stages " +
                   std::to_string(axis->size() - dim->size) +
                   " or more hold no `" + dim->name + "`, of which there are " +
                   std::to_string(dim->size));
  }
  pipeline.emplace();
  pipeline->dim = dim->name;
  pipeline->axis = std::move(*axis);
  pipeline->chunks = *chunks;
  pipeline->cuts = std::move(cuts.boundaries);
  pipeline->regions = std::move(cuts.regions);
  pipeline->why = std::move(cuts.why);
  pipeline->range = stmt.range;
  pipeline->fromStrategy = scope->spliced;
  pipeline->schedule = {stmt.schedule.get(), schedule, scope};
}

// Which stage holds each piece: rounds over the stages, every other one
// backwards where the schedule is folded.
static void placeChunks(layout::Alternative &alternative, int64_t size,
                        int64_t stages, int64_t chunks, bool folded) {
  int64_t count = stages * chunks;
  if (alternative.cuts.empty()) {
    for (int64_t i = 0; i <= count; ++i) {
      alternative.cuts.push_back(
          i < count ? layout::splitRule(size, count, i).begin : size);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t round = i / stages, stage = i % stages;
    bool backwards = folded && round % 2 == 1;
    alternative.places.push_back(backwards ? stages - 1 - stage : stage);
  }
}

// Cuts the dims of the repeats over the stages. An axis of size 1 has no atoms:
// one stage is no pipeline.
void Splicer::addPipeline(layout::Plan &plan) const {
  if (!pipeline || pipeline->axis.size() == 1) {
    return;
  }
  bool folded = pipeline->schedule->decl->deal == ScheduleDecl::Folded;
  layout::PipelineStatement &statement = plan.pipeline.emplace();
  statement.dim = pipeline->dim;
  statement.regions = pipeline->regions;
  statement.folded = folded;
  statement.chunks = pipeline->chunks;
  statement.schedule = pipeline->schedule->decl->name.text;
  statement.why = pipeline->why;
  statement.source = sourcePoint(pipeline->range, diags.sourceManager());
  for (const AxisFactor &factor : pipeline->axis.factors) {
    std::vector<layout::AtomId> atoms = devices.atomsOf(factor.interval);
    statement.atoms.insert(statement.atoms.end(), atoms.begin(), atoms.end());
  }
  for (const auto &[dim, cuts] : pipeline->cuts) {
    statement.dims.push_back(dim);
    layout::ShardStatement shard;
    shard.dims = {dim};
    shard.fromStrategy = pipeline->fromStrategy;
    shard.source = statement.source;
    layout::Alternative alternative;
    alternative.text = pipeline->axis.text();
    alternative.atoms = statement.atoms;
    alternative.cuts = cuts;
    if (pipeline->chunks > 1) {
      placeChunks(alternative, names.findDim(dim)->size, pipeline->axis.size(),
                  pipeline->chunks, folded);
    }
    shard.alternatives.push_back(std::move(alternative));
    plan.shards.push_back(std::move(shard));
  }
}

//===----------------------------------------------------------------------===//
// What the backward pass keeps
//===----------------------------------------------------------------------===//

void Splicer::visitKeep(const KeepStmt &stmt,
                        const std::shared_ptr<Scope> &scope,
                        const Stack &around) {
  if (stmt.what == KeepStmt::Offload) {
    diags.error(Diag::LaterKeep, stmt.keyword, "`offload` is not built yet")
        .help("leave it out: what the backward pass needs is saved on the "
              "device");
    return;
  }
  std::string word = stmt.what == KeepStmt::Save ? "save" : "recompute";
  for (const Option &option : stmt.options) {
    diags
        .error(Diag::UnknownOption, option.name.range,
               "`" + word + "` has no option `" + option.name.text + "`")
        .help("leave it out");
  }
  std::optional<Selection> selection =
      selectionOf(clone(stmt.selection), *scope, around);
  if (!selection || !stmt.options.empty() ||
      !keepsSomething(stmt, *selection, scope->spliced)) {
    return;
  }
  if (stmt.what == KeepStmt::Recompute) {
    recomputed.push_back(std::move(*selection));
    return;
  }
  // The last that matches stands.
  for (Selection &earlier : recomputed) {
    Selection rest;
    rest.kind = Kind::Except;
    rest.children = {std::move(earlier), *selection};
    earlier = std::move(rest);
  }
}

// Whether a region path lies within a repeat.
static bool isRepeated(const std::string &path,
                       const std::vector<std::string> &loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const std::string &loop) {
    return ("/" + path + "/").find("/" + loop + "/") != std::string::npos;
  });
}

// Rule 11 for `recompute` and `save`: reports what they cannot change.
bool Splicer::keepsSomething(const KeepStmt &stmt, const Selection &selection,
                             bool spliced) {
  bool weights = false, activations = false, repeated = false, known = false;
  std::vector<std::string> loops = repeatedDims();
  for (const layout::ValueInfo &value : names.values()) {
    if (!matches(selection, value)) {
      continue;
    }
    weights |= value.role == layout::Role::Weights;
    if (value.role != layout::Role::Activations ||
        value.phase != layout::Phase::Forward) {
      continue;
    }
    activations = true;
    repeated |= isRepeated(value.path, loops);
    known |= std::any_of(
        recomputed.begin(), recomputed.end(),
        [&](const Selection &earlier) { return matches(earlier, value); });
  }
  bool isSave = stmt.what == KeepStmt::Save;
  std::string text =
      "`" + std::string(diags.sourceManager().text(stmt.range)) + "`";
  if (!activations && weights) {
    // Gathered weights are dropped and gathered again: what it asks for.
    if (isSave) {
      diags
          .error(Diag::LaterKeep, stmt.keyword,
                 "`save` of gathered weights is not built yet")
          .help("`gather weights per step` keeps them");
    }
    return false;
  }
  if (!activations) {
    std::string message = text + " selects no activation of the forward pass";
    if (spliced) {
      diags.note(Diag::GovernsNothing, stmt.range, message);
    } else {
      diags.error(Diag::GovernsNothing, stmt.range, message)
          .help("name regions or values of the model: `recompute layer`");
    }
    return false;
  }
  if (isSave && !known) {
    diags
        .error(Diag::LaterKeep, stmt.keyword,
               text + " selects nothing that a `recompute` before it selects")
        .help("leave it out: what the backward pass needs is saved, but for "
              "what enters a region, which is made again from outside");
    return false;
  }
  if (!repeated) {
    diags
        .error(Diag::LaterKeep, stmt.keyword,
               text + " selects nothing within a `repeat`; recomputing what "
                      "stands outside is not built yet")
        .help("name the repeat or what stands in it: `recompute layer`");
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

// `reduce gradients per micro`: each microbatch's, so that what adds up is as
// stored. Per step is what happens without it.
void Splicer::visitReduce(const PerStmt &stmt,
                          const std::shared_ptr<Scope> &scope,
                          const Stack &around) {
  const std::string &loop = stmt.loop.text;
  if (loop != "micro" && loop != "step") {
    diags
        .error(Diag::BadLoop, stmt.loop.range,
               "gradients are reduced per `micro` or per `step`, not per `" +
                   loop + "`")
        .help(suggestion(loop, {"micro", "step"}));
    return;
  }
  std::optional<Selection> selection =
      selectionOf(clone(stmt.selection), *scope, around);
  if (!selection) {
    return;
  }
  bool isGradient =
      std::any_of(names.values().begin(), names.values().end(),
                  [&](const layout::ValueInfo &value) {
                    return value.role == layout::Role::Gradients &&
                           matches(*selection, value);
                  });
  if (!isGradient) {
    diags
        .error(Diag::GovernsNothing, stmt.range,
               "`" + std::string(diags.sourceManager().text(stmt.range)) +
                   "` selects no gradient of a parameter")
        .help("say `reduce gradients per " + loop + "`");
    return;
  }
  reduction =
      layout::GatherStatement{std::move(*selection), loop,
                              sourcePoint(stmt.range, diags.sourceManager())};
}

} // namespace cleave::plan
