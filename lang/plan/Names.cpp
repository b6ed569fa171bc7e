#include "lang/plan/Scope.h"

#include <algorithm>

using namespace cleave::ast;

namespace cleave::plan {

using layout::Selection;
using Kind = layout::Selection::Kind;

std::string AxisProduct::text() const {
  std::string text;
  for (const AxisFactor &factor : factors) {
    text += (text.empty() ? "" : " * ") + factor.text +
            (factor.optional ? "?" : "");
  }
  return text.empty() ? "none" : text;
}

Names::Names(const ModelFacts &facts, const Devices &devices,
             DiagnosticEngine &diags)
    : facts(facts), devices(devices), diags(diags), all(allValues(facts)) {
  std::set<std::string> seen;
  auto addSteps = [&](const std::string &path) {
    paths.insert(path);
    for (size_t at = 0; at < path.size();) {
      size_t slash = std::min(path.find('/', at), path.size());
      std::string step = path.substr(at, slash - at);
      if (!step.empty() && seen.insert(step).second) {
        stepNames.push_back(step);
      }
      at = slash + 1;
    }
  };
  for (const layout::ValueInfo &value : all) {
    addSteps(value.label.empty()  ? value.path
             : value.path.empty() ? value.label
                                  : value.path + "/" + value.label);
    if (!value.reader.empty()) {
      addSteps(value.reader);
    }
  }
  for (const RegionFact &region : facts.regions) {
    addSteps(region.path);
    if (!region.function.empty() && seen.insert(region.function).second) {
      stepNames.push_back(region.function);
    }
  }
}

//===----------------------------------------------------------------------===//
// Dims
//===----------------------------------------------------------------------===//

const layout::DimInfo *Names::findDim(const std::string &name) const {
  for (const layout::DimInfo &dim : facts.dims) {
    if (dim.name == name) {
      return &dim;
    }
  }
  return nullptr;
}

// Factors of factors; a product's depth is bounded by the model's checks.
std::vector<std::string> Names::leavesOf(const std::vector<std::string> &names,
                                         unsigned depth) const {
  std::vector<std::string> leaves;
  for (const std::string &name : names) {
    const layout::DimInfo *dim = findDim(name);
    if (!dim || dim->factors.empty() || depth > 64) {
      leaves.push_back(name);
      continue;
    }
    std::vector<std::string> inner = leavesOf(dim->factors, depth + 1);
    leaves.insert(leaves.end(), inner.begin(), inner.end());
  }
  return leaves;
}

std::optional<std::vector<std::vector<std::string>>>
Names::dims(const Ref &ref, const Scope &scope) const {
  std::string name = ref.text();
  std::vector<std::string> named{name};
  if (auto it = scope.dims.find(name); it != scope.dims.end()) {
    named = it->second;
  }
  std::vector<std::vector<std::string>> result;
  for (const std::string &one : named) {
    const layout::DimInfo *dim = findDim(one);
    if (!dim) {
      if (ref.optional) {
        continue;
      }
      std::vector<std::string> known;
      for (const layout::DimInfo &each : facts.dims) {
        known.push_back(each.name);
      }
      auto builder =
          diags.error(Diag::UnknownShardDim, ref.range,
                      "`" + facts.model + "` has no dim `" + one + "`");
      builder.help(suggestion(one, known));
      if (devices.find(one)) {
        builder.help("`" + one + "` is an axis: axes stand after `on`");
      }
      return std::nullopt;
    }
    if (!dim->like.empty()) {
      diags
          .error(Diag::FollowingDim, ref.range,
                 "`" + one + "` follows `" + dim->like + "`")
          .help("shard `" + dim->like + "`; `" + one + "` has its layout");
      return std::nullopt;
    }
    if (dim->parts.empty()) {
      result.push_back(leavesOf({one}));
      continue;
    }
    // A sum is cut in its parts. Parts that share their major factors (q: kv *
    // group * key, k: kv * key) are one product of which each has some.
    std::vector<std::vector<std::string>> parts;
    for (const auto &[part, factors] : dim->parts) {
      parts.push_back(leavesOf(factors));
    }
    std::sort(parts.begin(), parts.end(),
              [](const auto &a, const auto &b) { return a.size() > b.size(); });
    for (const std::vector<std::string> &part : parts) {
      bool covered = std::any_of(
          result.begin(), result.end(),
          [&](const std::vector<std::string> &whole) {
            auto at = whole.begin();
            return std::all_of(part.begin(), part.end(),
                               [&](const std::string &factor) {
                                 at = std::find(at, whole.end(), factor);
                                 return at != whole.end();
                               });
          });
      if (!covered) {
        result.push_back(part);
      }
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

std::optional<AxisProduct> Names::axisNamed(const std::string &name,
                                            bool optional, SourceRange range,
                                            const Scope &scope) const {
  if (auto it = scope.axes.find(name); it != scope.axes.end()) {
    AxisProduct product = it->second;
    for (AxisFactor &factor : product.factors) {
      factor.optional |= optional;
    }
    return product;
  }
  if (const DeviceAxis *axis = devices.find(name)) {
    AxisProduct product;
    product.factors.push_back({axis->interval, optional, name});
    return product;
  }
  if (optional) {
    return AxisProduct{};
  }
  std::vector<std::string> known = devices.names();
  for (const auto &[own, product] : scope.axes) {
    known.push_back(own);
  }
  auto builder =
      diags.error(Diag::UnknownAxis, range, "unknown axis `" + name + "`");
  builder.help(suggestion(name, known));
  if (findDim(name)) {
    builder.help("`" + name + "` is a dim: dims stand before `on`");
  }
  return std::nullopt;
}

bool Names::checkDisjoint(const AxisProduct &product, SourceRange range) const {
  for (size_t i = 0; i < product.factors.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Interval &a = product.factors[i].interval;
      const Interval &b = product.factors[j].interval;
      if (std::min(a.high, b.high) > std::max(a.low, b.low)) {
        const std::string &one = product.factors[j].text;
        const std::string &two = product.factors[i].text;
        diags
            .error(Diag::AxisRepeated, range,
                   one == two ? "`" + one + "` twice in one product"
                              : "`" + one + "` and `" + two +
                                    "` are parts of the same devices")
            .help("name each axis once");
        return false;
      }
    }
  }
  return true;
}

std::optional<AxisProduct> Names::axis(const AxisExpr &axis,
                                       const Scope &scope) const {
  AxisProduct product;
  for (const Ref &ref : axis.factors) {
    std::optional<AxisProduct> part =
        axisNamed(ref.text(), ref.optional, ref.range, scope);
    if (!part) {
      return std::nullopt;
    }
    product.factors.insert(product.factors.end(), part->factors.begin(),
                           part->factors.end());
  }
  return checkDisjoint(product, axis.range) ? std::optional(product)
                                            : std::nullopt;
}

std::optional<AxisProduct> Names::axis(const Expr &expr,
                                       const Scope &scope) const {
  if (auto *binary = dynCast<BinaryExpr>(&expr);
      binary && binary->op == BinaryOp::Multiply) {
    std::optional<AxisProduct> left = axis(*binary->left, scope);
    std::optional<AxisProduct> right =
        left ? axis(*binary->right, scope) : std::nullopt;
    if (!right) {
      return std::nullopt;
    }
    left->factors.insert(left->factors.end(), right->factors.begin(),
                         right->factors.end());
    return checkDisjoint(*left, expr.range) ? left : std::nullopt;
  }
  std::string name;
  if (auto *plain = dynCast<NameExpr>(&expr)) {
    name = plain->name;
  } else {
    const Expr *base = &expr;
    for (; auto *member = dynCast<MemberExpr>(base);
         base = member->base.get()) {
      name = "." + member->member.text + name;
    }
    auto *first = dynCast<NameExpr>(base);
    if (!first) {
      diags.error(Diag::BadUseArgument, expr.range, "an axis is expected here")
          .help("name an axis of the mesh, or a product: `data * context`");
      return std::nullopt;
    }
    name = first->name + name;
  }
  if (name == "none") {
    return AxisProduct{};
  }
  return axisNamed(name, false, expr.range, scope);
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

static Selection ofKind(Kind kind, std::vector<Selection> children) {
  Selection result;
  result.kind = kind;
  result.children = std::move(children);
  return result;
}

std::optional<Selection> Names::selection(const ast::Selection &selection,
                                          const Scope &scope) const {
  std::optional<Selection> result = group(selection.group, scope);
  return result ? clauses(selection.clauses, std::move(*result), scope)
                : std::nullopt;
}

std::optional<Selection> Names::clauses(const std::vector<Clause> &clauses,
                                        Selection start,
                                        const Scope &scope) const {
  bool ok = true;
  for (const Clause &clause : clauses) {
    if (clause.kind == Clause::Where) {
      std::optional<Selection> next = where(*clause.where, start, scope);
      ok &= next.has_value();
      start = next ? std::move(*next) : std::move(start);
      continue;
    }
    std::optional<Selection> inner = group(clause.group, scope);
    ok &= inner.has_value();
    if (inner) {
      start = ofKind(clause.kind == Clause::In ? Kind::In : Kind::Except,
                     {std::move(start), std::move(*inner)});
    }
  }
  return ok ? std::optional(std::move(start)) : std::nullopt;
}

std::optional<Selection> Names::group(const Group &group,
                                      const Scope &scope) const {
  std::vector<Selection> children;
  bool ok = true;
  for (const Pick &one : group.picks) {
    std::optional<Selection> child = pick(one, scope);
    ok &= child.has_value();
    if (child) {
      children.push_back(std::move(*child));
    }
  }
  if (!ok) {
    return std::nullopt;
  }
  return children.size() == 1 ? std::move(children[0])
                              : ofKind(Kind::Any, std::move(children));
}

std::optional<Selection> Names::pick(const Pick &pick,
                                     const Scope &scope) const {
  Selection result;
  switch (pick.kind) {
  case Pick::All:
    return result;
  case Pick::Nested:
    return selection(*pick.nested, scope);
  case Pick::OfPath:
    return path(pick.path, scope);
  case Pick::OfRole:
    break;
  }
  result.kind = Kind::Role;
  switch (pick.role) {
  case Role::Params:
    result.role = layout::Role::Params;
    break;
  case Role::Weights:
    result.role = layout::Role::Weights;
    break;
  case Role::Gradients:
    result.role = layout::Role::Gradients;
    break;
  case Role::Optimizer:
    result.role = layout::Role::Optimizer;
    break;
  case Role::Activations:
    result.role = layout::Role::Activations;
    break;
  case Role::Inputs:
    result.role = layout::Role::Inputs;
    break;
  case Role::Forward:
    result.kind = Kind::Forward;
    break;
  case Role::Backward:
    result.kind = Kind::Backward;
    break;
  case Role::Update:
    result.kind = Kind::Update;
    break;
  case Role::Caches:
    diags.error(Diag::LaterCaches, pick.range, "caches are not built yet")
        .help("leave this statement out of the plan for training");
    return std::nullopt;
  }
  return result;
}

std::optional<IndexRange>
Names::indexRange(const StepRange &range, int64_t size, const std::string &one,
                  const std::string &all, Diag kind, SourceRange where,
                  const Scope &scope) const {
  bool ok = true;
  auto number = [&](const ExprPtr &expr, int64_t otherwise) {
    if (!expr) {
      return otherwise;
    }
    if (auto *last = dynCast<NameExpr>(expr.get());
        last && last->name == "last") {
      return size - 1;
    }
    std::optional<int64_t> value =
        sema::evaluateInteger(*expr, scope.environment, diags, one);
    ok &= value.has_value();
    return value.value_or(0);
  };
  IndexRange result;
  result.begin = number(range.index ? range.index : range.begin, 0);
  result.end = range.index ? result.begin + 1 : number(range.end, size);
  result.every = number(range.every, 1);
  if (!ok) {
    return std::nullopt;
  }
  if (result.begin < 0 || result.end > size || result.begin >= result.end ||
      result.every < 1) {
    diags.error(kind, where, all + " are none of 0 .. " + std::to_string(size))
        .help("ranges are half open, and `last` is " +
              std::to_string(size - 1));
    return std::nullopt;
  }
  return result;
}

bool Names::addRange(const StepRange &range, const std::string &name,
                     layout::Step &step, const Scope &scope) const {
  const layout::DimInfo *dim = findDim(name);
  if (!dim || !dim->repeated) {
    std::vector<std::string> loops;
    for (const layout::DimInfo &each : facts.dims) {
      if (each.repeated) {
        loops.push_back(each.name);
      }
    }
    diags
        .error(Diag::UnknownPath, range.range,
               "`" + name +
                   "` is not the dim of a `repeat`, so it has no "
                   "indices")
        .help(suggestion(name, loops));
    return false;
  }
  std::optional<IndexRange> indices = indexRange(
      range, dim->size, "an index of `" + name + "`",
      "these indices of `" + name + "`", Diag::UnknownPath, range.range, scope);
  if (!indices) {
    return false;
  }
  step.hasRange = true;
  step.begin = indices->begin;
  step.end = indices->end;
  step.every = indices->every;
  if (step.begin != 0 || step.end != dim->size || step.every != 1) {
    diags
        .error(Diag::LaterLayers, range.range,
               "selecting some of `" + name + "` is not built yet")
        .help("leave the indices out to mean every `" + name + "`");
    return false;
  }
  step.hasRange = false; // all of them
  return true;
}

bool Names::matchesSomething(const Selection &pattern) const {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string &path) {
    return layout::matchesPath(pattern, path);
  });
}

std::optional<Selection> Names::path(const Path &path,
                                     const Scope &scope) const {
  if (!path.anchored && path.steps.size() == 1 &&
      path.steps[0].kind == PathStep::Named && !path.steps[0].index) {
    auto it = scope.selections.find(path.steps[0].name.text);
    if (it != scope.selections.end()) {
      return it->second;
    }
  }
  Selection result;
  result.kind = Kind::Path;
  result.anchored = path.anchored;
  bool optional = false;
  for (const PathStep &step : path.steps) {
    layout::Step next;
    next.optional = step.optional;
    optional |= step.optional;
    next.name = step.kind == PathStep::Star         ? "*"
                : step.kind == PathStep::DoubleStar ? "**"
                                                    : step.name.text;
    for (const RegionFact &region : facts.regions) {
      if (step.kind == PathStep::Named && region.function == next.name) {
        next.regions.push_back(region.path);
      }
    }
    if (step.index && !addRange(*step.index, next.name, next, scope)) {
      return std::nullopt;
    }
    result.path.push_back(std::move(next));
  }
  if (optional || matchesSomething(result)) {
    return result;
  }
  // The step to blame: the first that no path has anywhere, else the whole.
  const PathStep *blamed = nullptr;
  for (const PathStep &step : path.steps) {
    if (step.kind == PathStep::Named && !blamed &&
        std::find(stepNames.begin(), stepNames.end(), step.name.text) ==
            stepNames.end()) {
      blamed = &step;
    }
  }
  std::string text(diags.sourceManager().text(path.range));
  auto builder =
      diags.error(Diag::UnknownPath, blamed ? blamed->range : path.range,
                  "`" + text + "` matches nothing in `" + facts.model + "`");
  if (blamed) {
    std::vector<std::string> known = stepNames;
    if (path.steps.size() == 1) {
      for (const char *role :
           {"params", "weights", "gradients", "optimizer", "activations",
            "inputs", "forward", "backward", "update", "all"}) {
        known.push_back(role);
      }
    }
    if (std::optional<std::string> meant =
            didYouMean(blamed->name.text, known)) {
      builder.help("did you mean `" + *meant + "`?");
    } else {
      std::vector<std::string> shown;
      for (const RegionFact &region : facts.regions) {
        if (region.path.find('/') == std::string::npos) {
          shown.push_back(region.path);
        }
      }
      builder.help(
          suggestion(blamed->name.text, shown.empty() ? stepNames : shown));
    }
  } else {
    builder.help("each of its steps exists, but not in this order");
  }
  builder.help("`" + text + "?` may match nothing");
  return std::nullopt;
}

std::optional<Selection> Names::where(const Expr &expr, Selection start,
                                      const Scope &scope) const {
  auto *binary = dynCast<BinaryExpr>(&expr);
  if (binary && binary->op == BinaryOp::And) {
    std::optional<Selection> left =
        where(*binary->left, std::move(start), scope);
    return left ? where(*binary->right, std::move(*left), scope) : std::nullopt;
  }
  if (binary && binary->op == BinaryOp::Or) {
    std::optional<Selection> left = where(*binary->left, start, scope);
    std::optional<Selection> right =
        where(*binary->right, std::move(start), scope);
    return left && right ? std::optional(ofKind(Kind::Any, {std::move(*left),
                                                            std::move(*right)}))
                         : std::nullopt;
  }
  auto attributeOf = [](const Expr &side) -> std::string {
    auto *name = dynCast<NameExpr>(&side);
    return name && (name->name == "bytes" || name->name == "rank") ? name->name
                                                                   : "";
  };
  std::string attribute =
      binary && isComparison(binary->op) ? attributeOf(*binary->left) : "";
  if (attribute.empty()) {
    auto builder =
        diags.error(Diag::BadWhere, expr.range, "selections cannot test this");
    builder.help("write `where bytes > 4 MiB` or `where rank >= 2`");
    return std::nullopt;
  }
  std::optional<sema::Value> value =
      sema::evaluate(*binary->right, scope.environment, diags);
  if (!value) {
    return std::nullopt;
  }
  bool fits = value->isNumber() &&
              (value->quantity == Quantity::Plain ||
               (attribute == "bytes" && value->quantity == Quantity::Bytes));
  double number = fits ? value->number() : 0;
  if (!fits || number != static_cast<double>(static_cast<int64_t>(number))) {
    diags.error(
        Diag::BadWhere, binary->right->range,
        "`" + attribute + "` is compared with " +
            (attribute == "bytes" ? "a whole number of bytes" : "an integer") +
            ", not with " + value->describe());
    return std::nullopt;
  }
  Selection result = ofKind(Kind::Where, {std::move(start)});
  result.attribute = attribute;
  result.comparison = spelling(binary->op);
  result.number = static_cast<int64_t>(number);
  for (const layout::DimInfo &dim : facts.dims) {
    if (dim.repeated) {
      result.repeated.push_back(dim.name);
    }
  }
  return result;
}

} // namespace cleave::plan
