// One call of a function that the compiler knows. Internal to lang/sema.
#pragma once

#include "lang/sema/Elaborator.h"

namespace cleave::sema {

class BuiltinCall {
public:
  BuiltinCall(Elaborator &e, const ast::CallExpr &call)
      : e(e), call(call), args(call), name(call.callee.text()),
        range(call.range) {}

  // Builtins.cpp: elementwise functions and constants.
  Val unary();
  Val extremum(); // maximum, minimum
  Val pow();
  Val where();
  Val cast(); // f32(x), i32(x), cast(x, f32)
  Val stopGradient();
  Val filled(); // zeros, ones, full
  Val random(); // uniform, normal
  Val dropout();

  // Contractions.cpp: what sums over dims or looks up along one.
  Val dot();
  Val reduce(); // sum, mean, max, min
  Val cumsum();
  Val softmax(); // softmax, logsumexp
  Val lookup();
  Val pick();

  // Shapes.cpp: what only changes dims.
  Val index();
  Val size();
  Val rename();
  Val split(); // split, merge
  Val slice();
  Val concat();
  Val stack();
  Val unstack();

private:
  // The number of positional arguments, and the names of the others.
  bool accept(size_t least, size_t most, const Strings &named);
  Val arg(size_t i);
  const ast::Expr &expr(size_t i) { return *args.positional[i]->value; }
  // Positional argument i or that of that name as a number; `otherwise` where
  // it is not given, and nothing after an error.
  std::optional<double> number(size_t i, const char *named, double otherwise);

  // Dims that an argument names: one, or a list of some; products as their
  // factors. Nothing after an error.
  std::optional<Strings> dimsIn(const ast::Expr &expr);
  // The dims that `over:`, which must be given, names. Nothing after an error.
  std::optional<Strings> overDims();
  // A dim that is no sum, as written in an argument's name.
  std::string dimOf(const ast::Name &name);
  // Whether the tensor has these dims; else an error that names both.
  bool has(Tensor tensor, const Strings &dims, SourceRange where,
           const char *which = "the operand");
  bool isElement(Tensor tensor, mlir::Type element, SourceRange where);
  // `like: x`, `without: d`, `dims: [..]`, or a list by position.
  std::optional<mlir::RankedTensorType> shape(size_t position);
  Tensor draw(mlir::RankedTensorType type, const std::string &site);
  std::optional<std::string> site();
  clv::Build build() { return e.at(range); }
  static llvm::SmallVector<llvm::StringRef> refs(const Strings &names) {
    return {names.begin(), names.end()};
  }

  Elaborator &e;
  const ast::CallExpr &call;
  Arguments args;
  std::string name;
  SourceRange range;
};

} // namespace cleave::sema
