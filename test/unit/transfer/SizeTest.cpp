//===- SizeTest.cpp - What planning a large transfer costs ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <utility>

using namespace cleave;
using namespace cleave::transfer;

namespace {

/// pipe x data x tensor. ZeRO splits the largest dim further on data.
struct Plan {
  const char *name;
  int64_t pipe, data, tensor;
  int zero; ///< stage: 0, 1 or 3
};

/// A leaf of a GPT, and the dim that tensor splits, or -1.
struct Shape {
  const char *path;
  std::vector<int64_t> sizes; ///< with the layers first, where it has them
  bool isLayer;
  int64_t tensorDim;
};

std::vector<Shape> gpt(int64_t layers, int64_t width, int64_t heads,
                       int64_t vocab, int64_t length) {
  int64_t key = width / heads, ff = 4 * width;
  return {{"layer/attention/wq", {layers, width, heads, key}, true, 2},
          {"layer/attention/wk", {layers, width, heads, key}, true, 2},
          {"layer/attention/wv", {layers, width, heads, key}, true, 2},
          {"layer/attention/wo", {layers, heads, key, width}, true, 1},
          {"layer/attention/bq", {layers, heads, key}, true, 1},
          {"layer/attention/bo", {layers, width}, true, -1},
          {"layer/mlp/up", {layers, width, ff}, true, 2},
          {"layer/mlp/down", {layers, ff, width}, true, 1},
          {"layer/mlp/bu", {layers, ff}, true, 1},
          {"layer/mlp/bd", {layers, width}, true, -1},
          {"layer/norm1/gain", {layers, width}, true, -1},
          {"layer/norm2/gain", {layers, width}, true, -1},
          {"embedding/table", {vocab, width}, false, 0},
          {"embedding/place", {length, width}, false, -1},
          {"norm/gain", {width}, false, -1}};
}

layout::Mesh meshOf(const Plan &plan) {
  layout::Mesh mesh;
  mesh.atoms = {
      {"pipe", plan.pipe}, {"data", plan.data}, {"tensor", plan.tensor}};
  return mesh;
}

layout::Layout layoutOf(const Plan &plan, const Shape &shape, bool isMoment) {
  layout::Layout layout;
  layout.dims.resize(shape.sizes.size());
  if (shape.isLayer) {
    layout.dims[0].atoms = {0};
  } else {
    layout.residence = {{0, 0, 1}}; // on the first stage
  }
  if (shape.tensorDim >= 0) {
    layout.dims[shape.tensorDim].atoms = {2};
  }
  if (plan.zero >= (isMoment ? 1 : 3)) {
    size_t first = shape.isLayer ? 1 : 0, best = first;
    for (size_t i = first; i < shape.sizes.size(); ++i) {
      auto local = [&](size_t dim) {
        return shape.sizes[dim] /
               (static_cast<int64_t>(dim) == shape.tensorDim ? plan.tensor : 1);
      };
      best = local(i) > local(best) ? i : best;
    }
    layout.dims[best].atoms.push_back(1);
  }
  return layout;
}

Request requestFor(const std::vector<Shape> &shapes, const Plan &from,
                   const Plan &to) {
  Request request;
  request.from.mesh = meshOf(from);
  request.to.mesh = meshOf(to);
  for (const Shape &shape : shapes) {
    for (const char *state : {"", "/first", "/second"}) {
      bool isMoment = *state != 0;
      request.leaves.push_back({std::string(shape.path) + state, shape.sizes, 4,
                                layoutOf(from, shape, isMoment),
                                layoutOf(to, shape, isMoment)});
    }
  }
  return request;
}

/// The numbers that the size of a transfer and the time to plan it follow from.
struct Counts {
  size_t entries = 0, cells = 0, moves = 0, parts = 0, exchanges = 0;
  int64_t rounds = 0;
};

Counts countsOf(const Transfer &transfer) {
  Counts counts;
  counts.entries = transfer.entries.size();
  counts.parts = transfer.parts.size();
  counts.exchanges = transfer.exchanges.size();
  counts.rounds = transfer.rounds;
  for (const Entry &entry : transfer.entries) {
    counts.cells += entry.from.holders.size() + entry.to.holders.size();
    counts.moves += entry.moves.size();
  }
  return counts;
}

} // namespace

TEST(Size, DoesNotGrowWithDepth) {
  Plan plans[] = {
      {"", 8, 2, 2, 1}, {"", 4, 4, 2, 1}, {"", 1, 4, 8, 3}, {"", 2, 8, 2, 0}};
  std::set<std::pair<std::vector<int64_t>, int64_t>> kinds;
  for (const Shape &shape : gpt(8, 64, 8, 100, 16)) {
    kinds.insert({shape.sizes, shape.tensorDim});
  }
  for (const Plan &from : plans) {
    for (const Plan &to : plans) {
      std::string error;
      std::optional<Counts> first;
      for (int64_t layers : {8, 80, 8000}) {
        std::optional<Transfer> transfer = planTransfer(
            requestFor(gpt(layers, 64, 8, 100, 16), from, to), error);
        ASSERT_TRUE(transfer) << error;
        Counts now = countsOf(*transfer);
        first = first.value_or(now);
        // Leaves that are cut alike share an entry: one for parameters, one for
        // moments, of each kind of shape.
        EXPECT_LE(now.entries, 2 * kinds.size());
        EXPECT_EQ(now.entries, first->entries);
        EXPECT_EQ(now.cells, first->cells);
        // Deeper layers weigh more beside what is not in them, so shares end
        // elsewhere: a few moves more or less.
        EXPECT_LE(now.moves, first->moves * 1.02);
        EXPECT_LE(now.parts, first->parts * 1.02);
        EXPECT_LE(now.exchanges, first->exchanges * 1.05);
        EXPECT_LE(now.rounds, first->rounds + 2);
      }
    }
  }
}

TEST(Size, PlansForAThousandDevices) {
  std::vector<Shape> shapes = gpt(96, 12288, 96, 50257, 2048);
  int64_t parameters = 0;
  for (const Shape &shape : shapes) {
    int64_t product = 1;
    for (int64_t size : shape.sizes) {
      product *= size;
    }
    parameters += product;
  }
  EXPECT_GT(parameters, 174'000'000'000);
  const Plan plans[] = {{"pipe 8 data 16 tensor 8, ZeRO 1", 8, 16, 8, 1},
                        {"pipe 16 data 16 tensor 4, ZeRO 1", 16, 16, 4, 1},
                        {"pipe 12 data 10 tensor 8, ZeRO 1", 12, 10, 8, 1},
                        {"data 128 tensor 8, ZeRO 3", 1, 128, 8, 3}};
  for (bool hasGroups : {false, true}) {
    for (const Plan &from : plans) {
      for (const Plan &to : plans) {
        Request request = requestFor(shapes, from, to);
        request.devices = 1024;
        request.links = {200e9, 50e9, 10e-6};
        for (int64_t i = 0; hasGroups && i < request.devices; ++i) {
          request.groups.push_back(i / 8);
        }
        auto start = std::chrono::steady_clock::now();
        std::string error;
        std::optional<Transfer> transfer = planTransfer(request, error);
        std::chrono::duration<double> took =
            std::chrono::steady_clock::now() - start;
        ASSERT_TRUE(transfer) << error;
        // What is sent and what stays is what the new plan holds, however many
        // replicas that is.
        EXPECT_GE(transfer->summary.bytes + transfer->summary.keptBytes,
                  12 * parameters);
        EXPECT_GE(transfer->summary.busiest(),
                  transfer->summary.bytes / request.devices);
        Counts counts = countsOf(*transfer);
        std::cout << from.name << " -> " << to.name
                  << (hasGroups ? ", nodes of 8" : "") << ": " << took.count()
                  << " s; " << counts.moves << " moves, " << counts.exchanges
                  << " exchanges, " << counts.rounds << " rounds; "
                  << transfer->summary.bytes / 1e9 << " GB in all, "
                  << transfer->summary.busiest() / 1e9 << " GB busiest, "
                  << transfer->summary.slowBytes / 1e9 << " GB slow, "
                  << transfer->summary.seconds.value_or(0) << " s predicted\n";
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// BLOOM-176B, and the layouts to which its training was moved on the way
//===----------------------------------------------------------------------===//

namespace {

/// Layers of the stages, where the embedding at the first and the output at the
/// last count as one layer each.
std::vector<int64_t> stageCuts(int64_t layers, int64_t stages) {
  std::vector<int64_t> cuts{0};
  for (int64_t stage = 0; stage < stages; ++stage) {
    int64_t end = layout::splitRule(layers + 2, stages, stage).end - 1;
    cuts.push_back(std::clamp<int64_t>(end, 0, layers));
  }
  return cuts;
}

Request bloomRequest(const Plan &from, const Plan &to) {
  constexpr int64_t layers = 70;
  Request request = requestFor(gpt(layers, 14336, 112, 250880, 2048), from, to);
  for (Leaf &leaf : request.leaves) {
    for (bool isOld : {true, false}) {
      int64_t stages = (isOld ? from : to).pipe;
      layout::Layout &layout = isOld ? leaf.from : leaf.to;
      if (layout.residence.empty()) {
        layout.dims[0].cuts = stageCuts(layers, stages);
      } else { // the table is tied to the output
        layout.residence.push_back({0, stages - 1, stages});
      }
    }
  }
  for (int64_t device = 0; device < 384; ++device) {
    request.groups.push_back(device / 8);
  }
  request.devices = 384;
  return request;
}

} // namespace

TEST(Size, PlansBetweenTheLayoutsOfBloom) {
  EXPECT_EQ(stageCuts(70, 12), (std::vector<int64_t>{0, 5, 11, 17, 23, 29, 35,
                                                     41, 47, 53, 59, 65, 70}));
  // pipe, data, tensor: 48, 24 and 36 nodes of 8.
  const Plan plans[] = {{"48 nodes", 12, 8, 4, 1},   {"24 nodes", 12, 4, 4, 1},
                        {"deep", 24, 2, 4, 1},       {"thin", 24, 4, 2, 1},
                        {"36 nodes", 36, 2, 4, 1},   {"36 thin", 36, 4, 2, 1},
                        {"36 thinnest", 72, 4, 1, 1}};
  auto start = std::chrono::steady_clock::now();
  int64_t pairs = 0;
  for (const Plan &from : plans) {
    for (const Plan &to : plans) {
      std::string error;
      std::optional<Transfer> transfer =
          planTransfer(bloomRequest(from, to), error);
      ASSERT_TRUE(transfer) << error;
      const Summary &summary = transfer->summary;
      EXPECT_EQ(summary.bytes == 0, &from == &to);
      EXPECT_LE(summary.slowBytes, summary.bytes);
      EXPECT_LE(summary.staging, Request().budget);
      std::cout << from.name << " -> " << to.name << ": " << summary.bytes / 1e9
                << " GB in all, " << summary.busiest() / 1e9 << " GB busiest, "
                << summary.slowBytes / 1e9 << " GB between nodes\n";
      ++pairs;
    }
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << pairs << " transfers planned in " << took.count() << " s\n";
}
