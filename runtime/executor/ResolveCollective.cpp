//===- ResolveCollective.cpp - Opens the channels of collectives ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Resolver.h"
#include "runtime/format/Convert.h"

#include <algorithm>

namespace cleave::executor {

using transport::Box;

uint64_t channelNumber(size_t program, uint32_t collective, size_t variant) {
  return uint64_t(program) << 48 | uint64_t(collective) << 16 | variant;
}

/// `box` at a distance along each dim.
static Box moved(Box box, const std::vector<int64_t> &distance) {
  for (size_t i = 0; i < distance.size(); ++i) {
    box.dims[i].begin += distance[i];
    box.dims[i].end += distance[i];
  }
  return box;
}

/// Whether every rank has what it needs.
static bool isLocal(const transport::Description &description) {
  if (!description.images.empty()) {
    return false;
  }
  for (size_t i = 0; i < description.group.size(); ++i) {
    const Box &target = description.targets[i];
    if (description.partial[i] != 0 ||
        (!target.empty() &&
         transport::intersect(target, description.sources[i]) != target)) {
      return false;
    }
  }
  return true;
}

/// Those of the group that come here, all in the same order; the coordinates of
/// the reduction without those that have nothing to give.
Resolver::Meeting
Resolver::meetingOf(const format::CollectiveT &collective) const {
  const layout::Mesh &mesh = env.placement->mesh;
  std::vector<layout::Residence> holders = format::toLayout(collective.holders);
  Meeting meeting;
  std::vector<int64_t> used;
  for (int64_t member : mesh.groupOf(env.deviceNumber, collective.group)) {
    std::vector<int64_t> coordinate = mesh.coordinateOf(member);
    if (!std::all_of(residences.begin(), residences.end(), [&](auto &parts) {
          return format::resides(parts, coordinate);
        })) {
      continue;
    }
    if (member == env.deviceNumber) {
      meeting.rank = static_cast<int64_t>(meeting.members.size());
    }
    meeting.members.push_back(member);
    meeting.gives.push_back(format::resides(holders, coordinate));
    meeting.partial.push_back(mesh.rankAlong(member, collective.partial));
    if (meeting.gives.back()) {
      used.push_back(meeting.partial.back());
    }
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (size_t i = 0; i < meeting.members.size(); ++i) {
    meeting.partial[i] =
        meeting.gives[i]
            ? std::lower_bound(used.begin(), used.end(), meeting.partial[i]) -
                  used.begin()
            : 0;
  }
  for (const View *view : {collective.source.get(), collective.target.get()}) {
    meeting.timed |= env.placement->isTimed(valueOf(*view));
  }
  return meeting;
}

/// The pieces of all members in all dims, from the least index on; equal at
/// instants that one channel serves. For what no time cuts it is not needed.
std::vector<int64_t> Resolver::piecesOf(const format::CollectiveT &collective,
                                        const Meeting &meeting) const {
  std::vector<int64_t> key;
  if (!meeting.timed) {
    return key;
  }
  const View *views[] = {collective.source.get(), collective.target.get()};
  size_t rank = valueOf(*views[0]).extents.size() - (views[0]->loop() >= 0);
  key.reserve(rank * meeting.members.size() * 4);
  for (size_t dim = 0; dim < rank; ++dim) {
    size_t first = key.size();
    int64_t least = INT64_MAX;
    for (const View *view : views) {
      uint32_t extent = valueOf(*view).extents[dim + (view->loop() >= 0)];
      for (int64_t member : meeting.members) {
        const layout::Piece &piece =
            env.placement->piece(extent, member, instant);
        least = std::min(least, piece.begin);
        key.push_back(piece.begin);
        key.push_back(piece.end);
      }
    }
    for (size_t i = first; i < key.size(); ++i) {
      key[i] -= least;
    }
  }
  return key;
}

/// Begins all boxes at the least index.
static void moveToOrigin(transport::Description &description) {
  size_t rank = description.sources.front().dims.size();
  std::vector<Box> *all[] = {&description.sources, &description.targets,
                             &description.images};
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t least = INT64_MAX;
    for (std::vector<Box> *boxes : all) {
      for (const Box &box : *boxes) {
        least = std::min(least, box.dims[dim].begin);
      }
    }
    for (std::vector<Box> *boxes : all) {
      for (Box &box : *boxes) {
        box.dims[dim].begin -= least;
        box.dims[dim].end -= least;
      }
    }
  }
}

/// From the end of the dim that a collective moves around to its beginning;
/// none where it moves nothing.
std::vector<int64_t>
Resolver::aroundOf(const format::CollectiveT &collective) const {
  const std::vector<int64_t> &shift = collective.shift;
  std::vector<int64_t> around(shift.size());
  const format::ValueT &value = valueOf(*collective.source);
  size_t dropped = collective.source->loop() >= 0;
  bool moves = false;
  for (size_t i = 0; i < shift.size(); ++i) {
    moves |= shift[i] != 0;
    around[i] =
        shift[i] ? -env.plan->extents[value.extents[i + dropped]]->size : 0;
  }
  return moves ? around : std::vector<int64_t>();
}

Result<transport::Channel> Resolver::open(const format::CollectiveT &collective,
                                          const Meeting &meeting) const {
  transport::Description description;
  description.id =
      channelNumber(env.program, collective.id, meeting.channels.size());
  description.name = format::nameOf(collective.kind);
  if (collective.site < env.plan->sites.size() &&
      !env.plan->sites[collective.site]->name.empty()) {
    description.name = env.plan->sites[collective.site]->name;
  }
  if (meeting.channels.size() >= mostVariants) {
    return Status::error(description.name + ": it differs in too many ways");
  }
  description.type = valueOf(*collective.source).type;
  description.reduction = static_cast<layout::Reduction>(collective.reduction);
  description.group = meeting.members;
  description.partial = meeting.partial;
  std::vector<int64_t> around = aroundOf(collective);
  for (size_t i = 0; i < meeting.members.size(); ++i) {
    Box source =
        moved(boxOf(*collective.source, meeting.members[i]), collective.shift);
    if (!around.empty()) {
      description.images.push_back(moved(source, around));
    }
    Box target = boxOf(*collective.target, meeting.members[i]);
    if (!collective.holders.empty()) {
      // A dim that only those have who give, so that a scalar can be empty.
      source.dims.insert(source.dims.begin(), {0, meeting.gives[i]});
      target.dims.insert(target.dims.begin(), {0, 1});
    }
    description.sources.push_back(std::move(source));
    description.targets.push_back(std::move(target));
  }
  if (meeting.timed) {
    moveToOrigin(description);
  }
  int64_t rank = meeting.rank;
  if (isLocal(description)) {
    description.group = {env.deviceNumber};
    description.sources = {description.sources[rank]};
    description.targets = {description.targets[rank]};
    description.partial = {0};
    rank = 0;
  }
  return env.transport->open(description, rank);
}

uint32_t Resolver::trafficOf(format::TrafficKind kind,
                             const std::vector<uint32_t> &atoms) {
  std::vector<DeviceProgram::Traffic> &all = result.trafficOf;
  auto found = std::find_if(all.begin(), all.end(), [&](const auto &one) {
    return one.kind == kind && one.atoms == atoms;
  });
  if (found == all.end()) {
    found = all.insert(all.end(), {kind, atoms, 0});
  }
  return static_cast<uint32_t>(found - all.begin());
}

/// A slice sends nothing, and is of no group.
static format::TrafficKind trafficKind(format::CollectiveKind kind) {
  using format::CollectiveKind;
  using format::TrafficKind;
  switch (kind) {
  case CollectiveKind::AllReduce:
    return TrafficKind::AllReduce;
  case CollectiveKind::AllGather:
    return TrafficKind::AllGather;
  case CollectiveKind::ReduceScatter:
    return TrafficKind::ReduceScatter;
  case CollectiveKind::AllToAll:
    return TrafficKind::AllToAll;
  case CollectiveKind::Broadcast:
    return TrafficKind::Broadcast;
  case CollectiveKind::Shift:
    return TrafficKind::Shift;
  case CollectiveKind::Slice:
    break;
  }
  return TrafficKind::Collectives;
}

Status Resolver::resolveCollective(const format::CollectiveT &collective) {
  auto [entry, fresh] = meetings.try_emplace(collective.id);
  Meeting &meeting = entry->second;
  if (fresh) {
    meeting = meetingOf(collective);
  }
  CLEAVE_TRY(present({collective.target.get()}));
  if (meeting.gives[meeting.rank]) {
    CLEAVE_TRY(present({collective.source.get()}));
  }
  std::vector<int64_t> key = piecesOf(collective, meeting);
  auto found = meeting.channels.find(key);
  if (found == meeting.channels.end()) {
    Result<transport::Channel> channel = open(collective, meeting);
    if (!channel) {
      return channel.status();
    }
    found = meeting.channels.emplace(std::move(key), *channel).first;
  }
  // Each element is written once, and read once for each term of its sum.
  int64_t terms =
      1 + *std::max_element(meeting.partial.begin(), meeting.partial.end());
  started[collective.id] = {static_cast<uint32_t>(result.collectives.size()),
                            collective.site};
  emit(Operation::Start, result.collectives,
       DeviceProgram::CollectiveCall{
           found->second, addressOf(*collective.source),
           addressOf(*collective.target),
           trafficOf(trafficKind(collective.kind),
                     collective.kind == format::CollectiveKind::Slice
                         ? std::vector<uint32_t>()
                         : collective.group)},
       collective.site, {0, bytesOf(*collective.target) * (1 + terms)});
  return Status();
}

} // namespace cleave::executor
