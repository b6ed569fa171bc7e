// Where a pipeline cuts its layers, and where it puts other items.
#pragma once

#include "lang/plan/Scope.h"

#include <map>

namespace cleave::plan {

// A pipeline is a list of items in the order of the model: iterations of
// repeats, and regions. By default the iterations of one repeat are cut by the
// split rule, what stands before them is at the first position, what stands
// after them at the last.
//
// `counting` lets the regions named count as one iteration each, and the split
// rule cuts what they make together: 126 layers with an embedding and an output
// over 8 stages are 128 items, 16 for each stage, so the stages hold 15, 16, …,
// 16, 15 layers. With `as` the items of each position are written out, of
// several repeats too. `by cost` counts floating-point operations of the
// forward pass, also of what stands before and after the layers, and makes the
// largest piece as small as can be.
class StageCuts {
public:
  StageCuts(const ModelFacts &facts, const layout::DimInfo &dim, int64_t pieces,
            DiagnosticEngine &diags)
      : facts(facts), dim(dim), pieces(pieces), diags(diags) {}

  // Fills what follows. False after an error was reported.
  bool find(const ast::PipelineStmt &stmt, const Scope &scope);

  // Of each repeat that is cut, `dim` too: pieces + 1 boundaries, or none: the
  // split rule's.
  std::map<std::string, std::vector<int64_t>> boundaries;
  std::vector<layout::StagedRegion> regions; // that are put somewhere
  std::string why;                           // of `by cost`

private:
  struct Item {
    std::string name; // a repeated dim, or a region's path
    int64_t size = 0; // of a repeat; 0: a region
    size_t order = 0; // in the model
  };

  std::optional<Item> itemOf(const ast::Name &name);
  std::optional<Item> repeatOf(const layout::DimInfo &repeat,
                               SourceRange range);
  std::optional<Item> regionOf(const ast::Name &name);
  const layout::DimInfo *repeatIn(const std::string &path) const;
  bool balance(SourceRange range);
  bool count(const std::vector<ast::Name> &names);
  bool spell(const ast::PipelineStmt &stmt, const Scope &scope);
  bool spellPiece(const ast::PipelineStmt::Piece &piece, int64_t position);
  bool spellItem(const ast::PipelineStmt::Item &written, const Item &item,
                 int64_t position);
  std::optional<int64_t> timesOf(const ast::PipelineStmt::Piece &piece,
                                 const Scope &scope);
  bool checkTotals(SourceRange range) const;
  bool wrong(SourceRange range, const std::string &message,
             const std::string &help) const;

  const ModelFacts &facts;
  const layout::DimInfo &dim;
  int64_t pieces;
  DiagnosticEngine &diags;
  std::optional<Item> furthest;         // of the pieces before, and of this one
  std::map<std::string, int64_t> taken; // iterations so far, by repeat
};

} // namespace cleave::plan
