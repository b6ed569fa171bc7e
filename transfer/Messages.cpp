//===- Messages.cpp - An exchange, message by message ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Messages.h"

#include <algorithm>

namespace cleave::transfer {

Messages::Messages(const Transfer &transfer, const Exchange &exchange,
                   const std::vector<Leaf> &leaves)
    : transfer(transfer), exchange(exchange), leaves(leaves),
      part(exchange.firstPart) {}

bool Messages::next(Message &message) {
  message = {};
  while (part < exchange.lastPart) {
    const Entry &entry = transfer.entries[transfer.parts[part].entry];
    const Move &move = entry.moves[transfer.parts[part].move];
    size_t index = entry.leaves[leaf];
    int64_t elementBytes = leaves[index].elementBytes;
    int64_t room = (transfer.messageBytes - message.bytes) / elementBytes;
    int64_t count = std::min(room, move.elements() - elements);
    if (count == 0) {
      break; // full; an empty message always has room for an element
    }
    int64_t begin = move.begin + elements;
    for (Box &box : boxesOf(areaOf(entry, move), begin, begin + count)) {
      message.slices.push_back({index, std::move(box)});
    }
    message.bytes += count * elementBytes;
    elements += count;
    if (elements == move.elements()) {
      elements = 0;
      if (++leaf == entry.leaves.size()) {
        leaf = 0;
        ++part;
      }
    }
  }
  return message.bytes > 0;
}

} // namespace cleave::transfer
