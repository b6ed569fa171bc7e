//===- PartsTest.cpp - Areas, assignments, shares, errors -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Toy.h"

#include "transfer/Assignment.h"
#include "transfer/Messages.h"
#include "transfer/Share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

using namespace cleave;
using namespace cleave::transfer;

//===----------------------------------------------------------------------===//
// Areas
//===----------------------------------------------------------------------===//

TEST(Area, ExampleOfTheHeader) {
  Area area{{{{0, 2}, {4, 5}}, {{0, 3}}}};
  std::vector<Box> expected = {
      {{0, 1}, {2, 3}}, {{1, 2}, {0, 3}}, {{4, 5}, {0, 1}}};
  EXPECT_EQ(area.elements(), 9);
  EXPECT_EQ(boxesOf(area, 2, 7), expected);
}

TEST(Area, WithoutDimsHasOneElement) {
  EXPECT_EQ(Area{}.elements(), 1);
  EXPECT_EQ(boxesOf(Area{}).size(), 1u);
  EXPECT_TRUE(boxesOf(Area{}, 1, 1).empty());
}

/// Every range of an area is its elements in order, each once.
TEST(Area, RangesAreBoxesInOrder) {
  Area area{{{{1, 3}, {5, 6}}, {{0, 2}}, {{2, 3}, {4, 7}}}};
  auto indicesOf = [](const std::vector<Box> &boxes) {
    std::vector<std::vector<int64_t>> indices;
    for (const Box &box : boxes) {
      for (int64_t i = box[0].begin; i < box[0].end; ++i) {
        for (int64_t j = box[1].begin; j < box[1].end; ++j) {
          for (int64_t k = box[2].begin; k < box[2].end; ++k) {
            indices.push_back({i, j, k});
          }
        }
      }
    }
    return indices;
  };
  auto all = indicesOf(boxesOf(area));
  ASSERT_EQ(static_cast<int64_t>(all.size()), area.elements());
  for (int64_t begin = 0; begin <= area.elements(); ++begin) {
    for (int64_t end = begin; end <= area.elements(); ++end) {
      std::vector<std::vector<int64_t>> part(all.begin() + begin,
                                             all.begin() + end);
      EXPECT_EQ(indicesOf(boxesOf(area, begin, end)), part);
    }
  }
}

//===----------------------------------------------------------------------===//
// Assignments and shares, against all there are
//===----------------------------------------------------------------------===//

TEST(Assignment, IsBestByEachAimInTurn) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    size_t n = 1 + random() % 6;
    Costs first(n), second(n), third(n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        first.at(i, j) = random() % 4;
        second.at(i, j) = random() % 5;
        third.at(i, j) = random() % 9;
      }
    }
    auto valueOf = [&](const std::vector<int64_t> &columns) {
      std::tuple<int64_t, int64_t, int64_t> value{0, 0, 0};
      for (size_t i = 0; i < n; ++i) {
        std::get<0>(value) += first.at(i, columns[i]);
        std::get<1>(value) =
            std::max(std::get<1>(value), second.at(i, columns[i]));
        std::get<2>(value) += third.at(i, columns[i]);
      }
      return value;
    };
    std::vector<int64_t> columns(n);
    std::iota(columns.begin(), columns.end(), 0);
    auto best = valueOf(columns);
    while (std::next_permutation(columns.begin(), columns.end())) {
      best = std::min(best, valueOf(columns));
    }
    Assignment assignment(n);
    assignment.minimiseSum(first);
    assignment.minimiseLargest(second);
    assignment.minimiseSum(third);
    ASSERT_EQ(valueOf(assignment.columns()), best) << round;
  }
}

/// The largest sum of a device is the least whole number that no set of devices
/// refutes.
TEST(Share, LargestSumIsLeast) {
  std::mt19937 random(2);
  for (int round = 0; round < 5000; ++round) {
    int64_t devices = 1 + random() % 7;
    std::vector<Pool> pools(random() % 7);
    std::vector<int64_t> only(size_t(1) << devices, 0);
    for (Pool &pool : pools) {
      uint32_t set = 1 + random() % ((1u << devices) - 1);
      pool.amount = random() % 50;
      for (int64_t device = 0; device < devices; ++device) {
        if (set >> device & 1) {
          pool.devices.push_back(device);
        }
      }
      for (uint32_t larger = 0; larger < only.size(); ++larger) {
        only[larger] += (set & ~larger) == 0 ? pool.amount : 0;
      }
    }
    int64_t least = 0;
    for (uint32_t set = 1; set < only.size(); ++set) {
      int64_t count = std::popcount(set);
      least = std::max(least, (only[set] + count - 1) / count);
    }
    std::vector<int64_t> load(devices, 0);
    std::vector<std::vector<int64_t>> shares = share(pools, devices);
    for (size_t i = 0; i < pools.size(); ++i) {
      int64_t sum = 0;
      for (size_t j = 0; j < pools[i].devices.size(); ++j) {
        ASSERT_GE(shares[i][j], 0);
        sum += shares[i][j];
        load[pools[i].devices[j]] += shares[i][j];
      }
      ASSERT_EQ(sum, pools[i].amount);
    }
    ASSERT_EQ(*std::max_element(load.begin(), load.end()), least) << round;
  }
}

//===----------------------------------------------------------------------===//
// What a transfer says
//===----------------------------------------------------------------------===//

namespace {

Transfer planned(const Request &request) {
  std::string error;
  std::optional<Transfer> transfer = planTransfer(request, error);
  EXPECT_TRUE(transfer) << error;
  return transfer.value_or(Transfer());
}

layout::Mesh meshOf(std::vector<int64_t> sizes) {
  layout::Mesh mesh;
  for (int64_t size : sizes) {
    mesh.atoms.push_back({std::string(1, 'a' + mesh.atoms.size()), size});
  }
  return mesh;
}

layout::Layout rowsOn(std::vector<layout::AtomId> atoms) {
  layout::Layout layout;
  layout.dims.resize(1);
  layout.dims[0].atoms = std::move(atoms);
  return layout;
}

/// The worked example of Transfer.h.
Request example() {
  Request request;
  request.from.mesh = meshOf({4});
  request.to.mesh = meshOf({2, 2});
  request.leaves.push_back({"w", {8}, 4, rowsOn({0}), rowsOn({0})});
  return request;
}

} // namespace

TEST(Transfer, ExampleOfTheHeader) {
  Transfer transfer = planned(example());
  EXPECT_EQ(transfer.devices, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(transfer.summary.bytes, 32);
  EXPECT_EQ(transfer.summary.mostSent, 8);
  EXPECT_EQ(transfer.summary.mostReceived, 8);
  EXPECT_EQ(transfer.summary.keptBytes, 32);
  EXPECT_EQ(transfer.summary.stateBefore, 8);
  EXPECT_EQ(transfer.summary.stateAfter, 16);
  EXPECT_EQ(transfer.summary.bothCopies, 8);
  EXPECT_EQ(transfer.summary.staging, 16);
  EXPECT_EQ(transfer.rounds, 1);
  ASSERT_EQ(transfer.exchanges.size(), 4u);
  for (const Exchange &exchange : transfer.exchanges) {
    EXPECT_EQ(exchange.target, exchange.source ^ 1);
    EXPECT_EQ(exchange.bytes, 8);
  }
  for (const Move &move : transfer.entries[0].moves) {
    int64_t row = 2 * move.source;
    EXPECT_EQ(boxesOf(transfer.entries[0], move),
              (std::vector<Box>{{{row, row + 2}}}));
  }
  EXPECT_EQ(heldBefore(transfer.entries[0], 3)->dims[0], (Intervals{{6, 8}}));
  EXPECT_EQ(heldAfter(transfer.entries[0], 3)->dims[0], (Intervals{{4, 8}}));
}

TEST(Transfer, PredictsFromRatesOfTheLinksItUses) {
  Request request = example();
  EXPECT_FALSE(planned(request).summary.seconds);
  request.links = {4, 0, 0.25};
  EXPECT_DOUBLE_EQ(planned(request).summary.seconds.value(), 8 / 4.0 + 0.25);
  request.groups = {0, 1, 1, 0}; // devices 0 and 3 change places with others
  Transfer transfer = planned(request);
  EXPECT_EQ(transfer.summary.bytes, 32); // least bytes first
  EXPECT_EQ(transfer.summary.slowBytes, 32);
  EXPECT_FALSE(transfer.summary.seconds);
  request.links.slow = 2;
  EXPECT_DOUBLE_EQ(planned(request).summary.seconds.value(), 8 / 2.0 + 0.25);
}

TEST(Transfer, TakesFromItsOwnGroupWhereItCan) {
  // All of four devices hold the leaf; two more want it.
  Request request;
  request.from.mesh = meshOf({4});
  request.to.mesh = meshOf({6});
  request.leaves.push_back({"w", {12}, 4, rowsOn({}), rowsOn({})});
  request.groups = {0, 0, 0, 1, 1, 2};
  request.relabel = false;
  Transfer transfer = planned(request);
  EXPECT_EQ(transfer.summary.slowBytes, 48);
  // Device 3 alone serves 4; 0, 1 and 2 serve 5, which has nobody near.
  EXPECT_EQ(transfer.sent[3], 48);
  EXPECT_EQ(transfer.sent[0] + transfer.sent[1] + transfer.sent[2], 48);
  for (const Exchange &exchange : transfer.exchanges) {
    EXPECT_EQ(exchange.slow, exchange.target == 5);
  }
}

TEST(Transfer, ChoosesDevicesAlone) {
  toy::Plan from{2, 2, 2, true, true}, to{2, 4, 1, true, true};
  Request request = toy::requestFor(from, to, true);
  std::string error;
  std::optional<std::vector<int64_t>> devices = chooseDevices(request, error);
  ASSERT_TRUE(devices);
  Transfer whole = planned(request);
  EXPECT_EQ(*devices, whole.devices);
  // Leaves moved one after another, with these devices, move the same bytes.
  int64_t bytes = 0;
  for (const Leaf &leaf : request.leaves) {
    Request part = request;
    part.leaves = {leaf};
    part.relabel = false;
    part.to.devices = *devices;
    bytes += planned(part).summary.bytes;
  }
  EXPECT_EQ(bytes, whole.summary.bytes);
}

TEST(Transfer, PrefersTheDevicesItIsTold) {
  Request request = example();
  request.leaves[0].from = rowsOn({}); // everything is everywhere
  request.to.devices = {2, 0, 3, 1};
  Transfer transfer = planned(request);
  EXPECT_EQ(transfer.devices, request.to.devices);
  EXPECT_EQ(transfer.summary.bytes, 0);
  EXPECT_TRUE(transfer.exchanges.empty());
}

TEST(Transfer, StagesAtMostTheBudget) {
  toy::Plan from{2, 2, 2, true, true}, to{1, 8, 1, true, false};
  for (int64_t budget : {8, 9, 100, 1000, 4096, 1 << 20}) {
    Request request = toy::requestFor(from, to, true);
    request.budget = budget;
    Transfer transfer = planned(request);
    EXPECT_LE(transfer.summary.staging, budget);
    int64_t bytes = 0;
    for (const Exchange &exchange : transfer.exchanges) {
      Messages messages(transfer, exchange, request.leaves);
      for (Message message; messages.next(message); bytes += message.bytes) {
        EXPECT_LE(2 * message.bytes, budget);
      }
    }
    EXPECT_EQ(bytes, transfer.summary.bytes);
  }
}

//===----------------------------------------------------------------------===//
// Bad requests
//===----------------------------------------------------------------------===//

namespace {

std::string errorOf(const std::function<void(Request &)> &change) {
  Request request = example();
  change(request);
  std::string error;
  EXPECT_FALSE(planTransfer(request, error));
  std::string again;
  EXPECT_FALSE(chooseDevices(request, again));
  EXPECT_EQ(error, again);
  return error;
}

} // namespace

TEST(TransferErrors, SayWhatIsWrong) {
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].from.partial = {0}; }),
            "`w` under the old plan: a sum is pending, and a state has none "
            "between steps");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].to.dims.clear(); }),
            "`w` under the new plan: the layout has 0 dims, the tensor 1");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].from = rowsOn({1}); }),
            "`w` under the old plan: the layout names an atom that the mesh "
            "has not");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].from = rowsOn({0, 0}); }),
            "`w` under the old plan: an atom splits the tensor twice");
  EXPECT_EQ(
      errorOf([](Request &r) { r.leaves[0].to.dims[0].cuts = {0, 9, 8}; }),
      "`w` under the new plan: the cuts do not go from 0 to the size of the "
      "dim");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].to.dims[0].cuts = {0, 8}; }),
            "`w` under the new plan: the number of cuts is not that of the "
            "pieces and one");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].to.dims[0].places = {0}; }),
            "`w` under the new plan: there are fewer places than coordinates, "
            "and no cuts");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].to.dims[0].places = {0, 2}; }),
            "`w` under the new plan: a piece is placed on a coordinate that is "
            "not there");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].to.dims[0].unit = 0; }),
            "`w` under the new plan: a unit is not positive");
  EXPECT_EQ(
      errorOf([](Request &r) { r.leaves[0].to.residence = {{0, 0, 1}}; }),
      "`w` under the new plan: it resides on a part of an atom that splits "
      "it");
  EXPECT_EQ(
      errorOf([](Request &r) { r.leaves[0].to.residence = {{1, 0, 3}}; }),
      "`w` under the new plan: it resides on coordinates that are not there");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].sizes = {-1}; }),
            "`w` has sizes that make no sense");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].sizes = {int64_t(1) << 62}; }),
            "`w` has sizes that make no sense");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].sizes = {int64_t(1) << 58}; }),
            "the state is too large to count its bytes");
  EXPECT_EQ(errorOf([](Request &r) { r.leaves[0].elementBytes = 0; }),
            "`w` has sizes that make no sense");
  EXPECT_EQ(errorOf([](Request &r) { r.budget = 7; }),
            "a budget of 7 bytes does not hold two elements of `w`, one to "
            "send and one to receive");
  EXPECT_EQ(errorOf([](Request &r) { r.budget = -5; }),
            "a budget of -5 bytes holds nothing");
  EXPECT_EQ(errorOf([](Request &r) { r.devices = 3; }),
            "the plans need 4 devices, but there are 3");
  EXPECT_EQ(errorOf([](Request &r) { r.groups = {0, 0}; }),
            "groups are given for 2 of 4 devices");
  EXPECT_EQ(errorOf([](Request &r) { r.to.devices = {0, 1, 2}; }),
            "the new mesh has 4 coordinates, but 3 devices are named for it");
  EXPECT_EQ(errorOf([](Request &r) { r.from.devices = {0, 1, 2, 2}; }),
            "two coordinates of the old mesh are on one device");
  EXPECT_EQ(errorOf([](Request &r) { r.from.devices = {0, 1, 2, -1}; }),
            "the old mesh is on a device that is not there");
  EXPECT_EQ(errorOf([](Request &r) { r.from.mesh.atoms[0].size = 0; }),
            "the old mesh has an axis of no size");
  EXPECT_EQ(
      errorOf([](Request &r) { r.from.mesh.atoms[0].size = int64_t(1) << 40; }),
      "the old mesh has more than 16384 devices");
}
