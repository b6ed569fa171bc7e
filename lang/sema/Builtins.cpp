// Functions that the compiler knows: the table, and those that compute element
// by element or make values from nothing.
#include "lang/sema/Builtins.h"

#include <cmath>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

using Method = Val (BuiltinCall::*)();

const std::map<std::string, Method> &table() {
  static const std::map<std::string, Method> methods = {
      {"exp", &BuiltinCall::unary},
      {"log", &BuiltinCall::unary},
      {"sqrt", &BuiltinCall::unary},
      {"rsqrt", &BuiltinCall::unary},
      {"sin", &BuiltinCall::unary},
      {"cos", &BuiltinCall::unary},
      {"tanh", &BuiltinCall::unary},
      {"erf", &BuiltinCall::unary},
      {"relu", &BuiltinCall::unary},
      {"gelu", &BuiltinCall::unary},
      {"silu", &BuiltinCall::unary},
      {"sigmoid", &BuiltinCall::unary},
      {"abs", &BuiltinCall::unary},
      {"maximum", &BuiltinCall::extremum},
      {"minimum", &BuiltinCall::extremum},
      {"pow", &BuiltinCall::pow},
      {"where", &BuiltinCall::where},
      {"f32", &BuiltinCall::cast},
      {"i32", &BuiltinCall::cast},
      {"cast", &BuiltinCall::cast},
      {"stop_gradient", &BuiltinCall::stopGradient},
      {"zeros", &BuiltinCall::filled},
      {"ones", &BuiltinCall::filled},
      {"full", &BuiltinCall::filled},
      {"uniform", &BuiltinCall::random},
      {"normal", &BuiltinCall::random},
      {"dropout", &BuiltinCall::dropout},
      {"dot", &BuiltinCall::dot},
      {"sum", &BuiltinCall::reduce},
      {"mean", &BuiltinCall::reduce},
      {"max", &BuiltinCall::reduce},
      {"min", &BuiltinCall::reduce},
      {"cumsum", &BuiltinCall::cumsum},
      {"softmax", &BuiltinCall::softmax},
      {"logsumexp", &BuiltinCall::softmax},
      {"lookup", &BuiltinCall::lookup},
      {"pick", &BuiltinCall::pick},
      {"index", &BuiltinCall::index},
      {"size", &BuiltinCall::size},
      {"rename", &BuiltinCall::rename},
      {"split", &BuiltinCall::split},
      {"merge", &BuiltinCall::split},
      {"slice", &BuiltinCall::slice},
      {"concat", &BuiltinCall::concat},
      {"stack", &BuiltinCall::stack},
      {"unstack", &BuiltinCall::unstack}};
  return methods;
}

struct UnaryFunction {
  Elementwise function;
  double (*compute)(double); // of a constant
};

const std::map<std::string, UnaryFunction> &unaryFunctions() {
  static const std::map<std::string, UnaryFunction> functions = {
      {"exp", {Elementwise::Exp, [](double x) { return std::exp(x); }}},
      {"log", {Elementwise::Log, [](double x) { return std::log(x); }}},
      {"sqrt", {Elementwise::Sqrt, [](double x) { return std::sqrt(x); }}},
      {"rsqrt",
       {Elementwise::Rsqrt, [](double x) { return 1 / std::sqrt(x); }}},
      {"sin", {Elementwise::Sin, [](double x) { return std::sin(x); }}},
      {"cos", {Elementwise::Cos, [](double x) { return std::cos(x); }}},
      {"tanh", {Elementwise::Tanh, [](double x) { return std::tanh(x); }}},
      {"erf", {Elementwise::Erf, [](double x) { return std::erf(x); }}},
      {"relu", {Elementwise::Relu, [](double x) { return x > 0 ? x : 0; }}},
      {"gelu",
       {Elementwise::Gelu,
        [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }}},
      {"silu",
       {Elementwise::Silu, [](double x) { return x / (1 + std::exp(-x)); }}},
      {"sigmoid",
       {Elementwise::Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }}},
      {"abs", {Elementwise::Abs, [](double x) { return std::fabs(x); }}}};
  return functions;
}

mlir::Type elementOf(Tensor tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

} // namespace

bool Elaborator::isBuiltin(const std::string &name) {
  return table().count(name);
}

Strings Elaborator::builtinNames() {
  Strings result;
  for (const auto &[name, method] : table()) {
    result.push_back(name);
  }
  return result;
}

Val Elaborator::callBuiltin(const CallExpr &call) {
  std::string name = call.callee.text();
  if (call.as && name != "dropout" && name != "uniform" && name != "normal") {
    diags.error(Diag::BadArguments, call.as->range,
                quoted(name) + " makes no region, so `as` has no meaning");
    return {};
  }
  BuiltinCall builtin(*this, call);
  return (builtin.*table().at(name))();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

bool BuiltinCall::accept(size_t least, size_t most, const Strings &named) {
  size_t given = args.positional.size();
  if (given < least || given > most) {
    std::string count = least == most   ? std::to_string(least)
                        : given < least ? "at least " + std::to_string(least)
                                        : "at most " + std::to_string(most);
    e.diags.error(Diag::BadArguments, range,
                  quoted(name) + " takes " + count +
                      (count == "1" ? " value" : " values") + ", not " +
                      std::to_string(given));
    return false;
  }
  for (size_t i = 0; i < args.named.size(); ++i) {
    const Arg *arg = args.named[i];
    for (size_t j = 0; j < i; ++j) {
      if (args.named[j]->name->text == arg->name->text) {
        e.diags.error(Diag::BadArguments, arg->range,
                      quoted(arg->name->text) + " is given twice");
        return false;
      }
    }
    if (!llvm::is_contained(named, arg->name->text)) {
      e.diags
          .error(Diag::BadArguments, arg->name->range,
                 quoted(name) + " has no argument " + quoted(arg->name->text))
          .help(suggestion(arg->name->text, named));
      return false;
    }
  }
  return true;
}

Val BuiltinCall::arg(size_t i) { return e.visit(expr(i)); }

std::optional<double> BuiltinCall::number(size_t i, const char *named,
                                          double otherwise) {
  const Arg *arg = args.find(named);
  if (!arg && i < args.positional.size()) {
    arg = args.positional[i];
  }
  if (!arg) {
    return otherwise;
  }
  Val value = e.visit(*arg->value);
  if (value.isError()) {
    return std::nullopt;
  }
  if (!value.isConstant() || !value.constant.isNumber()) {
    e.diags.error(Diag::NotCompileTime, arg->value->range,
                  quoted(named) +
                      " must be a number known when compiling, "
                      "not " +
                      e.describe(value));
    return std::nullopt;
  }
  return value.constant.number();
}

bool BuiltinCall::isElement(Tensor tensor, mlir::Type element,
                            SourceRange where) {
  if (elementOf(tensor) == element) {
    return true;
  }
  const char *wanted = element.isF32()         ? "f32"
                       : element.isInteger(32) ? "i32"
                                               : "bool";
  auto error = e.diags.error(Diag::ElementMismatch, where,
                             quoted(name) + " takes " + wanted + ", not " +
                                 e.describe(Val::of(tensor)));
  if (!element.isInteger(1)) {
    error.help(std::string("cast it: `") + wanted + "(x)`");
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

Val BuiltinCall::unary() {
  if (!accept(1, 1, {})) {
    return {};
  }
  Val x = arg(0);
  const UnaryFunction &function = unaryFunctions().at(name);
  if (x.isConstant() && x.constant.isNumber() &&
      x.constant.quantity == Quantity::Plain) {
    double value = function.compute(x.constant.number());
    if (!std::isfinite(value)) {
      e.diags.error(Diag::BadOperands, range,
                    quoted(name) + " of " + x.constant.text() +
                        " is no finite number");
      return {};
    }
    bool keeps = x.constant.isInteger() && (name == "abs" || name == "relu");
    return Val::of(keeps ? Value::ofInteger(static_cast<int64_t>(value))
                         : Value::ofReal(value));
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor || !isElement(tensor, e.builder.getF32Type(), expr(0).range)) {
      return {};
    }
    return e.elementwise(function.function, {tensor}, range);
  });
}

Val BuiltinCall::extremum() {
  if (!accept(2, 2, {})) {
    return {};
  }
  Val a = arg(0), b = arg(1);
  bool isMax = name == "maximum";
  if (a.isConstant() && b.isConstant()) {
    auto less = apply(BinaryOp::Less, a.constant, b.constant, range, e.diags);
    return !less ? Val() : less->boolean == isMax ? b : a;
  }
  return e.lift({a, b}, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor left, right;
    if (!e.unify(vals[0], vals[1], expr(0), expr(1), range, left, right)) {
      return {};
    }
    if (elementOf(left).isInteger(1)) {
      e.diags.error(Diag::ElementMismatch, range,
                    quoted(name) + " takes f32 or i32, not bool");
      return {};
    }
    return e.elementwise(isMax ? Elementwise::Maximum : Elementwise::Minimum,
                         {left, right}, range);
  });
}

Val BuiltinCall::pow() {
  if (!accept(2, 2, {})) {
    return {};
  }
  Val a = arg(0), b = arg(1);
  return e.binary(BinaryOp::Power, a, b, expr(0), expr(1), range);
}

Val BuiltinCall::where() {
  if (!accept(3, 3, {})) {
    return {};
  }
  Val condition = arg(0), a = arg(1), b = arg(2);
  if (condition.isConstant() && condition.constant.kind == Value::Kind::Bool) {
    return condition.constant.boolean ? a : b;
  }
  return e.lift(
      {condition, a, b}, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
        Tensor c = e.materialize(vals[0], expr(0).range);
        Tensor left, right;
        if (!c || !isElement(c, e.builder.getI1Type(), expr(0).range) ||
            !e.unify(vals[1], vals[2], expr(1), expr(2), range, left, right)) {
          return {};
        }
        return e.elementwise(Elementwise::Select, {c, left, right}, range);
      });
}

Val BuiltinCall::cast() {
  bool isNamed = name != "cast";
  if (!accept(isNamed ? 1 : 2, isNamed ? 1 : 2, {})) {
    return {};
  }
  std::string target = name;
  if (!isNamed) {
    auto *type = dynCast<NameExpr>(&expr(1));
    target = type ? type->name : "";
  }
  if (target != "f32" && target != "i32") {
    e.diags.error(Diag::BadType, isNamed ? range : expr(1).range,
                  "a cast is to `f32` or `i32`");
    return {};
  }
  mlir::Type element = target == "f32" ? mlir::Type(e.builder.getF32Type())
                                       : mlir::Type(e.builder.getI32Type());
  return e.lift(arg(0), range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    bool isNumber = vals[0].isConstant() && vals[0].constant.isNumber();
    Tensor x = e.materialize(vals[0], expr(0).range,
                             isNumber ? element : mlir::Type());
    return x ? build().cast(x, element) : Tensor();
  });
}

Val BuiltinCall::stopGradient() {
  if (!accept(1, 1, {})) {
    return {};
  }
  Val x = arg(0);
  if (x.isConstant()) {
    return x;
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    return tensor ? e.elementwise(Elementwise::Identity, {tensor}, range)
                  : Tensor();
  });
}

//===----------------------------------------------------------------------===//
// From nothing
//===----------------------------------------------------------------------===//

std::optional<mlir::RankedTensorType> BuiltinCall::shape(size_t position) {
  Strings names;
  const Arg *like = args.find("like");
  const Arg *list = args.find("dims");
  if (!list && position < args.positional.size()) {
    list = args.positional[position];
  }
  if (like && list) {
    e.diags.error(Diag::BadArguments, list->range,
                  "the dims are given twice: by `like` and by a list");
    return std::nullopt;
  }
  if (like) {
    Val value = e.visit(*like->value);
    if (value.isError()) {
      return std::nullopt;
    }
    Tensor tensor = e.materialize(value, like->value->range);
    if (!tensor) {
      return std::nullopt;
    }
    for (llvm::StringRef dim : clv::dimsOf(tensor)) {
      names.push_back(dim.str());
    }
  } else if (list) {
    std::optional<Strings> found = dimsIn(*list->value);
    if (!found) {
      return std::nullopt;
    }
    names = *found;
  }
  if (const Arg *without = args.find("without")) {
    std::optional<Strings> dropped = dimsIn(*without->value);
    if (!dropped) {
      return std::nullopt;
    }
    for (const std::string &dim : *dropped) {
      auto it = std::find(names.begin(), names.end(), dim);
      if (it == names.end()) {
        e.diags.error(Diag::MissingDim, without->value->range,
                      "`without` names " + quoted(dim) +
                          ", which is not among " + listed(names));
        return std::nullopt;
      }
      names.erase(it);
    }
  }
  return e.typeOf(Element::F32, names);
}

Val BuiltinCall::filled() {
  bool isFull = name == "full";
  if (!accept(isFull ? 1 : 0, isFull ? 2 : 1, {"like", "without", "dims"})) {
    return {};
  }
  Tensor value;
  if (isFull) {
    Val given = arg(0);
    value = e.materialize(given, expr(0).range);
    if (!value || !isElement(value, e.builder.getF32Type(), expr(0).range)) {
      return {};
    }
  }
  std::optional<mlir::RankedTensorType> type = shape(isFull ? 1 : 0);
  if (!type) {
    return {};
  }
  if (!isFull) {
    value = build().constant(name == "ones" ? 1 : 0);
  }
  if (!clv::dimsOf(value).empty()) {
    e.diags.error(Diag::NotScalar, expr(0).range,
                  "`full` takes one number, not " + e.describe(Val::of(value)));
    return {};
  }
  return Val::of(build().broadcast(value, *type));
}

/// The name of this draw: its region's path and its own, which no other draw in
/// the region has.
std::optional<std::string> BuiltinCall::site() {
  if (!e.updatePath.empty()) {
    e.diags.error(Diag::LaterOperation, range,
                  "random numbers in an optimizer are not built yet");
    return std::nullopt;
  }
  std::string step = call.as ? call.as->text : name;
  if (!e.own(*e.node, step, range, /*isCall=*/true, call.as.has_value())) {
    return std::nullopt;
  }
  const std::string &path = e.node->path;
  return path.empty() ? step : path + "/" + step;
}

Tensor BuiltinCall::draw(mlir::RankedTensorType type, const std::string &site) {
  // The seed and the step become arguments of the function when first used.
  mlir::Type scalar = mlir::RankedTensorType::get({}, e.builder.getI32Type());
  mlir::Location loc = e.location(range);
  if (!e.seed) {
    e.seed = e.root->block->addArgument(scalar, loc);
    e.step = e.root->block->addArgument(scalar, loc);
  }
  // Repeats inside repeats count as one loop.
  clv::Build b = build();
  Tensor iteration;
  int64_t inside = 1;
  for (RegionNode *n = e.node; n; n = n->parent) {
    if (n->isRepeat) {
      Tensor part =
          inside == 1 ? n->index : b.mul(n->index, b.constantInt(inside));
      iteration = iteration ? b.add(part, iteration) : part;
      inside *= e.dims.size(n->dim);
    }
  }
  if (!iteration) {
    iteration = b.constantInt(0);
  }
  auto op = e.builder.create<clv::RandomOp>(
      loc, type, e.seed, e.step, iteration, e.builder.getStringAttr(site));
  clv::setScope(op, b.scope);
  return op.getResult();
}

Val BuiltinCall::random() {
  bool isNormal = name == "normal";
  const char *first = isNormal ? "deviation" : "low";
  const char *second = isNormal ? "mean" : "high";
  if (!accept(0, 3, {first, second, "like", "without", "dims"})) {
    return {};
  }
  // The dims may stand first, as a list.
  bool hasList = !args.positional.empty() && isa<ListExpr>(&expr(0));
  size_t at = hasList ? 1 : 0;
  std::optional<double> a = number(at, first, isNormal ? 1 : 0);
  std::optional<double> b = number(at + 1, second, isNormal ? 0 : 1);
  std::optional<mlir::RankedTensorType> type = shape(hasList ? 0 : 3);
  if (!a || !b || !type) {
    return {};
  }
  std::optional<std::string> where = site();
  if (!where) {
    return {};
  }
  clv::Build make = build();
  if (!isNormal) {
    Tensor u = draw(*type, *where);
    return Val::of(
        make.add(make.mul(u, make.constant(*b - *a)), make.constant(*a)));
  }
  // Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v), with 1 - u in (0, 1].
  Tensor u = draw(*type, *where + ".radius");
  Tensor v = draw(*type, *where + ".angle");
  Tensor radius = make.elementwise(
      Elementwise::Sqrt,
      make.mul(make.elementwise(Elementwise::Log,
                                e.elementwise(Elementwise::Sub,
                                              {make.constant(1), u}, range)),
               make.constant(-2)));
  Tensor angle = make.elementwise(
      Elementwise::Cos, make.mul(v, make.constant(6.283185307179586)));
  Tensor z = make.mul(radius, angle);
  return Val::of(make.add(make.mul(z, make.constant(*a)), make.constant(*b)));
}

Val BuiltinCall::dropout() {
  if (!accept(1, 2, {"rate"})) {
    return {};
  }
  Val x = arg(0);
  std::optional<double> rate = number(1, "rate", -1);
  if (x.isError() || !rate) {
    return {};
  }
  if (!(*rate >= 0 && *rate < 1)) {
    e.diags.error(Diag::BadArguments, range,
                  "`dropout` needs a rate of at least 0 and below 1");
    return {};
  }
  if (!x.isTensor()) {
    e.diags.error(Diag::NotATensor, expr(0).range,
                  "`dropout` takes a tensor, not " + e.describe(x));
    return {};
  }
  if (!isElement(x.tensor, e.builder.getF32Type(), expr(0).range)) {
    return {};
  }
  if (*rate == 0) {
    return x;
  }
  // Where nothing is dropped the names are still taken, alike in every entry.
  std::optional<std::string> where = site();
  if (!where) {
    return {};
  }
  if (e.mode == Elaborator::Mode::Eval) {
    return x;
  }
  auto type = mlir::cast<mlir::RankedTensorType>(x.tensor.getType());
  Tensor u = draw(type, *where);
  clv::Build make = build();
  Tensor kept = make.elementwise(
      Elementwise::LessEqual, {make.broadcast(make.constant(*rate), type), u});
  Tensor scaled = make.mul(x.tensor, make.constant(1 / (1 - *rate)));
  return Val::of(e.elementwise(Elementwise::Select,
                               {kept, scaled, make.constant(0)}, range));
}
