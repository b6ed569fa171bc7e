// Parameters of plans and strategies: numbers, axes, dims and selections.
#include "lang/plan/Splice.h"

#include <algorithm>

using namespace cleave::ast;

namespace cleave::plan {

using layout::Selection;

bool Splicer::bindOne(const Param &param, const Expr &value,
                      const Scope &caller, Scope &scope, DiagnosticEngine &to) {
  const std::string &name = param.name.text;
  std::string type = param.type ? param.type->text : "";
  std::string what = "`" + name + "`";
  if (type == "axis") {
    std::optional<AxisProduct> product = names.axis(value, caller);
    if (!product) {
      return false;
    }
    scope.environment.values[name] = sema::Value::ofInteger(product->size());
    scope.axes[name] = std::move(*product);
    return true;
  }
  if (type == "dim") {
    auto *dim = dynCast<NameExpr>(&value);
    Ref ref;
    ref.range = value.range;
    ref.parts.push_back({{value.range}, dim ? dim->name : ""});
    if (!dim) {
      to.error(Diag::BadUseArgument, value.range,
               what + " must be the name of a dim");
      return false;
    }
    auto it = caller.dims.find(dim->name);
    if (it == caller.dims.end() && !names.dims(ref, caller)) {
      return false;
    }
    scope.dims[name] = it != caller.dims.end()
                           ? it->second
                           : std::vector<std::string>{dim->name};
    if (const layout::DimInfo *info = names.findDim(scope.dims[name][0])) {
      scope.environment.values[name] = sema::Value::ofInteger(info->size);
    }
    return true;
  }
  if (type == "int") {
    std::optional<int64_t> number =
        sema::evaluateInteger(value, caller.environment, to, what);
    if (number) {
      scope.environment.values[name] = sema::Value::ofInteger(*number);
    }
    return number.has_value();
  }
  if (!type.empty() && type != "bytes") {
    to.error(Diag::BadUseArgument, param.type->range,
             "unknown type `" + type + "` of a parameter")
        .help("a parameter is an `int`, `axis`, `dim` or `bytes`, or has no "
              "type");
    return false;
  }
  // Without a type: a number, or a selection.
  auto *plainName = dynCast<NameExpr>(&value);
  if (plainName) {
    auto given = caller.selections.find(plainName->name);
    if (given != caller.selections.end()) {
      scope.selections[name] = given->second;
      return true;
    }
  }
  bool isSelection =
      type.empty() &&
      (value.kind == ExprKind::Selection || value.kind == ExprKind::Tuple ||
       (plainName && !caller.environment.lookup(plainName->name)));
  if (isSelection) {
    std::optional<ast::Selection> written = asSelection(value);
    std::optional<Selection> selection =
        written ? names.selection(*written, caller) : std::nullopt;
    if (!written) {
      to.error(Diag::BadUseArgument, value.range,
               what + " must be a number or a selection");
    }
    if (selection) {
      scope.selections[name] = std::move(*selection);
    }
    return selection.has_value();
  }
  std::optional<sema::Value> result =
      sema::evaluate(value, caller.environment, to);
  if (!result) {
    return false;
  }
  if (type == "bytes" &&
      !(result->isNumber() &&
        (result->quantity == Quantity::Bytes || result->number() == 0))) {
    to.error(Diag::BadUseArgument, value.range,
             what + " must be a number of bytes, not " + result->describe())
        .help("write `400 KB` or `4 MiB`");
    return false;
  }
  scope.environment.values[name] = std::move(*result);
  return true;
}

bool Splicer::bind(const std::vector<Param> &params,
                   const std::vector<Arg> &args, SourceRange at,
                   const std::string &what, const std::vector<Name> *axes,
                   const Scope &caller, Scope &scope, DiagnosticEngine &to) {
  std::vector<std::string> known;
  for (const Param &param : params) {
    known.push_back(param.name.text);
  }
  std::vector<const Expr *> given(params.size());
  std::map<std::string, const Expr *> givenAxes;
  bool ok = true, named = false;
  size_t position = 0;
  for (const Arg &arg : args) {
    size_t index = params.size();
    if (!arg.name) {
      if (named || position >= params.size()) {
        to.error(Diag::BadUseArgument, arg.range,
                 named ? "a positional argument after a named one"
                       : what + " takes " + std::to_string(params.size()) +
                             " arguments")
            .help(suggestion("", known));
        ok = false;
        continue;
      }
      index = position++;
    } else {
      named = true;
      const std::string &name = arg.name->text;
      index = std::find(known.begin(), known.end(), name) - known.begin();
      if (index == params.size()) {
        bool isAxis = axes && std::any_of(axes->begin(), axes->end(),
                                          [&](const Name &axis) {
                                            return axis.text == name;
                                          });
        if (isAxis) {
          givenAxes[name] = arg.value.get();
          continue;
        }
        to.error(Diag::BadUseArgument, arg.name->range,
                 what + " has no parameter `" + name + "`")
            .help(suggestion(name, known));
        ok = false;
        continue;
      }
      if (given[index]) {
        to.error(Diag::BadUseArgument, arg.range,
                 "`" + name + "` is given twice");
        ok = false;
      }
    }
    given[index] = arg.value.get();
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const Param &param = params[i];
    if (given[i]) {
      ok &= bindOne(param, *given[i], caller, scope, to);
      continue;
    }
    // `-D` reaches the parameters of the plan that is asked for.
    auto override = options.overrides.find(param.name.text);
    if (open.size() == 1 && override != options.overrides.end()) {
      scope.environment.values[param.name.text] = override->second;
    } else if (param.defaultValue) {
      ok &= bindOne(param, *param.defaultValue, scope, scope, to);
    } else {
      // Unless a misspelt argument is the one that is missing.
      if (ok) {
        to.error(Diag::BadUseArgument, at,
                 what + " needs a value for `" + param.name.text + "`")
            .note(param.range, "declared here, without a default");
      }
      ok = false;
    }
  }
  // Axes that a strategy may lack: the mesh's of that name, or of size 1.
  for (const Name &axis : axes ? *axes : std::vector<Name>{}) {
    AxisProduct product;
    if (auto it = givenAxes.find(axis.text); it != givenAxes.end()) {
      std::optional<AxisProduct> found = names.axis(*it->second, caller);
      ok &= found.has_value();
      product = found.value_or(AxisProduct{});
    } else if (const DeviceAxis *own = devices.find(axis.text)) {
      product.factors.push_back({own->interval, false, axis.text});
    }
    scope.environment.values[axis.text] =
        sema::Value::ofInteger(product.size());
    scope.axes[axis.text] = std::move(product);
  }
  return ok;
}

} // namespace cleave::plan
