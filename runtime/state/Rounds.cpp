//===- Rounds.cpp - A leaf that moves bit by bit --------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Rounds.h"

#include <algorithm>
#include <set>

namespace cleave::state {

layout::Piece Stretch::part(int64_t round, int64_t rounds) const {
  int64_t size = end - begin;
  return {begin + size * round / rounds, begin + size * (round + 1) / rounds};
}

std::optional<size_t> rowDim(std::span<const int64_t> sizes) {
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] != 1) {
      return dim;
    }
  }
  return std::nullopt;
}

std::vector<Stretch> stretchesOf(size_t dim, std::span<const Held> before,
                                 std::span<const Held> after) {
  std::set<int64_t> cuts;
  for (std::span<const Held> all : {before, after}) {
    for (const Held &held : all) {
      for (const Part &part : held.parts) {
        if (held.resides && !part.box.empty()) {
          cuts.insert(part.box.dims[dim].begin);
          cuts.insert(part.box.dims[dim].end);
        }
      }
    }
  }
  std::vector<Stretch> stretches;
  for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
    if (auto next = std::next(cut); next != cuts.end()) {
      stretches.push_back({*cut, *next});
    }
  }
  return stretches;
}

UnitRounds unitRounds(const Held &held, uintptr_t base, size_t bytes,
                      size_t unit, size_t dim, int64_t elementBytes,
                      std::span<const Stretch> stretches, int64_t rounds) {
  uintptr_t origin = base / unit;
  size_t count = bytes == 0 ? 0 : (base + bytes - 1) / unit - origin + 1;
  UnitRounds result{std::vector<int64_t>(count, -1),
                    std::vector<int64_t>(count, -1)};
  for (const Part &part : held.parts) {
    if (!held.resides || part.box.empty()) {
      continue;
    }
    const layout::Piece &rows = part.box.dims[dim];
    int64_t rowBytes = part.box.elements() / rows.size() * elementBytes;
    for (const Stretch &stretch : stretches) {
      for (int64_t round = 0; round < rounds; ++round) {
        layout::Piece some = stretch.part(round, rounds);
        int64_t begin = std::max(some.begin, rows.begin);
        int64_t end = std::min(some.end, rows.end);
        if (begin >= end) {
          continue;
        }
        uintptr_t from =
            base + part.offset +
            static_cast<uintptr_t>((begin - rows.begin) * rowBytes);
        uintptr_t to = base + part.offset +
                       static_cast<uintptr_t>((end - rows.begin) * rowBytes);
        for (uintptr_t at = from / unit; at <= (to - 1) / unit; ++at) {
          int64_t &first = result.first[at - origin];
          int64_t &last = result.last[at - origin];
          first = first < 0 ? round : std::min(first, round);
          last = std::max(last, round);
        }
      }
    }
  }
  return result;
}

} // namespace cleave::state
