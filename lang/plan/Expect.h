// Contracts: whether the `expect`s of a plan hold.
//
// Counts are logical collectives per optimizer step, before bucketing. `per
// layer` divides by the iterations of that repeat, `per micro` by the
// microbatches. What recomputation repeats does not count; its bytes do. A
// collective over several axes counts for each axis it runs on; over axes of
// size one there is none. Bytes are those that the busiest device sends in a
// step. `bubble` is the idle share of the stage with the longest span: the
// schedule's own, where all chunks take equal time and messages none;
// `bubble(simulated)` that of the simulated timeline; both 0 without stages.
// `local(PATH)` is the largest piece of
// one iteration, without the dim of the repeat; `memory(SELECTION)` is what the
// busiest device stores.
#pragma once

#include "lang/plan/Elaborate.h"

namespace cleave::plan {

struct ExpectFacts {
  const ModelFacts *model = nullptr;
  // What partitioning found for the entry `train`. Null: contracts about
  // collectives are noted as not checked.
  const layout::ProgramRecord *train = nullptr;
  // Bytes of the busiest device of all stages; negative where buffers were not
  // planned.
  int64_t peak = -1;
  // Of the schedule with equal times, and of the simulated timeline; null where
  // there is none.
  std::optional<double> bubble, simulatedBubble;
};

// Reports each contract that does not hold, with what was found and the chain
// that led there. False after an error.
bool checkExpectations(const layout::Plan &plan,
                       const std::vector<Expectation> &expectations,
                       const ExpectFacts &facts, DiagnosticEngine &diags);

// Bytes that the busiest device stores of what `selection` holds: parameters,
// gradients and optimizer leaves. Stages keep their own layers, and what
// `train` says is theirs of the rest; without it every stage is taken to have
// all of that.
int64_t storedBytes(const layout::Plan &plan, const ModelFacts &facts,
                    const layout::Selection &selection,
                    const layout::ProgramRecord *train);

// The share of those bytes that lies in leaves which no axis cuts.
double unshardedShare(const layout::Plan &plan, const ModelFacts &facts,
                      const layout::Selection &selection);

// The collectives that a contract of form No, Count or Bytes speaks of.
std::vector<const layout::CollectiveRecord *>
matchingCollectives(const ast::Comm &comm, const Expectation &expectation,
                    const layout::ProgramRecord &train);

} // namespace cleave::plan
