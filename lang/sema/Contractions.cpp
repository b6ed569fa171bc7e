// Built-in functions that reduce over dims or look up along one.
#include "lang/sema/Builtins.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

static mlir::Type elementOf(Tensor tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Dims in arguments
//===----------------------------------------------------------------------===//

std::optional<Strings> BuiltinCall::dimsIn(const Expr &expr) {
  std::vector<const Expr *> items = {&expr};
  if (auto *list = dynCast<ListExpr>(&expr)) {
    items.clear();
    for (const ExprPtr &item : list->items) {
      items.push_back(item.get());
    }
  }
  Strings result;
  for (const Expr *item : items) {
    std::string dim = e.resolveDim(*item);
    if (dim.empty()) {
      return std::nullopt;
    }
    if (e.dims.isSum(dim)) {
      e.diags
          .error(Diag::LaterOperation, item->range,
                 quoted(name) + " over " + quoted(dim) +
                     ", a sum of dims, is not built yet")
          .help("select a part: `x.part`");
      return std::nullopt;
    }
    for (const std::string &leaf : e.dims.leaves(dim)) {
      if (llvm::is_contained(result, leaf)) {
        e.diags.error(Diag::BadArguments, item->range,
                      "dim " + quoted(leaf) + " is named twice");
        return std::nullopt;
      }
      result.push_back(leaf);
    }
  }
  return result;
}

std::optional<Strings> BuiltinCall::overDims() {
  if (const Arg *over = args.find("over")) {
    return dimsIn(*over->value);
  }
  e.diags
      .error(Diag::BadArguments, range,
             quoted(name) + " does not say over which dims")
      .help("write `" + name + "(x, over: dim)`");
  return std::nullopt;
}

std::string BuiltinCall::dimOf(const Name &written) {
  std::string dim = e.resolveDim(written.text, written.range);
  if (!dim.empty() && e.dims.isSum(dim)) {
    e.diags.error(Diag::LaterOperation, written.range,
                  quoted(name) + " along " + quoted(dim) +
                      ", a sum of dims, is not built yet");
    return {};
  }
  return dim;
}

bool BuiltinCall::has(Tensor tensor, const Strings &names, SourceRange where,
                      const char *which) {
  for (const std::string &dim : names) {
    if (clv::findDim(tensor.getType(), dim) < 0) {
      Strings found;
      for (llvm::StringRef other : clv::dimsOf(tensor)) {
        found.push_back(other.str());
      }
      auto error = e.diags.error(
          Diag::MissingDim, where,
          quoted(name) + " over " + quoted(dim) + ", but " + which +
              (found.empty() ? " has no dims" : " has only " + listed(found)));
      if (auto near = didYouMean(dim, found)) {
        error.help("did you mean " + quoted(*near) + "?");
      }
      return false;
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Contractions and reductions
//===----------------------------------------------------------------------===//

Val BuiltinCall::dot() {
  if (!accept(2, 2, {"over"})) {
    return {};
  }
  Val a = arg(0), b = arg(1);
  const Arg *over = args.find("over");
  if (!over) {
    e.diags
        .error(Diag::BadArguments, range,
               "`dot` does not say which dims it contracts")
        .help("write `dot(a, b, over: dim)`");
    return {};
  }
  std::optional<Strings> names = dimsIn(*over->value);
  if (!names) {
    return {};
  }
  return e.lift({a, b}, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensors[2];
    for (size_t i = 0; i < 2; ++i) {
      tensors[i] = e.materialize(vals[i], expr(i).range);
      if (!tensors[i] ||
          !isElement(tensors[i], e.builder.getF32Type(), expr(i).range)) {
        return {};
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      const char *which = i == 0 ? "the first operand" : "the second operand";
      for (const std::string &dim : *names) {
        if (clv::findDim(tensors[i].getType(), dim) >= 0) {
          continue;
        }
        e.diags
            .error(Diag::MissingDim, over->value->range,
                   "`dot` over " + quoted(dim) + ", which " + which + " lacks")
            .note(expr(0).range,
                  "the first operand is " + e.describe(Val::of(tensors[0])))
            .note(expr(1).range,
                  "the second operand is " + e.describe(Val::of(tensors[1])));
        return {};
      }
    }
    return build().dot(tensors[0], tensors[1], refs(*names));
  });
}

Val BuiltinCall::reduce() {
  bool isExtremum = name == "max" || name == "min";
  if (isExtremum && args.positional.size() > 1) {
    // Of sizes: `max(1, n)`.
    std::vector<Value> values;
    for (size_t i = 0; i < args.positional.size(); ++i) {
      Val value = arg(i);
      if (value.isError()) {
        return {};
      }
      if (!value.isConstant()) {
        e.diags
            .error(Diag::BadArguments, range,
                   quoted(name) + " of several values takes sizes only")
            .help("between tensors it is `" + name + "imum(a, b)`");
        return {};
      }
      values.push_back(value.constant);
    }
    auto result = applyFunction(call, std::move(values), e.diags);
    return result ? Val::of(*result) : Val();
  }
  if (!accept(1, 1, {"over"})) {
    return {};
  }
  Val x = arg(0);
  const Arg *over = args.find("over");
  std::optional<Strings> names = Strings();
  if (over) {
    names = dimsIn(*over->value);
  }
  if (!names || x.isError()) {
    return {};
  }
  if (x.isConstant() && isExtremum && !over) {
    auto result = applyFunction(call, {x.constant}, e.diags);
    return result ? Val::of(*result) : Val();
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor) {
      return {};
    }
    mlir::Type element = elementOf(tensor);
    if (element.isInteger(1) || (name == "mean" && !element.isF32())) {
      isElement(tensor, e.builder.getF32Type(), expr(0).range);
      return {};
    }
    if (over && !has(tensor, *names, over->value->range)) {
      return {};
    }
    Strings all = *names;
    if (!over) {
      for (llvm::StringRef dim : clv::dimsOf(tensor)) {
        all.push_back(dim.str());
      }
    }
    clv::Reduction kind = name == "max"   ? clv::Reduction::Max
                          : name == "min" ? clv::Reduction::Min
                                          : clv::Reduction::Sum;
    clv::Build make = build();
    Tensor result = make.reduce(kind, tensor, refs(all));
    if (name == "mean") {
      double count = 1;
      for (const std::string &dim : all) {
        count *= static_cast<double>(e.dims.size(dim));
      }
      result = make.mul(result, make.constant(1 / count));
    }
    return result;
  });
}

Val BuiltinCall::cumsum() {
  if (!accept(1, 1, {"over"})) {
    return {};
  }
  Val x = arg(0);
  std::optional<Strings> names = overDims();
  if (!names) {
    return {};
  }
  SourceRange where = args.find("over")->value->range;
  if (names->size() != 1) {
    e.diags.error(Diag::BadArguments, where,
                  "`cumsum` runs along one dim, not along " + listed(*names));
    return {};
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor || !isElement(tensor, e.builder.getF32Type(), expr(0).range) ||
        !has(tensor, *names, where)) {
      return {};
    }
    return build().cumsum(tensor, names->front());
  });
}

Val BuiltinCall::softmax() {
  if (!accept(1, 1, {"over"})) {
    return {};
  }
  Val x = arg(0);
  std::optional<Strings> names = overDims();
  if (!names) {
    return {};
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor || !isElement(tensor, e.builder.getF32Type(), expr(0).range) ||
        !has(tensor, *names, args.find("over")->value->range)) {
      return {};
    }
    return name == "softmax" ? build().softmax(tensor, refs(*names))
                             : build().logsumexp(tensor, refs(*names));
  });
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

Val BuiltinCall::lookup() {
  if (args.positional.size() != 1 || args.named.size() != 1) {
    e.diags
        .error(Diag::BadArguments, range,
               quoted(name) + " takes a tensor and the ids along one dim")
        .help("write `" + name + "(x, dim: ids)`");
    return {};
  }
  const Arg &along = *args.named[0];
  Val table = arg(0), ids = e.visit(*along.value);
  std::string dim = dimOf(*along.name);
  if (dim.empty() || table.isError() || ids.isError()) {
    return {};
  }
  if (e.dims.leaves(dim).size() != 1) {
    e.diags.error(Diag::LaterOperation, along.name->range,
                  quoted(name) + " along " + quoted(dim) +
                      ", a product of dims, is not built yet");
    return {};
  }
  mlir::Type integer = e.builder.getI32Type();
  Tensor places = e.materialize(ids, along.value->range, integer);
  if (!places || !isElement(places, integer, along.value->range)) {
    return {};
  }
  e.noteBound(places, e.dims.size(dim));
  return e.lift(table, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor x = e.materialize(vals[0], expr(0).range);
    if (!x || !isElement(x, e.builder.getF32Type(), expr(0).range) ||
        !has(x, {dim}, along.name->range)) {
      return {};
    }
    if (name == "pick") {
      if (clv::findDim(places.getType(), dim) >= 0) {
        e.diags.error(Diag::DimMismatch, along.value->range,
                      "the ids have " + quoted(dim) +
                          " themselves, along which `pick` looks up");
        return {};
      }
      // One element in each row, and zeros that do not count: unlike a lookup,
      // this splits in every dim.
      clv::Build make = build();
      Tensor position = make.index(dim, e.dims.size(dim));
      Tensor here =
          e.elementwise(Elementwise::Equal, {places, position}, range);
      Tensor kept = e.elementwise(Elementwise::Select,
                                  {here, x, make.constant(0)}, range);
      return build().reduce(clv::Reduction::Sum, kept, {dim});
    }
    for (llvm::StringRef other : clv::dimsOf(places)) {
      if (clv::findDim(x.getType(), other) >= 0) {
        e.diags
            .error(Diag::DimMismatch, range,
                   "`lookup` gives " + quoted(other.str()) +
                       " twice: the table and the ids both have it")
            .help(other == dim ? "rename it in the ids"
                               : "to take one element in each row, use `pick`");
        return {};
      }
    }
    return build().lookup(x, places, dim);
  });
}

Val BuiltinCall::pick() { return lookup(); }
