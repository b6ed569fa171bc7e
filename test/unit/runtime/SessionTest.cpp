//===- SessionTest.cpp - Programs on meshes of threads --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Session.h"
#include "TestPlan.h"
#include "runtime/executor/Bound.h"
#include "runtime/executor/Profile.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <random>
#include <thread>

using namespace cleave;
using namespace cleave::executor;
using namespace cleave::test;
using format::OutputKind;

namespace {

const std::vector<MeshSize> meshes = {{"one", 1, 1},    {"wide", 2, 2},
                                      {"data", 8, 1},   {"tensor", 1, 4},
                                      {"uneven", 3, 5}, {"many", 8, 8}};

std::vector<int32_t> someIds(int seed = 0) {
  std::vector<int32_t> ids;
  for (int i = 0; i < batch * seq; ++i) {
    ids.push_back((i * 17 + 5 + seed * 3) % 65);
  }
  return ids;
}

std::unique_ptr<Session> openSession(const std::string &plan,
                                     const SessionOptions &options = {}) {
  Result<std::unique_ptr<Session>> session =
      Session::open(makeFile(meshes), plan, options);
  EXPECT_TRUE(session.ok()) << session.message();
  (*session)->state().initialise(7);
  return std::move(*session);
}

/// The toy, in double precision on global arrays.
struct Expected {
  double loss = 0;
  std::vector<double> kept, x, shifted, gradient;
};

Expected expect(const std::vector<float> &w, const std::vector<int32_t> &ids,
                int step, int seed) {
  Expected e;
  e.x.resize(batch * in);
  e.kept.resize(layers * batch * out);
  for (int b = 0; b < batch; ++b) {
    double sum = 0;
    for (int s = 0; s < seq; ++s) {
      sum += ids[b * seq + s];
    }
    for (int i = 0; i < in; ++i) {
      e.x[b * in + i] = 0.01 * (i + 1) * sum;
    }
  }
  std::vector<double> h(batch * out);
  for (int l = 0; l < layers; ++l) {
    for (int b = 0; b < batch; ++b) {
      for (int o = 0; o < out; ++o) {
        double sum = 0;
        for (int i = 0; i < in; ++i) {
          sum += e.x[b * in + i] * w[(l * in + i) * out + o];
        }
        h[b * out + o] = sum;
        e.kept[(l * batch + b) * out + o] = sum + l + o;
      }
    }
    for (int b = 0; b < batch; ++b) {
      for (int i = 0; i < in; ++i) {
        e.x[b * in + i] += 0.1 * h[b * out + i];
      }
    }
  }
  e.loss = 100.0 * step + 1000.0 * seed;
  for (double x : e.x) {
    e.loss += x;
  }
  e.gradient.resize(in * out);
  for (int b = 0; b < batch; ++b) {
    for (int i = 0; i < in; ++i) {
      for (int o = 0; o < out; ++o) {
        e.gradient[i * out + o] += e.x[b * in + i] * h[b * out + o];
      }
    }
  }
  return e;
}

void expectNear(const std::vector<float> &got,
                const std::vector<double> &expected, const char *what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i])))
        << what << " at " << i;
  }
}

} // namespace

TEST(Session, EveryMeshGivesTheSame) {
  for (const MeshSize &mesh : meshes) {
    SCOPED_TRACE(mesh.name);
    std::unique_ptr<Session> session = openSession(mesh.name);
    std::vector<float> w = session->state().get(0);
    std::vector<double> first(in * out);
    for (int step = 1; step <= 3; ++step) {
      std::vector<int32_t> ids = someIds(step);
      ASSERT_TRUE(session->train({{"ids", ids}}).ok());
      EXPECT_EQ(session->state().step, uint64_t(step));
      Expected expected = expect(w, ids, step, 7);
      EXPECT_NEAR(*session->scalar("train", OutputKind::Loss), expected.loss,
                  1e-4 * expected.loss);
      expectNear(*session->output("train", OutputKind::Output, "kept"),
                 expected.kept, "kept");
      expectNear(*session->output("train", OutputKind::Output, "x"), expected.x,
                 "x");
      expectNear(*session->output("train", OutputKind::Gradient, "layer/w"),
                 expected.gradient, "gradient");
      for (size_t i = 0; i < first.size(); ++i) {
        first[i] += expected.gradient[i];
      }
      expectNear(session->state().get(1), first, "first");
    }
  }
}

TEST(Session, MoveStaysWithinThePieces) {
  std::unique_ptr<Session> session = openSession("wide");
  std::vector<int32_t> ids = someIds();
  ASSERT_TRUE(session->train({{"ids", ids}}).ok());
  std::vector<float> x = *session->output("train", OutputKind::Output, "x");
  std::vector<float> shifted =
      *session->output("train", OutputKind::Output, "shifted");
  for (int b = 0; b < batch; ++b) {
    for (int i = 0; i < in; ++i) {
      // Rows 0 .. 2 are on the first devices, 3 .. 4 on the others.
      bool moved = b == 1 || b == 2 || b == 4;
      EXPECT_EQ(shifted[b * in + i], moved ? x[(b - 1) * in + i] : 0.0f);
    }
  }
}

TEST(Session, DelaysChangeNoBit) {
  auto run = [](uint64_t seed) {
    SessionOptions options;
    if (seed) {
      options.transportDelay = [seed](int64_t device) {
        thread_local std::mt19937_64 random(seed * 100 + device);
        if (random() % 4 == 0) {
          std::this_thread::sleep_for(
              std::chrono::microseconds(random() % 150));
        }
      };
    }
    std::unique_ptr<Session> session = openSession("uneven", options);
    std::vector<std::vector<float>> results;
    for (int step = 0; step < 5; ++step) {
      std::vector<int32_t> ids = someIds(step);
      EXPECT_TRUE(session->train({{"ids", ids}}).ok());
      results.push_back({*session->scalar("train", OutputKind::Loss)});
      results.push_back(*session->output("train", OutputKind::Output, "kept"));
      results.push_back(session->state().get(1));
    }
    return results;
  };
  std::vector<std::vector<float>> calm = run(0);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(run(seed), calm);
  }
}

TEST(Session, FeedsAreChecked) {
  std::unique_ptr<Session> session = openSession("wide");
  std::vector<int32_t> ids = someIds();
  EXPECT_EQ(session->train(std::initializer_list<Feed>{}).message(),
            "input `ids` is missing");
  EXPECT_EQ(session->train({{"ids", ids}, {"idz", ids}}).message(),
            "program `train` has no input called `idz`");
  ids[7] = 65;
  EXPECT_EQ(session->train({{"ids", ids}}).message(),
            "input `ids` has the id 65 at position 7; ids are below 65");
  ids.pop_back();
  EXPECT_EQ(session->train({{"ids", ids}}).message(),
            "input `ids` has 29 tokens; the program takes 30");
  EXPECT_EQ(session->run("eval", {}).message(),
            "plan `wide` has no program called `eval`");
  // None of these broke it.
  ids = someIds();
  EXPECT_TRUE(session->train({{"ids", ids}}).ok());
  EXPECT_EQ(session->state().step, 1u);
}

TEST(Session, UnknownPlan) {
  Result<std::unique_ptr<Session>> session =
      Session::open(makeFile({{"a", 1, 1}, {"b", 2, 1}}), "c");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.message(),
            "the plan file has no plan called `c`; it has `a`, `b`");
}

TEST(Session, MissingKernel) {
  format::PlanSetT set = makeSet({{"one", 2, 1}});
  set.symbols[2] = "mixx";
  Result<format::PlanFile> file = format::PlanFile::parse(
      format::encodePlanFile(set, testKernels()), "toy");
  ASSERT_TRUE(file.ok());
  Result<std::unique_ptr<Session>> session = Session::open(
      std::make_shared<const format::PlanFile>(std::move(*file)), "");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.message(), "plan `one`: program `train`: cannot load the "
                               "kernels of the plan file: they lack `mixx`");
}

TEST(Session, KernelsThatAreNoElf) {
  std::vector<char> garbage(300, 'x');
  Result<format::PlanFile> file = format::PlanFile::parse(
      format::encodePlanFile(makeSet({{"one", 1, 1}}), garbage), "toy");
  ASSERT_TRUE(file.ok());
  Result<std::unique_ptr<Session>> session = Session::open(
      std::make_shared<const format::PlanFile>(std::move(*file)), "");
  ASSERT_FALSE(session.ok());
}

TEST(Session, CancelStopsARun) {
  SessionOptions options;
  options.transportDelay = [](int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  std::unique_ptr<Session> session = openSession("uneven", options);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(12));
    session->cancel(Status::error("stopped", ErrorKind::Cancelled));
  });
  std::vector<int32_t> ids = someIds();
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = session->train({{"ids", ids}});
  }
  canceller.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "stopped");
  EXPECT_FALSE(session->train({{"ids", ids}}).ok());
}

TEST(Session, Trace) {
  std::unique_ptr<Session> session = openSession("wide");
  session->startTrace();
  std::vector<int32_t> ids = someIds();
  ASSERT_TRUE(session->train({{"ids", ids}}).ok());
  std::string path = testing::TempDir() + "cleave_trace.json";
  ASSERT_TRUE(session->writeTrace(path).ok());
  std::vector<char> text = *readFile(path);
  nlohmann::json trace = nlohmann::json::parse(text.begin(), text.end());
  std::map<std::string, int> names;
  std::map<int, int> rows;
  for (const auto &event : trace["traceEvents"]) {
    ++names[event["name"]];
    if (event["ph"] == "X") {
      ++rows[event["tid"]];
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
  }
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_EQ(names["all_gather tensor"], 4 * layers); // the waits
  EXPECT_EQ(names["start all_gather tensor"], 4 * layers);
  EXPECT_EQ(names["dot"], 4 * (layers + 1));
  EXPECT_EQ(names["train"], 4);
}

/// The products of all steps on all devices, and the calls of contractions.
static std::pair<double, int64_t> productsOf(const PlanProfile &profile) {
  double operations = 0;
  int64_t calls = 0;
  for (const ProfiledOperation &operation : profile.operations) {
    operations += operation.work.operations;
    if (operation.work.kind == EventKind::Contraction) {
      calls += operation.work.calls;
    }
  }
  return {operations, calls};
}

TEST(Session, ProfileAddsUp) {
  std::unique_ptr<Session> session = openSession("wide");
  session->startTrace();
  Profiler profiler("train", /*skipped=*/1);
  std::vector<int32_t> ids = someIds();
  constexpr int steps = 4;
  for (int step = 0; step < steps; ++step) {
    ASSERT_TRUE(session->train({{"ids", ids}}).ok());
    profiler.add(*session);
    if (step % 2) {
      session->clearEvents(); // or not: what was read is not read again
    }
  }
  std::vector<PlanProfile> profiles = profiler.profiles();
  ASSERT_EQ(profiles.size(), 1u);
  const PlanProfile &profile = profiles.front();
  EXPECT_EQ(profile.plan->name, "wide");
  EXPECT_EQ(profile.steps, steps - 1);
  ASSERT_EQ(profile.seconds.size(), 4u);
  // Products: x . w in each layer, cut by both axes; the gradient's summed dim
  // by data, and all of it on both devices of tensor.
  auto [operations, calls] = productsOf(profile);
  EXPECT_EQ(operations, 2.0 * batch * in * out * (layers + 2) * (steps - 1));
  EXPECT_EQ(calls, 4 * (layers + 1) * (steps - 1));
  for (size_t device = 0; device < 4; ++device) {
    double inside = 0;
    for (const ProfiledOperation &operation : profile.operations) {
      EXPECT_GE(operation.seconds[device], 0);
      inside += operation.seconds[device];
    }
    EXPECT_GT(inside, 0);
    EXPECT_LE(inside, profile.seconds[device]);
  }
}

TEST(Session, ProfileCountsBytes) {
  std::unique_ptr<Session> session = openSession("data");
  session->startTrace();
  Profiler profiler("train", /*skipped=*/0);
  std::vector<int32_t> ids = someIds();
  ASSERT_TRUE(session->train({{"ids", ids}}).ok());
  profiler.add(*session);
  std::vector<PlanProfile> profiles = profiler.profiles();
  ASSERT_EQ(profiles.size(), 1u);
  double moved = 0, contracted = 0;
  for (const ProfiledOperation &operation : profiles.front().operations) {
    if (operation.work.kind == EventKind::Contraction) {
      contracted += operation.work.bytes;
    }
    const format::PlanT &plan = session->plan();
    if (operation.work.kind == EventKind::Start &&
        plan.sites[operation.work.site]->name == "all_reduce data") {
      moved = operation.work.bytes;
    }
  }
  // A scalar of f32 on each of 8 devices: written once, read 8 times.
  EXPECT_EQ(moved, 8 * (1 + 8) * 4);
  // x and h are cut by data, w and the gradient are whole on each device.
  double xh = batch * (in + out), w = in * out;
  EXPECT_EQ(contracted, 4 * (layers * (xh + 8 * w) + xh + 8 * w));
}

TEST(Session, ProfileOfAnotherPlanIsItsOwn) {
  std::unique_ptr<Session> session = openSession("wide");
  session->startTrace();
  Profiler profiler("train", /*skipped=*/0);
  std::vector<int32_t> ids = someIds();
  for (const char *plan : {"wide", "data"}) {
    ASSERT_TRUE(session->hop(plan).ok());
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(session->train({{"ids", ids}}).ok());
      profiler.add(*session);
    }
  }
  std::vector<PlanProfile> profiles = profiler.profiles();
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_EQ(profiles[0].seconds.size(), 4u);
  EXPECT_EQ(profiles[1].plan->name, "data");
  EXPECT_EQ(profiles[1].steps, 2);
  EXPECT_EQ(profiles[1].seconds.size(), 8u);
}

TEST(Session, WithoutCollectivesNothingMoves) {
  SessionOptions options;
  options.withoutCollectives = true;
  std::unique_ptr<Session> session = openSession("data", options);
  std::vector<int32_t> ids = someIds();
  ASSERT_TRUE(session->train({{"ids", ids}}).ok());
  Expected expected = expect(session->state().get(0), ids, 1, 7);
  EXPECT_EQ(*session->scalar("train", OutputKind::Loss), 0.0f); // was reduced
  EXPECT_GT(expected.loss, 1000);
}

TEST(Session, BoundIsMeasured) {
  Bound one = measureBound(1), many = measureBound(64);
  EXPECT_GT(one.operations, 1e8);
  EXPECT_GT(one.bytes, 1e7);
  EXPECT_GT(many.operations, 0);
  if (std::thread::hardware_concurrency() < 32) {
    EXPECT_LT(many.operations, one.operations); // they share the cores
  }
}

TEST(Session, MeshThatIsTooLarge) {
  Result<std::unique_ptr<Session>> session =
      Session::open(makeFile({{"huge", 64, 64}}), "");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.message(), "plan `huge`: its mesh has 4096 devices; one "
                               "process runs at most 512");
}
