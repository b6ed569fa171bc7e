//===- Transport.h - Collectives between devices ----------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a transport does for one device: it makes each device's target tensor
// from the source tensors of a group of devices. All kinds of collectives are
// one operation on boxes of global indices:
//
//   Every element of a target's box is taken from a device of the group whose
//   source box has it, from the device itself where it does. Where the group
//   has several *partial* coordinates, the element is the reduction, in order
//   of coordinates, of what each coordinate has: the same bits on every
//   device, run after run.
//
// so all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, shift and
// send/receive differ in boxes alone; a transport may recognise what it has a
// fast path for. Uneven and empty boxes are ordinary. What moves around the end
// of a dim has a second box for each source, its *image*: rolling [0, 8) by one
// on two devices, the second has [4, 8) at [5, 9) and at [-3, 1), of which the
// targets [0, 4) and [4, 8) take [5, 8) and [0, 1).
//
// Use. At load every device of a group opens a channel with the same
// description (its own `rank` apart). Then, any number of times:
//
//   start    publishes source and target; returns at once
//   wait     returns when the target is complete *and* the source is free
//
// Between the two the device must neither write the source nor touch the
// target. Several channels may be outstanding; one channel is outstanding at
// most once. A wait ends when all of the group have started that channel, in
// whatever order each starts and waits for its channels. (What must not be is a
// circle of devices, each waiting for what the next starts only after its own
// wait: plans are verified to have none.) Nothing allocates after `open`.
//
// Errors. `abort`, by any device or thread, releases all: every wait, now and
// later, returns the error. Tensors are then undefined.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRANSPORT_TRANSPORT_H
#define CLEAVE_RUNTIME_TRANSPORT_TRANSPORT_H

#include "layout/Layout.h"
#include "runtime/format/Plan_generated.h"
#include "runtime/support/Status.h"
#include "runtime/transport/Box.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::transport {

/// What a channel does. By rank: the position in `group`.
struct Description {
  uint64_t id = 0;  ///< equal on all members, unique in the transport
  std::string name; ///< for messages: all_reduce tensor
  format::ElementType type = format::ElementType::F32;
  layout::Reduction reduction = layout::Reduction::Sum;
  std::vector<int64_t> group;   ///< devices
  std::vector<Box> sources;     ///< what each rank has
  std::vector<Box> images;      ///< the same elements under other indices, one
                                ///< box of the same sizes for each rank; empty
                                ///< = none
  std::vector<Box> targets;     ///< what each rank gets
  std::vector<int64_t> partial; ///< the coordinate that each rank's part has,
                                ///< from 0 without a gap; all 0 = none
};

/// A channel of one device, from `open`.
using Channel = uint32_t;

class Transport {
public:
  virtual ~Transport() = default;

  /// Called by each device of the group before any of them starts. Fails where
  /// some element of a target is in no source.
  virtual Result<Channel> open(const Description &description,
                               int64_t rank) = 0;
  virtual void start(Channel channel, const void *source, void *target) = 0;
  virtual Status wait(Channel channel) = 0;
  /// Releases all devices with `reason`; the first one counts.
  virtual void abort(const Status &reason) = 0;
};

} // namespace cleave::transport

#endif // CLEAVE_RUNTIME_TRANSPORT_TRANSPORT_H
