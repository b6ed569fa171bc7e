//===- Place.cpp - Where every value of a function lies -------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that must end in a given place (a leaf, a carried buffer, a slice of
// a stacked one) is made there, if nobody reads what is there any more when it
// is made; else it is made elsewhere and copied at the end. In the order
// decided: results of the function, then of each loop from the last to the
// first, and inside each loop what it yields.
//
// Microbatches. What they add to is carried like what a loop carries. A value
// that one section gives and another reads lives in a slot, of which a stage
// has one for each microbatch that is under way.
//
// Stacks that a loop running down goes through. The gradients that it stacks
// may take the place of what it has read for the last time (Arena.h).
//
// An all-reduce works in place where nobody else reads its source afterwards:
// both values are then one.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Program.h"

#include "dialects/pipe/Pipe.h"
#include "llvm/ADT/SmallSet.h"

#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

Place Placement::placeOf(Value value) const {
  return places.lookup(rootOf(value));
}

namespace {

/// The largest position at which a value is read, and how often there.
struct Reads {
  int64_t last = -1;
  int count = 0;
};

struct SliceBytes {
  int64_t least = 0, most = 0;
};

class Placer {
public:
  Placer(func::FuncOp function, const Actions &actions)
      : function(function), actions(actions) {}

  void placeArguments(function_ref<int(unsigned)> leafOf,
                      function_ref<int(unsigned)> inputOf);
  void placeResults(function_ref<int(unsigned)> resultLeafOf);
  Placement finish();

private:
  func::FuncOp function;
  const Actions &actions;
  Placement result;
  llvm::DenseMap<Value, Reads> reads; ///< of roots, lifted to their block
  llvm::DenseMap<Value, const Action *> makers;
  llvm::DenseMap<int, int> leafBuffers;
  llvm::DenseMap<Value, Value> inPlace; ///< results of all-reduces: sources
  int64_t finalPosition = 0;

  Value rootOf(Value value) {
    value = emit::rootOf(value);
    while (Value source = inPlace.lookup(value)) {
      value = emit::rootOf(source);
    }
    return value;
  }
  Place placeOf(Value value) { return result.places.lookup(rootOf(value)); }
  void findInPlace(const Actions &actions);
  void readAll();
  void read(Value value, int64_t position, const Action *reader);
  void findReads(const Actions &actions);
  void placeActions(const Actions &actions, int depth);
  void placeLoop(const Action &action, int depth);
  void placeSlots(const Action &action);
  void placeMicro(const Action &action, int depth);
  template <typename Op>
  void placeCarried(Op op, ValueRange arguments, ValueRange results,
                    const Action &action, const Actions &actions);
  void placeStacked(const Action &action, int depth);
  void placeYields(const Action &action, int depth);
  int newBuffer(int64_t bytes);
  int newBuffer(Value value);
  bool mayTake(Value value, Value old, const Actions &block);
  std::vector<Copy> ordered(std::vector<Copy> copies, int64_t position);
  void coverValues(const Actions &actions);
  using Pairs = std::set<std::pair<int, int>>;
  void findMoves(const Actions &actions, Pairs &pairs);
  void findTrails(const Action &action);
  bool readsWhole(const Actions &actions, Value stack);
  SliceBytes sliceBytes(Value stack) const;
  std::vector<Trail> trails; ///< of buffers

public:
  void run() {
    finalPosition = actions.empty() ? 0 : actions.back()->end + 1;
    readAll();
    findInPlace(actions);
    readAll();
  }
};

} // namespace

static int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * codegen::elementBytes(type);
}

/// Notes a read. One inside loops that do not hold the value's definition is a
/// read until the end of the outermost such loop.
void Placer::read(Value value, int64_t position, const Action *reader) {
  Value root = rootOf(value);
  Operation *owner = root.getParentBlock()->getParentOp();
  for (const Action *loop = reader ? reader->parent : nullptr; loop;
       loop = loop->parent) {
    if (loop->op == owner) {
      break;
    }
    // A frame is run once where it stands.
    position = loop->kind == Action::Frame ? position : loop->end;
  }
  Reads &entry = reads[root];
  if (position > entry.last) {
    entry = {position, 1};
  } else if (position == entry.last) {
    ++entry.count;
  }
}

void Placer::findReads(const Actions &actions) {
  for (const auto &action : actions) {
    for (Value value : writesOf(*action)) {
      makers.try_emplace(rootOf(value), action.get());
    }
    if (action->kind == Action::Micro) {
      auto micro = cast<pipe::MicroOp>(action->op);
      for (Value value : micro.getCarried()) {
        read(value, action->begin, action.get());
      }
      findReads(action->body);
      for (Value value : micro.getYield()->getOperands()) {
        Reads &entry = reads[rootOf(value)];
        entry = {action->end, entry.count + 1};
      }
      for (auto message : micro.getBlock()->getOps<pipe::MessageOp>()) {
        for (Value value : message->getOperands()) {
          read(value, action->end, action->body.front().get());
        }
      }
      continue;
    }
    if (action->kind == Action::Frame) {
      findReads(action->body);
      continue;
    }
    if (action->kind != Action::Loop) {
      for (Value value : readsOf(*action)) {
        read(value, action->begin, action.get());
      }
      continue;
    }
    auto repeat = cast<clv::RepeatOp>(action->op);
    for (Value value : repeat.getCarried()) {
      read(value, action->begin, action.get());
    }
    for (Value value : repeat.getStacked()) {
      read(value, action->end, action.get());
    }
    findReads(action->body);
    for (Value value : repeat.getYield()->getOperands()) {
      // As the last thing that the body does.
      const Action *last =
          action->body.empty() ? nullptr : action->body.back().get();
      if (last) {
        read(value, action->end, last);
      } else if (rootOf(value).getParentBlock() != repeat.getBlock()) {
        read(value, action->end, action.get());
      } else {
        Reads &entry = reads[rootOf(value)];
        entry = {action->end, entry.count + 1};
      }
    }
  }
}

void Placer::readAll() {
  reads.clear();
  makers.clear();
  findReads(actions);
  Operation *terminator = function.getBody().front().getTerminator();
  for (Value value : terminator->getOperands()) {
    read(value, finalPosition, nullptr);
  }
}

/// The all-reduces of a source that is made in the same block, and that only
/// their own wait reads last.
void Placer::findInPlace(const Actions &actions) {
  for (const auto &action : actions) {
    findInPlace(action->body);
    if (action->kind != Action::Wait || !isa<spmd::AllReduceOp>(action->op)) {
      continue;
    }
    Value source = rootOf(action->op->getOperand(0));
    const Action *start = action->start;
    const Action *maker = makers.lookup(source);
    Reads last = reads.lookup(source);
    bool alone = last.last == action->begin && last.count == 1;
    bool local = maker && maker->kind != Action::Start &&
                 maker->parent == action->parent;
    // Whoever reads it between start and wait would see half a sum.
    for (const auto &other : actions) {
      if (other->begin > start->begin && other->begin < action->begin) {
        for (Value value : readsOf(*other)) {
          alone &= rootOf(value) != source;
        }
        alone &= other->kind != Action::Loop;
      }
    }
    if (alone && local) {
      inPlace[action->op->getResult(0)] = source;
    }
  }
}

int Placer::newBuffer(int64_t bytes) {
  Buffer buffer;
  buffer.bytes = bytes;
  result.buffers.push_back(buffer);
  return static_cast<int>(result.buffers.size()) - 1;
}

/// Whether a value has all chunks of a stage.
static bool hasChunks(Value value) {
  layout::Layout layout = spmd::layoutOf(value.getType());
  return !layout.dims.empty() && !layout::isContiguous(layout.dims.front());
}

int Placer::newBuffer(Value value) {
  int buffer = newBuffer(bytesOf(value));
  result.buffers[buffer].hasChunks = hasChunks(value);
  return buffer;
}

/// Whether an action stands in a list, or in frames there.
static bool isIn(const Action *action, const Actions &block) {
  while (action) {
    if (llvm::any_of(block, [&](const auto &a) { return a.get() == action; })) {
      return true;
    }
    action = action->parent && action->parent->kind == Action::Frame
                 ? action->parent
                 : nullptr;
  }
  return false;
}

/// Whether `value`, made in `block`, may be made in the memory of `old` (null:
/// memory that nobody reads before).
bool Placer::mayTake(Value value, Value old, const Actions &block) {
  const Action *maker = makers.lookup(value);
  if (!maker || result.places.contains(value) || !isIn(maker, block)) {
    return false;
  }
  if (!old) {
    return true;
  }
  Reads last = reads.lookup(old);
  if (last.last < maker->begin) {
    return true;
  }
  if (last.last > maker->begin || maker->kind != Action::Kernel) {
    return false;
  }
  // Read by the kernel that makes it: by one operand alone, in step.
  const codegen::Kernel &kernel = maker->kernel;
  int input = -1;
  for (auto [i, operand] : llvm::enumerate(kernel.inputs)) {
    if (rootOf(operand) == old) {
      if (input >= 0) {
        return false;
      }
      input = static_cast<int>(i);
    }
  }
  for (auto [i, j] : kernel.inPlace) {
    if (static_cast<int>(i) == input && kernel.outputs[j] == value) {
      return true;
    }
  }
  return false;
}

void Placer::placeArguments(function_ref<int(unsigned)> leafOf,
                            function_ref<int(unsigned)> inputOf) {
  for (BlockArgument argument : function.getArguments()) {
    int leaf = leafOf(argument.getArgNumber());
    int input = inputOf(argument.getArgNumber());
    int buffer = newBuffer(argument);
    result.buffers[buffer].storage =
        leaf >= 0 ? format::Storage::Leaf : format::Storage::Input;
    result.buffers[buffer].index = leaf >= 0 ? leaf : input;
    result.places[argument] = {buffer, -1, {}};
    if (leaf >= 0) {
      leafBuffers[leaf] = buffer;
    }
  }
}

/// Copies that all read before any writes: what is both read and written goes
/// through a buffer of its own.
std::vector<Copy> Placer::ordered(std::vector<Copy> copies, int64_t position) {
  llvm::SmallSet<int, 8> written;
  for (const Copy &copy : copies) {
    written.insert(copy.target.buffer);
  }
  std::vector<Copy> first;
  for (Copy &copy : copies) {
    if (written.contains(copy.source.buffer)) {
      Place aside{newBuffer(copy.value), -1, {}};
      result.buffers[aside.buffer].cover(position);
      first.push_back({copy.value, copy.source, aside});
      copy.source = aside;
    }
  }
  first.insert(first.end(), copies.begin(), copies.end());
  return first;
}

void Placer::placeResults(function_ref<int(unsigned)> resultLeafOf) {
  Operation *terminator = function.getBody().front().getTerminator();
  std::vector<std::pair<Value, int>> pending;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    int leaf = resultLeafOf(i);
    if (leaf < 0) {
      continue;
    }
    int buffer = leafBuffers.lookup(leaf);
    Value argument;
    for (auto &[old, place] : result.places) {
      if (place.buffer == buffer && isa<BlockArgument>(old)) {
        argument = old;
      }
    }
    Value root = rootOf(value);
    if (mayTake(root, argument, actions)) {
      result.places[root] = {buffer, -1, {}};
    }
    pending.push_back({value, buffer});
  }
  placeActions(actions, 0);
  std::vector<Copy> copies;
  for (auto [value, buffer] : pending) {
    Place source = placeOf(value);
    if (source.buffer != buffer) {
      copies.push_back({value, source, {buffer, -1, {}}});
    }
  }
  result.last = ordered(std::move(copies), finalPosition);
}

/// The slots of what a section gives, by who uses it; none where only the
/// section does.
static std::optional<SlotGroup> slotGroupOf(pipe::SectionOp section,
                                            Value given) {
  SlotGroup group;
  group.begin = section.getBegin();
  group.end = section.getEnd();
  bool crosses = false;
  auto cover = [&](int64_t begin, int64_t end) {
    crosses = true;
    group.begin = std::min(group.begin, begin);
    group.end = std::max(group.end, end);
  };
  for (Operation *user : given.getUsers()) {
    if (auto message = dyn_cast<pipe::MessageOp>(user)) {
      cover(message.getBegin(), message.getEnd() + 1);
      if (message.getTarget() == given) {
        group.kind = message.getDirection() == pipe::Direction::Activation
                         ? SlotGroup::Activations
                         : SlotGroup::Gradients;
      }
    } else if (auto other = user->getParentOfType<pipe::SectionOp>();
               other && other != section) {
      cover(other.getBegin(), other.getEnd());
    }
  }
  return crosses ? std::optional(group) : std::nullopt;
}

/// The number of the group of that kind and those positions.
static size_t numberOf(const SlotGroup &wanted,
                       std::vector<SlotGroup> &groups) {
  auto found = llvm::find_if(groups, [&](const SlotGroup &one) {
    return one.kind == wanted.kind && one.begin == wanted.begin &&
           one.end == wanted.end;
  });
  if (found == groups.end()) {
    groups.push_back(wanted);
    return groups.size() - 1;
  }
  return found - groups.begin();
}

/// The values that sections give to others, or to other stages.
void Placer::placeSlots(const Action &action) {
  for (const auto &frame : action.body) {
    auto section = cast<pipe::SectionOp>(frame->op);
    for (Value given : section.getResults()) {
      std::optional<SlotGroup> wanted = slotGroupOf(section, given);
      Value root = rootOf(given);
      if (!wanted || result.places.contains(root)) {
        continue;
      }
      size_t number = numberOf(*wanted, result.slots);
      SlotGroup &group = result.slots[number];
      int buffer = newBuffer(root);
      result.buffers[buffer].storage = format::Storage::Slot;
      result.buffers[buffer].index = static_cast<unsigned>(number);
      result.buffers[buffer].offset = group.bytes;
      group.bytes +=
          llvm::alignTo(result.buffers[buffer].bytes, arenaAlignment);
      result.places[root] = {buffer, -1, {}};
    }
  }
}

/// Sums over microbatches: as a loop carries values, with a copy at the end of
/// the section where one could not be made in place.
void Placer::placeMicro(const Action &action, int depth) {
  auto micro = cast<pipe::MicroOp>(action.op);
  for (auto [start, argument, last, value] :
       llvm::zip(micro.getCarried(), micro.getBlock()->getArguments(),
                 micro.getResults(), micro.getYield()->getOperands())) {
    Place place = result.places[last];
    Value root = rootOf(value);
    if (mayTake(root, argument, action.body)) {
      result.places[root] = place;
    }
    Place source = placeOf(start);
    if (source.buffer != place.buffer) {
      result.before[&action].push_back({start, source, place});
    }
  }
  placeSlots(action);
  placeActions(action.body, depth);
  for (auto [argument, value] : llvm::zip(micro.getBlock()->getArguments(),
                                          micro.getYield()->getOperands())) {
    Place source = placeOf(value), target = result.places[argument];
    if (source.buffer != target.buffer) {
      for (const auto &frame : action.body) {
        if (frame->op == value.getDefiningOp()) {
          result.atEnd[frame.get()].push_back({value, source, target});
          result.buffers[source.buffer].cover(frame->end);
        }
      }
    }
  }
}

/// A carried value has one place: start, argument and result.
template <typename Op>
void Placer::placeCarried(Op op, ValueRange arguments, ValueRange results,
                          const Action &action, const Actions &actions) {
  for (auto [start, argument, last] :
       llvm::zip(op.getCarried(), arguments, results)) {
    Place place = result.places.lookup(last);
    if (!place) {
      place = {newBuffer(last), -1, {}};
    }
    result.places[last] = place;
    result.places[argument] = place;
    result.buffers[place.buffer].cover(action.begin);
    result.buffers[place.buffer].cover(action.end);
    // The first value is made there if only the loop takes it.
    Value root = rootOf(start);
    Reads entry = reads.lookup(root);
    if (entry.last == action.begin && entry.count == 1 &&
        mayTake(root, {}, actions)) {
      result.places[root] = place;
    }
  }
}

void Placer::placeActions(const Actions &actions, int depth) {
  for (const auto &action : llvm::reverse(actions)) {
    if (auto micro = dyn_cast_or_null<pipe::MicroOp>(action->op);
        micro && action->kind == Action::Micro) {
      placeCarried(micro, micro.getBlock()->getArguments(), micro.getResults(),
                   *action, actions);
    }
    if (action->kind != Action::Loop) {
      continue;
    }
    auto repeat = cast<clv::RepeatOp>(action->op);
    placeCarried(repeat, repeat.getCarriedArguments(),
                 repeat.getCarriedResults(), *action, actions);
    for (Value stacked : repeat.getStackedResults()) {
      if (!result.places.contains(stacked)) {
        result.places[stacked] = {newBuffer(stacked), -1, {}};
      }
      int buffer = result.places[stacked].buffer;
      result.buffers[buffer].cover(action->begin);
      result.buffers[buffer].cover(action->end);
    }
  }
  for (const auto &action : actions) {
    for (Value value : writesOf(*action)) {
      Value root = rootOf(value);
      if (!result.places.contains(root)) {
        result.places[root] = {newBuffer(root), -1, {}};
      }
    }
    if (action->kind == Action::Kernel) {
      for (int64_t bytes : action->kernel.scratch) {
        int buffer = newBuffer(bytes);
        result.buffers[buffer].cover(action->begin);
        result.scratch[action.get()].push_back(buffer);
      }
    }
    if (action->kind == Action::Loop) {
      placeLoop(*action, depth);
    } else if (action->kind == Action::Micro) {
      placeMicro(*action, depth);
    } else if (action->kind == Action::Frame) {
      placeActions(action->body, depth);
    }
  }
}

/// Stacked operands are slices of what they are; a slice of a slice is copied
/// first, since a view has one loop.
void Placer::placeStacked(const Action &action, int depth) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  for (auto [operand, argument] :
       llvm::zip(repeat.getStacked(), repeat.getStackedArguments())) {
    Place place = placeOf(operand);
    if (place.loop >= 0) {
      Place whole{newBuffer(operand), -1, {}};
      result.buffers[whole.buffer].cover(action.begin);
      result.buffers[whole.buffer].cover(action.end);
      result.before[&action].push_back({operand, place, whole});
      place = whole;
    }
    place.loop = depth;
    place.stack = codegen::extentsOf(operand).front();
    result.places[argument] = place;
  }
}

void Placer::placeYields(const Action &action, int depth) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  auto yielded = repeat.getYield()->getOperands();
  size_t carried = repeat.getCarried().size();
  for (auto [value, argument] :
       llvm::zip(yielded.take_front(carried), repeat.getCarriedArguments())) {
    Value root = rootOf(value);
    if (mayTake(root, argument, action.body)) {
      Place place = result.places[argument];
      result.places[root] = place;
    }
  }
  for (auto [value, stacked] :
       llvm::zip(yielded.drop_front(carried), repeat.getStackedResults())) {
    Value root = rootOf(value);
    Place whole = result.places[stacked];
    if (whole.loop < 0 && mayTake(root, {}, action.body)) {
      result.places[root] = {whole.buffer, depth,
                             codegen::extentsOf(stacked).front()};
    }
  }
}

void Placer::placeLoop(const Action &action, int depth) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  for (auto [start, argument] :
       llvm::zip(repeat.getCarried(), repeat.getCarriedArguments())) {
    Place source = placeOf(start), target = result.places[argument];
    if (source.buffer != target.buffer || source.loop != target.loop) {
      result.before[&action].push_back({start, source, target});
    }
  }
  placeStacked(action, depth);
  placeYields(action, depth);
  placeActions(action.body, depth + 1);
  std::vector<Copy> copies;
  auto yielded = repeat.getYield()->getOperands();
  size_t carried = repeat.getCarried().size();
  for (auto [i, value] : llvm::enumerate(yielded)) {
    Place source = placeOf(value), target;
    if (i < carried) {
      target = result.places[repeat.getCarriedArguments()[i]];
    } else {
      Value stacked = repeat.getStackedResults()[i - carried];
      target = result.places[stacked];
      target.loop = depth;
      target.stack = codegen::extentsOf(stacked).front();
    }
    if (source.buffer != target.buffer || source.loop != target.loop) {
      copies.push_back({value, source, target});
    }
  }
  result.atEnd[&action] = ordered(std::move(copies), action.end);
}

void Placer::coverValues(const Actions &actions) {
  for (const auto &action : actions) {
    for (Value value : writesOf(*action)) {
      result.buffers[placeOf(value).buffer].cover(action->begin);
    }
    coverValues(action->body);
  }
}

/// The bytes of a slice, on the devices that have least and most.
SliceBytes Placer::sliceBytes(Value stack) const {
  auto attr =
      function->getParentOfType<ModuleOp>()->getAttrOfType<spmd::MeshAttr>(
          spmd::SpmdDialect::kMesh);
  layout::Mesh mesh = attr ? spmd::fromAttr(attr) : layout::Mesh();
  auto type = cast<RankedTensorType>(stack.getType());
  codegen::Extents extents = codegen::extentsOf(stack);
  int64_t least = codegen::elementBytes(type);
  for (const codegen::Extent &extent : llvm::drop_begin(extents)) {
    int64_t pieces = 1;
    bool byRule = true; // pieces differ by one at most
    if (extent.split) {
      for (auto atom : extent.split.getAtoms()) {
        pieces *= mesh.atoms[atom].size;
      }
      byRule = extent.split.getUnit() == 1 && extent.split.getCuts().empty();
    }
    least *= extent.largest * pieces == extent.size ? extent.largest
             : byRule                               ? extent.size / pieces
                                                    : 0;
  }
  return {least,
          bytesOf(stack) / std::max<int64_t>(1, extents.front().largest)};
}

/// Whether actions in a loop read all of a stack.
bool Placer::readsWhole(const Actions &actions, Value stack) {
  for (const auto &action : actions) {
    SmallVector<Value> values = readsOf(*action);
    if (action->hasBody()) {
      values.append(action->op->operand_begin(), action->op->operand_end());
    }
    for (Value value : values) {
      if (rootOf(value) == stack) {
        return true;
      }
    }
    if (readsWhole(action->body, stack)) {
      return true;
    }
  }
  return false;
}

/// Adds the buffers of each operand and result of what is no kernel. The plan
/// file's verifier wants them apart, and does not look at slices.
void Placer::findMoves(const Actions &actions, Pairs &pairs) {
  for (const auto &action : actions) {
    findMoves(action->body, pairs);
    if (auto copies = result.atEnd.find(action.get());
        copies != result.atEnd.end()) {
      for (const Copy &copy : copies->second) {
        pairs.insert({copy.source.buffer, copy.target.buffer});
      }
    }
    if (action->kind == Action::Kernel || action->hasBody()) {
      continue;
    }
    for (Value from : readsOf(*action)) {
      for (Value to : writesOf(*action)) {
        pairs.insert({placeOf(from).buffer, placeOf(to).buffer});
      }
    }
  }
}

/// Pairs of a stack that a loop running down reads last, and one that it makes:
/// with a lag where a slice is made before the other's last read.
void Placer::findTrails(const Action &action) {
  auto repeat = cast<clv::RepeatOp>(action.op);
  auto isFree = [&](const Buffer &buffer) {
    return buffer.storage == format::Storage::Arena && !buffer.hasChunks;
  };
  if (!repeat.getReverse() || action.parent) {
    return;
  }
  llvm::DenseMap<int, int64_t> lastReads;              // of slices, by buffer
  llvm::DenseMap<int, std::pair<Value, int64_t>> olds; // and their bytes
  for (auto [operand, argument] :
       llvm::zip(repeat.getStacked(), repeat.getStackedArguments())) {
    Place place = result.places.lookup(argument);
    Value stack = rootOf(operand);
    const Buffer &buffer = result.buffers[place.buffer];
    if (!isFree(buffer) || buffer.end > action.end ||
        placeOf(stack).loop >= 0 || readsWhole(action.body, stack)) {
      continue;
    }
    int64_t last = std::max(action.begin, reads.lookup(argument).last);
    int64_t &entry = lastReads.try_emplace(place.buffer, last).first->second;
    entry = std::max(entry, last);
    olds[place.buffer] = {operand, sliceBytes(operand).most};
  }
  Pairs moves;
  findMoves(action.body, moves);
  if (auto copies = result.atEnd.find(&action); copies != result.atEnd.end()) {
    for (const Copy &copy : copies->second) {
      moves.insert({copy.source.buffer, copy.target.buffer});
    }
  }
  auto yielded =
      repeat.getYield()->getOperands().drop_front(repeat.getCarried().size());
  for (auto [value, stack] : llvm::zip(yielded, repeat.getStackedResults())) {
    int next = result.places.lookup(stack).buffer;
    if (!isFree(result.buffers[next]) ||
        result.buffers[next].begin < action.begin) {
      continue;
    }
    Value root = rootOf(value);
    bool isMadeThere = placeOf(value).buffer == next && makers.contains(root);
    int64_t first = isMadeThere ? makers.lookup(root)->begin : action.end;
    for (auto &[buffer, old] : olds) {
      if (buffer != next && !moves.contains({buffer, next}) &&
          codegen::extentsOf(old.first).front() ==
              codegen::extentsOf(stack).front()) {
        int64_t slices = codegen::extentsOf(stack).front().largest;
        trails.push_back(
            {static_cast<size_t>(buffer), static_cast<size_t>(next),
             trailDistance(slices, old.second, sliceBytes(stack).least,
                           lastReads.lookup(buffer) >= first)});
      }
    }
  }
}

Placement Placer::finish() {
  coverValues(actions);
  for (auto [value, source] : inPlace) {
    Place place = placeOf(source);
    result.places[value] = place;
  }
  for (auto &[root, entry] : reads) {
    if (Place place = result.places.lookup(root)) {
      result.buffers[place.buffer].cover(entry.last);
    }
  }
  for (const auto &action : actions) {
    if (action->kind == Action::Loop) {
      findTrails(*action);
    }
  }
  std::vector<Interval> intervals;
  for (const Buffer &buffer : result.buffers) {
    bool used = buffer.storage == format::Storage::Arena && buffer.end >= 0;
    intervals.push_back({used ? buffer.bytes : 0, buffer.begin, buffer.end, 0});
  }
  result.arenaBytes = placeInArena(intervals, trails);
  for (auto [buffer, interval] : llvm::zip(result.buffers, intervals)) {
    if (buffer.storage == format::Storage::Arena) {
      buffer.offset = interval.offset;
    }
  }
  return std::move(result);
}

Placement emit::place(func::FuncOp function, const Actions &actions,
                      function_ref<int(unsigned)> leafOf,
                      function_ref<int(unsigned)> inputOf,
                      function_ref<int(unsigned)> resultLeafOf) {
  Placer placer(function, actions);
  placer.run();
  placer.placeArguments(leafOf, inputOf);
  placer.placeResults(resultLeafOf);
  return placer.finish();
}
