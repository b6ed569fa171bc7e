//===- Relocation.cpp - The state on its way to another plan --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Relocation.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <sys/mman.h>
#include <tuple>

namespace cleave::state {

using transport::Box;

/// Copies are cut to about this size, so that threads share them evenly.
static constexpr int64_t mostBytesOfCopy = int64_t(1) << 20;

Result<const Transfers::Way *> Transfers::find(size_t from,
                                               const std::vector<int64_t> &on,
                                               size_t to, size_t devices,
                                               bool relabel) {
  Key key{from, to, devices, relabel, on};
  if (auto known = ways.find(key); known != ways.end()) {
    return &known->second;
  }
  const format::PlanT &old = *set->plans[from], &now = *set->plans[to];
  transfer::Request request;
  request.from.mesh = format::toLayout(*old.mesh);
  request.from.devices = on;
  request.to.mesh = format::toLayout(*now.mesh);
  request.relabel = relabel;
  request.devices = static_cast<int64_t>(devices);
  for (size_t i = 0; i < set->leaves.size(); ++i) {
    transfer::Leaf leaf;
    leaf.path = nameOf(*set->leaves[i]);
    leaf.sizes = set->leaves[i]->sizes;
    leaf.elementBytes =
        static_cast<int64_t>(format::elementSize(set->leaves[i]->type));
    leaf.from = format::toLayout(*old.layouts[i]);
    leaf.to = format::toLayout(*now.layouts[i]);
    request.leaves.push_back(std::move(leaf));
  }
  std::string error;
  std::optional<transfer::Transfer> transfer =
      transfer::planTransfer(request, error);
  if (!transfer) {
    return Status::error(error);
  }
  Result<Pieces> pieces = piecesOf(*set, to);
  if (!pieces) {
    return pieces.status();
  }
  Way way{std::move(*transfer), std::move(*pieces)};
  return &ways.emplace(std::move(key), std::move(way)).first->second;
}

class RelocationPlanner {
public:
  RelocationPlanner(const State &state, const format::PlanSetT &set,
                    Relocation &result)
      : state(state), set(set), result(result), count(result.pools.size()) {}

  Status run(const RelocationOptions &options, const Transfers::Way &way);

private:
  using Copy = Relocation::Copy;

  /// What a leaf takes from other devices: by device, whence and which boxes.
  struct Incoming {
    int64_t source = 0;
    const std::vector<Box> *boxes = nullptr;
  };

  const State &state;
  const format::PlanSetT &set;
  Relocation &result;
  size_t count;             ///< of devices
  int64_t memory = 0;       ///< that a device may need beside `base`
  std::vector<size_t> base; ///< the larger of old and new state, by device
  std::vector<std::vector<Box>> boxes; ///< of the transfer's moves
  std::vector<std::vector<std::vector<Incoming>>> incoming; ///< leaf, device

  bool stays(size_t leaf, size_t device) const {
    return state.held[leaf][device] == result.held[leaf][device];
  }
  size_t oldBytes(size_t leaf, size_t device) const {
    return state.blocks[leaf][device].bytes;
  }
  size_t newBytes(size_t leaf, size_t device) const {
    return result.used[device]
               ? device::Pool::sizeOfBlock(result.held[leaf][device].bytes)
               : 0;
  }
  void readTransfer(const Transfers::Way &way);
  bool fits(size_t leaf) const;
  Status tooLarge(size_t leaf) const;
  Status allocate(size_t leaf);
  void copyInto(size_t leaf, size_t device, std::vector<Copy> &copies) const;
  void copyFrom(size_t leaf, size_t device, size_t source, const Box *within,
                std::vector<Copy> &copies) const;
  void release(size_t leaf);
  void add(size_t leaf, std::vector<Copy> &copies);
  void endGroup(std::vector<Copy> copies);
  Status addGroups(std::span<const size_t> order);
  Status addKept(std::vector<size_t> &order);
};

bool RelocationPlanner::fits(size_t leaf) const {
  for (size_t device = 0; device < count; ++device) {
    if (!stays(leaf, device) &&
        result.pools[device].used() + newBytes(leaf, device) >
            base[device] + static_cast<size_t>(memory)) {
      return false;
    }
  }
  return true;
}

/// With nothing else on its way.
Status RelocationPlanner::tooLarge(size_t leaf) const {
  size_t needed = 0, where = 0;
  for (size_t device = 0; device < count; ++device) {
    size_t used = result.pools[device].used() + newBytes(leaf, device);
    if (!stays(leaf, device) && used > base[device] &&
        used - base[device] > needed) {
      needed = used - base[device];
      where = device;
    }
  }
  return Status::error("`" + nameOf(*set.leaves[leaf]) + "` needs " +
                       std::to_string(needed) + " bytes on device " +
                       std::to_string(where) +
                       " while it moves, beside the state; a hop may take " +
                       std::to_string(memory) + ": allow it more memory");
}

Status RelocationPlanner::allocate(size_t leaf) {
  for (size_t device = 0; device < count; ++device) {
    if (stays(leaf, device)) {
      continue;
    }
    result.blocks[leaf][device] = {};
    if (!result.used[device]) {
      continue;
    }
    Result<device::Block> block =
        result.pools[device].allocate(result.held[leaf][device].bytes);
    if (!block) {
      return block.status().in("the state on device " + std::to_string(device));
    }
    result.blocks[leaf][device] = *block;
  }
  return Status();
}

/// Gives back what the devices held of a leaf.
void RelocationPlanner::release(size_t leaf) {
  for (size_t device = 0; device < count; ++device) {
    const device::Block &old = state.blocks[leaf][device];
    if (!stays(leaf, device) && old.data) {
      result.pools[device].release(old);
    }
  }
}

void addCopies(format::ElementType type, const Box &common, const Box &source,
               const void *from, const Box &target, void *to,
               std::vector<Relocation::Copy> &copies) {
  int64_t bytes =
      common.elements() * static_cast<int64_t>(format::elementSize(type));
  if (bytes == 0) {
    return;
  }
  if (bytes > mostBytesOfCopy) {
    // The outermost dim that can be cut: rows stay whole.
    size_t dim = 0;
    while (common.dims[dim].size() == 1) {
      ++dim;
    }
    Box low = common, high = common;
    int64_t middle = std::midpoint(common.dims[dim].begin, //
                                   common.dims[dim].end);
    low.dims[dim].end = high.dims[dim].begin = middle;
    addCopies(type, low, source, from, target, to, copies);
    addCopies(type, high, source, from, target, to, copies);
    return;
  }
  transport::Description description;
  description.type = type;
  description.group = {0};
  description.sources = {source};
  description.targets = {target};
  description.partial = {0};
  copies.push_back({transport::makeTask({common, {0}, {0}}, description),
                    {from, to},
                    static_cast<size_t>(bytes)});
}

/// What `source` has, within a box or all of it.
void RelocationPlanner::copyFrom(size_t leaf, size_t device, size_t source,
                                 const Box *within,
                                 std::vector<Copy> &copies) const {
  const Held &old = state.held[leaf][source];
  const Held &now = result.held[leaf][device];
  if (!old.resides || !now.resides) {
    return;
  }
  for (const Part &from : old.parts) {
    for (const Part &to : now.parts) {
      Box common = transport::intersect(from.box, to.box);
      if (within) {
        common = transport::intersect(common, *within);
      }
      addCopies(set.leaves[leaf]->type, common, from.box,
                state.blocks[leaf][source].data + from.offset, to.box,
                result.blocks[leaf][device].data + to.offset, copies);
    }
  }
}

void RelocationPlanner::copyInto(size_t leaf, size_t device,
                                 std::vector<Copy> &copies) const {
  copyFrom(leaf, device, device, nullptr, copies);
  for (const Incoming &one : incoming[leaf][device]) {
    for (const Box &box : *one.boxes) {
      copyFrom(leaf, device, static_cast<size_t>(one.source), &box, copies);
    }
  }
}

/// Whence each device takes what.
void RelocationPlanner::readTransfer(const Transfers::Way &way) {
  size_t leaves = set.leaves.size();
  result.held.assign(leaves, std::vector<Held>(count));
  for (size_t at = 0; at < result.deviceOf.size(); ++at) {
    result.used[result.deviceOf[at]] = true;
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      result.held[leaf][result.deviceOf[at]] = way.pieces[leaf][at];
    }
  }
  incoming.assign(leaves, std::vector<std::vector<Incoming>>(count));
  size_t moves = 0;
  for (const transfer::Entry &entry : way.transfer.entries) {
    moves += entry.moves.size();
  }
  boxes.reserve(moves); // `incoming` points into it
  for (const transfer::Entry &entry : way.transfer.entries) {
    for (const transfer::Move &move : entry.moves) {
      std::vector<Box> &these = boxes.emplace_back();
      for (transfer::Box &box : transfer::boxesOf(entry, move)) {
        these.push_back({std::move(box)});
      }
      for (size_t leaf : entry.leaves) {
        incoming[leaf][move.target].push_back({move.source, &these});
      }
    }
  }
}

void RelocationPlanner::add(size_t leaf, std::vector<Copy> &copies) {
  for (size_t device = 0; device < count; ++device) {
    if (!stays(leaf, device)) {
      copyInto(leaf, device, copies);
    }
  }
}

/// Before the old pieces of the group are released.
void RelocationPlanner::endGroup(std::vector<Copy> copies) {
  for (size_t device = 0; device < count; ++device) {
    int64_t extra = static_cast<int64_t>(result.pools[device].used()) -
                    static_cast<int64_t>(base[device]);
    result.mostExtra = std::max(result.mostExtra, extra);
  }
  for (const Copy &copy : copies) {
    result.allCopied += static_cast<int64_t>(copy.bytes);
  }
  if (!copies.empty()) {
    result.steps.push_back(std::move(copies));
  }
}

/// In groups as large as memory allows.
Status RelocationPlanner::addGroups(std::span<const size_t> order) {
  for (size_t next = 0; next < order.size();) {
    if (!fits(order[next])) {
      return tooLarge(order[next]);
    }
    size_t first = next;
    std::vector<Copy> copies;
    for (; next < order.size() && fits(order[next]); ++next) {
      CLEAVE_TRY(allocate(order[next]));
      add(order[next], copies);
    }
    endGroup(std::move(copies));
    for (size_t done = first; done < next; ++done) {
      release(order[done]);
    }
  }
  return Status();
}

/// One group of the leaves that can be there twice, which are taken out of
/// `order`.
Status RelocationPlanner::addKept(std::vector<size_t> &order) {
  std::vector<Copy> copies;
  std::vector<size_t> kept, others;
  for (size_t leaf : order) {
    if (!fits(leaf)) {
      others.push_back(leaf);
      continue;
    }
    CLEAVE_TRY(allocate(leaf));
    add(leaf, copies);
    kept.push_back(leaf);
  }
  endGroup(std::move(copies));
  result.earlySteps = result.steps.size();
  for (size_t leaf : kept) {
    release(leaf);
  }
  order = std::move(others);
  return Status();
}

Status RelocationPlanner::run(const RelocationOptions &options,
                              const Transfers::Way &way) {
  result.figures = way.transfer.summary;
  result.deviceOf = way.transfer.devices;
  result.used.assign(count, false);
  readTransfer(way);
  size_t leaves = set.leaves.size();
  memory = options.memory;
  base.resize(count);
  std::vector<int64_t> growth(leaves, 0); ///< of all devices
  for (size_t device = 0; device < count; ++device) {
    size_t before = 0, after = 0;
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      before += oldBytes(leaf, device);
      after += newBytes(leaf, device);
      growth[leaf] += static_cast<int64_t>(newBytes(leaf, device)) -
                      static_cast<int64_t>(oldBytes(leaf, device));
    }
    base[device] = std::max(before, after);
  }
  // Leaves that free memory go first.
  std::vector<size_t> order(leaves);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(growth[a], a) < std::tie(growth[b], b);
  });
  if (!options.overlapped) {
    return addGroups(order);
  }
  std::vector<size_t> optimizer, params;
  for (size_t leaf : order) {
    (set.leaves[leaf]->state.empty() ? params : optimizer).push_back(leaf);
  }
  CLEAVE_TRY(addGroups(optimizer));
  CLEAVE_TRY(addKept(params));
  return addGroups(params);
}

Result<Relocation> Relocation::plan(const State &state, size_t plan,
                                    const RelocationOptions &options,
                                    Transfers &transfers) {
  Result<const Transfers::Way *> way = transfers.find(
      state.plan(), state.devices(), plan, state.pools.size(), options.relabel);
  if (!way) {
    return way.status();
  }
  Relocation result;
  result.target = plan;
  result.pools = state.pools;
  result.blocks = state.blocks;
  RelocationPlanner planner(state, *state.plans, result);
  CLEAVE_TRY(planner.run(options, **way));
  return result;
}

void Relocation::finish(State &state) && {
  state.planIndex = target;
  state.deviceOf = std::move(deviceOf);
  state.pools = std::move(pools);
  state.held = std::move(held);
  state.blocks = std::move(blocks);
}

namespace {

/// A device of addresses without memory, for states that are only planned.
class Addresses final : public device::Device {
public:
  Result<device::Memory> allocate(size_t bytes) override {
    size_t size = bytes + 1;
    void *base = ::mmap(nullptr, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      return Status::error("cannot reserve " + std::to_string(size) +
                           " bytes of addresses");
    }
    return device::Memory(static_cast<char *>(base), size,
                          [](char *at, size_t count) { ::munmap(at, count); });
  }

  // It computes nothing.
  void enterThread() override {}
  Result<device::Kernel> findKernel(const std::string &) override {
    return Status::error("addresses have no kernels");
  }
  void launch(device::Kernel, void *const *, const int64_t *) override {}
  const contraction::Prepared *prepare(const contraction::Shape &,
                                       contraction::Order) override {
    return nullptr;
  }
  void contract(const contraction::Prepared *, const void *, const void *,
                void *) override {}
  void fillZero(void *, size_t) override {}
  void synchronise() override {}
};

} // namespace

Status checkRelocation(const format::PlanSetT &set, size_t from, size_t to,
                       const RelocationOptions &options, Transfers &transfers) {
  auto devicesOf = [&](size_t plan) {
    return static_cast<size_t>(
        format::toLayout(*set.plans[plan]->mesh).devices());
  };
  std::vector<Addresses> memories(std::max(devicesOf(from), devicesOf(to)));
  std::vector<device::Device *> devices;
  for (Addresses &memory : memories) {
    devices.push_back(&memory);
  }
  Result<State> state =
      State::create(set, from, std::span(devices).first(devicesOf(from)));
  if (!state) {
    return state.status();
  }
  state->addDevices(devices);
  Result<Relocation> way = Relocation::plan(*state, to, options, transfers);
  return way ? Status() : way.status();
}

} // namespace cleave::state
