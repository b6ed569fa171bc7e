//===- Csv.cpp - Schedules as files of actions ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace cleave::schedule {

namespace {

/// An action as it is written: the letter's meaning is not yet decided.
struct Cell {
  int32_t position = 0;
  int32_t micro = 0;
  std::string_view letter; ///< F, B, I, W or BW
  size_t begin = 0;        ///< of the cell
  size_t end = 0;
};

/// Words of PyTorch's notation that are no work of a stage.
constexpr std::array notWork = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                "UNSHARD", "RESHARD", "REDUCE_GRAD"};

constexpr std::string_view overlap = "OVERLAP_F_B";

class Reader {
public:
  Reader(std::string_view text, std::string name)
      : text(text), name(std::move(name)) {}

  std::variant<Schedule, CsvError> run() {
    bool good =
        readRows() && chooseSpelling() && findSizes() && findPlacement();
    if (good) {
      fill();
    }
    return good ? std::variant<Schedule, CsvError>(std::move(schedule)) : error;
  }

private:
  bool readRows();
  bool readRow(size_t begin, size_t end);
  bool readCell(size_t begin, size_t end);
  bool readOverlap(size_t begin, size_t end);
  bool readAction(size_t begin, size_t end, Cell &cell);
  bool chooseSpelling();
  bool findSizes();
  bool findPlacement();
  void fill();
  Kind kindOf(const Cell &cell) const;

  bool fail(size_t begin, size_t end, std::string message,
            std::string help = "") {
    error.begin = static_cast<uint32_t>(begin);
    error.end = static_cast<uint32_t>(end);
    size_t line = text.substr(0, begin).rfind('\n');
    error.line = 1 + static_cast<uint32_t>(
                         std::count(text.begin(), text.begin() + begin, '\n'));
    error.column = static_cast<uint32_t>(
        1 + begin - (line == std::string_view::npos ? 0 : line + 1));
    error.message = std::move(message);
    error.help = std::move(help);
    return false;
  }
  bool fail(const Cell &cell, std::string message, std::string help = "") {
    return fail(cell.begin, cell.end, std::move(message), std::move(help));
  }
  /// For messages: cells may be long and of any bytes.
  std::string quote(size_t begin, size_t end) const {
    std::string shown(text.substr(begin, std::min<size_t>(end - begin, 24)));
    for (char &c : shown) {
      c = c >= ' ' && c < 127 ? c : '?';
    }
    return "`" + shown + (end - begin > 24 ? "…" : "") + "`";
  }

  std::string_view text;
  std::string name;
  std::vector<std::vector<Cell>> rows;
  Spelling spelling = Spelling::Newer;
  int32_t positions = 0;
  Schedule schedule;
  CsvError error;
};

/// What help texts show.
constexpr const char *form =
    "a cell is POSITION, one of F B I W BW, and MICROBATCH: `2F0`";

} // namespace

/// Leaves out blanks at both ends.
static void trim(std::string_view text, size_t &begin, size_t &end) {
  auto isBlank = [&](size_t i) {
    return text[i] == ' ' || text[i] == '\t' || text[i] == '\r';
  };
  while (begin < end && isBlank(begin)) {
    ++begin;
  }
  while (begin < end && isBlank(end - 1)) {
    --end;
  }
}

bool Reader::readRows() {
  size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) {
    return fail(0, 0, "the file has no actions");
  }
  for (size_t begin = 0; begin <= last;) {
    size_t end = std::min(text.find('\n', begin), text.size());
    if (rows.size() == static_cast<size_t>(mostStages)) {
      return fail(begin, end,
                  "more than " + std::to_string(mostStages) + " rows");
    }
    rows.emplace_back();
    if (!readRow(begin, end)) {
      return false;
    }
    if (rows.back().empty()) {
      return fail(begin, end,
                  "rank " + std::to_string(rows.size() - 1) + " has no actions",
                  "a row is a rank, from 0 on");
    }
    begin = end + 1;
  }
  return true;
}

bool Reader::readRow(size_t begin, size_t end) {
  while (begin <= end) {
    size_t stop = std::min(text.find(',', begin), end);
    size_t from = begin, to = stop;
    trim(text, from, to);
    if (from < to && !readCell(from, to)) {
      return false;
    }
    begin = stop + 1;
  }
  return true;
}

bool Reader::readCell(size_t begin, size_t end) {
  if (text[begin] == '(') {
    return readOverlap(begin, end);
  }
  Cell cell;
  if (!readAction(begin, end, cell)) {
    return false;
  }
  rows.back().push_back(cell);
  return true;
}

/// `(0F4;7B1)OVERLAP_F_B`: its parts, one after the other.
bool Reader::readOverlap(size_t begin, size_t end) {
  size_t close = text.substr(0, end).find(')', begin);
  if (close == std::string_view::npos ||
      text.substr(close + 1, end - close - 1) != overlap) {
    return fail(begin, end, quote(begin, end) + " is no action",
                "actions that overlap are `(0F4;7B1)OVERLAP_F_B`");
  }
  for (size_t from = begin + 1; from <= close;) {
    size_t stop = std::min(text.find(';', from), close);
    size_t first = from, last = stop;
    trim(text, first, last);
    Cell cell;
    if (!readAction(first, last, cell)) {
      return false;
    }
    rows.back().push_back(cell);
    from = stop + 1;
  }
  return true;
}

bool Reader::readAction(size_t begin, size_t end, Cell &cell) {
  cell.begin = begin;
  cell.end = end;
  auto wrong = [&] {
    return fail(begin, end, quote(begin, end) + " is no action", form);
  };
  const char *stop = text.data() + end;
  auto [letter, bad] =
      std::from_chars(text.data() + begin, stop, cell.position);
  if (bad != std::errc() || cell.position < 0) {
    return wrong();
  }
  const char *digits = letter;
  while (digits != stop &&
         (*digits == '_' || (*digits >= 'A' && *digits <= 'Z'))) {
    ++digits;
  }
  cell.letter = {letter, static_cast<size_t>(digits - letter)};
  if (std::find(notWork.begin(), notWork.end(), cell.letter) != notWork.end()) {
    return fail(begin, end,
                quote(begin, end) + " is communication, not work of a stage",
                "leave such cells out: messages follow from the actions");
  }
  if (cell.letter != "F" && cell.letter != "B" && cell.letter != "I" &&
      cell.letter != "W" && cell.letter != "BW") {
    return wrong();
  }
  auto [after, wrongNumber] = std::from_chars(digits, stop, cell.micro);
  if (wrongNumber != std::errc() || after != stop || cell.micro < 0) {
    return wrong();
  }
  return true;
}

bool Reader::chooseSpelling() {
  const Cell *newer = nullptr, *older = nullptr, *weight = nullptr;
  for (const std::vector<Cell> &row : rows) {
    for (const Cell &cell : row) {
      newer = !newer && cell.letter == "I" ? &cell : newer;
      older = !older && cell.letter == "BW" ? &cell : older;
      weight = !weight && cell.letter == "W" ? &cell : weight;
    }
  }
  bool overlaps = text.find(overlap) != std::string_view::npos;
  if (older && (newer || overlaps)) {
    return fail(*older,
                quote(older->begin, older->end) +
                    " is of the older spelling, and the file has the newer "
                    "one's `I` or `OVERLAP_F_B`",
                "newer: B whole backward, I input gradient; older: BW whole "
                "backward, B input gradient");
  }
  spelling = !newer && !overlaps && (older || weight) ? Spelling::Older
                                                      : Spelling::Newer;
  return true;
}

bool Reader::findSizes() {
  schedule.name = std::move(name);
  schedule.stages = static_cast<int32_t>(rows.size());
  int64_t micros = 0;
  for (const std::vector<Cell> &row : rows) {
    for (const Cell &cell : row) {
      if (cell.micro >= mostMicros) {
        return fail(cell, "microbatch " + std::to_string(cell.micro) +
                              " is beyond what a schedule may have");
      }
      if (cell.position >= schedule.stages * mostChunks) {
        return fail(cell, "position " + std::to_string(cell.position) +
                              " is beyond what " +
                              std::to_string(schedule.stages) +
                              " ranks may hold");
      }
      micros = std::max<int64_t>(micros, cell.micro + 1);
      positions = std::max(positions, cell.position + 1);
    }
  }
  schedule.micros = static_cast<int32_t>(micros);
  schedule.chunks = (positions + schedule.stages - 1) / schedule.stages;
  if (positions % schedule.stages != 0) {
    return fail(0, 0,
                std::to_string(positions) + " positions do not divide over " +
                    std::to_string(schedule.stages) + " ranks",
                "every rank holds as many positions as the others");
  }
  if (int64_t(positions) * micros > mostCells) {
    return fail(0, 0, "the schedule is too large");
  }
  return true;
}

bool Reader::findPlacement() {
  Placement choices[] = {Placement::Dealt, Placement::Folded};
  const Cell *wrong = nullptr;
  int32_t wrongRow = 0;
  for (Placement placement : choices) {
    schedule.placement = placement;
    wrong = nullptr;
    for (int32_t row = 0; row < schedule.stages && !wrong; ++row) {
      for (const Cell &cell : rows[row]) {
        if (schedule.owner(cell.position) != row) {
          wrong = &cell;
          wrongRow = row;
          break;
        }
      }
    }
    if (!wrong) {
      break;
    }
  }
  if (wrong) {
    return fail(*wrong,
                "position " + std::to_string(wrong->position) +
                    " stands on rank " + std::to_string(wrongRow),
                "position i of p ranks stands on rank i % p (dealt), or every "
                "other round backwards (folded)");
  }
  if (schedule.chunks == 1) {
    schedule.placement = Placement::Plain;
  }
  return true;
}

Kind Reader::kindOf(const Cell &cell) const {
  if (cell.letter == "F") {
    return Kind::Forward;
  }
  if (cell.letter == "W") {
    return Kind::WeightGradient;
  }
  bool isInput =
      cell.letter == "I" || (cell.letter == "B" && spelling == Spelling::Older);
  return isInput ? Kind::InputGradient : Kind::Backward;
}

void Reader::fill() {
  for (const std::vector<Cell> &row : rows) {
    std::vector<Action> &actions = schedule.actions.emplace_back();
    for (const Cell &cell : row) {
      Action action;
      action.micro = cell.micro;
      action.source = static_cast<uint32_t>(cell.begin);
      action.chunk = static_cast<uint16_t>(schedule.chunkAt(cell.position));
      action.kind = kindOf(cell);
      actions.push_back(action);
    }
  }
}

std::variant<Schedule, CsvError> readCsv(std::string_view text,
                                         std::string name) {
  return Reader(text, std::move(name)).run();
}

std::string writeCsv(const Schedule &schedule, Spelling spelling) {
  static constexpr const char *newer[] = {"F", "B", "I", "W"};
  static constexpr const char *older[] = {"F", "BW", "B", "W"};
  const char *const *letters = spelling == Spelling::Newer ? newer : older;
  std::string text;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    const char *separator = "";
    for (const Action &action : schedule.actions[stage]) {
      text += separator + std::to_string(schedule.positionOf(stage, action)) +
              letters[static_cast<size_t>(action.kind)] +
              std::to_string(action.micro);
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

} // namespace cleave::schedule
