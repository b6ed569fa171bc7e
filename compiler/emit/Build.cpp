//===- Build.cpp - The actions of a function ------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Program.h"

#include "dialects/pipe/Pipe.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

Value emit::rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<clv::RenameOp>(op) || pipe::isView(op)) {
      value = op->getOperand(0);
    } else if (auto store = dyn_cast<pipe::StoreOp>(op)) {
      value = store.getWhole();
    } else if (pipe::isFrame(op)) {
      Operation *yield = op->getRegion(0).front().getTerminator();
      value = yield->getOperand(cast<OpResult>(value).getResultNumber());
    } else {
      break;
    }
  }
  return value;
}

SmallVector<Value> emit::readsOf(const Action &action) {
  switch (action.kind) {
  case Action::Kernel:
    return action.kernel.inputs;
  case Action::Wait:
    return {action.start->op->getOperand(0)};
  case Action::Frame: // what its body reads
    return {};
  default:
    return SmallVector<Value>(action.op->getOperands());
  }
}

SmallVector<Value> emit::writesOf(const Action &action) {
  switch (action.kind) {
  case Action::Kernel:
    return action.kernel.outputs;
  case Action::Wait:
  case Action::Loop:  // placed with the loop
  case Action::Micro: // and likewise
  case Action::Frame: // the values of its body
    return {};
  default:
    return SmallVector<Value>(action.op->getResults());
  }
}

namespace {

class ActionBuilder {
public:
  explicit ActionBuilder(codegen::KernelLibrary &library) : library(library) {}

  llvm::Error build(Block &block, Actions &actions, Action *parent);
  void number(Actions &actions);

private:
  codegen::KernelLibrary &library;
  int64_t next = 0;

  llvm::Error fill(Action &action, const codegen::Step &step);
  void insertWaits(Actions &actions);
};

} // namespace

static llvm::Error take(llvm::Expected<codegen::Kernel> kernel,
                        Action &action) {
  if (!kernel) {
    return kernel.takeError();
  }
  action.kernel = std::move(*kernel);
  return llvm::Error::success();
}

llvm::Error ActionBuilder::fill(Action &action, const codegen::Step &step) {
  Operation *op = step.op;
  if (!op && isa<clv::AttentionInterface>(step.members.front())) {
    return take(codegen::buildAttention(step.members, library), action);
  }
  if (!op) {
    std::optional<codegen::Analysis> analysis = codegen::analyze(step.members);
    if (!analysis) {
      return llvm::createStringError(
          "`" + step.members.front()->getName().getStringRef().str() +
          "` has operands whose pieces do not match");
    }
    return take(codegen::buildRowKernel(*analysis, library), action);
  }
  action.op = op;
  if (auto lookup = dyn_cast<clv::LookupOp>(op)) {
    return take(codegen::buildLookup(lookup, library), action);
  }
  if (auto scatter = dyn_cast<clv::ScatterAddOp>(op)) {
    return take(codegen::buildScatterAdd(scatter, library), action);
  }
  if (isa<clv::AttentionInterface>(op)) {
    return take(codegen::buildAttention(op, library), action);
  }
  if (auto cumsum = dyn_cast<clv::CumsumOp>(op)) {
    return take(codegen::buildCumsum(cumsum, library), action);
  }
  if (isa<clv::DotOp>(op) || codegen::isOrderedSum(op)) {
    action.kind = Action::Contraction;
  } else if (isa<clv::SliceOp, clv::PadOp, spmd::LocalSliceOp, pipe::StoreOp,
                 pipe::SpreadOp>(op)) {
    action.kind = Action::Move;
  } else if (isa<spmd::CollectiveInterface, pipe::ShareOp>(op)) {
    action.kind = Action::Start;
  } else if (pipe::isFrame(op) || isa<pipe::MicroOp>(op)) {
    action.kind = pipe::isFrame(op) ? Action::Frame : Action::Micro;
    return build(op->getRegion(0).front(), action.body, &action);
  } else if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
    action.kind = Action::Loop;
    return build(*repeat.getBlock(), action.body, &action);
  } else {
    return llvm::createStringError("`" + op->getName().getStringRef().str() +
                                   "` has no instruction");
  }
  return llvm::Error::success();
}

llvm::Error ActionBuilder::build(Block &block, Actions &actions,
                                 Action *parent) {
  SmallVector<codegen::Step> steps = codegen::schedule(block);
  codegen::joinAttention(steps);
  for (const codegen::Step &step : steps) {
    if (step.op && (isa<clv::RenameOp, pipe::MessageOp>(step.op) ||
                    pipe::isView(step.op))) {
      continue; // the same memory; messages are written with the streams
    }
    Operation *op = step.op ? step.op : step.members.back();
    auto action = std::make_unique<Action>(op->getLoc());
    action->parent = parent;
    action->scope = clv::scopeOf(op);
    action->isUpdate = step.isUpdate;
    if (llvm::Error error = fill(*action, step)) {
      std::string text;
      llvm::raw_string_ostream(text) << op->getLoc();
      return llvm::createStringError(llvm::toString(std::move(error)) +
                                     " (at " + text + ")");
    }
    actions.push_back(std::move(action));
  }
  insertWaits(actions);
  return llvm::Error::success();
}

static void collectReads(const Action &action, llvm::DenseSet<Value> &reads) {
  for (Value value : readsOf(action)) {
    reads.insert(rootOf(value));
  }
  for (const auto &inner : action.body) {
    collectReads(*inner, reads);
  }
  if (action.hasBody()) {
    Block &block = action.op->getRegion(0).front();
    for (Value value : block.getTerminator()->getOperands()) {
      reads.insert(rootOf(value));
    }
  }
}

/// A collective is waited for right before its first reader, before the update
/// begins, or at the end of its block.
void ActionBuilder::insertWaits(Actions &actions) {
  Actions result;
  llvm::MapVector<Value, Action *> pending;
  auto wait = [&](Action *start) {
    auto action = std::make_unique<Action>(start->loc);
    action->kind = Action::Wait;
    action->start = start;
    action->op = start->op;
    action->parent = start->parent;
    action->scope = start->scope;
    action->isUpdate = start->isUpdate;
    result.push_back(std::move(action));
  };
  auto waitForAll = [&] {
    for (auto &[value, start] : pending) {
      wait(start);
    }
    pending.clear();
  };
  for (auto &action : actions) {
    if (action->isUpdate && !result.empty() && !result.back()->isUpdate) {
      waitForAll();
    }
    llvm::DenseSet<Value> reads;
    collectReads(*action, reads);
    pending.remove_if([&](auto &entry) {
      if (!reads.contains(entry.first)) {
        return false;
      }
      wait(entry.second);
      return true;
    });
    if (action->kind == Action::Start) {
      pending[action->op->getResult(0)] = action.get();
    }
    result.push_back(std::move(action));
  }
  waitForAll();
  actions = std::move(result);
}

void ActionBuilder::number(Actions &actions) {
  for (auto &action : actions) {
    action->begin = next++;
    number(action->body);
    action->end = action->hasBody() ? next++ : action->begin;
  }
}

llvm::Expected<Actions> emit::buildActions(func::FuncOp function,
                                           codegen::KernelLibrary &library) {
  ActionBuilder builder(library);
  Actions actions;
  if (llvm::Error error =
          builder.build(function.getBody().front(), actions, nullptr)) {
    return std::move(error);
  }
  builder.number(actions);
  return std::move(actions);
}
