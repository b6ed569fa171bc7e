//===- Classify.cpp - Which work is timed, and where it is done -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Classify.h"

#include "compiler/codegen/Group.h"
#include "compiler/partition/Function.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

bool pipelining::isBackward(int section) { return section >= BackwardLast; }

const char *pipelining::nameOf(int section) {
  switch (section) {
  case ForwardFirst:
    return "what stands before the layers";
  case ForwardLayers:
    return "the layers";
  case ForwardLast:
    return "what stands after the layers";
  case BackwardLast:
    return "the backward pass of what stands after the layers";
  case BackwardLayers:
    return "the backward pass of the layers";
  default:
    return "the backward pass of what stands before the layers";
  }
}

bool Classifier::isTimed(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  return llvm::any_of(layout.usedAtoms(),
                      [&](layout::AtomId atom) { return mesh.isTime(atom); });
}

bool Classifier::isTimed(Operation *op) const {
  bool timed = false;
  op->walk([&](Operation *inner) {
    for (Type type : inner->getOperandTypes()) {
      timed |= isTimed(type);
    }
    for (Type type : inner->getResultTypes()) {
      timed |= isTimed(type);
    }
  });
  return timed;
}

/// Whether a collective is along times alone.
static bool isInTime(ArrayRef<int64_t> atoms, const layout::Mesh &mesh) {
  return !atoms.empty() && llvm::all_of(atoms, [&](int64_t atom) {
    return mesh.isTime(static_cast<layout::AtomId>(atom));
  });
}

bool Classifier::isTimeSum(Operation *op) const {
  auto sum = dyn_cast<spmd::AllReduceOp>(op);
  return sum && isInTime(sum.getAtoms(), mesh);
}

bool Classifier::isTimeGather(Operation *op) const {
  auto gather = dyn_cast<spmd::AllGatherOp>(op);
  return gather && isInTime(gather.getAtoms(), mesh);
}

bool Classifier::isOfInputs(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    return isOfInputs(op);
  }
  auto argument = cast<BlockArgument>(value);
  if (argument.getOwner()->getParentOp() != function) {
    return false;
  }
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    "clv.role");
  return role && role.getValue() != "param" && role.getValue() != "optimizer";
}

bool Classifier::isOfInputs(Operation *op) {
  auto known = ofInputs.find(op);
  if (known != ofInputs.end()) {
    return known->second;
  }
  bool result = op->getNumRegions() == 0 &&
                llvm::all_of(op->getOperands(),
                             [&](Value value) { return isOfInputs(value); });
  return ofInputs[op] = result;
}

Type Classifier::atRest(Type type) const {
  layout::Layout layout = spmd::layoutOf(type);
  auto isTime = [&](layout::AtomId atom) { return mesh.isTime(atom); };
  for (layout::Split &split : layout.dims) {
    std::erase_if(split.atoms, isTime);
  }
  std::erase_if(layout.partial, isTime);
  return spmd::localType(cast<RankedTensorType>(type).getElementType(),
                         clv::dimsOf(type), spmd::globalSizes(type), layout,
                         mesh);
}

bool pipelining::isSumOverLayers(clv::RepeatOp repeat, unsigned carried,
                                 const Classifier &classifier) {
  BlockArgument argument = repeat.getCarriedArguments()[carried];
  if (!argument.hasOneUse() ||
      !partitioning::isZero(repeat.getCarried()[carried])) {
    return false;
  }
  auto sum = dyn_cast<clv::AddOp>(*argument.getUsers().begin());
  if (!sum || !sum->hasOneUse() ||
      repeat.getYield()->getOperand(carried) != sum.getResult()) {
    return false;
  }
  return llvm::all_of(repeat.getResult(carried).getUsers(),
                      [&](Operation *op) { return classifier.isTimeSum(op); });
}

namespace {

/// Assigns sections by what depends on which repeat.
class Assigner {
public:
  explicit Assigner(Classifier &classifier) : classifier(classifier) {}
  std::optional<Sections> run();
  /// Finds one read that `carryPastStages` can mend, and does; false where
  /// there is none.
  bool mend();

private:
  Classifier &classifier;
  Sections sections;
  bool hasStages = false;

  bool findRepeats();
  void assign();
  bool reducesStack(Operation *op) const;
  int sectionOf(Operation *op);
  bool arrives(Operation *op, Value value);
  bool checkReads(Operation *op);
  bool carry(Value value);
};

} // namespace

bool Assigner::findRepeats() {
  int forward = 0, backward = 0;
  for (Operation &op : classifier.function.getBody().front()) {
    auto repeat = dyn_cast<clv::RepeatOp>(op);
    if (!repeat || !classifier.isStaged(repeat) ||
        !classifier.isTimed(repeat)) {
      continue;
    }
    int &count = repeat.getReverse() ? backward : forward;
    if (++count > 1) {
      repeat.emitError("the model repeats `")
          << repeat.getDim()
          << "` twice; a pipeline over more than one repeat is not built yet";
      return false;
    }
  }
  hasStages = forward > 0;
  return true;
}

/// Whether an operation reduces a stack of the layers over devices of a stage.
bool Assigner::reducesStack(Operation *op) const {
  if (!isa<spmd::CollectiveInterface>(op)) {
    return false;
  }
  auto repeat = op->getOperand(0).getDefiningOp<clv::RepeatOp>();
  return repeat && classifier.isStaged(repeat) &&
         llvm::is_contained(repeat.getStackedResults(), op->getOperand(0));
}

/// The latest section that it reads from, and its own phase.
int Assigner::sectionOf(Operation *op) {
  if (!hasStages) {
    return ForwardFirst;
  }
  auto repeat = dyn_cast<clv::RepeatOp>(op);
  if (repeat && classifier.isStaged(repeat)) {
    return repeat.getReverse() ? BackwardLayers : ForwardLayers;
  }
  int latest = ForwardFirst;
  for (Value value : codegen::readsOf(op)) {
    auto found = sections.find(value.getDefiningOp());
    if (found != sections.end()) {
      latest = std::max(latest, found->second);
    }
  }
  if (reducesStack(op)) {
    return latest; // on each stage its own layers
  }
  if (latest == ForwardLayers) {
    latest = ForwardLast;
  } else if (latest == BackwardLayers) {
    latest = BackwardFirst;
  }
  clv::ScopeAttr scope = clv::scopeOf(op);
  bool isBackwardPhase =
      scope &&
      static_cast<layout::Phase>(scope.getPhase()) == layout::Phase::Backward;
  return latest == ForwardLast && isBackwardPhase ? int(BackwardLast) : latest;
}

static int positionOf(int section) {
  return section == ForwardFirst || section == BackwardFirst ? 0
         : section == ForwardLast || section == BackwardLast ? 2
                                                             : 1;
}

/// Whether a value that an operation reads gets to where it is done.
bool Assigner::arrives(Operation *op, Value value) {
  Operation *maker = value.getDefiningOp();
  auto found = sections.find(maker);
  int mine = sections[op];
  if (found == sections.end() ||
      positionOf(found->second) == positionOf(mine)) {
    return true;
  }
  auto repeat = dyn_cast<clv::RepeatOp>(op);
  bool starts =
      repeat && classifier.isStaged(repeat) &&
      llvm::is_contained(repeat.getCarried(), value) &&
      found->second == (repeat.getReverse() ? BackwardLast : ForwardFirst);
  if (starts) {
    // It may be read inside as well, by stages that do not have it.
    bool isCaptured = false;
    repeat.getBody().walk([&](Operation *inner) {
      isCaptured |= llvm::is_contained(inner->getOperands(), value);
    });
    return !isCaptured;
  }
  auto from = dyn_cast<clv::RepeatOp>(maker);
  int end = from && from.getReverse() ? 0 : 2;
  return from && classifier.isStaged(from) &&
         llvm::is_contained(from.getCarriedResults(), value) &&
         positionOf(mine) == end;
}

bool Assigner::checkReads(Operation *op) {
  for (Value value : codegen::readsOf(op)) {
    if (arrives(op, value)) {
      continue;
    }
    op->emitError("`") << op->getName().stripDialect() << "` of "
                       << nameOf(sections[op]) << " reads a value of "
                       << nameOf(sections[value.getDefiningOp()])
                       << ", from which no message leads there";
    return false;
  }
  return true;
}

/// Lets `repeat` carry `value` as well; gives the new repeat.
static clv::RepeatOp carryThrough(clv::RepeatOp repeat, Value value) {
  OpBuilder builder(repeat);
  unsigned carried = repeat.getCarried().size();
  SmallVector<Value> starts(repeat.getCarried());
  starts.push_back(value);
  SmallVector<Type> types(repeat.getCarriedResults().getTypes());
  types.push_back(value.getType());
  types.append(repeat.getStackedResults().getTypes().begin(),
               repeat.getStackedResults().getTypes().end());
  auto wider = builder.create<clv::RepeatOp>(
      repeat.getLoc(), types, starts, repeat.getStacked(), repeat.getDim(),
      repeat.getCount(), repeat.getFirst(), repeat.getReverse());
  wider->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  wider.getBody().takeBody(repeat.getBody());
  BlockArgument argument = wider.getBlock()->insertArgument(
      1 + carried, value.getType(), repeat.getLoc());
  Operation *yield = wider.getYield();
  SmallVector<Value> yielded(yield->getOperands());
  yielded.insert(yielded.begin() + carried, argument);
  yield->setOperands(yielded);
  wider.getBody().walk(
      [&](Operation *inner) { inner->replaceUsesOfWith(value, argument); });
  for (unsigned i = 0; i < repeat.getNumResults(); ++i) {
    repeat.getResult(i).replaceAllUsesWith(
        wider.getResult(i < carried ? i : i + 1));
  }
  repeat.erase();
  return wider;
}

/// Brings a value to a reader of other positions; false where no repeat can.
bool Assigner::carry(Value value) {
  int from = sections[value.getDefiningOp()];
  bool backward = positionOf(from) == 2;
  if (positionOf(from) == 1) {
    return false;
  }
  clv::RepeatOp repeat;
  for (auto &[other, section] : sections) {
    auto candidate = dyn_cast<clv::RepeatOp>(other);
    if (candidate && classifier.isStaged(candidate) &&
        candidate.getReverse() == backward) {
      repeat = candidate;
    }
  }
  if (!repeat) {
    return false;
  }
  sections.erase(repeat);
  clv::RepeatOp wider = carryThrough(repeat, value);
  Value end = wider.getResult(wider.getCarried().size() - 1);
  for (auto &[reader, section] : sections) {
    if (positionOf(section) != positionOf(from)) {
      reader->walk(
          [&](Operation *inner) { inner->replaceUsesOfWith(value, end); });
    }
  }
  classifier.forget();
  return true;
}

bool Assigner::mend() {
  if (!findRepeats() || !hasStages) {
    return false;
  }
  assign();
  for (Operation &op :
       classifier.function.getBody().front().without_terminator()) {
    if (!sections.contains(&op)) {
      continue;
    }
    for (Value value : codegen::readsOf(&op)) {
      if (!arrives(&op, value)) {
        return carry(value);
      }
    }
  }
  return false;
}

void Assigner::assign() {
  for (Operation &op :
       classifier.function.getBody().front().without_terminator()) {
    if (classifier.isTimed(&op) && !classifier.isTimeEnd(&op) &&
        !classifier.isOfInputs(&op)) {
      sections[&op] = sectionOf(&op);
    }
  }
}

std::optional<Sections> Assigner::run() {
  if (!findRepeats()) {
    return std::nullopt;
  }
  assign();
  for (Operation &op :
       classifier.function.getBody().front().without_terminator()) {
    if (hasStages && sections.contains(&op) && !checkReads(&op)) {
      return std::nullopt;
    }
  }
  return std::move(sections);
}

void pipelining::carryPastStages(Classifier &classifier) {
  while (Assigner(classifier).mend()) {
  }
}

std::optional<Sections> pipelining::assignSections(Classifier &classifier) {
  return Assigner(classifier).run();
}
