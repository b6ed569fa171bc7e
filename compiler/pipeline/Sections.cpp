//===- Sections.cpp - Which positions do which work -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Sections.h"

#include "compiler/codegen/Group.h"
#include "compiler/partition/Partition.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::pipelining;

std::string pipelining::describe(const Section &section) {
  clv::RepeatOp repeat = section.repeat;
  std::string what = repeat ? "the repeat over `" + repeat.getDim().str() + "`"
                            : "position " + std::to_string(section.begin);
  return section.backward ? "the backward pass of " + what : what;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

Section &Sections::get(const Key &key, int64_t begin, int64_t end) {
  auto [found, isNew] = all.try_emplace(key);
  Section &section = found->second;
  if (isNew) {
    section.backward = key.backward;
    section.begin = begin;
    section.end = end;
  }
  return section;
}

Section &Sections::at(bool backward, int64_t repeats, int64_t position) {
  int64_t place = backward ? positions - 1 - position : position;
  return get({backward, 2 * repeats, place}, position, position + 1);
}

Section &Sections::before(const Section &repeat) {
  return at(repeat.backward, numbers.lookup(const_cast<Section *>(&repeat)),
            repeat.entry());
}

Section &Sections::after(const Section &repeat) {
  return at(repeat.backward, numbers.lookup(const_cast<Section *>(&repeat)) + 1,
            repeat.exit());
}

Section &Sections::of(clv::RepeatOp repeat, int64_t number, int64_t begin,
                      int64_t end) {
  Section &section = get({repeat.getReverse(), 2 * number + 1, 0}, begin, end);
  section.repeat = repeat;
  numbers[&section] = number;
  put(repeat, section);
  return section;
}

Section *Sections::find(Value value) const {
  Operation *maker = value.getDefiningOp();
  return maker ? find(maker) : nullptr;
}

std::vector<Section *> Sections::inOrder() {
  std::vector<Section *> list;
  for (auto &[key, section] : all) {
    list.push_back(&section);
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Which operation is where
//===----------------------------------------------------------------------===//

namespace {

class Assigner {
public:
  explicit Assigner(Classifier &classifier)
      : classifier(classifier), block(classifier.function.getBody().front()),
        count(classifier.positions()), sections(count) {}
  std::optional<Sections> run();

private:
  /// Something that has positions of its own.
  struct Anchor {
    int64_t first = 0, last = 0;
    clv::RepeatOp repeat; ///< null: a region
  };
  /// Of what an operation reads.
  struct Reads {
    bool any = false;
    int64_t repeats = 0;  ///< that are done before
    int64_t position = 0; ///< the last that it reads from, as the work goes
  };

  Classifier &classifier;
  Block &block;
  int64_t count;
  Sections sections;
  std::vector<Anchor> anchors; ///< in the order of the program
  llvm::DenseMap<Section *, int64_t> numbers;
  /// By path, of the forward pass: the one position of what no plan placed, or
  /// -1 of several.
  llvm::StringMap<int64_t> positionsOf;
  /// By parameter, outside of repeats over stages: the positions that read it.
  llvm::StringMap<std::set<int64_t>> readersOf;
  int64_t passed[2] = {0, 0}; ///< repeats so far: forward, backward

  bool isOfSections(Operation *op) const;
  bool readsSections(Operation *op) const;
  const layout::StagedRegion *regionOf(Operation *op) const;
  bool findAnchors();
  Anchor anchorOf(clv::RepeatOp repeat) const;
  std::pair<int64_t, int64_t> rangeOf(StringRef dim) const;
  void readFrom(const Section &section, Reads &reads) const;
  bool reducesStack(Operation *op) const;
  void findParameters(Value value, llvm::SetVector<Value> &seen) const;
  void noteReaders(Operation *op, int64_t position);
  int64_t besideForward(Operation *op, int64_t position) const;
  Section &sectionOf(Operation *op);
  void putBesideReaders(Operation *op);
};

} // namespace

bool Assigner::isOfSections(Operation *op) const {
  return classifier.isTimed(op) && !classifier.isTimeEnd(op) &&
         !classifier.isOfInputs(op);
}

/// Whether an operation that no time cuts needs what microbatches make.
bool Assigner::readsSections(Operation *op) const {
  return !classifier.isTimeEnd(op) &&
         llvm::any_of(codegen::readsOf(op),
                      [&](Value value) { return sections.find(value); });
}

static clv::RepeatOp stagedRepeat(Operation *op, const Classifier &classifier) {
  auto repeat = dyn_cast<clv::RepeatOp>(op);
  return repeat && classifier.isStaged(repeat) ? repeat : clv::RepeatOp();
}

static bool isOfBackwardPass(Operation *op) {
  clv::ScopeAttr scope = clv::scopeOf(op);
  return scope && static_cast<layout::Phase>(scope.getPhase()) ==
                      layout::Phase::Backward;
}

/// The region that the plan places which an operation belongs to: the inmost.
const layout::StagedRegion *Assigner::regionOf(Operation *op) const {
  clv::ScopeAttr scope = clv::scopeOf(op);
  const layout::StagedRegion *found = nullptr;
  // The path of a gradient is its parameter's, whoever reads that.
  if (!scope || !classifier.plan.pipeline ||
      static_cast<layout::Role>(scope.getRole()) != layout::Role::Activations) {
    return nullptr;
  }
  for (const layout::StagedRegion &region : classifier.plan.pipeline->regions) {
    StringRef rest = scope.getPath();
    bool isIn = rest.consume_front(region.path) &&
                (rest.empty() || rest.front() == '/');
    if (isIn && (!found || region.path.size() > found->path.size())) {
      found = &region;
    }
  }
  return found;
}

/// The positions of a repeat's iterations.
Assigner::Anchor Assigner::anchorOf(clv::RepeatOp repeat) const {
  layout::Split split = spmd::fromAttr(
      repeat->getAttrOfType<spmd::SplitAttr>(clv::ClvDialect::kSplit));
  auto size = static_cast<int64_t>(repeat.getCount());
  auto boundary = [&](int64_t position) {
    return position == count    ? size
           : split.cuts.empty() ? layout::splitRule(size, count, position).begin
                                : split.cuts[position];
  };
  Anchor anchor{count, -1, repeat};
  for (int64_t position = 0; position < count; ++position) {
    if (boundary(position) < boundary(position + 1)) {
      anchor.first = std::min(anchor.first, position);
      anchor.last = position;
    }
  }
  return anchor;
}

bool Assigner::findAnchors() {
  llvm::DenseSet<const layout::StagedRegion *> seen;
  for (Operation &op : block) {
    if (!isOfSections(&op)) {
      continue;
    }
    if (clv::RepeatOp repeat = stagedRepeat(&op, classifier)) {
      if (repeat.getReverse()) {
        continue;
      }
      for (const Anchor &other : anchors) {
        clv::RepeatOp known = other.repeat;
        if (known && known.getDim() == repeat.getDim()) {
          repeat.emitError("the model repeats `")
              << repeat.getDim()
              << "` in several loops; a pipeline over them is not built yet";
          return false;
        }
      }
      anchors.push_back(anchorOf(repeat));
      continue;
    }
    const layout::StagedRegion *region = regionOf(&op);
    if (region && !isOfBackwardPass(&op) && seen.insert(region).second) {
      anchors.push_back({region->position, region->position, {}});
    }
  }
  return true;
}

/// A repeat passes its values on as far as its neighbours.
std::pair<int64_t, int64_t> Assigner::rangeOf(StringRef dim) const {
  for (size_t i = 0; i < anchors.size(); ++i) {
    const Anchor &own = anchors[i];
    clv::RepeatOp repeat = own.repeat;
    if (!repeat || repeat.getDim() != dim) {
      continue;
    }
    int64_t begin = i == 0                  ? 0
                    : anchors[i - 1].repeat ? own.first
                                            : anchors[i - 1].last;
    int64_t end = i + 1 == anchors.size() ? count : anchors[i + 1].first + 1;
    return {std::min(begin, own.first), std::max(end, own.last + 1)};
  }
  return {0, count};
}

/// Whether an operation reduces a stack of the layers over devices of a stage.
bool Assigner::reducesStack(Operation *op) const {
  if (!isa<spmd::CollectiveInterface>(op)) {
    return false;
  }
  auto repeat = op->getOperand(0).getDefiningOp<clv::RepeatOp>();
  return repeat && classifier.isStaged(repeat) &&
         llvm::is_contained(repeat.getStackedResults(), op->getOperand(0));
}

void Assigner::readFrom(const Section &section, Reads &reads) const {
  int64_t position = section.repeat ? section.exit() : section.begin;
  int64_t repeats = numbers.lookup(const_cast<Section *>(&section));
  bool isFurther =
      section.backward ? position < reads.position : position > reads.position;
  if (!reads.any || isFurther) {
    reads.position = position;
  }
  reads.repeats = std::max(reads.repeats, repeats);
  reads.any = true;
}

/// The parameters that a value which no section makes depends on.
void Assigner::findParameters(Value value, llvm::SetVector<Value> &seen) const {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (sections.find(next) || !seen.insert(next)) {
      continue;
    }
    if (Operation *maker = next.getDefiningOp()) {
      llvm::append_range(open, maker->getOperands());
    }
  }
}

/// An operation of the forward pass reads parameters at `position`.
void Assigner::noteReaders(Operation *op, int64_t position) {
  llvm::SetVector<Value> values;
  for (Value value : op->getOperands()) {
    findParameters(value, values);
  }
  for (Value value : values) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto path = argument && argument.getOwner() == &block
                    ? classifier.function.getArgAttrOfType<StringAttr>(
                          argument.getArgNumber(), "clv.path")
                    : StringAttr();
    if (path) {
      readersOf[path.getValue()].insert(position);
    }
  }
}

/// Where an operation of the backward pass whose gradients come from `position`
/// is done: with the forward pass of its region, so that parameters are read on
/// one stage, and a gradient with the last reader of its parameter that is not
/// after it. On the first position it would only make the way of what is sent
/// longer.
int64_t Assigner::besideForward(Operation *op, int64_t position) const {
  clv::ScopeAttr scope = clv::scopeOf(op);
  if (!scope) {
    return position;
  }
  if (static_cast<layout::Role>(scope.getRole()) == layout::Role::Gradients) {
    auto readers = readersOf.find(scope.getPath());
    if (readers == readersOf.end()) {
      return position;
    }
    auto after = readers->second.upper_bound(position);
    bool isBefore = after != readers->second.begin() && *std::prev(after) > 0;
    return isBefore ? *std::prev(after) : position;
  }
  auto known = positionsOf.find(scope.getPath());
  return scope.getPath().empty() || known == positionsOf.end() ||
                 known->second <= 0
             ? position
             : std::min(position, known->second);
}

Section &Assigner::sectionOf(Operation *op) {
  if (anchors.empty()) { // no stages: one microbatch after the other
    return sections.at(false, 0, 0);
  }
  if (clv::RepeatOp repeat = stagedRepeat(op, classifier)) {
    auto [begin, end] = rangeOf(repeat.getDim());
    int64_t number = passed[repeat.getReverse()]++;
    Section &section = sections.of(repeat, number, begin, end);
    numbers[&section] = number + 1;
    return section;
  }
  auto make = [&](bool backward, int64_t repeats,
                  int64_t position) -> Section & {
    Section &section = sections.at(backward, repeats, position);
    numbers[&section] = repeats;
    return section;
  };
  if (reducesStack(op)) {
    return *sections.find(op->getOperand(0)); // on each stage its own layers
  }
  bool isBackward = isOfBackwardPass(op);
  clv::ScopeAttr scope = clv::scopeOf(op);
  StringRef path = scope ? scope.getPath() : StringRef();
  if (const layout::StagedRegion *region = regionOf(op)) {
    if (!isBackward) {
      noteReaders(op, region->position);
    }
    return make(isBackward, passed[isBackward], region->position);
  }
  Reads forward, backward;
  for (Value value : codegen::readsOf(op)) {
    if (Section *section = sections.find(value)) {
      readFrom(*section, section->backward ? backward : forward);
    }
  }
  if (!backward.any && !(isBackward && forward.position == count - 1)) {
    noteReaders(op, forward.position);
    auto [known, isNew] = positionsOf.try_emplace(path, forward.position);
    known->second =
        isNew || known->second == forward.position ? forward.position : -1;
    return make(false, forward.repeats, forward.position);
  }
  int64_t position = backward.any ? backward.position : count - 1;
  return make(true, backward.repeats, besideForward(op, position));
}

/// What each microbatch gathers stands where it is read; in several sections
/// there are several.
void Assigner::putBesideReaders(Operation *op) {
  llvm::MapVector<Section *, SmallVector<OpOperand *>> uses;
  for (OpOperand &use : op->getUses()) {
    Operation *reader = block.findAncestorOpInBlock(*use.getOwner());
    uses[sections.find(reader)].push_back(&use);
  }
  if (uses.empty() || uses.contains(nullptr)) {
    return; // read before or after the microbatches too: once a step
  }
  OpBuilder builder(op);
  bool isFirst = true;
  for (auto &[section, list] : uses) {
    Operation *own = isFirst ? op : builder.clone(*op);
    sections.put(own, *section);
    for (OpOperand *use : list) {
      use->set(own->getResult(0));
    }
    isFirst = false;
  }
}

std::optional<Sections> Assigner::run() {
  if (!findAnchors()) {
    return std::nullopt;
  }
  for (Operation &op : block.without_terminator()) {
    if (isOfSections(&op) || readsSections(&op)) {
      sections.put(&op, sectionOf(&op));
    }
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (op.hasAttr(kPerMicro) && !sections.find(&op)) {
      putBesideReaders(&op);
    }
  }
  return std::move(sections);
}

std::optional<Sections> pipelining::assignSections(Classifier &classifier) {
  return Assigner(classifier).run();
}
