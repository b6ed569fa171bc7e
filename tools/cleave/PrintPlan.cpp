//===- PrintPlan.cpp - A plan file in short -------------------------------===//
//--------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/PrintPlan.h"

#include "runtime/format/Convert.h"
#include "runtime/format/Pipeline.h"
#include "tools/cleave/Explain.h"

#include <ostream>

namespace cleave::tools {

using namespace format;

static std::string shapeOf(const std::vector<std::string> &dims,
                           const std::vector<int64_t> &sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i ? ", " : "") + (i < dims.size() ? dims[i] + ": " : "") +
            std::to_string(sizes[i]);
  }
  return text + "]";
}

void printSet(const PlanSetT &set, std::ostream &out) {
  out << "model " << set.model << ", made by " << set.producer << "\n";
  out << "processor needs:";
  for (const std::string &feature : set.target_features) {
    out << " " << feature;
  }
  out << "\n" << set.symbols.size() << " kernels\n\nstate\n";
  for (const auto &leaf : set.leaves) {
    out << "  " << leaf->path << (leaf->state.empty() ? "" : "." + leaf->state)
        << ": " << nameOf(leaf->type) << shapeOf(leaf->dims, leaf->sizes)
        << "\n";
  }
  if (set.eval_every > 0) {
    out << "\nevaluates every " << set.eval_every << " steps\n";
  }
  for (size_t i = 0; i < set.plans.size(); ++i) {
    const PlanT &plan = *set.plans[i];
    layout::Mesh mesh = toLayout(*plan.mesh);
    out << "\nplan " << plan.name << (i == set.start ? " (start)" : "") << ": "
        << mesh.devices() << " devices";
    for (size_t at = 0; at + mesh.times < mesh.atoms.size(); ++at) {
      out << " " << mesh.atoms[at].name << "=" << mesh.atoms[at].size;
    }
    out << "\n";
    for (const auto &program : plan.programs) {
      out << "  " << program->name << ": " << program->body.size()
          << " instructions outside loops, " << program->values.size()
          << " values, arena "
          << formatBytes(static_cast<int64_t>(program->arena_bytes))
          << " a device\n";
      if (const PipelineT *pipeline = pipelineOf(*program)) {
        PipelineShape shape(*pipeline, mesh);
        out << "    in stages: " << shape.stages << ", chunks of each "
            << shape.chunks << ", microbatches " << shape.micros << "\n";
      }
    }
  }
}

} // namespace cleave::tools
