//===- Spmd.cpp - Dialect, attributes, collectives ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/spmd/Spmd.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::spmd;

#include "dialects/spmd/SpmdDialect.cpp.inc"
#include "dialects/spmd/SpmdOpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/spmd/SpmdAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/spmd/SpmdOps.cpp.inc"

void SpmdDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/spmd/SpmdAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/spmd/SpmdOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Lists of numbers: `[0, 1]`
//===----------------------------------------------------------------------===//

static ParseResult parseNumbers(AsmParser &parser,
                                SmallVectorImpl<int64_t> &numbers) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&]() -> ParseResult {
        return parser.parseInteger(numbers.emplace_back());
      });
}

static void printNumbers(AsmPrinter &printer, ArrayRef<int64_t> numbers) {
  printer << '[';
  llvm::interleaveComma(numbers, printer);
  printer << ']';
}

//===----------------------------------------------------------------------===//
// MeshAttr: `<[data = 2, tensor = 4], [#spmd.axis<"data" = [0]>]>`; `times 1`
// before the end says that the last atom is a time.
//===----------------------------------------------------------------------===//

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  SmallVector<AxisAttr> axes;
  auto parseAtom = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back())) {
      return failure();
    }
    names.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  auto parseAxis = [&]() -> ParseResult {
    return parser.parseAttribute(axes.emplace_back());
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAtom) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis)) {
    return {};
  }
  unsigned times = 0;
  if (succeeded(parser.parseOptionalKeyword("times")) &&
      parser.parseInteger(times)) {
    return {};
  }
  if (times > names.size()) {
    parser.emitError(parser.getCurrentLocation(), "more times than atoms");
    return {};
  }
  if (parser.parseGreater()) {
    return {};
  }
  return get(parser.getContext(), names, sizes, axes, times);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(
      llvm::zip(getAtomNames(), getAtomSizes()), printer, [&](auto atom) {
        printer.printKeywordOrString(std::get<0>(atom).getValue());
        printer << " = " << std::get<1>(atom);
      });
  printer << "], [";
  llvm::interleaveComma(getAxes(), printer,
                        [&](AxisAttr axis) { printer << axis; });
  printer << "]";
  if (getTimes()) {
    printer << " times " << getTimes();
  }
  printer << ">";
}

//===----------------------------------------------------------------------===//
// SplitAttr: `<[0], unit = 2, cuts = [0, 2, 6], places = [1, 0]>`
//===----------------------------------------------------------------------===//

Attribute SplitAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> atoms, cuts, places;
  int64_t unit = 1;
  if (parser.parseLess() || parseNumbers(parser, atoms)) {
    return {};
  }
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    if (parser.parseKeyword(&key) || parser.parseEqual()) {
      return {};
    }
    ParseResult parsed = failure();
    if (key == "unit") {
      parsed = parser.parseInteger(unit);
    } else if (key == "cuts") {
      parsed = parseNumbers(parser, cuts);
    } else if (key == "places") {
      parsed = parseNumbers(parser, places);
    } else {
      parser.emitError(parser.getCurrentLocation(),
                       "expected `unit`, `cuts` or `places`");
    }
    if (parsed) {
      return {};
    }
  }
  if (parser.parseGreater()) {
    return {};
  }
  return get(parser.getContext(), atoms, unit, cuts, places);
}

void SplitAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printNumbers(printer, getAtoms());
  if (getUnit() != 1) {
    printer << ", unit = " << getUnit();
  }
  if (!getCuts().empty()) {
    printer << ", cuts = ";
    printNumbers(printer, getCuts());
  }
  if (!getPlaces().empty()) {
    printer << ", places = ";
    printNumbers(printer, getPlaces());
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// LocalAttr: `<[batch = 5 on [0], seq = 24], sum over [1]>`
//===----------------------------------------------------------------------===//

static bool isPlain(SplitAttr split) {
  return split.getUnit() == 1 && split.getCuts().empty() &&
         split.getPlaces().empty();
}

Attribute LocalAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes, partial;
  SmallVector<SplitAttr> splits;
  clv::Reduction reduction = clv::Reduction::Sum;
  auto parseDim = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back())) {
      return failure();
    }
    names.push_back(StringAttr::get(context, name));
    SplitAttr split = SplitAttr::get(context, {}, 1, {}, {});
    if (succeeded(parser.parseOptionalKeyword("on"))) {
      SmallVector<int64_t> atoms;
      auto parseAtom = [&]() -> ParseResult {
        return parser.parseInteger(atoms.emplace_back());
      };
      if (succeeded(parser.parseOptionalLSquare())) {
        if (parser.parseCommaSeparatedList(parseAtom) ||
            parser.parseRSquare()) {
          return failure();
        }
        split = SplitAttr::get(context, atoms, 1, {}, {});
      } else if (parser.parseAttribute(split)) {
        return failure();
      }
    }
    splits.push_back(split);
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim)) {
    return {};
  }
  if (succeeded(parser.parseOptionalComma())) {
    SMLoc at = parser.getCurrentLocation();
    StringRef kind;
    if (parser.parseKeyword(&kind)) {
      return {};
    }
    std::optional<clv::Reduction> found = clv::symbolizeReduction(kind);
    if (!found) {
      parser.emitError(at, "expected `sum`, `max` or `min`");
      return {};
    }
    reduction = *found;
    if (parser.parseKeyword("over") || parseNumbers(parser, partial)) {
      return {};
    }
  }
  if (parser.parseGreater()) {
    return {};
  }
  return get(context, names, sizes, splits, partial, reduction);
}

void LocalAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(llvm::zip(getNames(), getSizes(), getSplits()), printer,
                        [&](auto dim) {
                          auto [name, size, split] = dim;
                          printer.printKeywordOrString(name.getValue());
                          printer << " = " << size;
                          if (!isPlain(split)) {
                            printer << " on ";
                            printer.printAttribute(split);
                          } else if (!split.getAtoms().empty()) {
                            printer << " on ";
                            printNumbers(printer, split.getAtoms());
                          }
                        });
  printer << ']';
  if (!getPartial().empty()) {
    printer << ", " << clv::stringifyReduction(getReduction()) << " over ";
    printNumbers(printer, getPartial());
  }
  printer << '>';
}

LogicalResult
LocalAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                          function_ref<InFlightDiagnostic()> emitError) const {
  size_t rank = shape.size();
  if (getNames().size() != rank || getSizes().size() != rank ||
      getSplits().size() != rank) {
    return emitError() << "a local type of rank " << rank << " has "
                       << getNames().size() << " dim names";
  }
  llvm::StringSet<> seen;
  SmallVector<int64_t> atoms(getPartial());
  for (size_t i = 0; i < rank; ++i) {
    if (!seen.insert(getNames()[i].getValue()).second) {
      return emitError() << "dim `" << getNames()[i].getValue()
                         << "` appears twice in one type";
    }
    if (shape[i] > getSizes()[i]) {
      return emitError() << "the local extent " << shape[i] << " of dim `"
                         << getNames()[i].getValue()
                         << "` is larger than the global size "
                         << getSizes()[i];
    }
    llvm::append_range(atoms, getSplits()[i].getAtoms());
  }
  llvm::sort(atoms);
  auto twice = std::adjacent_find(atoms.begin(), atoms.end());
  if (twice != atoms.end()) {
    return emitError() << "atom " << *twice << " is used twice in one layout";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Between attributes and layouts
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> wide(const std::vector<layout::AtomId> &atoms) {
  return SmallVector<int64_t>(atoms.begin(), atoms.end());
}

static std::vector<layout::AtomId> narrow(ArrayRef<int64_t> atoms) {
  return std::vector<layout::AtomId>(atoms.begin(), atoms.end());
}

MeshAttr spmd::toAttr(MLIRContext *context, const layout::Mesh &mesh) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const layout::Atom &atom : mesh.atoms) {
    names.push_back(StringAttr::get(context, atom.name));
    sizes.push_back(atom.size);
  }
  SmallVector<AxisAttr> axes;
  for (const layout::Axis &axis : mesh.axes) {
    axes.push_back(AxisAttr::get(context, axis.name, wide(axis.atoms)));
  }
  return MeshAttr::get(context, names, sizes, axes, mesh.times);
}

layout::Mesh spmd::fromAttr(MeshAttr attr) {
  layout::Mesh mesh;
  for (auto [name, size] :
       llvm::zip(attr.getAtomNames(), attr.getAtomSizes())) {
    mesh.atoms.push_back({name.str(), size});
  }
  for (AxisAttr axis : attr.getAxes()) {
    mesh.axes.push_back({axis.getLabel().str(), narrow(axis.getAtoms())});
  }
  mesh.times = attr.getTimes();
  return mesh;
}

SplitAttr spmd::toAttr(MLIRContext *context, const layout::Split &split) {
  return SplitAttr::get(context, wide(split.atoms), split.unit, split.cuts,
                        split.places);
}

layout::Split spmd::fromAttr(SplitAttr split) {
  return {
      narrow(split.getAtoms()), split.getUnit(),
      std::vector<int64_t>(split.getCuts().begin(), split.getCuts().end()),
      std::vector<int64_t>(split.getPlaces().begin(), split.getPlaces().end())};
}

static LocalAttr localOf(Type type) {
  return dyn_cast_or_null<LocalAttr>(
      cast<RankedTensorType>(type).getEncoding());
}

layout::Layout spmd::layoutOf(Type type) {
  layout::Layout layout;
  LocalAttr local = localOf(type);
  if (!local) {
    layout.dims.resize(cast<RankedTensorType>(type).getRank());
    return layout;
  }
  for (SplitAttr split : local.getSplits()) {
    layout.dims.push_back(fromAttr(split));
  }
  layout.partial = narrow(local.getPartial());
  layout.reduction = static_cast<layout::Reduction>(local.getReduction());
  return layout;
}

SmallVector<int64_t> spmd::globalSizes(Type type) {
  if (LocalAttr local = localOf(type)) {
    return SmallVector<int64_t>(local.getSizes());
  }
  return SmallVector<int64_t>(cast<RankedTensorType>(type).getShape());
}

RankedTensorType spmd::localType(Type element, ArrayRef<StringRef> dims,
                                 ArrayRef<int64_t> sizes,
                                 const layout::Layout &layout,
                                 const layout::Mesh &mesh) {
  assert(layout.dims.size() == dims.size() && sizes.size() == dims.size());
  assert(layout.residence.empty() && "residence has no local type yet");
  MLIRContext *context = element.getContext();
  SmallVector<StringAttr> names;
  SmallVector<SplitAttr> splits;
  SmallVector<int64_t> shape;
  for (auto [name, size, split] : llvm::zip(dims, sizes, layout.dims)) {
    names.push_back(StringAttr::get(context, name));
    splits.push_back(toAttr(context, split));
    shape.push_back(largestPiece(size, split, mesh));
  }
  std::vector<layout::AtomId> partial = layout.partial;
  std::sort(partial.begin(), partial.end());
  // A value that is not pending has one spelling.
  auto reduction = partial.empty()
                       ? clv::Reduction::Sum
                       : static_cast<clv::Reduction>(layout.reduction);
  return RankedTensorType::get(
      shape, element,
      LocalAttr::get(context, names, sizes, splits, wide(partial), reduction));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {

/// What the verifiers compare: two layouts of one value.
struct Change {
  layout::Layout from, to;
  std::vector<layout::AtomId> atoms; ///< of the operation, ascending
};

using Atoms = std::vector<layout::AtomId>;

} // namespace

static Atoms sorted(Atoms atoms) {
  std::sort(atoms.begin(), atoms.end());
  return atoms;
}

static Atoms minus(const Atoms &a, const Atoms &b) {
  Atoms rest, left = sorted(a), right = sorted(b);
  std::set_difference(left.begin(), left.end(), right.begin(), right.end(),
                      std::back_inserter(rest));
  return rest;
}

static Atoms splitAtoms(const layout::Layout &layout) {
  Atoms atoms;
  for (const layout::Split &split : layout.dims) {
    atoms.insert(atoms.end(), split.atoms.begin(), split.atoms.end());
  }
  return sorted(atoms);
}

static LogicalResult readChange(Operation *op, ArrayRef<int64_t> atoms,
                                Change &change) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (!localOf(from) || !localOf(to)) {
    return op->emitOpError("needs local types: `#spmd.local<...>`");
  }
  if (cast<RankedTensorType>(from).getElementType() !=
      cast<RankedTensorType>(to).getElementType()) {
    return op->emitOpError("must keep the element type");
  }
  if (localOf(from).getNames() != localOf(to).getNames() ||
      localOf(from).getSizes() != localOf(to).getSizes()) {
    return op->emitOpError("must keep the dims and their global sizes");
  }
  if (atoms.empty()) {
    return op->emitOpError("needs an atom to run over");
  }
  change = {layoutOf(from), layoutOf(to), sorted(narrow(atoms))};
  if (std::adjacent_find(change.atoms.begin(), change.atoms.end()) !=
      change.atoms.end()) {
    return op->emitOpError("names an atom twice");
  }
  if (change.to.isPartial() && change.from.reduction != change.to.reduction) {
    return op->emitOpError("must keep the kind of a pending reduction");
  }
  return success();
}

/// Whether `longer` only adds minor atoms to `shorter`.
static bool refines(const layout::Split &longer, const layout::Split &shorter) {
  if (shorter == longer || shorter.isWhole()) {
    return true;
  }
  return shorter.cuts.empty() && longer.cuts.empty() &&
         shorter.places.empty() && longer.places.empty() &&
         shorter.unit == longer.unit &&
         shorter.atoms.size() <= longer.atoms.size() &&
         std::equal(shorter.atoms.begin(), shorter.atoms.end(),
                    longer.atoms.begin());
}

static bool refines(const layout::Layout &longer,
                    const layout::Layout &shorter) {
  for (auto [a, b] : llvm::zip(longer.dims, shorter.dims)) {
    if (!refines(a, b)) {
      return false;
    }
  }
  return true;
}

static LogicalResult checkReduced(Operation *op, const Change &change) {
  if (!minus(change.to.partial, change.from.partial).empty() ||
      minus(change.from.partial, change.to.partial) != change.atoms) {
    return op->emitOpError(
        "must reduce exactly the atoms that it runs over, all pending before");
  }
  return success();
}

static LogicalResult checkKeepsPartial(Operation *op, const Change &change) {
  if (sorted(change.from.partial) != sorted(change.to.partial)) {
    return op->emitOpError("must not change the pending reduction");
  }
  return success();
}

LogicalResult AllReduceOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkReduced(*this, change))) {
    return failure();
  }
  if (change.from.dims != change.to.dims) {
    return emitOpError("must not change how dims are split");
  }
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkReduced(*this, change))) {
    return failure();
  }
  if (!refines(change.to, change.from) ||
      minus(splitAtoms(change.to), splitAtoms(change.from)) != change.atoms) {
    return emitOpError("must split dims further on exactly the atoms that it "
                       "reduces");
  }
  return success();
}

LogicalResult AllGatherOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkKeepsPartial(*this, change))) {
    return failure();
  }
  if (!refines(change.from, change.to) ||
      minus(splitAtoms(change.from), splitAtoms(change.to)) != change.atoms) {
    return emitOpError("must gather exactly the minor atoms that it runs over");
  }
  return success();
}

LogicalResult AllToAllOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkKeepsPartial(*this, change))) {
    return failure();
  }
  if (splitAtoms(change.from) != splitAtoms(change.to)) {
    return emitOpError("must keep the atoms that split dims");
  }
  if (!minus(change.atoms, splitAtoms(change.from)).empty()) {
    return emitOpError("must run over atoms that split a dim");
  }
  return success();
}

LogicalResult ShiftOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkKeepsPartial(*this, change))) {
    return failure();
  }
  for (auto [from, to] : llvm::zip(change.from.dims, change.to.dims)) {
    if (from.atoms != to.atoms) {
      return emitOpError("must keep the atoms of each dim");
    }
  }
  auto by = static_cast<int64_t>(getBy());
  if (std::optional<StringRef> dim = getDim()) {
    int position = clv::findDim(getX().getType(), *dim);
    if (position < 0) {
      return emitOpError("moves dim `") << *dim << "`, which its operand lacks";
    }
    int64_t size = globalSizes(getX().getType())[position];
    if (by < 0 || by >= size) {
      return emitOpError("moves by ") << by << " around " << size;
    }
  } else if (by != 0) {
    return emitOpError("moves by ") << by << " along no dim";
  }
  if (!minus(change.atoms, splitAtoms(change.from)).empty()) {
    return emitOpError("must run over atoms that split a dim");
  }
  return success();
}

LogicalResult LocalSliceOp::verify() {
  Change change;
  if (failed(readChange(*this, getAtoms(), change)) ||
      failed(checkKeepsPartial(*this, change))) {
    return failure();
  }
  if (!refines(change.to, change.from) ||
      minus(splitAtoms(change.to), splitAtoms(change.from)) != change.atoms) {
    return emitOpError("must split dims further on exactly the atoms that it "
                       "runs over");
  }
  return success();
}
