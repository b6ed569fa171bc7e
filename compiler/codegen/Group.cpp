//===- Group.cpp - Which operations become one kernel ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Group.h"

#include "compiler/reproducible/Reproducible.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include <queue>
#include <tuple>

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

/// More operands than this, and a kernel's pointers no longer fit registers.
static constexpr size_t mostOperands = 28;
static constexpr size_t mostMembers = 160;

bool codegen::isOrderedSum(Operation *op) {
  return isa<clv::ReduceOp>(op) && op->hasAttr(kOrdered);
}

SmallVector<Value> codegen::readsOf(Operation *op) {
  llvm::SetVector<Value> reads(op->operand_begin(), op->operand_end());
  for (Region &region : op->getRegions()) {
    region.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        if (!op->isAncestor(operand.getParentRegion()->getParentOp())) {
          reads.insert(operand);
        }
      }
    });
  }
  return reads.takeVector();
}

bool codegen::isOfUpdate(Operation *op) {
  if (clv::ScopeAttr scope = clv::scopeOf(op)) {
    return scope.getPhase() == clv::Phase::Update;
  }
  return op
      ->walk([&](Operation *inner) {
        clv::ScopeAttr scope = inner == op ? nullptr : clv::scopeOf(inner);
        return scope && scope.getPhase() == clv::Phase::Update
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::DenseSet<Operation *> codegen::updatesOf(Block &block) {
  llvm::DenseSet<Operation *> updates;
  for (Operation &op : block.without_terminator()) {
    if (isOfUpdate(&op) || llvm::any_of(readsOf(&op), [&](Value value) {
          return updates.contains(value.getDefiningOp());
        })) {
      updates.insert(&op);
    }
  }
  return updates;
}

namespace {

struct Node {
  SmallVector<Operation *> members;
  Operation *op = nullptr; ///< null for kernels
  bool alive = true;
  bool isUpdate = false;
};

class Scheduler {
public:
  explicit Scheduler(Block &block) : block(block) {}
  SmallVector<Step> run();

private:
  Block &block;
  SmallVector<Node> nodes;
  llvm::DenseMap<Operation *, int> nodeOf;
  llvm::DenseMap<Operation *, int> position;
  llvm::DenseSet<Operation *> updates; ///< of a function's block
  /// The operations that make what one of this block reads.
  llvm::DenseMap<Operation *, llvm::SetVector<Operation *>> makers;

  bool isStored(Operation *op);
  void addNode(Operation *op);
  void collect(Value value, llvm::SetVector<Operation *> &into);
  int firstOf(int node);
  int lastOf(int node);
  llvm::SetVector<int> predecessors(int node);
  bool reachesIndirectly(int from, int to);
  bool merge(int into, int node);
  SmallVector<int> partners(Operation *op, int node);
  void fuseExact();
  void fuse();
  SmallVector<Step> order();
};

} // namespace

/// Whether an operation's result must be in memory, or inside a kernel that
/// computes it once.
bool Scheduler::isStored(Operation *op) {
  if (!isCheap(op)) {
    return true;
  }
  return llvm::any_of(op->getUsers(),
                      [](Operation *user) { return !isFusable(user); });
}

void Scheduler::addNode(Operation *op) {
  Node node;
  if (isFusable(op)) {
    node.members = {op};
  } else {
    node.op = op;
  }
  node.isUpdate = updates.contains(op);
  nodeOf[op] = static_cast<int>(nodes.size());
  nodes.push_back(std::move(node));
}

/// What makes the things that a reader of `value` needs.
void Scheduler::collect(Value value, llvm::SetVector<Operation *> &into) {
  Operation *def = value.getDefiningOp();
  if (!def) {
    return;
  }
  into.insert(def);
  if (isCheap(def)) {
    for (Value operand : def->getOperands()) {
      collect(operand, into);
    }
  }
}

llvm::SetVector<int> Scheduler::predecessors(int node) {
  llvm::SetVector<int> result;
  auto add = [&](Operation *op) {
    for (Operation *maker : makers[op]) {
      auto found = nodeOf.find(maker);
      if (found != nodeOf.end() && found->second != node) {
        result.insert(found->second);
      }
    }
  };
  if (nodes[node].op) {
    add(nodes[node].op);
  }
  llvm::for_each(nodes[node].members, add);
  return result;
}

int Scheduler::firstOf(int node) {
  return position[nodes[node].op ? nodes[node].op
                                 : nodes[node].members.front()];
}

int Scheduler::lastOf(int node) {
  return position[nodes[node].op ? nodes[node].op : nodes[node].members.back()];
}

/// Whether `to` waits for `from` by way of a third node.
bool Scheduler::reachesIndirectly(int from, int to) {
  SmallVector<int> work;
  llvm::DenseSet<int> seen;
  int first = firstOf(from);
  auto push = [&](int node) {
    // What ends before `from` begins cannot wait for it.
    if (lastOf(node) > first && seen.insert(node).second) {
      work.push_back(node);
    }
  };
  for (int node : predecessors(to)) {
    if (node != from) {
      push(node);
    }
  }
  while (!work.empty()) {
    for (int before : predecessors(work.pop_back_val())) {
      if (before == from) {
        return true;
      }
      push(before);
    }
  }
  return false;
}

bool Scheduler::merge(int into, int node) {
  Node &a = nodes[into], &b = nodes[node];
  if (into == node || a.op || b.op || !a.alive || !b.alive ||
      a.isUpdate != b.isUpdate) {
    return false;
  }
  SmallVector<Operation *> members = a.members;
  llvm::append_range(members, b.members);
  if (members.size() > mostMembers) {
    return false;
  }
  llvm::sort(members, [&](Operation *x, Operation *y) {
    return position[x] < position[y];
  });
  std::optional<Analysis> analysis = analyze(members);
  if (!analysis ||
      analysis->inputs.size() + analysis->outputs.size() > mostOperands ||
      reachesIndirectly(into, node) || reachesIndirectly(node, into)) {
    return false;
  }
  for (Operation *op : b.members) {
    nodeOf[op] = into;
  }
  a.members = std::move(members);
  b.alive = false;
  b.members.clear();
  return true;
}

/// The kernels that an operation may join, best first: makers of its operands,
/// newest first, then others that read the same large operands.
SmallVector<int> Scheduler::partners(Operation *op, int node) {
  llvm::SetVector<int> before = predecessors(node);
  SmallVector<int> result(before.begin(), before.end());
  llvm::sort(result, std::greater<int>());
  int64_t rank = 0;
  for (Value operand : op->getOperands()) {
    rank = std::max(rank, cast<RankedTensorType>(operand.getType()).getRank());
  }
  for (Value operand : op->getOperands()) {
    if (rank == 0 ||
        cast<RankedTensorType>(operand.getType()).getRank() != rank) {
      continue;
    }
    for (Operation *user : operand.getUsers()) {
      auto found = nodeOf.find(user);
      if (found != nodeOf.end() && !llvm::is_contained(result, found->second)) {
        result.push_back(found->second);
      }
    }
  }
  // Scalars have one kernel where dependences allow it.
  if (rank == 0) {
    for (int other = node - 1; other >= 0; --other) {
      if (!nodes[other].members.empty() && nodes[other].alive &&
          extentsOf(nodes[other].members.front()->getResult(0)).empty() &&
          !llvm::is_contained(result, other)) {
        result.push_back(other);
        break;
      }
    }
  }
  return result;
}

/// Adds all nodes, and merges each number with the exact ones that lead to it.
/// They have no other reader, so that nothing stands in the way and what a plan
/// puts beside them plays no part.
void Scheduler::fuseExact() {
  for (Operation &op : block.without_terminator()) {
    if (!isStored(&op)) {
      continue;
    }
    addNode(&op);
    for (Value operand : op.getOperands()) {
      Operation *maker = operand.getDefiningOp();
      auto found = nodeOf.find(maker);
      if (found != nodeOf.end() && maker->hasAttr(kExact)) {
        merge(found->second, nodeOf[&op]);
      }
    }
  }
}

void Scheduler::fuse() {
  auto module = block.getParentOp()->getParentOfType<ModuleOp>();
  if (module && module->hasAttr(kReproducible)) {
    fuseExact();
  }
  for (Operation &op : block.without_terminator()) {
    if (!isStored(&op)) {
      continue;
    }
    if (!nodeOf.contains(&op)) {
      addNode(&op);
    }
    int node = nodeOf[&op];
    if (nodes[node].op || !nodes[node].alive) {
      continue;
    }
    for (int partner : partners(&op, node)) {
      if (merge(partner, node)) {
        break;
      }
    }
  }
  // Kernels that now make what another one reads.
  for (bool changed = true; changed;) {
    changed = false;
    for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
      if (!nodes[node].alive || nodes[node].op) {
        continue;
      }
      for (int maker : predecessors(node)) {
        if (merge(maker, node)) {
          changed = true;
          break;
        }
      }
    }
  }
}

/// Program order, except that a kernel stands where its last member does, a
/// collective as early as it can, and the update after all else.
SmallVector<Step> Scheduler::order() {
  int count = static_cast<int>(nodes.size());
  SmallVector<SmallVector<int>> successors(count);
  SmallVector<int> waiting(count, 0), priority(count, 0);
  for (int node = 0; node < count; ++node) {
    if (!nodes[node].alive) {
      continue;
    }
    llvm::SetVector<int> before = predecessors(node);
    waiting[node] = static_cast<int>(before.size());
    for (int maker : before) {
      successors[maker].push_back(node);
      priority[node] = std::max(priority[node], priority[maker]);
    }
    if (!isa_and_nonnull<spmd::CollectiveInterface>(nodes[node].op)) {
      Operation *last =
          nodes[node].op ? nodes[node].op : nodes[node].members.back();
      priority[node] = position[last];
    }
  }
  using Entry = std::tuple<bool, int, int>; ///< is it the update, priority
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  for (int node = 0; node < count; ++node) {
    if (nodes[node].alive && waiting[node] == 0) {
      ready.push({nodes[node].isUpdate, priority[node], node});
    }
  }
  SmallVector<Step> steps;
  while (!ready.empty()) {
    int node = std::get<2>(ready.top());
    ready.pop();
    steps.push_back(
        {nodes[node].members, nodes[node].op, nodes[node].isUpdate});
    for (int after : successors[node]) {
      if (--waiting[after] == 0) {
        ready.push({nodes[after].isUpdate, priority[after], after});
      }
    }
  }
  return steps;
}

SmallVector<Step> Scheduler::run() {
  if (isa<func::FuncOp>(block.getParentOp())) {
    updates = updatesOf(block);
  }
  int next = 0;
  for (Operation &op : block) {
    position[&op] = next++;
    for (Value value : readsOf(&op)) {
      collect(value, makers[&op]);
    }
  }
  fuse();
  return order();
}

SmallVector<Step> codegen::schedule(Block &block) {
  return Scheduler(block).run();
}
