//===- Harness.cpp - Runs emitted plans beside the reference --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include "numerics/Bfloat16.h"

#include "compiler/emit/Emit.h"
#include "dialects/spmd/Spmd.h"
#include "runtime/format/Convert.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

namespace {

//===----------------------------------------------------------------------===//
// From global to local types
//===----------------------------------------------------------------------===//

Type localType(Type type, const Options &options) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    return type;
  }
  layout::Layout layout;
  SmallVector<StringRef> dims = clv::dimsOf(type);
  for (StringRef dim : dims) {
    layout::Split split;
    if (auto at = options.splits.find(dim.str()); at != options.splits.end()) {
      split.atoms = at->second;
    }
    layout.dims.push_back(split);
  }
  return spmd::localType(tensor.getElementType(), dims, tensor.getShape(),
                         layout, options.mesh);
}

void localise(func::FuncOp function, const Options &options) {
  function.walk([&](Operation *op) {
    for (Value result : op->getResults()) {
      result.setType(localType(result.getType(), options));
    }
    for (Region &region : op->getRegions()) {
      for (Block &block : region) {
        for (Value argument : block.getArguments()) {
          argument.setType(localType(argument.getType(), options));
        }
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// One device
//===----------------------------------------------------------------------===//

/// A view resolved to memory and local sizes.
struct Local {
  char *data = nullptr;
  std::vector<int64_t> sizes, begins;
  int64_t bytes = 4;

  int64_t count() const {
    int64_t n = 1;
    for (int64_t size : sizes) {
      n *= size;
    }
    return n;
  }
};

class Device {
public:
  Device(const format::PlanT &plan, const std::vector<std::string> &symbols,
         void *library, int64_t device)
      : plan(plan), program(*plan.programs.front()), symbols(symbols),
        library(library), mesh(format::toLayout(*plan.mesh)), device(device) {
    arena.assign(program.arena_bytes + 64, char(0xff)); // NaN where unwritten
    base = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64);
    inputs.resize(program.inputs.size());
  }

  void fill(unsigned index, const reference::Tensor &global, Value argument);
  void run() { run(program.body); }
  void compare(unsigned index, const reference::Tensor &expected,
               double tolerance);
  std::map<unsigned, std::vector<char>> leaves;

private:
  const format::PlanT &plan;
  const format::ProgramT &program;
  const std::vector<std::string> &symbols;
  void *library;
  layout::Mesh mesh;
  int64_t device;
  std::vector<char> arena;
  char *base;
  std::vector<std::vector<char>> inputs;
  std::vector<int64_t> iterations;

  using Body = std::vector<std::unique_ptr<format::InstructionT>>;

  layout::Piece piece(uint32_t extent) {
    const format::ExtentT &e = *plan.extents[extent];
    return layout::pieceOf(e.size, format::toLayout(*e.split), mesh, device);
  }
  Local resolve(const format::View &view);
  void run(const Body &body);
  void run(const format::KernelT &kernel);
  void run(const format::ContractionT &contraction);
  void run(const format::MoveT &move);
};

Local Device::resolve(const format::View &view) {
  const format::ValueT &value = *program.values[view.value()];
  Local local;
  local.bytes = format::elementSize(value.type);
  for (uint32_t extent : value.extents) {
    layout::Piece p = piece(extent);
    local.sizes.push_back(p.size());
    local.begins.push_back(p.begin);
  }
  EXPECT_LE(uint64_t(local.count() * local.bytes), value.bytes);
  switch (value.storage) {
  case format::Storage::Arena:
    EXPECT_LE(value.offset + value.bytes, program.arena_bytes);
    local.data = base + value.offset;
    break;
  case format::Storage::Input:
    local.data = inputs[value.index].data();
    break;
  case format::Storage::Leaf:
    local.data = leaves[value.index].data();
    break;
  }
  if (view.loop() >= 0) {
    local.sizes.erase(local.sizes.begin());
    local.begins.erase(local.begins.begin());
    local.data += iterations[view.loop()] * local.count() * local.bytes;
  }
  return local;
}

void Device::run(const format::KernelT &kernel) {
  std::vector<void *> views;
  std::vector<int64_t> integers;
  for (const format::View &view : kernel.views) {
    views.push_back(resolve(view).data);
  }
  for (const format::Integer &integer : kernel.integers) {
    switch (integer.kind()) {
    case format::IntegerKind::Literal:
      integers.push_back(integer.value());
      break;
    case format::IntegerKind::ExtentSize:
      integers.push_back(piece(integer.value()).size());
      break;
    case format::IntegerKind::ExtentBegin:
      integers.push_back(piece(integer.value()).begin);
      break;
    case format::IntegerKind::Iteration:
      integers.push_back(iterations[integer.value()]);
      break;
    }
  }
  void *function = dlsym(library, symbols[kernel.symbol].c_str());
  ASSERT_NE(function, nullptr);
  reinterpret_cast<void (*)(void *const *, const int64_t *)>(function)(
      views.data(), integers.data());
}

std::vector<int64_t> stridesOf(const Local &local) {
  std::vector<int64_t> strides(local.sizes.size(), 1);
  for (size_t i = local.sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * local.sizes[i];
  }
  return strides;
}

void Device::run(const format::ContractionT &contraction) {
  Local lhs = resolve(*contraction.lhs), rhs = resolve(*contraction.rhs),
        out = resolve(*contraction.out);
  std::vector<int64_t> a = stridesOf(lhs), b = stridesOf(rhs),
                       c = stridesOf(out);
  bool isNarrow = program.values[contraction.lhs->value()]->type ==
                  format::ElementType::BF16;
  auto at = [&](const Local &local, int64_t i) {
    return isNarrow ? numerics::fromBfloat16(
                          reinterpret_cast<const uint16_t *>(local.data)[i])
                    : reinterpret_cast<const float *>(local.data)[i];
  };
  auto *o = reinterpret_cast<float *>(out.data);
  std::vector<double> sums(out.count(), 0);
  size_t rank = contraction.dims.size();
  std::vector<int64_t> sizes, index(rank, 0);
  int64_t total = 1;
  for (const format::ContractedDim &dim : contraction.dims) {
    sizes.push_back(piece(dim.extent()).size());
    total *= sizes.back();
  }
  for (int64_t n = 0; n < total; ++n) {
    int64_t i = 0, j = 0, k = 0;
    for (size_t d = 0; d < rank; ++d) {
      const format::ContractedDim &dim = contraction.dims[d];
      i += dim.lhs() < 0 ? 0 : index[d] * a[dim.lhs()];
      j += dim.rhs() < 0 ? 0 : index[d] * b[dim.rhs()];
      k += dim.out() < 0 ? 0 : index[d] * c[dim.out()];
    }
    sums[k] += double(at(lhs, i)) * at(rhs, j);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < sizes[d]) {
        break;
      }
      index[d] = 0;
    }
  }
  for (size_t k = 0; k < sums.size(); ++k) {
    o[k] = float(sums[k]);
  }
}

void Device::run(const format::MoveT &move) {
  Local source = resolve(*move.source), target = resolve(*move.target);
  std::vector<int64_t> a = stridesOf(source), b = stridesOf(target);
  std::vector<int64_t> index(source.sizes.size(), 0);
  for (int64_t n = 0, total = source.count(); n < total; ++n) {
    int64_t i = 0, k = 0;
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t at =
          index[d] + source.begins[d] + move.shift[d] - target.begins[d];
      inside &= at >= 0 && at < target.sizes[d];
      i += index[d] * a[d];
      k += at * b[d];
    }
    if (inside) {
      std::memcpy(target.data + k * target.bytes,
                  source.data + i * source.bytes, source.bytes);
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < source.sizes[d]) {
        break;
      }
      index[d] = 0;
    }
  }
}

void Device::run(const Body &body) {
  for (const auto &instruction : body) {
    const format::ActionUnion &action = instruction->action;
    switch (action.type) {
    case format::Action::Kernel:
      run(*action.AsKernel());
      break;
    case format::Action::Contraction:
      run(*action.AsContraction());
      break;
    case format::Action::Fill: {
      Local local = resolve(*action.AsFill()->target);
      std::memset(local.data, 0, local.count() * local.bytes);
      break;
    }
    case format::Action::Move:
      run(*action.AsMove());
      break;
    case format::Action::Loop: {
      const format::LoopT &loop = *action.AsLoop();
      iterations.push_back(0);
      for (int64_t i = 0; i < loop.count; ++i) {
        iterations.back() =
            loop.reverse ? loop.first + loop.count - 1 - i : loop.first + i;
        run(loop.body);
      }
      iterations.pop_back();
      break;
    }
    default:
      FAIL() << "an instruction for several devices";
    }
  }
}

/// Calls with each local element's number and global position.
void eachElement(const std::vector<int64_t> &globals,
                 const std::vector<layout::Piece> &pieces,
                 const std::function<void(int64_t, int64_t)> &call) {
  int64_t count = 1;
  for (const layout::Piece &piece : pieces) {
    count *= piece.size();
  }
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, position = 0, stride = 1;
    for (size_t d = pieces.size(); d-- > 0;) {
      int64_t at = rest % pieces[d].size() + pieces[d].begin;
      rest /= pieces[d].size();
      position += at * stride;
      stride *= globals[d];
    }
    call(n, position);
  }
}

void Device::fill(unsigned index, const reference::Tensor &global,
                  Value argument) {
  layout::Layout layout = spmd::layoutOf(argument.getType());
  std::vector<layout::Piece> pieces;
  int64_t count = 1;
  for (size_t d = 0; d < global.shape.size(); ++d) {
    pieces.push_back(
        layout::pieceOf(global.shape[d], layout.dims[d], mesh, device));
    count *= pieces.back().size();
  }
  Type element = cast<RankedTensorType>(argument.getType()).getElementType();
  int64_t bytes = element.isInteger(1) ? 1 : 4;
  std::vector<char> &memory = inputs[index];
  memory.resize(count * bytes + 1);
  eachElement(global.shape, pieces, [&](int64_t n, int64_t position) {
    double value = global.values[position];
    char *at = memory.data() + n * bytes;
    if (element.isF32()) {
      float number = float(value);
      std::memcpy(at, &number, 4);
    } else if (element.isInteger(1)) {
      *at = value != 0;
    } else {
      int32_t number = int32_t(value);
      std::memcpy(at, &number, 4);
    }
  });
}

void Device::compare(unsigned index, const reference::Tensor &expected,
                     double tolerance) {
  const format::OutputT &output = *program.outputs[index];
  const format::ValueT &value = *program.values[output.value];
  Local local = resolve(format::View(output.value, -1));
  std::vector<layout::Piece> pieces;
  for (uint32_t extent : value.extents) {
    pieces.push_back(piece(extent));
  }
  double largest = 1e-3, worst = 0;
  for (double x : expected.values) {
    largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0);
  }
  int wrong = 0;
  eachElement(expected.shape, pieces, [&](int64_t n, int64_t position) {
    double found;
    const char *at = local.data + n * local.bytes;
    if (value.type == format::ElementType::F32) {
      float number;
      std::memcpy(&number, at, 4);
      found = number;
    } else if (value.type == format::ElementType::BF16) {
      uint16_t number;
      std::memcpy(&number, at, 2);
      found = numerics::fromBfloat16(number);
    } else if (value.type == format::ElementType::Bool) {
      found = *at;
    } else {
      int32_t number;
      std::memcpy(&number, at, 4);
      found = number;
    }
    double wanted = expected.values[position];
    bool same = found == wanted || (std::isnan(found) && std::isnan(wanted)) ||
                std::abs(found - wanted) <= tolerance * largest;
    worst = std::max(worst, std::abs(found - wanted));
    if (!same && wrong++ < 3) {
      ADD_FAILURE() << "result " << index << " on device " << device << " at "
                    << position << ": " << found << ", expected " << wanted;
    }
  });
  EXPECT_EQ(wrong, 0) << "largest error " << worst;
}

void *loadLibrary(const std::vector<uint8_t> &elf) {
  int file = memfd_create("kernels", 0);
  EXPECT_EQ(write(file, elf.data(), elf.size()), ssize_t(elf.size()));
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  close(file);
  return handle;
}

double defaultData(Type element, unsigned argument, int64_t position,
                   int64_t bound) {
  uint64_t x = (position + 1) * 0x9E3779B97F4A7C15u + argument * 7919;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  if (element.isInteger(1)) {
    return x & 1;
  }
  if (element.isInteger(32)) {
    return double(x % uint64_t(bound));
  }
  return double(float((double(x >> 11) * 0x1p-53 - 0.5) * 4));
}

} // namespace

/// `{b e}` is an f32 tensor type of the dims b and e, `{i: b}` an i32 one,
/// `{h: b}` a bf16 one, `{p: b}` one of booleans, `{f:}` a scalar.
static std::string substitute(const std::string &text, const Sizes &sizes) {
  static const std::regex pattern(R"(\{(?:([fhip]):)?([a-z_ ]*)\})");
  std::string result;
  auto at = text.cbegin();
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end;
       ++i) {
    const std::smatch &match = *i;
    result.append(at, match[0].first);
    at = match[0].second;
    std::istringstream names(match[2].str());
    std::string name, shape, dims;
    while (names >> name) {
      shape += std::to_string(sizes.at(name)) + "x";
      dims += (dims.empty() ? "" : ", ") + name;
    }
    std::string element = match[1] == "i"   ? "i32"
                          : match[1] == "h" ? "bf16"
                          : match[1] == "p" ? "i1"
                                            : "f32";
    result += "tensor<" + shape + element +
              (dims.empty() ? ">" : ", #clv.dims<" + dims + ">>");
  }
  result.append(at, text.cend());
  return result;
}

static void
count(const std::vector<std::unique_ptr<format::InstructionT>> &body,
      Instructions &counts) {
  for (const auto &instruction : body) {
    const format::ActionUnion &action = instruction->action;
    counts.kernels += action.type == format::Action::Kernel;
    counts.contractions += action.type == format::Action::Contraction;
    counts.moves += action.type == format::Action::Move;
    if (const format::LoopT *loop = action.AsLoop()) {
      count(loop->body, counts);
    }
  }
}

Instructions test::check(const std::string &text, const Sizes &sizes,
                         const Options &options) {
  MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<clv::ClvDialect, spmd::SpmdDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(substitute(text, sizes), &context);
  if (!module) {
    ADD_FAILURE() << "the module does not parse:\n" << substitute(text, sizes);
    return {};
  }
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<reference::Tensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    unsigned i = argument.getArgNumber();
    reference::Tensor tensor;
    tensor.shape.assign(type.getShape().begin(), type.getShape().end());
    for (int64_t n = 0; n < type.getNumElements(); ++n) {
      double value = options.data ? options.data(i, n)
                                  : defaultData(type.getElementType(), i, n,
                                                options.bound);
      tensor.values.push_back(type.getElementType().isF32() ? float(value)
                                                            : value);
    }
    arguments.push_back(tensor);
  }
  llvm::Expected<std::vector<reference::Tensor>> expected =
      reference::evaluate(function, arguments);
  if (!expected) {
    ADD_FAILURE() << llvm::toString(expected.takeError());
    return {};
  }

  localise(function, options);
  if (!options.mesh.atoms.empty()) {
    (*module)->setAttr(spmd::SpmdDialect::kMesh,
                       spmd::toAttr(&context, options.mesh));
  }
  std::vector<format::InputT> inputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    format::InputT input;
    input.name = "a" + std::to_string(i);
    inputs.push_back(input);
    function.setArgAttr(i, "clv.role", StringAttr::get(&context, "input"));
    function.setArgAttr(i, "clv.path", StringAttr::get(&context, input.name));
  }
  codegen::KernelLibrary library(context, {options.native});
  auto plan = emit::emitPlan(*module, "test", {{}, inputs}, library);
  if (!plan) {
    ADD_FAILURE() << llvm::toString(plan.takeError());
    return {};
  }
  Instructions counts;
  count((*plan)->programs.front()->body, counts);
  llvm::Expected<std::vector<uint8_t>> elf = library.finish();
  if (!elf) {
    ADD_FAILURE() << llvm::toString(elf.takeError());
    return {};
  }
  void *handle = elf->empty() ? nullptr : loadLibrary(*elf);
  for (int64_t d = 0; d < options.mesh.devices(); ++d) {
    Device device(**plan, library.symbols(), handle, d);
    for (unsigned i = 0; i < arguments.size(); ++i) {
      device.fill(i, arguments[i], function.getArgument(i));
    }
    device.run();
    for (unsigned i = 0; i < expected->size(); ++i) {
      device.compare(i, (*expected)[i], options.tolerance);
    }
  }
  if (handle) {
    dlclose(handle);
  }
  return counts;
}
