//===- TestPlan.cpp - A plan set built by hand ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPlan.h"
#include "PlanBuilder.h"
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

std::shared_ptr<const PlanFile> fileOf(const PlanSetT &set) {
  Result<PlanFile> file =
      PlanFile::parse(encodePlanFile(set, testKernels()), "toy");
  if (!file) {
    std::fprintf(stderr, "%s\n", file.message().c_str());
    std::abort();
  }
  return std::make_shared<const PlanFile>(std::move(*file));
}

std::shared_ptr<const PlanFile> makeFile(const std::vector<MeshSize> &meshes) {
  return fileOf(makeSet(meshes));
}

} // namespace cleave::test
