//===- ClvOps.cpp - Verifiers of operations -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers look at names, sizes and element types only, so that they hold for
// global and for local types alike.
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

#define GET_OP_CLASSES
#include "dialects/clv/ClvOps.cpp.inc"

//===----------------------------------------------------------------------===//
// What verifiers share
//===----------------------------------------------------------------------===//

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Whether factors of one type may give sums of another.
static bool mayGive(Type factor, Type sum) {
  return factor == sum || (factor.isBF16() && sum.isF32());
}

static std::string list(ArrayRef<StringRef> names) {
  return "[" + llvm::join(names, ", ") + "]";
}

static SmallVector<StringRef> namesIn(ArrayAttr attr) {
  return llvm::map_to_vector(
      attr, [](Attribute name) { return cast<StringAttr>(name).getValue(); });
}

static SmallVector<StringRef> without(ArrayRef<StringRef> dims,
                                      ArrayRef<StringRef> over) {
  return llvm::to_vector(llvm::make_filter_range(
      dims, [&](StringRef d) { return !llvm::is_contained(over, d); }));
}

static bool sameSet(ArrayRef<StringRef> a, ArrayRef<StringRef> b) {
  return a.size() == b.size() && without(a, b).empty();
}

/// Every tensor names its dims, and a name has one size, unless values of
/// several local layouts may meet (in a repeat).
static LogicalResult verifyDims(Operation *op, bool sizesAgree = true) {
  llvm::StringMap<int64_t> sizes;
  auto check = [&](Value value) -> LogicalResult {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<StringRef> dims = dimsOf(type);
    if (static_cast<int64_t>(dims.size()) != type.getRank()) {
      return op->emitOpError("needs names for the dims of ")
             << type << ": `#clv.dims<...>`";
    }
    for (auto [name, size] : llvm::zip(dims, type.getShape())) {
      auto [entry, added] = sizes.try_emplace(name, size);
      if (sizesAgree && !added && entry->second != size) {
        return op->emitOpError("has dim `")
               << name << "` with size " << entry->second << " and with size "
               << size;
      }
    }
    return success();
  };
  for (Value value : op->getOperands()) {
    if (failed(check(value))) {
      return failure();
    }
  }
  for (Value value : op->getResults()) {
    if (failed(check(value))) {
      return failure();
    }
  }
  return success();
}

static LogicalResult verifyElement(Operation *op, StringRef what, Type found,
                                   Type expected) {
  if (found != expected) {
    return op->emitOpError() << what << " must have element type " << expected
                             << ", not " << found;
  }
  return success();
}

static LogicalResult
verifyResultDims(Operation *op, ArrayRef<StringRef> expected, bool inOrder) {
  SmallVector<StringRef> dims = dimsOf(op->getResult(0));
  bool same =
      inOrder ? ArrayRef<StringRef>(dims) == expected : sameSet(dims, expected);
  if (!same) {
    return op->emitOpError("gives dims ")
           << list(expected) << ", but its result has " << list(dims);
  }
  return success();
}

/// `over` is not empty, names dims of `x`, each once.
static LogicalResult verifyOver(Operation *op, ArrayRef<StringRef> over,
                                Value x) {
  for (auto [position, name] : llvm::enumerate(over)) {
    if (findDim(x.getType(), name) < 0) {
      return op->emitOpError("is over dim `")
             << name << "`, which an operand lacks; it has " << list(dimsOf(x));
    }
    if (llvm::is_contained(over.take_front(position), name)) {
      return op->emitOpError("is over dim `") << name << "` twice";
    }
  }
  return success();
}

static LogicalResult verifyScalar(Operation *op, StringRef what, Value value) {
  if (cast<RankedTensorType>(value.getType()).getRank() != 0) {
    return op->emitOpError() << what << " must be a scalar";
  }
  return success();
}

/// The same names, sizes and element type, whatever the encodings.
static bool sameTensor(Type a, Type b) {
  auto left = cast<RankedTensorType>(a), right = cast<RankedTensorType>(b);
  return left.getElementType() == right.getElementType() &&
         left.getShape() == right.getShape() && dimsOf(a) == dimsOf(b);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult clv::verifyElementwise(Operation *op, Elementwise function) {
  if (failed(verifyDims(op))) {
    return failure();
  }
  SmallVector<StringRef> expected;
  for (Value operand : op->getOperands()) {
    for (StringRef name : dimsOf(operand)) {
      if (!llvm::is_contained(expected, name)) {
        expected.push_back(name);
      }
    }
  }
  if (failed(verifyResultDims(op, expected, /*inOrder=*/true))) {
    return failure();
  }
  Type result = elementOf(op->getResult(0));
  Type last = elementOf(op->getOperands().back());
  bool isCompare =
      function >= Elementwise::Less && function <= Elementwise::NotEqual;
  bool isArithmetic = function <= Elementwise::Pow;
  if (isArithmetic && last.isInteger(1)) {
    return op->emitOpError("does not take i1");
  }
  if (function == Elementwise::Cast) {
    bool isNarrow = last.isBF16() || result.isBF16();
    bool isWide = last.isF32() || result.isF32() || last == result;
    if (isNarrow && !isWide) {
      return op->emitOpError("is between bf16 and f32, not from ")
             << last << " to " << result;
    }
    return success();
  }
  if (last.isBF16() && function != Elementwise::Identity) {
    return op->emitOpError("does not compute with bf16: cast to f32");
  }
  unsigned first = function == Elementwise::Select ? 1 : 0;
  for (Value operand : op->getOperands().drop_front(first)) {
    if (failed(verifyElement(op, "every operand", elementOf(operand), last))) {
      return failure();
    }
  }
  return verifyElement(op, "the result", result,
                       isCompare ? IntegerType::get(op->getContext(), 1)
                                 : last);
}

//===----------------------------------------------------------------------===//
// Values from nothing
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  if (failed(verifyScalar(*this, "the result", getResult()))) {
    return failure();
  }
  return verifyElement(*this, "the result", elementOf(getResult()),
                       getValue().getType());
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult BroadcastOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getX())))) {
    return failure();
  }
  for (StringRef name : dimsOf(getX())) {
    if (findDim(getResult().getType(), name) < 0) {
      return emitOpError("result lacks dim `") << name << "` of its operand";
    }
  }
  return success();
}

LogicalResult IndexOp::verify() {
  if (failed(verifyDims(*this))) {
    return failure();
  }
  if (cast<RankedTensorType>(getResult().getType()).getRank() != 1) {
    return emitOpError("result must have one dim");
  }
  return success();
}

LogicalResult RandomOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyScalar(*this, "the seed", getSeed())) ||
      failed(verifyScalar(*this, "the step", getStep())) ||
      failed(verifyScalar(*this, "the iteration", getIteration()))) {
    return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Contractions, reductions, gathers
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  SmallVector<StringRef> over = namesIn(getOver());
  if (elementOf(getX()).isInteger(1) || elementOf(getX()).isBF16()) {
    return emitOpError("does not take ") << elementOf(getX());
  }
  if (failed(verifyDims(*this)) || failed(verifyOver(*this, over, getX())) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getX())))) {
    return failure();
  }
  return verifyResultDims(*this, without(dimsOf(getX()), over),
                          /*inOrder=*/true);
}

LogicalResult DotOp::verify() {
  SmallVector<StringRef> over = namesIn(getOver());
  if (failed(verifyDims(*this)) || failed(verifyOver(*this, over, getLhs())) ||
      failed(verifyOver(*this, over, getRhs())) ||
      failed(verifyElement(*this, "rhs", elementOf(getRhs()),
                           elementOf(getLhs())))) {
    return failure();
  }
  if (!mayGive(elementOf(getLhs()), elementOf(getResult()))) {
    return verifyElement(*this, "the result", elementOf(getResult()),
                         gradientType(getLhs().getType()).getElementType());
  }
  SmallVector<StringRef> expected = without(dimsOf(getLhs()), over);
  for (StringRef name : without(dimsOf(getRhs()), over)) {
    if (!llvm::is_contained(expected, name)) {
      expected.push_back(name);
    }
  }
  return verifyResultDims(*this, expected, /*inOrder=*/false);
}

LogicalResult LookupOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyOver(*this, getDim(), getTable())) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getTable())))) {
    return failure();
  }
  SmallVector<StringRef> expected = dimsOf(getIds());
  for (StringRef name : dimsOf(getTable())) {
    if (llvm::is_contained(expected, name)) {
      return emitOpError("has dim `") << name << "` in both table and ids";
    }
  }
  llvm::append_range(expected, without(dimsOf(getTable()), getDim()));
  return verifyResultDims(*this, expected, /*inOrder=*/false);
}

LogicalResult ScatterAddOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getUpdates())))) {
    return failure();
  }
  SmallVector<StringRef> updates = dimsOf(getUpdates());
  SmallVector<StringRef> ids = dimsOf(getIds());
  for (StringRef name : ids) {
    if (!llvm::is_contained(updates, name)) {
      return emitOpError("has ids with dim `")
             << name << "`, which the updates lack";
    }
  }
  if (llvm::is_contained(updates, getDim())) {
    return emitOpError("has updates with dim `")
           << getDim() << "`, along which it adds";
  }
  SmallVector<StringRef> expected = {getDim()};
  llvm::append_range(expected, without(updates, ids));
  return verifyResultDims(*this, expected, /*inOrder=*/false);
}

LogicalResult CumsumOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyOver(*this, getDim(), getX())) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getX())))) {
    return failure();
  }
  return verifyResultDims(*this, dimsOf(getX()), /*inOrder=*/false);
}

LogicalResult ExtremeOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyOver(*this, getDim(), getX())) ||
      failed(verifyElement(*this, "the value", elementOf(getValue()),
                           elementOf(getX())))) {
    return failure();
  }
  SmallVector<StringRef> expected = without(dimsOf(getX()), getDim());
  if (!sameSet(dimsOf(getValue()), expected)) {
    return emitOpError("needs a value with dims ")
           << list(expected) << ", but it has " << list(dimsOf(getValue()));
  }
  return verifyResultDims(*this, expected, /*inOrder=*/true);
}

//===----------------------------------------------------------------------===//
// Composite
//===----------------------------------------------------------------------===//

static LogicalResult verifyComposite(Operation *op, ArrayAttr attr,
                                     bool keeps) {
  SmallVector<StringRef> over = namesIn(attr);
  Value x = op->getOperand(0);
  if (failed(verifyDims(op)) || failed(verifyOver(op, over, x)) ||
      failed(verifyElement(op, "the result", elementOf(op->getResult(0)),
                           elementOf(x)))) {
    return failure();
  }
  return verifyResultDims(op, keeps ? dimsOf(x) : without(dimsOf(x), over),
                          /*inOrder=*/true);
}

LogicalResult SoftmaxOp::verify() {
  return verifyComposite(*this, getOver(), /*keeps=*/true);
}
LogicalResult LogsumexpOp::verify() {
  return verifyComposite(*this, getOver(), /*keeps=*/false);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static void addNew(SmallVectorImpl<StringRef> &names,
                   ArrayRef<StringRef> more) {
  for (StringRef name : more) {
    if (!llvm::is_contained(names, name)) {
      names.push_back(name);
    }
  }
}

SmallVector<StringRef> clv::scoreDims(AttentionInterface op) {
  SmallVector<StringRef> over = namesIn(op.getOver()), names;
  addNew(names, without(dimsOf(op->getOperand(0)), over));
  addNew(names, without(dimsOf(op->getOperand(1)), over));
  return names;
}

SmallVector<StringRef> clv::featureDims(AttentionInterface op) {
  if (isa<AttentionSumOp>(op)) {
    return {};
  }
  bool isOfValue = isa<AttentionValueGradientOp>(op);
  Value wide = op->getOperand(isOfValue ? 3 : 2); // its gradient has no value
  return without(dimsOf(wide), scoreDims(op));
}

/// What all of them ask of queries and keys, and of sums where they have them.
static LogicalResult verifyScores(AttentionInterface op, Value logSum,
                                  Value mean = {}) {
  Value query = op->getOperand(0), key = op->getOperand(1);
  SmallVector<StringRef> over = namesIn(op.getOver());
  if (failed(verifyDims(op)) || failed(verifyOver(op, over, query)) ||
      failed(verifyOver(op, over, key)) ||
      failed(verifyOver(op, op.getSeq(), query)) ||
      failed(verifyOver(op, op.getKeys(), key))) {
    return failure();
  }
  if (llvm::is_contained(over, op.getSeq()) ||
      llvm::is_contained(over, op.getKeys()) ||
      findDim(key.getType(), op.getSeq()) >= 0 ||
      findDim(query.getType(), op.getKeys()) >= 0) {
    return op->emitOpError("needs `")
           << op.getSeq() << "` in the query alone and `" << op.getKeys()
           << "` in the key alone";
  }
  Type sum = elementOf(op->getResult(0)), factor = elementOf(query);
  for (Value operand : op->getOperands()) {
    bool isSum = operand == logSum || operand == mean;
    if (failed(verifyElement(op, isSum ? "a sum" : "every factor",
                             elementOf(operand), isSum ? sum : factor))) {
      return failure();
    }
  }
  if (!mayGive(factor, sum)) {
    return op->emitOpError("gives f32 or the type of its factors, not ") << sum;
  }
  SmallVector<StringRef> rows = without(scoreDims(op), op.getKeys());
  for (Value sum : {logSum, mean}) {
    if (sum && !sameSet(dimsOf(sum), rows)) {
      return op->emitOpError("needs sums with dims ")
             << list(rows) << ", not " << list(dimsOf(sum));
    }
  }
  return success();
}

/// The dims of what attention gives.
static SmallVector<StringRef> givenDims(AttentionInterface op) {
  SmallVector<StringRef> names = without(scoreDims(op), op.getKeys());
  addNew(names, featureDims(op));
  return names;
}

static LogicalResult verifyValues(AttentionInterface op, Value value) {
  if (findDim(value.getType(), op.getKeys()) < 0 ||
      findDim(value.getType(), op.getSeq()) >= 0) {
    return op->emitOpError("needs `")
           << op.getKeys() << "` and not `" << op.getSeq() << "` in its values";
  }
  return success();
}

static LogicalResult verifyGiven(AttentionInterface op, Value gradient) {
  SmallVector<StringRef> given = givenDims(op);
  if (!sameSet(dimsOf(gradient), given)) {
    return op->emitOpError("needs a gradient with dims ")
           << list(given) << ", not " << list(dimsOf(gradient));
  }
  return success();
}

LogicalResult AttentionSumOp::verify() {
  AttentionInterface op = *this;
  if (failed(verifyScores(op, {}))) {
    return failure();
  }
  return verifyResultDims(op, without(scoreDims(op), getKeys()), false);
}

LogicalResult AttentionOp::verify() {
  AttentionInterface op = *this;
  if (failed(verifyScores(op, getLogSum())) ||
      failed(verifyValues(op, getValue()))) {
    return failure();
  }
  return verifyResultDims(op, givenDims(op), false);
}

LogicalResult AttentionQueryGradientOp::verify() {
  AttentionInterface op = *this;
  if (failed(verifyScores(op, getLogSum(), getMean())) ||
      failed(verifyValues(op, getValue())) ||
      failed(verifyGiven(op, getGradient()))) {
    return failure();
  }
  return verifyResultDims(op, dimsOf(getQuery()), false);
}

LogicalResult AttentionKeyGradientOp::verify() {
  AttentionInterface op = *this;
  if (failed(verifyScores(op, getLogSum(), getMean())) ||
      failed(verifyValues(op, getValue())) ||
      failed(verifyGiven(op, getGradient()))) {
    return failure();
  }
  return verifyResultDims(op, dimsOf(getKey()), false);
}

/// It has the features and the keys; of the other dims those that values had.
LogicalResult AttentionValueGradientOp::verify() {
  AttentionInterface op = *this;
  if (failed(verifyScores(op, getLogSum())) ||
      failed(verifyGiven(op, getGradient())) ||
      failed(verifyValues(op, getResult()))) {
    return failure();
  }
  SmallVector<StringRef> dims = dimsOf(getResult()), features = featureDims(op);
  SmallVector<StringRef> known = scoreDims(op);
  addNew(known, features);
  if (!without(features, dims).empty() || !without(dims, known).empty()) {
    return emitOpError("gives dims of its operands, all of ")
           << list(features) << " among them, but its result has "
           << list(dims);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes, edges
//===----------------------------------------------------------------------===//

LogicalResult RenameOp::verify() {
  if (failed(verifyDims(*this)) ||
      failed(verifyElement(*this, "the result", elementOf(getResult()),
                           elementOf(getX())))) {
    return failure();
  }
  auto from = cast<RankedTensorType>(getX().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getShape() != to.getShape()) {
    return emitOpError("must keep the sizes of its dims in order");
  }
  return success();
}

/// Of slice and pad: `to` stands where `dim` stood, and the interval fits.
static LogicalResult verifyPart(Operation *op, StringRef dim, StringRef to,
                                int64_t first, bool isSlice) {
  Value x = op->getOperand(0), result = op->getResult(0);
  if (failed(verifyDims(op)) || failed(verifyOver(op, dim, x)) ||
      failed(
          verifyElement(op, "the result", elementOf(result), elementOf(x)))) {
    return failure();
  }
  SmallVector<StringRef> expected = dimsOf(x);
  int position = findDim(x.getType(), dim);
  expected[position] = to;
  if (failed(verifyResultDims(op, expected, /*inOrder=*/true))) {
    return failure();
  }
  int64_t small = globalSizeOf(x.getType(), dim),
          large = globalSizeOf(result.getType(), to);
  if (isSlice) {
    std::swap(small, large);
  }
  if (first < 0 || first + small > large) {
    return op->emitOpError("takes elements [")
           << first << ", " << first + small << ") of " << large;
  }
  return success();
}

LogicalResult SliceOp::verify() {
  return verifyPart(*this, getDim(), getTo(), getFirst(), /*isSlice=*/true);
}
LogicalResult PadOp::verify() {
  return verifyPart(*this, getDim(), getTo(), getFirst(), /*isSlice=*/false);
}

static LogicalResult verifyIdentity(Operation *op) {
  if (failed(verifyDims(op)) ||
      failed(verifyElement(op, "the result", elementOf(op->getResult(0)),
                           elementOf(op->getOperand(0))))) {
    return failure();
  }
  return verifyResultDims(op, dimsOf(op->getOperand(0)), /*inOrder=*/true);
}

LogicalResult EdgeOp::verify() { return verifyIdentity(*this); }
LogicalResult WeightOp::verify() { return verifyIdentity(*this); }
LogicalResult GradientOp::verify() { return verifyIdentity(*this); }

//===----------------------------------------------------------------------===//
// Repeat
//===----------------------------------------------------------------------===//

/// Whether `slice` is `stack` without its first dim, which is `dim`.
static bool isSliceOf(Type slice, Type stack, StringRef dim, int64_t count) {
  auto small = cast<RankedTensorType>(slice);
  auto large = cast<RankedTensorType>(stack);
  SmallVector<StringRef> names = dimsOf(stack);
  return !names.empty() && names[0] == dim &&
         (count < 0 || large.getDimSize(0) == count) &&
         small.getElementType() == large.getElementType() &&
         small.getShape() == large.getShape().drop_front() &&
         ArrayRef<StringRef>(dimsOf(slice)) ==
             ArrayRef<StringRef>(names).drop_front();
}

LogicalResult RepeatOp::verify() {
  bool isLocal = llvm::any_of((*this)->getOperandTypes(), [](Type type) {
    Attribute encoding = cast<RankedTensorType>(type).getEncoding();
    return encoding && !isa<DimsAttr>(encoding);
  });
  if (failed(verifyDims(*this, /*sizesAgree=*/!isLocal))) {
    return failure();
  }
  size_t carried = getCarried().size(), stacked = getStacked().size();
  // Of a dim that is cut, stacks have the largest piece.
  int64_t count = (*this)->hasAttr(ClvDialect::kSplit) ? -1 : getCount();
  if (static_cast<int64_t>(getCount()) < 1) {
    return emitOpError("must have a positive count");
  }
  if (getBlock()->getNumArguments() != 1 + carried + stacked) {
    return emitOpError("body needs ")
           << 1 + carried + stacked
           << " arguments: the index, the carried values and a slice of each "
              "stacked operand";
  }
  auto index = dyn_cast<RankedTensorType>(getIndex().getType());
  if (!index || index.getRank() != 0 || !index.getElementType().isInteger(32)) {
    return emitOpError("body's first argument must be an i32 scalar");
  }
  auto yield = dyn_cast<YieldOp>(getBlock()->back());
  if (!yield) {
    return emitOpError("body must end in `clv.yield`");
  }
  if (getNumResults() < carried ||
      yield.getValues().size() != getNumResults()) {
    return emitOpError("body yields ")
           << yield.getValues().size() << " values for " << getNumResults()
           << " results, " << carried << " of them carried";
  }
  for (size_t i = 0; i < carried; ++i) {
    Type type = getCarried()[i].getType();
    if (!sameTensor(type, getCarriedArguments()[i].getType()) ||
        !sameTensor(type, yield.getValues()[i].getType()) ||
        !sameTensor(type, getResult(i).getType())) {
      return emitOpError("carried value ")
             << i
             << " must have one type as operand, argument, yielded value "
                "and result";
    }
  }
  for (size_t i = 0; i < stacked; ++i) {
    if (!isSliceOf(getStackedArguments()[i].getType(),
                   getStacked()[i].getType(), getDim(), count)) {
      return emitOpError("stacked operand ")
             << i << " must be its argument's type with `" << getDim()
             << "` of size " << getCount() << " first";
    }
  }
  for (size_t i = carried; i < getNumResults(); ++i) {
    if (!isSliceOf(yield.getValues()[i].getType(), getResult(i).getType(),
                   getDim(), count)) {
      return emitOpError("stacked result ")
             << i - carried << " must be the yielded type with `" << getDim()
             << "` of size " << getCount() << " first";
    }
  }
  return success();
}
