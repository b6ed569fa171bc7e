//===- Rounds.h - The order of exchanges ------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges are edges between senders and receivers. A bipartite graph has an
// edge colouring with as many colours as its largest degree (D. Koenig, 1916);
// a colour is a round. Edges are coloured in descending order of bytes, each
// with the first colour that is free at both ends, so that the exchanges of a
// round are of like size and few devices wait in it. Where no colour is free at
// both ends, two are exchanged along an alternating path.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_ROUNDS_H
#define CLEAVE_TRANSFER_ROUNDS_H

#include "transfer/Transfer.h"

namespace cleave::transfer {

/// Sets the rounds of exchanges between `devices` devices, of which no two have
/// the same source and target, and sorts them by round, then by source. Returns
/// the number of rounds.
int64_t orderExchanges(std::vector<Exchange> &exchanges, int64_t devices);

/// When the last exchange ends, if devices work through them in order, send and
/// receive at once, and links carry what `links` says. In seconds; nothing if a
/// rate that is needed is unknown.
std::optional<double> predictSeconds(const std::vector<Exchange> &exchanges,
                                     int64_t devices, int64_t messageBytes,
                                     const Links &links);

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_ROUNDS_H
