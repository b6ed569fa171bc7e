//===- Relocation.h - The state on its way to another plan ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Carries out what transfer/Transfer.h plans, for devices whose memories this
// process can read: each device's new pieces are filled straight from the old
// pieces, wherever they are, so that nothing is staged.
//
// A piece that is the same under both plans stays where it is: nothing is
// copied or allocated for it. Others get new memory. Leaves go in groups, one
// after the other; the old pieces of a group are released when all its copies
// are done, and what they leave is used by the next. A group is as large as the
// limit on memory allows.
//
// A leaf for which the limit is too small goes in *rounds*, groups of its own
// (Rounds.h): each copies some rows out of every stretch of it, and the memory
// of old rows is given back as new ones take it.
//
// Everything that can fail happens in `plan`, on copies of the pools' books:
// what runs afterwards is copies alone.
//
//   Result<Relocation> way = Relocation::plan(state, plan, {}, transfers);
//   for (size_t group = 0; group < way->groups(); ++group) {
//     way->prepare(group);
//     … way->copies(group): run each `transport::runTask`, on any threads …
//   }
//   way->finish(state);
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_RELOCATION_H
#define CLEAVE_RUNTIME_STATE_RELOCATION_H

#include "runtime/state/State.h"
#include "transfer/Transfer.h"

#include <map>
#include <span>

namespace cleave::state {

struct RelocationOptions {
  /// Bytes that a device may need beside the larger of its old and new state.
  int64_t memory = int64_t(64) << 20;
  bool relabel = true; ///< choose the devices of the new mesh
  /// Begin while a step under the old plan runs up to its gradients: that reads
  /// parameters and no optimizer leaf. Then optimizer leaves move first, and as
  /// many parameters as have room for both pieces: see `early`.
  bool overlapped = false;
};

/// Transfers between the plans of a set, made when they are first needed and
/// kept. Not thread safe.
class Transfers {
public:
  /// `set` outlives this.
  explicit Transfers(const format::PlanSetT &set);

  struct Way {
    transfer::Transfer transfer;
    Pieces pieces; ///< of the new plan, by coordinate
  };
  /// From a plan on given devices, of `devices` in all, to another.
  Result<const Way *> find(size_t from, const std::vector<int64_t> &on,
                           size_t to, size_t devices, bool relabel);
  size_t planned() const { return ways.size(); } ///< so far

private:
  struct Key {
    size_t from, to, devices;
    bool relabel;
    std::vector<int64_t> on;
    auto operator<=>(const Key &) const = default;
  };
  const format::PlanSetT *set;
  /// By plan: the first with the same devices and layouts of leaves. Variants
  /// of a plan share its transfers.
  std::vector<size_t> alike;
  std::map<Key, Way> ways;
};

class Relocation {
public:
  /// Of a state whose devices are at least as many as the plan's. Fails where
  /// the limit on memory is too small, with what it would have to be.
  static Result<Relocation> plan(const State &state, size_t plan,
                                 const RelocationOptions &options,
                                 Transfers &transfers);

  /// One rectangle of one leaf, from one memory to another.
  struct Copy {
    transport::TransferTask task;
    transport::Tensors tensors;
    size_t bytes = 0;
  };
  size_t groups() const { return steps.size(); }
  /// Of an overlapped one: how many groups, the first, leave parameters as they
  /// are. Others wait until nothing reads them.
  size_t early() const { return earlySteps; }
  /// Where a device's piece of a leaf will lie; null where it holds none.
  char *pointer(int64_t device, size_t leaf) const {
    return blocks[leaf][device].data;
  }
  /// The device of each coordinate of the new plan.
  const std::vector<int64_t> &devices() const { return deviceOf; }
  /// Before the copies of a group: gives back what those before it emptied.
  void prepare(size_t group) const;
  /// In any order, on any threads; all of a group before those of the next.
  const std::vector<Copy> &copies(size_t group) const { return steps[group]; }
  /// The state is under the new plan from here on.
  void finish(State &state) &&;

  const transfer::Summary &summary() const { return figures; }
  /// Bytes that are copied: what moves between devices, and what stays on its
  /// device but not in its place.
  int64_t copiedBytes() const { return allCopied; }
  /// Most bytes that a device needs beside the larger of its old and new state.
  int64_t extra() const { return mostExtra; }

private:
  friend class RelocationPlanner;
  Relocation() = default;
  size_t target = 0;
  std::vector<int64_t> deviceOf;
  std::vector<device::Pool> pools;
  Pieces held; ///< by leaf, by device
  std::vector<std::vector<device::Block>> blocks;
  std::vector<bool> used; ///< by device: whether it has a coordinate
  /// Memory of a device that holds nothing any more.
  struct Emptied {
    size_t device = 0;
    char *begin = nullptr;
    size_t bytes = 0;
  };
  std::vector<std::vector<Copy>> steps;
  std::vector<std::vector<Emptied>> emptied; ///< before each of `steps`
  transfer::Summary figures;
  size_t earlySteps = 0;
  int64_t mostExtra = 0, allCopied = 0;
};

/// Adds the copies of `common`, a box of both a source and a target, each dense
/// in its own memory, in pieces of about a MiB that threads can share.
void addCopies(format::ElementType type, const transport::Box &common,
               const transport::Box &source, const void *from,
               const transport::Box &target, void *to,
               std::vector<Relocation::Copy> &copies);

/// From one plan to another, by their positions in the set.
struct Hop {
  size_t from = 0, to = 0;
  bool overlapped = false; ///< see RelocationOptions
};

/// Plans the hops that a run may make by `ways`, in any order and again and
/// again, from plan `from` on devices 0, 1, … of `devices`: each hop may choose
/// other devices, so that one pair has several transfers. They are kept in
/// `transfers`; after about `most` the rest is left until it is needed. Fails
/// as `Relocation::plan` does where one of `ways` is not possible.
Status planHops(const format::PlanSetT &set, size_t from, size_t devices,
                std::span<const Hop> ways, const RelocationOptions &options,
                Transfers &transfers, size_t most = 64);

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_RELOCATION_H
