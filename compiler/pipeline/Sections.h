//===- Sections.h - Which positions do which work ---------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The work of a microbatch is put on the positions of a pipeline:
//
//   - a repeat that is cut over stages on the positions of its iterations, and
//     on those up to its neighbours', which pass its values on;
//   - a region that the plan places on its position, backward too;
//   - what else goes forward on the latest position that it reads from, so that
//     what reads nothing stands on the first and what reads the last layer
//     where that is done; what goes backward on the earliest.
//
// Example: `as [embedding, 1 layer], [2 layer], [mtp], [output]`.
//
//   position     0           1        2      3
//   forward      embedding            mtp    output
//                layer ------------->
//   backward     embedding            mtp    output
//                <------------- layer
//
// With two repeats each has a section, and positions where one ends and the
// other begins have both.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_SECTIONS_H
#define CLEAVE_COMPILER_PIPELINE_SECTIONS_H

#include "compiler/pipeline/Classify.h"

#include <compare>
#include <map>
#include <string>

namespace cleave::pipelining {

/// Work of a microbatch that the positions [begin, end) do.
struct Section {
  bool backward = false;
  int64_t begin = 0, end = 1;
  clv::RepeatOp repeat; ///< over stages; null: work of one position

  /// Where the repeat's values come in, and where they are complete.
  int64_t entry() const { return backward ? end - 1 : begin; }
  int64_t exit() const { return backward ? begin : end - 1; }
};
/// For messages.
std::string describe(const Section &section);

/// The sections of a program, and that of each operation of the function's
/// block that is timed and not of inputs alone. Sections stay where they are.
class Sections {
public:
  explicit Sections(int64_t positions) : positions(positions) {}

  /// What `position` does where `repeats` of the repeats over stages are done,
  /// of those that go the same way.
  Section &at(bool backward, int64_t repeats, int64_t position);
  /// The same next to a repeat of this program: where it comes in, and where
  /// its values are complete.
  Section &before(const Section &repeat);
  Section &after(const Section &repeat);
  /// Of repeat number `number` of those that go the same way.
  Section &of(clv::RepeatOp repeat, int64_t number, int64_t begin, int64_t end);

  Section *find(mlir::Operation *op) const { return byOperation.lookup(op); }
  Section *find(mlir::Value value) const;
  void put(mlir::Operation *op, Section &section) {
    byOperation[op] = &section;
  }
  /// In an order that respects dependences.
  std::vector<Section *> inOrder();

private:
  struct Key {
    bool backward = false;
    int64_t step = 0;  ///< even between repeats, odd a repeat
    int64_t place = 0; ///< a position, counted as the work goes
    auto operator<=>(const Key &) const = default;
  };
  int64_t positions;
  std::map<Key, Section> all;
  llvm::DenseMap<mlir::Operation *, Section *> byOperation;
  llvm::DenseMap<Section *, int64_t> numbers; ///< of repeats

  Section &get(const Key &key, int64_t begin, int64_t end);
};

/// Puts each operation into a section. Nothing after an error.
std::optional<Sections> assignSections(Classifier &classifier);

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_SECTIONS_H
