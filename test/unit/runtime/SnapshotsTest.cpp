//===- SnapshotsTest.cpp - Snapshots in memory and on disk ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Snapshots.h"
#include "TestPlan.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sys/resource.h>

using namespace cleave;
using namespace cleave::state;
using namespace cleave::test;

namespace {

using Bytes = std::vector<std::vector<char>>;

/// A state under one of a set's plans, and a folder.
struct Training {
  explicit Training(size_t plan = 1) : set(makeSet(meshes())) {
    std::filesystem::remove_all(folder);
    std::vector<device::Device *> all;
    MeshSize mesh = meshes()[plan];
    for (int64_t i = 0; i < mesh.data * mesh.tensor; ++i) {
      devices.push_back(std::make_unique<device::CpuDevice>(nullptr));
      all.push_back(devices.back().get());
    }
    Result<State> made = State::create(set, plan, all);
    EXPECT_TRUE(made.ok()) << made.message();
    state.emplace(std::move(*made));
  }
  static std::vector<MeshSize> meshes() {
    return {{"one", 1, 1}, {"wide", 2, 2}, {"uneven", 3, 5}};
  }

  std::unique_ptr<Snapshots> open(int64_t keep = 3) {
    Result<std::unique_ptr<Snapshots>> opened = Snapshots::open(folder, keep);
    EXPECT_TRUE(opened.ok()) << opened.message();
    return std::move(*opened);
  }
  /// Other values, and a step further.
  void train() {
    state->initialise(state->seed + 1);
    state->step = ++steps;
    state->cursor = 4 * steps;
    for (size_t leaf = 0; leaf < state->leaves(); ++leaf) {
      std::vector<float> values(elementsOf(state->leaf(leaf)));
      for (float &value : values) {
        value = std::uniform_real_distribution<float>()(random);
      }
      ASSERT_TRUE(state->set(leaf, values).ok());
    }
  }
  Bytes bytes() const {
    Bytes result;
    for (size_t leaf = 0; leaf < state->leaves(); ++leaf) {
      result.emplace_back(bytesOf(state->leaf(leaf)));
      state->gather(leaf, result.back().data());
    }
    return result;
  }
  /// What stands in the folder.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
      result.push_back(entry.path().filename());
    }
    std::sort(result.begin(), result.end());
    return result;
  }
  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

  std::string folder = testing::TempDir() + "cleave_snapshots";
  format::PlanSetT set;
  std::vector<std::unique_ptr<device::Device>> devices;
  std::optional<State> state;
  uint64_t steps = 0;
  std::mt19937 random{5};
};

using Names = std::vector<std::string>;

/// Bytes that a file of this process can have at most, while it lives.
struct FileLimit {
  explicit FileLimit(size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old);
    rlimit small = old;
    small.rlim_cur = bytes;
    handler = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  }
  rlimit old;
  void (*handler)(int);
};

void alter(const std::string &path, const std::vector<char> &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

} // namespace

//===----------------------------------------------------------------------===//
// In memory
//===----------------------------------------------------------------------===//

TEST(Snapshots, LosingADeviceLosesNothing) {
  int64_t without = 0;
  for (size_t plan : {1, 2}) {
    Training run(plan);
    for (int64_t lost = 0; lost < int64_t(run.devices.size()); ++lost) {
      std::unique_ptr<Snapshots> snapshots = run.open();
      run.train();
      Bytes before = run.bytes();
      snapshots->take(*run.state, "toy", {});
      snapshots->finish();
      run.train();
      // All that the device has is gone: its state, its copy of that, and what
      // it holds for the device before it.
      std::span<char> held = snapshots->held().heldBy(lost);
      std::memset(held.data(), 0xff, held.size());
      ASSERT_TRUE(snapshots->restore(*run.state).ok());
      without += run.bytes() != before;
      run.train();
      Status status = snapshots->restore(*run.state, lost);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(run.bytes(), before) << plan << " " << lost;
      EXPECT_EQ(run.state->step, run.steps - 2);
      EXPECT_EQ(run.state->cursor, 4 * (run.steps - 2));
      for (size_t leaf = 0; leaf < run.state->leaves(); ++leaf) {
        EXPECT_TRUE(run.state->compareCopies(leaf).ok());
      }
    }
  }
  EXPECT_GT(without, 4) << "nothing was lost";
}

TEST(Snapshots, RestoreUnderAnotherPlan) {
  Training wide(1), uneven(2);
  StateCopy copy;
  wide.train();
  ASSERT_TRUE(copy.take(*wide.state).ok());
  copy.spread();
  ASSERT_TRUE(copy.restore(*uneven.state, 3).ok());
  EXPECT_EQ(uneven.bytes(), wide.bytes());
}

TEST(Snapshots, WhatNobodyElseHasIsLost) {
  Training wide(1), one(0);
  for (Training *run : {&wide, &one}) {
    StateCopy copy;
    run->train();
    ASSERT_TRUE(copy.take(*run->state).ok());
    if (run == &one) {
      copy.spread(); // there is no other device
    }
    run->train();
    Bytes before = run->bytes();
    Status status = copy.restore(*run->state, 0);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("the copy of `params/"), std::string::npos)
        << status.message();
    EXPECT_EQ(run->bytes(), before);
    EXPECT_EQ(run->state->step, run->steps);
  }
  std::unique_ptr<Snapshots> none = wide.open();
  EXPECT_EQ(none->restore(*wide.state).message(),
            "no snapshot is held in memory");
}

//===----------------------------------------------------------------------===//
// On disk
//===----------------------------------------------------------------------===//

TEST(Snapshots, TheNewestStay) {
  Training run;
  std::unique_ptr<Snapshots> snapshots = run.open(2);
  Bytes before;
  for (int i = 0; i < 5; ++i) {
    run.train();
    before = run.bytes();
    snapshots->take(*run.state, "toy", {{"plan", "wide"}});
  }
  snapshots.reset(); // waits
  EXPECT_EQ(run.names(), (Names{"lock", "step-0000000004.safetensors",
                                "step-0000000005.safetensors"}));
  std::vector<std::string> passedOver;
  Result<std::string> newest = newestSnapshot(run.folder, passedOver);
  ASSERT_TRUE(newest.ok()) << newest.message();
  EXPECT_EQ(*newest, run.path("step-0000000005.safetensors"));
  EXPECT_TRUE(passedOver.empty());
}

TEST(Snapshots, LoadUnderAnotherPlan) {
  Training other(2), run;
  run.train();
  run.open()->take(*run.state, "toy", {{"plan", "wide"}});
  std::vector<std::string> passedOver;
  Result<Metadata> metadata =
      loadCheckpoint(*newestSnapshot(run.folder, passedOver), *other.state);
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  EXPECT_EQ(metadata->at("plan"), "wide");
  EXPECT_EQ(metadata->at("model"), "toy");
  EXPECT_EQ(other.bytes(), run.bytes());
  EXPECT_EQ(other.state->step, run.steps);
}

// A run that resumed before the newest replaces what is further on in its turn.
TEST(Snapshots, AnEarlierStepRemovesNoLaterOne) {
  Training run;
  run.steps = 9;
  std::unique_ptr<Snapshots> snapshots = run.open(1);
  for (uint64_t step : {10, 3, 4}) {
    run.steps = step - 1;
    run.train();
    snapshots->take(*run.state, "toy", {});
  }
  snapshots.reset();
  EXPECT_EQ(run.names(), (Names{"lock", "step-0000000004.safetensors",
                                "step-0000000010.safetensors"}));
}

TEST(Snapshots, OneRunWritesIntoAFolder) {
  Training run;
  std::unique_ptr<Snapshots> snapshots = run.open();
  Result<std::unique_ptr<Snapshots>> second = Snapshots::open(run.folder, 3);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.message(),
            "another run writes snapshots into `" + run.folder + "`");
  snapshots.reset();
  alter(run.path("step-0000000003.safetensors.part-abc"), {});
  alter(run.path("mine.part-abc"), {});
  snapshots = run.open();
  EXPECT_EQ(run.names(), (Names{"lock", "mine.part-abc"}));
}

TEST(Snapshots, AFullDiskLeavesTheOlder) {
  Training run;
  std::unique_ptr<Snapshots> snapshots = run.open();
  run.train();
  snapshots->take(*run.state, "toy", {});
  snapshots->finish();
  ASSERT_TRUE(snapshots->trouble().ok());
  std::vector<char> older = *readFile(run.path("step-0000000001.safetensors"));
  run.train();
  Bytes before = run.bytes();
  {
    FileLimit limit(older.size() / 2);
    snapshots->take(*run.state, "toy", {});
    snapshots->finish();
  }
  EXPECT_EQ(snapshots->trouble().message(),
            "cannot write `" + run.path("step-0000000002.safetensors") +
                "`: File too large");
  EXPECT_TRUE(snapshots->trouble().ok()) << "said twice";
  EXPECT_EQ(run.names(), (Names{"lock", "step-0000000001.safetensors"}));
  EXPECT_EQ(*readFile(run.path("step-0000000001.safetensors")), older);
  // Memory has it all the same.
  run.train();
  ASSERT_TRUE(snapshots->restore(*run.state, 2).ok());
  EXPECT_EQ(run.bytes(), before);
  // The next is tried again.
  run.train();
  snapshots->take(*run.state, "toy", {});
  snapshots->finish();
  EXPECT_TRUE(snapshots->trouble().ok());
  EXPECT_EQ(run.names().back(), "step-0000000004.safetensors");
}

TEST(Snapshots, AFolderThatWentAway) {
  Training run;
  std::unique_ptr<Snapshots> snapshots = run.open();
  std::filesystem::remove_all(run.folder);
  run.train();
  snapshots->take(*run.state, "toy", {});
  snapshots->finish();
  Status trouble = snapshots->trouble();
  ASSERT_FALSE(trouble.ok());
  EXPECT_NE(trouble.message().find("No such file or directory"),
            std::string::npos)
      << trouble.message();
  std::filesystem::create_directory(run.folder);
  run.train();
  snapshots->take(*run.state, "toy", {});
  snapshots->finish();
  EXPECT_TRUE(snapshots->trouble().ok());
  EXPECT_EQ(run.names(), (Names{"step-0000000002.safetensors"}));
}

TEST(Snapshots, WhatIsNotWholeIsPassedOver) {
  Training run;
  {
    std::unique_ptr<Snapshots> snapshots = run.open();
    for (int i = 0; i < 2; ++i) {
      run.train();
      snapshots->take(*run.state, "toy", {});
    }
  }
  std::string first = run.path("step-0000000001.safetensors");
  std::string second = run.path("step-0000000002.safetensors");
  std::vector<char> good = *readFile(second);
  auto isPassedOver = [&](const std::vector<char> &bytes) {
    alter(second, bytes);
    std::vector<std::string> passedOver;
    Result<std::string> newest = newestSnapshot(run.folder, passedOver);
    EXPECT_TRUE(newest.ok()) << newest.message();
    EXPECT_EQ(passedOver.size(), newest && *newest == first);
    return newest && *newest == first ? passedOver.front() : "";
  };
  EXPECT_EQ(isPassedOver(good), "");
  for (size_t size = 0; size < good.size(); size += 37) {
    EXPECT_NE(isPassedOver({good.begin(), good.begin() + size}), "") << size;
  }
  for (size_t at = 0; at < good.size(); at += 41) {
    std::vector<char> altered = good;
    altered[at] ^= 16;
    EXPECT_NE(isPassedOver(altered), "") << at;
  }
  std::string text(good.begin(), good.end());
  size_t version = text.find("\"format\":\"1\"");
  ASSERT_NE(version, std::string::npos);
  std::vector<char> later = good;
  later[version + 10] = '2';
  EXPECT_NE(isPassedOver(later).find("it is of format version 2"),
            std::string::npos);
  alter(first, {});
  alter(second, {});
  std::vector<std::string> passedOver;
  Result<std::string> none = newestSnapshot(run.folder, passedOver);
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(none.message().starts_with("no snapshot in `" + run.folder +
                                         "` can be resumed: "))
      << none.message();
  EXPECT_EQ(passedOver.size(), 2u);
}

TEST(Snapshots, OfAnotherModelAreRefused) {
  Training run;
  run.train();
  run.open()->take(*run.state, "toy", {});
  format::PlanSetT other = makeSet(Training::meshes());
  other.leaves[0]->path = "another";
  device::CpuDevice device(nullptr);
  device::Device *devices[] = {&device};
  Result<State> state = State::create(other, 0, devices);
  ASSERT_TRUE(state.ok());
  state->initialise(1);
  std::vector<float> before = state->get(0);
  std::vector<std::string> passedOver;
  Result<Metadata> loaded =
      loadCheckpoint(*newestSnapshot(run.folder, passedOver), *state);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.message().find("lacks `params/another`"), std::string::npos)
      << loaded.message();
  EXPECT_EQ(state->get(0), before);
}
