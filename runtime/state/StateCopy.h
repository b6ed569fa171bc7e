//===- StateCopy.h - The state at one moment, in memory ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A copy of what devices hold of the state, each element once: of replicas one
// is copied, by the first device that has it, into memory of its own. `spread`
// copies these pieces once more, from each device into memory of the next one,
// its *peer*. So every element is on two devices, and what any one of them
// takes with it is still on another (Wang et al., "GEMINI", SOSP 2023).
//
//   device      0          1          2
//   its own     a          b          c
//   for others  c (of 2)   a (of 0)   b (of 1)
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_STATECOPY_H
#define CLEAVE_RUNTIME_STATE_STATECOPY_H

#include "runtime/state/Safetensors.h"
#include "runtime/state/State.h"

#include <span>

namespace cleave::state {

class StateCopy {
public:
  /// Overwrites what it held before with the state as it is now, on all cores.
  /// The state's devices outlive the copy. Fails where a device has no memory
  /// left; then nothing is held.
  Status take(const State &state);
  /// On one thread, beside whatever else runs. With one device there is no
  /// other, and nothing to do.
  void spread();

  const std::vector<TensorInfo> &leaves() const { return infos; }
  uint64_t step() const { return numbers[0]; }
  uint64_t cursor() const { return numbers[1]; }
  uint64_t seed() const { return numbers[2]; }

  /// The global array of a leaf, without what device `lost` holds. Fails where
  /// that was all there is of an element.
  Status gather(size_t leaf, void *global, int64_t lost = -1) const;
  /// Gives a state, under whatever plan, these values. After an error it is as
  /// it was.
  Status restore(State &state, int64_t lost = -1) const;

  /// The memory of a device that the copy uses.
  std::span<char> heldBy(size_t device) const {
    return {memory[device].data(), memory[device].size()};
  }

private:
  /// One piece, in the memory of the device that it is of.
  struct Piece {
    size_t leaf = 0;
    int64_t device = 0;
    transport::Box box;
    size_t bytes = 0, offset = 0;
    size_t peerOffset = 0; ///< in the memory of the next device
  };

  Status arrange(const State &state);
  size_t peerOf(int64_t device) const { return (device + 1) % memory.size(); }

  std::vector<TensorInfo> infos;
  std::vector<Piece> pieces;
  std::vector<device::Memory> memory; ///< by device
  bool isSpread = false;
  uint64_t numbers[3] = {}; ///< step, cursor, seed
  size_t plan = 0;          ///< of which the pieces are
  std::vector<int64_t> deviceOf;
};

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_STATECOPY_H
