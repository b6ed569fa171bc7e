//===- ExecVerify.cpp - Verifiers of the exec dialect ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// References are values, so that they cannot dangle; what is left are types,
// ranks, places in memory, and pairs of start and wait. What depends on the
// pieces of single devices (room for the largest, equal cuts, views that may
// overlap) runtime/format/Verify.h checks.
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Exec.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

//===----------------------------------------------------------------------===//
// What verifiers share
//===----------------------------------------------------------------------===//

static LogicalResult verifyElement(Operation *op, Type element) {
  bool isNarrow = element.isBF16() && isa<ValueOp>(op);
  if (!element.isF32() && !element.isInteger(32) && !element.isInteger(1) &&
      !isNarrow) {
    return op->emitOpError("holds f32, i32 or i1, not ") << element;
  }
  return success();
}

static LogicalResult verifyDims(Operation *op, ArrayAttr dims,
                                ArrayRef<int64_t> sizes) {
  if (dims.size() != sizes.size()) {
    return op->emitOpError("has ")
           << dims.size() << " dims and " << sizes.size() << " sizes";
  }
  return success();
}

static LogicalResult verifyNumber(Operation *op, StringRef what, uint64_t value,
                                  int64_t largest) {
  if (static_cast<int64_t>(value) < 0 ||
      static_cast<int64_t>(value) > largest) {
    return op->emitOpError("has ") << what << " " << static_cast<int64_t>(value)
                                   << ", which is out of range";
  }
  return success();
}

static constexpr int64_t anyNumber = std::numeric_limits<int64_t>::max();
static constexpr int64_t anyIndex = std::numeric_limits<uint32_t>::max();

/// Atoms of the plan's mesh, each once.
static LogicalResult verifyAtoms(Operation *op, ArrayRef<int64_t> atoms) {
  int64_t count = static_cast<int64_t>(
      op->getParentOfType<PlanOp>().getMesh().getAtomNames().size());
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t atom : atoms) {
    if (atom < 0 || atom >= count) {
      return op->emitOpError("names atom ")
             << atom << ", and the mesh has " << count;
    }
    if (!seen.insert(atom).second) {
      return op->emitOpError("names atom ") << atom << " twice";
    }
  }
  return success();
}

/// Triples of atom, begin and end; of one atom there may be several.
static LogicalResult verifyResidence(Operation *op, ArrayRef<int64_t> triples) {
  if (triples.empty() || triples.size() % 3 != 0) {
    return op->emitOpError("resides on triples of atom, begin and end");
  }
  for (; !triples.empty(); triples = triples.drop_front(3)) {
    if (failed(verifyAtoms(op, triples.front()))) {
      return failure();
    }
    if (triples[1] < 0 || triples[1] >= triples[2]) {
      return op->emitOpError("resides on an empty range");
    }
  }
  return success();
}

static LogicalResult verifyResidence(Operation *op,
                                     std::optional<ArrayRef<int64_t>> triples) {
  return triples ? verifyResidence(op, *triples) : success();
}

/// The declarations of a value's dims and what they are.
static ValueOp valueOf(const View &view) {
  return view.buffer.getDefiningOp<ValueOp>();
}

static OperandRange extentsOf(const View &view) {
  return valueOf(view).getExtents().drop_front(view.iteration ? 1 : 0);
}

static int64_t sizeOf(Value extent) {
  return static_cast<int64_t>(extent.getDefiningOp<ExtentOp>().getSize());
}

/// Whether a value is the result of an operation of its type's kind that stands
/// before `op`, and so is verified.
template <typename Declaration>
static bool isDeclared(Value value, Operation *op) {
  auto declaration = value.getDefiningOp<Declaration>();
  if (!declaration) {
    return false;
  }
  Operation *here = declaration->getBlock()->findAncestorOpInBlock(*op);
  return here && declaration->isBeforeInBlock(here);
}

static bool isIterationOfLoop(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument &&
         isa_and_nonnull<LoopOp>(argument.getOwner()->getParentOp());
}

/// The verifiers read the declarations of operands. That each is of its kind
/// and known to be right, types alone do not say.
static LogicalResult verifyDeclared(Operation *op) {
  for (Value operand : op->getOperands()) {
    bool declared =
        TypeSwitch<Type, bool>(operand.getType())
            .Case([&](LeafType) { return isDeclared<LeafOp>(operand, op); })
            .Case([&](InputType) { return isDeclared<InputOp>(operand, op); })
            .Case([&](ExtentType) { return isDeclared<ExtentOp>(operand, op); })
            .Case([&](SiteType) { return isDeclared<SiteOp>(operand, op); })
            .Case([&](BufferType) { return isDeclared<ValueOp>(operand, op); })
            .Case([&](SlotsType) { return isDeclared<SlotsOp>(operand, op); })
            .Case([&](IterationType) { return isIterationOfLoop(operand); })
            .Case([&](TokenType) { return isDeclared<StartOp>(operand, op); })
            .Default(false);
    if (!declared) {
      return op->emitOpError("refers to what is not declared before it");
    }
  }
  return success();
}

/// `count` views, or any number where it is -1.
static LogicalResult verifyViews(Operation *op, OperandRange operands,
                                 int count) {
  if (failed(verifyDeclared(op))) {
    return failure();
  }
  bool buffer = false; // that may be followed by an iteration
  int seen = 0;
  for (Value operand : operands) {
    if (isa<BufferType>(operand.getType())) {
      buffer = true;
      ++seen;
      continue;
    }
    if (!buffer) {
      return op->emitOpError("has an iteration that slices nothing");
    }
    buffer = false;
  }
  if (count >= 0 && seen != count) {
    return op->emitOpError("has ") << seen << " views instead of " << count;
  }
  for (const View &view : viewsIn(operands)) {
    if (view.iteration && valueOf(view).getExtents().empty()) {
      return op->emitOpError("slices a scalar");
    }
  }
  return success();
}

/// Of two views that one is made from the other.
static LogicalResult verifyAlike(Operation *op, ArrayRef<View> views) {
  size_t source = extentsOf(views[0]).size(),
         target = extentsOf(views[1]).size();
  if (source != target) {
    return op->emitOpError("has a source of rank ")
           << source << " and a target of rank " << target;
  }
  if (valueOf(views[0]).getElement() != valueOf(views[1]).getElement()) {
    return op->emitOpError("has a source and a target of different types");
  }
  return success();
}

/// What a region holds says the operations' own verifiers; here that there is
/// nothing else.
static LogicalResult verifyContents(Operation *op) {
  for (Operation &inner : op->getRegion(0).front()) {
    if (!isa<ExecDialect>(inner.getDialect())) {
      return inner.emitOpError("has no table in a plan file");
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The set
//===----------------------------------------------------------------------===//

LogicalResult LeafOp::verify() {
  return failure(failed(verifyElement(*this, getElement())) ||
                 failed(verifyDims(*this, getDims(), getSizes())));
}

LogicalResult RunOp::verify() {
  if (getSnapshots() > std::numeric_limits<uint32_t>::max()) {
    return emitOpError("makes snapshots every ") << getSnapshots() << " steps";
  }
  if (getMean().has_value() != getKeep().has_value() ||
      getMean().has_value() != getLimit().has_value()) {
    return emitOpError("says of the mean of gradients a part only");
  }
  return getBatches().value_or(ArrayRef<int64_t>()).size() % 2 == 0
             ? success()
             : emitOpError("has batches that are no pairs");
}

/// A number, an operation, or what is measured.
static bool isTerm(Attribute term) {
  auto measure = dyn_cast<ArrayAttr>(term);
  if (!measure) {
    return isa<FloatAttr, StringAttr>(term);
  }
  return measure.size() == 5 && isa<StringAttr>(measure[0]) &&
         isa<StringAttr>(measure[1]) && isa<IntegerAttr>(measure[2]) &&
         isa<StringAttr>(measure[3]) && isa<StringAttr>(measure[4]);
}

LogicalResult RuleOp::verify() {
  for (Attribute term : getCondition()) {
    if (!isTerm(term)) {
      return emitOpError("has a term that is none: ") << term;
    }
  }
  uint64_t most = std::numeric_limits<uint32_t>::max();
  return getDuring() <= most && getApart() <= most && getLine() <= most
             ? success()
             : emitOpError("has a number that is too large");
}

/// At most one run, before its rules.
static LogicalResult verifyRun(SetOp set) {
  bool before = false;
  for (Operation &op : set.getBody().front()) {
    if (isa<RunOp>(op)) {
      if (before) {
        return op.emitOpError("is there twice");
      }
      before = true;
    } else if (isa<RuleOp>(op) && !before) {
      return op.emitOpError("is a rule of no run");
    }
  }
  return success();
}

/// The kernels that the set declares.
static LogicalResult readSymbols(SetOp set, llvm::StringSet<> &symbols) {
  bool before = false;
  for (auto kernels : set.getBody().getOps<KernelsOp>()) {
    if (before) {
      return kernels.emitOpError("is there twice");
    }
    before = true;
    for (auto symbol : kernels.getSymbols().getAsRange<StringAttr>()) {
      if (!symbols.insert(symbol.getValue()).second) {
        return kernels.emitOpError("names `") << symbol.getValue() << "` twice";
      }
    }
  }
  return success();
}

/// 64 bits, hexadecimal.
static bool isHash(Attribute attr) {
  uint64_t value = 0;
  return !cast<StringAttr>(attr).getValue().getAsInteger(16, value);
}

LogicalResult SetOp::verifyRegions() {
  if (failed(verifyContents(*this))) {
    return failure();
  }
  if (getMathematics() && (getMathematics()->size() != 2 ||
                           !llvm::all_of(*getMathematics(), isHash))) {
    return emitOpError("has other than two hashes of its mathematics");
  }
  if (!isa_and_nonnull<PlanOp>(
          mlir::SymbolTable::lookupSymbolIn(*this, getStartAttr()))) {
    return emitOpError("starts with plan `")
           << getStart() << "`, which it does not hold";
  }
  llvm::StringSet<> symbols;
  if (failed(readSymbols(*this, symbols)) || failed(verifyRun(*this))) {
    return failure();
  }
  llvm::DenseSet<std::pair<StringAttr, StringAttr>> leaves;
  for (auto leaf : getBody().getOps<LeafOp>()) {
    if (!leaves.insert({leaf.getPathAttr(), leaf.getStateAttr()}).second) {
      return leaf.emitOpError("`") << leaf.getPath() << "` is there twice";
    }
  }
  WalkResult walked = walk([&](KernelOp kernel) {
    if (!symbols.contains(kernel.getKernel())) {
      kernel.emitOpError("calls `")
          << kernel.getKernel() << "`, which `exec.kernels` does not name";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// A plan
//===----------------------------------------------------------------------===//

/// A kind, an axis and bytes.
static bool isTraffic(Attribute attr) {
  auto entry = dyn_cast<ArrayAttr>(attr);
  return entry && entry.size() == 3 && isa<StringAttr>(entry[0]) &&
         isa<StringAttr>(entry[1]) && isa<IntegerAttr>(entry[2]);
}

LogicalResult PlanOp::verifyRegions() {
  if (failed(verifyContents(*this))) {
    return failure();
  }
  for (Attribute entry :
       getTraffic().value_or(ArrayAttr::get(getContext(), {}))) {
    if (!isTraffic(entry)) {
      return emitOpError("sends what is none: ") << entry;
    }
  }
  auto leaves = (*this)->getParentOfType<SetOp>().getBody().getOps<LeafOp>();
  auto leaf = leaves.begin();
  for (auto layout : getBody().getOps<LayoutOp>()) {
    if (leaf == leaves.end() || layout.getLeaf() != (*leaf).getResult()) {
      return layout.emitOpError("is not of the leaf that is next in the set");
    }
    ++leaf;
  }
  if (leaf != leaves.end()) {
    return emitOpError("has no layout for leaf `") << (*leaf).getPath() << "`";
  }
  return success();
}

LogicalResult LayoutOp::verify() {
  if (failed(verifyDeclared(*this))) {
    return failure();
  }
  auto leaf = getLeaf().getDefiningOp<LeafOp>();
  if (getSplits().size() != leaf.getSizes().size()) {
    return emitOpError("splits ")
           << getSplits().size() << " dims, and the leaf has "
           << leaf.getSizes().size();
  }
  SmallVector<int64_t> atoms;
  for (Attribute attr : getSplits()) {
    auto split = dyn_cast<spmd::SplitAttr>(attr);
    if (!split) {
      return emitOpError("has a split that is none: ") << attr;
    }
    llvm::append_range(atoms, split.getAtoms());
  }
  if (failed(verifyAtoms(*this, atoms)) ||
      failed(verifyResidence(*this, getResidence()))) {
    return failure();
  }
  ArrayRef<int64_t> triples = getResidence().value_or(ArrayRef<int64_t>());
  for (; !triples.empty(); triples = triples.drop_front(3)) {
    if (llvm::is_contained(atoms, triples.front())) {
      return emitOpError("names atom ") << triples.front() << " twice";
    }
  }
  return success();
}

LogicalResult ExtentOp::verify() {
  if (failed(verifyNumber(*this, "size", getSize(), anyNumber))) {
    return failure();
  }
  return getSplit() ? verifyAtoms(*this, getSplit()->getAtoms()) : success();
}

LogicalResult SiteOp::verify() {
  return verifyNumber(*this, "line", getLine(), anyIndex);
}

//===----------------------------------------------------------------------===//
// A program
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verifyRegions() {
  if (failed(verifyContents(*this)) ||
      failed(verifyNumber(*this, "an arena of", getArenaBytes(), anyNumber))) {
    return failure();
  }
  bool outputs = false;
  UpdateOp update;
  for (Operation &op : getBody().front()) {
    if (isa<OutputOp, HandoverOp>(op)) {
      outputs = true;
    } else if (outputs) {
      return op.emitOpError("stands after an output: those come last");
    }
    if (auto found = dyn_cast<UpdateOp>(op)) {
      if (update) {
        return op.emitOpError("is there twice");
      }
      update = found;
    }
    if (isa<HandoverOp>(op) && !update) {
      return op.emitOpError("is of no update");
    }
  }
  auto pipelines = getBody().getOps<PipelineOp>();
  size_t count = std::distance(pipelines.begin(), pipelines.end());
  if (count > 1) {
    return (*std::next(pipelines.begin())).emitOpError("is there twice");
  }
  auto slots = getBody().getOps<SlotsOp>();
  if (count == 0 && slots.begin() != slots.end()) {
    return (*slots.begin()).emitOpError("is of no pipeline");
  }
  llvm::DenseSet<uint64_t> ids;
  WalkResult walked = walk([&](StartOp start) {
    if (!ids.insert(start.getId()).second) {
      start.emitOpError("has the number of another collective");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult InputOp::verify() {
  return failure(failed(verifyElement(*this, getElement())) ||
                 failed(verifyDims(*this, getDims(), getSizes())) ||
                 failed(verifyNumber(*this, "shift", getShift(), anyNumber)) ||
                 failed(verifyNumber(*this, "bound", getBound(), anyNumber)));
}

/// Of a value that is a leaf or an input: as that is declared.
template <typename Declaration>
static LogicalResult verifyStandsFor(ValueOp value, Declaration of) {
  if (value.getElement() != of.getElement()) {
    return value.emitOpError("is of ")
           << value.getElement() << " and stands for " << of.getElement();
  }
  ArrayRef<int64_t> sizes = of.getSizes();
  if (value.getExtents().size() != sizes.size()) {
    return value.emitOpError("has ")
           << value.getExtents().size() << " extents and stands for rank "
           << sizes.size();
  }
  for (auto [extent, size] : llvm::zip(value.getExtents(), sizes)) {
    if (sizeOf(extent) != size) {
      return value.emitOpError("has an extent of ")
             << sizeOf(extent) << " where it stands for " << size;
    }
  }
  return success();
}

/// Of the arena, or of a slot of so many bytes.
static LogicalResult verifyPlace(ValueOp value, int64_t offset, int64_t room,
                                 StringRef what) {
  int64_t bytes = static_cast<int64_t>(value.getBytes());
  if (offset < 0 || offset % 64 != 0) {
    return value.emitOpError("is at ") << offset << ", no multiple of 64";
  }
  if (offset > room || bytes > room - offset) {
    return value.emitOpError("ends outside ")
           << what << " of " << room << " bytes";
  }
  return success();
}

LogicalResult SlotsOp::verify() {
  if (failed(verifyNumber(*this, "bytes", getBytes(), anyNumber)) ||
      failed(verifyNumber(*this, "a begin of", getBegin(), anyIndex)) ||
      failed(verifyNumber(*this, "an end of", getEnd(), anyIndex))) {
    return failure();
  }
  return getBegin() < getEnd() ? success() : emitOpError("is at no position");
}

LogicalResult ValueOp::verify() {
  if (failed(verifyDeclared(*this)) ||
      failed(verifyElement(*this, getElement())) ||
      failed(verifyNumber(*this, "bytes", getBytes(), anyNumber))) {
    return failure();
  }
  if (int(getOffset().has_value()) + int(bool(getLeaf())) +
          int(bool(getInput())) + int(bool(getSlots())) !=
      1) {
    return emitOpError(
        "must lie in one of the arena, a leaf, an input and slots");
  }
  if (bool(getSlots()) != getPlace().has_value()) {
    return emitOpError("has a place in slots, and no other value has");
  }
  if (getOffset()) {
    auto program = (*this)->getParentOfType<ProgramOp>();
    return verifyPlace(*this, static_cast<int64_t>(*getOffset()),
                       static_cast<int64_t>(program.getArenaBytes()),
                       "the arena");
  }
  if (Value slots = getSlots()) {
    auto room = static_cast<int64_t>(slots.getDefiningOp<SlotsOp>().getBytes());
    return verifyPlace(*this, static_cast<int64_t>(*getPlace()), room,
                       "its slot");
  }
  return getLeaf()
             ? verifyStandsFor(*this, getLeaf().getDefiningOp<LeafOp>())
             : verifyStandsFor(*this, getInput().getDefiningOp<InputOp>());
}

/// What outputs and handovers have in common: a value with its global shape.
template <typename Op> static LogicalResult verifyShown(Op op) {
  if (failed(verifyDeclared(op)) ||
      failed(verifyDims(op, op.getDims(), op.getSizes())) ||
      failed(verifyResidence(op, op.getResidence()))) {
    return failure();
  }
  auto value = op.getValue().template getDefiningOp<ValueOp>();
  if (value.getExtents().size() != op.getSizes().size()) {
    return op.emitOpError("is of rank ")
           << op.getSizes().size() << " and its value of rank "
           << value.getExtents().size();
  }
  for (auto [extent, size] : llvm::zip(value.getExtents(), op.getSizes())) {
    if (sizeOf(extent) != size) {
      return op.emitOpError("has size ")
             << size << " where its value has " << sizeOf(extent);
    }
  }
  return success();
}

LogicalResult HandoverOp::verify() {
  if (failed(verifyShown(*this)) ||
      failed(verifyNumber(*this, "a ready of", getReady(), anyNumber)) ||
      (getLoop() &&
       failed(verifyNumber(*this, "a loop at", *getLoop(), anyNumber)))) {
    return failure();
  }
  if (!getValue().getDefiningOp<ValueOp>().getElement().isF32()) {
    return emitOpError("must be of f32");
  }
  return success();
}

LogicalResult OutputOp::verify() {
  if (failed(verifyShown(*this))) {
    return failure();
  }
  auto value = getValue().getDefiningOp<ValueOp>();
  bool scalar =
      getKind() == OutputKind::Loss || getKind() == OutputKind::GradientNorm;
  if (scalar && (!getSizes().empty() || !value.getElement().isF32())) {
    return emitOpError("must be an f32 scalar");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  if (failed(verifyViews(*this, getViews(), -1))) {
    return failure();
  }
  auto source = getSources().begin();
  size_t literals = 0;
  for (int32_t number : getKinds()) {
    std::optional<IntegerKind> kind = symbolizeIntegerKind(number);
    if (!kind) {
      return emitOpError("has an integer of unknown kind ") << number;
    }
    if (*kind == IntegerKind::Literal) {
      ++literals;
      continue;
    }
    if (source == getSources().end()) {
      return emitOpError("has more integers than sources of integers");
    }
    if (isa<IterationType>((*source++).getType()) !=
        (*kind == IntegerKind::Iteration)) {
      return emitOpError("has an integer whose source is of another kind");
    }
  }
  if (source != getSources().end() || literals != getLiterals().size()) {
    return emitOpError("has fewer integers than sources of integers");
  }
  return success();
}

/// Each dim of each view has one place in the list.
static LogicalResult verifyPositions(ContractOp op, ArrayRef<View> views) {
  for (int which = 0; which < 3; ++which) {
    OperandRange extents = extentsOf(views[which]);
    SmallVector<bool> covered(extents.size(), false);
    for (auto [i, dim] : llvm::enumerate(op.getDims())) {
      int32_t at = op.getPositions()[3 * i + which];
      if (at == -1) {
        continue;
      }
      if (at < 0 || at >= static_cast<int64_t>(extents.size()) || covered[at]) {
        return op.emitOpError("has a dim at position ")
               << at << " of view " << which << ", which has rank "
               << extents.size();
      }
      covered[at] = true;
      if (sizeOf(extents[at]) != sizeOf(dim)) {
        return op.emitOpError("has a dim of ")
               << sizeOf(dim) << " where view " << which << " has "
               << sizeOf(extents[at]);
      }
    }
    if (llvm::is_contained(covered, false)) {
      return op.emitOpError("does not name every dim of view ") << which;
    }
  }
  return success();
}

LogicalResult ContractOp::verify() {
  if (failed(verifyViews(*this, getViews(), 3))) {
    return failure();
  }
  if (getPositions().size() != 3 * getDims().size()) {
    return emitOpError("needs three positions for each dim");
  }
  SmallVector<View> views = viewsIn(getViews());
  Type factor = valueOf(views[0]).getElement();
  factor = factor.isBF16() ? factor : Float32Type::get(getContext());
  for (auto [i, view] : llvm::enumerate(views)) {
    Type element = valueOf(view).getElement();
    if (i == 2 ? !element.isF32() : element != factor) {
      return emitOpError("contracts f32 or bf16 to f32, not ") << element;
    }
  }
  return verifyPositions(*this, views);
}

LogicalResult WaitOp::verify() { return verifyDeclared(*this); }

LogicalResult FillOp::verify() { return verifyViews(*this, getViews(), 1); }

LogicalResult MoveOp::verify() {
  if (failed(verifyViews(*this, getViews(), 2))) {
    return failure();
  }
  SmallVector<View> views = viewsIn(getViews());
  if (failed(verifyAlike(*this, views))) {
    return failure();
  }
  if (getShift().size() != extentsOf(views[0]).size()) {
    return emitOpError("has ") << getShift().size() << " distances for rank "
                               << extentsOf(views[0]).size();
  }
  return success();
}

/// Whoever starts a collective waits for it, in the same turn of a loop.
static LogicalResult verifyWaited(StartOp start) {
  if (!start.getToken().hasOneUse()) {
    return start.emitOpError(start.getToken().use_empty()
                                 ? "is never waited for"
                                 : "is waited for more than once");
  }
  Operation *wait = *start.getToken().user_begin();
  if (!isa<WaitOp>(wait) || wait->getBlock() != start->getBlock()) {
    return start.emitOpError("must be waited for in the block that starts it");
  }
  return success();
}

/// How far a collective moves its source along each dim.
static LogicalResult verifyDistances(StartOp start, OperandRange extents) {
  std::optional<ArrayRef<int64_t>> by = start.getBy();
  if (!by) {
    return success();
  }
  if (by->size() != extents.size()) {
    return start.emitOpError("has ")
           << by->size() << " distances for rank " << extents.size();
  }
  for (auto [distance, extent] : llvm::zip(*by, extents)) {
    if (distance < 0 || (distance > 0 && distance >= sizeOf(extent))) {
      return start.emitOpError("moves by ")
             << distance << " around " << sizeOf(extent);
    }
  }
  if (llvm::count_if(*by, [](int64_t distance) { return distance; }) > 1) {
    return start.emitOpError("moves more than one dim around");
  }
  return success();
}

LogicalResult StartOp::verify() {
  if (failed(verifyViews(*this, getViews(), 2)) ||
      failed(verifyNumber(*this, "number", getId(), anyIndex)) ||
      failed(verifyAtoms(*this, getGroup())) ||
      failed(verifyAtoms(*this, getPartial())) ||
      failed(verifyResidence(*this, getHolders())) ||
      failed(verifyWaited(*this))) {
    return failure();
  }
  SmallVector<View> views = viewsIn(getViews());
  if (failed(verifyAlike(*this, views))) {
    return failure();
  }
  for (auto [source, target] :
       llvm::zip(extentsOf(views[0]), extentsOf(views[1]))) {
    if (sizeOf(source) != sizeOf(target)) {
      return emitOpError("has a source of size ")
             << sizeOf(source) << " and a target of size " << sizeOf(target);
    }
  }
  for (int64_t atom : getPartial()) {
    if (!llvm::is_contained(getGroup(), atom)) {
      return emitOpError("reduces over atom ")
             << atom << ", which is not in its group";
    }
  }
  return verifyDistances(*this, extentsOf(views[0]));
}

LogicalResult LoopOp::verify() {
  if (getBody().empty() || getBody().getNumArguments() != 1 ||
      !isa<IterationType>(getBody().getArgument(0).getType())) {
    return emitOpError("needs a body with its iteration as argument");
  }
  if (getExtent() && getFirst() != 0) {
    return emitOpError("over an extent begins at 0");
  }
  return failure(failed(verifyDeclared(*this)) ||
                 failed(verifyNumber(*this, "first", getFirst(), anyNumber)) ||
                 failed(verifyNumber(*this, "count", getCount(), anyNumber)));
}

LogicalResult LoopOp::verifyRegions() { return verifyContents(*this); }

LogicalResult OnlyOp::verify() {
  return verifyResidence(*this, getResidence());
}

LogicalResult OnlyOp::verifyRegions() { return verifyContents(*this); }

//===----------------------------------------------------------------------===//
// A pipeline
//===----------------------------------------------------------------------===//

LogicalResult PipelineOp::verify() {
  SmallVector<int64_t> atoms(getPipe());
  llvm::append_range(atoms, getMicro());
  llvm::append_range(atoms, getChunk());
  if (failed(verifyAtoms(*this, atoms))) {
    return failure();
  }
  spmd::MeshAttr mesh = (*this)->getParentOfType<PlanOp>().getMesh();
  int64_t times = mesh.getTimes();
  int64_t first = static_cast<int64_t>(mesh.getAtomNames().size()) - times;
  for (auto [i, atom] : llvm::enumerate(atoms)) {
    bool time = i >= getPipe().size();
    if (time != (atom >= first)) {
      return emitOpError("names atom ")
             << atom << ", which is " << (time ? "no time" : "a time");
    }
  }
  return success();
}

LogicalResult PipelineOp::verifyRegions() {
  for (Operation &op : getBody().front()) {
    if (!isa<SectionOp, MessageOp, StreamOp>(op)) {
      return op.emitOpError("stands outside the sections of a pipeline");
    }
  }
  return success();
}

LogicalResult SectionOp::verify() {
  if (failed(verifyNumber(*this, "a begin of", getBegin(), anyIndex)) ||
      failed(verifyNumber(*this, "an end of", getEnd(), anyIndex))) {
    return failure();
  }
  return getBegin() < getEnd() ? success() : emitOpError("is at no position");
}

LogicalResult SectionOp::verifyRegions() { return verifyContents(*this); }

LogicalResult MessageOp::verify() {
  if (failed(verifyNumber(*this, "a begin of", getBegin(), anyIndex)) ||
      failed(verifyNumber(*this, "an end of", getEnd(), anyIndex)) ||
      failed(verifyViews(*this, getViews(), 2))) {
    return failure();
  }
  if (getBegin() >= getEnd()) {
    return emitOpError("crosses no boundary");
  }
  SmallVector<View> views = viewsIn(getViews());
  for (const View &view : views) {
    if (view.iteration || !valueOf(view).getSlots()) {
      return emitOpError("is between whole values in slots");
    }
  }
  return verifyAlike(*this, views);
}

LogicalResult StreamOp::verify() {
  ArrayRef<int64_t> steps = getSteps();
  if (steps.size() % 3 != 0) {
    return emitOpError("has three numbers for each step");
  }
  for (; !steps.empty(); steps = steps.drop_front(3)) {
    if (steps[0] < 0 || steps[0] > anyIndex ||
        !symbolizeStepKind(static_cast<uint32_t>(steps[0]))) {
      return emitOpError("has a step of unknown kind ") << steps[0];
    }
    if (steps[1] < 0 || steps[1] > std::numeric_limits<uint16_t>::max() ||
        steps[2] < 0 || steps[2] > anyIndex) {
      return emitOpError("has a chunk or microbatch that is out of range");
    }
  }
  return success();
}
