//===- Route.cpp - What positions of a pipeline send to each other --------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Route.h"

#include "compiler/codegen/Group.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

/// Another value with the same elements, in memory of its own.
Value Router::copy(Value value, Operation *before, Section &section) {
  builder.setInsertionPoint(before);
  Location loc = before->getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  Type scalar =
      spmd::localType(element, {}, {}, layout::Layout(), classifier.mesh);
  Attribute one = isa<FloatType>(element)
                      ? Attribute(builder.getFloatAttr(element, 1))
                      : Attribute(builder.getIntegerAttr(element, 1));
  Value constant = builder.create<clv::ConstantOp>(
      loc, cast<RankedTensorType>(scalar), cast<TypedAttr>(one));
  Operation *made;
  if (element.isInteger(1)) {
    made = builder.create<clv::AndOp>(loc, type, value, constant);
  } else {
    made = builder.create<clv::MulOp>(loc, type, value, constant);
  }
  if (auto scope = clv::scopeOfValue(value)) {
    clv::setScope(constant.getDefiningOp(), scope);
    clv::setScope(made, scope);
  }
  sections.put(made, section);
  return made->getResult(0);
}

bool Router::refuse(Operation *reader, const Section &maker) {
  reader->emitError("`") << reader->getName().stripDialect() << "` of "
                         << describe(*sections.find(reader))
                         << " reads a value of " << describe(maker)
                         << ", from which no message leads there";
  return false;
}

/// The position that has the value; none where each position of its section has
/// its own.
std::optional<int64_t> Router::homeOf(Value value, const Section &maker) const {
  if (!maker.repeat) {
    return maker.begin;
  }
  clv::RepeatOp repeat = maker.repeat;
  bool isCarried =
      value.getDefiningOp() == repeat.getOperation() &&
      cast<OpResult>(value).getResultNumber() < repeat.getCarried().size();
  return isCarried ? std::optional(maker.exit()) : std::nullopt;
}

/// Whether something inside a repeat reads `value`, or it is stacked.
static bool isCaptured(clv::RepeatOp repeat, Value value) {
  bool captured = llvm::is_contained(repeat.getStacked(), value);
  repeat.getBody().walk([&](Operation *inner) {
    captured |= llvm::is_contained(inner->getOperands(), value);
  });
  return captured;
}

Router::Need Router::needOf(Operation *reader, Value value) const {
  const Section &section = *sections.find(reader);
  Need need;
  clv::RepeatOp repeat = section.repeat;
  if (repeat.getOperation() == reader && !isCaptured(repeat, value)) {
    need.add(section.entry(), section.entry() + 1); // it starts it
  } else {
    need.add(section.begin, section.end);
  }
  return need;
}

//===----------------------------------------------------------------------===//
// What starts a repeat
//===----------------------------------------------------------------------===//

/// Whether `start` is read past the entry of the repeat, where it would be
/// overwritten.
bool Router::isReadBeyond(Value start, clv::RepeatOp repeat,
                          const Section &section) {
  if (llvm::count(repeat.getCarried(), start) > 1 ||
      isCaptured(repeat, start)) {
    return true;
  }
  Block *block = repeat->getBlock();
  return llvm::any_of(start.getUsers(), [&](Operation *user) {
    Operation *reader = block->findAncestorOpInBlock(*user);
    Section *other = sections.find(reader);
    if (!other || reader == repeat.getOperation()) {
      return false;
    }
    if (other->repeat && other->repeat.getOperation() == reader &&
        llvm::is_contained(other->repeat.getCarried(), start)) {
      return true; // it starts that one as well
    }
    Need need = needOf(reader, start);
    return section.backward ? need.first < section.entry()
                            : need.last > section.entry();
  });
}

void Router::startRepeat(Section &section) {
  clv::RepeatOp repeat = section.repeat;
  for (unsigned i = 0; i < repeat.getCarried().size(); ++i) {
    if (layerSums.contains(repeat.getResult(i))) {
      continue;
    }
    Value start = repeat.getCarried()[i];
    Operation *maker = start.getDefiningOp();
    bool isMadeAgain = maker && classifier.isOfInputs(start) &&
                       (classifier.isTimed(maker) || codegen::isCheap(maker));
    if (isMadeAgain) {
      starts.push_back({&repeat->getOpOperand(i), &sections.before(section)});
    } else if (!sections.find(start) || isReadBeyond(start, repeat, section)) {
      // A parameter too: what arrives from neighbours must not overwrite it.
      repeat->setOperand(i, copy(start, repeat, sections.before(section)));
    }
  }
}

//===----------------------------------------------------------------------===//
// What is passed on
//===----------------------------------------------------------------------===//

/// Values that go forward and that the backward pass reads further back.
void Router::copyBack() {
  Block &block = classifier.function.getBody().front();
  SmallVector<std::pair<Value, SmallVector<Operation *>>> found;
  for (Operation &op : block) {
    Section *maker = sections.find(&op);
    if (!maker || maker->backward) {
      continue;
    }
    for (Value value : op.getResults()) {
      std::optional<int64_t> home = homeOf(value, *maker);
      SmallVector<Operation *> readers;
      for (Operation *user : value.getUsers()) {
        Operation *reader = block.findAncestorOpInBlock(*user);
        Section *section = sections.find(reader);
        if (home && section && section->backward &&
            needOf(reader, value).first < *home &&
            !llvm::is_contained(readers, reader)) {
          readers.push_back(reader);
        }
      }
      if (!readers.empty()) {
        found.push_back({value, readers});
      }
    }
  }
  for (auto &[value, readers] : found) {
    int64_t home = *homeOf(value, *sections.find(value));
    Operation *first = readers.front();
    for (Operation *reader : readers) {
      first = reader->isBeforeInBlock(first) ? reader : first;
    }
    Value back = copy(value, first, sections.at(true, 0, home));
    for (Operation *reader : readers) {
      reader->walk([&, from = value](Operation *inner) {
        inner->replaceUsesOfWith(from, back);
      });
    }
  }
}

/// Finds the way of a value to all that read it.
bool Router::relay(Value value, const Section &maker) {
  Block &block = classifier.function.getBody().front();
  std::optional<int64_t> home = homeOf(value, maker);
  Need all;
  for (Operation *user : value.getUsers()) {
    Operation *reader = block.findAncestorOpInBlock(*user);
    Section *section = sections.find(reader);
    if (!section || section == &maker) {
      continue;
    }
    Need need = needOf(reader, value);
    bool isThere =
        home ? maker.backward ? need.last <= *home : need.first >= *home
             : need.first >= maker.begin && need.last < maker.end;
    if (!isThere || (maker.backward && !section->backward)) {
      return refuse(reader, maker);
    }
    all.add(need.first, need.last + 1);
  }
  bool isSent = home && (maker.backward ? all.first < *home : all.last > *home);
  if (!isSent) {
    return true;
  }
  layout::Layout layout = spmd::layoutOf(value.getType());
  if (llvm::any_of(classifier.plan.pipeline->atoms,
                   [&](layout::AtomId atom) { return layout.uses(atom); })) {
    value.getDefiningOp()->emitError(
        "a value that is cut over the stages is read at another position");
    return false;
  }
  relays.push_back(
      maker.backward
          ? Relay{value, pipe::Direction::Gradient, all.first, *home}
          : Relay{value, pipe::Direction::Activation, *home, all.last});
  return true;
}

bool Router::run() {
  for (Section *section : sections.inOrder()) {
    if (section->repeat) {
      startRepeat(*section);
    }
  }
  copyBack();
  for (Operation &op : classifier.function.getBody().front()) {
    Section *maker = sections.find(&op);
    for (Value value : op.getResults()) {
      if (maker && !layerSums.contains(value) && !relay(value, *maker)) {
        return false;
      }
    }
  }
  return true;
}
