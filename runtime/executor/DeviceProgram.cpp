//===- DeviceProgram.cpp - A program as one device runs it ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/DeviceProgram.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace cleave::executor {

void DeviceProgram::call(const KernelCall &kernel) {
  for (uint32_t i = kernel.patches; i < kernel.patchesEnd; ++i) {
    const Patch &patch = patches[i];
    int64_t iteration = iterations[patch.depth];
    if (patch.base) {
      pointers[patch.slot] = patch.base + iteration * patch.stride;
    } else {
      integers[patch.slot] = patch.first + iteration;
    }
  }
  device->launch(kernel.function, pointers.data() + kernel.pointers,
                 integers.data() + kernel.integers);
}

/// All but loops and steps.
Status DeviceProgram::execute(const Operation &operation) {
  switch (operation.kind) {
  case Operation::Kernel:
    call(kernels[operation.index]);
    break;
  case Operation::Contraction: {
    const ContractionCall &call = contractions[operation.index];
    device->contract(call.prepared, at(call.lhs), at(call.rhs), at(call.out));
    break;
  }
  case Operation::Fill: {
    const FillCall &call = fills[operation.index];
    device->fillZero(at(call.target), call.bytes);
    break;
  }
  case Operation::Move: {
    const MoveCall &call = moves[operation.index];
    transport::Tensors tensors{at(call.source), at(call.target)};
    transport::runTask(call.task, &tensors);
    break;
  }
  case Operation::Start: {
    const CollectiveCall &call = collectives[operation.index];
    transport->start(call.channel, at(call.source), at(call.target));
    break;
  }
  case Operation::Wait: {
    const CollectiveCall &call = collectives[operation.index];
    if (!countsWaits) {
      return transport->wait(call.channel);
    }
    uint64_t begin = traceClock();
    Status status = transport->wait(call.channel);
    uint64_t waited = traceClock() - begin;
    nanosecondsWaited += waited;
    trafficOf[call.traffic].waited += waited;
    return status;
  }
  case Operation::LoopBegin:
  case Operation::LoopEnd:
  case Operation::StepBegin:
  case Operation::StepEnd:
    break;
  }
  return Status();
}

static EventKind kindOf(uint8_t operation) {
  // The first kinds of operations are those of events, in order.
  return static_cast<EventKind>(operation);
}

/// Carries out a loop's or a step's begin or end; what comes next.
uint32_t DeviceProgram::control(uint32_t at, EventList *events) {
  const Operation &operation = code[at];
  switch (operation.kind) {
  case Operation::LoopBegin: {
    LoopCall &loop = loops[operation.index];
    loop.done = 0;
    finished = loop.depth == 0 ? 0 : finished;
    iterations[loop.depth] =
        loop.reverse ? loop.first + loop.count - 1 : loop.first;
    return loop.count > 0 ? at + 1 : loop.end + 1;
  }
  case Operation::LoopEnd: {
    LoopCall &loop = loops[operation.index];
    ++loop.done;
    if (loop.depth == 0) {
      finished = loop.done;
      if (*iterationHook) {
        (*iterationHook)(deviceNumber);
      }
    }
    if (loop.done < loop.count) {
      iterations[loop.depth] += loop.reverse ? -1 : 1;
      return loop.begin + 1;
    }
    return at + 1;
  }
  case Operation::StepBegin: {
    StepCall &call = steps[operation.index];
    if (events) {
      call.event = events->size();
      uint64_t now = traceClock();
      events->push_back({now, now, call.step.micro(), EventKind::PipelineStep,
                         call.step.kind(), call.step.chunk()});
    }
    if (*hook && !format::isMessage(call.step.kind())) {
      (*hook)(deviceNumber, call.step);
    }
    return at + 1;
  }
  default: // the end of a step
    if (events) {
      (*events)[steps[operation.index].event].end = traceClock();
    }
    return at + 1;
  }
}

static uint64_t progressAt(uint32_t position, int64_t finished) {
  return uint64_t(position) << 32 | static_cast<uint32_t>(finished);
}

bool DeviceProgram::isReady(const format::HandoverT &handover, int64_t slice,
                            uint64_t progress) const {
  uint32_t position = static_cast<uint32_t>(progress >> 32);
  if (handover.ready == 0 || position >= ends[handover.ready - 1]) {
    return true;
  }
  uint32_t begin = handover.loop > 0 ? ends[handover.loop - 1] : 0;
  if (handover.loop < 0 || position <= begin ||
      code[begin].kind != Operation::LoopBegin) {
    return false;
  }
  const LoopCall &loop = loops[code[begin].index];
  int64_t done = static_cast<uint32_t>(progress);
  return loop.reverse ? slice >= loop.count - done : slice < done;
}

Status DeviceProgram::run(EventList *events, Part part, Progress *progress) {
  if (part != Part::Update) {
    for (Traffic &traffic : trafficOf) {
      traffic.waited = 0;
    }
  }
  uint32_t begin = part == Part::Update ? update : 0;
  uint32_t end =
      static_cast<uint32_t>(part == Part::Gradients ? update : code.size());
  for (uint32_t at = begin; at < end;) {
    const Operation &operation = code[at];
    if (progress) {
      progress->store(progressAt(at, finished), std::memory_order_release);
    }
    if (operation.kind >= Operation::LoopBegin) {
      at = control(at, events);
      continue;
    }
    uint64_t since = events ? traceClock() : 0;
    CLEAVE_TRY(execute(operation));
    if (events) {
      events->push_back(
          {since, traceClock(), operation.site, kindOf(operation.kind)});
    }
    ++at;
  }
  device->synchronise();
  if (progress) {
    progress->store(progressAt(end, 0), std::memory_order_release);
  }
  return Status();
}

std::vector<SiteWork> DeviceProgram::work() const {
  std::map<std::pair<uint8_t, uint32_t>, SiteWork> sites;
  std::vector<int64_t> times = {1}; // that what stands here runs
  for (size_t at = 0; at < code.size(); ++at) {
    const Operation &operation = code[at];
    if (operation.kind == Operation::LoopBegin) {
      times.push_back(times.back() * loops[operation.index].count);
    } else if (operation.kind == Operation::LoopEnd) {
      times.pop_back();
    } else if (operation.kind < Operation::LoopBegin) {
      SiteWork &work = sites[{operation.kind, operation.site}];
      work.kind = kindOf(operation.kind);
      work.site = operation.site;
      work.calls += times.back();
      work.operations += static_cast<double>(times.back()) *
                         static_cast<double>(works[at].operations);
      work.bytes += static_cast<double>(times.back()) *
                    static_cast<double>(works[at].bytes);
    }
  }
  std::vector<SiteWork> result;
  for (const auto &[key, work] : sites) {
    result.push_back(work);
  }
  return result;
}

void moveAddress(char *&address, std::span<const AddressRange> ranges) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](char *wanted, const AddressRange &range) {
                                  return wanted < range.begin;
                                });
  if (after == ranges.begin()) {
    return;
  }
  const AddressRange &range = *std::prev(after);
  size_t offset = static_cast<size_t>(address - range.begin);
  if (offset < range.bytes) {
    address = range.target + offset;
  }
}

void DeviceProgram::moveAddresses(std::span<const AddressRange> ranges) {
  for (void *&pointer : pointers) {
    char *address = static_cast<char *>(pointer);
    moveAddress(address, ranges);
    pointer = address;
  }
  for (Patch &patch : patches) {
    moveAddress(patch.base, ranges);
  }
  for (ContractionCall &call : contractions) {
    for (Address *address : {&call.lhs, &call.rhs, &call.out}) {
      moveAddress(address->base, ranges);
    }
  }
  for (FillCall &call : fills) {
    moveAddress(call.target.base, ranges);
  }
  for (MoveCall &call : moves) {
    moveAddress(call.source.base, ranges);
    moveAddress(call.target.base, ranges);
  }
  for (CollectiveCall &call : collectives) {
    moveAddress(call.source.base, ranges);
    moveAddress(call.target.base, ranges);
  }
}

} // namespace cleave::executor
