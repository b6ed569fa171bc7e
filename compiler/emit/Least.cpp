//===- Least.cpp - The least memory that lifetimes allow ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Least.h"

#include "dialects/pipe/Pipe.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

class Unrolled {
public:
  explicit Unrolled(const Placement &placement) : placement(placement) {
    pieces.resize(placement.buffers.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i].resize(1);
    }
    for (const auto &entry : placement.places) {
      countSlices(entry.second);
    }
  }

  void run(const Actions &actions, int depth);
  void copy(const std::vector<Copy> &copies);
  void read(Value value) { read(placement.placeOf(value)); }
  int64_t finish();

private:
  /// The life of a piece of memory that is under way.
  struct Life {
    int64_t begin = -1, last = -1;
  };

  const Placement &placement;
  std::vector<std::vector<Life>> pieces; ///< by buffer, by slice
  std::vector<int64_t> iterations;       ///< of the loops around, by depth
  std::map<int64_t, int64_t> changes;    ///< of the bytes alive, by time
  int64_t now = 0;

  void countSlices(const Place &place);
  template <typename Body> void forEachPiece(const Place &place, Body body);
  void read(const Place &place);
  void write(const Place &place);
  void end(size_t buffer, Life &life);
  void runLoop(const Action &action, int depth);
};

} // namespace

/// Of a stack as many as it has slices; one that is cut in several ways has the
/// most.
void Unrolled::countSlices(const Place &place) {
  if (place.buffer >= 0 && place.loop >= 0) {
    auto &slices = pieces[place.buffer];
    slices.resize(std::max<size_t>(slices.size(),
                                   std::max<int64_t>(1, place.stack.largest)));
  }
}

/// Calls `body` for what the place has of its buffer now.
template <typename Body>
void Unrolled::forEachPiece(const Place &place, Body body) {
  if (place.buffer < 0 ||
      placement.buffers[place.buffer].storage != format::Storage::Arena) {
    return;
  }
  auto &slices = pieces[place.buffer];
  bool one = place.loop >= 0 &&
             place.loop < static_cast<int>(iterations.size()) &&
             place.stack.largest == static_cast<int64_t>(slices.size());
  if (one) {
    body(slices[std::min<size_t>(iterations[place.loop], slices.size() - 1)]);
    return;
  }
  for (Life &life : slices) {
    body(life);
  }
}

void Unrolled::end(size_t buffer, Life &life) {
  if (life.begin < 0) {
    return;
  }
  auto slices = static_cast<int64_t>(pieces[buffer].size());
  int64_t bytes = placement.buffers[buffer].bytes / slices;
  changes[life.begin] += bytes;
  changes[life.last + 1] -= bytes;
  life = {};
}

void Unrolled::read(const Place &place) {
  forEachPiece(place, [&](Life &life) {
    life.begin = life.begin < 0 ? now : life.begin;
    life.last = now;
  });
}

void Unrolled::write(const Place &place) {
  forEachPiece(place, [&](Life &life) {
    if (life.last < now) { // else in the place of what it read
      end(static_cast<size_t>(place.buffer), life);
      life.begin = now;
    }
    life.last = now;
  });
}

void Unrolled::copy(const std::vector<Copy> &copies) {
  for (const Copy &copy : copies) {
    read(copy.source);
    write(copy.target);
    ++now;
  }
}

void Unrolled::runLoop(const Action &action, int depth) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  auto count = static_cast<int64_t>(repeat.getCount());
  if (repeat->hasAttr(clv::ClvDialect::kSplit)) {
    for (Value stacked : repeat.getStacked()) {
      count = std::min(count, codegen::extentsOf(stacked).front().largest);
    }
  }
  auto atEnd = placement.atEnd.find(&action);
  iterations.resize(depth + 1);
  for (int64_t i = 0; i < count; ++i) {
    iterations[depth] = repeat.getReverse() ? count - 1 - i : i;
    run(action.body, depth + 1);
    if (atEnd != placement.atEnd.end()) {
      copy(atEnd->second);
    }
  }
  iterations.resize(depth);
}

void Unrolled::run(const Actions &actions, int depth) {
  for (const auto &action : actions) {
    if (auto before = placement.before.find(action.get());
        before != placement.before.end()) {
      copy(before->second);
    }
    if (action->kind == Action::Loop) {
      runLoop(*action, depth);
      continue;
    }
    if (action->hasBody()) {
      run(action->body, depth);
      if (auto atEnd = placement.atEnd.find(action.get());
          atEnd != placement.atEnd.end()) {
        copy(atEnd->second);
      }
      continue;
    }
    for (Value value : readsOf(*action)) {
      read(value);
    }
    for (Value value : writesOf(*action)) {
      write(placement.placeOf(value));
    }
    if (auto scratch = placement.scratch.find(action.get());
        scratch != placement.scratch.end()) {
      for (int buffer : scratch->second) {
        write({buffer, -1, {}});
      }
    }
    ++now;
  }
}

int64_t Unrolled::finish() {
  for (size_t buffer = 0; buffer < pieces.size(); ++buffer) {
    for (Life &life : pieces[buffer]) {
      end(buffer, life);
    }
  }
  int64_t alive = 0, most = 0;
  for (auto [time, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

int64_t emit::leastArena(func::FuncOp function, const Actions &actions,
                         const Placement &placement) {
  Unrolled unrolled(placement);
  unrolled.run(actions, 0);
  unrolled.copy(placement.last);
  Operation *terminator = function.getBody().front().getTerminator();
  for (Value value : terminator->getOperands()) {
    unrolled.read(value);
  }
  return unrolled.finish();
}
