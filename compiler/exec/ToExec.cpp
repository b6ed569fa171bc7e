//===- ToExec.cpp - A plan set as a module --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/exec/Exec.h"

#include "runtime/format/Convert.h"
#include "runtime/format/Verify.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;

namespace {

using Body = std::vector<std::unique_ptr<format::InstructionT>>;

/// Makes operations at one insertion point, at one location.
class Writer {
public:
  explicit Writer(MLIRContext &context)
      : b(&context), loc(UnknownLoc::get(&context)) {}

  template <typename Op, typename... Args> Op create(Args &&...args) {
    return b.create<Op>(loc, std::forward<Args>(args)...);
  }
  /// The same with a result of this type.
  template <typename Op, typename Result, typename... Args>
  Value declare(Args &&...args) {
    return create<Op>(b.getType<Result>(), std::forward<Args>(args)...)
        ->getResult(0);
  }
  /// The same with a first block, where what comes next goes.
  template <typename Op, typename... Args> Op open(Args &&...args) {
    Op op = create<Op>(std::forward<Args>(args)...);
    b.setInsertionPointToStart(&op->getRegion(0).emplaceBlock());
    return op;
  }
  /// After the operation whose block this is.
  void close(Operation *op) { b.setInsertionPointAfter(op); }

  StringAttr text(const std::string &text) { return b.getStringAttr(text); }
  /// Nothing for an empty text.
  StringAttr some(const std::string &text) {
    return text.empty() ? StringAttr() : b.getStringAttr(text);
  }
  ArrayAttr texts(const std::vector<std::string> &list) {
    return b.getStrArrayAttr(SmallVector<StringRef>(list.begin(), list.end()));
  }
  IntegerAttr number(int64_t value) { return b.getI64IntegerAttr(value); }
  template <typename T> DenseI64ArrayAttr numbers(const std::vector<T> &list) {
    return b.getDenseI64ArrayAttr(
        SmallVector<int64_t>(list.begin(), list.end()));
  }
  TypeAttr element(format::ElementType type) {
    return TypeAttr::get(type == format::ElementType::F32 ? Type(b.getF32Type())
                         : type == format::ElementType::I32 ? b.getI32Type()
                         : type == format::ElementType::BF16
                             ? Type(b.getBF16Type())
                             : b.getI1Type());
  }
  /// Triples; nothing where there are none.
  DenseI64ArrayAttr
  residence(const std::vector<std::unique_ptr<format::ResidenceT>> &parts) {
    SmallVector<int64_t> triples;
    for (const auto &part : parts) {
      triples.append({part->atom, part->begin, part->end});
    }
    return triples.empty() ? DenseI64ArrayAttr()
                           : b.getDenseI64ArrayAttr(triples);
  }
  spmd::SplitAttr split(const format::SplitT &split) {
    return spmd::SplitAttr::get(
        b.getContext(),
        SmallVector<int64_t>(split.atoms.begin(), split.atoms.end()),
        split.unit, split.cuts, split.places);
  }

  OpBuilder b;
  Location loc;
};

/// Writes one plan.
class PlanWriter {
public:
  PlanWriter(Writer &writer, const format::PlanSetT &set,
             const format::PlanT &plan, ArrayRef<Value> leaves)
      : w(writer), set(set), plan(plan), leaves(leaves) {}

  llvm::Error write();

private:
  void writeLayout(const format::LayoutT &layout, Value leaf);
  void writeExtent(const format::ExtentT &extent);
  void writeSite(const format::SiteT &site);
  llvm::Error writeProgram(const format::ProgramT &program);
  void writeInput(const format::InputT &input);
  llvm::Error writeValue(const format::ValueT &value);
  void writeOutput(const format::OutputT &output);
  /// `update`: the position before which the update begins, 0 for none.
  void writeBody(const Body &body, uint32_t update = 0);
  void writeKernel(const format::KernelT &kernel);
  void writeContraction(const format::ContractionT &contraction);
  void writeMove(const format::MoveT &move);
  void writeCollective(const format::CollectiveT &collective);
  void writeLoop(const format::LoopT &loop);
  void writePipeline(const format::PipelineT &pipeline);
  void
  writeMessages(exec::Direction direction,
                const std::vector<std::unique_ptr<format::MessageT>> &list);

  void view(const format::View &view, SmallVectorImpl<Value> &operands);
  SmallVector<Value> views(std::initializer_list<const format::View *> list);
  /// The value of a site, null where the plan has none; the operations that
  /// come next are located there.
  Value site(uint32_t index);
  /// Of what has no site.
  void nowhere() { w.loc = UnknownLoc::get(w.b.getContext()); }

  Writer &w;
  const format::PlanSetT &set;
  const format::PlanT &plan;
  ArrayRef<Value> leaves;
  SmallVector<Value> extents, sites; ///< of the plan
  SmallVector<Value> inputs, values; ///< of the program
  SmallVector<Value> slots;          ///< of the program's pipeline
  SmallVector<Value> iterations;     ///< of the loops around, outermost first
  llvm::DenseMap<uint32_t, Value> started;
};

} // namespace

//===----------------------------------------------------------------------===//
// A plan's tables
//===----------------------------------------------------------------------===//

void PlanWriter::writeLayout(const format::LayoutT &layout, Value leaf) {
  SmallVector<Attribute> splits;
  for (const auto &split : layout.dims) {
    splits.push_back(w.split(*split));
  }
  w.create<exec::LayoutOp>(leaf, w.b.getArrayAttr(splits),
                           w.residence(layout.residence));
}

void PlanWriter::writeExtent(const format::ExtentT &extent) {
  spmd::SplitAttr split = w.split(*extent.split);
  if (split == w.split(format::SplitT())) {
    split = {};
  }
  extents.push_back(w.declare<exec::ExtentOp, exec::ExtentType>(
      w.text(extent.dim), w.number(extent.size), split));
}

void PlanWriter::writeSite(const format::SiteT &site) {
  bool placed = !site.file.empty() || site.line != 0;
  sites.push_back(w.declare<exec::SiteOp, exec::SiteType>(
      w.text(site.name), w.some(site.path),
      placed ? w.text(site.file) : StringAttr(), w.number(site.line),
      w.some(site.reason)));
}

Value PlanWriter::site(uint32_t index) {
  nowhere();
  if (sites.empty()) {
    return {};
  }
  const format::SiteT &site = *plan.sites[index];
  if (!site.file.empty()) {
    w.loc = FileLineColLoc::get(w.b.getContext(), site.file, site.line, 0);
  }
  return sites[index];
}

//===----------------------------------------------------------------------===//
// A program's tables
//===----------------------------------------------------------------------===//

void PlanWriter::writeInput(const format::InputT &input) {
  inputs.push_back(w.declare<exec::InputOp, exec::InputType>(
      input.name, static_cast<exec::InputSource>(input.source), input.shift,
      input.bound, w.element(input.type).getValue(), w.texts(input.dims),
      input.sizes));
}

llvm::Error PlanWriter::writeValue(const format::ValueT &value) {
  bool arena = value.storage == format::Storage::Arena;
  bool slot = value.storage == format::Storage::Slot;
  if (arena ? value.index != 0 : !slot && value.offset != 0) {
    return llvm::createStringError(
        "value %zu of plan `%s` has a number that means nothing: %s",
        values.size(), plan.name.c_str(),
        arena ? "an index into the arena" : "an offset outside the arena");
  }
  SmallVector<Value> dims;
  for (uint32_t extent : value.extents) {
    dims.push_back(extents[extent]);
  }
  Value leaf =
      value.storage == format::Storage::Leaf ? leaves[value.index] : Value();
  Value input =
      value.storage == format::Storage::Input ? inputs[value.index] : Value();
  IntegerAttr offset = w.number(static_cast<int64_t>(value.offset));
  values.push_back(w.declare<exec::ValueOp, exec::BufferType>(
      arena ? offset : IntegerAttr(), leaf, input,
      slot ? slots[value.index] : Value(), slot ? offset : IntegerAttr(),
      value.chunks ? w.b.getUnitAttr() : UnitAttr(),
      w.number(static_cast<int64_t>(value.bytes)), w.element(value.type),
      dims));
  return llvm::Error::success();
}

void PlanWriter::writeOutput(const format::OutputT &output) {
  w.create<exec::OutputOp>(static_cast<exec::OutputKind>(output.kind),
                           output.name, values[output.value],
                           w.texts(output.dims), output.sizes,
                           w.residence(output.residence));
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void PlanWriter::view(const format::View &view,
                      SmallVectorImpl<Value> &operands) {
  operands.push_back(values[view.value()]);
  if (view.loop() >= 0) {
    operands.push_back(iterations[view.loop()]);
  }
}

SmallVector<Value>
PlanWriter::views(std::initializer_list<const format::View *> list) {
  SmallVector<Value> operands;
  for (const format::View *one : list) {
    view(*one, operands);
  }
  return operands;
}

void PlanWriter::writeKernel(const format::KernelT &kernel) {
  SmallVector<Value> operands, sources;
  for (const format::View &one : kernel.views) {
    view(one, operands);
  }
  SmallVector<int32_t> kinds;
  SmallVector<int64_t> literals;
  for (const format::Integer &integer : kernel.integers) {
    kinds.push_back(static_cast<int32_t>(integer.kind()));
    switch (integer.kind()) {
    case format::IntegerKind::Literal:
      literals.push_back(integer.value());
      break;
    case format::IntegerKind::ExtentSize:
    case format::IntegerKind::ExtentBegin:
      sources.push_back(extents[integer.value()]);
      break;
    case format::IntegerKind::Iteration:
      sources.push_back(iterations[integer.value()]);
      break;
    }
  }
  Value where = site(kernel.site);
  w.create<exec::KernelOp>(set.symbols[kernel.symbol], operands, sources, kinds,
                           literals, where);
}

void PlanWriter::writeContraction(const format::ContractionT &contraction) {
  SmallVector<Value> dims;
  SmallVector<int32_t> positions;
  for (const format::ContractedDim &dim : contraction.dims) {
    dims.push_back(extents[dim.extent()]);
    positions.append({dim.lhs(), dim.rhs(), dim.out()});
  }
  Value where = site(contraction.site);
  w.create<exec::ContractOp>(
      views({contraction.lhs.get(), contraction.rhs.get(),
             contraction.out.get()}),
      dims, positions, contraction.ordered, contraction.terms, where);
}

void PlanWriter::writeMove(const format::MoveT &move) {
  Value where = site(move.site);
  w.create<exec::MoveOp>(views({move.source.get(), move.target.get()}),
                         move.shift, where);
}

void PlanWriter::writeCollective(const format::CollectiveT &collective) {
  Value where = site(collective.site);
  started[collective.id] = w.declare<exec::StartOp, exec::TokenType>(
      uint64_t(collective.id),
      static_cast<exec::CollectiveKind>(collective.kind),
      views({collective.source.get(), collective.target.get()}),
      w.numbers(collective.group),
      static_cast<clv::Reduction>(collective.reduction),
      w.numbers(collective.partial),
      collective.shift.empty() ? DenseI64ArrayAttr()
                               : w.b.getDenseI64ArrayAttr(collective.shift),
      w.residence(collective.holders), where);
}

void PlanWriter::writeLoop(const format::LoopT &loop) {
  auto op = w.open<exec::LoopOp>(
      uint64_t(loop.first), uint64_t(loop.count), loop.reverse,
      loop.extent >= 0 ? extents[loop.extent] : Value());
  iterations.push_back(op.getBody().addArgument(
      exec::IterationType::get(w.b.getContext()), w.loc));
  writeBody(loop.body);
  iterations.pop_back();
  w.close(op);
}

void PlanWriter::writeMessages(
    exec::Direction direction,
    const std::vector<std::unique_ptr<format::MessageT>> &list) {
  for (const auto &message : list) {
    w.create<exec::MessageOp>(
        direction, uint64_t(message->begin), uint64_t(message->end),
        views({message->source.get(), message->target.get()}));
  }
}

void PlanWriter::writePipeline(const format::PipelineT &pipeline) {
  auto op = w.open<exec::PipelineOp>(
      w.numbers(pipeline.pipe), w.numbers(pipeline.micro),
      w.numbers(pipeline.chunk),
      static_cast<exec::Placement>(pipeline.placement));
  for (const auto &section : pipeline.sections) {
    auto inner = w.open<exec::SectionOp>(
        static_cast<exec::SectionKind>(section->kind), uint64_t(section->begin),
        uint64_t(section->end));
    writeBody(section->body);
    nowhere();
    w.close(inner);
  }
  writeMessages(exec::Direction::Activation, pipeline.activations);
  writeMessages(exec::Direction::Gradient, pipeline.gradients);
  for (const auto &stream : pipeline.streams) {
    SmallVector<int64_t> steps;
    for (const format::Step &step : stream->steps) {
      steps.append({static_cast<int64_t>(step.kind()), step.chunk(),
                    static_cast<int64_t>(step.micro())});
    }
    w.create<exec::StreamOp>(w.b.getDenseI64ArrayAttr(steps));
  }
  w.close(op);
}

/// No deeper than format::deepestLoop, which the set's verifier ensures.
void PlanWriter::writeBody(const Body &body, uint32_t update) {
  for (const auto &[i, instruction] : llvm::enumerate(body)) {
    const format::ActionUnion &action = instruction->action;
    nowhere();
    if (update > 0 && i == update) {
      w.create<exec::UpdateOp>();
    }
    switch (action.type) {
    case format::Action::Kernel:
      writeKernel(*action.AsKernel());
      break;
    case format::Action::Contraction:
      writeContraction(*action.AsContraction());
      break;
    case format::Action::Fill:
      w.create<exec::FillOp>(views({action.AsFill()->target.get()}));
      break;
    case format::Action::Move:
      writeMove(*action.AsMove());
      break;
    case format::Action::Collective:
      writeCollective(*action.AsCollective());
      break;
    case format::Action::Wait:
      w.create<exec::WaitOp>(started.lookup(action.AsWait()->id));
      break;
    case format::Action::Loop:
      writeLoop(*action.AsLoop());
      break;
    case format::Action::Only: {
      auto op = w.open<exec::OnlyOp>(w.residence(action.AsOnly()->residence));
      writeBody(action.AsOnly()->body);
      w.close(op);
      break;
    }
    case format::Action::Pipeline:
      writePipeline(*action.AsPipeline());
      break;
    case format::Action::NONE:
      llvm_unreachable("refused by the set's verifier");
    }
  }
}

llvm::Error PlanWriter::writeProgram(const format::ProgramT &program) {
  inputs.clear();
  values.clear();
  started.clear();
  nowhere();
  auto op = w.open<exec::ProgramOp>(program.name, program.arena_bytes);
  for (const auto &input : program.inputs) {
    writeInput(*input);
  }
  slots.clear();
  if (const format::PipelineT *pipeline = format::pipelineOf(program)) {
    for (const auto &group : pipeline->groups) {
      slots.push_back(w.declare<exec::SlotsOp, exec::SlotsType>(
          uint64_t(group->bytes), uint64_t(group->begin),
          uint64_t(group->end)));
    }
  }
  for (const auto &value : program.values) {
    if (llvm::Error error = writeValue(*value)) {
      return error;
    }
  }
  writeBody(program.body, program.update);
  nowhere();
  for (const auto &handover : program.handovers) {
    const format::OutputT &gradient = *handover->gradient;
    w.create<exec::HandoverOp>(
        gradient.name, values[gradient.value], uint64_t(handover->ready),
        handover->loop < 0 ? IntegerAttr() : w.number(handover->loop),
        w.texts(gradient.dims), gradient.sizes,
        w.residence(gradient.residence));
  }
  for (const auto &output : program.outputs) {
    writeOutput(*output);
  }
  w.close(op);
  return llvm::Error::success();
}

/// As it is in the dialect: see exec.plan.
static ArrayAttr trafficOf(Writer &w, const format::PlanT &plan) {
  SmallVector<Attribute> entries;
  for (const auto &traffic : plan.traffic) {
    entries.push_back(w.b.getArrayAttr(
        {w.b.getStringAttr(format::EnumNameTrafficKind(traffic->kind)),
         w.text(traffic->axis), w.number(traffic->bytes)}));
  }
  return entries.empty() ? ArrayAttr() : w.b.getArrayAttr(entries);
}

llvm::Error PlanWriter::write() {
  auto op = w.open<exec::PlanOp>(
      w.text(plan.name),
      spmd::toAttr(w.b.getContext(), format::toLayout(*plan.mesh)),
      w.some(plan.of), w.number(plan.batch), w.number(plan.micros),
      trafficOf(w, plan));
  for (auto [layout, leaf] : llvm::zip(plan.layouts, leaves)) {
    writeLayout(*layout, leaf);
  }
  for (const auto &extent : plan.extents) {
    writeExtent(*extent);
  }
  for (const auto &site : plan.sites) {
    writeSite(*site);
  }
  for (const auto &program : plan.programs) {
    if (llvm::Error error = writeProgram(*program)) {
      return error;
    }
  }
  w.close(op);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The set
//===----------------------------------------------------------------------===//

static Value writeLeaf(Writer &w, const format::LeafT &leaf) {
  return w.declare<exec::LeafOp, exec::LeafType>(
      w.text(leaf.path), w.some(leaf.state), w.element(leaf.type),
      w.texts(leaf.dims), w.numbers(leaf.sizes),
      exec::InitKindAttr::get(w.b.getContext(),
                              static_cast<exec::InitKind>(leaf.init->kind)),
      w.b.getF64FloatAttr(leaf.init->a), w.b.getF64FloatAttr(leaf.init->b));
}

/// As it is in the dialect: see exec.rule.
static Attribute termOf(Writer &w, const format::TermT &term) {
  if (term.kind == format::TermKind::Number) {
    return w.b.getF64FloatAttr(term.number);
  }
  if (term.kind != format::TermKind::Measure) {
    return w.b.getStringAttr(format::EnumNameTermKind(term.kind));
  }
  const format::MeasureT &measure = *term.measure;
  return w.b.getArrayAttr(
      {w.b.getStringAttr(format::EnumNameMetric(measure.metric)),
       w.b.getStringAttr(format::EnumNameStatistic(measure.statistic)),
       w.number(measure.window),
       w.b.getStringAttr(format::EnumNameTrafficKind(measure.traffic)),
       w.text(measure.axis)});
}

static void writeRule(Writer &w, const format::RuleT &rule) {
  SmallVector<Attribute> terms;
  for (const auto &term : rule.condition) {
    terms.push_back(termOf(w, *term));
  }
  w.create<exec::RuleOp>(
      w.b.getArrayAttr(terms), w.number(rule.during), w.number(rule.apart),
      w.b.getStringAttr(format::EnumNameRuleAction(rule.action)),
      w.some(rule.plan), rule.overlapped ? w.b.getUnitAttr() : UnitAttr(),
      w.number(rule.amount), w.text(rule.text), w.text(rule.file),
      w.number(rule.line));
}

static void writeRun(Writer &w, const format::RunT &run) {
  SmallVector<int64_t> batches;
  for (const format::BatchChange &change : run.batches) {
    batches.append({change.samples(), change.batch()});
  }
  auto op = w.create<exec::RunOp>(
      w.text(run.name), w.number(run.snapshot_every),
      run.reproducible ? w.b.getUnitAttr() : UnitAttr(),
      batches.empty() ? DenseI64ArrayAttr() : w.b.getDenseI64ArrayAttr(batches),
      StringAttr(), FloatAttr(), FloatAttr());
  if (const format::GradientMeanT *mean = run.gradient_mean.get()) {
    op.setMeanAttr(w.text(mean->state));
    op.setKeepAttr(w.b.getF64FloatAttr(mean->keep));
    op.setLimitAttr(w.b.getF64FloatAttr(mean->limit));
  }
  for (const auto &rule : run.rules) {
    writeRule(w, *rule);
  }
}

llvm::Expected<OwningOpRef<ModuleOp>>
cleave::toExec(MLIRContext &context, const format::PlanSetT &set) {
  if (Status status = format::verify(set); !status) {
    return llvm::createStringError(status.message());
  }
  context.loadDialect<exec::ExecDialect>();
  Writer w(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(w.loc);
  w.b.setInsertionPointToStart(module->getBody());
  w.open<exec::SetOp>(
      w.text(set.model), w.some(set.producer),
      set.target_features.empty() ? ArrayAttr() : w.texts(set.target_features),
      FlatSymbolRefAttr::get(&context, set.plans[set.start]->name),
      set.eval_every == 0
          ? IntegerAttr()
          : w.b.getI32IntegerAttr(static_cast<int32_t>(set.eval_every)),
      set.loss_hash == 0 && set.update_hash == 0
          ? ArrayAttr()
          : w.texts({llvm::utohexstr(set.loss_hash, /*LowerCase=*/true),
                     llvm::utohexstr(set.update_hash, /*LowerCase=*/true)}));
  if (!set.symbols.empty()) {
    w.create<exec::KernelsOp>(w.texts(set.symbols));
  }
  if (set.run) {
    writeRun(w, *set.run);
  }
  SmallVector<Value> leaves;
  for (const auto &leaf : set.leaves) {
    leaves.push_back(writeLeaf(w, *leaf));
  }
  for (const auto &plan : set.plans) {
    PlanWriter writer(w, set, *plan, leaves);
    if (llvm::Error error = writer.write()) {
      return std::move(error);
    }
  }
  return std::move(module);
}
