// `place`: on which stages what is stored lives.
#include "lang/plan/Splice.h"

#include <algorithm>

using namespace cleave::ast;

namespace cleave::plan {

using layout::Selection;

// The coordinates of one `pipe[…]`; nothing after an error.
std::optional<std::vector<int64_t>>
Splicer::coordinatesOf(const PlaceStmt::Where &where, int64_t size,
                       const Scope &scope) {
  const std::string &axis = where.axis.text;
  std::optional<IndexRange> range =
      names.indexRange(where.index, size, "a coordinate of `" + axis + "`",
                       "these coordinates of `" + axis + "`",
                       Diag::BadPlanStatement, where.range, scope);
  if (!range) {
    return std::nullopt;
  }
  std::vector<int64_t> coordinates;
  for (int64_t at = range->begin; at < range->end; at += range->every) {
    coordinates.push_back(at);
  }
  return coordinates;
}

void Splicer::visitPlace(const PlaceStmt &stmt,
                         const std::shared_ptr<Scope> &scope,
                         const Stack &around) {
  std::optional<Selection> selection =
      selectionOf(clone(stmt.selection), *scope, around);
  OpenPlace open;
  std::set<int64_t> stages;
  for (const PlaceStmt::Where &where : stmt.places) {
    AxisExpr written;
    written.range = where.axis.range;
    Ref ref;
    ref.range = where.axis.range;
    ref.parts.push_back(where.axis);
    written.factors.push_back(std::move(ref));
    std::optional<AxisProduct> axis = names.axis(written, *scope);
    std::optional<std::vector<int64_t>> coordinates;
    if (axis) {
      coordinates = coordinatesOf(where, axis->size(), *scope);
    }
    if (!coordinates) {
      return;
    }
    stages.insert(coordinates->begin(), coordinates->end());
    open.axes.push_back({std::move(*axis), where.axis.range});
  }
  if (!selection) {
    return;
  }
  open.statement.selection = std::move(*selection);
  open.statement.stages.assign(stages.begin(), stages.end());
  open.statement.source = sourcePoint(stmt.range, diags.sourceManager());
  open.range = stmt.range;
  places.push_back(std::move(open));
}

// What is known once the pipeline is: whether the axes are of its stages, and
// what is selected lives whole on a stage.
bool Splicer::checkPlace(const OpenPlace &open) const {
  for (const auto &[axis, range] : open.axes) {
    bool isOfStages = pipeline &&
                      axis.factors.size() == pipeline->axis.factors.size() &&
                      std::equal(axis.factors.begin(), axis.factors.end(),
                                 pipeline->axis.factors.begin(),
                                 [](const AxisFactor &a, const AxisFactor &b) {
                                   return a.interval == b.interval;
                                 });
    if (!isOfStages) {
      diags
          .error(Diag::LaterPlace, range,
                 "`place` on an axis that has no stages is not built yet")
          .help(pipeline ? "name `" + pipeline->axis.text() +
                               "`, the axis of the pipeline"
                         : "say `pipeline layer on pipe with one_f_one_b`, or "
                           "leave it out: values live on the whole mesh");
      return false;
    }
  }
  if (pipeline->axis.factors.size() > 1 && open.statement.stages.size() > 1) {
    diags
        .error(Diag::LaterPlace, open.range,
               "several stages of an axis that is a product are no product of "
               "ranges; `place` on them is not built yet")
        .help("name one stage");
    return false;
  }
  bool any = false;
  for (const layout::ValueInfo &value : names.values()) {
    if (value.role != layout::Role::Params ||
        !matches(open.statement.selection, value)) {
      continue;
    }
    any = true;
    for (const layout::NamedDim &dim : value.dims) {
      if (pipeline->cuts.count(dim.name)) {
        diags
            .error(Diag::BadPlanStatement, open.range,
                   "`" + value.path + "` is cut over the stages by its `" +
                       dim.name + "`, so each has its own part")
            .help("`pipeline " + dim.name +
                  " … as` says which; place what stands outside the repeat");
        return false;
      }
    }
  }
  if (!any) {
    diags
        .error(Diag::GovernsNothing, open.range,
               "`" + open.statement.source.text + "` selects no parameter")
        .help("where work is done is said by `pipeline … as`; `place` says "
              "where parameters live, with their gradients and optimizer "
              "leaves");
  }
  return any;
}

bool Splicer::checkPlaces() const {
  return std::all_of(places.begin(), places.end(),
                     [&](const OpenPlace &open) { return checkPlace(open); });
}

// One stage is no pipeline, and has all.
void Splicer::addPlaces(layout::Plan &plan) const {
  for (const OpenPlace &open : places) {
    if (plan.pipeline) {
      plan.places.push_back(open.statement);
    }
  }
}

} // namespace cleave::plan
