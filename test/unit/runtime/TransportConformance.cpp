//===- TransportConformance.cpp - What any transport must do --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts are turned into boxes here by layout::pieceOf, and the expected
// target is computed from global tensors, element by element.
//
//===----------------------------------------------------------------------===//

#include "TransportConformance.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

using namespace cleave;
using namespace cleave::transport;
using layout::AtomId;
using layout::Layout;
using layout::Mesh;
using layout::Reduction;
using layout::Split;

namespace {

using Tensor = std::vector<float>;

Box boxOf(const std::vector<int64_t> &sizes, const Layout &layout,
          const Mesh &mesh, int64_t device) {
  Box box;
  for (size_t i = 0; i < sizes.size(); ++i) {
    box.dims.push_back(layout::pieceOf(sizes[i], layout.dims[i], mesh, device));
  }
  return box;
}

/// Calls `body(global row-major index, local row-major index)`.
template <typename Body>
void forEach(const std::vector<int64_t> &sizes, const Box &box, Body body) {
  int64_t count = box.elements();
  for (int64_t local = 0; local < count; ++local) {
    int64_t rest = local, global = 0, stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      int64_t size = box.dims[i].size();
      global += (box.dims[i].begin + rest % size) * stride;
      rest /= size;
      stride *= sizes[i];
    }
    body(global, local);
  }
}

struct Case {
  Mesh mesh;
  std::vector<int64_t> sizes;
  std::vector<AtomId> group;
  Layout from, to;   ///< `from.partial` and its reduction say what is combined
  size_t rolled = 0; ///< the dim that moves around its end
  int64_t by = 0;    ///< how far; 0: not at all
};

/// What each coordinate of the partial atoms holds of each global element.
float valueAt(int64_t coordinate, int64_t index) {
  uint64_t hash = (coordinate + 1) * 0x9e3779b97f4a7c15u ^
                  (index + 7) * 0xc2b2ae3d27d4eb4fu;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 32;
  return static_cast<float>(static_cast<int64_t>(hash % 2000001) - 1000000) *
         0.37f;
}

Description describeCase(const Case &test, int64_t device, uint64_t id) {
  Description description;
  description.id = id;
  description.name = "test";
  description.reduction = test.from.reduction;
  description.group = test.mesh.groupOf(device, test.group);
  for (int64_t member : description.group) {
    Box source = boxOf(test.sizes, test.from, test.mesh, member);
    if (test.by) {
      layout::Piece &piece = source.dims[test.rolled];
      piece = {piece.begin + test.by, piece.end + test.by};
      int64_t size = test.sizes[test.rolled];
      description.images.push_back(source);
      layout::Piece &image = description.images.back().dims[test.rolled];
      image = {image.begin - size, image.end - size};
    }
    description.sources.push_back(source);
    description.targets.push_back(
        boxOf(test.sizes, test.to, test.mesh, member));
    description.partial.push_back(
        test.mesh.rankAlong(member, test.from.partial));
  }
  return description;
}

Tensor sourceOf(const Case &test, int64_t device) {
  Box box = boxOf(test.sizes, test.from, test.mesh, device);
  Tensor tensor(box.elements());
  int64_t coordinate = test.mesh.rankAlong(device, test.from.partial);
  forEach(test.sizes, box, [&](int64_t global, int64_t local) {
    tensor[local] = valueAt(coordinate, global);
  });
  return tensor;
}

Tensor expectedOf(const Case &test, int64_t device) {
  Box box = boxOf(test.sizes, test.to, test.mesh, device);
  Tensor tensor(box.elements());
  int64_t coordinates = test.mesh.sizeOf(test.from.partial);
  int64_t row = 1;
  for (size_t i = test.rolled + 1; i < test.sizes.size(); ++i) {
    row *= test.sizes[i];
  }
  int64_t size = test.sizes.empty() ? 1 : test.sizes[test.rolled];
  forEach(test.sizes, box, [&](int64_t global, int64_t local) {
    int64_t at = global / row % size;
    global += ((at - test.by + size) % size - at) * row;
    float result = valueAt(0, global);
    for (int64_t i = 1; i < coordinates; ++i) {
      float next = valueAt(i, global);
      result = test.from.reduction == Reduction::Sum   ? result + next
               : test.from.reduction == Reduction::Max ? std::max(result, next)
                                                       : std::min(result, next);
    }
    tensor[local] = result;
  });
  return tensor;
}

/// Runs `body(device)` on a thread for each device.
template <typename Body> void onDevices(int64_t devices, Body body) {
  std::vector<std::thread> threads;
  for (int64_t device = 0; device < devices; ++device) {
    threads.emplace_back([&body, device] { body(device); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

Split on(std::vector<AtomId> atoms, int64_t unit = 1) {
  Split split;
  split.atoms = std::move(atoms);
  split.unit = unit;
  return split;
}

Mesh meshOf(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.atoms.push_back({std::string(1, char('a' + i)), sizes[i]});
  }
  return mesh;
}

Layout layoutOf(std::vector<Split> dims, std::vector<AtomId> partial = {},
                Reduction reduction = Reduction::Sum) {
  Layout layout;
  layout.dims = std::move(dims);
  layout.partial = std::move(partial);
  layout.reduction = reduction;
  return layout;
}

/// Several cases outstanding at once, each used `rounds` times; the targets of
/// the last round.
std::vector<std::vector<Tensor>> runCases(const Factory &factory,
                                          const std::vector<Case> &cases,
                                          int rounds, bool inPlace,
                                          uint64_t delays = 0) {
  int64_t devices = cases.front().mesh.devices();
  std::unique_ptr<Fleet> fleet = factory.make(devices);
  if (delays) {
    fleet->setDelays(delays);
  }
  std::vector<std::vector<Tensor>> results(cases.size(),
                                           std::vector<Tensor>(devices));
  std::vector<std::unique_ptr<Transport>> transports;
  for (int64_t device = 0; device < devices; ++device) {
    transports.push_back(fleet->connect(device));
  }
  onDevices(devices, [&](int64_t device) {
    Transport &transport = *transports[device];
    std::vector<Channel> channels;
    for (size_t i = 0; i < cases.size(); ++i) {
      Description description = describeCase(cases[i], device, i);
      int64_t rank = std::find(description.group.begin(),
                               description.group.end(), device) -
                     description.group.begin();
      Result<Channel> channel = transport.open(description, rank);
      ASSERT_TRUE(channel.ok()) << channel.message();
      channels.push_back(*channel);
    }
    for (int round = 0; round < rounds; ++round) {
      std::vector<Tensor> sources(cases.size());
      for (size_t i = 0; i < cases.size(); ++i) {
        sources[i] = sourceOf(cases[i], device);
        Tensor &target = results[i][device];
        target.assign(boxOf(cases[i].sizes, cases[i].to, cases[i].mesh, device)
                          .elements(),
                      -777.0f);
        if (inPlace) {
          target = sources[i];
        }
        transport.start(channels[i],
                        inPlace ? target.data() : sources[i].data(),
                        target.data());
      }
      for (size_t i = 0; i < cases.size(); ++i) {
        Status status = transport.wait(channels[i]);
        ASSERT_TRUE(status.ok()) << status.message();
        // The source is free now: a late reader would see this.
        std::fill(sources[i].begin(), sources[i].end(), 1e30f);
      }
    }
  });
  return results;
}

void expectRight(const Factory &factory, const std::vector<Case> &cases,
                 int rounds = 1, bool inPlace = false, uint64_t delays = 0) {
  std::vector<std::vector<Tensor>> results =
      runCases(factory, cases, rounds, inPlace, delays);
  for (size_t i = 0; i < cases.size(); ++i) {
    for (int64_t device = 0; device < cases[i].mesh.devices(); ++device) {
      ASSERT_EQ(results[i][device], expectedOf(cases[i], device))
          << "case " << i << " device " << device;
    }
  }
}

/// A random splitting of the dims over the atoms not in `taken`.
Layout randomLayout(std::mt19937 &random, size_t rank, size_t atoms,
                    const std::vector<AtomId> &taken) {
  Layout layout;
  layout.dims.resize(rank);
  std::vector<AtomId> free;
  for (AtomId atom = 0; atom < atoms; ++atom) {
    if (std::find(taken.begin(), taken.end(), atom) == taken.end()) {
      free.push_back(atom);
    }
  }
  std::shuffle(free.begin(), free.end(), random);
  for (AtomId atom : free) {
    size_t dim = random() % (rank + 1);
    if (dim < rank) {
      layout.dims[dim].atoms.push_back(atom);
      if (random() % 4 == 0) {
        layout.dims[dim].unit = 2;
      }
    }
  }
  return layout;
}

Case randomCase(std::mt19937 &random) {
  Case test;
  const std::vector<int64_t> meshes[] = {{1},    {2}, {4},       {2, 2},
                                         {3, 2}, {8}, {2, 2, 2}, {5}};
  test.mesh = meshOf(meshes[random() % std::size(meshes)]);
  size_t atoms = test.mesh.atoms.size();
  size_t rank = random() % 4;
  for (size_t i = 0; i < rank; ++i) {
    test.sizes.push_back(random() % 9);
  }
  for (AtomId atom = 0; atom < atoms; ++atom) {
    test.group.push_back(atom);
  }
  std::shuffle(test.group.begin(), test.group.end(), random);
  std::vector<AtomId> partial;
  for (AtomId atom : test.group) {
    if (random() % 3 == 0) {
      partial.push_back(atom);
    }
  }
  test.from = randomLayout(random, rank, atoms, partial);
  test.from.partial = partial;
  test.from.reduction = static_cast<Reduction>(random() % 3);
  test.to = randomLayout(random, rank, atoms, {});
  return test;
}

} // namespace

TEST_P(TransportConformance, AllReduce) {
  for (Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
    for (int64_t size : {0, 1, 3, 1000, 100000}) {
      Case test{meshOf({4}),
                {size},
                {0},
                layoutOf({on({})}, {0}, reduction),
                layoutOf({on({})})};
      expectRight(GetParam(), {test}, 3);
      expectRight(GetParam(), {test}, 1, /*inPlace=*/true);
    }
  }
}

TEST_P(TransportConformance, AllGatherUneven) {
  for (int64_t size : {0, 3, 5, 7, 4096}) {
    Case test{meshOf({8}),
              {size, 6},
              {0},
              layoutOf({on({0}), on({})}),
              layoutOf({on({}), on({})})};
    expectRight(GetParam(), {test}, 3);
    test.sizes = {6, size};
    std::swap(test.from.dims[0], test.from.dims[1]);
    expectRight(GetParam(), {test}, 2);
  }
}

TEST_P(TransportConformance, ReduceScatterUneven) {
  for (int64_t size : {3, 5, 7, 513}) {
    Case test{meshOf({2, 4}),
              {2, size},
              {1},
              layoutOf({on({0}), on({})}, {1}),
              layoutOf({on({0}), on({1})})};
    expectRight(GetParam(), {test}, 3);
  }
}

/// Larger than caches, at lengths and offsets that no line divides.
TEST_P(TransportConformance, LargeReductions) {
  for (Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
    for (int64_t devices : {2, 3}) {
      Layout whole = layoutOf({on({}), on({})}),
             cut = layoutOf({on({}), on({0})}),
             partial = layoutOf({on({}), on({})}, {0}, reduction);
      Case all{meshOf({devices}), {1, 300007}, {0}, partial, whole};
      expectRight(GetParam(), {all}, 2);
      expectRight(GetParam(), {all}, 1, /*inPlace=*/true);
      Case scattered{meshOf({devices}), {5, 120011}, {0}, partial, cut};
      expectRight(GetParam(), {scattered}, 2);
    }
  }
}

TEST_P(TransportConformance, AllToAll) {
  Case test{meshOf({4}),
            {7, 9, 3},
            {0},
            layoutOf({on({0}), on({}), on({})}),
            layoutOf({on({}), on({0}), on({})})};
  expectRight(GetParam(), {test}, 3);
}

TEST_P(TransportConformance, SwappedAxesOnOneDim) {
  Case test{meshOf({2, 3}),
            {7, 2},
            {0, 1},
            layoutOf({on({0, 1}), on({})}),
            layoutOf({on({1, 0}), on({})})};
  expectRight(GetParam(), {test}, 2);
}

TEST_P(TransportConformance, BroadcastFromOnePlace) {
  Case test{meshOf({4}), {5}, {0}, layoutOf({on({0})}), layoutOf({on({})})};
  test.from.dims[0].cuts = {0, 5};
  test.from.dims[0].places = {2};
  expectRight(GetParam(), {test}, 2);
}

TEST_P(TransportConformance, ExplicitCutsAndSlice) {
  Case test{meshOf({4}), {9}, {0}, layoutOf({on({})}), layoutOf({on({0})})};
  test.to.dims[0].cuts = {0, 1, 1, 7, 9};
  test.to.dims[0].places = {3, 1, 0, 2};
  expectRight(GetParam(), {test}, 2);
  std::swap(test.from, test.to);
  expectRight(GetParam(), {test}, 2);
}

TEST_P(TransportConformance, Random) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    expectRight(GetParam(), {randomCase(random)});
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_P(TransportConformance, ManyOutstanding) {
  std::mt19937 random(2);
  std::vector<Case> cases;
  while (cases.size() < 12) {
    Case test = randomCase(random);
    if (test.mesh.devices() == 8) {
      test.mesh = meshOf({2, 2, 2});
      test.group = {0, 1, 2};
      std::vector<AtomId> partial;
      if (random() % 2) {
        partial = {static_cast<AtomId>(random() % 3)};
      }
      size_t rank = test.sizes.size();
      test.from = randomLayout(random, rank, 3, partial);
      test.from.partial = partial;
      test.to = randomLayout(random, rank, 3, {});
      cases.push_back(test);
    }
  }
  expectRight(GetParam(), cases, 30);
}

TEST_P(TransportConformance, DelaysChangeNoBit) {
  Case reduce{meshOf({2, 4}),
              {40, 1000},
              {0, 1},
              layoutOf({on({}), on({})}, {0, 1}),
              layoutOf({on({}), on({})})};
  Case scatter{meshOf({2, 4}),
               {40, 1000},
               {1},
               layoutOf({on({0}), on({})}, {1}),
               layoutOf({on({0}), on({1})})};
  std::vector<std::vector<Tensor>> calm =
      runCases(GetParam(), {reduce, scatter}, 1, false);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(runCases(GetParam(), {reduce, scatter}, 2, false, seed), calm)
        << "seed " << seed;
  }
  expectRight(GetParam(), {reduce, scatter}, 20, false, 99);
}

TEST_P(TransportConformance, ShiftsAroundTheEnd) {
  Split uneven = on({0, 1});
  uneven.cuts = {0, 0, 5, 5, 6, 7, 7};
  std::vector<Case> cases;
  Mesh mesh = meshOf({3, 2});
  for (int64_t by = 1; by < 7; ++by) {
    for (const Split &from : {on({0, 1}), on({1, 0}), uneven}) {
      for (const Split &to : {on({0, 1}), uneven}) {
        cases.push_back({mesh,
                         {7, 3},
                         {0, 1},
                         layoutOf({from, on({})}),
                         layoutOf({to, on({})}),
                         0,
                         by});
      }
    }
    cases.push_back({mesh,
                     {3, 7},
                     {1},
                     layoutOf({on({0}), on({1})}),
                     layoutOf({on({0}), on({1})}),
                     1,
                     by});
  }
  expectRight(GetParam(), cases, 3);
}

TEST_P(TransportConformance, ImagesOfOtherSizesAreRefused) {
  std::unique_ptr<Fleet> fleet = GetParam().make(2);
  std::unique_ptr<Transport> transport = fleet->connect(0);
  Description description;
  description.name = "shift a";
  description.group = {0, 1};
  description.sources = {Box{{{0, 2}}}, Box{{{2, 4}}}};
  description.images = {Box{{{-4, -2}}}, Box{{{-2, 1}}}};
  description.targets = description.sources;
  description.partial = {0, 0};
  Result<Channel> channel = transport->open(description, 0);
  ASSERT_FALSE(channel.ok());
  EXPECT_NE(channel.message().find("image"), std::string::npos);
  description.images.pop_back();
  EXPECT_FALSE(transport->open(description, 0).ok());
}

TEST_P(TransportConformance, NanIsKept) {
  std::unique_ptr<Fleet> fleet = GetParam().make(2);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(fleet->connect(0));
  transports.push_back(fleet->connect(1));
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
    onDevices(2, [&](int64_t device) {
      Description description;
      description.id = static_cast<uint64_t>(reduction);
      description.reduction = reduction;
      description.group = {0, 1};
      description.sources.assign(2, Box{{{0, 2}}});
      description.targets = description.sources;
      description.partial = {0, 1};
      Result<Channel> channel = transports[device]->open(description, device);
      ASSERT_TRUE(channel.ok());
      float source[2] = {1.0f, 1.0f}, target[2];
      source[device] = nan;
      transports[device]->start(*channel, source, target);
      ASSERT_TRUE(transports[device]->wait(*channel).ok());
      EXPECT_TRUE(std::isnan(target[0]) && std::isnan(target[1]));
    });
  }
}

TEST_P(TransportConformance, MissingElementsAreRefused) {
  std::unique_ptr<Fleet> fleet = GetParam().make(2);
  std::unique_ptr<Transport> transport = fleet->connect(0);
  Description description;
  description.name = "all_gather tensor";
  description.group = {0, 1};
  description.sources = {Box{{{0, 2}}}, Box{{{3, 4}}}};
  description.targets.assign(2, Box{{{0, 4}}});
  description.partial = {0, 0};
  Result<Channel> channel = transport->open(description, 0);
  ASSERT_FALSE(channel.ok());
  EXPECT_NE(channel.message().find("all_gather tensor"), std::string::npos);
}

TEST_P(TransportConformance, AbortReleasesAll) {
  std::unique_ptr<Fleet> fleet = GetParam().make(4);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int64_t device = 0; device < 4; ++device) {
    transports.push_back(fleet->connect(device));
  }
  onDevices(4, [&](int64_t device) {
    Description description;
    description.group = {0, 1, 2, 3};
    description.sources.assign(4, Box{{{0, 8}}});
    description.targets = description.sources;
    description.partial = {0, 1, 2, 3};
    Result<Channel> channel = transports[device]->open(description, device);
    ASSERT_TRUE(channel.ok());
    float source[8] = {}, target[8];
    if (device == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      transports[device]->abort(Status::error("device 2 failed"));
      return;
    }
    transports[device]->start(*channel, source, target);
    Status status = transports[device]->wait(*channel);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.message(), "device 2 failed");
  });
}
