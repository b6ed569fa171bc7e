//===- Trace.h - When each device did what ----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each device notes the begin and end of its instructions in a list of its
// own; `writeTrace` turns all into the JSON that Perfetto and chrome://tracing
// open: a row for each device, named by sites (Plan.fbs). In a pipeline each
// step is a slice, `forward 3`, around its instructions. A second group of rows
// may stand beside them; slices of one name have one colour in both.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXECUTOR_TRACE_H
#define CLEAVE_RUNTIME_EXECUTOR_TRACE_H

#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::executor {

enum class EventKind : uint8_t {
  Kernel,
  Contraction,
  Fill,
  Move,
  Start,       ///< of a collective
  Wait,        ///< for a collective
  Step,        ///< a whole program; `site` is its position in the plan
  PipelineStep ///< what a stage does for one microbatch, which `site` is
};

/// Times in nanoseconds of a clock that all devices share.
struct Event {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t site = 0;
  EventKind kind = EventKind::Kernel;
  format::StepKind step = format::StepKind::Forward; ///< of a PipelineStep
  uint16_t chunk = 0;                                ///< of a PipelineStep
};

/// What one device noted.
using EventList = std::vector<Event>;

/// What all instructions of a kind and site do in one run of a program on one
/// device. Waits do nothing: their collective's bytes are its start's.
struct SiteWork {
  EventKind kind = EventKind::Kernel;
  uint32_t site = 0;
  int64_t calls = 0;
  double operations = 0; ///< additions and multiplications in products
  double bytes = 0;      ///< of operands and results, each once
};

uint64_t traceClock();

/// Rows that no device noted, on the same clock.
struct TraceGroup {
  struct Slice {
    std::string name;
    uint64_t begin = 0, end = 0;
  };
  struct Row {
    std::string name;
    std::vector<Slice> slices;
  };
  std::string name; ///< empty: there is none
  std::vector<Row> rows;
};

/// What was noted while one plan ran without a break.
struct TracedPlan {
  const format::PlanT *plan = nullptr;
  std::vector<int64_t> devices;  ///< of each coordinate
  std::vector<EventList> events; ///< by coordinate
};

/// A hop between two plans: no device computed.
struct TracedHop {
  std::string to; ///< the plan
  uint64_t begin = 0, end = 0;
  int64_t bytes = 0;
  int64_t devices = 0; ///< how many there are
};

/// The JSON of a run's events: a row for each device.
std::string traceText(const std::vector<TracedPlan> &plans,
                      const std::vector<TracedHop> &hops = {},
                      const TraceGroup &beside = {});
Status writeTrace(const std::string &path, const std::vector<TracedPlan> &plans,
                  const std::vector<TracedHop> &hops = {},
                  const TraceGroup &beside = {});

} // namespace cleave::executor

#endif // CLEAVE_RUNTIME_EXECUTOR_TRACE_H
