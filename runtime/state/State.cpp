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

/// What `device` holds of a leaf; several parts where its first dim lies in
/// several pieces, none where it does not reside.
static std::vector<State::Part> partsOf(const format::LeafT &leaf,
                                        const layout::Layout &layout,
                                        const layout::Mesh &mesh,
                                        int64_t device) {
  Box box;
  for (size_t i = 0; i < leaf.sizes.size(); ++i) {
    const layout::Split &split = layout.dims[i];
    box.dims.push_back(layout::isContiguous(split)
                           ? layout::pieceOf(leaf.sizes[i], split, mesh, device)
                           : layout::Piece{});
  }
  if (box.dims.empty() || layout::isContiguous(layout.dims.front())) {
    return {{std::move(box), 0}};
  }
  std::vector<State::Part> parts;
  size_t offset = 0;
  for (const layout::Piece &piece : layout::piecesOf(
           leaf.sizes.front(), layout.dims.front(), mesh, device)) {
    State::Part part{box, offset};
    part.box.dims.front() = piece;
    offset += part.box.elements() * format::elementSize(leaf.type);
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    parts.push_back({std::move(box), 0});
  }
  return parts;
}

/// Whether a layout is one that `partsOf` knows: not cut over times, and in
/// several pieces at most along the first dim.
static bool isKnown(const layout::Layout &layout, const layout::Mesh &mesh) {
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    const layout::Split &split = layout.dims[i];
    bool timed = std::any_of(
        split.atoms.begin(), split.atoms.end(), [&](layout::AtomId atom) {
          return mesh.isTime(atom) && mesh.atoms[atom].size > 1;
        });
    if (timed || (i > 0 && !layout::isContiguous(split))) {
      return false;
    }
  }
  return true;
}

Result<State> State::create(const format::PlanSetT &set, size_t plan,
                            std::span<device::Device *const> devices) {
  const format::PlanT &chosen = *set.plans[plan];
  layout::Mesh mesh = format::toLayout(*chosen.mesh);
  assert(mesh.devices() == static_cast<int64_t>(devices.size()));
  State state;
  state.plans = &set;
  std::vector<size_t> bytes(devices.size(), 0);
  for (size_t i = 0; i < set.leaves.size(); ++i) {
    const format::LeafT &leaf = *set.leaves[i];
    layout::Layout layout = format::toLayout(*chosen.layouts[i]);
    if (!isKnown(layout, mesh)) {
      return Status::error("`" + nameOf(leaf) +
                           "` is cut in a way that this version does not run");
    }
    std::vector<std::vector<Part>> &held = state.held.emplace_back();
    std::vector<size_t> &offsets = state.offsets.emplace_back();
    std::vector<bool> &residents = state.residents.emplace_back();
    for (size_t device = 0; device < devices.size(); ++device) {
      bool resides =
          format::resides(layout.residence, mesh.coordinateOf(device));
      std::vector<Part> parts = partsOf(leaf, layout, mesh, device);
      size_t size = 0;
      for (Part &part : parts) {
        if (!resides && !part.box.dims.empty()) {
          part.box.dims.front() = {0, 0};
        }
        size +=
            resides ? part.box.elements() * format::elementSize(leaf.type) : 0;
      }
      residents.push_back(resides);
      held.push_back(std::move(parts));
      offsets.push_back(bytes[device]);
      bytes[device] += (size + 63) / 64 * 64;
    }
  }
  for (size_t device = 0; device < devices.size(); ++device) {
    Result<device::Memory> memory = devices[device]->allocate(bytes[device]);
    if (!memory) {
      return memory.status().in("the state");
    }
    state.memories.push_back(std::move(*memory));
  }
  return state;
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

void *State::pointer(int64_t device, size_t leaf) const {
  return memories[device].data() + offsets[leaf][device];
}

transport::Pieces State::pieces(size_t index) const {
  transport::Pieces pieces{leaf(index).type, leaf(index).sizes, {}, {}, {}};
  // A leading dim of one, empty where it does not live: so may be a scalar.
  pieces.sizes.insert(pieces.sizes.begin(), 1);
  for (size_t device = 0; device < memories.size(); ++device) {
    for (const Part &part : held[index][device]) {
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
    for (size_t device = 0; device < memories.size(); ++device) {
      if (!holds(device, i)) {
        continue;
      }
      for (const Part &part : held[i][device]) {
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

} // namespace cleave::state
