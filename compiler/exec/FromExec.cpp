//===- FromExec.cpp - The plan set of a module ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is declared gets the number of its place among its like; the dialect's
// verifiers have seen to the rest.
//
//===----------------------------------------------------------------------===//

#include "compiler/exec/Exec.h"

#include "runtime/format/Convert.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;

// The dialect's kinds have the numbers of the file's.
static_assert(uint32_t(exec::InitKind::Uniform) ==
              uint32_t(format::InitKind::MAX));
static_assert(uint32_t(exec::InputSource::Seed) ==
              uint32_t(format::InputSource::MAX));
static_assert(uint32_t(exec::CollectiveKind::Slice) ==
              uint32_t(format::CollectiveKind::MAX));
static_assert(uint32_t(exec::OutputKind::Output) ==
              uint32_t(format::OutputKind::MAX));
static_assert(uint32_t(exec::IntegerKind::Iteration) ==
              uint32_t(format::IntegerKind::MAX));
static_assert(uint32_t(exec::SectionKind::WeightGradient) ==
              uint32_t(format::SectionKind::MAX));
static_assert(uint32_t(exec::StepKind::ReceiveGradient) ==
              uint32_t(format::StepKind::MAX));
static_assert(uint32_t(exec::Placement::Folded) ==
              uint32_t(format::Placement::MAX));
static_assert(uint32_t(clv::Reduction::Min) ==
              uint32_t(format::Reduction::MAX));

namespace {

using Body = std::vector<std::unique_ptr<format::InstructionT>>;

/// Numbers of declarations, each among its like. Values of different types
/// share the map: no value is of two.
class Numbers {
public:
  void add(Value value, size_t number) {
    numbers[value] = static_cast<uint32_t>(number);
  }
  uint32_t of(Value value) const {
    auto found = numbers.find(value);
    assert(found != numbers.end() && "not declared");
    return found->second;
  }

private:
  llvm::DenseMap<Value, uint32_t> numbers;
};

/// Reads one plan.
class PlanReader {
public:
  PlanReader(Numbers &numbers, const llvm::StringMap<uint32_t> &symbols)
      : numbers(numbers), symbols(symbols) {}

  std::unique_ptr<format::PlanT> read(exec::PlanOp plan);

private:
  void readProgram(exec::ProgramOp program, format::ProgramT &table);
  std::unique_ptr<format::InputT> readInput(exec::InputOp input);
  std::unique_ptr<format::ValueT> readValue(exec::ValueOp value);
  template <typename Op> std::unique_ptr<format::OutputT> readOutput(Op op);
  void readInstruction(Operation &op, Body &body);
  format::KernelT readKernel(exec::KernelOp kernel);
  format::ContractionT readContraction(exec::ContractOp contract);
  format::MoveT readMove(exec::MoveOp move);
  format::CollectiveT readCollective(exec::StartOp start);
  format::LoopT readLoop(exec::LoopOp loop);
  format::OnlyT readOnly(exec::OnlyOp only);
  format::PipelineT readPipeline(exec::PipelineOp pipeline);

  format::View view(const exec::View &view);
  std::unique_ptr<format::View> boxed(const exec::View &one) {
    return std::make_unique<format::View>(view(one));
  }
  /// A plan without sites has no operand for one.
  uint32_t site(Value site) { return site ? numbers.of(site) : 0; }

  Numbers &numbers;
  const llvm::StringMap<uint32_t> &symbols;
};

} // namespace

//===----------------------------------------------------------------------===//
// What tables share
//===----------------------------------------------------------------------===//

static format::ElementType elementOf(Type type) {
  return type.isF32()         ? format::ElementType::F32
         : type.isBF16()      ? format::ElementType::BF16
         : type.isInteger(32) ? format::ElementType::I32
                              : format::ElementType::Bool;
}

static std::vector<std::string> texts(ArrayAttr list) {
  std::vector<std::string> result;
  for (auto text : list.getAsRange<StringAttr>()) {
    result.push_back(text.str());
  }
  return result;
}

static std::vector<int64_t> numbersOf(ArrayRef<int64_t> list) {
  return list.vec();
}

static std::vector<uint32_t> atomsOf(ArrayRef<int64_t> list) {
  return std::vector<uint32_t>(list.begin(), list.end());
}

static std::string textOr(StringAttr attr) {
  return attr ? attr.str() : std::string();
}

static std::unique_ptr<format::SplitT> splitOf(spmd::SplitAttr attr) {
  auto split = std::make_unique<format::SplitT>();
  if (attr) {
    split->atoms = atomsOf(attr.getAtoms());
    split->unit = attr.getUnit();
    split->cuts = numbersOf(attr.getCuts());
    split->places = numbersOf(attr.getPlaces());
  }
  return split;
}

static std::vector<std::unique_ptr<format::ResidenceT>>
residenceOf(std::optional<ArrayRef<int64_t>> attr) {
  std::vector<std::unique_ptr<format::ResidenceT>> parts;
  ArrayRef<int64_t> triples = attr.value_or(ArrayRef<int64_t>());
  for (; !triples.empty(); triples = triples.drop_front(3)) {
    auto part = std::make_unique<format::ResidenceT>();
    part->atom = static_cast<uint32_t>(triples[0]);
    part->begin = triples[1];
    part->end = triples[2];
    parts.push_back(std::move(part));
  }
  return parts;
}

static std::unique_ptr<format::LeafT> readLeaf(exec::LeafOp op) {
  auto leaf = std::make_unique<format::LeafT>();
  leaf->path = op.getPath().str();
  leaf->state = textOr(op.getStateAttr());
  leaf->type = elementOf(op.getElement());
  leaf->dims = texts(op.getDims());
  leaf->sizes = numbersOf(op.getSizes());
  leaf->init = std::make_unique<format::InitT>();
  leaf->init->kind = static_cast<format::InitKind>(op.getInit());
  leaf->init->a = op.getA().convertToDouble();
  leaf->init->b = op.getB().convertToDouble();
  return leaf;
}

static std::unique_ptr<format::LayoutT> readLayout(exec::LayoutOp op) {
  auto layout = std::make_unique<format::LayoutT>();
  for (auto split : op.getSplits().getAsRange<spmd::SplitAttr>()) {
    layout->dims.push_back(splitOf(split));
  }
  layout->residence = residenceOf(op.getResidence());
  return layout;
}

static std::unique_ptr<format::SiteT> readSite(exec::SiteOp op) {
  auto site = std::make_unique<format::SiteT>();
  site->name = op.getLabel().str();
  site->path = textOr(op.getPathAttr());
  site->file = textOr(op.getFileAttr());
  site->line = static_cast<uint32_t>(op.getLine());
  site->reason = textOr(op.getReasonAttr());
  return site;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

format::View PlanReader::view(const exec::View &view) {
  int32_t loop =
      view.iteration ? static_cast<int32_t>(exec::depthOf(view.iteration)) : -1;
  return format::View(numbers.of(view.buffer), loop);
}

format::KernelT PlanReader::readKernel(exec::KernelOp kernel) {
  format::KernelT table;
  table.symbol = symbols.lookup(kernel.getKernel());
  for (const exec::View &one : exec::viewsIn(kernel.getViews())) {
    table.views.push_back(view(one));
  }
  auto source = kernel.getSources().begin();
  const int64_t *literal = kernel.getLiterals().begin();
  for (int32_t number : kernel.getKinds()) {
    auto kind = static_cast<format::IntegerKind>(number);
    int64_t value = kind == format::IntegerKind::Literal ? *literal++
                    : kind == format::IntegerKind::Iteration
                        ? int64_t(exec::depthOf(*source++))
                        : int64_t(numbers.of(*source++));
    table.integers.push_back(format::Integer(kind, value));
  }
  table.site = site(kernel.getSite());
  return table;
}

format::ContractionT PlanReader::readContraction(exec::ContractOp contract) {
  format::ContractionT table;
  SmallVector<exec::View> views = exec::viewsIn(contract.getViews());
  table.lhs = boxed(views[0]);
  table.rhs = boxed(views[1]);
  table.out = boxed(views[2]);
  ArrayRef<int32_t> positions = contract.getPositions();
  for (Value dim : contract.getDims()) {
    table.dims.push_back(format::ContractedDim(numbers.of(dim), positions[0],
                                               positions[1], positions[2]));
    positions = positions.drop_front(3);
  }
  table.ordered = contract.getOrdered();
  table.terms = contract.getTerms();
  table.site = site(contract.getSite());
  return table;
}

format::MoveT PlanReader::readMove(exec::MoveOp move) {
  format::MoveT table;
  SmallVector<exec::View> views = exec::viewsIn(move.getViews());
  table.source = boxed(views[0]);
  table.target = boxed(views[1]);
  table.shift = numbersOf(move.getShift());
  table.site = site(move.getSite());
  return table;
}

format::CollectiveT PlanReader::readCollective(exec::StartOp start) {
  format::CollectiveT table;
  table.id = static_cast<uint32_t>(start.getId());
  table.kind = static_cast<format::CollectiveKind>(start.getKind());
  table.reduction = static_cast<format::Reduction>(start.getReduction());
  table.group = atomsOf(start.getGroup());
  table.partial = atomsOf(start.getPartial());
  table.holders = residenceOf(start.getHolders());
  if (std::optional<ArrayRef<int64_t>> by = start.getBy()) {
    table.shift = numbersOf(*by);
  }
  SmallVector<exec::View> views = exec::viewsIn(start.getViews());
  table.source = boxed(views[0]);
  table.target = boxed(views[1]);
  table.site = site(start.getSite());
  return table;
}

format::LoopT PlanReader::readLoop(exec::LoopOp loop) {
  format::LoopT table;
  table.first = static_cast<int64_t>(loop.getFirst());
  table.count = static_cast<int64_t>(loop.getCount());
  table.reverse = loop.getReverse();
  table.extent = loop.getExtent() ? int64_t(numbers.of(loop.getExtent())) : -1;
  for (Operation &op : loop.getBody().front()) {
    readInstruction(op, table.body);
  }
  return table;
}

format::OnlyT PlanReader::readOnly(exec::OnlyOp only) {
  format::OnlyT table;
  table.residence = residenceOf(only.getResidence());
  for (Operation &op : only.getBody().front()) {
    readInstruction(op, table.body);
  }
  return table;
}

static std::unique_ptr<format::StreamT> readStream(exec::StreamOp stream) {
  auto table = std::make_unique<format::StreamT>();
  ArrayRef<int64_t> steps = stream.getSteps();
  for (; !steps.empty(); steps = steps.drop_front(3)) {
    table->steps.push_back(format::Step(static_cast<format::StepKind>(steps[0]),
                                        static_cast<uint16_t>(steps[1]),
                                        static_cast<uint32_t>(steps[2])));
  }
  return table;
}

format::PipelineT PlanReader::readPipeline(exec::PipelineOp pipeline) {
  format::PipelineT table;
  table.pipe = atomsOf(pipeline.getPipe());
  table.micro = atomsOf(pipeline.getMicro());
  table.chunk = atomsOf(pipeline.getChunk());
  table.placement = static_cast<format::Placement>(pipeline.getPlacement());
  auto program = pipeline->getParentOfType<exec::ProgramOp>();
  for (auto slots : program.getBody().getOps<exec::SlotsOp>()) {
    auto group = std::make_unique<format::SlotGroupT>();
    group->bytes = slots.getBytes();
    group->begin = static_cast<uint32_t>(slots.getBegin());
    group->end = static_cast<uint32_t>(slots.getEnd());
    table.groups.push_back(std::move(group));
  }
  for (Operation &op : pipeline.getBody().front()) {
    if (auto section = dyn_cast<exec::SectionOp>(op)) {
      auto entry = std::make_unique<format::SectionT>();
      entry->kind = static_cast<format::SectionKind>(section.getKind());
      entry->begin = static_cast<uint32_t>(section.getBegin());
      entry->end = static_cast<uint32_t>(section.getEnd());
      for (Operation &inner : section.getBody().front()) {
        readInstruction(inner, entry->body);
      }
      table.sections.push_back(std::move(entry));
    } else if (auto message = dyn_cast<exec::MessageOp>(op)) {
      auto entry = std::make_unique<format::MessageT>();
      SmallVector<exec::View> views = exec::viewsIn(message.getViews());
      entry->source = boxed(views[0]);
      entry->target = boxed(views[1]);
      entry->begin = static_cast<uint32_t>(message.getBegin());
      entry->end = static_cast<uint32_t>(message.getEnd());
      bool forward = message.getDirection() == exec::Direction::Activation;
      (forward ? table.activations : table.gradients)
          .push_back(std::move(entry));
    } else if (auto stream = dyn_cast<exec::StreamOp>(op)) {
      table.streams.push_back(readStream(stream));
    }
  }
  return table;
}

template <typename Table> static void push(Body &body, Table table) {
  auto instruction = std::make_unique<format::InstructionT>();
  instruction->action.Set(std::move(table));
  body.push_back(std::move(instruction));
}

void PlanReader::readInstruction(Operation &op, Body &body) {
  TypeSwitch<Operation *>(&op)
      .Case([&](exec::KernelOp kernel) { push(body, readKernel(kernel)); })
      .Case([&](exec::ContractOp contract) {
        push(body, readContraction(contract));
      })
      .Case([&](exec::FillOp fill) {
        format::FillT table;
        table.target = boxed(exec::viewsIn(fill.getViews()).front());
        push(body, std::move(table));
      })
      .Case([&](exec::MoveOp move) { push(body, readMove(move)); })
      .Case([&](exec::StartOp start) { push(body, readCollective(start)); })
      .Case([&](exec::WaitOp wait) {
        format::WaitT table;
        table.id = static_cast<uint32_t>(
            wait.getToken().getDefiningOp<exec::StartOp>().getId());
        push(body, std::move(table));
      })
      .Case([&](exec::LoopOp loop) { push(body, readLoop(loop)); })
      .Case([&](exec::OnlyOp only) { push(body, readOnly(only)); })
      .Case([&](exec::PipelineOp pipeline) {
        push(body, readPipeline(pipeline));
      });
}

//===----------------------------------------------------------------------===//
// Programs and plans
//===----------------------------------------------------------------------===//

std::unique_ptr<format::InputT> PlanReader::readInput(exec::InputOp op) {
  auto input = std::make_unique<format::InputT>();
  input->name = op.getLabel().str();
  input->source = static_cast<format::InputSource>(op.getSource());
  input->shift = static_cast<int64_t>(op.getShift());
  input->bound = static_cast<int64_t>(op.getBound());
  input->type = elementOf(op.getElement());
  input->dims = texts(op.getDims());
  input->sizes = numbersOf(op.getSizes());
  return input;
}

std::unique_ptr<format::ValueT> PlanReader::readValue(exec::ValueOp op) {
  auto value = std::make_unique<format::ValueT>();
  if (Value leaf = op.getLeaf()) {
    value->storage = format::Storage::Leaf;
    value->index = numbers.of(leaf);
  } else if (Value input = op.getInput()) {
    value->storage = format::Storage::Input;
    value->index = numbers.of(input);
  } else if (Value slots = op.getSlots()) {
    value->storage = format::Storage::Slot;
    value->index = numbers.of(slots);
    value->offset = *op.getPlace();
  } else {
    value->storage = format::Storage::Arena;
    value->offset = *op.getOffset();
  }
  value->chunks = op.getChunks();
  value->bytes = op.getBytes();
  value->type = elementOf(op.getElement());
  for (Value extent : op.getExtents()) {
    value->extents.push_back(numbers.of(extent));
  }
  return value;
}

/// Of an output or a handover.
template <typename Op>
std::unique_ptr<format::OutputT> PlanReader::readOutput(Op op) {
  auto output = std::make_unique<format::OutputT>();
  output->name = op.getLabel().str();
  output->value = numbers.of(op.getValue());
  output->dims = texts(op.getDims());
  output->sizes = numbersOf(op.getSizes());
  output->residence = residenceOf(op.getResidence());
  return output;
}

void PlanReader::readProgram(exec::ProgramOp program, format::ProgramT &table) {
  table.name = program.getSymName().str();
  table.arena_bytes = program.getArenaBytes();
  size_t slots = 0;
  for (Operation &op : program.getBody().front()) {
    if (auto group = dyn_cast<exec::SlotsOp>(op)) {
      numbers.add(group, slots++);
    } else if (auto input = dyn_cast<exec::InputOp>(op)) {
      numbers.add(input, table.inputs.size());
      table.inputs.push_back(readInput(input));
    } else if (auto value = dyn_cast<exec::ValueOp>(op)) {
      numbers.add(value, table.values.size());
      table.values.push_back(readValue(value));
    } else if (auto output = dyn_cast<exec::OutputOp>(op)) {
      table.outputs.push_back(readOutput(output));
      table.outputs.back()->kind =
          static_cast<format::OutputKind>(output.getKind());
    } else if (isa<exec::UpdateOp>(op)) {
      table.update = static_cast<uint32_t>(table.body.size());
    } else if (auto handover = dyn_cast<exec::HandoverOp>(op)) {
      auto read = std::make_unique<format::HandoverT>();
      read->gradient = readOutput(handover);
      read->gradient->kind = format::OutputKind::Gradient;
      read->ready = static_cast<uint32_t>(handover.getReady());
      read->loop =
          handover.getLoop() ? static_cast<int32_t>(*handover.getLoop()) : -1;
      table.handovers.push_back(std::move(read));
    } else {
      readInstruction(op, table.body);
    }
  }
}

std::unique_ptr<format::PlanT> PlanReader::read(exec::PlanOp plan) {
  auto table = std::make_unique<format::PlanT>();
  table->name = plan.getSymName().str();
  table->of = textOr(plan.getOfAttr());
  table->batch = static_cast<int64_t>(plan.getBatch());
  table->micros = static_cast<int64_t>(plan.getMicros());
  table->mesh = std::make_unique<format::MeshT>(
      format::fromLayout(spmd::fromAttr(plan.getMesh())));
  for (Operation &op : plan.getBody().front()) {
    if (auto layout = dyn_cast<exec::LayoutOp>(op)) {
      table->layouts.push_back(readLayout(layout));
    } else if (auto extent = dyn_cast<exec::ExtentOp>(op)) {
      numbers.add(extent, table->extents.size());
      auto entry = std::make_unique<format::ExtentT>();
      entry->dim = extent.getDim().str();
      entry->size = static_cast<int64_t>(extent.getSize());
      entry->split = splitOf(extent.getSplitAttr());
      table->extents.push_back(std::move(entry));
    } else if (auto site = dyn_cast<exec::SiteOp>(op)) {
      numbers.add(site, table->sites.size());
      table->sites.push_back(readSite(site));
    } else if (auto program = dyn_cast<exec::ProgramOp>(op)) {
      table->programs.push_back(std::make_unique<format::ProgramT>());
      readProgram(program, *table->programs.back());
    }
  }
  return table;
}

//===----------------------------------------------------------------------===//
// The set
//===----------------------------------------------------------------------===//

/// The kind that has this name, of a generated list of all kinds.
template <typename Kind, size_t Count>
static bool readKind(Attribute attr, const Kind (&kinds)[Count],
                     const char *(*nameOf)(Kind), Kind &kind) {
  auto name = dyn_cast<StringAttr>(attr);
  for (Kind candidate : kinds) {
    if (name && name.getValue() == nameOf(candidate)) {
      kind = candidate;
      return true;
    }
  }
  return false;
}

static bool readTerm(Attribute attr, format::TermT &term) {
  if (auto number = dyn_cast<FloatAttr>(attr)) {
    term.kind = format::TermKind::Number;
    term.number = number.getValueAsDouble();
    return true;
  }
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list) {
    return readKind(attr, format::EnumValuesTermKind(),
                    &format::EnumNameTermKind, term.kind);
  }
  term.kind = format::TermKind::Measure;
  term.measure = std::make_unique<format::MeasureT>();
  format::MeasureT &measure = *term.measure;
  measure.window = static_cast<uint32_t>(cast<IntegerAttr>(list[2]).getUInt());
  measure.axis = cast<StringAttr>(list[4]).str();
  return readKind(list[0], format::EnumValuesMetric(), &format::EnumNameMetric,
                  measure.metric) &&
         readKind(list[1], format::EnumValuesStatistic(),
                  &format::EnumNameStatistic, measure.statistic) &&
         readKind(list[3], format::EnumValuesTrafficKind(),
                  &format::EnumNameTrafficKind, measure.traffic);
}

static bool readTraffic(exec::PlanOp op, format::PlanT &plan) {
  for (Attribute attr :
       op.getTraffic().value_or(ArrayAttr::get(op.getContext(), {}))) {
    auto entry = cast<ArrayAttr>(attr);
    plan.traffic.push_back(std::make_unique<format::TrafficT>());
    format::TrafficT &traffic = *plan.traffic.back();
    traffic.axis = cast<StringAttr>(entry[1]).str();
    traffic.bytes = cast<IntegerAttr>(entry[2]).getInt();
    if (!readKind(entry[0], format::EnumValuesTrafficKind(),
                  &format::EnumNameTrafficKind, traffic.kind)) {
      return false;
    }
  }
  return true;
}

static bool readRule(exec::RuleOp op, format::RuleT &rule) {
  for (Attribute attr : op.getCondition()) {
    rule.condition.push_back(std::make_unique<format::TermT>());
    if (!readTerm(attr, *rule.condition.back())) {
      return false;
    }
  }
  rule.during = static_cast<uint32_t>(op.getDuring());
  rule.apart = static_cast<uint32_t>(op.getApart());
  rule.plan = textOr(op.getPlanAttr());
  rule.overlapped = op.getOverlapped();
  rule.amount = static_cast<int64_t>(op.getAmount());
  rule.text = op.getText().str();
  rule.file = op.getFile().str();
  rule.line = static_cast<uint32_t>(op.getLine());
  return readKind(op.getActionAttr(), format::EnumValuesRuleAction(),
                  &format::EnumNameRuleAction, rule.action);
}

static std::unique_ptr<format::RunT> readRun(exec::RunOp op) {
  auto run = std::make_unique<format::RunT>();
  run->name = op.getName().str();
  run->snapshot_every = static_cast<uint32_t>(op.getSnapshots());
  run->reproducible = op.getReproducible();
  ArrayRef<int64_t> pairs = op.getBatches().value_or(ArrayRef<int64_t>());
  for (; !pairs.empty(); pairs = pairs.drop_front(2)) {
    run->batches.emplace_back(pairs[0], pairs[1]);
  }
  if (op.getMean()) {
    run->gradient_mean = std::make_unique<format::GradientMeanT>();
    run->gradient_mean->state = op.getMean()->str();
    run->gradient_mean->keep = op.getKeep()->convertToDouble();
    run->gradient_mean->limit = op.getLimit()->convertToDouble();
  }
  return run;
}

llvm::Expected<format::PlanSetT> cleave::fromExec(ModuleOp module) {
  exec::SetOp op;
  if (llvm::hasSingleElement(*module.getBody())) {
    op = dyn_cast<exec::SetOp>(module.getBody()->front());
  }
  if (!op) {
    return llvm::createStringError(
        "the module does not hold one `exec.set` and nothing else");
  }
  format::PlanSetT set;
  set.model = op.getModel().str();
  set.producer = textOr(op.getProducerAttr());
  if (ArrayAttr features = op.getFeaturesAttr()) {
    set.target_features = texts(features);
  }
  set.eval_every = op.getEvery().value_or(0);
  if (ArrayAttr hashes = op.getMathematicsAttr()) {
    uint64_t *const numbers[] = {&set.loss_hash, &set.update_hash};
    for (auto [hash, number] : llvm::zip(hashes, numbers)) {
      cast<StringAttr>(hash).getValue().getAsInteger(16, *number);
    }
  }
  for (auto kernels : op.getBody().getOps<exec::KernelsOp>()) {
    set.symbols = texts(kernels.getSymbols());
  }
  llvm::StringMap<uint32_t> symbols;
  for (const std::string &symbol : set.symbols) {
    symbols.try_emplace(symbol, symbols.size());
  }
  Numbers numbers;
  for (auto leaf : op.getBody().getOps<exec::LeafOp>()) {
    numbers.add(leaf, set.leaves.size());
    set.leaves.push_back(readLeaf(leaf));
  }
  for (auto run : op.getBody().getOps<exec::RunOp>()) {
    set.run = readRun(run);
  }
  for (auto rule : op.getBody().getOps<exec::RuleOp>()) {
    set.run->rules.push_back(std::make_unique<format::RuleT>());
    if (!readRule(rule, *set.run->rules.back())) {
      return llvm::createStringError("a rule has a word that means nothing");
    }
  }
  for (auto plan : op.getBody().getOps<exec::PlanOp>()) {
    if (plan.getSymName() == op.getStart()) {
      set.start = static_cast<uint32_t>(set.plans.size());
    }
    PlanReader reader(numbers, symbols);
    set.plans.push_back(reader.read(plan));
    if (!readTraffic(plan, *set.plans.back())) {
      return llvm::createStringError("plan `" + set.plans.back()->name +
                                     "` sends what means nothing");
    }
  }
  return std::move(set);
}
