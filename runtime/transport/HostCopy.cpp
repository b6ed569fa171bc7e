//===- HostCopy.cpp - Pieces to a global array and back -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/HostCopy.h"

#include "runtime/format/Convert.h"

#include <cstring>

namespace cleave::transport {

Box wholeBox(const std::vector<int64_t> &sizes) {
  Box box;
  for (int64_t size : sizes) {
    box.dims.push_back({0, size});
  }
  return box;
}

/// A copy of `common` between two dense boxes, from rank 0 to rank 1's place.
static TransferTask copyTask(format::ElementType type, const Box &common,
                             const Box &source, const Box &target) {
  Description description;
  description.type = type;
  description.group = {0};
  description.sources = {source};
  description.targets = {target};
  description.partial = {0};
  return makeTask({common, {0}, {0}}, description);
}

Status gather(const Pieces &pieces, void *global) {
  Box whole = wholeBox(pieces.sizes);
  std::vector<Box> missing;
  if (!whole.empty()) {
    missing.push_back(whole);
  }
  for (size_t i = 0; i < pieces.boxes.size() && !missing.empty(); ++i) {
    std::vector<Box> rest;
    for (const Box &box : missing) {
      Box common = intersect(box, pieces.boxes[i]);
      if (common.empty()) {
        rest.push_back(box);
        continue;
      }
      Tensors tensors{pieces.memory[i], global};
      runTask(copyTask(pieces.type, common, pieces.boxes[i], whole), &tensors);
      std::vector<Box> left = subtract(box, common);
      rest.insert(rest.end(), left.begin(), left.end());
    }
    missing = std::move(rest);
  }
  return missing.empty()
             ? Status()
             : Status::error("some of its elements are on no device");
}

TransferTask scatterTask(format::ElementType type,
                         const std::vector<int64_t> &sizes, const Box &box) {
  return copyTask(type, box, wholeBox(sizes), box);
}

void scatter(const void *global, const Pieces &pieces) {
  for (size_t i = 0; i < pieces.boxes.size(); ++i) {
    if (!pieces.boxes[i].empty()) {
      Tensors tensors{global, pieces.memory[i]};
      runTask(scatterTask(pieces.type, pieces.sizes, pieces.boxes[i]),
              &tensors);
    }
  }
}

Status compare(const void *global, const Pieces &pieces) {
  for (size_t i = 0; i < pieces.boxes.size(); ++i) {
    const Box &box = pieces.boxes[i];
    size_t bytes =
        static_cast<size_t>(box.elements()) * format::elementSize(pieces.type);
    if (bytes == 0) {
      continue;
    }
    std::vector<char> wanted(bytes);
    Tensors tensors{global, wanted.data()};
    runTask(scatterTask(pieces.type, pieces.sizes, box), &tensors);
    if (std::memcmp(wanted.data(), pieces.memory[i], bytes) != 0) {
      int64_t device =
          pieces.devices.empty() ? static_cast<int64_t>(i) : pieces.devices[i];
      return Status::error("device " + std::to_string(device) +
                           " holds other bits than the first device that has "
                           "these elements");
    }
  }
  return Status();
}

} // namespace cleave::transport
