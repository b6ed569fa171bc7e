//===- PlanBuilder.h - The tables of hand-built plans -----------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_PLANBUILDER_H
#define CLEAVE_TEST_UNIT_RUNTIME_PLANBUILDER_H

#include "layout/Layout.h"
#include "runtime/format/Convert.h"

namespace cleave::test {

using namespace cleave::format;

inline View whole(uint32_t value) { return View(value, -1); }
inline View slice(uint32_t value) { return View(value, 0); }

/// One plan with one program at a time.
struct Builder {
  layout::Mesh mesh;
  PlanT plan;
  ProgramT program;
  PipelineT pipeline; ///< of `program`, until it is added

  uint32_t extent(const char *dim, int64_t size, std::vector<uint32_t> atoms,
                  std::vector<int64_t> cuts = {}) {
    auto extent = std::make_unique<ExtentT>();
    extent->dim = dim;
    extent->size = size;
    layout::Split split;
    split.atoms = std::move(atoms);
    split.cuts = std::move(cuts);
    extent->split = std::make_unique<SplitT>(fromLayout(split));
    plan.extents.push_back(std::move(extent));
    return plan.extents.size() - 1;
  }

  uint32_t value(Storage storage, uint32_t index, ElementType type,
                 std::vector<uint32_t> extents) {
    auto value = std::make_unique<ValueT>();
    value->storage = storage;
    value->index = index;
    value->type = type;
    value->extents = extents;
    if (storage == Storage::Arena || storage == Storage::Slot) {
      int64_t bytes = 4;
      for (uint32_t extent : extents) {
        bytes *=
            layout::largestPiece(plan.extents[extent]->size,
                                 toLayout(*plan.extents[extent]->split), mesh);
      }
      uint64_t &room = storage == Storage::Arena
                           ? program.arena_bytes
                           : pipeline.groups[index]->bytes;
      value->bytes = bytes;
      value->offset = room;
      room += (bytes + 63) / 64 * 64;
    }
    program.values.push_back(std::move(value));
    return program.values.size() - 1;
  }
  uint32_t arena(std::vector<uint32_t> extents) {
    return value(Storage::Arena, 0, ElementType::F32, std::move(extents));
  }

  uint32_t slot(uint32_t group, std::vector<uint32_t> extents) {
    return value(Storage::Slot, group, ElementType::F32, std::move(extents));
  }

  uint32_t site(const char *name, const char *path) {
    auto site = std::make_unique<SiteT>();
    site->name = name;
    site->path = path;
    site->file = "test.clv";
    site->line = plan.sites.size() + 1;
    plan.sites.push_back(std::move(site));
    return plan.sites.size() - 1;
  }

  using Body = std::vector<std::unique_ptr<InstructionT>>;
  template <typename T> static void add(Body &body, T action) {
    auto instruction = std::make_unique<InstructionT>();
    instruction->action.Set(std::move(action));
    body.push_back(std::move(instruction));
  }

  static void fill(Body &body, View target) {
    FillT fill;
    fill.target = std::make_unique<View>(target);
    add(body, std::move(fill));
  }
  static void move(Body &body, View source, View target, size_t rank) {
    MoveT move;
    move.source = std::make_unique<View>(source);
    move.target = std::make_unique<View>(target);
    move.shift.resize(rank);
    add(body, std::move(move));
  }

  void kernel(Body &body, uint32_t symbol, std::vector<View> views,
              std::vector<Integer> integers, uint32_t site) {
    KernelT kernel;
    kernel.symbol = symbol;
    kernel.views = std::move(views);
    kernel.integers = std::move(integers);
    kernel.site = site;
    add(body, std::move(kernel));
  }

  void contraction(Body &body, View lhs, View rhs, View out,
                   std::vector<ContractedDim> dims, uint32_t site) {
    ContractionT contraction;
    contraction.lhs = std::make_unique<View>(lhs);
    contraction.rhs = std::make_unique<View>(rhs);
    contraction.out = std::make_unique<View>(out);
    contraction.dims = std::move(dims);
    contraction.site = site;
    add(body, std::move(contraction));
  }

  void collective(Body &body, uint32_t id, CollectiveKind kind, uint32_t group,
                  bool partial, View source, View target, uint32_t site) {
    CollectiveT collective;
    collective.id = id;
    collective.kind = kind;
    collective.group = {group};
    if (partial) {
      collective.partial = {group};
    }
    collective.source = std::make_unique<View>(source);
    collective.target = std::make_unique<View>(target);
    collective.site = site;
    add(body, std::move(collective));
  }
  void wait(Body &body, uint32_t id) {
    WaitT wait;
    wait.id = id;
    add(body, std::move(wait));
  }

  void input(const char *name, InputSource source, std::vector<int64_t> sizes) {
    auto input = std::make_unique<InputT>();
    input->name = name;
    input->source = source;
    input->type = ElementType::I32;
    input->sizes = std::move(sizes);
    if (source == InputSource::Tokens) {
      input->dims = {"batch", "seq"};
      input->bound = 65;
    }
    program.inputs.push_back(std::move(input));
  }

  void output(OutputKind kind, const char *name, uint32_t value) {
    auto output = std::make_unique<OutputT>();
    output->kind = kind;
    output->name = name;
    output->value = value;
    for (uint32_t extent : program.values[value]->extents) {
      output->dims.push_back(plan.extents[extent]->dim);
      output->sizes.push_back(plan.extents[extent]->size);
    }
    program.outputs.push_back(std::move(output));
  }
};

inline std::unique_ptr<LeafT> leaf(const char *path, const char *state,
                                   std::vector<std::string> dims,
                                   std::vector<int64_t> sizes, InitKind kind,
                                   double a, double b) {
  auto leaf = std::make_unique<LeafT>();
  leaf->path = path;
  leaf->state = state;
  leaf->type = ElementType::F32;
  leaf->dims = std::move(dims);
  leaf->sizes = std::move(sizes);
  leaf->init = std::make_unique<InitT>();
  leaf->init->kind = kind;
  leaf->init->a = a;
  leaf->init->b = b;
  return leaf;
}

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_PLANBUILDER_H
