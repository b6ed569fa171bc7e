// Types, and parameters.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

mlir::Type Elaborator::elementType(Element element) {
  switch (element) {
  case Element::F32:
    return builder.getF32Type();
  case Element::I32:
    return builder.getI32Type();
  case Element::Bool:
    return builder.getI1Type();
  }
  return {};
}

mlir::RankedTensorType Elaborator::typeOf(Element element,
                                          const Strings &names) {
  llvm::SmallVector<llvm::StringRef> refs(names.begin(), names.end());
  llvm::SmallVector<int64_t> sizes;
  for (const std::string &name : names) {
    sizes.push_back(dims.size(name));
  }
  return clv::tensorType(elementType(element), refs, sizes);
}

std::optional<Elaborator::TypeInfo>
Elaborator::resolveType(const TypeRef &type) {
  TypeInfo result;
  const std::string &element = type.element.text;
  if (element == "f32") {
    result.element = Element::F32;
  } else if (element == "i32") {
    result.element = Element::I32;
  } else if (element == "bool") {
    result.element = Element::Bool;
  } else {
    static const Strings later = {"f16", "bf16", "f64", "i8",  "u8",  "i16",
                                  "i64", "u32",  "f8",  "fp8", "fp4", "u16"};
    if (llvm::is_contained(later, element)) {
      diags
          .error(Diag::LaterElement, type.element.range,
                 "element type " + quoted(element) + " is not built yet")
          .help("this version computes in `f32`, `i32` and `bool`");
    } else {
      diags
          .error(Diag::BadType, type.element.range,
                 "unknown element type " + quoted(element))
          .help(suggestion(element, {"f32", "i32", "bool"}));
    }
    return std::nullopt;
  }
  // The dims of each part: a sum multiplies nothing, it makes alternatives.
  result.parts = {{"", {}}};
  bool good = true;
  __int128 elements = 1;
  for (const Name &name : type.dims) {
    std::string dim = resolveDim(name.text, name.range);
    const layout::DimInfo *info = dims.find(dim);
    if (!info) {
      good = false;
      continue;
    }
    elements *= info->size;
    if (elements > (__int128(1) << 62)) {
      diags.error(Diag::TooLarge, type.range,
                  "the tensor has too many elements");
      return std::nullopt;
    }
    if (!info->parts.empty()) {
      if (!result.sumDim.empty()) {
        diags.error(Diag::BadType, name.range,
                    "a type has at most one sum of dims, and " +
                        quoted(result.sumDim) + " is one already");
        return std::nullopt;
      }
      result.sumDim = dim;
      Strings before = result.parts[0].second;
      result.parts.clear();
      for (const auto &[part, factors] : info->parts) {
        Strings all = before;
        all.insert(all.end(), factors.begin(), factors.end());
        result.parts.push_back({part, all});
      }
    } else {
      for (auto &[part, names] : result.parts) {
        for (const std::string &leaf : dims.leaves(dim)) {
          names.push_back(leaf);
        }
      }
    }
    for (auto &[part, names] : result.parts) {
      std::set<std::string> distinct(names.begin(), names.end());
      if (distinct.size() != names.size()) {
        diags
            .error(Diag::BadType, name.range,
                   "the type has a dim twice: " + listed(names))
            .help("a tensor has each dim once; declare a second dim of that "
                  "size");
        return std::nullopt;
      }
    }
  }
  return good ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<Init> Elaborator::resolveInit(const CallExpr &call) {
  std::string name = call.callee.text();
  struct Form {
    const char *name;
    Strings params;
    size_t required;
  };
  static const std::vector<Form> forms = {{"zeros", {}, 0},
                                          {"ones", {}, 0},
                                          {"full", {"value"}, 1},
                                          {"normal", {"deviation", "mean"}, 1},
                                          {"uniform", {"low", "high"}, 2}};
  const Form *form = nullptr;
  Strings known;
  for (const Form &f : forms) {
    known.push_back(f.name);
    form = name == f.name ? &f : form;
  }
  if (!form) {
    diags
        .error(Diag::BadInit, call.callee.range,
               "unknown way to initialise: " + quoted(name))
        .help(suggestion(name, known));
    return std::nullopt;
  }
  std::vector<std::optional<double>> values(form->params.size());
  size_t position = 0;
  for (const Arg &arg : call.args) {
    size_t i = position;
    if (arg.name) {
      i = std::find(form->params.begin(), form->params.end(), arg.name->text) -
          form->params.begin();
    } else {
      ++position;
    }
    if (i >= values.size() || values[i]) {
      diags.error(Diag::BadInit, arg.range,
                  quoted(name) + " has no such argument");
      return std::nullopt;
    }
    values[i] = evaluateNumber(*arg.value, environment(), diags,
                               "an argument of " + quoted(name));
    if (!values[i]) {
      return std::nullopt;
    }
  }
  for (size_t i = 0; i < form->required; ++i) {
    if (!values[i]) {
      diags.error(Diag::BadInit, call.range,
                  quoted(name) + " needs " + quoted(form->params[i]));
      return std::nullopt;
    }
  }
  if (name == "normal") {
    if (*values[0] < 0) {
      diags.error(Diag::BadInit, call.range,
                  "a standard deviation is at least 0");
      return std::nullopt;
    }
    return Init{Init::Kind::Normal, values[1].value_or(0), *values[0]};
  }
  if (name == "uniform") {
    return Init{Init::Kind::Uniform, *values[0], *values[1]};
  }
  return Init{Init::Kind::Constant,
              name == "ones" ? 1 : (name == "full" ? *values[0] : 0), 0};
}

void Elaborator::runParam(const ParamStmt &stmt) {
  if (!updatePath.empty()) {
    diags.error(Diag::BadStatement, stmt.keyword,
                "an optimizer has `state`, not `param`");
    return;
  }
  std::optional<TypeInfo> type = resolveType(stmt.type);
  if (type && type->element != Element::F32) {
    diags.error(Diag::BadType, stmt.type.element.range,
                "a parameter is `f32`: it has a gradient");
    type.reset();
  }
  std::optional<Init> init;
  if (stmt.init) {
    init = resolveInit(*stmt.init);
  } else {
    diags
        .error(Diag::BadInit, stmt.range,
               "the parameter does not say how it begins")
        .help("add `~ normal(0.02)`, `~ zeros` or `~ ones`");
  }
  for (const Name &name : stmt.names) {
    bool good = type && init &&
                own(*node, name.text, name.range,
                    /*isCall=*/false, /*isNamed=*/true);
    Val value;
    std::string path =
        (node->paramPath.empty() ? "" : node->paramPath + "/") + name.text;
    if (good && type->sumDim.empty()) {
      value = Val::of(addLeaf(name, path, *type, type->parts[0].second, *init));
    } else if (good) {
      value.kind = Val::Kind::Sum;
      value.sumDim = type->sumDim;
      for (const auto &[part, names] : type->parts) {
        value.parts.push_back(
            {part, addLeaf(name, path + "." + part, *type, names, *init)});
      }
    }
    if (declare(name, std::move(value), false) && good) {
      find(name.text)->paramPath = path;
    }
  }
}

Tensor Elaborator::addLeaf(const Name &name, const std::string &path,
                           const TypeInfo &type, const Strings &leafDims,
                           const Init &init) {
  // The repeats around it, outermost last.
  llvm::SmallVector<RegionNode *> repeats;
  for (RegionNode *n = node; n; n = n->parent) {
    if (n->isRepeat) {
      repeats.push_back(n);
    }
  }
  LeafInfo leaf;
  leaf.path = path;
  leaf.element = type.element;
  leaf.init = init;
  leaf.range = name.range;
  for (RegionNode *repeat : llvm::reverse(repeats)) {
    leaf.dims.push_back(repeat->dim);
    leaf.sizes.push_back(repeat->count);
    leaf.repeatDim = repeat->dim;
  }
  for (const std::string &dim : leafDims) {
    leaf.dims.push_back(dim);
    leaf.sizes.push_back(dims.size(dim));
  }
  auto typeFrom = [&](size_t first) {
    llvm::SmallVector<llvm::StringRef> refs(leaf.dims.begin() + first,
                                            leaf.dims.end());
    return clv::tensorType(
        elementType(type.element), refs,
        llvm::ArrayRef<int64_t>(leaf.sizes).drop_front(first));
  };
  mlir::Location loc = location(name.range);
  Tensor value = root->block->addArgument(typeFrom(0), loc);
  // A path that is taken belongs to an unnamed call, which is reported when
  // that call ends.
  if (leafByPath.try_emplace(path, leaves.size()).second) {
    leafArguments.push_back(value);
    leaves.push_back(leaf);
  }
  size_t depth = 0;
  for (RegionNode *repeat : llvm::reverse(repeats)) {
    repeat->stacked.push_back(value);
    value = repeat->block->addArgument(typeFrom(++depth), loc);
  }
  return value;
}
