//===- HopTest.cpp - From plan to plan ------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../transfer/RandomLayouts.h"
#include "PipelinePlan.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/executor/Session.h"
#include "runtime/format/Convert.h"
#include "runtime/state/Relocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <sys/mman.h>
#include <thread>

using namespace cleave;
using namespace cleave::executor;
using namespace cleave::test;

namespace {

/// A pipeline of other depths and schedules, data and tensor, in one set.
std::vector<PipelineSize> sizes() {
  return {{"one", 1, 1, 1, 1},
          {"micro", 1, 1, 1, 5},
          {"stages2", 1, 2, 1, 2},
          {"wide", 2, 1, 2, 2},
          {"uneven", 2, 2, 2, 3},
          {"empty", 3, 2, 1, 5},
          {"five", 1, 5, 1, 8},
          {"all", 2, 3, 2, 4},
          {"first", 2, 3, 1, 5, Order::ForwardsFirst}};
}

std::vector<int32_t> someIds(int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < rows * words; ++i) {
    ids.push_back((i * 17 + 5 + seed * 3) % 65);
  }
  return ids;
}

std::unique_ptr<Session> openSession(const std::string &plan,
                                     const SessionOptions &options = {}) {
  Result<std::unique_ptr<Session>> session =
      Session::open(fileOf(makePipelineSet(sizes())), plan, options);
  EXPECT_TRUE(session.ok()) << session.message();
  (*session)->state().initialise(7);
  return std::move(*session);
}

/// Every leaf's bytes, after every device that holds an element agreed.
std::vector<std::vector<char>> bytesOf(const state::State &state) {
  std::vector<std::vector<char>> all;
  for (size_t leaf = 0; leaf < state.leaves(); ++leaf) {
    EXPECT_TRUE(state.compareCopies(leaf).ok());
    all.emplace_back(state::bytesOf(state.leaf(leaf)));
    state.gather(leaf, all.back().data());
  }
  return all;
}

HopReport hop(Session &session, const std::string &plan,
              const HopOptions &options = {}) {
  Result<HopReport> report = session.hop(plan, options);
  EXPECT_TRUE(report.ok()) << report.message();
  return report ? *report : HopReport();
}

TEST(Hop, ChainsLeaveEveryBit) {
  std::unique_ptr<Session> session = openSession("uneven");
  ASSERT_TRUE(session->train({{"ids", someIds(0)}}).ok());
  std::vector<std::vector<char>> before = bytesOf(session->state());
  std::mt19937 random(3);
  std::vector<PipelineSize> plans = sizes();
  int64_t moved = 0;
  for (int i = 0; i < 80; ++i) {
    const std::string &plan = plans[random() % plans.size()].name;
    HopReport report = hop(*session, plan, {.relabel = i % 3 != 0});
    moved += report.bytes;
    ASSERT_EQ(session->plan().name, plan);
    ASSERT_EQ(report.to, plan);
    ASSERT_EQ(bytesOf(session->state()), before) << i << " " << plan;
  }
  EXPECT_GT(moved, 0);
}

TEST(Hop, TrainingGoesOnAsUnderOnePlan) {
  std::unique_ptr<Session> still = openSession("one");
  std::unique_ptr<Session> hops = openSession("first");
  std::mt19937 random(5);
  std::vector<PipelineSize> plans = sizes();
  for (int step = 0; step < 30; ++step) {
    if (step % 2 == 1) {
      hop(*hops, plans[random() % plans.size()].name);
    }
    std::vector<int32_t> ids = someIds(step);
    ASSERT_TRUE(still->train({{"ids", ids}}).ok());
    ASSERT_TRUE(hops->train({{"ids", ids}}).ok());
    EXPECT_EQ(hops->state().step, uint64_t(step) + 1);
    float loss = *still->scalar("train", format::OutputKind::Loss);
    EXPECT_NEAR(*hops->scalar("train", format::OutputKind::Loss), loss,
                1e-5 * std::abs(loss))
        << step << " " << hops->plan().name;
    ASSERT_TRUE(hops->compareCopies("train").ok());
    // Not `table`: what the toy adds to it counts stages.
    for (size_t leaf = 0; leaf < 3; ++leaf) {
      std::vector<float> a = still->state().get(leaf),
                         b = hops->state().get(leaf);
      float largest = 0;
      for (float value : a) {
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 1e-5 * largest) << leaf << " " << i;
      }
    }
  }
}

TEST(Hop, StagesAreTimedUnderEveryPlan) {
  SessionOptions options;
  options.stepDelay = [](int64_t device, const format::Step &) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * (device + 1)));
  };
  std::unique_ptr<Session> session = openSession("stages2", options);
  ASSERT_TRUE(session->train({{"ids", someIds(0)}}).ok());
  EXPECT_TRUE(session->stageTimes().empty());
  session->timeStages();
  for (const char *plan : {"stages2", "five"}) {
    hop(*session, plan);
    ASSERT_TRUE(session->train({{"ids", someIds(0)}}).ok());
    // Each stage sleeps forward and backward of each microbatch; the others
    // wait for it meanwhile, which does not count.
    std::vector<double> times = session->stageTimes();
    bool five = session->plan().name == std::string("five");
    int micros = five ? 8 : 2;
    ASSERT_EQ(times.size(), five ? 5u : 2u);
    for (size_t stage = 0; stage < times.size(); ++stage) {
      EXPECT_GE(times[stage], 0.004 * (stage + 1) * 2 * micros);
    }
    EXPECT_LT(times.front(), times.back());
  }
}

TEST(Hop, WhatStaysIsNotTouched) {
  std::unique_ptr<Session> session = openSession("one");
  std::vector<void *> before;
  for (size_t leaf = 0; leaf < session->state().leaves(); ++leaf) {
    before.push_back(session->state().pointer(0, leaf));
  }
  for (const char *plan : {"micro", "one"}) {
    HopReport report = hop(*session, plan);
    EXPECT_EQ(report.bytes, 0);
    EXPECT_EQ(report.extra, 0);
    for (size_t leaf = 0; leaf < session->state().leaves(); ++leaf) {
      EXPECT_EQ(session->state().pointer(0, leaf), before[leaf]);
    }
  }
}

TEST(Hop, RefusedHopsLeaveThePlanTraining) {
  std::unique_ptr<Session> session = openSession("one");
  std::vector<std::vector<char>> before = bytesOf(session->state());
  Result<HopReport> none = session->hop("nowhere");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.message().find("no plan called `nowhere`"), std::string::npos);
  Result<HopReport> large = session->hop("stages2", {.memory = 0});
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.message().find("a hop from `one` to `stages2`"),
            std::string::npos);
  EXPECT_NE(large.message().find("while it moves"), std::string::npos);
  EXPECT_FALSE(session->checkHop("one", "stages2", {.memory = 0}).ok());
  EXPECT_TRUE(session->checkHop("one", "stages2").ok());
  EXPECT_TRUE(session->checkHop("stages2", "one").ok());
  EXPECT_FALSE(session->checkHop("one", "nowhere").ok());
  EXPECT_EQ(session->plan().name, "one");
  EXPECT_EQ(bytesOf(session->state()), before);
  EXPECT_TRUE(session->train({{"ids", someIds(1)}}).ok());
}

// Each hop chooses the devices of the new mesh, so that the same pair of plans
// has several transfers: all that can come are planned beforehand.
TEST(Hop, NoHopHasToPlan) {
  std::unique_ptr<Session> session = openSession("one");
  std::vector<HopWay> ways = {{"one", "uneven"},   {"uneven", "stages2"},
                              {"stages2", "one"},  {"stages2", "micro"},
                              {"micro", "uneven"}, {"uneven", "five"},
                              {"five", "uneven"}};
  for (const HopWay &way : ways) {
    ASSERT_TRUE(session->prepare(way.to).ok());
  }
  ASSERT_TRUE(session->planHops(ways).ok());
  size_t planned = session->plannedTransfers();
  EXPECT_GE(planned, ways.size() - 2); // `micro` lies as `one`
  EXPECT_LT(planned, 64u);
  std::mt19937 random(8);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> next;
    for (const HopWay &way : ways) {
      if (way.from == session->plan().name) {
        next.push_back(way.to);
      }
    }
    hop(*session, next[random() % next.size()]);
    ASSERT_EQ(session->plannedTransfers(), planned)
        << i << " " << session->plan().name;
  }
  hop(*session, "wide"); // a way that nobody spoke of
  EXPECT_GT(session->plannedTransfers(), planned);
}

TEST(Hop, VariantsShareTransfers) {
  std::unique_ptr<Session> session = openSession("one");
  ASSERT_TRUE(session->checkHop("one", "uneven").ok());
  size_t planned = session->plannedTransfers();
  ASSERT_TRUE(session->checkHop("micro", "uneven").ok());
  EXPECT_EQ(session->plannedTransfers(), planned);
  ASSERT_TRUE(session->checkHop("micro", "stages2").ok());
  EXPECT_EQ(session->plannedTransfers(), planned + 1);
}

TEST(Hop, AMeshThatIsTooLargeIsRefused) {
  std::vector<PipelineSize> plans = {{"one", 1, 1, 1, 1},
                                     {"huge", 1000, 1, 1, 1}};
  Result<std::unique_ptr<Session>> session =
      Session::open(fileOf(makePipelineSet(plans)), "one");
  ASSERT_TRUE(session.ok());
  Status status = (*session)->prepare("huge");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("1000 devices"), std::string::npos);
  EXPECT_TRUE((*session)->train({{"ids", someIds(1)}}).ok());
}

TEST(Hop, AFailedDeviceEndsHopsToo) {
  std::unique_ptr<Session> session = openSession("wide");
  session->cancel(Status::error("lost", ErrorKind::Peer));
  EXPECT_FALSE(session->train({{"ids", someIds(1)}}).ok());
  Result<HopReport> report = session->hop("one");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().kind(), ErrorKind::Peer);
}

//===----------------------------------------------------------------------===//
// Random layouts
//===----------------------------------------------------------------------===//

/// Sets without programs: what a state needs.
format::PlanSetT randomSet(RandomLayouts &random, int plans,
                           const std::vector<int64_t> &scale = {1, 1, 1}) {
  format::PlanSetT set;
  std::vector<std::vector<int64_t>> sizes(3);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int64_t rank = random.below(4); rank > 0; --rank) {
      sizes[i].push_back(random.oneIn(20) ? 0 : 1 + random.below(9));
      if (sizes[i].size() <= 2) {
        sizes[i].back() *= scale[i];
      }
    }
    auto leaf = std::make_unique<format::LeafT>();
    leaf->path = "leaf" + std::to_string(i);
    leaf->type =
        random.oneIn(4) ? format::ElementType::Bool : format::ElementType::F32;
    leaf->sizes = sizes[i];
    leaf->init = std::make_unique<format::InitT>();
    set.leaves.push_back(std::move(leaf));
  }
  for (int i = 0; i < plans; ++i) {
    auto plan = std::make_unique<format::PlanT>();
    layout::Mesh mesh = random.mesh();
    plan->mesh = std::make_unique<format::MeshT>(format::fromLayout(mesh));
    for (const std::vector<int64_t> &leaf : sizes) {
      layout::Layout layout = random.layout(leaf, mesh);
      for (size_t dim = 1; dim < layout.dims.size(); ++dim) {
        if (!layout::isContiguous(layout.dims[dim])) {
          layout.dims[dim].cuts.clear();
          layout.dims[dim].places.clear();
        }
      }
      plan->layouts.push_back(
          std::make_unique<format::LayoutT>(format::fromLayout(layout)));
    }
    set.plans.push_back(std::move(plan));
  }
  return set;
}

/// Every element its own, as far as its type can tell.
void fill(state::State &state, std::mt19937 &random) {
  for (size_t leaf = 0; leaf < state.leaves(); ++leaf) {
    std::vector<char> bytes(state::bytesOf(state.leaf(leaf)));
    for (char &byte : bytes) {
      byte = static_cast<char>(random());
    }
    state.scatter(leaf, bytes.data());
  }
}

size_t usedBy(const state::State &state, size_t device) {
  size_t bytes = 0;
  for (size_t leaf = 0; leaf < state.leaves(); ++leaf) {
    for (const state::Part &part : state.parts(device, leaf)) {
      bytes += part.box.elements() * format::elementSize(state.leaf(leaf).type);
    }
  }
  return bytes;
}

/// A state under the first plan of a set, on the first of nine devices.
class NineDevices {
public:
  static constexpr size_t count = 9;
  NineDevices(const format::PlanSetT &set, std::mt19937 &random) {
    std::vector<device::Device *> devices;
    for (size_t i = 0; i < count; ++i) {
      owned.push_back(std::make_unique<device::CpuDevice>(nullptr));
      devices.push_back(owned.back().get());
    }
    size_t first = format::toLayout(*set.plans[0]->mesh).devices();
    Result<state::State> made =
        state::State::create(set, 0, std::span(devices).first(first));
    EXPECT_TRUE(made.ok()) << made.message();
    state.emplace(std::move(*made));
    state->addDevices(devices);
    fill(*state, random);
  }
  state::State &operator*() { return *state; }
  state::State *operator->() { return &*state; }

private:
  std::vector<std::unique_ptr<device::CpuDevice>> owned;
  std::optional<state::State> state;
};

TEST(Relocation, RandomLayouts) {
  int done = 0, moved = 0, refused = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    RandomLayouts random(seed);
    constexpr int plans = 4;
    format::PlanSetT set = randomSet(random, plans);
    NineDevices state(set, random.random);
    std::vector<std::vector<char>> before = bytesOf(*state);
    state::Transfers transfers(set);
    for (int hop = 0; hop < 6; ++hop) {
      size_t to = random.below(plans);
      state::RelocationOptions options;
      options.relabel = !random.oneIn(3);
      options.memory = random.oneIn(3) ? random.below(600) : 1 << 20;
      Result<state::Relocation> way =
          state::Relocation::plan(*state, to, options, transfers);
      if (!way) {
        ASSERT_LT(options.memory, 600) << way.message();
        ++refused;
        continue;
      }
      EXPECT_LE(way->extra(), options.memory);
      for (size_t group = 0; group < way->groups(); ++group) {
        way->prepare(group);
        for (const state::Relocation::Copy &copy : way->copies(group)) {
          transport::runTask(copy.task, &copy.tensors);
        }
      }
      moved += way->summary().bytes > 0;
      std::move(*way).finish(*state);
      ASSERT_EQ(state->plan(), to);
      ASSERT_EQ(bytesOf(*state), before) << seed << " " << hop;
      ++done;
    }
    // Nothing is held for plans that are left.
    for (size_t device = 0; device < NineDevices::count; ++device) {
      EXPECT_LE(usedBy(*state, device), state->memoryUsed(device));
      EXPECT_LE(state->memoryUsed(device),
                usedBy(*state, device) + 64 * 2 * state->leaves());
    }
  }
  EXPECT_GT(moved, 3000);
  EXPECT_GT(refused, 100);
  EXPECT_GT(done, 6000);
}

//===----------------------------------------------------------------------===//
// Leaves that are larger than the limit
//===----------------------------------------------------------------------===//

/// A leaf under plans of four devices that cut it over one dim each, 2 MiB
/// each.
struct LargeLeaf {
  static constexpr int64_t rows = 2048, columns = 1024, pieces = 4;

  LargeLeaf() {
    auto leaf = std::make_unique<format::LeafT>();
    leaf->path = "w";
    leaf->sizes = {rows, columns};
    leaf->init = std::make_unique<format::InitT>();
    set.leaves.push_back(std::move(leaf));
    for (size_t dim : {0, 1}) {
      layout::Mesh mesh;
      mesh.atoms = {{"x", pieces}};
      layout::Layout layout;
      layout.dims.resize(2);
      layout.dims[dim].atoms = {0};
      auto plan = std::make_unique<format::PlanT>();
      plan->mesh = std::make_unique<format::MeshT>(format::fromLayout(mesh));
      plan->layouts.push_back(
          std::make_unique<format::LayoutT>(format::fromLayout(layout)));
      set.plans.push_back(std::move(plan));
    }
    std::vector<device::Device *> devices;
    for (int64_t i = 0; i < pieces; ++i) {
      owned.push_back(std::make_unique<device::CpuDevice>(nullptr));
      devices.push_back(owned.back().get());
    }
    Result<state::State> made = state::State::create(set, 0, devices);
    EXPECT_TRUE(made.ok()) << made.message();
    state.emplace(std::move(*made));
    std::mt19937 random(4);
    fill(*state, random);
  }

  format::PlanSetT set;
  std::vector<std::unique_ptr<device::CpuDevice>> owned;
  std::optional<state::State> state;
};

/// Bytes of memory that pages of a block have.
int64_t residentBytes(const char *block, size_t bytes) {
  uintptr_t begin = reinterpret_cast<uintptr_t>(block) / 4096 * 4096;
  uintptr_t end =
      (reinterpret_cast<uintptr_t>(block) + bytes + 4095) / 4096 * 4096;
  std::vector<unsigned char> pages((end - begin) / 4096);
  EXPECT_EQ(
      ::mincore(reinterpret_cast<void *>(begin), end - begin, pages.data()), 0);
  return 4096 * std::count_if(pages.begin(), pages.end(),
                              [](unsigned char page) { return page & 1; });
}

// Old and new piece together are twice the state. In rounds the memory of one
// is given back as the other takes it: what pages there really are is counted.
TEST(Relocation, ALeafLargerThanTheLimitGoesInRounds) {
  LargeLeaf leaf;
  std::vector<std::vector<char>> before = bytesOf(*leaf.state);
  state::Transfers transfers(leaf.set);
  state::RelocationOptions options;
  options.relabel = false;
  constexpr int64_t piece = LargeLeaf::rows * LargeLeaf::columns;
  for (size_t to : {1, 0, 1, 0}) {
    options.memory = 256 << 10;
    Result<state::Relocation> way =
        state::Relocation::plan(*leaf.state, to, options, transfers);
    ASSERT_TRUE(way.ok()) << way.message();
    EXPECT_GT(way->groups(), 8u);
    EXPECT_LE(way->extra(), options.memory);
    std::vector<const char *> old;
    for (int64_t device = 0; device < LargeLeaf::pieces; ++device) {
      old.push_back(static_cast<const char *>(leaf.state->pointer(device, 0)));
    }
    for (size_t group = 0; group < way->groups(); ++group) {
      way->prepare(group);
      for (const state::Relocation::Copy &copy : way->copies(group)) {
        transport::runTask(copy.task, &copy.tensors);
      }
      for (int64_t device = 0; device < LargeLeaf::pieces; ++device) {
        int64_t now = residentBytes(old[device], piece) +
                      residentBytes(way->pointer(device, 0), piece);
        // Two blocks' pages at both ends.
        ASSERT_LE(now, piece + options.memory + 4 * 4096) << group;
      }
    }
    std::move(*way).finish(*leaf.state);
    ASSERT_EQ(bytesOf(*leaf.state), before);
  }
  // With enough memory at once; with hardly any not at all.
  options.memory = 4 << 20;
  Result<state::Relocation> atOnce =
      state::Relocation::plan(*leaf.state, 1, options, transfers);
  ASSERT_TRUE(atOnce.ok());
  EXPECT_EQ(atOnce->groups(), 1u);
  options.memory = 4096;
  Result<state::Relocation> none =
      state::Relocation::plan(*leaf.state, 1, options, transfers);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.message().find("`params/w` needs "), std::string::npos)
      << none.message();
  EXPECT_NE(none.message().find("in rounds, row by row, it needs "),
            std::string::npos);
}

TEST(Relocation, RoundsOfRandomLayouts) {
  int inRounds = 0, done = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomLayouts random(seed);
    format::PlanSetT set = randomSet(random, 3, {40, 60, 25});
    NineDevices state(set, random.random);
    std::vector<std::vector<char>> before = bytesOf(*state);
    state::Transfers transfers(set);
    for (int hop = 0; hop < 5; ++hop) {
      state::RelocationOptions options;
      options.memory = 4096 * (2 + random.below(40));
      options.overlapped = random.oneIn(2);
      Result<state::Relocation> way =
          state::Relocation::plan(*state, random.below(3), options, transfers);
      if (!way) {
        continue;
      }
      EXPECT_LE(way->extra(), options.memory);
      inRounds += way->groups() > set.leaves.size() + 1;
      for (size_t group = 0; group < way->groups(); ++group) {
        way->prepare(group);
        for (const state::Relocation::Copy &copy : way->copies(group)) {
          transport::runTask(copy.task, &copy.tensors);
        }
      }
      std::move(*way).finish(*state);
      ASSERT_EQ(bytesOf(*state), before) << seed << " " << hop;
      ++done;
    }
  }
  EXPECT_GT(inRounds, 20);
  EXPECT_GT(done, 100);
}

TEST(Relocation, FreedMemoryIsUsedAgain) {
  device::CpuDevice device(nullptr);
  device::Pool pool(device);
  std::vector<device::Block> blocks;
  for (size_t bytes : {100, 5000, 64, 0, 700}) {
    blocks.push_back(*pool.allocate(bytes));
    EXPECT_GE(blocks.back().bytes, bytes + 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % 64, 0u);
  }
  size_t held = pool.held(), used = pool.used();
  device::Pool trial = pool;
  trial.release(blocks[1]);
  EXPECT_EQ(trial.allocate(5000)->data, blocks[1].data);
  EXPECT_EQ(pool.used(), used); // books of its own
  for (const device::Block &block : blocks) {
    pool.release(block);
  }
  EXPECT_EQ(pool.used(), 0u);
  for (int round = 0; round < 10; ++round) {
    device::Block block = *pool.allocate(3000);
    pool.release(block);
  }
  EXPECT_EQ(pool.held(), held);
}

} // namespace
