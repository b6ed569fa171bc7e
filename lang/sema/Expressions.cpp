// Names and operators.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

Val Val::of(Value constant) {
  Val result;
  result.kind = Kind::Constant;
  result.constant = std::move(constant);
  return result;
}

Val Val::of(sema::Tensor tensor) {
  Val result;
  result.kind = tensor ? Kind::Tensor : Kind::Error;
  result.tensor = tensor;
  return result;
}

static mlir::Type elementOf(Tensor tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

static const char *spellingOf(mlir::Type element) {
  return element.isF32() ? "f32" : element.isInteger(1) ? "bool" : "i32";
}

std::string Elaborator::describe(const Val &value) {
  switch (value.kind) {
  case Val::Kind::Error:
    return "a value with an error";
  case Val::Kind::Constant:
    return value.constant.describe();
  case Val::Kind::Tensor: {
    Strings names;
    for (llvm::StringRef name : clv::dimsOf(value.tensor)) {
      names.push_back(name.str());
    }
    return quoted(spellingOf(elementOf(value.tensor)) +
                  (names.empty() ? std::string() : listed(names)));
  }
  case Val::Kind::Sum:
    return "a value with the parts of " + quoted(value.sumDim);
  case Val::Kind::Tuple:
    return std::to_string(value.items.size()) + " values";
  }
  return "a value";
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Binding *Elaborator::find(const std::string &name) {
  for (Scope *scope = frame->scope; scope; scope = scope->parent) {
    if (auto it = scope->bindings.find(name); it != scope->bindings.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

Strings Elaborator::visibleNames() {
  Strings result;
  for (Scope *scope = frame->scope; scope; scope = scope->parent) {
    for (const auto &[name, binding] : scope->bindings) {
      result.push_back(name);
    }
  }
  for (const auto &[name, dim] : frame->dims) {
    result.push_back(name);
  }
  return result;
}

Environment Elaborator::environment() {
  Environment result;
  result.resolve = [this](std::string_view written) -> std::optional<Value> {
    std::string name(written);
    if (Binding *binding = find(name)) {
      return binding->value.isConstant()
                 ? std::optional(binding->value.constant)
                 : std::nullopt;
    }
    if (auto it = frame->dims.find(name); it != frame->dims.end()) {
      return Value::ofInteger(dims.size(it->second));
    }
    return std::nullopt;
  };
  result.describeLater = [this](std::string_view written) -> std::string {
    Binding *binding = find(std::string(written));
    return binding && !binding->value.isConstant() ? describe(binding->value)
                                                   : "";
  };
  result.resolvable = visibleNames();
  return result;
}

Val Elaborator::read(const std::string &name, Binding &binding,
                     SourceRange range) {
  if (binding.paramPath.empty()) {
    return bring(binding.value, *binding.home, *node, name, range);
  }
  Val result = binding.value;
  if (result.isTensor()) {
    result.tensor = weight(result.tensor, binding.paramPath, *node, range);
  }
  for (auto &[part, tensor] : result.parts) {
    tensor = weight(tensor, binding.paramPath + "." + part, *node, range);
  }
  return result;
}

Val Elaborator::visitName(const Expr &expr, const std::string &name) {
  if (Binding *binding = find(name)) {
    return read(name, *binding, expr.range);
  }
  if (auto it = frame->dims.find(name); it != frame->dims.end()) {
    return Val::of(Value::ofInteger(dims.size(it->second)));
  }
  if (!updatePath.empty() && name == "step") {
    return Val::of(updateStep);
  }
  auto error = diags.error(Diag::UnknownName, expr.range,
                           "unknown name " + quoted(name));
  if (frame->fn && dims.find(name)) {
    error.help("a function sees the dims that it lists: `fn " +
               frame->fn->name.text + "(...) using " + name + "`");
  } else {
    error.help(suggestion(name, visibleNames()));
  }
  return {};
}

Val Elaborator::visitMember(const MemberExpr &expr) {
  auto *base = dynCast<NameExpr>(expr.base);
  if (base && !find(base->name) && !frame->dims.count(base->name)) {
    diags.error(Diag::UnknownName, expr.range,
                "unknown name " + quoted(base->name + "." + expr.member.text));
    return {};
  }
  Val value;
  Binding *binding = base ? find(base->name) : nullptr;
  if (binding && binding->value.isSum()) {
    // Only the part that is named becomes a weight or crosses an edge.
    Binding part = *binding;
    for (const auto &[name, tensor] : binding->value.parts) {
      if (name == expr.member.text) {
        part.value.parts = {{name, tensor}};
        return Val::of(read(base->name, part, expr.range).parts.front().second);
      }
    }
    value = binding->value;
  } else {
    value = visit(*expr.base);
  }
  if (value.isError()) {
    return {};
  }
  if (!value.isSum()) {
    diags.error(Diag::ComponentOfSum, expr.range,
                "only a value with a sum of dims has parts; this is " +
                    describe(value));
    return {};
  }
  Strings known;
  for (const auto &[name, tensor] : value.parts) {
    if (name == expr.member.text) {
      return Val::of(tensor);
    }
    known.push_back(name);
  }
  diags
      .error(Diag::ComponentOfSum, expr.member.range,
             quoted(value.sumDim) + " has no part " + quoted(expr.member.text))
      .help(suggestion(expr.member.text, known));
  return {};
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Val Elaborator::visit(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Name:
    return visitName(expr, static_cast<const NameExpr &>(expr).name);
  case ExprKind::Member:
    return visitMember(static_cast<const MemberExpr &>(expr));
  case ExprKind::Call:
    return visitCall(static_cast<const CallExpr &>(expr));
  case ExprKind::Index:
    return visitIndex(static_cast<const IndexExpr &>(expr));
  case ExprKind::Unary:
    return visitUnary(static_cast<const UnaryExpr &>(expr));
  case ExprKind::Binary:
    return visitBinary(static_cast<const BinaryExpr &>(expr));
  case ExprKind::Tuple: {
    Val result;
    result.kind = Val::Kind::Tuple;
    for (const ExprPtr &item : static_cast<const TupleExpr &>(expr).items) {
      result.items.push_back(visit(*item));
      if (result.items.back().isError()) {
        return {};
      }
    }
    return result;
  }
  default:
    return visitConstant(expr);
  }
}

Val Elaborator::visitConstant(const Expr &expr) {
  std::optional<Value> value = evaluate(expr, environment(), diags);
  return value ? Val::of(std::move(*value)) : Val();
}

Val Elaborator::visitIndex(const IndexExpr &expr) {
  Val base = visit(*expr.base);
  if (base.isError()) {
    return {};
  }
  if (base.isConstant()) {
    return visitConstant(expr);
  }
  if (!base.isTuple()) {
    diags
        .error(Diag::NotATensor, expr.range,
               describe(base) + " cannot be indexed by position")
        .help("dims have names: `slice(x, dim: begin .. end, to: other)`");
    return {};
  }
  std::optional<int64_t> i =
      evaluateInteger(*expr.index, environment(), diags, "an index");
  if (!i) {
    return {};
  }
  if (*i < 0 || *i >= static_cast<int64_t>(base.items.size())) {
    diags.error(Diag::IndexOutOfRange, expr.index->range,
                "index " + std::to_string(*i) + " of " + describe(base));
    return {};
  }
  return base.items[*i];
}

Val Elaborator::lift(llvm::ArrayRef<Val> values, SourceRange range,
                     llvm::function_ref<Tensor(llvm::ArrayRef<Val>)> function) {
  const Val *sum = nullptr;
  for (const Val &value : values) {
    if (value.isError()) {
      return {};
    }
    if (!value.isSum()) {
      continue;
    }
    if (sum && sum->sumDim != value.sumDim) {
      diags.error(Diag::DimMismatch, range,
                  "values with the parts of " + quoted(sum->sumDim) + " and " +
                      quoted(value.sumDim) + " cannot meet");
      return {};
    }
    sum = &value;
  }
  if (!sum) {
    return Val::of(function(values));
  }
  Val result = *sum;
  for (size_t i = 0; i < sum->parts.size(); ++i) {
    llvm::SmallVector<Val> args;
    for (const Val &value : values) {
      args.push_back(value.isSum() ? Val::of(value.parts[i].second) : value);
    }
    result.parts[i].second = function(args);
    if (!result.parts[i].second) {
      return {};
    }
  }
  return result;
}

Val Elaborator::visitUnary(const UnaryExpr &expr) {
  Val x = visit(*expr.operand);
  if (x.isError()) {
    return {};
  }
  bool isNot = expr.op == UnaryOp::Not;
  if (x.isConstant()) {
    const Value &value = x.constant;
    if (isNot ? value.kind == Value::Kind::Bool : value.isNumber()) {
      if (isNot) {
        return Val::of(Value::ofBool(!value.boolean));
      }
      auto negated =
          apply(BinaryOp::Subtract,
                value.isInteger() ? Value::ofInteger(0, value.quantity)
                                  : Value::ofReal(0, value.quantity),
                value, expr.range, diags);
      return negated ? Val::of(*negated) : Val();
    }
    diags.error(Diag::BadOperands, expr.operand->range,
                std::string(isNot ? "`not` takes true or false"
                                  : "`-` takes a number") +
                    ", not " + value.describe());
    return {};
  }
  return lift(x, expr.range, [&](llvm::ArrayRef<Val> args) -> Tensor {
    Tensor tensor = materialize(args[0], expr.operand->range);
    if (!tensor) {
      return {};
    }
    mlir::Type element = elementOf(tensor);
    if (isNot ? !element.isInteger(1) : element.isInteger(1)) {
      diags.error(
          Diag::ElementMismatch, expr.range,
          std::string(isNot ? "`not` takes bool" : "`-` takes f32 or i32") +
              ", not " + describe(args[0]));
      return {};
    }
    clv::Build build = at(expr.range);
    if (isNot) {
      return build.elementwise(Elementwise::Not, tensor);
    }
    return element.isF32() ? build.neg(tensor)
                           : build.sub(build.constantInt(0), tensor);
  });
}

Tensor Elaborator::materialize(const Val &value, SourceRange range,
                               mlir::Type element) {
  if (value.isError()) {
    return {};
  }
  if (value.isTensor()) {
    return value.tensor;
  }
  if (!value.isConstant() || (!value.constant.isNumber() &&
                              value.constant.kind != Value::Kind::Bool)) {
    diags.error(Diag::NotATensor, range,
                "a tensor or a number is needed here, not " + describe(value));
    return {};
  }
  const Value &constant = value.constant;
  clv::Build build = at(range);
  if (constant.kind == Value::Kind::Bool) {
    if (element && !element.isInteger(1)) {
      diags.error(Diag::ElementMismatch, range,
                  std::string("a truth value beside ") + spellingOf(element));
      return {};
    }
    return build.constantBool(constant.boolean);
  }
  if (constant.quantity != Quantity::Plain) {
    diags.error(Diag::BadOperands, range,
                constant.describe() + " cannot be part of a tensor");
    return {};
  }
  if (!element || element.isF32()) {
    return build.constant(constant.number());
  }
  double number = constant.number();
  if (!element.isInteger(32) || number != std::floor(number) ||
      std::fabs(number) > 2147483647.0) {
    diags
        .error(Diag::ElementMismatch, range,
               constant.describe() + " beside " + spellingOf(element))
        .help(element.isInteger(32) ? "cast the other operand with `f32(x)`"
                                    : "cast the other operand with `f32(x)` "
                                      "or compare it");
    return {};
  }
  return build.constantInt(static_cast<int64_t>(number));
}

Tensor Elaborator::elementwise(Elementwise function,
                               llvm::SmallVector<Tensor> operands,
                               SourceRange range, bool swapped) {
  clv::Build build = at(range);
  // The order of dims means nothing, but it is the order in memory: the
  // largest operand's is the least surprising.
  size_t first = function == Elementwise::Select ? 1 : 0;
  // Of equal ones the one that is written first.
  size_t largest = swapped ? 1 : first;
  for (size_t i = first; i < operands.size(); ++i) {
    if (clv::dimsOf(operands[i]).size() >
        clv::dimsOf(operands[largest]).size()) {
      largest = i;
    }
  }
  llvm::SmallVector<Tensor> order = {operands[largest]};
  order.append(operands.begin(), operands.end());
  mlir::RankedTensorType wanted =
      clv::elementwiseType(elementOf(operands[0]), order);
  auto dimsOfAll = [&] {
    return clv::dimsOf(clv::elementwiseType(elementOf(operands[0]), operands));
  };
  if (dimsOfAll() != clv::dimsOf(wanted)) {
    bool commutes =
        function == Elementwise::Add || function == Elementwise::Mul ||
        function == Elementwise::Equal || function == Elementwise::NotEqual ||
        function == Elementwise::And || function == Elementwise::Or;
    if (commutes) {
      std::swap(operands[0], operands[1]);
    }
    if (dimsOfAll() != clv::dimsOf(wanted)) {
      operands[0] = build.broadcast(operands[0],
                                    mlir::cast<mlir::RankedTensorType>(
                                        wanted.clone(elementOf(operands[0]))));
    }
  }
  return build.elementwise(function, operands);
}

bool Elaborator::unify(const Val &left, const Val &right, const Expr &leftExpr,
                       const Expr &rightExpr, SourceRange range, Tensor &a,
                       Tensor &b) {
  mlir::Type leftType = left.isTensor() ? elementOf(left.tensor) : mlir::Type();
  mlir::Type rightType =
      right.isTensor() ? elementOf(right.tensor) : mlir::Type();
  a = materialize(left, leftExpr.range, leftType ? leftType : rightType);
  b = a ? materialize(right, rightExpr.range, elementOf(a)) : Tensor();
  if (!a || !b) {
    return false;
  }
  if (elementOf(a) != elementOf(b)) {
    diags
        .error(Diag::ElementMismatch, range,
               "the operands are " + describe(Val::of(a)) + " and " +
                   describe(Val::of(b)))
        .help("cast one of them: `f32(x)` or `i32(x)`");
    return false;
  }
  return true;
}

Tensor Elaborator::power(Tensor base, const Val &exponent, SourceRange range) {
  clv::Build build = at(range);
  if (exponent.isConstant() && exponent.constant.isNumber()) {
    double n = exponent.constant.number();
    if (n == 1) {
      return base;
    }
    if (n == 2 || n == 3) {
      Tensor square = build.mul(base, base);
      return n == 2 ? square : build.mul(square, base);
    }
    if (n == -1) {
      return build.div(build.constant(1), base);
    }
    if (n == 0.5 || n == -0.5) {
      return build.elementwise(n > 0 ? Elementwise::Sqrt : Elementwise::Rsqrt,
                               base);
    }
  }
  Tensor right = materialize(exponent, range);
  return right ? elementwise(Elementwise::Pow, {base, right}, range) : Tensor();
}

Tensor Elaborator::binaryTensor(BinaryOp op, Tensor left, Tensor right,
                                SourceRange range) {
  mlir::Type element = elementOf(left);
  auto refuse = [&](const std::string &takes, const std::string &help) {
    diags
        .error(Diag::ElementMismatch, range,
               "`" + std::string(spelling(op)) + "` takes " + takes + ", not " +
                   describe(Val::of(left)))
        .help(help);
    return Tensor();
  };
  bool isBool = element.isInteger(1);
  switch (op) {
  case BinaryOp::And:
  case BinaryOp::Or:
    if (!isBool) {
      return refuse("bool", "compare first: `x != 0`");
    }
    return elementwise(op == BinaryOp::And ? Elementwise::And : Elementwise::Or,
                       {left, right}, range);
  case BinaryOp::Add:
  case BinaryOp::Subtract:
  case BinaryOp::Multiply:
    if (isBool) {
      return refuse("f32 or i32", "cast with `f32(x)` or `i32(x)`");
    }
    return elementwise(op == BinaryOp::Add        ? Elementwise::Add
                       : op == BinaryOp::Subtract ? Elementwise::Sub
                                                  : Elementwise::Mul,
                       {left, right}, range);
  case BinaryOp::Divide:
  case BinaryOp::Power:
    if (!element.isF32()) {
      return refuse("f32", "cast with `f32(x)`");
    }
    return elementwise(op == BinaryOp::Divide ? Elementwise::Div
                                              : Elementwise::Pow,
                       {left, right}, range);
  case BinaryOp::Remainder:
    diags.error(Diag::LaterOperation, range,
                "`%` between tensors is not built yet");
    return {};
  default:
    break;
  }
  if (isBool) {
    return refuse("f32 or i32", "combine with `and`, `or` and `not`");
  }
  switch (op) {
  case BinaryOp::Equal:
    return elementwise(Elementwise::Equal, {left, right}, range);
  case BinaryOp::NotEqual:
    return elementwise(Elementwise::NotEqual, {left, right}, range);
  case BinaryOp::Less:
    return elementwise(Elementwise::Less, {left, right}, range);
  case BinaryOp::LessEqual:
    return elementwise(Elementwise::LessEqual, {left, right}, range);
  case BinaryOp::Greater:
    return elementwise(Elementwise::Less, {right, left}, range,
                       /*swapped=*/true);
  default:
    return elementwise(Elementwise::LessEqual, {right, left}, range,
                       /*swapped=*/true);
  }
}

Val Elaborator::binary(BinaryOp op, const Val &left, const Val &right,
                       const Expr &leftExpr, const Expr &rightExpr,
                       SourceRange range) {
  if (left.isError() || right.isError()) {
    return {};
  }
  if (left.isConstant() && right.isConstant()) {
    std::optional<Value> value =
        apply(op, left.constant, right.constant, range, diags);
    return value ? Val::of(std::move(*value)) : Val();
  }
  return lift({left, right}, range, [&](llvm::ArrayRef<Val> args) -> Tensor {
    if (op == BinaryOp::Power && args[0].isTensor() &&
        elementOf(args[0].tensor).isF32() && args[1].isConstant()) {
      return power(args[0].tensor, args[1], range);
    }
    Tensor a, b;
    if (!unify(args[0], args[1], leftExpr, rightExpr, range, a, b)) {
      return {};
    }
    return binaryTensor(op, a, b, range);
  });
}

Val Elaborator::visitBinary(const BinaryExpr &expr) {
  Val left = visit(*expr.left);
  Val right = visit(*expr.right);
  return binary(expr.op, left, right, *expr.left, *expr.right, expr.range);
}
