//===- Timeline.h - A measured pipeline and its simulation ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices noted of training steps gives the mean time of each kind of work
// at each position. Simulated with these times, the schedule should take as
// long as the steps took: where it does not, stages waited for something else
// than each other (for a core, above all, where there are more devices than
// cores).
//
// Both are from the first work of a microbatch to the last. The first step is
// left out where there are several: it touches memory for the first time.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_TIMELINE_H
#define CLEAVE_TOOLS_CLEAVE_TIMELINE_H

#include "layout/Layout.h"
#include "runtime/executor/Trace.h"
#include "schedule/Simulate.h"

#include <optional>
#include <vector>

namespace cleave::tools {

/// The schedule that the streams of a pipeline follow, without its messages.
schedule::Schedule scheduleOf(const format::PipelineT &pipeline,
                              const layout::Mesh &mesh);

struct Prediction {
  schedule::Schedule schedule;
  schedule::Times times; ///< measured means, in seconds
  schedule::Timeline timeline;
  double measured = 0;          ///< seconds, the mean of the steps
  std::vector<uint64_t> begins; ///< of the steps, on the trace's clock
};

/// Nothing where `train` has no stages, or no step was noted in full.
/// `devices[d]` are the events of device d.
std::optional<Prediction>
predict(const format::PlanT &plan,
        const std::vector<executor::EventList> &devices);

/// The simulation, once for each measured step, a row for each stage.
executor::TraceGroup simulatedRows(const format::PlanT &plan,
                                   const Prediction &prediction);

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_TIMELINE_H
