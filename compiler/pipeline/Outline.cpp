//===- Outline.cpp - A local program in the order of a schedule -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Group.h"
#include "compiler/partition/Declare.h"
#include "compiler/pipeline/Chunks.h"
#include "compiler/pipeline/Route.h"
#include "compiler/pipeline/SplitWeights.h"
#include "compiler/pipeline/Stages.h"
#include "compiler/pipeline/Streams.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/format/Plan_generated.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

namespace {

/// Reorganises one function.
class Outliner {
public:
  Outliner(func::FuncOp function, const PipelinedFunction &given,
           const layout::Mesh &mesh)
      : function(function), block(function.getBody().front()), given(given),
        mesh(mesh), classifier(function, *given.plan, mesh),
        builder(function.getContext()) {}

  /// The work of microbatches, in place; null after an error.
  pipe::MicroOp run();
  Classifier &questions() { return classifier; }

private:
  func::FuncOp function;
  Block &block;
  const PipelinedFunction &given;
  const layout::Mesh &mesh;
  Classifier classifier;
  OpBuilder builder;

  /// What microbatches add up or store, or a timed value that the function
  /// returns.
  struct Kept {
    Value value;
    Operation *end = nullptr; ///< null: the value of the one microbatch
    Section *section = nullptr;
  };
  /// What becomes a `pipe.section`.
  struct Outlined {
    Block *body = nullptr;
    llvm::SetVector<Value> crossing; ///< to other sections, or to neighbours
    /// What was copied into it, by original.
    llvm::DenseMap<Value, Value> copies;
    Operation *lastCopy = nullptr;
  };

  std::optional<Sections> sections;
  llvm::DenseMap<Section *, Outlined> outlined;
  SmallVector<Kept> kept;
  pipe::MicroOp micro;
  llvm::DenseMap<Value, Value> results; ///< what sections give for them
  SmallVector<Value> ends;              ///< of `kept`
  llvm::DenseSet<Value> layerSums;      ///< of repeats: each stage has its part
  std::unique_ptr<Router> router;

  bool isBuilt();
  void sumInputsAtRest();
  Value copyAtRest(Value value, llvm::DenseMap<Value, Value> &copied);
  void splitTimeSums();
  Type reducedType(Type operand, Operation *reduction) const;
  void spreadStages();
  bool isReducedEach(Operation *op) const;
  void reduceEach();
  bool checkTimeEnds();
  void collectKept();
  void findLayerSums();
  void findCrossing();
  SmallVector<unsigned> passedOn(const Section &section) const;
  void createMicro();
  void createSection(Section &section);
  void fillSection(Section &section);
  Value copyInto(Section &section, Value value);
  Value endOf(const Kept &entry, Value before, Value value);
  void addKept(Section &section, SmallVectorImpl<Value> &yielded,
               SmallVectorImpl<unsigned> &order);
  void createMessages();
  void moveAfter();
  bool splitsWeights() const;
};

} // namespace

//===----------------------------------------------------------------------===//
// Sums over microbatches
//===----------------------------------------------------------------------===//

/// `value`, which depends on inputs alone, of all microbatches at once.
Value Outliner::copyAtRest(Value value, llvm::DenseMap<Value, Value> &copied) {
  Operation *op = value.getDefiningOp();
  if (!op || !classifier.isTimed(op)) {
    return value;
  }
  if (Value known = copied.lookup(value)) {
    return known;
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(copyAtRest(operand, copied));
  }
  if (auto slice = dyn_cast<spmd::LocalSliceOp>(op)) {
    SmallVector<int64_t> atoms;
    for (int64_t atom : slice.getAtoms()) {
      if (!mesh.isTime(static_cast<layout::AtomId>(atom))) {
        atoms.push_back(atom);
      }
    }
    if (atoms.empty()) {
      return copied[value] = operands.front();
    }
  }
  builder.setInsertionPoint(op);
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  for (OpResult result : copy->getResults()) {
    result.setType(classifier.atRest(result.getType()));
  }
  if (auto slice = dyn_cast<spmd::LocalSliceOp>(copy)) {
    SmallVector<int64_t> atoms(slice.getAtoms());
    llvm::erase_if(atoms, [&](int64_t atom) {
      return mesh.isTime(static_cast<layout::AtomId>(atom));
    });
    slice.setAtoms(atoms);
  }
  return copied[value] = copy->getResult(0);
}

/// What comes of all microbatches and depends on inputs alone is made of all of
/// them at once, before.
void Outliner::sumInputsAtRest() {
  llvm::DenseMap<Value, Value> copied;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (classifier.isTimeEnd(&op) && classifier.isOfInputs(op.getOperand(0))) {
      Value whole = copyAtRest(op.getOperand(0), copied);
      op.getResult(0).replaceAllUsesWith(whole);
      op.erase();
    }
  }
}

/// sum(a + b) = sum(a) + sum(b): the two may be made at different positions.
void Outliner::splitTimeSums() {
  SmallVector<Operation *> sums;
  for (Operation &op : block) {
    if (classifier.isTimeSum(&op)) {
      sums.push_back(&op);
    }
  }
  while (!sums.empty()) {
    auto sum = cast<spmd::AllReduceOp>(sums.pop_back_val());
    auto add = sum.getX().getDefiningOp<clv::AddOp>();
    if (!add || !add->hasOneUse() ||
        !classifier.isTimed(add.getLhs().getType()) ||
        !classifier.isTimed(add.getRhs().getType()) ||
        add.getLhs().getType() != add.getRhs().getType()) {
      continue;
    }
    builder.setInsertionPoint(sum);
    Value parts[2];
    for (unsigned i = 0; i < 2; ++i) {
      Operation *part = builder.clone(*sum);
      part->setOperand(0, add->getOperand(i));
      parts[i] = part->getResult(0);
      sums.push_back(part);
    }
    Operation *whole = builder.clone(*add);
    whole->setOperands({parts[0], parts[1]});
    whole->getResult(0).setType(sum.getType());
    sum.getResult().replaceAllUsesWith(whole->getResult(0));
    sum.erase();
    add.erase();
  }
}

/// The type that a reduction gives of `operand`, pending in time as that is.
Type Outliner::reducedType(Type operand, Operation *reduction) const {
  auto type = cast<RankedTensorType>(reduction->getResult(0).getType());
  layout::Layout layout = spmd::layoutOf(type);
  for (layout::AtomId atom : spmd::layoutOf(operand).partial) {
    if (mesh.isTime(atom)) {
      layout.partial.push_back(atom);
    }
  }
  return spmd::localType(type.getElementType(), clv::dimsOf(type),
                         spmd::globalSizes(type), layout, mesh);
}

/// Whether an operation reduces a gradient over devices, and the plan says
/// `reduce gradients per micro` of it.
bool Outliner::isReducedEach(Operation *op) const {
  clv::ScopeAttr scope = clv::scopeOf(op);
  if (!isa<spmd::AllReduceOp, spmd::ReduceScatterOp>(op) || !scope ||
      classifier.isTimeSum(op) ||
      static_cast<layout::Role>(scope.getRole()) != layout::Role::Gradients) {
    return false;
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  layout::ValueInfo gradient;
  gradient.role = layout::Role::Gradients;
  gradient.phase = layout::Phase::Backward;
  gradient.path = scope.getPath().str();
  gradient.elementBytes = partitioning::elementBytes(type);
  SmallVector<int64_t> sizes = spmd::globalSizes(type);
  for (auto [name, size] : llvm::zip(clv::dimsOf(type), sizes)) {
    gradient.dims.push_back({name.str(), size});
  }
  return llvm::any_of(given.plan->reductions,
                      [&](const layout::GatherStatement &reduction) {
                        return layout::matches(reduction.selection, gradient);
                      });
}

/// Reductions over devices that the plan wants of each microbatch stand before
/// the sum over microbatches, which then has the layout of what is stored:
/// reduce(sum(x)) = sum(reduce(x)), and reduce(a + b) = reduce(a) + reduce(b).
void Outliner::reduceEach() {
  SmallVector<Operation *> reductions;
  for (Operation &op : block) {
    if (isReducedEach(&op)) {
      reductions.push_back(&op);
    }
  }
  while (!reductions.empty()) {
    Operation *op = reductions.pop_back_val();
    Operation *maker = op->getOperand(0).getDefiningOp();
    bool isSum =
        maker && (classifier.isTimeSum(maker) ||
                  (isa<clv::AddOp>(maker) &&
                   !classifier.isTimed(maker->getResult(0).getType())));
    if (!isSum || !maker->hasOneUse()) {
      continue;
    }
    builder.setInsertionPoint(op);
    Operation *outer = builder.clone(*maker);
    outer->getResult(0).setType(op->getResult(0).getType());
    for (OpOperand &operand : outer->getOpOperands()) {
      Operation *inner = builder.clone(*op);
      inner->moveBefore(outer);
      inner->setOperand(0, operand.get());
      inner->getResult(0).setType(reducedType(operand.get().getType(), op));
      operand.set(inner->getResult(0));
      reductions.push_back(inner);
    }
    op->getResult(0).replaceAllUsesWith(outer->getResult(0));
    op->erase();
    maker->erase();
  }
}

/// A sum inside a repeat, or one that timed work reads, would be needed before
/// all microbatches are done.
bool Outliner::checkTimeEnds() {
  auto refuse = [&](Operation *sum) {
    auto scope = clv::scopeOf(sum);
    std::string what = scope && !scope.getPath().empty()
                           ? "`" + scope.getPath().str() + "`"
                           : "a value of the model";
    sum->emitError(what)
        << " needs a sum over the whole batch of what layers compute, and "
           "microbatches are done one after the other; only sums of inputs (a "
           "count of targets) are known before";
    return false;
  };
  llvm::DenseSet<Value> later;
  for (Operation &op : block) {
    bool isEnd = classifier.isTimeEnd(&op), isLater = isEnd;
    for (Value value : codegen::readsOf(&op)) {
      isLater |= later.contains(value);
    }
    if (!isEnd && isLater && classifier.isTimed(&op) &&
        !op.hasTrait<OpTrait::IsTerminator>()) {
      return refuse(&op);
    }
    WalkResult walk = op.walk([&](Operation *inner) {
      return inner != &op && classifier.isTimeEnd(inner)
                 ? (refuse(inner), WalkResult::interrupt())
                 : WalkResult::advance();
    });
    if (walk.wasInterrupted()) {
      return false;
    }
    if (isLater) {
      later.insert(op.result_begin(), op.result_end());
    }
  }
  return true;
}

/// A gather of layers of which stages have several pieces is a sum of all of
/// them, each with zeros for those of the others: no other addition is exact in
/// any order.
void Outliner::spreadStages() {
  for (auto gather :
       llvm::make_early_inc_range(block.getOps<spmd::AllGatherOp>())) {
    layout::Layout layout = spmd::layoutOf(gather.getX().getType());
    if (layout.dims.empty() || layout::isContiguous(layout.dims.front()) ||
        layout.dims.front().atoms != atomsOf(gather.getAtoms())) {
      continue;
    }
    auto whole = cast<RankedTensorType>(gather.getType());
    layout::Layout pending = spmd::layoutOf(whole);
    pending.partial = layout.dims.front().atoms;
    builder.setInsertionPoint(gather);
    auto spread = builder.create<pipe::SpreadOp>(
        gather.getLoc(),
        spmd::localType(whole.getElementType(), clv::dimsOf(whole),
                        spmd::globalSizes(whole), pending, mesh),
        gather.getX());
    auto sum = builder.create<spmd::AllReduceOp>(
        gather.getLoc(), whole, spread, gather.getAtoms(), gather.getReason(),
        gather.getAvoid());
    sum->setDiscardableAttrs(gather->getDiscardableAttrDictionary());
    if (auto scope = clv::scopeOf(gather)) {
      clv::setScope(spread, scope);
    }
    gather.replaceAllUsesWith(sum.getResult());
    gather.erase();
  }
}

//===----------------------------------------------------------------------===//
// What leaves a microbatch, and what crosses from section to section
//===----------------------------------------------------------------------===//

static bool isCarried(Value value, clv::RepeatOp repeat) {
  return llvm::is_contained(repeat.getCarriedResults(), value);
}

void Outliner::collectKept() {
  for (Operation &op : block) {
    if (classifier.isTimeEnd(&op)) {
      kept.push_back({op.getOperand(0), &op});
    }
  }
  for (Value value : block.getTerminator()->getOperands()) {
    if (classifier.isTimed(value.getType())) {
      kept.push_back({value, nullptr});
    }
  }
  for (Kept &entry : kept) {
    Section *found = sections->find(entry.value);
    entry.section = found ? found : &sections->at(false, 0, 0);
    // Before its last position a repeat's carried value is unfinished.
    if (found && found->repeat && isCarried(entry.value, found->repeat) &&
        !layerSums.contains(entry.value)) {
      entry.section = &sections->after(*found);
    }
  }
}

void Outliner::findLayerSums() {
  for (Section *section : sections->inOrder()) {
    clv::RepeatOp repeat = section->repeat;
    for (unsigned i = 0; repeat && i < repeat.getCarried().size(); ++i) {
      if (isSumOverLayers(repeat, i, classifier)) {
        layerSums.insert(repeat.getResult(i));
      }
    }
  }
}

/// The carried values of a repeat that positions send to each other.
SmallVector<unsigned> Outliner::passedOn(const Section &section) const {
  SmallVector<unsigned> numbers;
  clv::RepeatOp repeat = section.repeat;
  bool isOfOne = section.end - section.begin == 1;
  for (unsigned i = 0; repeat && !isOfOne && i < repeat.getCarried().size();
       ++i) {
    if (!layerSums.contains(repeat.getResult(i))) {
      numbers.push_back(i);
    }
  }
  return numbers;
}

void Outliner::findCrossing() {
  for (Operation &op : block) { // in program order, the same each time
    Section *reader = sections->find(&op);
    if (!reader) {
      continue;
    }
    for (Value value : codegen::readsOf(&op)) {
      Section *maker = sections->find(value);
      if (maker && maker != reader) {
        outlined[maker].crossing.insert(value);
      }
    }
  }
  for (const Kept &entry : kept) {
    Section *maker = sections->find(entry.value);
    if (maker && maker != entry.section) {
      outlined[maker].crossing.insert(entry.value);
    }
  }
  for (Section *section : sections->inOrder()) {
    clv::RepeatOp repeat = section->repeat;
    for (unsigned i : passedOn(*section)) {
      outlined[section].crossing.insert(repeat.getResult(i));
    }
  }
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

void Outliner::createMicro() {
  builder.setInsertionPoint(block.getTerminator());
  Location loc = function.getLoc();
  SmallVector<Value> zeros;
  SmallVector<Type> types;
  for (Kept &entry : kept) {
    auto type = cast<RankedTensorType>(
        entry.end ? entry.end->getResult(0).getType() : entry.value.getType());
    Type scalar =
        spmd::localType(type.getElementType(), {}, {}, layout::Layout(), mesh);
    Value zero = builder.create<clv::ConstantOp>(
        loc, cast<RankedTensorType>(scalar),
        cast<TypedAttr>(builder.getZeroAttr(type.getElementType())));
    Value start = zero;
    if (type.getRank() > 0 || type != scalar) {
      start = builder.create<clv::BroadcastOp>(loc, type, zero);
    }
    if (auto scope = clv::scopeOfValue(entry.value)) {
      clv::setScope(zero.getDefiningOp(), scope);
      clv::setScope(start.getDefiningOp(), scope);
    }
    zeros.push_back(start);
    types.push_back(type);
  }
  SmallVector<int64_t> stageAtoms;
  if (given.plan->pipeline) {
    stageAtoms.assign(given.plan->pipeline->atoms.begin(),
                      given.plan->pipeline->atoms.end());
  }
  int64_t time = given.plan->micro->atom;
  SmallVector<int64_t> chunkAtoms;
  bool folded = given.plan->pipeline && given.plan->pipeline->folded;
  if (given.plan->pipeline && given.plan->pipeline->chunks > 1) {
    chunkAtoms.push_back(given.plan->pipeline->chunkAtom);
  }
  format::Placement placement = chunkAtoms.empty() ? format::Placement::Plain
                                : folded           ? format::Placement::Folded
                                                   : format::Placement::Dealt;
  SmallVector<Attribute> streams;
  for (const std::vector<int32_t> &stream : given.streams) {
    streams.push_back(builder.getDenseI32ArrayAttr(stream));
  }
  micro = builder.create<pipe::MicroOp>(
      loc, types, zeros, stageAtoms, time, chunkAtoms,
      static_cast<int64_t>(placement), builder.getArrayAttr(streams));
  Block *body = new Block;
  micro.getBody().push_back(body);
  for (Type type : types) {
    body->addArgument(type, loc);
  }
}

/// `value`, made again in a section if it depends on inputs or is cheap.
Value Outliner::copyInto(Section &section, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block) {
    return value;
  }
  bool isCheap = codegen::isCheap(op) && !classifier.isTimed(op);
  bool isInput = classifier.isTimed(op) && classifier.isOfInputs(op);
  if (!isInput && !isCheap) {
    return value;
  }
  if (Value known = outlined[&section].copies.lookup(value)) {
    return known;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    mapping.map(operand, copyInto(section, operand));
  }
  // Copies stand first, each after those that it reads.
  OpBuilder::InsertionGuard guard(builder);
  Outlined &into = outlined[&section];
  if (into.lastCopy) {
    builder.setInsertionPointAfter(into.lastCopy);
  } else {
    builder.setInsertionPointToStart(into.body);
  }
  Operation *copy = builder.clone(*op, mapping);
  into.lastCopy = copy;
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
    into.copies[from] = to;
  }
  return into.copies.lookup(value);
}

/// `before` with what a microbatch adds to it, or with its part stored.
Value Outliner::endOf(const Kept &entry, Value before, Value value) {
  Location loc = entry.end->getLoc();
  Operation *op;
  if (classifier.isTimeGather(entry.end)) {
    op = builder.create<pipe::StoreOp>(loc, before.getType(), value, before);
  } else {
    op = builder.create<clv::AddOp>(loc, before.getType(), before, value);
  }
  if (auto scope = clv::scopeOf(entry.end)) {
    clv::setScope(op, scope);
  }
  return op->getResult(0);
}

/// What a section adds to the sums, stores or keeps.
void Outliner::addKept(Section &section, SmallVectorImpl<Value> &yielded,
                       SmallVectorImpl<unsigned> &order) {
  builder.setInsertionPointToEnd(outlined[&section].body);
  for (auto [i, entry] : llvm::enumerate(kept)) {
    if (entry.section != &section) {
      continue;
    }
    Value made = results.lookup(entry.value); // by an earlier section
    Value value = made ? made : copyInto(section, entry.value);
    if (entry.end) {
      value = endOf(entry, micro.getBlock()->getArgument(i), value);
    }
    yielded.push_back(value);
    order.push_back(i);
  }
}

void Outliner::fillSection(Section &section) {
  Block *body = outlined[&section].body;
  SmallVector<Operation *> members;
  for (Operation &op : block) {
    if (sections->find(&op) == &section) {
      members.push_back(&op);
    }
  }
  for (Operation *op : members) {
    op->moveBefore(body, body->end());
  }
  for (Operation *op : members) {
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands()) {
        operand.set(copyInto(section, operand.get()));
      }
    });
  }
}

void Outliner::createSection(Section &section) {
  Block *body = outlined[&section].body = new Block;
  fillSection(section);
  const llvm::SetVector<Value> &crossing = outlined[&section].crossing;
  SmallVector<Value> yielded(crossing.begin(), crossing.end());
  SmallVector<OpOperand *> started;
  for (auto [use, where] : router->starts) {
    if (where == &section) {
      started.push_back(use);
      Value value = copyInto(section, use->get());
      if (llvm::is_contained(yielded, value)) { // memory of its own
        builder.setInsertionPointAfter(value.getDefiningOp());
        value = builder.clone(*value.getDefiningOp())
                    ->getResult(cast<OpResult>(value).getResultNumber());
      }
      yielded.push_back(value);
    }
  }
  size_t passed = yielded.size();
  SmallVector<unsigned> order;
  addKept(section, yielded, order);
  if (body->empty()) {
    delete body;
    return;
  }
  builder.setInsertionPointToEnd(body);
  builder.create<pipe::YieldOp>(function.getLoc(), yielded);
  builder.setInsertionPointToEnd(micro.getBlock());
  auto op = builder.create<pipe::SectionOp>(
      function.getLoc(), TypeRange(ValueRange(yielded)),
      section.backward ? pipe::SectionKind::Backward
                       : pipe::SectionKind::Forward,
      section.begin, section.end);
  op.getBody().push_back(body);
  for (size_t i = 0; i < passed; ++i) {
    yielded[i].replaceUsesWithIf(op.getResult(i), [&](OpOperand &use) {
      return !op->isAncestor(use.getOwner());
    });
    results[yielded[i]] = op.getResult(i);
  }
  for (auto [i, use] : llvm::enumerate(started)) {
    use->set(op.getResult(passed - started.size() + i));
  }
  for (auto [i, index] : llvm::enumerate(order)) {
    ends[index] = op.getResult(passed + i);
  }
}

void Outliner::createMessages() {
  builder.setInsertionPointToEnd(micro.getBlock());
  for (Section *section : sections->inOrder()) {
    clv::RepeatOp repeat = section->repeat;
    for (unsigned i : passedOn(*section)) {
      builder.create<pipe::MessageOp>(
          repeat.getLoc(),
          section->backward ? pipe::Direction::Gradient
                            : pipe::Direction::Activation,
          results.lookup(repeat.getResult(i)), repeat.getCarried()[i],
          section->begin, section->end - 1);
    }
  }
  for (const Relay &relay : router->relays) {
    Value value = results.lookup(relay.value);
    builder.create<pipe::MessageOp>(value.getLoc(), relay.direction, value,
                                    value, relay.begin, relay.end);
  }
}

/// What needs a sum over microbatches stands after them, and what only that
/// reads.
void Outliner::moveAfter() {
  Operation *end = block.getTerminator();
  llvm::DenseSet<Operation *> later;
  for (auto [i, entry] : llvm::enumerate(kept)) {
    Value sum = micro.getResult(i);
    if (!entry.end) {
      Value crossed = results.lookup(entry.value);
      (crossed ? crossed : entry.value)
          .replaceUsesWithIf(
              sum, [&](OpOperand &use) { return use.getOwner() == end; });
      continue;
    }
    if (layerSums.contains(entry.value)) {
      builder.setInsertionPointAfter(micro); // before all that reads it
      layout::Layout layout = spmd::layoutOf(sum.getType());
      const std::vector<layout::AtomId> &atoms = given.plan->pipeline->atoms;
      layout.partial.insert(layout.partial.end(), atoms.begin(), atoms.end());
      Type type = spmd::localType(
          cast<RankedTensorType>(sum.getType()).getElementType(),
          clv::dimsOf(sum), spmd::globalSizes(sum.getType()), layout, mesh);
      Value pending =
          builder.create<pipe::PendingOp>(entry.end->getLoc(), type, sum);
      auto reduced = builder.create<spmd::AllReduceOp>(
          entry.end->getLoc(), cast<RankedTensorType>(sum.getType()), pending,
          SmallVector<int64_t>(atoms.begin(), atoms.end()),
          "the stages hold parts of a sum over layers", "");
      if (auto scope = clv::scopeOf(entry.end)) {
        clv::setScope(reduced, scope);
      }
      later.insert(pending.getDefiningOp());
      later.insert(reduced.getOperation());
      sum = reduced.getResult();
    }
    entry.end->getResult(0).replaceAllUsesWith(sum);
    entry.end->erase();
  }
  SmallVector<Operation *> before;
  for (Operation &op : block) {
    before.push_back(&op);
  }
  for (Operation *op : before) {
    if (op == micro || op == end || later.contains(op)) {
      continue;
    }
    bool isLater = micro->isBeforeInBlock(op);
    for (Value value : codegen::readsOf(op)) {
      Operation *maker = value.getDefiningOp();
      isLater |= maker == micro || later.contains(maker);
    }
    if (isLater) {
      later.insert(op);
      op->moveBefore(end);
    }
  }
  for (Operation *op : llvm::reverse(before)) {
    if (op == micro || op == end || later.contains(op)) {
      continue;
    }
    if (op->use_empty()) {
      op->erase();
      continue;
    }
    bool isLater = llvm::all_of(op->getUsers(), [&](Operation *user) {
      Operation *top = block.findAncestorOpInBlock(*user);
      return top == end || later.contains(top);
    });
    if (isLater) {
      later.insert(op);
      op->moveAfter(micro);
    }
  }
}

/// Whether the schedule has weight gradients as actions of their own.
bool Outliner::splitsWeights() const {
  for (const std::vector<int32_t> &stream : given.streams) {
    for (size_t i = 0; i < stream.size(); i += 3) {
      auto kind = static_cast<format::StepKind>(stream[i]);
      if (kind == format::StepKind::InputGradient ||
          kind == format::StepKind::WeightGradient) {
        return true;
      }
    }
  }
  return false;
}

/// What is refused before anything is changed.
bool Outliner::isBuilt() {
  // Of several microbatches only the last would be left.
  for (Value value : block.getTerminator()->getOperands()) {
    if (classifier.isTimed(value.getType()) && given.plan->micros() > 1) {
      function.emitError("an output of several microbatches is not built yet");
      return false;
    }
  }
  return true;
}

pipe::MicroOp Outliner::run() {
  if (!isBuilt()) {
    return {};
  }
  sumInputsAtRest();
  spreadStages();
  if (!given.plan->pipeline) {
    reduceEach(); // of a sum of two, once
  }
  splitTimeSums();
  reduceEach();
  if (!checkTimeEnds()) {
    return {};
  }
  classifier.forget();
  sections = assignSections(classifier);
  if (!sections) {
    return {};
  }
  findLayerSums();
  collectKept();
  router = std::make_unique<Router>(classifier, *sections, layerSums);
  if (!router->run()) {
    return {};
  }
  findCrossing();
  createMicro();
  ends.resize(kept.size());
  std::vector<Section *> order = sections->inOrder();
  for (Section *section : order) {
    outlined[section]; // none moves once they are filled
  }
  for (Section *section : order) {
    createSection(*section);
  }
  createMessages();
  builder.setInsertionPointToEnd(micro.getBlock());
  builder.create<pipe::YieldOp>(function.getLoc(), ends);
  moveAfter();
  if (splitsWeights()) {
    splitWeightGradients(micro, mesh);
  }
  if (given.plan->pipeline && given.plan->pipeline->chunks > 1) {
    viewChunks(micro, *given.plan->pipeline, mesh);
  }
  return micro;
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

LogicalResult
cleave::outlinePipeline(ModuleOp module,
                        const llvm::StringMap<PipelinedFunction> &functions) {
  module.getContext()->loadDialect<pipe::PipeDialect>();
  layout::Mesh mesh = spmd::fromAttr(
      module->getAttrOfType<spmd::MeshAttr>(spmd::SpmdDialect::kMesh));
  std::vector<std::unique_ptr<Outliner>> outliners;
  std::vector<StagePlacer> placers;
  llvm::StringMap<Stages> residence;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto given = functions.find(function.getName());
    if (given == functions.end()) {
      continue;
    }
    outliners.push_back(
        std::make_unique<Outliner>(function, given->second, mesh));
    pipe::MicroOp micro = outliners.back()->run();
    if (!micro) {
      return failure();
    }
    if (given->second.plan->pipeline) {
      placers.emplace_back(outliners.back()->questions(), micro);
      placers.back().collectResidence(residence);
    }
  }
  // A parameter lives where any program reads it.
  for (StagePlacer &placer : placers) {
    placer.place(residence);
  }
  return success();
}
