//===- Transfer.h - From one plan's layout to another's ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans how the state of a training run gets from the layouts of one plan to
// those of another: which device sends which elements to which, in which
// order, in messages of which size. It decides where things go and moves
// nothing itself; the compiler, `explain` and the runtime call it alike.
//
// Definition. Both plans say for every leaf of the state which *cell* (a
// product of sets of indices, see Grid.h) each coordinate of their mesh holds.
// The old mesh's coordinates are on given devices. A *transfer* is a choice of
// a device for every coordinate of the new mesh, and for each element that the
// device lacks one device that has it. Three choices, each exact given those
// before it:
//
// 1. Devices (Assignment.h). A coordinate on a device costs the bytes of the
//    coordinate's cells that the device does not hold. Costs add up, so the
//    least bytes in all is a linear assignment problem. Among its optima: the
//    fewest bytes over slow links, then the least of the most that one device
//    receives, then as many coordinates as possible on the device that the
//    request prefers. In this order: bytes in all come first, even where more
//    bytes over fast links alone would be quicker.
// 2. Sources (Share.h). A device takes from replicas in its own group where
//    there are any, else from all. Among those the bytes are shared so that
//    the device that sends most sends least: a flow problem, solved exactly
//    but for whole elements.
// 3. Order (Rounds.h). All that goes from one device to another is one
//    *exchange*. Exchanges are coloured as the edges of a bipartite graph: in
//    a round a device sends to at most one and receives from at most one other,
//    and there are no more rounds than the most partners that one device has
//    (Koenig's theorem).
//
// Deadlock. `Transfer::exchanges` is one order of all exchanges. Devices that
// work through theirs in this order never wait for each other in a circle,
// even if every send waits for its receiver and a device does one thing at a
// time: the first unfinished exchange has both its ends waiting at it. A device
// that sends and receives at once in each round takes the predicted time.
//
// Memory. An exchange goes in messages of at most `Transfer::messageBytes`
// (Messages.h), half the budget, so a device stages at most the budget: one
// message on its way out and one on its way in. The new pieces are not counted
// there: they need `Summary::bothCopies` if all are kept beside the old ones.
// To need less, plan some leaves at a time, all with the devices that
// `chooseDevices` gave for the whole state, and free the old pieces of each.
//
// Size. Leaves that are cut alike share one entry. A repeated dim is a dim like
// others, cut in intervals. So the size of a transfer and the time to plan it
// depend on the meshes and the number of kinds of leaves, not on the number of
// layers or the sizes of tensors; messages are made when they are sent.
//
// Worked example. One leaf of 8 rows, 4 bytes each. From data 4 (rows split) to
// tensor 2 x data 2 (rows split on tensor, replicas on data), devices 0 .. 3:
//
//   old:  0 [0,2)  1 [2,4)  2 [4,6)  3 [6,8)
//   new:  coordinates 0 and 1 [0,4), 2 and 3 [4,8)
//   cost of coordinate 0 on devices 0 .. 3: 8, 8, 16, 16 bytes, and so on
//   devices 0 1 2 3: 32 bytes in all; every device sends 8 and receives 8
//   exchanges: 0 -> 1, 1 -> 0, 2 -> 3, 3 -> 2, all in round 0
//
// Limits. A device sends only what it held before the transfer: what it has
// just received is not passed on, so that one holder serves many receivers
// alone. Above 4,096 devices coordinates stay where the request prefers them.
// Predicted times see each device's own links, not what groups share.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_TRANSFER_H
#define CLEAVE_TRANSFER_TRANSFER_H

#include "layout/Layout.h"
#include "transfer/Grid.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::transfer {

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

/// A tensor that lives from step to step.
struct Leaf {
  std::string path;           ///< for messages
  std::vector<int64_t> sizes; ///< global; the dims of repeats too
  int64_t elementBytes = 4;
  layout::Layout from; ///< on the old mesh
  layout::Layout to;   ///< on the new mesh
};

/// A mesh on devices.
struct Side {
  layout::Mesh mesh;
  /// The device of each coordinate, all different. Empty: coordinate i is on
  /// device i.
  std::vector<int64_t> devices;
};

/// What links carry, for predicted times. A device sends and receives at once,
/// each at this rate; 0 = unknown.
struct Links {
  double fast = 0;    ///< bytes a second within a group
  double slow = 0;    ///< bytes a second between groups
  double latency = 0; ///< seconds that each message takes beside its bytes
};

struct Request {
  std::vector<Leaf> leaves;
  Side from;
  /// With `relabel`, `to.devices` are those to prefer where it costs nothing.
  Side to;
  bool relabel = true; ///< choose the devices of the new mesh
  /// How many devices there are. 0: as many as the sides name.
  int64_t devices = 0;
  /// The group of each device (its node); links between groups are slow.
  /// Empty: all are in one group.
  std::vector<int64_t> groups;
  int64_t budget = int64_t(64) << 20; ///< bytes staged on a device at a time
  Links links;
};

//===----------------------------------------------------------------------===//
// What is planned
//===----------------------------------------------------------------------===//

/// Elements that one device sends another. The sender holds all of the old
/// cell, the receiver wants all of the new one.
struct Move {
  uint32_t source = 0, target = 0;   ///< devices
  uint32_t fromCell = 0, toCell = 0; ///< of the entry's grids
  int64_t begin = 0, end = 0;        ///< of their intersection's order
  int64_t elements() const { return end - begin; } ///< of each leaf
};

/// Leaves of the same sizes that both plans cut alike.
struct Entry {
  std::vector<size_t> leaves; ///< positions in Request::leaves, ascending
  int64_t elementBytes = 0;   ///< of one element of all of them together
  Grid from, to;
  std::vector<Move> moves;
};

/// Part of an exchange: a move of an entry, for each of the entry's leaves.
struct Part {
  uint32_t entry = 0;
  uint32_t move = 0;
};

/// All that one device sends another.
struct Exchange {
  int64_t source = 0, target = 0; ///< devices
  int64_t bytes = 0;
  int64_t round = 0;
  size_t firstPart = 0, lastPart = 0; ///< of Transfer::parts, half open
  bool slow = false;                  ///< between groups
};

struct Summary {
  int64_t bytes = 0;        ///< that are sent, in all
  int64_t keptBytes = 0;    ///< that are wanted and in place already, in all
  int64_t mostSent = 0;     ///< by one device
  int64_t mostReceived = 0; ///< by one device
  int64_t slowBytes = 0;    ///< that go between groups
  int64_t staging = 0;     ///< most bytes of messages that a device has at once
  int64_t stateBefore = 0; ///< on the device that has most
  int64_t stateAfter = 0;
  /// Beyond the larger of a device's own old and new state, if it keeps both.
  int64_t bothCopies = 0;
  /// From the first message to the last; nothing if a rate that matters is
  /// unknown.
  std::optional<double> seconds;

  /// The most that one device sends or receives: what takes the time.
  int64_t busiest() const {
    return mostSent > mostReceived ? mostSent : mostReceived;
  }
};

struct Transfer {
  std::vector<int64_t> devices; ///< of each coordinate of the new mesh
  std::vector<Entry> entries;
  std::vector<Part> parts;
  std::vector<Exchange> exchanges; ///< by round, then by source
  int64_t rounds = 0;
  int64_t messageBytes = 0;            ///< no message is larger
  std::vector<int64_t> sent, received; ///< bytes, by device
  Summary summary;
};

/// Plans a transfer. Deterministic: the same request gives the same transfer.
/// Nothing if the request makes no sense; then `error` is a sentence.
std::optional<Transfer> planTransfer(const Request &request,
                                     std::string &error);

/// The devices that `planTransfer` chooses, alone.
std::optional<std::vector<int64_t>> chooseDevices(const Request &request,
                                                  std::string &error);

/// The elements that a move takes of each leaf of its entry: within the area
/// of both cells, the range [move.begin, move.end) of that area's order.
Area areaOf(const Entry &entry, const Move &move);
/// The same as boxes of global indices.
std::vector<Box> boxesOf(const Entry &entry, const Move &move);

/// What the device at a coordinate holds of each leaf of an entry under the
/// old and the new plan; nothing where it has no element.
std::optional<Area> heldBefore(const Entry &entry, int64_t coordinate);
std::optional<Area> heldAfter(const Entry &entry, int64_t coordinate);

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_TRANSFER_H
