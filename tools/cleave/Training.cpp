//===- Training.cpp - A session with its data -----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Training.h"

#include "runtime/data/Order.h"

#include <algorithm>

namespace cleave::tools {

Result<std::unique_ptr<executor::Session>>
openSession(const std::string &planFile, const std::string &plan,
            const std::string &preferred) {
  Result<format::PlanFile> file = format::PlanFile::open(planFile);
  if (!file) {
    return file.status();
  }
  if (!plan.empty() && file->findPlan(plan) < 0) {
    return Status::error(planFile + " has no plan `" + plan + "`; it has " +
                         format::planNames(file->set()));
  }
  bool hasPreferred = plan.empty() && file->findPlan(preferred) >= 0;
  return executor::Session::open(
      std::make_shared<const format::PlanFile>(std::move(*file)),
      hasPreferred ? preferred : plan);
}

Result<Batches> Batches::create(const format::ProgramT &program,
                                const data::Corpus &corpus, data::Part part) {
  Batches batches;
  batches.corpus = &corpus;
  batches.part = part;
  int64_t shift = 0;
  for (const auto &input : program.inputs) {
    if (input->source != format::InputSource::Tokens) {
      continue;
    }
    if (input->sizes.size() != 2) {
      return Status::error("input `" + input->name +
                           "` has other dims than a sample and a position");
    }
    if (!batches.names.empty() && (input->sizes[0] != batches.batch ||
                                   input->sizes[1] != batches.length)) {
      return Status::error("inputs `" + batches.names.front() + "` and `" +
                           input->name + "` have different sizes");
    }
    if (input->bound > 0 && corpus.bound() > input->bound) {
      Status ids = corpus.checkIds(input->bound);
      return Status::error("the data has " + std::to_string(corpus.bound()) +
                           " different tokens and input `" + input->name +
                           "` takes " + std::to_string(input->bound) +
                           (ids ? "" : ": " + ids.message()));
    }
    batches.batch = input->sizes[0];
    batches.length = input->sizes[1];
    batches.names.push_back(input->name);
    batches.shifts.push_back(input->shift);
    shift = std::max(shift, input->shift);
  }
  if (batches.names.empty()) {
    return Status::error("program `" + program.name +
                         "` has no input that reads tokens: declare one with "
                         "`from tokens(shift: 0)`");
  }
  Result<uint64_t> samples = corpus.samples(part, batches.length, shift);
  if (!samples) {
    return samples.status();
  }
  batches.available = *samples;
  for (size_t i = 0; i < batches.names.size(); ++i) {
    batches.buffers.emplace_back(batches.tokens());
    batches.views.push_back({batches.names[i], batches.buffers[i]});
  }
  return batches;
}

Status Batches::read(uint64_t seed, uint64_t cursor) {
  std::vector<uint64_t> samples(batch);
  data::Order order(seed, available);
  for (int64_t i = 0; i < batch; ++i) {
    uint64_t position = cursor + static_cast<uint64_t>(i);
    samples[i] =
        part == data::Part::Train ? order.at(position) : position % available;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    CLEAVE_TRY(corpus->read(part, samples, length, shifts[i], buffers[i]));
  }
  return Status();
}

} // namespace cleave::tools
