// What names mean inside a plan or strategy, while it is elaborated.
#pragma once

#include "lang/plan/Devices.h"
#include "lang/plan/Facts.h"
#include "lang/sema/Evaluate.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cleave::plan {

// One factor of a product of axes.
struct AxisFactor {
  Interval interval;
  bool optional = false; // `?`
  std::string text;
};

// An ordered product of axes, major first; empty: `none`, or sizes of one.
struct AxisProduct {
  std::vector<AxisFactor> factors;

  int64_t size() const {
    int64_t product = 1;
    for (const AxisFactor &factor : factors) {
      product *= factor.interval.size();
    }
    return product;
  }
  std::string text() const;
};

// Of a plan or strategy, one each time it is spliced. Expressions see their own
// scope and the root, which has dims and axes.
struct Scope {
  std::shared_ptr<Scope> root; // null in the root itself
  sema::Environment environment;
  std::map<std::string, AxisProduct, std::less<>> axes;
  std::map<std::string, std::vector<std::string>, std::less<>> dims;
  std::map<std::string, layout::Selection, std::less<>> selections;
  bool spliced = false; // by `use`: what is unused here is only a note
};

// Half open, within a size.
struct IndexRange {
  int64_t begin = 0, end = 0, every = 1;
};

// Resolves the names of one plan; shared by its parts.
class Names {
public:
  Names(const ModelFacts &facts, const Devices &devices,
        DiagnosticEngine &diags);

  const layout::DimInfo *findDim(const std::string &name) const;
  // The leaf dims a name stands for, major first; nothing after an error;
  // empty where it is absent and marked.
  std::optional<std::vector<std::vector<std::string>>>
  dims(const ast::Ref &ref, const Scope &scope) const;
  std::optional<AxisProduct> axis(const ast::AxisExpr &axis,
                                  const Scope &scope) const;
  // An expression that stands for an axis: a name or a product of names.
  std::optional<AxisProduct> axis(const ast::Expr &expr,
                                  const Scope &scope) const;
  std::optional<layout::Selection> selection(const ast::Selection &selection,
                                             const Scope &scope) const;
  // The clauses alone, on everything.
  std::optional<layout::Selection>
  clauses(const std::vector<ast::Clause> &clauses, layout::Selection start,
          const Scope &scope) const;
  // What stands between brackets, within `size`. `one` and `all` say of what
  // it is: "an index of `layer`", "these indices of `layer`". Nothing after an
  // error, of this kind and at this place where it is out of the size.
  std::optional<IndexRange> indexRange(const ast::StepRange &range,
                                       int64_t size, const std::string &one,
                                       const std::string &all, Diag kind,
                                       SourceRange where,
                                       const Scope &scope) const;
  const std::vector<layout::ValueInfo> &values() const { return all; }

private:
  std::optional<AxisProduct> axisNamed(const std::string &name, bool optional,
                                       SourceRange range,
                                       const Scope &scope) const;
  bool checkDisjoint(const AxisProduct &product, SourceRange range) const;
  std::vector<std::string> leavesOf(const std::vector<std::string> &names,
                                    unsigned depth = 0) const;
  std::optional<layout::Selection> group(const ast::Group &group,
                                         const Scope &scope) const;
  std::optional<layout::Selection> pick(const ast::Pick &pick,
                                        const Scope &scope) const;
  std::optional<layout::Selection> path(const ast::Path &path,
                                        const Scope &scope) const;
  bool addRange(const ast::StepRange &range, const std::string &name,
                layout::Step &step, const Scope &scope) const;
  std::optional<layout::Selection> where(const ast::Expr &expr,
                                         layout::Selection start,
                                         const Scope &scope) const;
  bool matchesSomething(const layout::Selection &path) const;

  const ModelFacts &facts;
  const Devices &devices;
  DiagnosticEngine &diags;
  std::vector<layout::ValueInfo> all;
  std::vector<std::string> stepNames; // for suggestions
  // Paths of values and regions, each once: a path pattern is tried on these.
  std::set<std::string> paths;
};

} // namespace cleave::plan
