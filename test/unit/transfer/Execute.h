//===- Execute.h - Runs a transfer on arrays in memory ----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every device has an array for each leaf, with a place for each element of the
// global tensor, so that an element that is missing, that comes twice or that
// nobody asked for shows. What a device should hold is asked of an oracle that
// knows no boxes.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_TRANSFER_EXECUTE_H
#define CLEAVE_TEST_UNIT_TRANSFER_EXECUTE_H

#include "transfer/Transfer.h"

#include <random>
#include <string>

namespace cleave::transfer::test {

/// Whether a coordinate of the mesh holds an element, by the definitions of
/// layout/Layout.h, one element at a time.
bool holds(const std::vector<int64_t> &sizes, const layout::Layout &layout,
           const layout::Mesh &mesh, int64_t coordinate, int64_t element);

constexpr uint64_t absent = ~uint64_t(0);

/// By device, by leaf, by global element in row-major order.
using State = std::vector<std::vector<std::vector<uint64_t>>>;

int64_t elementsOf(const Leaf &leaf);

/// Random values where the side's devices hold something.
State makeState(const Request &request, int64_t devices, std::mt19937 &random);

/// Runs the transfer: first what stays in place, then the exchanges, each as
/// soon as both its ends have it next, in a random order of those. A device
/// does one thing at a time and a send waits for its receiver. Returns what
/// went wrong, or nothing.
std::string execute(const Request &request, const Transfer &transfer,
                    const State &before, State &after, std::mt19937 &random);

/// Whether every device has exactly what the new plan says, with the values of
/// `values` (by leaf, by element).
std::string checkState(const Request &request, const Transfer &transfer,
                       const std::vector<std::vector<uint64_t>> &values,
                       const State &state);

} // namespace cleave::transfer::test

#endif // CLEAVE_TEST_UNIT_TRANSFER_EXECUTE_H
