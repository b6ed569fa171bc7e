//===- TestPlan.cpp - A plan set built by hand ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPlan.h"
#include "layout/Layout.h"
#include "runtime/format/Convert.h"
#include "runtime/support/File.h"

#include <cstdio>
#include <cstdlib>

namespace cleave::test {

using namespace cleave::format;

namespace {

constexpr uint32_t dataAtom = 0, tensorAtom = 1;
enum Extent : uint32_t { // of the plan
  BatchOnData,
  Seq,
  In,
  OutOnTensor,
  Out,
  Layer,
  InOnData
};
enum Symbol : uint32_t { Embed, Keep, Mix, Total, Accumulate };

View whole(uint32_t value) { return View(value, -1); }
View slice(uint32_t value) { return View(value, 0); }

struct Builder {
  layout::Mesh mesh;
  PlanT plan;
  ProgramT program;

  void extent(const char *dim, int64_t size, std::vector<uint32_t> atoms) {
    auto extent = std::make_unique<ExtentT>();
    extent->dim = dim;
    extent->size = size;
    layout::Split split;
    split.atoms = std::move(atoms);
    extent->split = std::make_unique<SplitT>(fromLayout(split));
    plan.extents.push_back(std::move(extent));
  }

  uint32_t value(Storage storage, uint32_t index, ElementType type,
                 std::vector<uint32_t> extents) {
    auto value = std::make_unique<ValueT>();
    value->storage = storage;
    value->index = index;
    value->type = type;
    value->extents = extents;
    if (storage == Storage::Arena) {
      int64_t bytes = 4;
      for (uint32_t extent : extents) {
        bytes *=
            layout::largestPiece(plan.extents[extent]->size,
                                 toLayout(*plan.extents[extent]->split), mesh);
      }
      value->bytes = bytes;
      value->offset = program.arena_bytes;
      program.arena_bytes += (bytes + 63) / 64 * 64;
    }
    program.values.push_back(std::move(value));
    return program.values.size() - 1;
  }
  uint32_t arena(std::vector<uint32_t> extents) {
    return value(Storage::Arena, 0, ElementType::F32, std::move(extents));
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

  void kernel(Body &body, Symbol symbol, std::vector<View> views,
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

Integer sizeOf(Extent extent) {
  return Integer(IntegerKind::ExtentSize, extent);
}
Integer beginOf(Extent extent) {
  return Integer(IntegerKind::ExtentBegin, extent);
}

void buildProgram(Builder &b) {
  b.program.name = "train";
  b.input("ids", InputSource::Tokens, {batch, seq});
  b.input("step", InputSource::Step, {});
  b.input("seed", InputSource::Seed, {});
  uint32_t ids =
      b.value(Storage::Input, 0, ElementType::I32, {BatchOnData, Seq});
  uint32_t step = b.value(Storage::Input, 1, ElementType::I32, {});
  uint32_t seed = b.value(Storage::Input, 2, ElementType::I32, {});
  uint32_t w =
      b.value(Storage::Leaf, 0, ElementType::F32, {Layer, In, OutOnTensor});
  uint32_t first = b.value(Storage::Leaf, 1, ElementType::F32, {InOnData, Out});
  uint32_t x = b.arena({BatchOnData, In});
  uint32_t h = b.arena({BatchOnData, OutOnTensor});
  uint32_t kept = b.arena({Layer, BatchOnData, OutOnTensor});
  uint32_t gathered = b.arena({BatchOnData, Out});
  uint32_t loss = b.arena({}), lossSum = b.arena({});
  uint32_t gradient = b.arena({In, Out}), reduced = b.arena({InOnData, Out});
  uint32_t shifted = b.arena({BatchOnData, In});

  uint32_t kernels = b.site("kernel", "layer");
  uint32_t dot = b.site("dot", "layer/linear");
  uint32_t gather = b.site("all_gather tensor", "layer/linear");
  uint32_t sum = b.site("all_reduce data", "loss");
  uint32_t scatter = b.site("reduce_scatter data", "layer/w");

  Builder::Body &body = b.program.body;
  b.kernel(body, Embed, {whole(ids), whole(x)},
           {sizeOf(BatchOnData), sizeOf(Seq), sizeOf(In)}, kernels);
  LoopT loop;
  loop.first = 0;
  loop.count = layers;
  b.contraction(loop.body, whole(x), slice(w), whole(h),
                {ContractedDim(BatchOnData, 0, -1, 0),
                 ContractedDim(In, 1, 0, -1),
                 ContractedDim(OutOnTensor, -1, 1, 1)},
                dot);
  b.collective(loop.body, 0, CollectiveKind::AllGather, tensorAtom, false,
               whole(h), whole(gathered), gather);
  b.kernel(loop.body, Keep, {whole(h), slice(kept)},
           {sizeOf(BatchOnData), sizeOf(OutOnTensor), beginOf(OutOnTensor),
            Integer(IntegerKind::Iteration, 0)},
           kernels);
  b.wait(loop.body, 0);
  b.kernel(loop.body, Mix, {whole(gathered), whole(x)},
           {sizeOf(BatchOnData), sizeOf(In), sizeOf(Out)}, kernels);
  Builder::add(body, std::move(loop));
  b.kernel(body, Total, {whole(x), whole(step), whole(seed), whole(loss)},
           {sizeOf(BatchOnData), sizeOf(In), beginOf(BatchOnData)}, kernels);
  b.collective(body, 1, CollectiveKind::AllReduce, dataAtom, true, whole(loss),
               whole(lossSum), sum);
  b.contraction(body, whole(x), whole(gathered), whole(gradient),
                {ContractedDim(In, 1, -1, 0), ContractedDim(Out, -1, 1, 1),
                 ContractedDim(BatchOnData, 0, 0, -1)},
                dot);
  b.collective(body, 2, CollectiveKind::ReduceScatter, dataAtom, true,
               whole(gradient), whole(reduced), scatter);
  FillT fill;
  fill.target = std::make_unique<View>(whole(shifted));
  Builder::add(body, std::move(fill));
  MoveT move;
  move.source = std::make_unique<View>(whole(x));
  move.target = std::make_unique<View>(whole(shifted));
  move.shift = {1, 0};
  move.site = kernels;
  Builder::add(body, std::move(move));
  b.wait(body, 1);
  b.wait(body, 2);
  b.kernel(body, Accumulate, {whole(reduced), whole(first)},
           {sizeOf(InOnData), sizeOf(Out)}, kernels);
  b.output(OutputKind::Loss, "loss", lossSum);
  b.output(OutputKind::Output, "kept", kept);
  b.output(OutputKind::Output, "x", x);
  b.output(OutputKind::Output, "shifted", shifted);
  b.output(OutputKind::Gradient, "layer/w", reduced);
}

std::unique_ptr<PlanT> buildPlan(const MeshSize &size) {
  Builder b;
  b.mesh.atoms = {{"data", size.data}, {"tensor", size.tensor}};
  b.mesh.axes = {{"data", {dataAtom}}, {"tensor", {tensorAtom}}};
  b.plan.name = size.name;
  b.plan.mesh = std::make_unique<MeshT>(fromLayout(b.mesh));
  b.extent("batch", batch, {dataAtom});
  b.extent("seq", seq, {});
  b.extent("in", in, {});
  b.extent("out", out, {tensorAtom});
  b.extent("out", out, {});
  b.extent("layer", layers, {});
  b.extent("in", in, {dataAtom});
  layout::Layout weights, moments;
  weights.dims.resize(3);
  weights.dims[2].atoms = {tensorAtom};
  moments.dims.resize(2);
  moments.dims[0].atoms = {dataAtom};
  b.plan.layouts.push_back(std::make_unique<LayoutT>(fromLayout(weights)));
  b.plan.layouts.push_back(std::make_unique<LayoutT>(fromLayout(moments)));
  buildProgram(b);
  b.plan.programs.push_back(std::make_unique<ProgramT>(std::move(b.program)));
  return std::make_unique<PlanT>(std::move(b.plan));
}

std::unique_ptr<LeafT> leaf(const char *path, const char *state,
                            std::vector<std::string> dims,
                            std::vector<int64_t> sizes, InitKind kind, double a,
                            double b) {
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

} // namespace

PlanSetT makeSet(const std::vector<MeshSize> &meshes) {
  PlanSetT set;
  set.model = "toy";
  set.producer = "test";
  set.symbols = {"embed", "keep", "mix", "total", "accumulate"};
  set.leaves.push_back(leaf("layer/w", "", {"layer", "in", "out"},
                            {layers, in, out}, InitKind::Normal, 0, 0.2));
  set.leaves.push_back(leaf("layer/w", "first", {"in", "out"}, {in, out},
                            InitKind::Constant, 0, 0));
  for (const MeshSize &mesh : meshes) {
    set.plans.push_back(buildPlan(mesh));
  }
  return set;
}

std::vector<char> testKernels() {
  Result<std::vector<char>> bytes = readFile(CLEAVE_TEST_KERNELS);
  if (!bytes) {
    std::fprintf(stderr, "%s\n", bytes.message().c_str());
    std::abort();
  }
  return *bytes;
}

std::shared_ptr<const PlanFile> makeFile(const std::vector<MeshSize> &meshes) {
  Result<PlanFile> file =
      PlanFile::parse(encodePlanFile(makeSet(meshes), testKernels()), "toy");
  if (!file) {
    std::fprintf(stderr, "%s\n", file.message().c_str());
    std::abort();
  }
  return std::make_shared<const PlanFile>(std::move(*file));
}

} // namespace cleave::test
