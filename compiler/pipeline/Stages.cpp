//===- Stages.cpp - Which stages do what is done once a step --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Stages.h"

#include "compiler/codegen/Group.h"
#include "compiler/pipeline/Streams.h"
#include "compiler/reproducible/Reproducible.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

StagePlacer::StagePlacer(Classifier &classifier, pipe::MicroOp micro)
    : classifier(classifier), micro(micro),
      atoms(classifier.plan.pipeline->atoms),
      stages(classifier.mesh.sizeOf(classifier.plan.pipeline->atoms)) {}

/// All stages have one spelling, also where first and last are all. On an axis
/// of several parts a residence is a product of ranges: the first or the last
/// stage is one, the two together are not, and take all.
Stages StagePlacer::normal(Stages some) const {
  if (stages == 1 && some) {
    return allStages;
  }
  if (atoms.size() > 1 && some && some != firstStage && some != lastStage) {
    return allStages;
  }
  if (stages == 2 && (some & firstStage) && (some & lastStage)) {
    return allStages;
  }
  return some;
}

SmallVector<int64_t> StagePlacer::residenceOf(Stages some) const {
  SmallVector<int64_t> ranges;
  auto add = [&](layout::AtomId atom, int64_t begin, int64_t end) {
    if (begin < end) {
      ranges.append({static_cast<int64_t>(atom), begin, end});
    }
  };
  if (some == allStages) {
    add(atoms.front(), 0, classifier.mesh.atoms[atoms.front()].size);
    return ranges;
  }
  for (layout::AtomId atom : atoms) {
    int64_t size = classifier.mesh.atoms[atom].size;
    if (some & firstStage) {
      add(atom, 0, 1);
    }
    if (some & innerStages) {
      add(atom, 1, size - 1);
    }
    if (some & lastStage) {
      add(atom, size - 1, size);
    }
  }
  return ranges;
}

Stages StagePlacer::stagesOf(pipe::SectionOp section) const {
  if (section.getEnd() - section.getBegin() > 1) {
    return allStages;
  }
  int64_t stage = lineOf(micro, classifier.mesh)
                      .owner(static_cast<int32_t>(section.getBegin()));
  return normal(stage == 0            ? firstStage
                : stage == stages - 1 ? lastStage
                                      : innerStages);
}

StringRef StagePlacer::leafPath(unsigned argument) const {
  func::FuncOp function = classifier.function;
  auto role = function.getArgAttrOfType<StringAttr>(argument, "clv.role");
  auto path = function.getArgAttrOfType<StringAttr>(argument, "clv.path");
  bool isLeaf = role && path &&
                (role.getValue() == "param" || role.getValue() == "optimizer");
  return isLeaf ? path.getValue() : StringRef();
}

/// Whether all stages take part in an operation.
bool StagePlacer::crossesStages(Operation *op) const {
  auto collective = dyn_cast<spmd::CollectiveInterface>(op);
  if (isa<pipe::ShareOp>(op)) {
    return true;
  }
  return collective && llvm::any_of(collective.getGroup(), [&](int64_t other) {
           return llvm::is_contained(classifier.plan.pipeline->atoms,
                                     static_cast<layout::AtomId>(other));
         });
}

bool StagePlacer::isAfter(Operation *op) const {
  return op->getBlock() == micro->getBlock() && micro->isBeforeInBlock(op);
}

/// The stages that read a value. Of what stands after the microbatches only
/// what was placed counts; scalars may be left out.
Stages StagePlacer::readAt(Value value, bool scalarsToo) const {
  Stages some = noStages;
  for (Operation *user : value.getUsers()) {
    if (auto section = user->getParentOfType<pipe::SectionOp>()) {
      some |= stagesOf(section);
      continue;
    }
    Operation *top = micro->getBlock()->findAncestorOpInBlock(*user);
    if (top == micro) {
      some |= allStages; // a carried value
      continue;
    }
    bool isScalar =
        top->getNumResults() == 1 && clv::dimsOf(top->getResult(0)).empty();
    if (!scalarsToo && isScalar && !crossesStages(top)) {
      continue;
    }
    some |= places.lookup(top);
  }
  return normal(some);
}

void StagePlacer::collectResidence(llvm::StringMap<Stages> &residence) {
  placeBefore();
  for (BlockArgument argument : classifier.function.getArguments()) {
    StringRef path = leafPath(argument.getArgNumber());
    if (path.empty()) {
      continue;
    }
    Stages some = noStages;
    for (Operation *user : argument.getUsers()) {
      if (auto section = user->getParentOfType<pipe::SectionOp>()) {
        some |= stagesOf(section);
      } else if (!isAfter(user)) {
        some |= places.lookup(micro->getBlock()->findAncestorOpInBlock(*user));
      }
    }
    layout::Layout layout = spmd::layoutOf(argument.getType());
    if (llvm::any_of(classifier.plan.pipeline->atoms,
                     [&](layout::AtomId a) { return layout.uses(a); })) {
      some = allStages;
    }
    residence[path] |= some;
  }
}

Stages
StagePlacer::residenceOf(BlockArgument argument,
                         const llvm::StringMap<Stages> &residence) const {
  StringRef path = leafPath(argument.getArgNumber());
  if (path.empty()) {
    return allStages;
  }
  Stages some = normal(residence.lookup(path));
  return some ? some : Stages(allStages);
}

/// Backwards: where it is read.
void StagePlacer::placeBefore() {
  for (Operation &op : llvm::reverse(*micro->getBlock())) {
    if (&op == micro || isAfter(&op) || op.hasTrait<OpTrait::IsTerminator>()) {
      continue;
    }
    Stages some = noStages;
    for (Value result : op.getResults()) {
      some |= readAt(result, /*scalarsToo=*/true);
    }
    places[&op] = crossesStages(&op) ? Stages(allStages) : normal(some);
  }
}

/// A sum of a reproducible program, whose terms are more than itself.
static bool isSumOfTerms(Operation *op) {
  return op->hasAttr(kOrdered) && !isa<clv::AddOp>(op);
}

/// Gives `op` each operand on all of its stages.
void StagePlacer::bring(Operation *op, Stages some) {
  for (Value value : codegen::readsOf(op)) {
    auto known = available.find(value);
    Stages there = known == available.end() ? Stages(allStages) : known->second;
    if ((there & some) == some) {
      continue;
    }
    // Those that have it and those that want it; the others stay out.
    Stages meeting = normal(there | some);
    Value &all = shared[value];
    if (!all || (available.lookup(all) & meeting) != meeting) {
      OpBuilder builder(op);
      auto share = builder.create<pipe::ShareOp>(
          op->getLoc(), value.getType(), value,
          SmallVector<int64_t>(classifier.plan.pipeline->atoms.begin(),
                               classifier.plan.pipeline->atoms.end()),
          residenceOf(there));
      if (auto scope = clv::scopeOfValue(value)) {
        clv::setScope(share, scope);
      }
      all = share.getResult();
      places[share] = meeting;
      available[all] = meeting;
    }
    op->replaceUsesOfWith(value, all);
  }
}

void StagePlacer::placeAfter(const llvm::StringMap<Stages> &residence) {
  Block &block = *micro->getBlock();
  Operation *end = block.getTerminator();
  SmallVector<Operation *> after;
  for (Operation &op : block) {
    if (isAfter(&op) && &op != end) {
      after.push_back(&op);
    }
  }
  // Where tensors are wanted, from the leaves that they end in.
  llvm::DenseMap<Value, Stages> wanted;
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    auto path =
        classifier.function.getResultAttrOfType<StringAttr>(i, "clv.path");
    auto kind =
        classifier.function.getResultAttrOfType<StringAttr>(i, "clv.result");
    bool isLeaf =
        kind && (kind.getValue() == "param" || kind.getValue() == "optimizer");
    if (isLeaf && path) {
      Stages some = normal(residence.lookup(path.getValue()));
      wanted[value] |= some ? some : Stages(allStages);
    }
  }
  for (Operation *op : llvm::reverse(after)) {
    Stages some = noStages;
    for (Value result : op->getResults()) {
      some |= wanted.lookup(result) | readAt(result, /*scalarsToo=*/false);
    }
    bool isScalar =
        op->getNumResults() == 1 && clv::dimsOf(op->getResult(0)).empty();
    places[op] = crossesStages(op) ? Stages(allStages)
                 : isScalar        ? Stages(noStages)
                                   : normal(some);
  }
  // Forwards: scalars, and tensors that nobody wants, where their operands are.
  for (Operation *op : after) {
    Stages there = allStages;
    for (Value value : codegen::readsOf(op)) {
      auto known = available.find(value);
      there &= known == available.end() ? Stages(allStages) : known->second;
    }
    Stages some = places.lookup(op);
    if (isSumOfTerms(op) && there) {
      some = there;
    }
    if (some == noStages) {
      // Nowhere all together: everywhere.
      some = there ? there : Stages(allStages);
    }
    some = normal(some);
    places[op] = some;
    bring(op, some); // places what it adds
    for (Value result : op->getResults()) {
      available[result] = some;
    }
  }
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    if (Stages some = wanted.lookup(value)) {
      auto known = available.find(value);
      if (known != available.end() && (known->second & some) != some) {
        bring(end, some);
      }
    }
  }
}

/// A cheap value is made again where it is read.
static void copyCheap(Operation *op, Block *body) {
  OpBuilder builder(op->getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *maker = operand.get().getDefiningOp();
    if (!maker || maker->getBlock() == body || !codegen::isCheap(maker) ||
        !isa<func::FuncOp>(maker->getParentOp())) {
      continue;
    }
    builder.setInsertionPoint(op);
    Operation *copy = builder.clone(*maker);
    operand.set(copy->getResult(0));
    copyCheap(copy, body);
  }
}

/// Runs of operations of the same stages become one `pipe.only`; those of the
/// update none with others.
void StagePlacer::wrap() {
  Block &block = *micro->getBlock();
  SmallVector<std::pair<Stages, SmallVector<Operation *>>> runs;
  llvm::DenseSet<Operation *> updates = codegen::updatesOf(block);
  Stages open = allStages;
  for (Operation &op : block.without_terminator()) {
    bool isCheap = codegen::isCheap(&op);
    Stages some =
        &op == micro || isCheap ? Stages(allStages) : places.lookup(&op);
    if (isCheap) {
      continue; // copied where it is read
    }
    if (some == allStages || some == noStages) {
      open = allStages;
      continue;
    }
    if (some != open ||
        updates.contains(&op) != updates.contains(runs.back().second.front())) {
      runs.push_back({some, {}});
      open = some;
    }
    runs.back().second.push_back(&op);
  }
  OpBuilder builder(block.getParentOp()->getContext());
  for (auto &[some, members] : runs) {
    llvm::SetVector<Value> given;
    llvm::DenseSet<Operation *> inside(members.begin(), members.end());
    for (Operation *op : members) {
      for (Value result : op->getResults()) {
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !inside.contains(block.findAncestorOpInBlock(*user));
            })) {
          given.insert(result);
        }
      }
    }
    SmallVector<Value> values(given.begin(), given.end());
    builder.setInsertionPoint(members.back());
    auto only = builder.create<pipe::OnlyOp>(members.front()->getLoc(),
                                             TypeRange(ValueRange(values)),
                                             residenceOf(some));
    Block *body = new Block;
    only.getBody().push_back(body);
    for (Operation *op : members) {
      op->moveBefore(body, body->end());
    }
    for (Operation *op : members) {
      copyCheap(op, body);
    }
    builder.setInsertionPointToEnd(body);
    builder.create<pipe::YieldOp>(only.getLoc(), values);
    for (auto [i, value] : llvm::enumerate(values)) {
      value.replaceUsesWithIf(only.getResult(i), [&](OpOperand &use) {
        return !only->isAncestor(use.getOwner());
      });
    }
  }
}

void StagePlacer::noteResults(const llvm::StringMap<Stages> &residence) {
  func::FuncOp function = classifier.function;
  OpBuilder builder(function->getContext());
  for (BlockArgument argument : function.getArguments()) {
    Stages some = residenceOf(argument, residence);
    if (some != allStages) {
      function.setArgAttr(argument.getArgNumber(),
                          pipe::PipeDialect::kResidence,
                          builder.getDenseI64ArrayAttr(residenceOf(some)));
    }
  }
  Operation *end = micro->getBlock()->getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    auto known = available.find(value);
    if (known != available.end() && known->second != allStages) {
      function.setResultAttr(
          i, pipe::PipeDialect::kResidence,
          builder.getDenseI64ArrayAttr(residenceOf(known->second)));
    }
  }
}

void StagePlacer::place(const llvm::StringMap<Stages> &residence) {
  for (BlockArgument argument : classifier.function.getArguments()) {
    available[argument] = residenceOf(argument, residence);
  }
  for (auto [result, yielded] :
       llvm::zip(micro.getResults(), micro.getYield()->getOperands())) {
    auto section = yielded.getDefiningOp<pipe::SectionOp>();
    available[result] = section ? stagesOf(section) : Stages(allStages);
  }
  for (Operation &op : *micro->getBlock()) {
    if (&op == micro || isAfter(&op)) {
      continue;
    }
    Stages there = allStages;
    for (Value value : codegen::readsOf(&op)) {
      auto known = available.find(value);
      there &= known == available.end() ? Stages(allStages) : known->second;
    }
    for (Value result : op.getResults()) {
      available[result] = there;
    }
  }
  placeAfter(residence);
  placeBefore();
  noteResults(residence);
  wrap();
}
