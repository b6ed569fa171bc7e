//===- State.h - What training keeps between steps --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state is global: leaves by path, the step, the data cursor and the seed.
// A plan only says which device holds which piece of a leaf. Everything here
// takes and gives global arrays in row-major order, so that what is saved or
// set under one plan is right under any. From plan to plan the state goes by a
// relocation (Relocation.h), which changes where pieces are and no value.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_STATE_H
#define CLEAVE_RUNTIME_STATE_STATE_H

#include "runtime/device/Pool.h"
#include "runtime/format/Plan_generated.h"
#include "runtime/state/Pieces.h"
#include "runtime/support/Status.h"
#include "runtime/transport/HostCopy.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::state {

/// `params/layer/attention/wq`, `optimizer/layer/attention/wq/first`: the name
/// of a leaf in checkpoints and messages.
std::string nameOf(const format::LeafT &leaf);
int64_t elementsOf(const format::LeafT &leaf);
int64_t bytesOf(const format::LeafT &leaf); ///< of the global array

class Relocation;

/// The leaves of a plan set under one of its plans, in host-addressable
/// memory. Not thread safe: between steps the caller's, during a step the
/// devices'.
class State {
public:
  /// Leaves of zeros. `set` and `devices` outlive the state; coordinate i of
  /// the plan's mesh is on device i.
  static Result<State> create(const format::PlanSetT &set, size_t plan,
                              std::span<device::Device *const> devices);

  /// Gives every leaf its first value (numerics/Random.h): the same under any
  /// plan. Sets the seed; step and cursor become 0.
  void initialise(uint64_t seed);

  size_t leaves() const { return plans->leaves.size(); }
  const format::LeafT &leaf(size_t index) const;
  /// The position of the leaf called `name` (see nameOf), or -1.
  int find(const std::string &name) const;

  size_t plan() const { return planIndex; } ///< under which it is laid out
  /// The device of each coordinate of the plan's mesh.
  const std::vector<int64_t> &devices() const { return deviceOf; }
  size_t deviceCount() const { return pools.size(); }
  device::Device &device(size_t number) const { return pools[number].owner(); }
  /// Bytes of the state's blocks on a device.
  size_t memoryUsed(size_t device) const { return pools[device].used(); }
  /// Adds devices that hold nothing, until there are as many as here.
  void addDevices(std::span<device::Device *const> all);

  /// What a device holds of a leaf, one part after the other.
  void *pointer(int64_t device, size_t leaf) const {
    return blocks[leaf][device].data;
  }
  const std::vector<Part> &parts(int64_t device, size_t leaf) const {
    return held[leaf][device].parts;
  }
  /// Of a leaf that the device holds in one part.
  const transport::Box &box(int64_t device, size_t leaf) const {
    return held[leaf][device].parts.front().box;
  }
  /// Whether the leaf lives on the device at all; elsewhere it has no memory.
  bool holds(int64_t device, size_t leaf) const {
    return held[leaf][device].resides;
  }

  /// The global array, `bytesOf(leaf)` bytes.
  void gather(size_t leaf, void *global) const;
  void scatter(size_t leaf, const void *global);
  /// Fails where two devices that hold an element differ in its bits.
  Status compareCopies(size_t leaf) const;
  /// The same with element values as floats, whatever the type.
  std::vector<float> get(size_t leaf) const;
  Status set(size_t leaf, std::span<const float> global);

  uint64_t step = 0;   ///< optimizer steps done
  uint64_t cursor = 0; ///< samples consumed
  uint64_t seed = 0;   ///< programs take it as an i32: its lower 32 bits

private:
  const format::PlanSetT *plans = nullptr;
  size_t planIndex = 0;
  std::vector<int64_t> deviceOf;                  ///< by coordinate
  std::vector<device::Pool> pools;                ///< by device
  Pieces held;                                    ///< by leaf, by *device*
  std::vector<std::vector<device::Block>> blocks; ///< by leaf, by device

  transport::Pieces pieces(size_t leaf) const;
  friend class Relocation;
  friend class RelocationPlanner;
};

/// The sum of the squares of an optimizer's leaf called `name` of all
/// parameters. Terms are added by global index, so that its bits do not depend
/// on the plan.
class SumOfSquares {
public:
  double of(const State &state, const std::string &name);

private:
  std::vector<std::vector<float>> buffers; ///< by thread, for one leaf each
};

/// The elements of `box` of a leaf's first value, dense and row major.
void initialPiece(const format::LeafT &leaf, uint64_t seed,
                  const transport::Box &box, void *target);

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_STATE_H
