#include "lang/sema/Dims.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::sema;
using layout::DimInfo;

// Positions along a dim are 32-bit integers.
static constexpr int64_t mostSize = (int64_t(1) << 31) - 1;

std::string sema::listed(const std::vector<std::string> &names) {
  std::string result = "[";
  for (const std::string &name : names) {
    result += (result.size() > 1 ? ", " : "") + name;
  }
  return result + "]";
}

const DimInfo *DimTable::find(std::string_view name) const {
  auto it = positions.find(name);
  return it == positions.end() ? nullptr : &dims[it->second];
}

SourceRange DimTable::rangeOf(std::string_view name) const {
  auto it = ranges.find(name);
  return it == ranges.end() ? SourceRange() : it->second;
}

DimInfo *DimTable::add(const ast::Name &name, DiagnosticEngine &diags) {
  if (find(name.text)) {
    diags
        .error(Diag::DuplicateName, name.range,
               "dim " + quoted(name.text) + " is declared twice")
        .note(rangeOf(name.text), "the first declaration is here");
    return nullptr;
  }
  positions[name.text] = dims.size();
  ranges[name.text] = name.range;
  DimInfo &dim = dims.emplace_back();
  dim.name = name.text;
  return &dim;
}

DimInfo *DimTable::addSize(const ast::Name &name, int64_t size,
                           SourceRange sizeRange, DiagnosticEngine &diags) {
  if (size < 1 || size > mostSize) {
    diags
        .error(Diag::BadDim, sizeRange,
               "dim " + quoted(name.text) + " cannot have size " +
                   std::to_string(size))
        .help("a dim has at least 1 and fewer than 2^31 positions");
    return nullptr;
  }
  DimInfo *dim = add(name, diags);
  if (dim) {
    dim->size = size;
  }
  return dim;
}

bool DimTable::addRepeat(const ast::Name &name, int64_t size,
                         SourceRange sizeRange, DiagnosticEngine &diags) {
  auto it = positions.find(name.text);
  if (it == positions.end()) {
    DimInfo *dim = addSize(name, size, sizeRange, diags);
    if (dim) {
      dim->repeated = true;
    }
    return dim;
  }
  DimInfo &dim = dims[it->second];
  if (!dim.factors.empty() || !dim.parts.empty()) {
    diags.error(Diag::BadDim, name.range,
                "`repeat` runs over a plain dim, and " + quoted(name.text) +
                    " is a product or a sum");
    return false;
  }
  if (dim.size != size) {
    diags
        .error(Diag::DimMismatch, sizeRange,
               "dim " + quoted(name.text) + " has size " +
                   std::to_string(dim.size) + ", not " + std::to_string(size))
        .note(rangeOf(name.text), "it is declared here")
        .help("a dim has one size: give this `repeat` a dim of another name");
    return false;
  }
  dim.repeated = true;
  return true;
}

bool DimTable::factorsOf(const ast::DimProduct &product,
                         std::vector<std::string> &factors, int64_t &size,
                         DiagnosticEngine &diags) {
  size = 1;
  for (const ast::Name &factor : product.factors) {
    const DimInfo *dim = find(factor.text);
    if (!dim) {
      diags
          .error(Diag::UnknownDim, factor.range,
                 "unknown dim " + quoted(factor.text))
          .help(suggestion(factor.text, names()));
      return false;
    }
    if (!dim->parts.empty()) {
      diags.error(Diag::BadDim, factor.range,
                  quoted(factor.text) +
                      " is a sum of dims and cannot be a factor");
      return false;
    }
    for (const std::string &leaf : leaves(factor.text)) {
      if (std::find(factors.begin(), factors.end(), leaf) != factors.end()) {
        diags.error(Diag::BadDim, factor.range,
                    "dim " + quoted(leaf) + " is a factor twice");
        return false;
      }
      factors.push_back(leaf);
    }
    if (__builtin_mul_overflow(size, dim->size, &size) || size > mostSize) {
      diags.error(Diag::BadDim, product.range,
                  "the product of these dims is too large");
      return false;
    }
  }
  return true;
}

bool DimTable::addProduct(const ast::Name &name, const ast::DimProduct &product,
                          DiagnosticEngine &diags) {
  std::vector<std::string> factors;
  int64_t size = 1;
  if (!factorsOf(product, factors, size, diags)) {
    return false;
  }
  DimInfo *dim = add(name, diags);
  if (dim) {
    dim->factors = std::move(factors);
    dim->size = size;
  }
  return dim;
}

bool DimTable::addSum(const ast::DimDef &def, DiagnosticEngine &diags) {
  DimInfo result;
  int64_t total = 0;
  for (const ast::DimDef::Part &part : def.parts) {
    std::vector<std::string> factors;
    int64_t size = 1;
    if (!factorsOf(part.product, factors, size, diags)) {
      return false;
    }
    for (const auto &[name, other] : result.parts) {
      if (name == part.name.text) {
        diags.error(Diag::DuplicateName, part.name.range,
                    quoted(def.name.text) + " has two parts " + quoted(name));
        return false;
      }
    }
    result.parts.push_back({part.name.text, std::move(factors)});
    total += size;
  }
  DimInfo *dim = add(def.name, diags);
  if (dim) {
    dim->parts = std::move(result.parts);
    dim->size = total;
  }
  return dim;
}

bool DimTable::addLike(const ast::Name &name, const ast::Name &like,
                       DiagnosticEngine &diags) {
  const DimInfo *other = find(like.text);
  if (!other || like.text == name.text) {
    diags
        .error(Diag::UnknownDim, like.range, "unknown dim " + quoted(like.text))
        .help(suggestion(like.text, names()));
    return false;
  }
  if (!other->factors.empty() || !other->parts.empty()) {
    diags.error(Diag::BadDim, like.range,
                "a dim can be like a plain dim, and " + quoted(like.text) +
                    " is a product or a sum");
    return false;
  }
  dims[positions.find(name.text)->second].like = like.text;
  return true;
}

bool DimTable::isSum(std::string_view name) const {
  const DimInfo *dim = find(name);
  return dim && !dim->parts.empty();
}

std::vector<std::string> DimTable::leaves(std::string_view name) const {
  const DimInfo *dim = find(name);
  return dim && !dim->factors.empty() ? dim->factors
                                      : std::vector{std::string(name)};
}

int64_t DimTable::size(std::string_view name) const {
  const DimInfo *dim = find(name);
  return dim ? dim->size : 0;
}

std::vector<std::string> DimTable::names() const {
  std::vector<std::string> result;
  for (const DimInfo &dim : dims) {
    result.push_back(dim.name);
  }
  return result;
}
