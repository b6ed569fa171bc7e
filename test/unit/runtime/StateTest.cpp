//===- StateTest.cpp - The state under several plans, and its files -------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPlan.h"
#include "numerics/Random.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/state/Checkpoint.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sys/resource.h>

using namespace cleave;
using namespace cleave::state;
using namespace cleave::test;

namespace {

/// A plan set and its state under one plan.
struct Fixture {
  explicit Fixture(std::vector<MeshSize> meshes, size_t plan = 0)
      : set(makeSet(meshes)) {
    make(meshes[plan].data * meshes[plan].tensor, plan);
  }
  Fixture(format::PlanSetT custom, int64_t devices) : set(std::move(custom)) {
    make(devices, 0);
  }
  void make(int64_t count, size_t plan) {
    std::vector<device::Device *> all;
    for (int64_t i = 0; i < count; ++i) {
      devices.push_back(std::make_unique<device::CpuDevice>(nullptr));
      all.push_back(devices.back().get());
    }
    Result<State> made = State::create(set, plan, all);
    EXPECT_TRUE(made.ok());
    state.emplace(std::move(*made));
  }
  format::PlanSetT set;
  std::vector<std::unique_ptr<device::Device>> devices;
  std::optional<State> state;
};

std::vector<MeshSize> meshes() {
  return {{"one", 1, 1}, {"wide", 2, 2}, {"uneven", 3, 5}};
}

std::string temporary(const std::string &name) {
  return testing::TempDir() + "cleave_state_" + name;
}

/// A saved checkpoint of a fresh state.
std::string savedCheckpoint() {
  Fixture fixture(meshes(), 1);
  fixture.state->initialise(3);
  fixture.state->step = 12;
  fixture.state->cursor = 345;
  std::string path = temporary("saved.safetensors");
  EXPECT_TRUE(
      saveCheckpoint(path, *fixture.state, "toy", {{"vocab", "abc"}}).ok());
  return path;
}

/// A safetensors file of a header and data.
std::string writeRaw(const std::string &header, size_t dataBytes,
                     const char *name = "raw.safetensors") {
  std::string path = temporary(name);
  std::ofstream file(path, std::ios::binary);
  uint64_t length = header.size();
  file.write(reinterpret_cast<const char *>(&length), 8);
  file << header << std::string(dataBytes, '\0');
  return path;
}

std::string loadError(const std::string &path) {
  Fixture fixture(meshes(), 2);
  fixture.state->initialise(9);
  std::vector<float> before = fixture.state->get(0);
  Result<Metadata> loaded = loadCheckpoint(path, *fixture.state);
  if (loaded.ok()) {
    return "";
  }
  EXPECT_EQ(fixture.state->get(0), before) << "an error changed the state";
  EXPECT_EQ(fixture.state->seed, 9u);
  std::string prefix = "cannot load `" + path + "`: ";
  EXPECT_TRUE(loaded.message().starts_with(prefix)) << loaded.message();
  return loaded.message().substr(prefix.size());
}

} // namespace

TEST(State, InitialValuesAreTheSameUnderEveryPlan) {
  std::vector<float> expected;
  for (size_t plan = 0; plan < meshes().size(); ++plan) {
    Fixture fixture(meshes(), plan);
    fixture.state->initialise(11);
    std::vector<float> values = fixture.state->get(0);
    if (plan == 0) {
      expected = values;
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i],
                  static_cast<float>(0.2 * numerics::normal(11, "layer/w", i)));
      }
    }
    EXPECT_EQ(values, expected);
    EXPECT_EQ(fixture.state->get(1), std::vector<float>(in * out, 0.0f));
  }
}

TEST(State, SetAndGet) {
  for (size_t plan = 0; plan < meshes().size(); ++plan) {
    Fixture fixture(meshes(), plan);
    std::vector<float> values(layers * in * out);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i) * 0.5f;
    }
    ASSERT_TRUE(fixture.state->set(0, values).ok());
    EXPECT_EQ(fixture.state->get(0), values);
    // Each device holds its piece, dense.
    for (size_t device = 0; device < fixture.devices.size(); ++device) {
      const transport::Box &box = fixture.state->box(device, 0);
      const float *piece =
          static_cast<const float *>(fixture.state->pointer(device, 0));
      int64_t at = 0;
      for (int64_t l = 0; l < layers; ++l) {
        for (int64_t i = 0; i < in; ++i) {
          for (int64_t o = box.dims[2].begin; o < box.dims[2].end; ++o) {
            EXPECT_EQ(piece[at++], values[(l * in + i) * out + o]);
          }
        }
      }
    }
    EXPECT_EQ(fixture.state->set(0, std::vector<float>(3)).message(),
              "`params/layer/w` has 84 elements, not 3");
  }
}

TEST(State, SumsOfSquaresAreTheSameUnderEveryPlan) {
  std::vector<double> sums;
  for (size_t plan = 0; plan < meshes().size(); ++plan) {
    Fixture fixture(meshes(), plan);
    std::vector<float> values(in * out);
    double expected = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(numerics::normal(3, "x", i));
      expected += double(values[i]) * double(values[i]);
    }
    ASSERT_TRUE(fixture.state->set(1, values).ok());
    const std::string &name = fixture.state->leaf(1).state;
    ASSERT_FALSE(name.empty());
    SumOfSquares squares;
    sums.push_back(squares.of(*fixture.state, name));
    EXPECT_NEAR(sums.back(), expected, 1e-12 * expected);
    EXPECT_EQ(squares.of(*fixture.state, name), sums.back());
    EXPECT_EQ(squares.of(*fixture.state, "none"), 0);
    EXPECT_EQ(sums.back(), sums.front()); // the same bits
  }
}

TEST(State, CopiesThatDriftAreFound) {
  int compared = 0;
  for (size_t plan = 0; plan < meshes().size(); ++plan) {
    Fixture fixture(meshes(), plan);
    State &state = *fixture.state;
    state.initialise(4);
    EXPECT_TRUE(state.compareCopies(0).ok());
    int64_t devices = static_cast<int64_t>(fixture.devices.size());
    for (int64_t a = 0; a < devices; ++a) {
      for (int64_t b = a + 1; b < devices; ++b) {
        if (state.box(a, 0).empty() || state.box(a, 0) != state.box(b, 0)) {
          continue;
        }
        auto *bits = static_cast<uint32_t *>(state.pointer(b, 0));
        *bits ^= 1; // the last digit of one element
        EXPECT_FALSE(state.compareCopies(0).ok());
        *bits ^= 1;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(State, ResidenceAndTypes) {
  format::PlanSetT set = makeSet({{"wide", 2, 2}});
  set.plans[0]->programs.clear();
  set.leaves[0]->type = format::ElementType::I32;
  set.leaves[0]->init->kind = format::InitKind::Constant;
  set.leaves[0]->init->a = 3;
  auto part = std::make_unique<format::ResidenceT>();
  part->atom = 0;
  part->begin = 1;
  part->end = 2;
  set.plans[0]->layouts[0]->residence.push_back(std::move(part));
  Fixture fixture(std::move(set), 4);
  fixture.state->initialise(1);
  EXPECT_TRUE(fixture.state->box(0, 0).empty());
  EXPECT_FALSE(fixture.state->box(3, 0).empty());
  EXPECT_EQ(fixture.state->get(0), std::vector<float>(layers * in * out, 3.0f));
}

TEST(Checkpoint, LoadsUnderEveryPlan) {
  std::string path = savedCheckpoint();
  Fixture source(meshes(), 0);
  source.state->initialise(3);
  for (size_t plan = 0; plan < meshes().size(); ++plan) {
    Fixture fixture(meshes(), plan);
    fixture.state->initialise(99);
    Result<Metadata> metadata = loadCheckpoint(path, *fixture.state);
    ASSERT_TRUE(metadata.ok()) << metadata.message();
    EXPECT_EQ((*metadata)["model"], "toy");
    EXPECT_EQ((*metadata)["vocab"], "abc");
    EXPECT_EQ(fixture.state->step, 12u);
    EXPECT_EQ(fixture.state->cursor, 345u);
    EXPECT_EQ(fixture.state->seed, 3u);
    EXPECT_EQ(fixture.state->get(0), source.state->get(0));
    // Saved again under this plan: the same bytes.
    std::string again = temporary("again.safetensors");
    ASSERT_TRUE(
        saveCheckpoint(again, *fixture.state, "toy", {{"vocab", "abc"}}).ok());
    EXPECT_EQ(*readFile(again), *readFile(path));
  }
}

TEST(Checkpoint, ParamsAlone) {
  std::string path = savedCheckpoint();
  Fixture fixture(meshes(), 1);
  std::vector<float> moments(in * out, 4.0f);
  ASSERT_TRUE(fixture.state->set(1, moments).ok());
  LoadOptions options;
  options.paramsOnly = true;
  ASSERT_TRUE(loadCheckpoint(path, *fixture.state, options).ok());
  EXPECT_EQ(fixture.state->get(1), moments);
}

TEST(Checkpoint, WrongLeaves) {
  auto damaged = [](const std::function<void(format::PlanSetT &)> &change,
                    int64_t devices = 1) {
    format::PlanSetT set = makeSet({{"one", 1, 1}});
    change(set);
    Fixture fixture(std::move(set), devices);
    std::string path = temporary("wrong.safetensors");
    EXPECT_TRUE(saveCheckpoint(path, *fixture.state, "toy").ok());
    return loadError(path);
  };
  EXPECT_EQ(damaged([](format::PlanSetT &set) {
              set.leaves.pop_back();
              set.plans[0]->layouts.pop_back();
            }),
            "it lacks `optimizer/layer/w/first`, which the model has");
  EXPECT_EQ(
      damaged([](format::PlanSetT &set) { set.leaves[0]->path = "layer/v"; }),
      "it lacks `params/layer/w`, which the model has");
  EXPECT_EQ(damaged([](format::PlanSetT &set) {
              set.leaves[0]->sizes = {layers, in, out + 1};
            }),
            "`params/layer/w` is [3, 4, 8] in it and [3, 4, 7] in the model");
  EXPECT_EQ(damaged([](format::PlanSetT &set) {
              set.leaves[1]->type = format::ElementType::I32;
            }),
            "`optimizer/layer/w/first` is i32 in it and f32 in the model");
  EXPECT_EQ(damaged([](format::PlanSetT &set) {
              auto extra = std::make_unique<format::LeafT>();
              extra->path = "bias";
              extra->init = std::make_unique<format::InitT>();
              set.leaves.push_back(std::move(extra));
              set.plans[0]->layouts.push_back(
                  std::make_unique<format::LayoutT>());
            }),
            "it has `params/bias`, which the model lacks");
}

TEST(Checkpoint, TruncatedFiles) {
  std::vector<char> good = *readFile(savedCheckpoint());
  for (size_t size = 0; size < good.size(); size += size < 300 ? 1 : 7) {
    std::string path = temporary("cut.safetensors");
    std::ofstream(path, std::ios::binary).write(good.data(), size);
    EXPECT_NE(loadError(path), "") << size;
  }
}

TEST(Checkpoint, AbsurdHeaders) {
  EXPECT_EQ(loadError(writeRaw("{}", 0)),
            "it lacks `params/layer/w`, which the model has");
  EXPECT_EQ(loadError(writeRaw("[1]", 0)), "its header is not a JSON object");
  EXPECT_EQ(loadError(writeRaw("{\"a\":", 0)),
            "its header is not a JSON object");
  EXPECT_EQ(loadError(writeRaw("{\"a\": 3}", 0)),
            "its entry of `a` is malformed");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F64\",\"shape\":[],"
                               "\"data_offsets\":[0,8]}}",
                               8)),
            "`a` is of type F64; only F32, I32 and BOOL are read");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],"
                               "\"data_offsets\":[0,4]}}",
                               4)),
            "its entry of `a` is malformed");
  EXPECT_EQ(loadError(writeRaw(
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
                "\"data_offsets\":[0,0]}}",
                0)),
            "its entry of `a` is malformed");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
                               "\"data_offsets\":[0,4]}}",
                               4)),
            "the data of `a` has another size than its shape says");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
                               "\"data_offsets\":[4,8]}}",
                               8)),
            "the data of `a` overlaps another tensor's or leaves a gap");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
                               "\"data_offsets\":[0,8]}}",
                               4)),
            "it is cut short: `a` ends at byte 8 of the data, which has 4");
  EXPECT_EQ(loadError(writeRaw("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
                               "\"data_offsets\":[0,4]}}",
                               9)),
            "it has data that no tensor names");
  std::string deep = "{\"a\":" + std::string(200000, '[');
  EXPECT_EQ(loadError(writeRaw(deep, 0)), "its header is not a JSON object");
}

TEST(Checkpoint, RandomMutationsDoNotCrash) {
  std::vector<char> good = *readFile(savedCheckpoint());
  std::mt19937 random(4);
  std::string path = temporary("mutated.safetensors");
  Fixture fixture(meshes(), 1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<char> bad = good;
    for (int changes = 1 + random() % 3; changes > 0; --changes) {
      bad[random() % 400] = static_cast<char>(random());
    }
    std::ofstream(path, std::ios::binary).write(bad.data(), bad.size());
    (void)loadCheckpoint(path, *fixture.state).ok();
  }
}

TEST(Checkpoint, NoNumbersInMetadata) {
  Fixture fixture(meshes());
  std::string path = temporary("plain.safetensors");
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < fixture.state->leaves(); ++i) {
    const format::LeafT &leaf = fixture.state->leaf(i);
    infos.push_back({nameOf(leaf), leaf.type, leaf.sizes});
  }
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, infos, {{"step", "many"}});
  ASSERT_TRUE(writer.ok());
  std::vector<char> zeros(layers * in * out * 4);
  ASSERT_TRUE(writer->write(zeros.data()).ok());
  ASSERT_TRUE(writer->write(zeros.data()).ok());
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(loadError(path), "its metadata has no number `step`; it is not a "
                             "checkpoint of a run");
}

TEST(Checkpoint, FullDiskLeavesTheOldFile) {
  std::string path = savedCheckpoint();
  std::vector<char> before = *readFile(path);
  Fixture fixture(meshes(), 1);
  fixture.state->initialise(77);
  rlimit old, small;
  ::getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = before.size() / 2;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  Status status = saveCheckpoint(path, *fixture.state, "toy");
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "cannot write `" + path + "`: File too large");
  EXPECT_EQ(*readFile(path), before);
  for (const auto &entry :
       std::filesystem::directory_iterator(testing::TempDir())) {
    EXPECT_EQ(entry.path().string().find("saved.safetensors.part"),
              std::string::npos);
  }
  EXPECT_FALSE(
      saveCheckpoint("/nonexistent/x.safetensors", *fixture.state, "toy").ok());
}
