//===- Route.h - What positions of a pipeline send to each other *- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that one position makes and another reads goes from neighbour to
// neighbour, forward as an activation or backward as a gradient. Its memory is
// then the same value's at each position on the way: the message is from the
// value to itself. The values that a repeat carries change on the way: what
// leaves a position arrives where the repeat of the next one starts.
//
//   position    0        1        2        3
//   embedding   v ------ v ------ v ------ v     read by every layer
//   layers      x0 -> y  x0 -> y  x0 -> y
//   messages       y -> x0  y -> x0  y -> y      and y is read by the output
//
// So what starts a repeat has memory of its own: where it is also read further
// on, or starts two, it is copied first. A value that goes forward is not sent
// back as it is, for the positions before have an unfinished one in its place:
// the backward pass copies it, and sends that.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_PIPELINE_ROUTE_H
#define CLEAVE_COMPILER_PIPELINE_ROUTE_H

#include "compiler/pipeline/Sections.h"

namespace cleave::pipelining {

/// A value that neighbours pass on as it is, over the boundaries [begin, end).
struct Relay {
  mlir::Value value;
  pipe::Direction direction;
  int64_t begin = 0, end = 0;
};

/// What starts a repeat and is of inputs alone, or cheap: made in `section`.
struct Start {
  mlir::OpOperand *use;
  Section *section;
};

/// The ways of all values between sections.
class Router {
public:
  /// `layerSums` are results of repeats of which each stage keeps its part.
  Router(Classifier &classifier, Sections &sections,
         const llvm::DenseSet<mlir::Value> &layerSums)
      : classifier(classifier), sections(sections), layerSums(layerSums),
        builder(classifier.function.getContext()) {}

  /// Copies what has to be copied, and fills the members below. False after an
  /// error.
  bool run();

  std::vector<Relay> relays; ///< in the order of the program
  llvm::SmallVector<Start> starts;

private:
  /// The positions at which a value is read.
  struct Need {
    int64_t first = INT64_MAX, last = INT64_MIN;
    void add(int64_t begin, int64_t end) {
      first = std::min(first, begin);
      last = std::max(last, end - 1);
    }
  };

  Classifier &classifier;
  Sections &sections;
  const llvm::DenseSet<mlir::Value> &layerSums;
  mlir::OpBuilder builder;

  void startRepeat(Section &section);
  bool isReadBeyond(mlir::Value start, clv::RepeatOp repeat,
                    const Section &section);
  Need needOf(mlir::Operation *reader, mlir::Value value) const;
  void copyBack();
  bool relay(mlir::Value value, const Section &maker);
  std::optional<int64_t> homeOf(mlir::Value value, const Section &maker) const;
  mlir::Value copy(mlir::Value value, mlir::Operation *before,
                   Section &section);
  bool refuse(mlir::Operation *reader, const Section &maker);
};

} // namespace cleave::pipelining

#endif // CLEAVE_COMPILER_PIPELINE_ROUTE_H
