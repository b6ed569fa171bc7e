//===- StateCopy.cpp - The state at one moment, in memory -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/StateCopy.h"

#include "runtime/format/Convert.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace cleave::state {

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Which pieces there are, and where their copies lie.
Status StateCopy::arrange(const State &state) {
  infos.clear();
  pieces.clear();
  std::vector<size_t> used(state.deviceCount());
  for (size_t leaf = 0; leaf < state.leaves(); ++leaf) {
    const format::LeafT &table = state.leaf(leaf);
    infos.push_back({nameOf(table), table.type, table.sizes});
    size_t first = pieces.size();
    for (size_t device = 0; device < used.size(); ++device) {
      for (const Part &part : state.parts(device, leaf)) {
        bool known = std::any_of(
            pieces.begin() + first, pieces.end(),
            [&](const Piece &other) { return other.box == part.box; });
        if (!state.holds(device, leaf) || part.box.empty() || known) {
          continue;
        }
        size_t bytes = static_cast<size_t>(part.box.elements()) *
                       format::elementSize(table.type);
        pieces.push_back({leaf, static_cast<int64_t>(device), part.box, bytes,
                          used[device], 0});
        used[device] += aligned(bytes);
      }
    }
  }
  memory.resize(used.size());
  if (memory.size() > 1) {
    for (Piece &piece : pieces) {
      size_t &room = used[peerOf(piece.device)];
      piece.peerOffset = room;
      room += aligned(piece.bytes);
    }
  }
  for (size_t device = 0; device < used.size(); ++device) {
    if (memory[device].data() && memory[device].size() >= used[device]) {
      continue;
    }
    Result<device::Memory> larger = state.device(device).allocate(used[device]);
    if (!larger) {
      pieces.clear();
      return larger.status().in("a copy of the state");
    }
    memory[device] = std::move(*larger);
  }
  plan = state.plan();
  deviceOf = state.devices();
  return Status();
}

Status StateCopy::take(const State &state) {
  isSpread = false;
  bool same = !pieces.empty() && plan == state.plan() &&
              deviceOf == state.devices() &&
              memory.size() == state.deviceCount();
  if (!same) {
    CLEAVE_TRY(arrange(state));
  }
  numbers[0] = state.step;
  numbers[1] = state.cursor;
  numbers[2] = state.seed;
  std::atomic<size_t> next{0};
  auto copy = [&] {
    for (size_t i; (i = next.fetch_add(1)) < pieces.size();) {
      const Piece &piece = pieces[i];
      for (const Part &part : state.parts(piece.device, piece.leaf)) {
        if (part.box == piece.box) {
          const char *source = static_cast<const char *>(
              state.pointer(piece.device, piece.leaf));
          std::memcpy(memory[piece.device].data() + piece.offset,
                      source + part.offset, piece.bytes);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back(copy);
  }
  copy();
  for (std::thread &thread : threads) {
    thread.join();
  }
  return Status();
}

void StateCopy::spread() {
  if (memory.size() < 2) {
    return;
  }
  for (const Piece &piece : pieces) {
    std::memcpy(memory[peerOf(piece.device)].data() + piece.peerOffset,
                memory[piece.device].data() + piece.offset, piece.bytes);
  }
  isSpread = true;
}

Status StateCopy::gather(size_t leaf, void *global, int64_t lost) const {
  transport::Pieces found{infos[leaf].type, infos[leaf].shape, {}, {}, {}};
  for (const Piece &piece : pieces) {
    bool atPeer = piece.device == lost;
    if (piece.leaf != leaf || (atPeer && !isSpread)) {
      continue;
    }
    found.boxes.push_back(piece.box);
    found.memory.push_back(atPeer ? memory[peerOf(piece.device)].data() +
                                        piece.peerOffset
                                  : memory[piece.device].data() + piece.offset);
  }
  return transport::gather(found, global)
      .in("the copy of `" + infos[leaf].name + "`");
}

Status StateCopy::restore(State &state, int64_t lost) const {
  bool fits = infos.size() == state.leaves();
  for (size_t leaf = 0; fits && leaf < infos.size(); ++leaf) {
    fits = infos[leaf].name == nameOf(state.leaf(leaf)) &&
           infos[leaf].shape == state.leaf(leaf).sizes;
  }
  if (!fits) {
    return Status::error("the copy is of another state");
  }
  // All of them before any is set.
  std::vector<std::vector<char>> global(infos.size());
  for (size_t leaf = 0; leaf < infos.size(); ++leaf) {
    global[leaf].resize(static_cast<size_t>(bytesOf(state.leaf(leaf))));
    CLEAVE_TRY(gather(leaf, global[leaf].data(), lost));
  }
  for (size_t leaf = 0; leaf < infos.size(); ++leaf) {
    state.scatter(leaf, global[leaf].data());
  }
  state.step = step();
  state.cursor = cursor();
  state.seed = seed();
  return Status();
}

} // namespace cleave::state
