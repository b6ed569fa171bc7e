//===- ExecSyntax.cpp - How instructions are written ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Exec.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

namespace {
using Unresolved = OpAsmParser::UnresolvedOperand;
using Operands = SmallVectorImpl<Unresolved>;
} // namespace

//===----------------------------------------------------------------------===//
// Dims of a global shape: `[batch = 5, seq = 24]`
//===----------------------------------------------------------------------===//

static ParseResult parseDims(OpAsmParser &parser, ArrayAttr &dims,
                             DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> numbers;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(numbers.emplace_back())) {
      return failure();
    }
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne)) {
    return failure();
  }
  dims = parser.getBuilder().getArrayAttr(names);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printDims(OpAsmPrinter &printer, Operation *, ArrayAttr dims,
                      DenseI64ArrayAttr sizes) {
  printer << '[';
  llvm::interleaveComma(
      llvm::zip(dims.getAsRange<StringAttr>(), sizes.asArrayRef()), printer,
      [&](auto dim) {
        printer.printKeywordOrString(std::get<0>(dim).getValue());
        printer << " = " << std::get<1>(dim);
      });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// Splits of a layout: `[whole, <[0]>]`
//===----------------------------------------------------------------------===//

static spmd::SplitAttr wholeSplit(MLIRContext *context) {
  return spmd::SplitAttr::get(context, {}, 1, {}, {});
}

static ParseResult parseSplits(OpAsmParser &parser, ArrayAttr &splits) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("whole"))) {
      list.push_back(wholeSplit(parser.getContext()));
      return success();
    }
    spmd::SplitAttr split;
    if (parser.parseCustomAttributeWithFallback(split)) {
      return failure();
    }
    list.push_back(split);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne)) {
    return failure();
  }
  splits = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printSplits(OpAsmPrinter &printer, Operation *op,
                        ArrayAttr splits) {
  printer << '[';
  llvm::interleaveComma(splits, printer, [&](Attribute split) {
    if (split == wholeSplit(op->getContext())) {
      printer << "whole";
    } else {
      printer.printStrippedAttrOrType(cast<spmd::SplitAttr>(split));
    }
  });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// Views: `%a, %w[%i]`, and `%a, %w[%i] -> %h` with the last apart
//===----------------------------------------------------------------------===//

static ParseResult parseSlice(OpAsmParser &parser, Operands &views,
                              SmallVectorImpl<Type> &types) {
  types.push_back(BufferType::get(parser.getContext()));
  if (failed(parser.parseOptionalLSquare())) {
    return success();
  }
  types.push_back(IterationType::get(parser.getContext()));
  return failure(parser.parseOperand(views.emplace_back()) ||
                 parser.parseRSquare());
}

static ParseResult parseViews(OpAsmParser &parser, Operands &views,
                              SmallVectorImpl<Type> &types) {
  Unresolved first;
  OptionalParseResult any = parser.parseOptionalOperand(first);
  if (!any.has_value()) {
    return success();
  }
  if (failed(*any)) {
    return failure();
  }
  views.push_back(first);
  if (parseSlice(parser, views, types)) {
    return failure();
  }
  while (succeeded(parser.parseOptionalComma())) {
    if (parser.parseOperand(views.emplace_back()) ||
        parseSlice(parser, views, types)) {
      return failure();
    }
  }
  return success();
}

static void printView(OpAsmPrinter &printer, const View &view) {
  printer << view.buffer;
  if (view.iteration) {
    printer << '[' << view.iteration << ']';
  }
}

static void printViews(OpAsmPrinter &printer, Operation *,
                       OperandRange operands, TypeRange) {
  llvm::interleaveComma(viewsIn(operands), printer,
                        [&](const View &view) { printView(printer, view); });
}

static ParseResult parseArrow(OpAsmParser &parser, Operands &views,
                              SmallVectorImpl<Type> &types) {
  return failure(parseViews(parser, views, types) || parser.parseArrow() ||
                 parser.parseOperand(views.emplace_back()) ||
                 parseSlice(parser, views, types));
}

static void printArrow(OpAsmPrinter &printer, Operation *,
                       OperandRange operands, TypeRange) {
  SmallVector<View> views = viewsIn(operands);
  View last = views.pop_back_val();
  llvm::interleaveComma(views, printer,
                        [&](const View &view) { printView(printer, view); });
  printer << " -> ";
  printView(printer, last);
}

//===----------------------------------------------------------------------===//
// Integers of a kernel: `size %batch, begin %out, %i, 5`
//===----------------------------------------------------------------------===//

static ParseResult parseInteger(OpAsmParser &parser, Operands &sources,
                                SmallVectorImpl<Type> &types, IntegerKind &kind,
                                SmallVectorImpl<int64_t> &literals) {
  // As an APInt: parsers of fixed width refuse the lowest number.
  APInt literal;
  SMLoc where = parser.getCurrentLocation();
  OptionalParseResult number = parser.parseOptionalInteger(literal);
  if (number.has_value()) {
    if (failed(*number) || !literal.isSignedIntN(64)) {
      return parser.emitError(where, "expected an integer of 64 bits");
    }
    kind = IntegerKind::Literal;
    literals.push_back(literal.sextOrTrunc(64).getSExtValue());
    return success();
  }
  bool size = succeeded(parser.parseOptionalKeyword("size"));
  bool begin = !size && succeeded(parser.parseOptionalKeyword("begin"));
  kind = size    ? IntegerKind::ExtentSize
         : begin ? IntegerKind::ExtentBegin
                 : IntegerKind::Iteration;
  types.push_back(size || begin
                      ? Type(ExtentType::get(parser.getContext()))
                      : Type(IterationType::get(parser.getContext())));
  return parser.parseOperand(sources.emplace_back());
}

static ParseResult parseIntegers(OpAsmParser &parser, Operands &sources,
                                 SmallVectorImpl<Type> &types,
                                 DenseI32ArrayAttr &kinds,
                                 DenseI64ArrayAttr &literals) {
  SmallVector<int32_t> listed;
  SmallVector<int64_t> numbers;
  auto parseOne = [&]() -> ParseResult {
    IntegerKind kind;
    if (parseInteger(parser, sources, types, kind, numbers)) {
      return failure();
    }
    listed.push_back(static_cast<int32_t>(kind));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne)) {
    return failure();
  }
  kinds = parser.getBuilder().getDenseI32ArrayAttr(listed);
  literals = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printIntegers(OpAsmPrinter &printer, Operation *,
                          OperandRange sources, TypeRange,
                          DenseI32ArrayAttr kinds, DenseI64ArrayAttr literals) {
  auto source = sources.begin();
  const int64_t *literal = literals.asArrayRef().begin();
  printer << '[';
  llvm::interleaveComma(kinds.asArrayRef(), printer, [&](int32_t kind) {
    switch (static_cast<IntegerKind>(kind)) {
    case IntegerKind::Literal:
      printer << *literal++;
      break;
    case IntegerKind::ExtentSize:
      printer << "size " << *source++;
      break;
    case IntegerKind::ExtentBegin:
      printer << "begin " << *source++;
      break;
    case IntegerKind::Iteration:
      printer << *source++;
      break;
    }
  });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// Dims of a contraction: `[%batch(0, _, 0), %in(1, 0, _)]`
//===----------------------------------------------------------------------===//

static ParseResult parsePosition(OpAsmParser &parser,
                                 SmallVectorImpl<int32_t> &positions) {
  if (succeeded(parser.parseOptionalKeyword("_"))) {
    positions.push_back(-1);
    return success();
  }
  return parser.parseInteger(positions.emplace_back());
}

static ParseResult parsePositions(OpAsmParser &parser, Operands &dims,
                                  DenseI32ArrayAttr &positions) {
  SmallVector<int32_t> list;
  auto parseOne = [&]() -> ParseResult {
    return failure(parser.parseOperand(dims.emplace_back()) ||
                   parser.parseLParen() || parsePosition(parser, list) ||
                   parser.parseComma() || parsePosition(parser, list) ||
                   parser.parseComma() || parsePosition(parser, list) ||
                   parser.parseRParen());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne)) {
    return failure();
  }
  positions = parser.getBuilder().getDenseI32ArrayAttr(list);
  return success();
}

static void printPositions(OpAsmPrinter &printer, Operation *,
                           OperandRange dims, DenseI32ArrayAttr positions) {
  const int32_t *position = positions.asArrayRef().begin();
  printer << '[';
  llvm::interleaveComma(dims, printer, [&](Value dim) {
    printer << dim;
    for (StringRef before : {"(", ", ", ", "}) {
      printer << before;
      if (*position < 0) {
        printer << '_';
      } else {
        printer << *position;
      }
      ++position;
    }
    printer << ')';
  });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// What a collective reduces: `, sum over [0, 1]`, or nothing
//===----------------------------------------------------------------------===//

static ParseResult parsePending(OpAsmParser &parser,
                                clv::ReductionAttr &reduction,
                                DenseI64ArrayAttr &partial) {
  clv::Reduction kind = clv::Reduction::Sum;
  SmallVector<int64_t> atoms;
  if (succeeded(parser.parseOptionalComma())) {
    SMLoc where = parser.getCurrentLocation();
    StringRef keyword;
    if (parser.parseKeyword(&keyword)) {
      return failure();
    }
    std::optional<clv::Reduction> found = clv::symbolizeReduction(keyword);
    if (!found) {
      return parser.emitError(where, "expected `sum`, `max` or `min`");
    }
    kind = *found;
    auto parseAtom = [&]() -> ParseResult {
      return parser.parseInteger(atoms.emplace_back());
    };
    if (parser.parseKeyword("over") ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       parseAtom)) {
      return failure();
    }
  }
  reduction = clv::ReductionAttr::get(parser.getContext(), kind);
  partial = parser.getBuilder().getDenseI64ArrayAttr(atoms);
  return success();
}

static void printPending(OpAsmPrinter &printer, Operation *,
                         clv::ReductionAttr reduction,
                         DenseI64ArrayAttr partial) {
  if (partial.empty() && reduction.getValue() == clv::Reduction::Sum) {
    return;
  }
  printer << ", " << clv::stringifyReduction(reduction.getValue()) << " over [";
  llvm::interleaveComma(partial.asArrayRef(), printer);
  printer << ']';
}

//===----------------------------------------------------------------------===//
// Loops: `exec.loop %i from 0 count 12 reverse { … }`
//===----------------------------------------------------------------------===//

/// `from 0 count 3`, or `over %layer`, perhaps with a count that means nothing.
static ParseResult parseRange(OpAsmParser &parser, OperationState &result,
                              int64_t &first, int64_t &count) {
  if (succeeded(parser.parseOptionalKeyword("over"))) {
    Unresolved extent;
    return failure(parser.parseOperand(extent) ||
                   parser.resolveOperand(extent,
                                         ExtentType::get(parser.getContext()),
                                         result.operands) ||
                   (succeeded(parser.parseOptionalKeyword("count")) &&
                    parser.parseInteger(count)));
  }
  return failure(parser.parseKeyword("from") || parser.parseInteger(first) ||
                 parser.parseKeyword("count") || parser.parseInteger(count));
}

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::Argument iteration;
  iteration.type = IterationType::get(parser.getContext());
  int64_t first = 0, count = 0;
  if (parser.parseArgument(iteration) ||
      parseRange(parser, result, first, count)) {
    return failure();
  }
  Builder &builder = parser.getBuilder();
  result.addAttribute("first", builder.getI64IntegerAttr(first));
  result.addAttribute("count", builder.getI64IntegerAttr(count));
  if (succeeded(parser.parseOptionalKeyword("reverse"))) {
    result.addAttribute("reverse", builder.getUnitAttr());
  }
  return failure(parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), iteration));
}

void LoopOp::print(OpAsmPrinter &printer) {
  int64_t count = static_cast<int64_t>(getCount());
  printer << ' ' << getBody().getArgument(0);
  if (getExtent()) {
    printer << " over " << getExtent();
  } else {
    printer << " from " << static_cast<int64_t>(getFirst());
  }
  if (!getExtent() || count != 0) {
    printer << " count " << count;
  }
  if (getReverse()) {
    printer << " reverse";
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"first", "count", "reverse"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

//===----------------------------------------------------------------------===//
// Steps: `[forward 0, send_activation 0, backward 3 in 1]`
//===----------------------------------------------------------------------===//

static ParseResult parseSteps(OpAsmParser &parser, DenseI64ArrayAttr &steps) {
  SmallVector<int64_t> numbers;
  auto parseOne = [&]() -> ParseResult {
    SMLoc where = parser.getCurrentLocation();
    StringRef keyword;
    int64_t micro = 0, chunk = 0;
    if (parser.parseKeyword(&keyword)) {
      return failure();
    }
    std::optional<StepKind> kind = symbolizeStepKind(keyword);
    if (!kind) {
      return parser.emitError(where, "expected a kind of step, not `")
             << keyword << "`";
    }
    if (parser.parseInteger(micro) ||
        (succeeded(parser.parseOptionalKeyword("in")) &&
         parser.parseInteger(chunk))) {
      return failure();
    }
    numbers.append({static_cast<int64_t>(*kind), chunk, micro});
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne)) {
    return failure();
  }
  steps = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printSteps(OpAsmPrinter &printer, Operation *,
                       DenseI64ArrayAttr steps) {
  printer << '[';
  for (size_t i = 0; i + 2 < static_cast<size_t>(steps.size()); i += 3) {
    printer << (i ? ", " : "")
            << stringifyStepKind(static_cast<StepKind>(steps[i])) << ' '
            << steps[i + 2];
    if (steps[i + 1] != 0) {
      printer << " in " << steps[i + 1];
    }
  }
  printer << ']';
}

#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.cpp.inc"
