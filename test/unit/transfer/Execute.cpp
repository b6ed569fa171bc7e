//===- Execute.cpp - Runs a transfer on arrays in memory ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include "transfer/Messages.h"

#include <algorithm>
#include <numeric>

namespace cleave::transfer::test {

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Whether piece `i` of a split has index x of a dim of `size`.
static bool pieceHas(int64_t size, const layout::Split &split, int64_t pieces,
                     int64_t i, int64_t x) {
  if (!split.cuts.empty()) {
    return split.cuts[i] <= x && x < split.cuts[i + 1];
  }
  int64_t units = ceilDiv(size, split.unit);
  return ceilDiv(i * units, pieces) * split.unit <= x &&
         x < ceilDiv((i + 1) * units, pieces) * split.unit;
}

bool holds(const std::vector<int64_t> &sizes, const layout::Layout &layout,
           const layout::Mesh &mesh, int64_t coordinate, int64_t element) {
  std::vector<int64_t> along(mesh.atoms.size());
  for (size_t i = along.size(); i-- > 0;) {
    along[i] = coordinate % mesh.atoms[i].size;
    coordinate /= mesh.atoms[i].size;
  }
  for (size_t dim = sizes.size(); dim-- > 0;) {
    int64_t x = element % sizes[dim];
    element /= sizes[dim];
    const layout::Split &split = layout.dims[dim];
    int64_t rank = 0, count = 1;
    for (layout::AtomId atom : split.atoms) {
      rank = rank * mesh.atoms[atom].size + along[atom];
      count *= mesh.atoms[atom].size;
    }
    int64_t pieces = split.places.empty()
                         ? count
                         : static_cast<int64_t>(split.places.size());
    bool has = false;
    for (int64_t i = 0; i < pieces; ++i) {
      int64_t place = split.places.empty() ? i : split.places[i];
      has = has || (place == rank && pieceHas(sizes[dim], split, pieces, i, x));
    }
    if (!has) {
      return false;
    }
  }
  for (const layout::Residence &part : layout.residence) {
    bool inside = false; // in any part of the same atom
    for (const layout::Residence &other : layout.residence) {
      inside = inside ||
               (other.atom == part.atom && other.begin <= along[part.atom] &&
                along[part.atom] < other.end);
    }
    if (!inside) {
      return false;
    }
  }
  return true;
}

int64_t elementsOf(const Leaf &leaf) {
  int64_t product = 1;
  for (int64_t size : leaf.sizes) {
    product *= size;
  }
  return product;
}

static State emptyState(const Request &request, int64_t devices) {
  State state(devices);
  for (auto &leaves : state) {
    for (const Leaf &leaf : request.leaves) {
      leaves.emplace_back(elementsOf(leaf), absent);
    }
  }
  return state;
}

static int64_t deviceOf(const std::vector<int64_t> &devices,
                        int64_t coordinate) {
  return devices.empty() ? coordinate : devices[coordinate];
}

State makeState(const Request &request, int64_t devices, std::mt19937 &random) {
  State state = emptyState(request, devices);
  for (size_t i = 0; i < request.leaves.size(); ++i) {
    const Leaf &leaf = request.leaves[i];
    for (int64_t e = 0; e < elementsOf(leaf); ++e) {
      uint64_t value = (uint64_t(random()) << 24) + e; // never `absent`
      for (int64_t c = 0; c < request.from.mesh.devices(); ++c) {
        if (holds(leaf.sizes, leaf.from, request.from.mesh, c, e)) {
          state[deviceOf(request.from.devices, c)][i][e] = value;
        }
      }
    }
  }
  return state;
}

namespace {

class Executor {
public:
  Executor(const Request &request, const Transfer &transfer,
           const State &before, State &after)
      : request(request), transfer(transfer), before(before), after(after),
        queues(before.size()), at(before.size(), 0) {}

  std::string run(std::mt19937 &random);

private:
  void keep();
  std::string exchange(const Exchange &exchange);
  std::string copy(const Exchange &exchange, const Slice &slice,
                   int64_t &bytes);
  bool isNext(int64_t device, size_t index) const {
    return at[device] < queues[device].size() &&
           queues[device][at[device]] == index;
  }

  const Request &request;
  const Transfer &transfer;
  const State &before;
  State &after;
  std::vector<std::vector<size_t>> queues; ///< exchanges of each device
  std::vector<size_t> at;
};

/// What a device holds under both plans.
void Executor::keep() {
  for (size_t c = 0; c < transfer.devices.size(); ++c) {
    int64_t device = transfer.devices[c];
    for (size_t i = 0; i < request.leaves.size(); ++i) {
      const Leaf &leaf = request.leaves[i];
      for (int64_t e = 0; e < elementsOf(leaf); ++e) {
        if (holds(leaf.sizes, leaf.to, request.to.mesh, c, e)) {
          after[device][i][e] = before[device][i][e];
        }
      }
    }
  }
}

std::string Executor::copy(const Exchange &exchange, const Slice &slice,
                           int64_t &bytes) {
  const Leaf &leaf = request.leaves[slice.leaf];
  const std::vector<uint64_t> &source = before[exchange.source][slice.leaf];
  std::vector<uint64_t> &target = after[exchange.target][slice.leaf];
  std::vector<int64_t> index;
  for (const layout::Piece &piece : slice.box) {
    if (piece.begin >= piece.end) {
      return "an empty box";
    }
    index.push_back(piece.begin);
  }
  while (true) {
    int64_t element = 0;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      element = element * leaf.sizes[dim] + index[dim];
    }
    if (source[element] == absent) {
      return "a device sends what it has not";
    }
    if (target[element] != absent) {
      return "an element comes twice, or to where it was";
    }
    target[element] = source[element];
    bytes += leaf.elementBytes;
    size_t dim = index.size();
    while (dim > 0 && ++index[dim - 1] == slice.box[dim - 1].end) {
      --dim;
      index[dim] = slice.box[dim].begin;
    }
    if (dim == 0) {
      return "";
    }
  }
}

std::string Executor::exchange(const Exchange &exchange) {
  Messages messages(transfer, exchange, request.leaves);
  Message message;
  int64_t bytes = 0;
  while (messages.next(message)) {
    int64_t copied = 0;
    for (const Slice &slice : message.slices) {
      if (std::string wrong = copy(exchange, slice, copied); !wrong.empty()) {
        return wrong;
      }
    }
    if (copied != message.bytes) {
      return "a message has other bytes than it says";
    }
    if (2 * copied > request.budget) {
      return "a message is over half the budget";
    }
    bytes += copied;
  }
  return bytes == exchange.bytes ? "" : "an exchange has other bytes";
}

std::string Executor::run(std::mt19937 &random) {
  after = emptyState(request, static_cast<int64_t>(before.size()));
  keep();
  std::vector<size_t> ready;
  for (size_t i = 0; i < transfer.exchanges.size(); ++i) {
    queues[transfer.exchanges[i].source].push_back(i);
    queues[transfer.exchanges[i].target].push_back(i);
  }
  for (size_t done = 0; done < transfer.exchanges.size(); ++done) {
    ready.clear();
    for (size_t device = 0; device < queues.size(); ++device) {
      if (at[device] < queues[device].size()) {
        size_t index = queues[device][at[device]];
        const Exchange &next = transfer.exchanges[index];
        if (isNext(next.source, index) && isNext(next.target, index)) {
          ready.push_back(index);
        }
      }
    }
    if (ready.empty()) {
      return "a deadlock";
    }
    const Exchange &next = transfer.exchanges[ready[random() % ready.size()]];
    if (std::string wrong = exchange(next); !wrong.empty()) {
      return wrong;
    }
    ++at[next.source];
    ++at[next.target];
  }
  return "";
}

} // namespace

std::string execute(const Request &request, const Transfer &transfer,
                    const State &before, State &after, std::mt19937 &random) {
  return Executor(request, transfer, before, after).run(random);
}

std::string checkState(const Request &request, const Transfer &transfer,
                       const std::vector<std::vector<uint64_t>> &values,
                       const State &state) {
  State expected = emptyState(request, static_cast<int64_t>(state.size()));
  for (size_t c = 0; c < transfer.devices.size(); ++c) {
    for (size_t i = 0; i < request.leaves.size(); ++i) {
      const Leaf &leaf = request.leaves[i];
      for (int64_t e = 0; e < elementsOf(leaf); ++e) {
        if (holds(leaf.sizes, leaf.to, request.to.mesh, c, e)) {
          expected[transfer.devices[c]][i][e] = values[i][e];
        }
      }
    }
  }
  return expected == state ? "" : "an element is missing, wrong or too many";
}

} // namespace cleave::transfer::test
