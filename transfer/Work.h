//===- Work.h - What the steps of planning hand on --------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Internal to transfer/.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TRANSFER_WORK_H
#define CLEAVE_TRANSFER_WORK_H

#include "transfer/Transfer.h"

namespace cleave::transfer {

/// Transfers between more devices than this keep coordinates where the request
/// prefers them: choosing takes memory that grows with the square.
constexpr int64_t mostRelabelled = 4096;
constexpr int64_t mostDevices = 16384;

/// A request that was checked, with its defaults filled in.
struct Work {
  const Request &request;
  int64_t devices = 0;
  std::vector<int64_t> fromDevices; ///< of each coordinate of the old mesh
  std::vector<int64_t> preferred;   ///< of each coordinate of the new mesh
  std::vector<int64_t> groups;      ///< of each device, from 0 without a gap
  int64_t groupCount = 1;
  std::vector<Entry> entries; ///< moves are empty until chooseSources
};

/// A sentence that says what is wrong with a request; empty if nothing is.
std::string problemOf(const Request &request);

/// Of a request without a problem.
Work prepare(const Request &request);

/// Step 1 of Transfer.h: the device of each coordinate of the new mesh.
std::vector<int64_t> chooseDevices(const Work &work);

/// Step 2: sets the moves of all entries.
void chooseSources(Work &work, const std::vector<int64_t> &toDevices);

} // namespace cleave::transfer

#endif // CLEAVE_TRANSFER_WORK_H
