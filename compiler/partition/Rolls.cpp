//===- Rolls.cpp - A dim that moves around its end ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition. A *roll* of x along a dim of n elements by b is the value whose
// element i is element (i - b) mod n of x. In the language it is two slices of
// x, joined the other way round, thus a sum of two pads:
//
//   pad(slice(x, 4 .. 16), at 0) + pad(slice(x, 0 .. 4), at 12)     n 16, b 12
//
// Its gradient is such a sum too, a roll by n - b. Where the dim is split, each
// part alone would be a collective. As a roll it is one shift, in which each
// device sends what another one has afterwards.
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Function.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using layout::Layout;

namespace {

/// Elements of a value that go elsewhere along one of its dims.
struct Part {
  clv::SliceOp slice;
  clv::PadOp pad;
  int64_t first = 0;  ///< where they go
  int64_t size = 0;   ///< how many there are
  int64_t offset = 0; ///< how far they go
};

} // namespace

static std::optional<Part> partOf(clv::PadOp pad) {
  auto slice = pad.getX().getDefiningOp<clv::SliceOp>();
  if (!slice || !slice->hasOneUse() || !pad->hasOneUse() ||
      slice.getDim() != pad.getTo() || slice.getTo() != pad.getDim() ||
      slice.getX().getType() != pad.getResult().getType() ||
      slice->getBlock() != pad->getBlock()) {
    return std::nullopt;
  }
  auto first = static_cast<int64_t>(pad.getFirst());
  return Part{slice, pad, first,
              clv::sizeOf(pad.getX().getType(), pad.getDim()),
              first - static_cast<int64_t>(slice.getFirst())};
}

/// The last of the sums of equal type that a value is a term of.
static Operation *sumOf(Operation *term) {
  Operation *top = term;
  while (top->hasOneUse()) {
    auto sum = dyn_cast<clv::AddOp>(*top->getUsers().begin());
    if (!sum || sum->getBlock() != term->getBlock() ||
        sum.getLhs().getType() != sum.getRhs().getType()) {
      break;
    }
    top = sum;
  }
  return top;
}

/// Whether two parts are the two of one roll.
static bool makeRoll(Part a, Part b) {
  if (a.first > b.first) {
    return makeRoll(b, a);
  }
  int64_t size = clv::sizeOf(a.slice.getX().getType(), a.slice.getDim());
  return a.slice.getX() == b.slice.getX() &&
         a.slice.getDim() == b.slice.getDim() && a.first == 0 &&
         a.size == b.first && a.size + b.size == size &&
         b.offset - a.offset == size && sumOf(a.pad) == sumOf(b.pad);
}

/// The sum without `term`, one of its two.
static void dropTerm(clv::AddOp sum, Value term) {
  sum.getResult().replaceAllUsesWith(sum.getLhs() == term ? sum.getRhs()
                                                          : sum.getLhs());
  sum.erase();
}

static void erasePart(Part &part) {
  part.pad.erase();
  part.slice.erase();
}

/// Writes two parts as one shift of the whole dim.
static void foldRoll(Part a, Part b) {
  auto sum = cast<clv::AddOp>(*b.pad->getUsers().begin());
  // What they make together is declared as their sum, where they have one.
  bool isAlone = *a.pad->getUsers().begin() == sum;
  Operation *named = isAlone ? sum.getOperation() : a.pad.getOperation();
  OpBuilder builder(named);
  Value x = a.slice.getX();
  auto roll = builder.create<spmd::ShiftOp>(
      named->getLoc(), a.pad.getResult().getType(), x, ArrayRef<int64_t>(), "",
      "", a.slice.getDimAttr(), std::max(a.offset, b.offset));
  clv::setScope(roll, clv::scopeOf(named));
  if (isAlone) {
    sum.getResult().replaceAllUsesWith(roll.getResult());
    sum.erase();
  } else {
    dropTerm(sum, b.pad.getResult());
    a.pad.getResult().replaceAllUsesWith(roll.getResult());
  }
  erasePart(a);
  erasePart(b);
}

void partitioning::foldRolls(Block &block) {
  SmallVector<Part> parts;
  for (Operation &op : block) {
    for (Region &region : op.getRegions()) {
      llvm::for_each(region, foldRolls);
    }
    if (auto pad = dyn_cast<clv::PadOp>(op)) {
      if (std::optional<Part> part = partOf(pad)) {
        parts.push_back(*part);
      }
    }
  }
  while (!parts.empty()) {
    Part last = parts.pop_back_val();
    auto *other = llvm::find_if(
        parts, [&](const Part &part) { return makeRoll(part, last); });
    if (other != parts.end()) {
      Part first = *other;
      parts.erase(other);
      foldRoll(first, last);
    }
  }
}

/// The position of the dim that a roll moves.
static size_t dimOf(spmd::ShiftOp roll) {
  return clv::findDim(roll.getX().getType(), *roll.getDim());
}

/// Where no device has to send anything: slices of a whole dim, joined.
Value FunctionPartitioner::rollWhole(spmd::ShiftOp roll) {
  Value x = roll.getX();
  size_t dim = dimOf(roll);
  auto by = static_cast<int64_t>(roll.getBy());
  SmallVector<StringRef> names = clv::dimsOf(x);
  SmallVector<int64_t> sizes = spmd::globalSizes(x.getType());
  Layout layout = spmd::layoutOf(x.getType());
  std::string name = names[dim].str(), part = name + ".part";
  int64_t size = sizes[dim];
  names[dim] = part;
  builder.setInsertionPoint(roll);
  auto scoped = [&](auto op) -> Value {
    clv::setScope(op, clv::scopeOf(roll));
    return op.getResult();
  };
  auto place = [&](int64_t first, int64_t count, int64_t at) {
    sizes[dim] = count;
    Type type =
        spmd::localType(cast<RankedTensorType>(x.getType()).getElementType(),
                        names, sizes, layout, mesh);
    Value slice = scoped(builder.create<clv::SliceOp>(
        roll.getLoc(), type, x, builder.getStringAttr(name),
        builder.getStringAttr(part), builder.getI64IntegerAttr(first)));
    return scoped(builder.create<clv::PadOp>(
        roll.getLoc(), x.getType(), slice, builder.getStringAttr(part),
        builder.getStringAttr(name), builder.getI64IntegerAttr(at)));
  };
  Value end = place(0, size - by, by), begin = place(size - by, by, 0);
  return scoped(
      builder.create<clv::AddOp>(roll.getLoc(), x.getType(), begin, end));
}

/// Makes of a roll the one collective that it is, of a split dim.
void FunctionPartitioner::rollSplit(spmd::ShiftOp roll, const Need &need,
                                    const Layout &result) {
  Value x = roll.getX();
  size_t dim = dimOf(roll);
  auto by = static_cast<int64_t>(roll.getBy());
  Layout from = spmd::layoutOf(x.getType());
  reshard::Move step;
  step.kind = reshard::Kind::Shift;
  step.atoms = from.dims[dim].atoms;
  std::sort(step.atoms.begin(), step.atoms.end());
  step.result = result;
  step.traffic = reshard::rollTraffic(from, result, dim, by, subjectOf(x));
  Notes before = notes.lookup(x);
  std::string axes = "`" + mesh.describe(from.dims[dim].atoms) + "`";
  std::string name = "`" + clv::dimsOf(x)[dim].str() + "`";
  std::string why = dim < before.why.size() ? before.why[dim] : "";
  std::string reason = name + " is split on " + axes +
                       (why.empty() ? "" : " by " + why) +
                       "; its elements move along it by " + std::to_string(by) +
                       ", around its end";
  std::string avoid = "keep " + name + " whole on " + axes;
  roll.setAtoms(SmallVector<int64_t>(step.atoms.begin(), step.atoms.end()));
  roll.setReason(reason);
  roll.setAvoid(avoid);
  roll.getResult().setType(
      cast<RankedTensorType>(localOf(x.getType(), result)));
  addRecord(roll, step, need, before, reason, avoid);
}

/// The dim is cut as x has it, where the result is declared on the same atoms,
/// else as the result is declared. A pending sum stays pending.
LogicalResult FunctionPartitioner::runRoll(spmd::ShiftOp roll) {
  const Declared *declared = declaredOf(roll.getResult(), roll.getLoc());
  if (!declared) {
    return failure();
  }
  size_t dim = dimOf(roll);
  Layout now = spmd::layoutOf(roll.getX().getType());
  Layout result = declared->layout(), wanted = result;
  bool isFree = now.dims[dim].isWhole();
  if (isFree || now.dims[dim].atoms == result.dims[dim].atoms) {
    wanted.dims[dim] = now.dims[dim];
  }
  for (layout::AtomId atom : now.partial) {
    if (!result.uses(atom) && !wanted.uses(atom)) {
      wanted.partial.push_back(atom);
    }
  }
  wanted.reduction = now.reduction;
  Need need;
  need.op = roll;
  need.operation = "roll along " + clv::dimsOf(roll.getX())[dim].str();
  need.source = pointOf(roll.getLoc());
  need.layout = wanted;
  need.why = sentencesOf(*declared);
  need.info = notes.lookup(roll.getX()).info;
  need.scope = clv::scopeOf(roll);
  if (need.scope) {
    need.info.phase = static_cast<layout::Phase>(need.scope.getPhase());
  }
  need.sentence = "`" + need.operation + "` needs it so";
  roll.setOperand(move(roll.getX(), need));
  Notes after = notes.lookup(roll.getX());
  Value value = roll.getResult();
  if (wanted.dims[dim].isWhole()) {
    Value whole = rollWhole(roll);
    value.replaceAllUsesWith(whole);
    roll.erase();
    value = whole;
  } else {
    result.partial = wanted.partial;
    result.reduction = wanted.reduction;
    need.info = declared->info;
    rollSplit(roll, need, result);
  }
  after.info = declared->info;
  notes[value] = after;
  settle(value, *declared);
  return success();
}
