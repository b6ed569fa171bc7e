// Built-in functions that only change dims.
#include "lang/sema/Builtins.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

static mlir::RankedTensorType typeOf(Tensor tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType());
}

Val BuiltinCall::index() {
  if (!accept(1, 1, {})) {
    return {};
  }
  std::string dim = e.resolveDim(expr(0));
  if (dim.empty()) {
    return {};
  }
  if (e.dims.isSum(dim)) {
    e.diags.error(Diag::LaterOperation, expr(0).range,
                  "`index` of a sum of dims is not built yet");
    return {};
  }
  // Of a product: major first, so the last factor has stride one.
  Tensor result;
  int64_t stride = 1;
  Strings factors = e.dims.leaves(dim);
  for (const std::string &leaf : llvm::reverse(factors)) {
    clv::Build make = build();
    int64_t size = e.dims.size(leaf);
    Tensor part = make.index(leaf, size);
    if (stride != 1) {
      part = make.mul(part, make.constantInt(stride));
    }
    result =
        result ? e.elementwise(Elementwise::Add, {part, result}, range) : part;
    stride *= size;
  }
  return Val::of(result);
}

Val BuiltinCall::size() {
  if (!accept(1, 1, {})) {
    return {};
  }
  // A dim first: inside a repeat its name alone would be the index.
  std::string dim = e.resolveDim(expr(0), /*report=*/false);
  if (!dim.empty()) {
    return Val::of(Value::ofInteger(e.dims.size(dim)));
  }
  Val value = arg(0);
  if (value.isError()) {
    return {};
  }
  if (!value.isConstant()) {
    e.diags.error(Diag::BadOperands, expr(0).range,
                  "`size` takes a dim, a list or a range, not " +
                      e.describe(value));
    return {};
  }
  auto result = applyFunction(call, {value.constant}, e.diags);
  return result ? Val::of(*result) : Val();
}

Val BuiltinCall::rename() {
  // A product has the sizes of its factors: 12 x 8 is not 16 x 6.
  auto sizesOf = [&](const Strings &leaves) {
    std::string text = leaves.size() > 1 ? "factors " : "size ";
    for (const std::string &leaf : leaves) {
      text += (&leaf == &leaves.front() ? "" : " x ") +
              std::to_string(e.dims.size(leaf));
    }
    return text;
  };
  if (args.positional.size() != 1 || args.named.empty()) {
    e.diags
        .error(Diag::BadArguments, range,
               "`rename` takes a tensor and the dims to rename")
        .help("write `rename(x, from: to)`");
    return {};
  }
  Val x = arg(0);
  std::map<std::string, std::string> renames;
  for (const Arg *arg : args.named) {
    std::string from = dimOf(*arg->name);
    std::string to = from.empty() ? "" : e.resolveDim(*arg->value);
    if (to.empty()) {
      return {};
    }
    Strings before = e.dims.leaves(from), after = e.dims.leaves(to);
    bool fits = before.size() == after.size() && !e.dims.isSum(to);
    for (size_t i = 0; fits && i < before.size(); ++i) {
      fits = e.dims.size(before[i]) == e.dims.size(after[i]);
    }
    if (!fits) {
      e.diags
          .error(Diag::DimMismatch, arg->range,
                 quoted(from) + " has " + sizesOf(before) + " and " +
                     quoted(to) + " has " + sizesOf(after))
          .note(e.dims.rangeOf(from), quoted(from) + " is declared here")
          .note(e.dims.rangeOf(to), quoted(to) + " is declared here")
          .help("a rename keeps sizes (of a product: of each factor)");
      return {};
    }
    for (size_t i = 0; i < before.size(); ++i) {
      renames[before[i]] = after[i];
    }
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor) {
      return {};
    }
    Strings from;
    for (const auto &[before, after] : renames) {
      from.push_back(before);
    }
    if (!has(tensor, from, range)) {
      return {};
    }
    Strings names;
    for (llvm::StringRef dim : clv::dimsOf(tensor)) {
      auto it = renames.find(dim.str());
      names.push_back(it == renames.end() ? dim.str() : it->second);
      for (size_t i = 0; i + 1 < names.size(); ++i) {
        if (names[i] == names.back()) {
          e.diags.error(Diag::DimMismatch, range,
                        "the result would have " + quoted(names[i]) +
                            " twice; the operand is " +
                            e.describe(Val::of(tensor)));
          return {};
        }
      }
    }
    clv::Build make = build();
    auto op = e.builder.create<clv::RenameOp>(
        make.loc,
        clv::tensorType(typeOf(tensor).getElementType(), refs(names),
                        typeOf(tensor).getShape()),
        tensor);
    clv::setScope(op, make.scope);
    return op.getResult();
  });
}

Val BuiltinCall::split() {
  if (!accept(2, 2, {})) {
    return {};
  }
  Val x = arg(0);
  std::string dim = e.resolveDim(expr(1));
  if (dim.empty()) {
    return {};
  }
  const layout::DimInfo *info = e.dims.find(dim);
  if (info->factors.empty()) {
    e.diags
        .error(Diag::BadDim, expr(1).range,
               quoted(dim) + " is no product of dims")
        .note(e.dims.rangeOf(dim), "it is declared here")
        .help("declare it with `dim " + dim + " of a * b`");
    return {};
  }
  // A product stands as its factors, so there is nothing to do but to check.
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    return tensor && has(tensor, info->factors, expr(1).range) ? tensor
                                                               : Tensor();
  });
}

Val BuiltinCall::slice() {
  const Arg *to = args.find("to");
  if (args.positional.size() != 1 || args.named.size() != (to ? 2 : 1)) {
    e.diags
        .error(Diag::BadArguments, range,
               "`slice` takes a tensor and a range of one dim")
        .help("write `slice(x, dim: begin .. end, to: other)`");
    return {};
  }
  const Arg &along = *args.named[args.named[0] == to ? 1 : 0];
  Val x = arg(0);
  std::string dim = dimOf(*along.name);
  auto *written = dynCast<RangeExpr>(along.value);
  if (dim.empty()) {
    return {};
  }
  if (e.dims.leaves(dim).size() != 1) {
    e.diags.error(Diag::LaterOperation, along.name->range,
                  "`slice` of a product of dims is not built yet");
    return {};
  }
  if (!written || written->every) {
    e.diags.error(Diag::BadArguments, along.value->range,
                  "`slice` takes a range without a stride: `begin .. end`");
    return {};
  }
  int64_t size = e.dims.size(dim);
  std::optional<int64_t> begin = 0, end = size;
  if (written->begin) {
    begin = evaluateInteger(*written->begin, e.environment(), e.diags,
                            "the begin of a slice");
  }
  if (written->end) {
    end = evaluateInteger(*written->end, e.environment(), e.diags,
                          "the end of a slice");
  }
  if (!begin || !end) {
    return {};
  }
  if (*begin < 0 || *end > size || *begin >= *end) {
    e.diags.error(Diag::IndexOutOfRange, along.value->range,
                  "elements " + std::to_string(*begin) + " .. " +
                      std::to_string(*end) + " of " + quoted(dim) +
                      ", which has " + std::to_string(size));
    return {};
  }
  std::string target = dim;
  if (to) {
    target = e.resolveDim(*to->value);
    if (target.empty()) {
      return {};
    }
  }
  if (e.dims.size(target) != *end - *begin ||
      e.dims.leaves(target).size() != 1 || e.dims.isSum(target)) {
    e.diags
        .error(Diag::DimMismatch, to ? to->range : range,
               "the slice has " + std::to_string(*end - *begin) +
                   " elements and " + quoted(target) + " has size " +
                   std::to_string(e.dims.size(target)))
        .help(to ? ""
                 : "name a dim of that size: `slice(x, " + dim +
                       ": begin .. end, to: other)`");
    return {};
  }
  return e.lift(x, range, [&](llvm::ArrayRef<Val> vals) -> Tensor {
    Tensor tensor = e.materialize(vals[0], expr(0).range);
    if (!tensor || !has(tensor, {dim}, along.name->range)) {
      return {};
    }
    if (target == dim) {
      return tensor;
    }
    if (clv::findDim(tensor.getType(), target) >= 0) {
      e.diags.error(Diag::DimMismatch, to->range,
                    "the result would have " + quoted(target) + " twice");
      return {};
    }
    return build().slice(tensor, dim, target, *begin, *end - *begin);
  });
}

Val BuiltinCall::concat() {
  const Arg *over = args.find("over"), *to = args.find("to");
  size_t count = args.positional.size();
  if (!accept(2, 64, {"over", "to"})) {
    return {};
  }
  if (!over || !to) {
    e.diags
        .error(Diag::BadArguments, range,
               "`concat` needs the dims it joins and the dim they make")
        .help("write `concat(a, b, over: [first, second], to: joined)`");
    return {};
  }
  std::optional<Strings> joined = dimsIn(*over->value);
  std::string target = e.resolveDim(*to->value);
  if (!joined || target.empty()) {
    return {};
  }
  if (joined->size() == 1) {
    joined = Strings(count, joined->front());
  }
  if (joined->size() != count) {
    e.diags.error(Diag::BadArguments, over->range,
                  std::to_string(joined->size()) + " dims for " +
                      std::to_string(count) + " values");
    return {};
  }
  int64_t total = 0;
  for (const std::string &dim : *joined) {
    total += e.dims.size(dim);
  }
  if (e.dims.size(target) != total || e.dims.leaves(target).size() != 1 ||
      e.dims.isSum(target)) {
    e.diags.error(Diag::DimMismatch, to->range,
                  "the parts have " + std::to_string(total) + " elements and " +
                      quoted(target) + " has size " +
                      std::to_string(e.dims.size(target)));
    return {};
  }
  Tensor result;
  int64_t first = 0;
  for (size_t i = 0; i < count; ++i) {
    Val value = arg(i);
    Tensor part = e.materialize(value, expr(i).range);
    const std::string &dim = (*joined)[i];
    if (!part || !has(part, {dim}, expr(i).range)) {
      return {};
    }
    if (result &&
        typeOf(part).getElementType() != typeOf(result).getElementType()) {
      isElement(part, typeOf(result).getElementType(), expr(i).range);
      return {};
    }
    if (typeOf(part).getElementType().isInteger(1)) {
      isElement(part, e.builder.getF32Type(), expr(i).range);
      return {};
    }
    if (target != dim && clv::findDim(part.getType(), target) >= 0) {
      e.diags.error(Diag::DimMismatch, expr(i).range,
                    "the operand has " + quoted(target) + " already");
      return {};
    }
    // Zeros around each part; they meet in a sum. Which the result lacks of a
    // part's dims is repeated, as everywhere.
    Tensor padded = build().pad(part, dim, target, first, total);
    first += e.dims.size(dim);
    if (!result) {
      result = padded;
      continue;
    }
    for (auto [a, b] : {std::pair(result, padded), std::pair(padded, result)}) {
      for (llvm::StringRef other : clv::dimsOf(a)) {
        if (clv::findDim(b.getType(), other) < 0) {
          e.diags.error(
              Diag::DimMismatch, range,
              "the parts have different dims: " + e.describe(Val::of(result)) +
                  " and " + e.describe(Val::of(padded)));
          return {};
        }
      }
    }
    result = e.elementwise(Elementwise::Add, {result, padded}, range);
  }
  return Val::of(result);
}

Val BuiltinCall::stack() {
  const Arg *over = args.find("over");
  size_t count = args.positional.size();
  if (!accept(1, 64, {"over"})) {
    return {};
  }
  std::string dim = over ? e.resolveDim(*over->value) : "";
  if (dim.empty()) {
    if (!over) {
      e.diags
          .error(Diag::BadArguments, range,
                 "`stack` does not say which dim it makes")
          .help("write `stack(a, b, over: dim)`");
    }
    return {};
  }
  if (e.dims.size(dim) != static_cast<int64_t>(count) ||
      e.dims.leaves(dim).size() != 1 || e.dims.isSum(dim)) {
    e.diags.error(Diag::DimMismatch, over->range,
                  std::to_string(count) + " values for " + quoted(dim) +
                      ", which has size " + std::to_string(e.dims.size(dim)));
    return {};
  }
  llvm::SmallVector<Tensor> parts;
  for (size_t i = 0; i < count; ++i) {
    Tensor part = e.materialize(arg(i), expr(i).range);
    if (!part) {
      return {};
    }
    if (clv::findDim(part.getType(), dim) >= 0) {
      e.diags.error(Diag::DimMismatch, expr(i).range,
                    "the operand has " + quoted(dim) + " already");
      return {};
    }
    if (!parts.empty() &&
        typeOf(part).getElementType() != typeOf(parts[0]).getElementType()) {
      isElement(part, typeOf(parts[0]).getElementType(), expr(i).range);
      return {};
    }
    parts.push_back(part);
  }
  // The dim first, then a choice by position: no part is copied twice.
  clv::Build make = build();
  Tensor position = make.index(dim, static_cast<int64_t>(count));
  llvm::SmallVector<Tensor> order = {position};
  order.append(parts.begin(), parts.end());
  mlir::RankedTensorType type =
      clv::elementwiseType(typeOf(parts[0]).getElementType(), order);
  Tensor result = make.broadcast(parts.back(), type);
  for (size_t i = count - 1; i-- > 0;) {
    Tensor here =
        make.elementwise(Elementwise::Equal,
                         {position, make.constantInt(static_cast<int64_t>(i))});
    result = make.elementwise(Elementwise::Select, {here, parts[i], result});
    result = make.broadcast(result, type);
  }
  return Val::of(result);
}

Val BuiltinCall::unstack() {
  if (!accept(1, 1, {"over"})) {
    return {};
  }
  Val x = arg(0);
  const Arg *over = args.find("over");
  std::string dim = over ? e.resolveDim(*over->value) : "";
  if (dim.empty() || x.isError()) {
    if (!over) {
      e.diags
          .error(Diag::BadArguments, range,
                 "`unstack` does not say which dim it takes apart")
          .help("write `unstack(x, over: dim)`");
    }
    return {};
  }
  Tensor tensor = e.materialize(x, expr(0).range);
  if (!tensor || !has(tensor, {dim}, over->value->range)) {
    return {};
  }
  int64_t count = e.dims.size(dim);
  if (count > 64) {
    e.diags.error(Diag::TooLarge, over->value->range,
                  "`unstack` makes one value for each position, at most 64");
    return {};
  }
  mlir::Type element = typeOf(tensor).getElementType();
  if (element.isInteger(1)) {
    isElement(tensor, e.builder.getF32Type(), expr(0).range);
    return {};
  }
  Val result;
  result.kind = Val::Kind::Tuple;
  clv::Build make = build();
  Tensor position = make.index(dim, count);
  Tensor zero = element.isF32() ? make.constant(0) : make.constantInt(0);
  for (int64_t i = 0; i < count; ++i) {
    Tensor here =
        make.elementwise(Elementwise::Equal, {position, make.constantInt(i)});
    Tensor kept =
        e.elementwise(Elementwise::Select, {here, tensor, zero}, range);
    result.items.push_back(
        Val::of(make.reduce(clv::Reduction::Sum, kept, {dim})));
  }
  return result;
}
