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
      stages(static_cast<unsigned>(
          classifier.mesh.sizeOf(classifier.plan.pipeline->atoms))) {}

Stages StagePlacer::whereIs(Value value) const {
  auto known = available.find(value);
  return known == available.end() ? all() : known->second;
}

Stages StagePlacer::placeOf(Operation *op) const {
  auto known = places.find(op);
  return known == places.end() ? none() : known->second;
}

/// On an axis of several parts a residence is a product of ranges: one stage is
/// one, several together need not be, and take all.
Stages StagePlacer::normal(Stages some) const {
  some.resize(stages);
  return atoms.size() > 1 && some.count() > 1 ? all() : some;
}

SmallVector<int64_t> StagePlacer::residenceOf(const Stages &some) const {
  SmallVector<int64_t> ranges;
  auto add = [&](layout::AtomId atom, int64_t begin, int64_t end) {
    ranges.append({static_cast<int64_t>(atom), begin, end});
  };
  if (some.all()) {
    add(atoms.front(), 0, classifier.mesh.atoms[atoms.front()].size);
    return ranges;
  }
  if (atoms.size() > 1) {
    int64_t rank = some.find_first(), below = stages;
    for (layout::AtomId atom : atoms) {
      int64_t size = classifier.mesh.atoms[atom].size;
      below /= size;
      add(atom, rank / below % size, rank / below % size + 1);
    }
    return ranges;
  }
  for (int begin = some.find_first(); begin >= 0;) {
    int end = some.find_next_unset(begin);
    end = end < 0 ? static_cast<int>(stages) : end;
    add(atoms.front(), begin, end);
    begin = some.find_next(end - 1);
  }
  return ranges;
}

Stages StagePlacer::stagesOf(pipe::SectionOp section) const {
  schedule::Schedule line = lineOf(micro, classifier.mesh);
  Stages some = none();
  for (uint64_t at = section.getBegin(); at < section.getEnd(); ++at) {
    some.set(line.owner(static_cast<int32_t>(at)));
  }
  return normal(some);
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
  Stages some = none();
  for (Operation *user : value.getUsers()) {
    if (auto section = user->getParentOfType<pipe::SectionOp>()) {
      some |= stagesOf(section);
      continue;
    }
    Operation *top = micro->getBlock()->findAncestorOpInBlock(*user);
    if (top == micro) {
      some |= all(); // a carried value
      continue;
    }
    bool isScalar =
        top->getNumResults() == 1 && clv::dimsOf(top->getResult(0)).empty();
    if (!scalarsToo && isScalar && !crossesStages(top)) {
      continue;
    }
    some |= placeOf(top);
  }
  return normal(some);
}

/// Where the plan says that a leaf lives.
std::optional<Stages> StagePlacer::placedAt(unsigned argument) const {
  BlockArgument leaf = classifier.function.getArgument(argument);
  layout::ValueInfo info;
  info.role = layout::Role::Params; // an optimizer leaf lives with its own
  info.path = leafPath(argument).str();
  SmallVector<int64_t> sizes = spmd::globalSizes(leaf.getType());
  for (auto [name, size] : llvm::zip(clv::dimsOf(leaf), sizes)) {
    info.dims.push_back({name.str(), size});
  }
  std::optional<Stages> said;
  for (const layout::PlaceStatement &place : classifier.plan.places) {
    if (layout::matches(place.selection, info)) {
      said = none();
      for (int64_t stage : place.stages) {
        said->set(static_cast<unsigned>(stage));
      }
    }
  }
  return said;
}

/// Brings a leaf that the plan places to the stages that read it elsewhere,
/// once a step.
void StagePlacer::fetchPlaced() {
  Block &block = *micro->getBlock();
  for (BlockArgument leaf : classifier.function.getArguments()) {
    Stages there = whereIs(leaf);
    Stages meeting = there;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : leaf.getUses()) {
      Operation *user = use.getOwner();
      auto section = user->getParentOfType<pipe::SectionOp>();
      Operation *top = block.findAncestorOpInBlock(*user);
      Stages some = section ? stagesOf(section) : placeOf(top);
      if ((section || !isAfter(top)) && some.test(there)) {
        meeting |= some;
        uses.push_back(&use);
      }
    }
    if (uses.empty()) {
      continue;
    }
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    auto share = builder.create<pipe::ShareOp>(
        classifier.function.getLoc(), leaf.getType(), leaf,
        SmallVector<int64_t>(atoms.begin(), atoms.end()), residenceOf(there));
    if (auto scope = clv::scopeOf(uses.front()->getOwner())) {
      clv::setScope(share, scope);
    }
    places[share] = normal(meeting);
    available[share.getResult()] = places[share];
    for (OpOperand *use : uses) {
      use->set(share.getResult());
    }
  }
}

void StagePlacer::collectResidence(llvm::StringMap<Stages> &residence) {
  placeBefore();
  for (BlockArgument argument : classifier.function.getArguments()) {
    StringRef path = leafPath(argument.getArgNumber());
    if (path.empty()) {
      continue;
    }
    Stages some = none();
    for (Operation *user : argument.getUsers()) {
      if (auto section = user->getParentOfType<pipe::SectionOp>()) {
        some |= stagesOf(section);
      } else if (!isAfter(user)) {
        some |= placeOf(micro->getBlock()->findAncestorOpInBlock(*user));
      }
    }
    if (std::optional<Stages> said = placedAt(argument.getArgNumber())) {
      some = *said;
    }
    if (isInParts(argument)) {
      some = all();
    }
    residence[path] |= some;
  }
}

Stages
StagePlacer::residenceOf(BlockArgument argument,
                         const llvm::StringMap<Stages> &residence) const {
  StringRef path = leafPath(argument.getArgNumber());
  if (path.empty()) {
    return all();
  }
  Stages some = normal(residence.lookup(path));
  return some.any() ? some : all();
}

/// Backwards: where it is read.
void StagePlacer::placeBefore() {
  for (Operation &op : llvm::reverse(*micro->getBlock())) {
    if (&op == micro || isAfter(&op) || op.hasTrait<OpTrait::IsTerminator>()) {
      continue;
    }
    Stages some = none();
    for (Value result : op.getResults()) {
      some |= readAt(result, /*scalarsToo=*/true);
    }
    places[&op] = crossesStages(&op) ? all() : normal(some);
  }
}

/// A sum of a reproducible program, whose terms are more than itself.
static bool isSumOfTerms(Operation *op) {
  return op->hasAttr(kOrdered) && !isa<clv::AddOp>(op);
}

/// Gives `op` each operand on all of its stages.
void StagePlacer::bring(Operation *op, const Stages &some) {
  for (Value value : codegen::readsOf(op)) {
    Stages there = whereIs(value);
    if (!some.test(there)) {
      continue;
    }
    // Those that have it and those that want it; the others stay out.
    Stages meeting = there;
    meeting |= some;
    meeting = normal(meeting);
    Value &everywhere = shared[value];
    if (!everywhere || meeting.test(whereIs(everywhere))) {
      OpBuilder builder(op);
      auto share = builder.create<pipe::ShareOp>(
          op->getLoc(), value.getType(), value,
          SmallVector<int64_t>(classifier.plan.pipeline->atoms.begin(),
                               classifier.plan.pipeline->atoms.end()),
          residenceOf(there));
      if (auto scope = clv::scopeOfValue(value)) {
        clv::setScope(share, scope);
      }
      everywhere = share.getResult();
      places[share] = meeting;
      available[everywhere] = meeting;
    }
    op->replaceUsesOfWith(value, everywhere);
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
      wanted[value] |= some.any() ? some : all();
    }
  }
  for (Operation *op : llvm::reverse(after)) {
    Stages some = none();
    for (Value result : op->getResults()) {
      some |= wanted.lookup(result);
      some |= readAt(result, /*scalarsToo=*/false);
    }
    bool isScalar =
        op->getNumResults() == 1 && clv::dimsOf(op->getResult(0)).empty();
    places[op] = crossesStages(op) ? all() : isScalar ? none() : normal(some);
  }
  // Forwards: scalars, and tensors that nobody wants, where their operands are.
  for (Operation *op : after) {
    Stages there = all();
    for (Value value : codegen::readsOf(op)) {
      there &= whereIs(value);
    }
    Stages some = placeOf(op);
    if (isSumOfTerms(op) && there.any()) {
      some = there;
    }
    if (some.none()) {
      // Nowhere all together: everywhere.
      some = there.any() ? there : all();
    }
    some = normal(some);
    places[op] = some;
    bring(op, some); // places what it adds
    for (Value result : op->getResults()) {
      available[result] = some;
    }
  }
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    Stages some = wanted.lookup(value);
    if (some.any() && some.test(whereIs(value))) {
      bring(end, some);
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
  Stages open = all();
  for (Operation &op : block.without_terminator()) {
    if (codegen::isCheap(&op)) {
      continue; // copied where it is read
    }
    Stages some = &op == micro ? all() : placeOf(&op);
    if (some.all() || some.none()) {
      open = all();
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
    if (!some.all()) {
      function.setArgAttr(argument.getArgNumber(),
                          pipe::PipeDialect::kResidence,
                          builder.getDenseI64ArrayAttr(residenceOf(some)));
    }
  }
  Operation *end = micro->getBlock()->getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    Stages some = whereIs(value);
    if (!some.all()) {
      function.setResultAttr(i, pipe::PipeDialect::kResidence,
                             builder.getDenseI64ArrayAttr(residenceOf(some)));
    }
  }
}

/// Whether each stage has its own part of a value, if only an empty one.
bool StagePlacer::isInParts(Value value) const {
  layout::Layout layout = spmd::layoutOf(value.getType());
  return llvm::any_of(atoms,
                      [&](layout::AtomId atom) { return layout.uses(atom); }) ||
         llvm::any_of(value.getUsers(), [](Operation *user) {
           return isa<pipe::PendingOp>(user);
         });
}

void StagePlacer::place(const llvm::StringMap<Stages> &residence) {
  for (BlockArgument argument : classifier.function.getArguments()) {
    available[argument] = residenceOf(argument, residence);
  }
  for (auto [result, yielded] :
       llvm::zip(micro.getResults(), micro.getYield()->getOperands())) {
    auto section = yielded.getDefiningOp<pipe::SectionOp>();
    available[result] =
        section && !isInParts(result) ? stagesOf(section) : all();
  }
  for (Operation &op : *micro->getBlock()) {
    if (&op == micro || isAfter(&op)) {
      continue;
    }
    Stages there = all();
    for (Value value : codegen::readsOf(&op)) {
      there &= whereIs(value);
    }
    for (Value result : op.getResults()) {
      available[result] = there;
    }
  }
  placeAfter(residence);
  placeBefore();
  fetchPlaced();
  noteResults(residence);
  wrap();
}
