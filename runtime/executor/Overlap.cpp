//===- Overlap.cpp - A hop while the last step runs -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Overlap.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <sched.h>
#include <system_error>

namespace cleave::executor {

using transport::Box;

static const format::ProgramT *trainingOf(const format::PlanT &plan) {
  for (const auto &program : plan.programs) {
    if (program->name == "train" && program->update > 0) {
      return program.get();
    }
  }
  return nullptr;
}

static const format::HandoverT *find(const format::ProgramT &program,
                                     const std::string &name) {
  for (const auto &handover : program.handovers) {
    if (handover->gradient->name == name) {
      return handover.get();
    }
  }
  return nullptr;
}

Status checkHandovers(const format::PlanT &from, const format::PlanT &to) {
  const format::ProgramT *old = trainingOf(from), *now = trainingOf(to);
  for (auto [plan, program] : {std::pair(&from, old), std::pair(&to, now)}) {
    if (!program) {
      return Status::error("the update of plan `" + plan->name +
                           "` reads more of its step than the gradients, so a "
                           "hop cannot overlap with a step");
    }
  }
  for (const auto &wanted : now->handovers) {
    const std::string &name = wanted->gradient->name;
    if (!find(*old, name)) {
      return Status::error("plan `" + from.name + "` makes no gradient of `" +
                           name + "`, which the update of `" + to.name +
                           "` reads");
    }
  }
  return Status();
}

/// Adds what `source` gives of `box`, slice by slice where `handover` is made
/// so.
void Overlap::addGradient(const format::HandoverT &handover, int64_t coordinate,
                          int64_t slice, std::vector<Copy> copies) {
  auto [entry, added] =
      known.try_emplace({&handover, coordinate, slice}, gradients.size());
  if (added) {
    gradients.push_back({coordinate, &handover, slice, {}, false});
  }
  std::vector<Copy> &all = gradients[entry->second].copies;
  all.insert(all.end(), copies.begin(), copies.end());
}

/// Fills every piece of the target from pieces of the source: from the same
/// device where that has the elements, else from devices in turn.
Status Overlap::add(const format::HandoverT &handover, const Placed &to,
                    const format::HandoverT &target) {
  transport::Pieces old =
      from.engine->piecesOf(from.program, *handover.gradient);
  transport::Pieces now = to.engine->piecesOf(to.program, *target.gradient);
  for (size_t i = 0; i < now.boxes.size(); ++i) {
    if (now.boxes[i].empty()) {
      continue;
    }
    int64_t device = (*to.devices)[now.devices[i]];
    std::vector<Box> left = {now.boxes[i]};
    // Those of this device first.
    std::vector<size_t> order, others;
    for (size_t j = 0; j < old.boxes.size(); ++j) {
      size_t at = (i + j) % old.boxes.size();
      bool isHere = (*from.devices)[old.devices[at]] == device;
      (isHere ? order : others).push_back(at);
    }
    order.insert(order.end(), others.begin(), others.end());
    for (size_t j : order) {
      std::vector<Box> remaining;
      for (const Box &box : left) {
        Box common = transport::intersect(box, old.boxes[j]);
        if (common.empty()) {
          remaining.push_back(box);
          continue;
        }
        for (Box &rest : transport::subtract(box, common)) {
          remaining.push_back(std::move(rest));
        }
        if ((*from.devices)[old.devices[j]] != device) {
          movedGradients += common.elements() *
                            static_cast<int64_t>(format::elementSize(old.type));
        }
        // The first dim of boxes is not the gradient's: see piecesOf.
        bool sliced = handover.loop >= 0;
        layout::Piece slices = sliced ? common.dims[1] : layout::Piece{0, 1};
        for (int64_t at = slices.begin; at < slices.end; ++at) {
          Box part = common;
          if (sliced) {
            part.dims[1] = {at, at + 1};
          }
          std::vector<Copy> copies;
          state::addCopies(old.type, part, old.boxes[j], old.memory[j],
                           now.boxes[i], now.memory[i], copies);
          addGradient(handover, old.devices[j],
                      sliced ? at - old.boxes[j].dims[1].begin : 0,
                      std::move(copies));
        }
      }
      left = std::move(remaining);
    }
    if (!left.empty()) {
      return Status::error("no device has all of the gradient of `" +
                           target.gradient->name + "`");
    }
  }
  return Status();
}

Result<std::unique_ptr<Overlap>>
Overlap::plan(const Placed &from, const Placed &to,
              const state::Relocation &relocation) {
  CLEAVE_TRY(checkHandovers(from.engine->plan(), to.engine->plan()));
  std::unique_ptr<Overlap> result(new Overlap(from, relocation));
  const format::ProgramT &old = *from.engine->plan().programs[from.program];
  const format::ProgramT &now = *to.engine->plan().programs[to.program];
  for (const auto &wanted : now.handovers) {
    CLEAVE_TRY(result->add(*find(old, wanted->gradient->name), to, *wanted));
  }
  return result;
}

Overlap::~Overlap() {
  stopping = true;
  if (thread.joinable()) {
    thread.join();
  }
}

Status Overlap::start() {
  try {
    thread = std::thread([this] { work(); });
  } catch (const std::system_error &error) {
    return Status::error(std::string("cannot start a thread: ") + error.what());
  }
  return Status();
}

void Overlap::copy(const Copy &one) {
  transport::streamTask(one.task, &one.tensors);
  hidden += static_cast<int64_t>(one.bytes);
}

void Overlap::copyState() {
  for (; group < relocation.early(); ++group, next = 0) {
    const std::vector<Copy> &copies = relocation.copies(group);
    relocation.prepare(group);
    for (; next < copies.size(); ++next) {
      if (stopping) {
        return;
      }
      copy(copies[next]);
    }
  }
}

/// Whether all are copied.
bool Overlap::copyGradients() {
  bool all = true;
  for (Gradient &gradient : gradients) {
    if (gradient.done) {
      continue;
    }
    if (stopping || !from.engine->isReady(gradient.coordinate, from.program,
                                          *gradient.handover, gradient.slice)) {
      all = false;
      continue;
    }
    for (const Copy &one : gradient.copies) {
      copy(one);
    }
    gradient.done = true;
  }
  return all;
}

void Overlap::work() {
  // Copies take what the step leaves idle: taken from its devices, they would
  // cost more than they do when it has ended, since devices wait for each
  // other.
  sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none); // as it is, where not allowed
  copyState();
  while (!stopping && !copyGradients()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void copyAll(Crew &crew, std::span<const state::Relocation::Copy> copies) {
  std::atomic<size_t> next{0};
  Status never = crew.all([&](int64_t) {
    for (size_t at; (at = next.fetch_add(1)) < copies.size();) {
      transport::streamTask(copies[at].task, &copies[at].tensors);
    }
    return Status();
  });
  assert(never.ok() && "copies cannot fail");
  (void)never;
}

void Overlap::finish(Crew &crew) {
  stopping = true;
  if (thread.joinable()) {
    // Now all wait for it.
    sched_param none{};
    ::pthread_setschedparam(thread.native_handle(), SCHED_OTHER, &none);
    thread.join();
  }
  for (; group < relocation.groups(); ++group, next = 0) {
    if (next == 0) {
      relocation.prepare(group);
    }
    copyAll(crew, std::span(relocation.copies(group)).subspan(next));
  }
  std::vector<Copy> left;
  for (Gradient &gradient : gradients) {
    if (!gradient.done) {
      left.insert(left.end(), gradient.copies.begin(), gradient.copies.end());
    }
  }
  copyAll(crew, left);
}

} // namespace cleave::executor
