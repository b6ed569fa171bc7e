//===- Simulate.cpp - A partitioned program on all devices at once --------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Simulate.h"

#include "dialects/spmd/Spmd.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <memory>

using namespace mlir;
using namespace cleave;
using layout::Layout;
using layout::Piece;
using partitioning::Pieces;
using partitioning::Placed;
using reference::Tensor;

namespace {

using Box = std::vector<Piece>;

int64_t volume(const Box &box) {
  int64_t elements = 1;
  for (const Piece &piece : box) {
    elements *= piece.size();
  }
  return elements;
}

Tensor zerosOf(const Box &box) {
  Tensor tensor;
  for (const Piece &piece : box) {
    tensor.shape.push_back(piece.size());
  }
  tensor.values.resize(volume(box));
  return tensor;
}

Box intersect(const Box &a, const Box &b) {
  Box both;
  for (size_t d = 0; d < a.size(); ++d) {
    Piece piece = {std::max(a[d].begin, b[d].begin),
                   std::min(a[d].end, b[d].end)};
    piece.end = std::max(piece.begin, piece.end);
    both.push_back(piece);
  }
  return both;
}

/// Calls `visit(offset in a, offset in b)` for each element both boxes have.
template <typename Visit>
void forShared(const Box &a, const Box &b, Visit visit) {
  Box both = intersect(a, b);
  if (volume(both) == 0) {
    return;
  }
  std::vector<int64_t> at;
  for (const Piece &piece : both) {
    at.push_back(piece.begin);
  }
  while (true) {
    int64_t left = 0, right = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      left = left * a[d].size() + at[d] - a[d].begin;
      right = right * b[d].size() + at[d] - b[d].begin;
    }
    visit(left, right);
    size_t d = at.size();
    while (d-- > 0) {
      if (++at[d] < both[d].end) {
        break;
      }
      at[d] = both[d].begin;
    }
    if (d == static_cast<size_t>(-1)) {
      return;
    }
  }
}

Box boxOf(const Placed &placed, const layout::Mesh &mesh, int64_t device) {
  Box box;
  for (size_t d = 0; d < placed.sizes.size(); ++d) {
    box.push_back(
        pieceOf(placed.sizes[d], placed.layout.dims[d], mesh, device));
  }
  return box;
}

Placed placedOf(Type type) {
  SmallVector<int64_t> sizes = spmd::globalSizes(type);
  return {{sizes.begin(), sizes.end()}, spmd::layoutOf(type)};
}

class Simulator {
public:
  Simulator(Location loc, layout::Mesh mesh)
      : mesh(std::move(mesh)), scratch(ModuleOp::create(loc)) {}

  llvm::Expected<std::vector<Tensor>> run(func::FuncOp function,
                                          ArrayRef<Tensor> arguments);
  llvm::Expected<Pieces> runOne(Operation *op, ArrayRef<Pieces> operands);

private:
  Box boxOf(Type type, int64_t device) const {
    return ::boxOf(placedOf(type), mesh, device);
  }
  /// The type of a device's piece, as the reference evaluator knows types.
  Type pieceType(Type type, int64_t device) const {
    SmallVector<int64_t> extents;
    for (const Piece &piece : boxOf(type, device)) {
      extents.push_back(piece.size());
    }
    return clv::tensorType(cast<RankedTensorType>(type).getElementType(),
                           clv::dimsOf(type), extents);
  }
  Type globalType(Type type) const {
    return clv::tensorType(cast<RankedTensorType>(type).getElementType(),
                           clv::dimsOf(type), spmd::globalSizes(type));
  }
  const Pieces &get(Value value) const { return *values.at(value); }
  void set(Value value, Pieces pieces) {
    values[value] = std::make_shared<const Pieces>(std::move(pieces));
  }

  llvm::Error runBlock(Block &block);
  llvm::Error runRepeat(clv::RepeatOp op);
  llvm::Error runCompute(Operation *op);
  llvm::Expected<Tensor> window(Operation *op, int64_t device, const Tensor &x);
  llvm::Error runCollective(Operation *op, ArrayRef<int64_t> atoms);
  llvm::Error runRoll(spmd::ShiftOp op);
  llvm::Expected<Tensor> evaluate(Operation *op, int64_t device,
                                  ArrayRef<Tensor> operands);
  llvm::Expected<Tensor> assemble(Value value);

  layout::Mesh mesh;
  OwningOpRef<ModuleOp> scratch;
  llvm::DenseMap<Value, std::shared_ptr<const Pieces>> values;
  /// One-operation functions, by operation and extents.
  std::map<std::pair<Operation *, std::vector<int64_t>>, func::FuncOp> known;
};

} // namespace

static llvm::Error errorAt(Operation *op, const llvm::Twine &text) {
  return llvm::createStringError(op->getName().getStringRef() + ": " + text);
}

llvm::Expected<Tensor> Simulator::evaluate(Operation *op, int64_t device,
                                           ArrayRef<Tensor> operands) {
  Value result = op->getResult(0);
  bool isGlobal = isa<clv::RandomOp>(op);
  Box box = boxOf(result.getType(), device);
  std::vector<int64_t> key;
  for (Value operand : op->getOperands()) {
    for (const Piece &piece : boxOf(operand.getType(), device)) {
      key.push_back(piece.size());
    }
  }
  for (const Piece &piece : box) {
    key.push_back(piece.size());
    if (isa<clv::IndexOp>(op)) {
      key.push_back(piece.begin);
    }
  }
  int64_t ahead = 0; // of the piece's queries to its keys
  if (auto attention = dyn_cast<clv::AttentionInterface>(op)) {
    Type query = op->getOperand(0).getType(),
         keys = op->getOperand(1).getType();
    ahead =
        static_cast<int64_t>(attention.getAhead()) +
        boxOf(query, device)[clv::findDim(query, attention.getSeq())].begin -
        boxOf(keys, device)[clv::findDim(keys, attention.getKeys())].begin;
    key.push_back(ahead);
  }
  func::FuncOp &one = known[{op, key}];
  if (!one) {
    OpBuilder builder(scratch->getBodyRegion());
    SmallVector<Type> types;
    for (Value operand : op->getOperands()) {
      types.push_back(pieceType(operand.getType(), device));
    }
    Type type = isGlobal ? globalType(result.getType())
                         : pieceType(result.getType(), device);
    one = builder.create<func::FuncOp>(op->getLoc(), "one",
                                       builder.getFunctionType(types, type));
    Block *body = one.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    Operation *copy = builder.clone(*op);
    copy->setOperands(body->getArguments());
    copy->getResult(0).setType(cast<RankedTensorType>(type));
    if (auto index = dyn_cast<clv::IndexOp>(copy)) {
      index.setFirst(static_cast<int64_t>(index.getFirst()) + box[0].begin);
    }
    if (auto attention = dyn_cast<clv::AttentionInterface>(copy)) {
      attention.setAhead(ahead);
    }
    builder.create<func::ReturnOp>(op->getLoc(), copy->getResults());
    if (failed(verify(copy))) {
      known.erase({op, key});
      return errorAt(op, "cannot be done on the pieces of device " +
                             llvm::Twine(device));
    }
  }
  llvm::Expected<std::vector<Tensor>> results =
      reference::evaluate(one, operands);
  if (!results) {
    return results.takeError();
  }
  Tensor &out = results->front();
  if (isGlobal) {
    Box whole;
    for (int64_t size : spmd::globalSizes(result.getType())) {
      whole.push_back({0, size});
    }
    Tensor piece = zerosOf(box);
    forShared(box, whole, [&](int64_t to, int64_t from) {
      piece.values[to] = out.values[from];
    });
    return piece;
  }
  return std::move(out);
}

/// A slice or a pad on one device: elements are told by their global indices.
llvm::Expected<Tensor> Simulator::window(Operation *op, int64_t device,
                                         const Tensor &x) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  auto slice = dyn_cast<clv::SliceOp>(op);
  auto pad = dyn_cast<clv::PadOp>(op);
  int dim = clv::findDim(from, slice ? slice.getDim() : pad.getDim());
  int64_t offset = slice ? -static_cast<int64_t>(slice.getFirst())
                         : static_cast<int64_t>(pad.getFirst());
  auto moved = [&](Box box) {
    box[dim] = {box[dim].begin + offset, box[dim].end + offset};
    return box;
  };
  Box box = boxOf(to, device), whole;
  for (int64_t size : spmd::globalSizes(from)) {
    whole.push_back({0, size});
  }
  Tensor piece = zerosOf(box);
  int64_t missing = volume(intersect(box, moved(whole)));
  forShared(box, moved(boxOf(from, device)), [&](int64_t at, int64_t other) {
    piece.values[at] = x.values[other];
    --missing;
  });
  if (missing) {
    return errorAt(op, "lacks an element of device " + llvm::Twine(device));
  }
  return piece;
}

llvm::Error Simulator::runCompute(Operation *op) {
  if (op->getNumResults() != 1) {
    return errorAt(op, "not an operation of a partitioned program");
  }
  Pieces pieces;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<Tensor> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(get(operand)[device]);
    }
    // Ids are global positions; a device's rows start at its piece.
    auto shift = [&](unsigned ids, Value table, StringRef dim) {
      int position = clv::findDim(table.getType(), dim);
      int64_t begin = boxOf(table.getType(), device)[position].begin;
      for (double &id : operands[ids].values) {
        id -= static_cast<double>(begin);
      }
    };
    if (auto lookup = dyn_cast<clv::LookupOp>(op)) {
      shift(1, lookup.getTable(), lookup.getDim());
    } else if (auto scatter = dyn_cast<clv::ScatterAddOp>(op)) {
      shift(1, scatter.getResult(), scatter.getDim());
    }
    llvm::Expected<Tensor> result = isa<clv::SliceOp, clv::PadOp>(op)
                                        ? window(op, device, operands[0])
                                        : evaluate(op, device, operands);
    if (!result) {
      return result.takeError();
    }
    if (auto extreme = dyn_cast<clv::ExtremeOp>(op)) {
      // Past the end of the piece is past the end of the dim.
      Type type = extreme.getX().getType();
      int position = clv::findDim(type, extreme.getDim());
      Piece piece = boxOf(type, device)[position];
      for (double &index : result->values) {
        index = index >= static_cast<double>(piece.size())
                    ? static_cast<double>(spmd::globalSizes(type)[position])
                    : index + static_cast<double>(piece.begin);
      }
    }
    pieces.push_back(std::move(*result));
  }
  set(op->getResult(0), std::move(pieces));
  return llvm::Error::success();
}

/// A shift that moves one dim around its end.
llvm::Error Simulator::runRoll(spmd::ShiftOp op) {
  Type from = op.getX().getType(), to = op.getResult().getType();
  int dim = clv::findDim(from, *op.getDim());
  auto by = static_cast<int64_t>(op.getBy());
  int64_t size = spmd::globalSizes(from)[dim];
  std::vector<layout::AtomId> atoms(op.getAtoms().begin(), op.getAtoms().end());
  Pieces pieces;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    Box box = boxOf(to, device);
    Tensor piece = zerosOf(box);
    std::vector<bool> filled(piece.values.size(), false);
    for (int64_t source : mesh.groupOf(device, atoms)) {
      for (int64_t turn : {0, 1}) {
        Box there = boxOf(from, source);
        int64_t distance = by - turn * size;
        there[dim] = {there[dim].begin + distance, there[dim].end + distance};
        forShared(box, there, [&](int64_t at, int64_t other) {
          filled[at] = true;
          piece.values[at] = get(op.getX())[source].values[other];
        });
      }
    }
    if (llvm::is_contained(filled, false)) {
      return errorAt(op, "its group lacks an element of device " +
                             llvm::Twine(device));
    }
    pieces.push_back(std::move(piece));
  }
  set(op.getResult(), std::move(pieces));
  return llvm::Error::success();
}

llvm::Error Simulator::runCollective(Operation *op, ArrayRef<int64_t> atoms) {
  if (auto shift = dyn_cast<spmd::ShiftOp>(op); shift && shift.getDim()) {
    return runRoll(shift);
  }
  llvm::Expected<Pieces> pieces = partitioning::simulateCollective(
      get(op->getOperand(0)), placedOf(op->getOperand(0).getType()),
      placedOf(op->getResult(0).getType()), {atoms.begin(), atoms.end()}, mesh);
  if (!pieces) {
    return errorAt(op, llvm::toString(pieces.takeError()));
  }
  set(op->getResult(0), std::move(*pieces));
  return llvm::Error::success();
}

llvm::Error Simulator::runRepeat(clv::RepeatOp op) {
  int64_t count = op.getCount(), first = op.getFirst();
  size_t carried = op.getCarried().size();
  int64_t devices = mesh.devices();
  for (auto [argument, init] :
       llvm::zip(op.getCarriedArguments(), op.getCarried())) {
    values[argument] = values.at(init);
  }
  std::vector<Pieces> stacks;
  for (Value result : op.getStackedResults()) {
    Pieces &stack = stacks.emplace_back();
    for (int64_t device = 0; device < devices; ++device) {
      stack.push_back(zerosOf(boxOf(result.getType(), device)));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = op.getReverse() ? count - 1 - i : i;
    set(op.getIndex(),
        Pieces(devices, Tensor::scalar(static_cast<double>(first + at))));
    for (auto [argument, operand] :
         llvm::zip(op.getStackedArguments(), op.getStacked())) {
      Pieces slices;
      for (int64_t device = 0; device < devices; ++device) {
        Tensor slice = zerosOf(boxOf(argument.getType(), device));
        std::copy_n(get(operand)[device].values.begin() +
                        at * slice.values.size(),
                    slice.values.size(), slice.values.begin());
        slices.push_back(std::move(slice));
      }
      set(argument, std::move(slices));
    }
    if (llvm::Error error = runBlock(*op.getBlock())) {
      return error;
    }
    Operation *yield = op.getYield();
    std::vector<std::shared_ptr<const Pieces>> next;
    for (size_t k = 0; k < carried; ++k) {
      next.push_back(values.at(yield->getOperand(k)));
    }
    for (size_t k = 0; k < stacks.size(); ++k) {
      for (int64_t device = 0; device < devices; ++device) {
        const Tensor &slice = get(yield->getOperand(carried + k))[device];
        llvm::copy(slice.values,
                   stacks[k][device].values.begin() + at * slice.values.size());
      }
    }
    for (size_t k = 0; k < carried; ++k) {
      values[op.getCarriedArguments()[k]] = next[k];
    }
  }
  for (size_t k = 0; k < carried; ++k) {
    values[op.getResult(k)] = values.at(op.getCarriedArguments()[k]);
  }
  for (size_t k = 0; k < stacks.size(); ++k) {
    set(op.getResult(carried + k), std::move(stacks[k]));
  }
  return llvm::Error::success();
}

llvm::Error Simulator::runBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    llvm::Error error = llvm::Error::success();
    if (auto repeat = dyn_cast<clv::RepeatOp>(op)) {
      error = runRepeat(repeat);
    } else if (auto collective = dyn_cast<spmd::CollectiveInterface>(op)) {
      error = runCollective(&op, collective.getGroup());
    } else {
      error = runCompute(&op);
    }
    if (error) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Tensor> Simulator::assemble(Value value) {
  Type type = value.getType();
  if (spmd::layoutOf(type).isPartial()) {
    return llvm::createStringError("a result is still pending");
  }
  Box whole;
  for (int64_t size : spmd::globalSizes(type)) {
    whole.push_back({0, size});
  }
  Tensor tensor = zerosOf(whole);
  std::vector<bool> filled(tensor.values.size(), false);
  bool differs = false;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const Tensor &piece = get(value)[device];
    forShared(whole, boxOf(type, device), [&](int64_t at, int64_t from) {
      double now = piece.values[from];
      if (filled[at]) {
        differs |= now != tensor.values[at] &&
                   !(std::isnan(now) && std::isnan(tensor.values[at]));
      }
      filled[at] = true;
      tensor.values[at] = now;
    });
  }
  if (differs) {
    return llvm::createStringError("replicas of a result differ");
  }
  if (llvm::is_contained(filled, false)) {
    return llvm::createStringError("no device has some element of a result");
  }
  return tensor;
}

llvm::Expected<Pieces> Simulator::runOne(Operation *op,
                                         ArrayRef<Pieces> operands) {
  for (auto [operand, pieces] : llvm::zip_equal(op->getOperands(), operands)) {
    set(operand, pieces);
  }
  if (llvm::Error error = runCompute(op)) {
    return error;
  }
  return get(op->getResult(0));
}

llvm::Expected<std::vector<Tensor>> Simulator::run(func::FuncOp function,
                                                   ArrayRef<Tensor> arguments) {
  Block &body = function.getBody().front();
  if (arguments.size() != body.getNumArguments()) {
    return llvm::createStringError("wrong number of arguments");
  }
  for (auto [argument, tensor] : llvm::zip(body.getArguments(), arguments)) {
    Type type = argument.getType();
    Box whole;
    for (int64_t size : spmd::globalSizes(type)) {
      whole.push_back({0, size});
    }
    if (static_cast<int64_t>(tensor.values.size()) != volume(whole)) {
      return llvm::createStringError("argument " +
                                     llvm::Twine(argument.getArgNumber()) +
                                     " does not fit its type");
    }
    set(argument, partitioning::piecesOf(tensor, placedOf(type), mesh));
  }
  if (llvm::Error error = runBlock(body)) {
    return error;
  }
  std::vector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands()) {
    llvm::Expected<Tensor> result = assemble(value);
    if (!result) {
      return result.takeError();
    }
    results.push_back(std::move(*result));
  }
  return results;
}

Pieces partitioning::piecesOf(const Tensor &value, const Placed &placed,
                              const layout::Mesh &mesh) {
  Box whole;
  for (int64_t size : placed.sizes) {
    whole.push_back({0, size});
  }
  Pieces pieces;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    Box box = boxOf(placed, mesh, device);
    Tensor piece = zerosOf(box);
    forShared(box, whole, [&](int64_t to, int64_t from) {
      piece.values[to] = value.values[from];
    });
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

llvm::Expected<Pieces> partitioning::simulateCollective(
    const Pieces &sources, const Placed &from, const Placed &to,
    const std::vector<layout::AtomId> &atoms, const layout::Mesh &mesh) {
  std::vector<layout::AtomId> reduced, others;
  for (layout::AtomId atom : atoms) {
    bool isReduced = llvm::is_contained(from.layout.partial, atom) &&
                     !llvm::is_contained(to.layout.partial, atom);
    (isReduced ? reduced : others).push_back(atom);
  }
  std::vector<Box> boxes;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    boxes.push_back(boxOf(from, mesh, device));
  }
  Pieces pieces;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    Box box = boxOf(to, mesh, device);
    Tensor total;
    for (int64_t part : mesh.groupOf(device, reduced)) {
      Tensor piece = zerosOf(box);
      std::vector<bool> filled(piece.values.size(), false);
      for (int64_t source : mesh.groupOf(part, others)) {
        forShared(box, boxes[source], [&](int64_t at, int64_t other) {
          if (!filled[at]) {
            filled[at] = true;
            piece.values[at] = sources[source].values[other];
          }
        });
      }
      if (llvm::is_contained(filled, false)) {
        return llvm::createStringError("its group lacks an element of device " +
                                       llvm::Twine(device));
      }
      if (total.values.empty()) {
        total = std::move(piece);
        continue;
      }
      for (auto [a, b] : llvm::zip(total.values, piece.values)) {
        a = from.layout.reduction == layout::Reduction::Sum   ? a + b
            : from.layout.reduction == layout::Reduction::Max ? std::max(a, b)
                                                              : std::min(a, b);
      }
    }
    pieces.push_back(std::move(total));
  }
  return pieces;
}

llvm::Expected<Pieces>
partitioning::simulateOperation(Operation *op, ArrayRef<Pieces> operands,
                                const layout::Mesh &mesh) {
  return Simulator(op->getLoc(), mesh).runOne(op, operands);
}

llvm::Expected<std::vector<Tensor>>
cleave::partitioning::simulate(func::FuncOp function,
                               ArrayRef<Tensor> arguments) {
  auto module = function->getParentOfType<ModuleOp>();
  auto mesh = module->getAttrOfType<spmd::MeshAttr>(spmd::SpmdDialect::kMesh);
  if (!mesh) {
    return llvm::createStringError("the module has no `spmd.mesh`");
  }
  return Simulator(function->getLoc(), spmd::fromAttr(mesh))
      .run(function, arguments);
}
