//===- Csv.h - Schedules as files of actions --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The notation that PyTorch's `torch.distributed.pipelining.schedules` reads
// and writes ("compute only"): a row for each rank (our *stage*), cells in the
// order of work, each a position (PyTorch's *stage*), a letter and a
// microbatch. `2F0` is the forward of microbatch 0 through position 2. Empty
// cells are idle steps and mean nothing here.
//
//   newer   F, B the whole backward, I the input gradient, W the weight
//           gradient; `(0F4;7B1)OVERLAP_F_B` are two actions that PyTorch
//           overlaps: read as one after the other
//   older   F, BW the whole backward, B the input gradient, W the weight
//           gradient
//
// B means different things, so the file decides, as a whole: with an `I` or an
// `OVERLAP_F_B` anywhere it is newer; else with a `BW` or a `W` anywhere it is
// older, since in the newer spelling every W has an I; else it has no split
// backwards, and B is the whole backward in both. A file with `I` and `BW` is
// an error.
//
// Cells of communication (`SEND_F`, `RECV_F`, ...) and of sharded weights
// (`UNSHARD`, `RESHARD`, `REDUCE_GRAD`) are refused: messages follow from the
// actions (Streams.h), and gathering is the plan's affair.
//
// Numbers of stages, chunks and microbatches follow from the file, and so does
// the placement: position i lies where it is found, which must be plain, dealt
// or folded.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SCHEDULE_CSV_H
#define CLEAVE_SCHEDULE_CSV_H

#include "schedule/Schedule.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace cleave::schedule {

enum class Spelling : uint8_t { Older, Newer };

/// A place in the text and what is wrong there: `begin` and `end` are bytes,
/// `line` and `column` count from 1 (the column in bytes).
struct CsvError {
  uint32_t line = 1;
  uint32_t column = 1;
  uint32_t begin = 0;
  uint32_t end = 0;
  std::string message; ///< `` `2X0` is no action ``
  std::string help;    ///< what to do; may be empty
};

/// An action's `source` is the byte at which its cell begins. The schedule is
/// in shape, not proven.
std::variant<Schedule, CsvError> readCsv(std::string_view text,
                                         std::string name);

/// Every row ends with a newline, cells are joined by commas, without idle
/// steps. Needs a schedule in shape.
std::string writeCsv(const Schedule &schedule, Spelling spelling);

} // namespace cleave::schedule

#endif // CLEAVE_SCHEDULE_CSV_H
