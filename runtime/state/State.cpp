//===- State.cpp - What training keeps between steps ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/State.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace cleave::state {

using transport::Box;

std::string nameOf(const format::LeafT &leaf) {
  return leaf.state.empty() ? "params/" + leaf.path
                            : "optimizer/" + leaf.path + "/" + leaf.state;
}

int64_t elementsOf(const format::LeafT &leaf) {
  int64_t product = 1;
  for (int64_t size : leaf.sizes) {
    product *= size;
  }
  return product;
}

int64_t bytesOf(const format::LeafT &leaf) {
  return elementsOf(leaf) * format::elementSize(leaf.type);
}

Result<State> State::create(const format::PlanSetT &set, size_t plan,
                            std::span<device::Device *const> devices) {
  Result<Pieces> pieces = piecesOf(set, plan);
  if (!pieces) {
    return pieces.status();
  }
  State state;
  state.plans = &set;
  state.planIndex = plan;
  state.held = std::move(*pieces);
  state.blocks.resize(set.leaves.size());
  for (size_t device = 0; device < devices.size(); ++device) {
    state.deviceOf.push_back(static_cast<int64_t>(device));
    device::Pool &pool = state.pools.emplace_back(*devices[device]);
    size_t bytes = 0;
    for (const std::vector<Held> &leaf : state.held) {
      bytes += device::Pool::sizeOfBlock(leaf[device].bytes);
    }
    CLEAVE_TRY(pool.reserve(bytes).in("the state"));
    for (size_t leaf = 0; leaf < state.held.size(); ++leaf) {
      Result<device::Block> block =
          pool.allocate(state.held[leaf][device].bytes);
      if (!block) {
        return block.status().in("the state");
      }
      state.blocks[leaf].push_back(*block);
    }
  }
  return state;
}

void State::addDevices(std::span<device::Device *const> all) {
  for (size_t device = pools.size(); device < all.size(); ++device) {
    pools.emplace_back(*all[device]);
    for (size_t leaf = 0; leaf < leaves(); ++leaf) {
      held[leaf].emplace_back();
      blocks[leaf].emplace_back();
    }
  }
}

const format::LeafT &State::leaf(size_t index) const {
  return *plans->leaves[index];
}

int State::find(const std::string &name) const {
  for (size_t i = 0; i < leaves(); ++i) {
    if (nameOf(leaf(i)) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

transport::Pieces State::pieces(size_t index) const {
  transport::Pieces pieces{leaf(index).type, leaf(index).sizes, {}, {}, {}};
  // A leading dim of one, empty where it does not live: so may be a scalar.
  pieces.sizes.insert(pieces.sizes.begin(), 1);
  for (size_t device = 0; device < pools.size(); ++device) {
    for (const Part &part : parts(device, index)) {
      Box &box = pieces.boxes.emplace_back(part.box);
      box.dims.insert(box.dims.begin(), {0, holds(device, index)});
      pieces.memory.push_back(static_cast<char *>(pointer(device, index)) +
                              part.offset);
      pieces.devices.push_back(static_cast<int64_t>(device));
    }
  }
  return pieces;
}

void State::gather(size_t index, void *global) const {
  Status status = transport::gather(pieces(index), global);
  assert(status.ok() && "a layout that does not hold the whole leaf");
  (void)status;
}

void State::scatter(size_t index, const void *global) {
  transport::scatter(global, pieces(index));
}

Status State::compareCopies(size_t index) const {
  std::vector<char> global(bytesOf(leaf(index)));
  gather(index, global.data());
  return transport::compare(global.data(), pieces(index))
      .in(nameOf(leaf(index)));
}

std::vector<float> State::get(size_t index) const {
  std::vector<char> bytes(bytesOf(leaf(index)));
  gather(index, bytes.data());
  std::vector<float> values(elementsOf(leaf(index)));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (leaf(index).type) {
    case format::ElementType::F32:
      values[i] = reinterpret_cast<const float *>(bytes.data())[i];
      break;
    case format::ElementType::I32:
      values[i] = reinterpret_cast<const int32_t *>(bytes.data())[i];
      break;
    case format::ElementType::Bool:
      values[i] = bytes[i];
      break;
    case format::ElementType::BF16: // no leaf is
      break;
    }
  }
  return values;
}

Status State::set(size_t index, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != elementsOf(leaf(index))) {
    return Status::error("`" + nameOf(leaf(index)) + "` has " +
                         std::to_string(elementsOf(leaf(index))) +
                         " elements, not " + std::to_string(values.size()));
  }
  std::vector<char> bytes(bytesOf(leaf(index)));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (leaf(index).type) {
    case format::ElementType::F32:
      reinterpret_cast<float *>(bytes.data())[i] = values[i];
      break;
    case format::ElementType::I32:
      reinterpret_cast<int32_t *>(bytes.data())[i] =
          static_cast<int32_t>(values[i]);
      break;
    case format::ElementType::Bool:
      bytes[i] = values[i] != 0;
      break;
    case format::ElementType::BF16: // no leaf is
      break;
    }
  }
  scatter(index, bytes.data());
  return Status();
}

void State::initialise(uint64_t newSeed) {
  seed = newSeed;
  step = cursor = 0;
  // Replicas are drawn once and copied.
  struct Work {
    size_t leaf;
    const Box *box;
    std::vector<char *> copies;
  };
  std::vector<Work> work;
  for (size_t i = 0; i < leaves(); ++i) {
    size_t begin = work.size();
    for (size_t device = 0; device < pools.size(); ++device) {
      if (!holds(device, i)) {
        continue;
      }
      for (const Part &part : parts(device, i)) {
        char *memory = static_cast<char *>(pointer(device, i)) + part.offset;
        auto same = std::find_if(
            work.begin() + begin, work.end(),
            [&](const Work &other) { return *other.box == part.box; });
        if (same == work.end()) {
          work.push_back({i, &part.box, {memory}});
        } else {
          same->copies.push_back(memory);
        }
      }
    }
  }
  std::atomic<size_t> next{0};
  auto draw = [&] {
    for (size_t at; (at = next.fetch_add(1)) < work.size();) {
      const Work &item = work[at];
      char *first = item.copies.front();
      initialPiece(leaf(item.leaf), seed, *item.box, first);
      size_t bytes =
          item.box->elements() * format::elementSize(leaf(item.leaf).type);
      for (size_t i = 1; i < item.copies.size(); ++i) {
        std::memcpy(item.copies[i], first, bytes);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back(draw);
  }
  draw();
  for (std::thread &thread : threads) {
    thread.join();
  }
}

/// In f64, as eight sums by the index modulo eight: a fixed order that vectors
/// can follow.
static double squaresOf(const float *values, size_t count) {
  constexpr size_t lanes = 8;
  double sums[lanes] = {};
  for (size_t i = 0; i < count; ++i) {
    double value = values[i];
    sums[i % lanes] += value * value;
  }
  double total = 0;
  for (double sum : sums) {
    total += sum;
  }
  return total;
}

double SumOfSquares::of(const State &state, const std::string &name) {
  std::vector<double> sums(state.leaves());
  std::atomic<size_t> next{0};
  auto add = [&](std::vector<float> &buffer) {
    for (size_t i; (i = next.fetch_add(1)) < state.leaves();) {
      const format::LeafT &leaf = state.leaf(i);
      if (leaf.state != name || leaf.type != format::ElementType::F32) {
        continue;
      }
      size_t count = static_cast<size_t>(elementsOf(leaf));
      buffer.resize(std::max(buffer.size(), count));
      state.gather(i, buffer.data());
      sums[i] = squaresOf(buffer.data(), count);
    }
  };
  buffers.resize(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < buffers.size(); ++i) {
    threads.emplace_back(add, std::ref(buffers[i]));
  }
  add(buffers.front());
  for (std::thread &thread : threads) {
    thread.join();
  }
  double total = 0;
  for (double sum : sums) {
    total += sum;
  }
  return total;
}

} // namespace cleave::state
