//===- Clv.cpp - Dialect, attributes, types -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/clv/Clv.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::clv;

#include "dialects/clv/ClvAttrInterfaces.cpp.inc"
#include "dialects/clv/ClvDialect.cpp.inc"
#include "dialects/clv/ClvEnums.cpp.inc"
#include "dialects/clv/ClvOpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/clv/ClvAttrs.cpp.inc"

void ClvDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/clv/ClvAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/clv/ClvOps.cpp.inc"
      >();
}

LogicalResult ClvDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attribute) {
  if (attribute.getName() == kScope && !isa<ScopeAttr>(attribute.getValue())) {
    return op->emitOpError("`clv.scope` must be a `#clv.scope` attribute");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// DimsAttr
//===----------------------------------------------------------------------===//

DimsAttr DimsAttr::get(MLIRContext *context, ArrayRef<StringRef> names) {
  SmallVector<StringAttr> attrs;
  for (StringRef name : names) {
    attrs.push_back(StringAttr::get(context, name));
  }
  return get(context, attrs);
}

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  auto parseName = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name)) {
      return failure();
    }
    names.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseName)) {
    return {};
  }
  return get(parser.getContext(), names);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getNames(), printer, [&](StringAttr name) {
    printer.printKeywordOrString(name.getValue());
  });
  printer << '>';
}

LogicalResult
DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                         function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getNames().size()) {
    return emitError() << "a type of rank " << shape.size() << " has "
                       << getNames().size() << " dim names";
  }
  llvm::StringSet<> seen;
  for (StringAttr name : getNames()) {
    if (!seen.insert(name.getValue()).second) {
      return emitError() << "dim `" << name.getValue()
                         << "` appears twice in one type";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

SmallVector<StringRef> clv::dimsOf(Type type) {
  SmallVector<StringRef> names;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    return names;
  }
  if (auto encoding = dyn_cast_or_null<NamedDims>(tensor.getEncoding())) {
    for (StringAttr name : encoding.getNames()) {
      names.push_back(name.getValue());
    }
  }
  return names;
}

int clv::findDim(Type type, StringRef name) {
  SmallVector<StringRef> names = dimsOf(type);
  auto found = llvm::find(names, name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

int64_t clv::sizeOf(Type type, StringRef name) {
  int position = findDim(type, name);
  assert(position >= 0 && "the type has no such dim");
  return cast<RankedTensorType>(type).getDimSize(position);
}

int64_t clv::globalSizeOf(Type type, StringRef name) {
  auto encoding =
      dyn_cast_or_null<NamedDims>(cast<RankedTensorType>(type).getEncoding());
  int position = findDim(type, name);
  bool isLocal = encoding && !encoding.getSizes().empty() && position >= 0;
  return isLocal ? encoding.getSizes()[position] : sizeOf(type, name);
}

RankedTensorType clv::gradientType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getElementType().isBF16()
             ? tensor.clone(Float32Type::get(type.getContext()))
             : tensor;
}

RankedTensorType clv::tensorType(Type element, ArrayRef<StringRef> dims,
                                 ArrayRef<int64_t> sizes) {
  assert(dims.size() == sizes.size());
  if (dims.empty()) {
    return RankedTensorType::get({}, element);
  }
  return RankedTensorType::get(sizes, element,
                               DimsAttr::get(element.getContext(), dims));
}

RankedTensorType clv::elementwiseType(Type element, ValueRange operands) {
  SmallVector<StringRef> dims;
  SmallVector<int64_t> sizes;
  for (Value operand : operands) {
    auto type = cast<RankedTensorType>(operand.getType());
    for (auto [name, size] : llvm::zip(dimsOf(type), type.getShape())) {
      if (!llvm::is_contained(dims, name)) {
        dims.push_back(name);
        sizes.push_back(size);
      }
    }
  }
  return tensorType(element, dims, sizes);
}

ScopeAttr clv::scopeOf(Operation *op) {
  return op->getAttrOfType<ScopeAttr>(ClvDialect::kScope);
}

void clv::setScope(Operation *op, ScopeAttr scope) {
  if (scope) {
    op->setAttr(ClvDialect::kScope, scope);
  }
}

ScopeAttr clv::scopeOfValue(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    return scopeOf(op);
  }
  auto argument = cast<BlockArgument>(value);
  auto repeat = dyn_cast_or_null<RepeatOp>(argument.getOwner()->getParentOp());
  if (!repeat) {
    return {};
  }
  unsigned number = argument.getArgNumber();
  if (number >= 1 && number <= repeat.getCarried().size()) {
    Value next = repeat.getYield()->getOperand(number - 1);
    if (Operation *op = next.getDefiningOp();
        op && op->getBlock() == argument.getOwner() && scopeOf(op)) {
      return scopeOf(op);
    }
  }
  return scopeOf(repeat);
}

ScopeAttr clv::backwardOf(ScopeAttr scope) {
  if (!scope) {
    return {};
  }
  return ScopeAttr::get(scope.getContext(), scope.getRole(), Phase::Backward,
                        scope.getPath(), StringAttr(), scope.getReader());
}
