//===- PrintPlan.cpp - A plan file as text --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/PrintPlan.h"

#include "runtime/format/Convert.h"
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

namespace {
/// Prints one program's instructions, indented by loops.
struct Printer {
  const PlanSetT &set;
  const PlanT &plan;
  const ProgramT &program;
  layout::Mesh mesh;
  std::ostream &out;

  std::string view(const View &view) {
    const ValueT &value = *program.values[view.value()];
    std::string text;
    switch (value.storage) {
    case Storage::Arena:
      text = "%" + std::to_string(view.value());
      break;
    case Storage::Leaf: {
      const LeafT &leaf = *set.leaves[value.index];
      text = "@" + leaf.path + (leaf.state.empty() ? "" : "." + leaf.state);
      break;
    }
    case Storage::Input:
      text = "$" + program.inputs[value.index]->name;
      break;
    }
    if (view.loop() >= 0) {
      text += "[#" + std::to_string(view.loop()) + "]";
    }
    return text;
  }

  std::string views(const std::vector<View> &list) {
    std::string text;
    for (const View &item : list) {
      text += (text.empty() ? "" : ", ") + view(item);
    }
    return text;
  }

  std::string site(uint32_t index) {
    if (index >= plan.sites.size()) {
      return "";
    }
    const SiteT &site = *plan.sites[index];
    std::string text = "   // " + site.name;
    if (!site.path.empty()) {
      text += " in " + site.path;
    }
    if (!site.file.empty()) {
      text += ", " + site.file + ":" + std::to_string(site.line);
    }
    return text;
  }

  void print(const std::vector<std::unique_ptr<InstructionT>> &body,
             int depth) {
    for (const std::unique_ptr<InstructionT> &instruction : body) {
      print(*instruction, depth);
    }
  }

  void print(const InstructionT &instruction, int depth) {
    out << std::string(4 + 2 * depth, ' ');
    const ActionUnion &action = instruction.action;
    switch (action.type) {
    case Action::Kernel: {
      const KernelT &kernel = *action.AsKernel();
      out << "kernel " << set.symbols[kernel.symbol] << "("
          << views(kernel.views) << ")" << site(kernel.site);
      break;
    }
    case Action::Contraction: {
      const ContractionT &dot = *action.AsContraction();
      out << view(*dot.out) << " = " << view(*dot.lhs) << " . " << view(*dot.rhs)
          << site(dot.site);
      break;
    }
    case Action::Fill:
      out << view(*action.AsFill()->target) << " = 0";
      break;
    case Action::Move: {
      const MoveT &move = *action.AsMove();
      out << view(*move.target) << " = " << view(*move.source)
          << site(move.site);
      break;
    }
    case Action::Collective: {
      const CollectiveT &collective = *action.AsCollective();
      out << "start " << collective.id << ": " << view(*collective.target)
          << " = " << nameOf(collective.kind) << " over "
          << mesh.describe(collective.group) << " " << view(*collective.source)
          << site(collective.site);
      break;
    }
    case Action::Wait:
      out << "wait " << action.AsWait()->id;
      break;
    case Action::Loop: {
      const LoopT &loop = *action.AsLoop();
      out << "loop " << loop.count << " from " << loop.first
          << (loop.reverse ? " backwards" : "") << "\n";
      print(loop.body, depth + 1);
      return;
    }
    case Action::NONE:
      out << "nothing";
      break;
    }
    out << "\n";
  }
};
} // namespace

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
  for (size_t i = 0; i < set.plans.size(); ++i) {
    const PlanT &plan = *set.plans[i];
    layout::Mesh mesh = toLayout(*plan.mesh);
    out << "\nplan " << plan.name << (i == set.start ? " (start)" : "") << ": "
        << mesh.devices() << " devices";
    for (const layout::Atom &atom : mesh.atoms) {
      out << " " << atom.name << "=" << atom.size;
    }
    out << "\n";
    for (const auto &program : plan.programs) {
      out << "  " << program->name << ": " << program->body.size()
          << " instructions outside loops, " << program->values.size()
          << " values, arena "
          << formatBytes(static_cast<int64_t>(program->arena_bytes))
          << " a device\n";
    }
  }
}

void printPrograms(const PlanSetT &set, const PlanT &plan, std::ostream &out) {
  for (const auto &program : plan.programs) {
    out << "  program " << program->name << "\n";
    Printer printer{set, plan, *program, toLayout(*plan.mesh), out};
    printer.print(program->body, 0);
  }
}

} // namespace cleave::tools
