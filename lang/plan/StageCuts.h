// Where a pipeline cuts its layers.
#pragma once

#include "lang/plan/Scope.h"

namespace cleave::plan {

// The boundaries of the stages' pieces of a repeated dim. With `counting` the
// regions named count as one layer each, before or after the repeat, and the
// split rule cuts what they make together: 126 layers with an embedding and an
// output over 8 stages are 128 items, 16 for each stage, so the stages hold 15,
// 16, …, 16, 15 layers. With `as` the pieces are written out. `by cost` counts
// floating-point operations of the forward pass, also of what stands before and
// after the layers, and makes the largest piece as small as can be.
class StageCuts {
public:
  StageCuts(const ModelFacts &facts, const layout::DimInfo &dim, int64_t pieces,
            DiagnosticEngine &diags)
      : facts(facts), dim(dim), pieces(pieces), diags(diags) {}

  // Fills `boundaries`. False after an error was reported.
  bool find(const ast::PipelineStmt &stmt, const Scope &scope);

  std::vector<int64_t> boundaries; // pieces + 1; empty: the split rule's

private:
  // Where a region stands, seen from the repeat.
  enum class Side { Before, After };

  std::optional<Side> sideOf(const ast::Name &region);
  bool balance(SourceRange range);
  bool count(const std::vector<ast::Name> &regions);
  bool spell(const ast::PipelineStmt &stmt, const Scope &scope);
  std::optional<int64_t> layersOf(const ast::PipelineStmt::Piece &piece,
                                  bool first, bool last,
                                  std::set<std::string> &seen);
  std::optional<int64_t> timesOf(const ast::PipelineStmt::Piece &piece,
                                 const Scope &scope);
  bool wrong(SourceRange range, const std::string &message,
             const std::string &help);

  const ModelFacts &facts;
  const layout::DimInfo &dim;
  int64_t pieces;
  DiagnosticEngine &diags;
};

} // namespace cleave::plan
