//===- LeastTest.cpp - Every pair of small plans moves least --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Least bytes by brute force over sets of elements, which shares no code with
// the planner: an element belongs to the piece that a division says, devices
// are chosen by trying all subsets, and no share of the sending can beat the
// bytes that a set of devices alone can send.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iostream>

using namespace cleave::transfer;

namespace {

constexpr int64_t most = 8; ///< devices

/// Which devices hold each element of the parameter (0) and a moment (1).
struct Held {
  std::array<std::array<uint8_t, toy::elements>, 2> by;
};

/// Element x of n is in piece floor(x k / n) of k.
int64_t pieceOf(int64_t x, int64_t n, int64_t k) { return x * k / n; }

bool holds(const toy::Plan &plan, int64_t device, bool isMoment, int64_t layer,
           int64_t in, int64_t out) {
  int64_t tensor = device % plan.tensor;
  int64_t data = device / plan.tensor % plan.data;
  int64_t pipe = device / plan.tensor / plan.data;
  if (pieceOf(layer, toy::layers, plan.pipe) != pipe) {
    return false;
  }
  bool zero = plan.zero && isMoment;
  if (!plan.isOnIn) {
    return pieceOf(out, toy::width, plan.tensor) == tensor &&
           (!zero || pieceOf(in, toy::width, plan.data) == data);
  }
  return zero ? pieceOf(in, toy::width, plan.tensor * plan.data) ==
                    tensor * plan.data + data
              : pieceOf(in, toy::width, plan.tensor) == tensor;
}

Held heldUnder(const toy::Plan &plan) {
  Held held;
  for (bool isMoment : {false, true}) {
    for (int64_t e = 0; e < toy::elements; ++e) {
      uint8_t devices = 0;
      for (int64_t device = 0; device < plan.devices(); ++device) {
        bool has = holds(plan, device, isMoment, e / toy::width / toy::width,
                         e / toy::width % toy::width, e % toy::width);
        devices |= static_cast<uint8_t>(has << device);
      }
      held.by[isMoment][e] = devices;
    }
  }
  return held;
}

/// Bytes of an element, of the parameter and of both moments.
constexpr int64_t bytesOf[] = {4, 8};

/// Bytes that each coordinate of `to` lacks on each device.
using Lacks = std::array<std::array<int64_t, most>, most>;

Lacks lacksOf(const Held &from, const Held &to) {
  Lacks lacks{};
  for (int kind : {0, 1}) {
    // How often each pair of device sets occurs.
    static thread_local std::array<std::array<int64_t, 256>, 256> count;
    std::vector<std::pair<uint8_t, uint8_t>> seen;
    for (int64_t e = 0; e < toy::elements; ++e) {
      uint8_t old = from.by[kind][e], wanted = to.by[kind][e];
      if (count[old][wanted]++ == 0) {
        seen.push_back({old, wanted});
      }
    }
    for (auto [old, wanted] : seen) {
      for (int64_t c = 0; c < most; ++c) {
        for (int64_t d = 0; d < most; ++d) {
          if ((wanted >> c & 1) && !(old >> d & 1)) {
            lacks[c][d] += bytesOf[kind] * count[old][wanted];
          }
        }
      }
      count[old][wanted] = 0;
    }
  }
  return lacks;
}

struct Least {
  int64_t total = -1, busiest = 0;
};

/// The least total of all choices, then the least busiest device: over sets of
/// devices that the first coordinates are on.
Least leastOf(const Lacks &lacks, int64_t coordinates, int64_t devices) {
  std::vector<Least> best(size_t(1) << devices);
  best[0].total = 0;
  for (uint32_t set = 1; set < best.size(); ++set) {
    int64_t coordinate = std::popcount(set) - 1;
    if (coordinate >= coordinates) {
      continue;
    }
    for (int64_t device = 0; device < devices; ++device) {
      if (!(set >> device & 1)) {
        continue;
      }
      Least before = best[set & ~(1u << device)];
      int64_t bytes = lacks[coordinate][device];
      Least now{before.total + bytes, std::max(before.busiest, bytes)};
      if (best[set].total < 0 ||
          std::tie(now.total, now.busiest) <
              std::tie(best[set].total, best[set].busiest)) {
        best[set] = now;
      }
    }
  }
  Least least;
  for (uint32_t set = 0; set < best.size(); ++set) {
    if (std::popcount(set) == coordinates &&
        (least.total < 0 || std::tie(best[set].total, best[set].busiest) <
                                std::tie(least.total, least.busiest))) {
      least = best[set];
    }
  }
  return least;
}

/// What the device that sends most sends at least, in bytes: for every set of
/// devices what only they can send, over how many they are.
double leastSent(const Held &from, const Held &to,
                 const std::vector<int64_t> &devices) {
  std::array<uint8_t, 256> moved{}; // sets of coordinates to sets of devices
  for (int set = 0; set < 256; ++set) {
    for (size_t c = 0; c < devices.size(); ++c) {
      moved[set] |= static_cast<uint8_t>((set >> c & 1) << devices[c]);
    }
  }
  std::array<int64_t, 256> only{};
  for (int kind : {0, 1}) {
    for (int64_t e = 0; e < toy::elements; ++e) {
      uint8_t old = from.by[kind][e];
      int receivers = moved[to.by[kind][e]] & ~old;
      only[old] += bytesOf[kind] * std::popcount(unsigned(receivers));
    }
  }
  for (int bit = 0; bit < 8; ++bit) { // sums over subsets
    for (int set = 0; set < 256; ++set) {
      if (set >> bit & 1) {
        only[set] += only[set & ~(1 << bit)];
      }
    }
  }
  double bound = 0;
  for (unsigned set = 1; set < 256; ++set) {
    bound =
        std::max(bound, static_cast<double>(only[set]) / std::popcount(set));
  }
  return bound;
}

std::vector<toy::Plan> allPlans() {
  std::vector<toy::Plan> plans;
  for (int64_t data = 1; data <= most; ++data) {
    for (int64_t tensor = 1; data * tensor <= most; ++tensor) {
      for (int64_t pipe = 1; data * tensor * pipe <= most; ++pipe) {
        for (bool zero : {false, true}) {
          for (bool isOnIn : {false, true}) {
            plans.push_back({data, tensor, pipe, zero, isOnIn});
          }
        }
      }
    }
  }
  return plans;
}

} // namespace

TEST(Least, EveryPairOfFactorisations) {
  std::vector<toy::Plan> plans = allPlans();
  std::vector<Held> held;
  for (const toy::Plan &plan : plans) {
    held.push_back(heldUnder(plan));
  }
  int64_t pairs = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    for (size_t j = 0; j < plans.size(); ++j, ++pairs) {
      Lacks lacks = lacksOf(held[i], held[j]);
      int64_t coordinates = plans[j].devices();
      int64_t devices = std::max(plans[i].devices(), coordinates);
      Least same{0, 0};
      for (int64_t c = 0; c < coordinates; ++c) {
        same.total += lacks[c][c];
        same.busiest = std::max(same.busiest, lacks[c][c]);
      }
      Least relabelled = leastOf(lacks, coordinates, devices);
      for (bool relabel : {false, true}) {
        std::string error;
        std::optional<Transfer> transfer =
            planTransfer(toy::requestFor(plans[i], plans[j], relabel), error);
        ASSERT_TRUE(transfer) << error;
        const Least &least = relabel ? relabelled : same;
        ASSERT_EQ(transfer->summary.bytes, least.total) << i << " " << j;
        ASSERT_EQ(transfer->summary.mostReceived, least.busiest)
            << i << " " << j;
        // Shares end at whole elements of all leaves of an entry.
        double sent = leastSent(held[i], held[j], transfer->devices);
        ASSERT_GE(transfer->summary.mostSent + 1e-6, sent) << i << " " << j;
        ASSERT_LE(transfer->summary.mostSent, sent + 12) << i << " " << j;
      }
    }
  }
  EXPECT_EQ(pairs, static_cast<int64_t>(plans.size() * plans.size()));
  std::cout << pairs << " pairs of " << plans.size()
            << " plans, each with the same ranks and relabelled\n";
}
