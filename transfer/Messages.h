//===- Messages.h - An exchange, message by message -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sender and receiver walk an exchange alike, each on its own, and so agree on
// every message without a word. A message is a list of boxes, packed one after
// the other without gaps, each row major.
//
//   Messages messages(transfer, exchange);
//   while (messages.next(message)) { … }
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_MESSAGES_H
#define CLEAVE_TRANSFER_MESSAGES_H

#include "transfer/Transfer.h"

namespace cleave::transfer {

struct Slice {
  size_t leaf = 0; ///< position in Request::leaves
  Box box;         ///< global indices
};

struct Message {
  std::vector<Slice> slices;
  int64_t bytes = 0; ///< at most Transfer::messageBytes
};

class Messages {
public:
  /// `leaves`: those of the request that made the transfer. All three outlive
  /// this.
  Messages(const Transfer &transfer, const Exchange &exchange,
           const std::vector<Leaf> &leaves);

  /// The next message; false after the last.
  bool next(Message &message);

private:
  const Transfer &transfer;
  const Exchange &exchange;
  const std::vector<Leaf> &leaves;
  size_t part;          ///< of Transfer::parts
  size_t leaf = 0;      ///< of the entry's leaves
  int64_t elements = 0; ///< of this leaf that are sent
};

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_MESSAGES_H
