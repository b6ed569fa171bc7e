// The dims of a model: sizes, products, sums.
//
// Products and sums never appear in MLIR types. `leaves` gives the dims that do
// for a dim that does not: the factors of a product, major first.
#pragma once

#include "lang/ast/Ast.h"
#include "layout/Plan.h"

#include <map>
#include <string>
#include <vector>

namespace cleave::sema {

inline std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}
// "[a, b]".
std::string listed(const std::vector<std::string> &names);

class DimTable {
public:
  const std::vector<layout::DimInfo> &all() const { return dims; }
  const layout::DimInfo *find(std::string_view name) const;
  SourceRange rangeOf(std::string_view name) const;

  // Null, after an error, where the name is taken or the size cannot be.
  layout::DimInfo *addSize(const ast::Name &name, int64_t size,
                           SourceRange sizeRange, DiagnosticEngine &diags);
  bool addProduct(const ast::Name &name, const ast::DimProduct &product,
                  DiagnosticEngine &diags);
  bool addSum(const ast::DimDef &def, DiagnosticEngine &diags);
  bool addLike(const ast::Name &name, const ast::Name &like,
               DiagnosticEngine &diags);

  // The dim of a `repeat`: declares it, or marks one of that size.
  bool addRepeat(const ast::Name &name, int64_t size, SourceRange sizeRange,
                 DiagnosticEngine &diags);

  bool isSum(std::string_view name) const;
  // Of a dim that is no sum: itself, or its factors.
  std::vector<std::string> leaves(std::string_view name) const;
  int64_t size(std::string_view name) const;
  std::vector<std::string> names() const;

private:
  layout::DimInfo *add(const ast::Name &name, DiagnosticEngine &diags);
  bool factorsOf(const ast::DimProduct &product,
                 std::vector<std::string> &factors, int64_t &size,
                 DiagnosticEngine &diags);

  std::vector<layout::DimInfo> dims;
  std::map<std::string, size_t, std::less<>> positions;
  std::map<std::string, SourceRange, std::less<>> ranges;
};

} // namespace cleave::sema
