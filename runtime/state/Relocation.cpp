//===- Relocation.cpp - The state on its way to another plan --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Relocation.h"
#include "runtime/device/Addresses.h"
#include "runtime/format/Convert.h"
#include "runtime/state/Rounds.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

namespace cleave::state {

using transport::Box;

/// Copies are cut to about this size, so that threads share them evenly.
static constexpr int64_t mostBytesOfCopy = int64_t(1) << 20;

/// What decides where leaves lie: the devices of the mesh, and the layouts.
static auto stateLayoutOf(const format::PlanT &plan) {
  layout::Mesh mesh = format::toLayout(*plan.mesh);
  mesh.atoms.resize(mesh.atoms.size() - mesh.times);
  std::vector<layout::Layout> layouts;
  for (const auto &layout : plan.layouts) {
    layouts.push_back(format::toLayout(*layout));
  }
  return std::pair(std::move(mesh.atoms), std::move(layouts));
}

Transfers::Transfers(const format::PlanSetT &set) : set(&set) {
  std::vector<decltype(stateLayoutOf(*set.plans.front()))> all;
  for (const auto &plan : set.plans) {
    all.push_back(stateLayoutOf(*plan));
    alike.push_back(std::find(all.begin(), all.end(), all.back()) -
                    all.begin());
  }
}

Result<const Transfers::Way *> Transfers::find(size_t from,
                                               const std::vector<int64_t> &on,
                                               size_t to, size_t devices,
                                               bool relabel) {
  from = alike[from];
  to = alike[to];
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

  /// How a leaf is cut into rounds.
  struct Rows {
    size_t dim = 0;
    std::vector<Stretch> stretches;
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
  void copyInto(size_t leaf, size_t device, const Box *slice,
                std::vector<Copy> &copies) const;
  void copyFrom(size_t leaf, size_t device, size_t source, const Box *within,
                const Box *slice, std::vector<Copy> &copies) const;
  void release(size_t leaf);
  void add(size_t leaf, std::vector<Copy> &copies, const Box *slice = nullptr);
  Status addInRounds(size_t leaf);
  int64_t extraInRounds(size_t leaf, const Rows &rows,
                        std::span<const size_t> used, int64_t rounds) const;
  void addRounds(size_t leaf, const Rows &rows, int64_t rounds);
  std::vector<std::vector<Relocation::Emptied>>
  emptiedBy(size_t leaf, const Rows &rows, int64_t rounds) const;
  UnitRounds unitsOf(size_t leaf, size_t device, const Rows &rows, bool before,
                     int64_t rounds) const;
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
                                 const Box *within, const Box *slice,
                                 std::vector<Copy> &copies) const {
  const Held &old = state.held[leaf][source];
  const Held &now = result.held[leaf][device];
  if (!old.resides || !now.resides) {
    return;
  }
  for (const Part &from : old.parts) {
    for (const Part &to : now.parts) {
      Box common = transport::intersect(from.box, to.box);
      for (const Box *bound : {within, slice}) {
        common = bound ? transport::intersect(common, *bound) : common;
      }
      addCopies(set.leaves[leaf]->type, common, from.box,
                state.blocks[leaf][source].data + from.offset, to.box,
                result.blocks[leaf][device].data + to.offset, copies);
    }
  }
}

void RelocationPlanner::copyInto(size_t leaf, size_t device, const Box *slice,
                                 std::vector<Copy> &copies) const {
  copyFrom(leaf, device, device, nullptr, slice, copies);
  for (const Incoming &one : incoming[leaf][device]) {
    for (const Box &box : *one.boxes) {
      copyFrom(leaf, device, static_cast<size_t>(one.source), &box, slice,
               copies);
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

void RelocationPlanner::add(size_t leaf, std::vector<Copy> &copies,
                            const Box *slice) {
  for (size_t device = 0; device < count; ++device) {
    if (!stays(leaf, device)) {
      copyInto(leaf, device, slice, copies);
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
    result.emptied.emplace_back();
  }
}

/// In which rounds the units of a device's old or new memory are in use.
UnitRounds RelocationPlanner::unitsOf(size_t leaf, size_t device,
                                      const Rows &rows, bool before,
                                      int64_t rounds) const {
  const Held &held = (before ? state.held : result.held)[leaf][device];
  const device::Block &block =
      (before ? state.blocks : result.blocks)[leaf][device];
  size_t unit = before ? device::pageBytes
                       : result.pools[device].owner().unitOf(block.bytes);
  return unitRounds(held, reinterpret_cast<uintptr_t>(block.data), block.bytes,
                    unit, rows.dim, format::elementSize(set.leaves[leaf]->type),
                    rows.stretches, rounds);
}

/// Most bytes that a device needs beside the state, `used` being what it needs
/// without the new pieces.
int64_t RelocationPlanner::extraInRounds(size_t leaf, const Rows &rows,
                                         std::span<const size_t> used,
                                         int64_t rounds) const {
  int64_t most = 0;
  for (size_t device = 0; device < count; ++device) {
    if (stays(leaf, device)) {
      continue;
    }
    // By round: what the new piece takes, and what was given back before it.
    std::vector<int64_t> change(static_cast<size_t>(rounds) + 1);
    if (result.blocks[leaf][device].data) {
      int64_t unit = static_cast<int64_t>(result.pools[device].owner().unitOf(
          result.blocks[leaf][device].bytes));
      for (int64_t first : unitsOf(leaf, device, rows, false, rounds).first) {
        change[static_cast<size_t>(std::max<int64_t>(first, 0))] += unit;
      }
    }
    if (state.blocks[leaf][device].data) {
      // The first and the last page may be shared with other blocks.
      std::vector<int64_t> last =
          unitsOf(leaf, device, rows, true, rounds).last;
      for (size_t page = 1; page + 1 < last.size(); ++page) {
        change[static_cast<size_t>(last[page] + 1)] -=
            static_cast<int64_t>(device::pageBytes);
      }
    }
    int64_t now =
        static_cast<int64_t>(used[device]) - static_cast<int64_t>(base[device]);
    for (int64_t round = 0; round < rounds; ++round) {
      now += change[static_cast<size_t>(round)];
      most = std::max(most, now);
    }
  }
  return most;
}

/// By round: the pages of old pieces that it is the last to copy rows of.
std::vector<std::vector<Relocation::Emptied>>
RelocationPlanner::emptiedBy(size_t leaf, const Rows &rows,
                             int64_t rounds) const {
  std::vector<std::vector<Relocation::Emptied>> all(rounds);
  for (size_t device = 0; device < count; ++device) {
    const device::Block &block = state.blocks[leaf][device];
    if (stays(leaf, device) || !block.data) {
      continue;
    }
    uintptr_t base = reinterpret_cast<uintptr_t>(block.data);
    std::vector<int64_t> last = unitsOf(leaf, device, rows, true, rounds).last;
    for (size_t page = 1; page + 1 < last.size(); ++page) {
      if (last[page] < 0) {
        continue;
      }
      uintptr_t at = (base / device::pageBytes + page) * device::pageBytes;
      char *begin = block.data + (at - base);
      std::vector<Relocation::Emptied> &these = all[last[page]];
      if (!these.empty() && these.back().device == device &&
          these.back().begin + these.back().bytes == begin) {
        these.back().bytes += device::pageBytes;
      } else {
        these.push_back({device, begin, device::pageBytes});
      }
    }
  }
  return all;
}

void RelocationPlanner::addRounds(size_t leaf, const Rows &rows,
                                  int64_t rounds) {
  // New pieces begin without memory.
  std::vector<Relocation::Emptied> empty;
  for (size_t device = 0; device < count; ++device) {
    const device::Block &block = result.blocks[leaf][device];
    if (!stays(leaf, device) && block.data) {
      empty.push_back({device, block.data, block.bytes});
    }
  }
  std::vector<std::vector<Relocation::Emptied>> after =
      emptiedBy(leaf, rows, rounds);
  for (int64_t round = 0; round < rounds; ++round) {
    std::vector<Copy> copies;
    for (const Stretch &stretch : rows.stretches) {
      Box slice = transport::wholeBox(set.leaves[leaf]->sizes);
      slice.dims[rows.dim] = stretch.part(round, rounds);
      if (!slice.empty()) {
        add(leaf, copies, &slice);
      }
    }
    for (const Copy &copy : copies) {
      result.allCopied += static_cast<int64_t>(copy.bytes);
    }
    if (!copies.empty()) {
      result.steps.push_back(std::move(copies));
      result.emptied.push_back(std::exchange(empty, {}));
    }
    empty.insert(empty.end(), after[round].begin(), after[round].end());
  }
}

/// In as few rounds as memory allows.
Status RelocationPlanner::addInRounds(size_t leaf) {
  Status whole = tooLarge(leaf);
  std::optional<size_t> dim = rowDim(set.leaves[leaf]->sizes);
  if (!dim) {
    return whole;
  }
  Rows rows{*dim, stretchesOf(*dim, state.held[leaf], result.held[leaf])};
  std::vector<size_t> used;
  for (const device::Pool &pool : result.pools) {
    used.push_back(pool.used());
  }
  CLEAVE_TRY(allocate(leaf));
  int64_t extra = 0, least = std::numeric_limits<int64_t>::max();
  for (int64_t rounds = 2; rounds <= mostRounds; rounds *= 2) {
    extra = extraInRounds(leaf, rows, used, rounds);
    least = std::min(least, extra);
    if (extra <= memory) {
      addRounds(leaf, rows, rounds);
      result.mostExtra = std::max(result.mostExtra, extra);
      release(leaf);
      return Status();
    }
  }
  return Status::error(whole.message() + " (in rounds, row by row, it needs " +
                       std::to_string(least) + ")");
}

/// In groups as large as memory allows.
Status RelocationPlanner::addGroups(std::span<const size_t> order) {
  for (size_t next = 0; next < order.size();) {
    if (!fits(order[next])) {
      CLEAVE_TRY(addInRounds(order[next++]));
      continue;
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

void Relocation::prepare(size_t group) const {
  for (const Emptied &one : emptied[group]) {
    pools[one.device].owner().discard(one.begin, one.bytes);
  }
}

void Relocation::finish(State &state) && {
  state.planIndex = target;
  state.deviceOf = std::move(deviceOf);
  state.pools = std::move(pools);
  state.held = std::move(held);
  state.blocks = std::move(blocks);
}

namespace {

/// Follows all hops that may come, from the earliest on.
class HopPlanner {
public:
  HopPlanner(const format::PlanSetT &set, size_t devices,
             std::span<const Hop> ways, const RelocationOptions &options,
             Transfers &transfers)
      : set(set), ways(ways), options(options), transfers(transfers),
        memories(devices), checked(ways.size()) {
    for (device::AddressDevice &memory : memories) {
      all.push_back(&memory);
    }
  }

  Status run(size_t from, size_t most);

private:
  /// A state at its beginning: coordinate i is on device i.
  Result<State> fresh(size_t plan);
  /// Makes a hop; the state that it leads to is a new one, if it was not seen.
  Status follow(const State &state, size_t way);

  const format::PlanSetT &set;
  std::span<const Hop> ways;
  const RelocationOptions &options;
  Transfers &transfers;
  std::vector<device::AddressDevice> memories; ///< outlives the states
  std::vector<device::Device *> all;
  std::vector<bool> checked; ///< by way
  std::set<std::pair<size_t, std::vector<int64_t>>> seen;
  std::deque<State> states; ///< still to be followed
};

Result<State> HopPlanner::fresh(size_t plan) {
  size_t devices =
      static_cast<size_t>(format::toLayout(*set.plans[plan]->mesh).devices());
  assert(devices <= all.size() && "fewer devices than a plan has");
  Result<State> state = State::create(set, plan, std::span(all).first(devices));
  if (state) {
    state->addDevices(all);
  }
  return state;
}

Status HopPlanner::follow(const State &state, size_t way) {
  RelocationOptions chosen = options;
  chosen.overlapped = ways[way].overlapped;
  Result<Relocation> relocation =
      Relocation::plan(state, ways[way].to, chosen, transfers);
  if (!relocation) {
    return relocation.status().in("a hop from `" +
                                  set.plans[ways[way].from]->name + "` to `" +
                                  set.plans[ways[way].to]->name + "`");
  }
  checked[way] = true;
  State next = state;
  std::move(*relocation).finish(next);
  if (seen.insert({next.plan(), next.devices()}).second) {
    states.push_back(std::move(next));
  }
  return Status();
}

Status HopPlanner::run(size_t from, size_t most) {
  Result<State> begin = fresh(from);
  if (!begin) {
    return begin.status();
  }
  seen.insert({begin->plan(), begin->devices()});
  states.push_back(std::move(*begin));
  size_t planned = 0;
  for (; !states.empty() && planned < most; states.pop_front()) {
    for (size_t way = 0; way < ways.size(); ++way) {
      if (ways[way].from == states.front().plan()) {
        CLEAVE_TRY(follow(states.front(), way));
        ++planned;
      }
    }
  }
  // What was not come to is at least possible.
  for (size_t way = 0; way < ways.size(); ++way) {
    if (checked[way]) {
      continue;
    }
    Result<State> state = fresh(ways[way].from);
    if (!state) {
      return state.status();
    }
    CLEAVE_TRY(follow(*state, way));
  }
  return Status();
}

} // namespace

Status planHops(const format::PlanSetT &set, size_t from, size_t devices,
                std::span<const Hop> ways, const RelocationOptions &options,
                Transfers &transfers, size_t most) {
  return HopPlanner(set, devices, ways, options, transfers).run(from, most);
}

} // namespace cleave::state
