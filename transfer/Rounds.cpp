//===- Rounds.cpp - The order of exchanges --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Rounds.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace cleave::transfer {
namespace {

/// For each node the edge of each colour, and which colours are free.
class Palette {
public:
  Palette(int64_t nodes, int64_t colours)
      : colours(colours), words((colours + 63) / 64),
        edges(nodes * colours, -1), free(nodes * words, ~uint64_t(0)) {}

  int64_t edge(int64_t node, int64_t colour) const {
    return edges[node * colours + colour];
  }
  void set(int64_t node, int64_t colour, int64_t edge) {
    edges[node * colours + colour] = edge;
    uint64_t bit = uint64_t(1) << (colour % 64);
    uint64_t &word = free[node * words + colour / 64];
    word = edge < 0 ? word | bit : word & ~bit;
  }
  /// The first colour that is free at both, or `colours`.
  int64_t firstFree(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < words; ++i) {
      if (uint64_t both = free[a * words + i] & free[b * words + i]) {
        return std::min<int64_t>(i * 64 + std::countr_zero(both), colours);
      }
    }
    return colours;
  }

private:
  int64_t colours, words;
  std::vector<int64_t> edges;
  std::vector<uint64_t> free;
};

class Colouring {
public:
  Colouring(std::vector<Exchange> &exchanges, int64_t devices, int64_t colours)
      : exchanges(exchanges), devices(devices), colours(colours),
        palette(2 * devices, colours) {}

  void colour(int64_t edge);

private:
  int64_t sender(int64_t edge) const { return exchanges[edge].source; }
  int64_t receiver(int64_t edge) const {
    return devices + exchanges[edge].target;
  }
  void set(int64_t edge, int64_t colour) {
    palette.set(sender(edge), colour, edge);
    palette.set(receiver(edge), colour, edge);
    exchanges[edge].round = colour;
  }
  void swapAlong(int64_t node, int64_t first, int64_t second);

  std::vector<Exchange> &exchanges;
  int64_t devices, colours;
  Palette palette;
};

/// Exchanges two colours on the path that starts at a node with `first`.
void Colouring::swapAlong(int64_t node, int64_t first, int64_t second) {
  std::vector<int64_t> path;
  int64_t colour = first;
  for (int64_t edge; (edge = palette.edge(node, colour)) >= 0;) {
    path.push_back(edge);
    node = node == sender(edge) ? receiver(edge) : sender(edge);
    colour = colour == first ? second : first;
  }
  for (int64_t edge : path) {
    palette.set(sender(edge), exchanges[edge].round, -1);
    palette.set(receiver(edge), exchanges[edge].round, -1);
  }
  for (int64_t edge : path) {
    set(edge, exchanges[edge].round == first ? second : first);
  }
}

void Colouring::colour(int64_t edge) {
  int64_t both = palette.firstFree(sender(edge), receiver(edge));
  if (both == colours) {
    // Each end has a free colour, for its degree is at most `colours`. The
    // path from the receiver never comes to the sender: it would arrive there
    // by the colour that is free at the sender.
    both = palette.firstFree(sender(edge), sender(edge));
    int64_t other = palette.firstFree(receiver(edge), receiver(edge));
    swapAlong(receiver(edge), both, other);
  }
  set(edge, both);
}

} // namespace

int64_t orderExchanges(std::vector<Exchange> &exchanges, int64_t devices) {
  std::vector<int64_t> degree(2 * devices, 0);
  for (const Exchange &exchange : exchanges) {
    ++degree[exchange.source];
    ++degree[devices + exchange.target];
  }
  int64_t rounds = 0;
  for (int64_t count : degree) {
    rounds = std::max(rounds, count);
  }
  std::vector<int64_t> order(exchanges.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::tie(exchanges[b].bytes, a) < std::tie(exchanges[a].bytes, b);
  });
  Colouring colouring(exchanges, devices, rounds);
  for (int64_t edge : order) {
    colouring.colour(edge);
  }
  std::sort(exchanges.begin(), exchanges.end(),
            [](const Exchange &a, const Exchange &b) {
              return std::tie(a.round, a.source) < std::tie(b.round, b.source);
            });
  return rounds;
}

std::optional<double> predictSeconds(const std::vector<Exchange> &exchanges,
                                     int64_t devices, int64_t messageBytes,
                                     const Links &links) {
  std::vector<double> sending(devices, 0), receiving(devices, 0);
  double last = 0;
  for (const Exchange &exchange : exchanges) {
    double rate = exchange.slow ? links.slow : links.fast;
    if (!(rate > 0)) {
      return std::nullopt;
    }
    int64_t messages = (exchange.bytes + messageBytes - 1) / messageBytes;
    double end =
        std::max(sending[exchange.source], receiving[exchange.target]) +
        static_cast<double>(messages) * links.latency +
        static_cast<double>(exchange.bytes) / rate;
    sending[exchange.source] = receiving[exchange.target] = end;
    last = std::max(last, end);
  }
  return last;
}

} // namespace cleave::transfer
