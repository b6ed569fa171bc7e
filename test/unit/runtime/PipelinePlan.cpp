//===- PipelinePlan.cpp - Pipelines built by hand -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipelinePlan.h"
#include "PlanBuilder.h"

#include <set>

namespace cleave::test {

namespace {

constexpr uint32_t dataAtom = 0, pipeAtom = 1, tensorAtom = 2, microAtom = 3,
                   chunkAtom = 4;
enum Extent : uint32_t { // of the plan
  Rows,                  // of a microbatch
  AllRows,
  Words,
  Width,
  WidthOnTensor,
  Layer
};
enum Symbol : uint32_t { Embed, Keep, Accumulate, HalfSquare, Number };
enum Leaf : uint32_t { Weights, First, Bias, Table };
enum Group : uint32_t { Everywhere, AtTheEnd, Inbox };

Integer sizeOf(Extent extent) {
  return Integer(IntegerKind::ExtentSize, extent);
}
Integer literal(int64_t value) { return Integer(IntegerKind::Literal, value); }

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

std::vector<std::unique_ptr<ResidenceT>> stages(const Ranges &ranges) {
  std::vector<std::unique_ptr<ResidenceT>> parts;
  for (auto [begin, end] : ranges) {
    auto part = std::make_unique<ResidenceT>();
    part->atom = pipeAtom;
    part->begin = begin;
    part->end = end;
    parts.push_back(std::move(part));
  }
  return parts;
}

layout::Mesh meshOf(const PipelineSize &size) {
  layout::Mesh mesh;
  mesh.atoms = {{"data", size.data},
                {"pipe", size.pipe},
                {"tensor", size.tensor},
                {"micro", size.micro},
                {"chunk", size.chunks}};
  mesh.axes = {
      {"data", {dataAtom}}, {"pipe", {pipeAtom}}, {"tensor", {tensorAtom}}};
  mesh.times = 2;
  return mesh;
}

/// Writes one program.
struct Writer {
  Builder &b;
  const PipelineSize &size;
  bool train;
  Extent part = train ? Rows : AllRows;
  PipelineShape shape;
  int64_t last = 0; ///< position
  uint32_t dot = 0, ids = 0, w = 0, h = 0, gathered = 0, start = 0, x = 0,
           saved = 0, dx = 0, dsaved = 0, dlast = 0, dfirst = 0, dend = 0,
           loss = 0, gradient = 0;
  uint32_t collectives = 0;

  Writer(Builder &b, const PipelineSize &size, bool train)
      : b(b), size(size), train(train), shape(makeShape(b, size, train)) {}

  static PipelineShape makeShape(Builder &b, const PipelineSize &size,
                                 bool train) {
    PipelineT &pipeline = b.pipeline = PipelineT();
    pipeline.pipe = {pipeAtom};
    if (train) {
      pipeline.micro = {microAtom};
    }
    pipeline.chunk = {chunkAtom};
    pipeline.placement = size.placement;
    return PipelineShape(pipeline, b.mesh);
  }

  void group(int64_t begin) {
    auto group = std::make_unique<SlotGroupT>();
    group->begin = begin;
    group->end = shape.positions();
    b.pipeline.groups.push_back(std::move(group));
  }
  void section(SectionKind kind, int64_t begin, int64_t end,
               Builder::Body body) {
    auto section = std::make_unique<SectionT>();
    section->kind = kind;
    section->begin = begin;
    section->end = end;
    section->body = std::move(body);
    b.pipeline.sections.push_back(std::move(section));
  }
  void loop(Builder::Body &body, bool reverse, Builder::Body inner) {
    LoopT loop;
    loop.extent = Layer;
    loop.reverse = reverse;
    loop.body = std::move(inner);
    Builder::add(body, std::move(loop));
  }
  void reduce(Builder::Body &body, CollectiveKind kind, uint32_t atom,
              bool partial, View source, View target) {
    b.collective(body, collectives, kind, atom, partial, source, target, dot);
    b.wait(body, collectives++);
  }
  void add(Builder::Body &body, View source, View target, Integer first,
           Integer second) {
    b.kernel(body, Accumulate, {source, target}, {first, second}, dot);
  }
  void add(Builder::Body &body, uint32_t source, uint32_t target) {
    add(body, whole(source), whole(target), literal(1), literal(1));
  }
  void message(std::vector<std::unique_ptr<MessageT>> &list, uint32_t source,
               uint32_t target) {
    if (shape.positions() == 1) {
      return; // to nobody
    }
    auto message = std::make_unique<MessageT>();
    message->source = std::make_unique<View>(whole(source));
    message->target = std::make_unique<View>(whole(target));
    message->end = static_cast<uint32_t>(shape.positions() - 1);
    list.push_back(std::move(message));
  }

  void values();
  void forward();
  void backward();
  void weightGradient();
  void updates();
  void ends();
  void write();
};

void Writer::values() {
  group(0);
  group(last);
  group(0);
  ids = b.value(Storage::Input, 0, ElementType::I32, {part, Words});
  w = b.value(Storage::Leaf, Weights, ElementType::F32,
              {Layer, Width, WidthOnTensor});
  h = b.arena({part, WidthOnTensor});
  gathered = b.arena({part, Width});
  start = b.slot(Inbox, {part, Width});
  x = b.slot(Everywhere, {part, Width});
  saved = b.slot(Everywhere, {Layer, part, Width});
  dx = b.slot(Everywhere, {part, Width});
  dsaved = b.slot(Everywhere, {Layer, part, WidthOnTensor});
  dlast = b.slot(Inbox, {part, Width});
  dfirst = b.slot(Everywhere, {part, Width});
  dend = b.slot(AtTheEnd, {part, Width});
  loss = b.arena({});
  gradient = b.arena({Layer, Width, WidthOnTensor});
  message(b.pipeline.activations, x, start);
}

void Writer::forward() {
  Builder::Body first, layers, inner, end;
  b.kernel(first, Embed, {whole(ids), whole(start)},
           {sizeOf(part), sizeOf(Words), sizeOf(Width)}, dot);
  section(SectionKind::Forward, 0, 1, std::move(first));

  b.move(layers, whole(start), whole(x), 2);
  b.move(inner, whole(x), slice(saved), 2);
  b.contraction(inner, whole(x), slice(w), whole(h),
                {ContractedDim(part, 0, -1, 0), ContractedDim(Width, 1, 0, -1),
                 ContractedDim(WidthOnTensor, -1, 1, 1)},
                dot);
  reduce(inner, CollectiveKind::AllGather, tensorAtom, false, whole(h),
         whole(gathered));
  b.move(inner, whole(gathered), whole(x), 2);
  loop(layers, false, std::move(inner));
  section(SectionKind::Forward, 0, shape.positions(), std::move(layers));
  if (!train) {
    uint32_t y = b.arena({part, Width});
    b.move(end, whole(x), whole(y), 2);
    section(SectionKind::Forward, last, last + 1, std::move(end));
    b.output(OutputKind::Output, "y", y);
    int64_t stage = shape.stageAt(last);
    b.program.outputs.back()->residence = stages({{stage, stage + 1}});
    return;
  }
  uint32_t one = b.arena({});
  b.kernel(end, HalfSquare, {whole(x), whole(dend), whole(one)},
           {sizeOf(part), sizeOf(Width)}, dot);
  add(end, one, loss);
  section(SectionKind::Forward, last, last + 1, std::move(end));
}

void Writer::backward() {
  Builder::Body end, layers, inner;
  b.move(end, whole(dend), whole(dlast), 2);
  section(SectionKind::Backward, last, last + 1, std::move(end));

  uint32_t pending = b.arena({part, Width});
  b.move(layers, whole(dlast), whole(dx), 2);
  b.move(inner, whole(dx), slice(dsaved), 2);
  b.contraction(inner, slice(dsaved), slice(w), whole(pending),
                {ContractedDim(part, 0, -1, 0),
                 ContractedDim(WidthOnTensor, 1, 1, -1),
                 ContractedDim(Width, -1, 0, 1)},
                dot);
  reduce(inner, CollectiveKind::AllReduce, tensorAtom, true, whole(pending),
         whole(dx));
  loop(layers, true, std::move(inner));
  b.move(layers, whole(dx), whole(dfirst), 2);
  section(SectionKind::Backward, 0, shape.positions(), std::move(layers));
  message(b.pipeline.gradients, dfirst, dlast);
}

void Writer::weightGradient() {
  Builder::Body layers, inner;
  uint32_t one = b.arena({Width, WidthOnTensor});
  b.contraction(inner, slice(saved), slice(dsaved), whole(one),
                {ContractedDim(part, 0, 0, -1), ContractedDim(Width, 1, -1, 0),
                 ContractedDim(WidthOnTensor, -1, 1, 1)},
                dot);
  add(inner, whole(one), slice(gradient), sizeOf(Width), sizeOf(WidthOnTensor));
  loop(layers, false, std::move(inner));
  section(SectionKind::WeightGradient, 0, shape.positions(), std::move(layers));
}

/// What is done once a step, on every stage.
void Writer::updates() {
  Builder::Body &body = b.program.body, inner;
  uint32_t sum = b.arena({Layer, Width, WidthOnTensor});
  uint32_t kept = b.arena({Layer, Width, WidthOnTensor});
  uint32_t first = b.value(Storage::Leaf, First, ElementType::F32,
                           {Layer, Width, WidthOnTensor});
  b.collective(body, collectives, CollectiveKind::AllReduce, dataAtom, true,
               whole(gradient), whole(sum), dot);
  if (!size.stacked) {
    CollectiveT &all = *body.back()->action.AsCollective();
    all.group = all.partial = {dataAtom, pipeAtom};
  }
  b.wait(body, collectives++);
  b.kernel(inner, Keep, {slice(sum), slice(kept)},
           {sizeOf(Width), sizeOf(WidthOnTensor),
            Integer(IntegerKind::ExtentBegin, WidthOnTensor),
            Integer(IntegerKind::Iteration, 0)},
           dot);
  add(inner, slice(sum), slice(first), sizeOf(Width), sizeOf(WidthOnTensor));
  loop(body, false, std::move(inner));
  b.output(OutputKind::Gradient, "layer/w", sum);
  b.output(OutputKind::Output, "kept", kept);
}

/// What only the first and last stages do.
void Writer::ends() {
  Builder::Body &body = b.program.body;
  int64_t stage = shape.stageAt(last);
  uint32_t sum = b.arena({}), shared = b.arena({});
  uint32_t bias = b.value(Storage::Leaf, Bias, ElementType::F32, {});
  OnlyT only;
  only.residence = stages({{stage, stage + 1}});
  reduce(only.body, CollectiveKind::AllReduce, dataAtom, true, whole(loss),
         whole(sum));
  add(only.body, sum, bias);
  Builder::add(body, std::move(only));
  b.collective(body, collectives, CollectiveKind::Broadcast, pipeAtom, false,
               whole(sum), whole(shared), dot);
  body.back()->action.AsCollective()->holders = stages({{stage, stage + 1}});
  b.wait(body, collectives++);

  uint32_t table = b.value(Storage::Leaf, Table, ElementType::F32, {Width});
  uint32_t mine = b.arena({Width}), both = b.arena({Width});
  OnlyT two;
  two.residence = stages({{0, 1}, {size.pipe - 1, size.pipe}});
  b.kernel(two.body, Number, {whole(mine)},
           {Integer(IntegerKind::ExtentBegin, Layer), sizeOf(Width)}, dot);
  reduce(two.body, CollectiveKind::AllReduce, pipeAtom, true, whole(mine),
         whole(both));
  add(two.body, whole(both), whole(table), literal(1), sizeOf(Width));
  Builder::add(body, std::move(two));
  b.output(OutputKind::Loss, "loss", shared);
  b.output(OutputKind::Output, "last", sum);
  b.program.outputs.back()->residence = stages({{stage, stage + 1}});
}

void Writer::write() {
  b.program = ProgramT();
  b.program.name = train ? "train" : "forward";
  b.input("ids", InputSource::Tokens, {rows, words});
  dot = b.site("dot", "layer");
  last = shape.positions() - 1;
  values();
  forward();
  if (train) {
    backward();
    weightGradient();
    b.fill(b.program.body, whole(loss));
    b.fill(b.program.body, whole(gradient));
  }
  b.pipeline.streams = makeStreams(size, train ? size.micro : 1, !train);
  Builder::add(b.program.body, std::move(b.pipeline));
  if (train) {
    updates();
    ends();
  }
  b.plan.programs.push_back(std::make_unique<ProgramT>(std::move(b.program)));
}

/// One layer each, the rest on the last stage.
std::vector<int64_t> cutsOf(const PipelineSize &size) {
  std::vector<int64_t> cuts;
  for (int64_t stage = 0; stage < size.pipe; ++stage) {
    cuts.push_back(stage);
  }
  cuts.push_back(depth);
  return cuts;
}

std::unique_ptr<PlanT> buildPlan(const PipelineSize &size) {
  Builder b;
  b.mesh = meshOf(size);
  b.plan.name = size.name;
  b.plan.mesh = std::make_unique<MeshT>(fromLayout(b.mesh));
  b.extent("row", rows, {dataAtom, microAtom});
  b.extent("row", rows, {dataAtom});
  b.extent("word", words, {});
  b.extent("width", width, {});
  b.extent("width", width, {tensorAtom});
  layout::Layout weights, bias, table;
  weights.dims.resize(3);
  weights.dims[2].atoms = {tensorAtom};
  if (size.stacked) {
    b.extent("layer", depth, {pipeAtom}, cutsOf(size));
    weights.dims[0].atoms = {pipeAtom};
    weights.dims[0].cuts = cutsOf(size);
  } else {
    b.extent("layer", 1, {});
  }
  PipelineT shapeOnly;
  shapeOnly.pipe = {pipeAtom};
  shapeOnly.chunk = {chunkAtom};
  shapeOnly.placement = size.placement;
  PipelineShape shape(shapeOnly, b.mesh);
  int64_t stage = shape.stageAt(shape.positions() - 1);
  bias.residence = {{pipeAtom, stage, stage + 1}};
  table.dims.resize(1);
  table.residence = {{pipeAtom, 0, 1}, {pipeAtom, size.pipe - 1, size.pipe}};
  for (const layout::Layout *one : {&weights, &weights, &bias, &table}) {
    b.plan.layouts.push_back(std::make_unique<LayoutT>(fromLayout(*one)));
  }
  Writer(b, size, true).write();
  Writer(b, size, false).write();
  return std::make_unique<PlanT>(std::move(b.plan));
}

struct Work {
  StepKind kind;
  int64_t micro, chunk;
};

/// What a stage computes, in order.
std::vector<Work> workOf(const PipelineSize &size, int64_t stage,
                         int64_t micros, bool forwardOnly) {
  std::vector<Work> forwards, backwards, weights, all;
  StepKind back =
      size.splitBackward ? StepKind::InputGradient : StepKind::Backward;
  for (int64_t i = 0; i < size.chunks; ++i) {
    for (int64_t micro = 0; micro < micros; ++micro) {
      forwards.push_back({StepKind::Forward, micro, i});
      backwards.push_back({back, micro, size.chunks - 1 - i});
      weights.push_back({StepKind::WeightGradient, micro, i});
    }
  }
  if (forwardOnly) {
    return forwards;
  }
  size_t warm = size.order == Order::ForwardsFirst || size.chunks > 1
                    ? forwards.size()
                    : std::min<size_t>(size.pipe - stage, forwards.size());
  all.assign(forwards.begin(), forwards.begin() + warm);
  for (size_t i = 0; i < backwards.size(); ++i) {
    all.push_back(backwards[i]);
    if (warm + i < forwards.size()) {
      all.push_back(forwards[warm + i]);
    }
  }
  if (size.splitBackward) {
    all.insert(all.end(), weights.begin(), weights.end());
  }
  return all;
}

} // namespace

std::vector<std::unique_ptr<StreamT>>
makeStreams(const PipelineSize &size, int64_t micros, bool forwardOnly) {
  PipelineT pipeline;
  layout::Mesh mesh = meshOf(size);
  pipeline.pipe = {pipeAtom};
  pipeline.chunk = {chunkAtom};
  pipeline.placement = size.placement;
  PipelineShape shape(pipeline, mesh);
  std::vector<std::unique_ptr<StreamT>> streams;
  std::vector<std::vector<Work>> work;
  for (int64_t stage = 0; stage < size.pipe; ++stage) {
    streams.push_back(std::make_unique<StreamT>());
    work.push_back(workOf(size, stage, micros, forwardOnly));
  }
  // Done: the direction, the position and the microbatch.
  std::set<std::tuple<bool, int64_t, int64_t>> done;
  std::vector<size_t> next(size.pipe, 0);
  auto push = [&](int64_t position, StepKind kind, int64_t micro) {
    streams[shape.stageAt(position)]->steps.push_back(
        Step(kind, shape.chunkAt(position), micro));
  };
  auto advance = [&](int64_t stage) {
    const Work &one = work[stage][next[stage]];
    int64_t at = shape.position(stage, one.chunk);
    bool forward = one.kind == StepKind::Forward;
    int64_t needed = forward ? at - 1 : at + 1;
    if (one.kind != StepKind::WeightGradient && needed >= 0 &&
        needed < shape.positions() &&
        !done.contains({forward, needed, one.micro})) {
      return false;
    }
    push(at, one.kind, one.micro);
    done.insert({forward, at, one.micro});
    int64_t to = shape.receiver(one.kind, at);
    if (to >= 0 && shape.stageAt(to) != stage) {
      push(at, forward ? StepKind::SendActivation : StepKind::SendGradient,
           one.micro);
      push(to,
           forward ? StepKind::ReceiveActivation : StepKind::ReceiveGradient,
           one.micro);
    }
    ++next[stage];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < size.pipe; ++stage) {
      moved |= next[stage] < work[stage].size() && advance(stage);
    }
  }
  return streams;
}

PlanSetT makePipelineSet(const std::vector<PipelineSize> &sizes) {
  PlanSetT set;
  set.model = "toy";
  set.producer = "test";
  set.symbols = {"embed", "keep", "accumulate", "half_square", "number"};
  int64_t layers = sizes.front().stacked ? depth : 1;
  set.leaves.push_back(leaf("layer/w", "", {"layer", "width", "out"},
                            {layers, width, width}, InitKind::Normal, 0, 0.4));
  set.leaves.push_back(leaf("layer/w", "first", {"layer", "width", "out"},
                            {layers, width, width}, InitKind::Constant, 0, 0));
  set.leaves.push_back(leaf("bias", "", {}, {}, InitKind::Constant, 3, 0));
  set.leaves.push_back(
      leaf("table", "", {"width"}, {width}, InitKind::Constant, 2, 0));
  for (const PipelineSize &size : sizes) {
    set.plans.push_back(buildPlan(size));
  }
  return set;
}

} // namespace cleave::test
