//===- Order.cpp - The order of dims in memory ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Order.h"

#include "dialects/pipe/Pipe.h"
#include "dialects/spmd/Spmd.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <map>

using namespace mlir;
using namespace cleave;

namespace {

using Names = SmallVector<std::string>;

class Orderer {
public:
  explicit Orderer(func::FuncOp function) : function(function) {}
  void run();

private:
  func::FuncOp function;
  llvm::EquivalenceClasses<void *> classes;
  llvm::DenseMap<void *, SmallVector<Value>> members; ///< in program order
  llvm::DenseSet<void *> decided;                     ///< leaders
  llvm::DenseSet<void *> fixed; ///< leaders of arguments and results
  std::map<std::vector<std::string>, Names> orders; ///< by the set of dims

  void tie(Value a, Value b) {
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }
  void *leader(Value value) {
    classes.insert(value.getAsOpaquePointer());
    return classes.getLeaderValue(value.getAsOpaquePointer());
  }
  void tieAll();
  void addMembers(Block &block);
  void tieRepeat(clv::RepeatOp repeat);
  void tieFrame(Operation *op);
  void remember(Value value);
  std::optional<Names> known(Value value);
  std::optional<Names> preferred(Operation *op);
  void followReaders(Value value);
  void decide(Value value, const std::optional<Names> &order);
};

} // namespace

static Names namesOf(Value value) {
  Names names;
  for (StringRef name : clv::dimsOf(value)) {
    names.push_back(name.str());
  }
  return names;
}

static int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

static std::vector<std::string> setOf(const Names &names) {
  std::vector<std::string> sorted(names.begin(), names.end());
  llvm::sort(sorted);
  return sorted;
}

/// The type whose dim i is dim `from[i]` of `type`.
static RankedTensorType permuted(RankedTensorType type,
                                 ArrayRef<int64_t> from) {
  SmallVector<int64_t> shape;
  for (int64_t i : from) {
    shape.push_back(type.getDimSize(i));
  }
  Attribute encoding = type.getEncoding();
  auto pick = [&](auto all) {
    using Element = std::decay_t<decltype(all[0])>;
    SmallVector<Element> result;
    for (int64_t i : from) {
      result.push_back(all[i]);
    }
    return result;
  };
  MLIRContext *context = type.getContext();
  if (auto dims = dyn_cast_or_null<clv::DimsAttr>(encoding)) {
    SmallVector<StringAttr> names = pick(dims.getNames());
    encoding = clv::DimsAttr::get(context, ArrayRef<StringAttr>(names));
  } else if (auto local = dyn_cast_or_null<spmd::LocalAttr>(encoding)) {
    SmallVector<StringAttr> names = pick(local.getNames());
    SmallVector<int64_t> sizes = pick(local.getSizes());
    SmallVector<spmd::SplitAttr> splits = pick(local.getSplits());
    encoding = spmd::LocalAttr::get(context, names, sizes, splits,
                                    local.getPartial(), local.getReduction());
  }
  return RankedTensorType::get(shape, type.getElementType(), encoding);
}

void Orderer::tieRepeat(clv::RepeatOp repeat) {
  auto yielded = repeat.getYield()->getOperands();
  size_t carried = repeat.getCarried().size();
  for (size_t i = 0; i < carried; ++i) {
    Value argument = repeat.getCarriedArguments()[i];
    tie(repeat.getCarried()[i], argument);
    tie(argument, yielded[i]);
    tie(argument, repeat.getResult(i));
  }
  for (auto [operand, argument] :
       llvm::zip(repeat.getStacked(), repeat.getStackedArguments())) {
    tie(operand, argument);
  }
  for (size_t i = carried; i < repeat.getNumResults(); ++i) {
    tie(repeat.getResult(i), yielded[i]);
  }
}

/// What frames and microbatches give has the order of what it is.
void Orderer::tieFrame(Operation *op) {
  Operation *yield = op->getRegion(0).front().getTerminator();
  for (auto [result, yielded] :
       llvm::zip(op->getResults(), yield->getOperands())) {
    tie(result, yielded);
  }
  if (auto micro = dyn_cast<pipe::MicroOp>(op)) {
    for (auto [start, argument, result] :
         llvm::zip(micro.getCarried(), micro.getBlock()->getArguments(),
                   micro.getResults())) {
      tie(start, argument);
      tie(argument, result);
    }
  }
}

void Orderer::tieAll() {
  function.walk([&](Operation *op) {
    if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      tieRepeat(repeat);
    } else if (pipe::isFrame(op) || isa<pipe::MicroOp>(op)) {
      tieFrame(op);
    } else if (auto message = dyn_cast<pipe::MessageOp>(op)) {
      tie(message.getSource(), message.getTarget());
    } else if (isa<clv::RenameOp, clv::SliceOp, clv::PadOp, pipe::ShareOp,
                   pipe::SpreadOp, spmd::CollectiveInterface,
                   spmd::LocalSliceOp>(op) ||
               pipe::isView(op)) {
      tie(op->getOperand(0), op->getResult(0));
    } else if (auto store = dyn_cast<pipe::StoreOp>(op)) {
      tie(store.getPart(), store.getResult());
      tie(store.getWhole(), store.getResult());
    }
  });
  auto fix = [&](Value value) {
    decided.insert(leader(value));
    fixed.insert(leader(value));
  };
  llvm::for_each(function.getArguments(), fix);
  llvm::for_each(function.getBody().front().getTerminator()->getOperands(),
                 fix);
}

/// Lists each class in program order: that of the classes is by address.
void Orderer::addMembers(Block &block) {
  for (Value argument : block.getArguments()) {
    members[leader(argument)].push_back(argument);
  }
  for (Operation &op : block) {
    for (Value result : op.getResults()) {
      members[leader(result)].push_back(result);
    }
    for (Region &region : op.getRegions()) {
      for (Block &inner : region) {
        addMembers(inner);
      }
    }
  }
}

void Orderer::remember(Value value) {
  Names names = namesOf(value);
  orders.try_emplace(setOf(names), names);
}

std::optional<Names> Orderer::known(Value value) {
  auto found = orders.find(setOf(namesOf(value)));
  return found == orders.end() ? std::nullopt
                               : std::optional<Names>(found->second);
}

std::optional<Names> Orderer::preferred(Operation *op) {
  Value result = op->getResult(0);
  std::vector<std::string> wanted = setOf(namesOf(result));
  if (isa<clv::ElementwiseInterface, clv::BroadcastOp, clv::CumsumOp,
          clv::EdgeOp, clv::WeightOp, clv::GradientOp>(op)) {
    std::optional<Names> best;
    bool isFloat = false;
    for (Value operand : op->getOperands()) {
      Names names = namesOf(operand);
      bool floats = isa<FloatType>(
          cast<RankedTensorType>(operand.getType()).getElementType());
      if (setOf(names) == wanted && (!best || (floats && !isFloat))) {
        best = names;
        isFloat = floats;
      }
    }
    return best ? best : known(result);
  }
  if (auto reduce = dyn_cast<clv::ReduceOp>(op)) {
    Names names = namesOf(reduce.getX());
    llvm::erase_if(names, [&](const std::string &name) {
      return !llvm::is_contained(wanted, name);
    });
    return names;
  }
  if (auto dot = dyn_cast<clv::DotOp>(op)) {
    if (std::optional<Names> order = known(result)) {
      return order;
    }
    Names names;
    for (Value operand : {dot.getLhs(), dot.getRhs()}) {
      for (const std::string &name : namesOf(operand)) {
        if (llvm::is_contained(wanted, name) &&
            !llvm::is_contained(names, name)) {
          names.push_back(name);
        }
      }
    }
    return names;
  }
  if (isa<clv::ScatterAddOp>(op)) {
    return known(result);
  }
  if (isa<clv::AttentionInterface>(op)) {
    // Like the tensor that it is the sum, the result or the gradient of.
    bool isOfKey = isa<clv::AttentionKeyGradientOp>(op);
    Names names = namesOf(op->getOperand(isOfKey ? 1 : 0));
    llvm::erase_if(names, [&](const std::string &name) {
      return !llvm::is_contained(wanted, name);
    });
    return names.size() == wanted.size() ? names : known(result);
  }
  return std::nullopt;
}

/// Orders a contraction's result as elementwise readers need it that meet an
/// argument or make a result of the function: a gradient like its parameter,
/// by way of the moments.
void Orderer::followReaders(Value value) {
  constexpr size_t mostSteps = 64;
  SmallVector<std::pair<Value, Value>> queue; // a value, and whose order it has
  llvm::DenseSet<Value> seen;
  auto push = [&](Value v, Value origin) {
    if (rankOf(v) > 1 && seen.insert(v).second) {
      queue.push_back({v, origin});
    }
  };
  for (Value member : members[leader(value)]) {
    push(member, member);
  }
  for (size_t i = 0; i < queue.size() && i < mostSteps; ++i) {
    auto [current, origin] = queue[i];
    std::vector<std::string> dims = setOf(namesOf(current));
    for (Operation *user : current.getUsers()) {
      if (!isa<clv::ElementwiseInterface>(user)) {
        continue;
      }
      SmallVector<Value> others(user->getOperands());
      others.push_back(user->getResult(0));
      for (Value other : others) {
        if (setOf(namesOf(other)) == dims && fixed.contains(leader(other))) {
          decide(origin, namesOf(other));
          return;
        }
      }
      if (setOf(namesOf(user->getResult(0))) == dims) {
        push(user->getResult(0), origin);
      }
    }
  }
}

/// Orders a value, and all that share its order, as `order` says. Where some
/// of them are slices of others, leading dims stay in front.
void Orderer::decide(Value value, const std::optional<Names> &order) {
  void *first = leader(value);
  if (!decided.insert(first).second || !order) {
    return;
  }
  int64_t base = rankOf(value);
  for (Value member : members[first]) {
    base = std::min(base, rankOf(member));
  }
  Names names = namesOf(value);
  int64_t leading = rankOf(value) - base;
  SmallVector<int64_t> from; // of the last `base` dims
  for (auto [i, name] : llvm::enumerate(*order)) {
    int64_t at = llvm::find(names, name) - names.begin();
    if (static_cast<int64_t>(i) < leading) {
      if (at != static_cast<int64_t>(i)) {
        return;
      }
      continue;
    }
    from.push_back(at - leading);
  }
  for (Value member : members[first]) {
    int64_t front = rankOf(member) - base;
    SmallVector<int64_t> all;
    for (int64_t i = 0; i < front; ++i) {
      all.push_back(i);
    }
    for (int64_t i : from) {
      all.push_back(i + front);
    }
    member.setType(permuted(cast<RankedTensorType>(member.getType()), all));
  }
}

void Orderer::run() {
  tieAll();
  addMembers(function.getBody().front());
  for (Value argument : function.getArguments()) {
    remember(argument);
  }
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      for (Value argument : repeat.getBlock()->getArguments()) {
        remember(argument);
      }
      return;
    }
    if (op->getNumRegions() > 0 || op->getNumResults() != 1 ||
        !isa<RankedTensorType>(op->getResult(0).getType())) {
      return;
    }
    if (isa<clv::ConstantOp>(op) ||
        (isa<clv::BroadcastOp>(op) && rankOf(op->getOperand(0)) == 0)) {
      return; // the same in any order: what is added to it decides
    }
    if (isa<clv::DotOp, clv::ScatterAddOp>(op)) {
      followReaders(op->getResult(0));
    }
    decide(op->getResult(0), preferred(op));
    remember(op->getResult(0));
  });
}

/// `type` with the dims `inner` last, in that order.
static RankedTensorType withLast(RankedTensorType type,
                                 ArrayRef<StringRef> inner) {
  SmallVector<int64_t> from;
  for (auto [i, name] : llvm::enumerate(clv::dimsOf(type))) {
    if (!llvm::is_contained(inner, name)) {
      from.push_back(static_cast<int64_t>(i));
    }
  }
  for (StringRef name : inner) {
    from.push_back(clv::findDim(type, name));
  }
  return permuted(type, from);
}

/// The dims over which scores sum, or the features, in the one order that all
/// operations of an attention take.
static SmallVector<StringRef> innerDims(clv::AttentionInterface op, Type type) {
  auto overs = llvm::to_vector(op.getOver().getAsValueRange<StringAttr>());
  SmallVector<StringRef> features = clv::featureDims(op), inner;
  auto isIn = [&](StringRef name) { return clv::findDim(type, name) >= 0; };
  for (StringRef name : overs) {
    if (isIn(name)) {
      inner.push_back(name);
    }
  }
  llvm::sort(features);
  for (StringRef name : features) {
    if (isIn(name) && !llvm::is_contained(inner, name)) {
      inner.push_back(name);
    }
  }
  return inner;
}

/// Copies what an attention reads or makes where its inner dims are not last.
static void straighten(clv::AttentionInterface op) {
  OpBuilder builder(op);
  auto copy = [&](Value value, RankedTensorType type) {
    auto broadcast = builder.create<clv::BroadcastOp>(op.getLoc(), type, value);
    clv::setScope(broadcast, clv::scopeOf(op));
    return broadcast;
  };
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = cast<RankedTensorType>(operand.get().getType());
    RankedTensorType wanted = withLast(type, innerDims(op, type));
    if (wanted != type) {
      operand.set(copy(operand.get(), wanted));
    }
  }
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  RankedTensorType wanted = withLast(type, innerDims(op, type));
  if (wanted != type) {
    builder.setInsertionPointAfter(op);
    result.setType(wanted);
    auto back = copy(result, type);
    result.replaceAllUsesExcept(back, back);
  }
}

void emit::chooseOrders(func::FuncOp function) {
  Orderer(function).run();
  function.walk([](clv::AttentionInterface op) { straighten(op); });
}
