//===- RandomTest.cpp - Transfers between random layouts ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Execute.h"
#include "RandomLayouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iostream>
#include <map>
#include <numeric>
#include <tuple>

using namespace cleave;
using namespace cleave::transfer;
using namespace cleave::transfer::test;
using cleave::test::RandomLayouts;

namespace {

/// Makes requests between random layouts: groups, spare devices, tiny budgets.
class Maker : public RandomLayouts {
public:
  using RandomLayouts::RandomLayouts;
  Request make();

private:
  std::vector<int64_t> placement(int64_t coordinates, int64_t devices);
};

std::vector<int64_t> Maker::placement(int64_t coordinates, int64_t devices) {
  std::vector<int64_t> placement(devices);
  std::iota(placement.begin(), placement.end(), 0);
  shuffle(placement);
  placement.resize(coordinates);
  return placement;
}

Request Maker::make() {
  Request request;
  request.from.mesh = mesh();
  request.to.mesh = mesh();
  request.relabel = !oneIn(3);
  int64_t needed =
      std::max(request.from.mesh.devices(), request.to.mesh.devices());
  request.devices = oneIn(2) ? 0 : needed + below(2);
  int64_t devices = std::max(needed, request.devices);
  if (oneIn(2)) {
    request.devices = devices; // also where a placement leaves the last idle
    request.from.devices = placement(request.from.mesh.devices(), devices);
    request.to.devices = placement(request.to.mesh.devices(), devices);
  }
  if (oneIn(2)) {
    for (int64_t i = 0; i < devices; ++i) {
      request.groups.push_back(10 * below(3));
    }
  }
  request.budget = 16 + below(200);
  request.links = {100, 10, 0.5};
  for (int64_t kind = 1 + below(3); kind > 0; --kind) {
    Leaf leaf;
    for (int64_t rank = below(4); rank > 0; --rank) {
      leaf.sizes.push_back(oneIn(20) ? 0 : 1 + below(rank == 3 ? 5 : 9));
    }
    leaf.from = layout(leaf.sizes, request.from.mesh);
    leaf.to = layout(leaf.sizes, request.to.mesh);
    for (int64_t copies = 1 + below(2); copies > 0; --copies) {
      leaf.path = "leaf" + std::to_string(request.leaves.size());
      leaf.elementBytes = int64_t(1) << below(4);
      request.leaves.push_back(leaf);
    }
  }
  shuffle(request.leaves);
  return request;
}

/// By leaf, by element: the value that its holders have.
std::vector<std::vector<uint64_t>> valuesOf(const State &state) {
  std::vector<std::vector<uint64_t>> values = state[0];
  for (const auto &leaves : state) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      for (size_t e = 0; e < leaves[i].size(); ++e) {
        values[i][e] = std::min(values[i][e], leaves[i][e]);
      }
    }
  }
  return values;
}

//===----------------------------------------------------------------------===//
// What is least, one element at a time
//===----------------------------------------------------------------------===//

struct Cost {
  int64_t total = 0, slow = 0, busiest = 0;

  auto tie() const { return std::tie(total, slow, busiest); }
  bool operator<(const Cost &other) const { return tie() < other.tie(); }
};

class LeastCost {
public:
  LeastCost(const Request &request, const State &state)
      : request(request), state(state) {}

  /// Of the coordinates on the given devices.
  Cost of(const std::vector<int64_t> &devices) const;
  /// Of the best choice of devices, over all sets of devices.
  Cost best() const;

private:
  Cost of(int64_t coordinate, int64_t device) const;
  bool isLocal(int64_t device, size_t leaf, int64_t element) const;

  const Request &request;
  const State &state;
};

bool LeastCost::isLocal(int64_t device, size_t leaf, int64_t element) const {
  for (size_t other = 0; other < state.size(); ++other) {
    bool sameGroup = request.groups.empty() ||
                     request.groups[device] == request.groups[other];
    if (sameGroup && state[other][leaf][element] != absent) {
      return true;
    }
  }
  return false;
}

Cost LeastCost::of(int64_t coordinate, int64_t device) const {
  Cost cost;
  for (size_t i = 0; i < request.leaves.size(); ++i) {
    const Leaf &leaf = request.leaves[i];
    for (int64_t e = 0; e < elementsOf(leaf); ++e) {
      if (state[device][i][e] == absent &&
          holds(leaf.sizes, leaf.to, request.to.mesh, coordinate, e)) {
        cost.total += leaf.elementBytes;
        cost.slow += isLocal(device, i, e) ? 0 : leaf.elementBytes;
      }
    }
  }
  cost.busiest = cost.total;
  return cost;
}

Cost add(const Cost &a, const Cost &b) {
  return {a.total + b.total, a.slow + b.slow, std::max(a.busiest, b.busiest)};
}

Cost LeastCost::of(const std::vector<int64_t> &devices) const {
  Cost cost;
  for (size_t c = 0; c < devices.size(); ++c) {
    cost = add(cost, of(static_cast<int64_t>(c), devices[c]));
  }
  return cost;
}

Cost LeastCost::best() const {
  std::map<uint32_t, Cost> sets{{0, {}}}; // of devices in use
  for (int64_t c = 0; c < request.to.mesh.devices(); ++c) {
    std::map<uint32_t, Cost> next;
    for (size_t device = 0; device < state.size(); ++device) {
      Cost one = of(c, static_cast<int64_t>(device));
      for (const auto &[set, cost] : sets) {
        if (set >> device & 1) {
          continue;
        }
        Cost sum = add(cost, one);
        auto [at, isNew] = next.try_emplace(set | 1u << device, sum);
        if (!isNew && sum < at->second) {
          at->second = sum;
        }
      }
    }
    sets = std::move(next);
  }
  Cost best = sets.begin()->second;
  for (const auto &[set, cost] : sets) {
    best = std::min(best, cost);
  }
  return best;
}

void expectCost(const Transfer &transfer, const Cost &cost, uint32_t seed) {
  EXPECT_EQ(transfer.summary.bytes, cost.total) << seed;
  EXPECT_EQ(transfer.summary.slowBytes, cost.slow) << seed;
  EXPECT_EQ(transfer.summary.mostReceived, cost.busiest) << seed;
}

/// In a round a device sends at most once and receives at most once, and there
/// are no more rounds than partners.
void expectRounds(const Transfer &transfer, uint32_t seed) {
  std::map<std::pair<int64_t, int64_t>, int64_t> sends, receives;
  std::map<int64_t, int64_t> outgoing, incoming;
  int64_t partners = 0, last = 0;
  for (const Exchange &exchange : transfer.exchanges) {
    EXPECT_EQ(++sends[std::pair(exchange.round, exchange.source)], 1) << seed;
    EXPECT_EQ(++receives[std::pair(exchange.round, exchange.target)], 1)
        << seed;
    partners = std::max(
        {partners, ++outgoing[exchange.source], ++incoming[exchange.target]});
    EXPECT_GE(exchange.round, last) << seed;
    last = exchange.round;
  }
  EXPECT_EQ(transfer.rounds, partners) << seed;
}

struct Tally {
  int64_t moved = 0, idle = 0, exchanges = 0, rounds = 0;
};

void runCase(uint32_t seed, Tally &tally) {
  Maker maker(seed);
  Request request = maker.make();
  std::string error;
  std::optional<Transfer> there = planTransfer(request, error);
  ASSERT_TRUE(there) << seed << ": " << error;
  int64_t devices = static_cast<int64_t>(there->sent.size());
  State first = makeState(request, devices, maker.random);
  std::vector<std::vector<uint64_t>> values = valuesOf(first);
  State second;
  ASSERT_EQ(execute(request, *there, first, second, maker.random), "") << seed;
  ASSERT_EQ(checkState(request, *there, values, second), "") << seed;
  ASSERT_LE(there->summary.staging, request.budget) << seed;
  LeastCost least(request, first);
  expectCost(*there, request.relabel ? least.best() : least.of(there->devices),
             seed);
  expectRounds(*there, seed);

  // And back to the devices that had it.
  Request reverse = request;
  std::swap(reverse.from, reverse.to);
  reverse.from.devices = there->devices;
  reverse.devices = devices;
  reverse.relabel = false;
  for (Leaf &leaf : reverse.leaves) {
    std::swap(leaf.from, leaf.to);
  }
  std::optional<Transfer> back = planTransfer(reverse, error);
  ASSERT_TRUE(back) << seed << ": " << error;
  State third;
  ASSERT_EQ(execute(reverse, *back, second, third, maker.random), "") << seed;
  ASSERT_EQ(first, third) << seed;

  tally.moved += there->summary.bytes > 0;
  tally.idle += there->summary.bytes == 0;
  tally.exchanges += there->exchanges.size() + back->exchanges.size();
  tally.rounds = std::max(tally.rounds, there->rounds);
}

} // namespace

TEST(Random, EveryElementInPlaceThereAndBack) {
  constexpr uint32_t cases = 10000;
  Tally tally;
  for (uint32_t seed = 0; seed < cases && !HasFatalFailure(); ++seed) {
    runCase(seed, tally);
  }
  EXPECT_GT(tally.moved, cases / 2);
  std::cout << tally.moved << " transfers that move something, " << tally.idle
            << " that do not; " << tally.exchanges << " exchanges, at most "
            << tally.rounds << " rounds\n";
}
