//===- NumbersTest.cpp - Least bytes of plan switches ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Toy.h"

#include <gtest/gtest.h>

using namespace cleave::transfer;

namespace {

struct Switch {
  const char *name;
  toy::Plan from, to; ///< with neither `zero` nor `isOnIn` set
};

const Switch switches[] = {
    {"data 8 -> pipe 2 data 2 tensor 2", {8, 1, 1}, {2, 2, 2}},
    {"pipe 2 data 2 tensor 2 -> data 8", {2, 2, 2}, {8, 1, 1}},
    {"pipe 2 data 2 tensor 2 -> data 2 tensor 4", {2, 2, 2}, {2, 4, 1}},
    {"data 2 tensor 4 -> pipe 2 data 2 tensor 2", {2, 4, 1}, {2, 2, 2}},
    {"tensor 8 -> pipe 4 data 2", {1, 8, 1}, {2, 1, 4}},
    {"data 8 -> data 6", {8, 1, 1}, {6, 1, 1}},
    {"pipe 2 data 2 tensor 2 -> pipe 3 data 2", {2, 2, 2}, {2, 1, 3}},
};

/// In units of one byte for each element of the leaf.
struct Bytes {
  double total, busiest;
};
struct Row {
  Bytes same, relabelled;
};

/// In the order of `switches`.
const Row replicatedRows[] = {
    {{0, 0}, {0, 0}},        {{72, 9}, {72, 9}},         {{18, 3}, {12, 1.5}},
    {{18, 3}, {12, 1.5}},    {{21, 2.625}, {21, 2.625}}, {{0, 0}, {0, 0}},
    {{15, 3.75}, {13.5, 3}},
};
const Row zeroOnIn[] = {
    {{6, 1}, {4, 0.5}},  {{30, 4}, {28, 3.5}},       {{12, 2}, {8, 1}},
    {{12, 2}, {8, 1}},   {{14, 1.875}, {13, 1.625}}, {{6.5, 1.5}, {2, 0.5}},
    {{10, 2.5}, {9, 2}},
};
const Row zeroOnOut[] = {
    {{7, 1}, {6, 0.75}},    {{31, 4}, {30, 3.75}},    {{13, 2}, {8, 1}},
    {{13, 2}, {8, 1}},      {{14, 1.75}, {14, 1.75}}, {{6.5, 1.5}, {2, 0.5}},
    {{11.5, 2.75}, {9, 2}},
};

void expectRows(const Row *rows, bool zero, bool isOnIn) {
  for (size_t i = 0; i < std::size(switches); ++i) {
    for (bool relabel : {false, true}) {
      toy::Plan from = switches[i].from, to = switches[i].to;
      from.zero = to.zero = zero;
      from.isOnIn = to.isOnIn = isOnIn;
      std::string error;
      std::optional<Transfer> transfer =
          planTransfer(toy::requestFor(from, to, relabel), error);
      ASSERT_TRUE(transfer) << error;
      const Bytes &bytes = relabel ? rows[i].relabelled : rows[i].same;
      EXPECT_EQ(transfer->summary.bytes, bytes.total * toy::elements)
          << switches[i].name << (relabel ? ", relabelled" : "");
      EXPECT_EQ(transfer->summary.mostReceived, bytes.busiest * toy::elements)
          << switches[i].name << (relabel ? ", relabelled" : "");
    }
  }
}

} // namespace

TEST(Numbers, ReplicatedOnIn) { expectRows(replicatedRows, false, true); }
TEST(Numbers, ReplicatedOnOut) { expectRows(replicatedRows, false, false); }
TEST(Numbers, ZeroOnIn) { expectRows(zeroOnIn, true, true); }
TEST(Numbers, ZeroOnOut) { expectRows(zeroOnOut, true, false); }
