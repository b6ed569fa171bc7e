//===- Exchange.cpp - Who gives which elements to whom --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/Exchange.h"

#include <algorithm>

namespace cleave::transport {

namespace {

struct Part {
  Box box;
  int64_t source = 0;
};

/// Takes of `box` what a source has; the others go to `rest`.
void takeFrom(int64_t source, const Box &has, const Box &box,
              std::vector<Part> &parts, std::vector<Box> &rest) {
  Box common = intersect(box, has);
  if (common.empty()) {
    rest.push_back(box);
    return;
  }
  parts.push_back({common, source});
  std::vector<Box> left = subtract(box, common);
  rest.insert(rest.end(), left.begin(), left.end());
}

/// Covers `target` by the sources of the ranks of one partial coordinate:
/// those of `preferred` first, then the ranks after them, so that replicas
/// share the giving. Returns false where an element is in no source.
bool cover(const Description &description, const Box &target,
           int64_t coordinate, const std::vector<int64_t> &preferred,
           std::vector<Part> &parts) {
  int64_t count = static_cast<int64_t>(description.group.size());
  std::vector<int64_t> order = preferred;
  for (int64_t i = 0; i < count; ++i) {
    order.push_back((preferred.front() + 1 + i) % count);
  }
  std::vector<Box> missing = {target};
  for (int64_t rank : order) {
    if (missing.empty()) {
      return true;
    }
    if (description.partial[rank] != coordinate) {
      continue;
    }
    std::vector<Box> rest;
    for (const Box &box : missing) {
      takeFrom(rank, description.sources[rank], box, parts, rest);
    }
    if (!description.images.empty()) {
      missing = std::move(rest);
      rest.clear();
      for (const Box &box : missing) {
        takeFrom(rank + count, description.images[rank], box, parts, rest);
      }
    }
    missing = std::move(rest);
  }
  return missing.empty();
}

Status verify(const Description &description) {
  size_t count = description.group.size();
  if (count == 0 || description.sources.size() != count ||
      description.targets.size() != count ||
      description.partial.size() != count) {
    return Status::error("not every rank is described");
  }
  size_t rank = description.sources.front().dims.size();
  for (size_t i = 0; i < count; ++i) {
    if (description.sources[i].dims.size() != rank ||
        description.targets[i].dims.size() != rank) {
      return Status::error("sources and targets differ in rank");
    }
  }
  if (!description.images.empty() && description.images.size() != count) {
    return Status::error("not every rank has an image");
  }
  for (size_t i = 0; i < description.images.size(); ++i) {
    if (stridesOf(description.images[i]) != stridesOf(description.sources[i]) ||
        description.images[i].elements() != description.sources[i].elements()) {
      return Status::error("an image of other sizes than its source");
    }
  }
  return Status();
}

} // namespace

Result<std::vector<Region>> planExchange(const Description &description) {
  CLEAVE_TRY(verify(description).in(description.name));
  int64_t coordinates = 1 + *std::max_element(description.partial.begin(),
                                              description.partial.end());
  int64_t count = static_cast<int64_t>(description.group.size());
  std::vector<Region> regions;
  std::vector<bool> served(count, false);
  for (int64_t rank = 0; rank < count; ++rank) {
    const Box &target = description.targets[rank];
    if (served[rank] || target.empty()) {
      continue;
    }
    std::vector<int64_t> members = {rank};
    for (int64_t other = rank + 1; coordinates > 1 && other < count; ++other) {
      if (description.targets[other] == target) {
        members.push_back(other);
        served[other] = true;
      }
    }
    std::vector<Region> cut = {{target, {}, members}};
    for (int64_t coordinate = 0; coordinate < coordinates; ++coordinate) {
      std::vector<Part> parts;
      if (!cover(description, target, coordinate, members, parts)) {
        return Status::error(description.name + ": an element that device " +
                             std::to_string(description.group[rank]) +
                             " needs is on no device of its group");
      }
      std::vector<Region> finer;
      for (const Region &region : cut) {
        for (const Part &part : parts) {
          Region both = region;
          both.box = intersect(region.box, part.box);
          if (!both.box.empty()) {
            both.sources.push_back(part.source);
            finer.push_back(std::move(both));
          }
        }
      }
      cut = std::move(finer);
    }
    regions.insert(regions.end(), cut.begin(), cut.end());
  }
  return regions;
}

std::vector<Region> cutRegions(std::vector<Region> regions, int64_t limit) {
  std::vector<Region> small;
  while (!regions.empty()) {
    Region region = std::move(regions.back());
    regions.pop_back();
    auto outermost = std::find_if(
        region.box.dims.begin(), region.box.dims.end(),
        [](const layout::Piece &piece) { return piece.size() > 1; });
    if (region.box.elements() <= limit || outermost == region.box.dims.end()) {
      small.push_back(std::move(region));
      continue;
    }
    // Halves of the outermost dim stay contiguous.
    size_t dim = outermost - region.box.dims.begin();
    int64_t middle = outermost->begin + outermost->size() / 2;
    Region upper = region;
    region.box.dims[dim].end = middle;
    upper.box.dims[dim].begin = middle;
    regions.push_back(std::move(upper));
    regions.push_back(std::move(region));
  }
  return small;
}

} // namespace cleave::transport
