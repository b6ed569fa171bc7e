//===- RepeatSyntax.cpp - How a repeat is written ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

// clv.repeat %i of "layer" from 0 count 2 reverse
//     carried(%x = %x0 : type) stacked(%w = %ws : type slice type)
//     -> (types) attributes {...} { body }
//
// Where the encodings of local types differ from the rule: `%i : type`, and
// `%x = %x0 : type as type`.
ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &result) {
  using Unresolved = OpAsmParser::UnresolvedOperand;
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments(1);
  arguments[0].type = RankedTensorType::get({}, builder.getI32Type());
  StringAttr dim;
  int64_t first = 0, count = 0;
  if (parser.parseArgument(arguments[0]) ||
      (succeeded(parser.parseOptionalColon()) &&
       parser.parseType(arguments[0].type)) ||
      parser.parseKeyword("of") || parser.parseAttribute(dim) ||
      parser.parseKeyword("from") || parser.parseInteger(first) ||
      parser.parseKeyword("count") || parser.parseInteger(count)) {
    return failure();
  }
  result.addAttribute("dim", dim);
  result.addAttribute("first", builder.getI64IntegerAttr(first));
  result.addAttribute("count", builder.getI64IntegerAttr(count));
  if (succeeded(parser.parseOptionalKeyword("reverse"))) {
    result.addAttribute("reverse", builder.getUnitAttr());
  }
  int32_t segments[2] = {0, 0};
  auto parseList = [&](bool stacked) -> ParseResult {
    SmallVector<Unresolved> operands;
    SmallVector<Type> types;
    SMLoc where = parser.getCurrentLocation();
    auto parseOne = [&]() -> ParseResult {
      auto &argument = arguments.emplace_back();
      if (parser.parseArgument(argument) || parser.parseEqual() ||
          parser.parseOperand(operands.emplace_back()) ||
          parser.parseColonType(types.emplace_back())) {
        return failure();
      }
      if (stacked) {
        return failure(parser.parseKeyword("slice") ||
                       parser.parseType(argument.type));
      }
      argument.type = types.back();
      return succeeded(parser.parseOptionalKeyword("as"))
                 ? parser.parseType(argument.type)
                 : success();
    };
    segments[stacked ? 1 : 0] = 0;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne) ||
        parser.resolveOperands(operands, types, where, result.operands)) {
      return failure();
    }
    segments[stacked ? 1 : 0] = static_cast<int32_t>(operands.size());
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("carried")) && parseList(false)) {
    return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("stacked")) && parseList(true)) {
    return failure();
  }
  result.getOrAddProperties<Properties>().operandSegmentSizes = {segments[0],
                                                                 segments[1]};
  return failure(parser.parseOptionalArrowTypeList(result.types) ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), arguments));
}

void RepeatOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer << getIndex();
  if (cast<RankedTensorType>(getIndex().getType()).getEncoding()) {
    printer << " : " << getIndex().getType();
  }
  printer << " of " << getDimAttr() << " from "
          << static_cast<int64_t>(getFirst()) << " count "
          << static_cast<int64_t>(getCount());
  if (getReverse()) {
    printer << " reverse";
  }
  if (!getCarried().empty()) {
    printer << " carried(";
    llvm::interleaveComma(llvm::zip(getCarriedArguments(), getCarried()),
                          printer, [&](auto pair) {
                            auto [argument, operand] = pair;
                            printer << argument << " = " << operand << " : "
                                    << operand.getType();
                            if (argument.getType() != operand.getType()) {
                              printer << " as " << argument.getType();
                            }
                          });
    printer << ')';
  }
  if (!getStacked().empty()) {
    printer << " stacked(";
    llvm::interleaveComma(llvm::zip(getStackedArguments(), getStacked()),
                          printer, [&](auto pair) {
                            auto [argument, operand] = pair;
                            printer << argument << " = " << operand << " : "
                                    << operand.getType() << " slice "
                                    << argument.getType();
                          });
    printer << ')';
  }
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {"dim", "first", "count", "reverse", "operandSegmentSizes"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}
