//===- Contractor.cpp - Contractions through oneDNN -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What oneDNN 2.6 asks for: sizes known when a primitive is made (run-time
// sizes fall back to a reference loop), scratch memory of the caller's (a
// primitive's own is not safe between threads), one OpenMP thread set in each
// of our threads, and unit strides; where it would still choose its reference
// implementation, our own loops are faster.
//
// bf16 that is widened goes through all of this as f32, and so does what loops
// or an order of adding compute.
//
//===----------------------------------------------------------------------===//

#include "runtime/contraction/Contraction.h"
#include "runtime/contraction/Loops.h"
#include "runtime/contraction/Ordered.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <string>
#include <tuple>

namespace cleave::contraction {

namespace {

using dnnl::memory;

/// The process's one CPU engine.
const dnnl::engine &engineOf() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// One matrix product of the library, with its arguments.
struct Product {
  dnnl::matmul primitive;
  memory lhs, rhs, out, scratch;
  std::vector<dnnl_exec_arg_t> arguments;
};

} // namespace

class Prepared {
public:
  enum Kind { Nothing, Zero, Nest, Matmul, InOrder } kind = Nothing;
  Shape shape;
  Factor factor = Factor::F32;         ///< of what is multiplied
  std::array<int64_t, 2> widened = {}; ///< elements of lhs and rhs to widen
  LoopNest nest;
  Ordered ordered;
  Mapping mapping;
  std::vector<std::pair<int64_t, int64_t>> offsets; ///< of `mapping.outer`
  std::optional<Product> first, next;          ///< `next` adds to the result
  std::array<int64_t, 3> packedAt = {0, 0, 0}; ///< floats, in the packs
  std::string description;
};

struct Contractor::State {
  std::map<std::tuple<Shape, Order, Factor>, Prepared> shapes;
  bool widens = true;
  dnnl::stream stream{engineOf()};
  float *scratch = nullptr;
  size_t scratchBytes = 0;
  float *packs = nullptr;
  int64_t packFloats = 0;
  float *wide = nullptr;
  int64_t wideFloats = 0;

  ~State() {
    std::free(scratch);
    std::free(packs);
    std::free(wide);
  }
  static float *allocate(size_t bytes) {
    void *memory = std::aligned_alloc(64, (bytes + 4095) / 4096 * 4096);
    assert(memory && "out of memory");
    return static_cast<float *>(memory);
  }
  void needScratch(size_t bytes) {
    if (bytes > scratchBytes) {
      std::free(scratch);
      scratch = allocate(scratchBytes = bytes);
    }
  }
  void needPacks(int64_t floats) {
    if (floats > packFloats) {
      std::free(packs);
      packs = allocate((packFloats = floats) * sizeof(float));
    }
  }
  void needWide(int64_t floats) {
    if (floats > wideFloats) {
      std::free(wide);
      wide = allocate((wideFloats = floats) * sizeof(float));
    }
  }

  void makeOrdered(Prepared &prepared, Order order);
  bool makeProducts(Prepared &prepared);
  std::optional<Product> makeProduct(const Prepared &prepared, bool adds,
                                     std::string &name);
  bool makeMatmul(Prepared &prepared);
  void makeWide(Prepared &prepared);
  void run(Product &product, const void *lhs, const void *rhs, float *out);
  void runMatmul(Prepared &prepared, const void *lhs, const void *rhs,
                 float *out);
};

static int64_t sizeOf(Factor factor) { return factor == Factor::BF16 ? 2 : 4; }

bool multipliesBfloat16() {
  constexpr auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  static const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (here & amx) == amx;
}

/// The library's description of one side: batch dims, then its two own. Where
/// the side lacks a batch dim it has size one there, and any large stride.
static memory::desc describeSide(const Mapping &mapping, Side side,
                                 Factor factor) {
  const Loop &row = side == Rhs ? mapping.k : mapping.m;
  const Loop &column = side == Lhs ? mapping.k : mapping.n;
  memory::dims sizes, strides;
  int64_t span =
      std::max(row.size * row.stride[side], column.size * column.stride[side]);
  for (const Loop &loop : mapping.batch) {
    span = std::max(span, loop.size * loop.stride[side]);
  }
  for (const Loop &loop : mapping.batch) {
    bool present = loop.stride[side] != 0;
    sizes.push_back(present ? loop.size : 1);
    strides.push_back(present ? loop.stride[side] : span);
  }
  for (const Loop *loop : {&row, &column}) {
    sizes.push_back(loop->size);
    strides.push_back(loop->stride[side]);
  }
  bool isNarrow = side != Out && factor == Factor::BF16;
  return memory::desc(
      sizes, isNarrow ? memory::data_type::bf16 : memory::data_type::f32,
      strides);
}

std::optional<Product> Contractor::State::makeProduct(const Prepared &prepared,
                                                      bool adds,
                                                      std::string &name) {
  const Mapping &mapping = prepared.mapping;
  // The library reports what it cannot do by exceptions; they end here.
  try {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc description(
        {describeSide(mapping, Lhs, prepared.factor),
         describeSide(mapping, Rhs, prepared.factor),
         describeSide(mapping, Out, prepared.factor)},
        attributes, engineOf());
    name = description.impl_info_str();
    if (name.starts_with("ref")) {
      return std::nullopt;
    }
    Product product;
    product.primitive = dnnl::matmul(description);
    product.lhs = memory(description.src_desc(), engineOf(), nullptr);
    product.rhs = memory(description.weights_desc(), engineOf(), nullptr);
    product.out = memory(description.dst_desc(), engineOf(), nullptr);
    product.scratch =
        memory(description.scratchpad_desc(), engineOf(), nullptr);
    needScratch(description.scratchpad_desc().get_size());
    product.arguments = {{DNNL_ARG_SRC, product.lhs.get()},
                         {DNNL_ARG_WEIGHTS, product.rhs.get()},
                         {DNNL_ARG_DST, product.out.get()},
                         {DNNL_ARG_SCRATCHPAD, product.scratch.get()}};
    return product;
  } catch (const dnnl::error &) {
    return std::nullopt;
  }
}

void Contractor::State::makeOrdered(Prepared &prepared, Order order) {
  prepared.kind = Prepared::InOrder;
  prepared.ordered =
      contraction::makeOrdered(prepared.shape, order == Order::OrderedTerms);
  prepared.description = "in order";
  needPacks(panelFloats());
  needScratch(totalDoubles(prepared.ordered) * sizeof(double));
}

bool Contractor::State::makeProducts(Prepared &prepared) {
  Mapping &mapping = prepared.mapping;
  std::string name;
  prepared.first = makeProduct(prepared, false, name);
  if (!prepared.first) {
    return false;
  }
  prepared.description = "matmul " + name;
  prepared.offsets = {{0, 0}};
  for (const Loop &loop : mapping.outer) {
    std::vector<std::pair<int64_t, int64_t>> finer;
    for (auto [lhs, rhs] : prepared.offsets) {
      for (int64_t i = 0; i < loop.size; ++i) {
        finer.push_back(
            {lhs + i * loop.stride[Lhs], rhs + i * loop.stride[Rhs]});
      }
    }
    prepared.offsets = std::move(finer);
  }
  if (prepared.offsets.size() > 1) {
    prepared.next = makeProduct(prepared, true, name);
    if (!prepared.next) {
      return false;
    }
    prepared.description +=
        " x" + std::to_string(prepared.offsets.size()) + " accumulated";
  }
  int64_t floats = 0;
  for (Side side : {Lhs, Rhs, Out}) {
    if (mapping.packs[side]) {
      const char *names[] = {" packs lhs", " packs rhs", " packs out"};
      prepared.description += names[side];
      prepared.packedAt[side] = floats;
      floats += (mapping.packs[side]->elements + 15) / 16 * 16;
    }
  }
  needPacks(floats);
  return true;
}

void Contractor::State::run(Product &product, const void *lhs, const void *rhs,
                            float *out) {
  dnnl_memory_set_data_handle(product.lhs.get(), const_cast<void *>(lhs));
  dnnl_memory_set_data_handle(product.rhs.get(), const_cast<void *>(rhs));
  dnnl_memory_set_data_handle(product.out.get(), out);
  dnnl_memory_set_data_handle(product.scratch.get(), scratch);
  dnnl_status_t status = dnnl_primitive_execute(
      product.primitive.get(), stream.get(),
      static_cast<int>(product.arguments.size()), product.arguments.data());
  assert(status == dnnl_success && "the library failed to execute");
  (void)status;
}

void Contractor::State::runMatmul(Prepared &prepared, const void *lhs,
                                  const void *rhs, float *out) {
  const Mapping &mapping = prepared.mapping;
  int64_t size = sizeOf(prepared.factor);
  if (mapping.swapped) {
    std::swap(lhs, rhs);
  }
  if (mapping.packs[Lhs]) {
    pack(*mapping.packs[Lhs], size, lhs, packs + prepared.packedAt[Lhs]);
    lhs = packs + prepared.packedAt[Lhs];
  }
  if (mapping.packs[Rhs]) {
    pack(*mapping.packs[Rhs], size, rhs, packs + prepared.packedAt[Rhs]);
    rhs = packs + prepared.packedAt[Rhs];
  }
  float *result = mapping.packs[Out] ? packs + prepared.packedAt[Out] : out;
  Product *product = &*prepared.first;
  for (auto [left, right] : prepared.offsets) {
    run(*product, static_cast<const char *>(lhs) + left * size,
        static_cast<const char *>(rhs) + right * size, result);
    product = prepared.next ? &*prepared.next : product;
  }
  if (mapping.packs[Out]) {
    unpack(*mapping.packs[Out], result, out);
  }
}

bool Contractor::State::makeMatmul(Prepared &prepared) {
  std::optional<Mapping> mapping = mapToMatmul(prepared.shape);
  if (!mapping) {
    return false;
  }
  prepared.mapping = std::move(*mapping);
  return makeProducts(prepared);
}

/// Lets operands be widened first.
void Contractor::State::makeWide(Prepared &prepared) {
  prepared.factor = Factor::F32;
  prepared.widened = {1, 1};
  for (const Dim &dim : prepared.shape) {
    prepared.widened[0] +=
        dim.lhs == Dim::absent ? 0 : (dim.size - 1) * dim.lhs;
    prepared.widened[1] +=
        dim.rhs == Dim::absent ? 0 : (dim.size - 1) * dim.rhs;
  }
  needWide(prepared.widened[0] + prepared.widened[1]);
}

Contractor::Contractor(bool widens) : state(std::make_unique<State>()) {
  state->widens = widens;
}
Contractor::~Contractor() = default;
Contractor::Contractor(Contractor &&) noexcept = default;

const Prepared *Contractor::prepare(const Shape &shape, Order order,
                                    Factor factor) {
  auto [entry, fresh] = state->shapes.try_emplace({shape, order, factor});
  Prepared &prepared = entry->second;
  if (!fresh) {
    return &prepared;
  }
  prepared.shape = shape;
  prepared.factor = factor;
  bool nothing = false, zero = false;
  for (const Dim &dim : shape) {
    assert(dim.size >= 0 && "a negative size");
    (dim.out != Dim::absent ? nothing : zero) |= dim.size == 0;
  }
  if (nothing || zero) {
    prepared.kind = nothing ? Prepared::Nothing : Prepared::Zero;
    prepared.description = nothing ? "nothing" : "zero";
    return &prepared;
  }
  bool isNarrow = factor == Factor::BF16;
  if (isNarrow && !state->widens && order == Order::Any &&
      state->makeMatmul(prepared)) {
    prepared.kind = Prepared::Matmul;
    return &prepared;
  }
  if (isNarrow) {
    state->makeWide(prepared);
  }
  if (order != Order::Any) {
    state->makeOrdered(prepared, order);
    return &prepared;
  }
  if (state->makeMatmul(prepared)) {
    prepared.kind = Prepared::Matmul;
    return &prepared;
  }
  prepared.kind = Prepared::Nest;
  prepared.nest = makeNest(shape);
  prepared.description = "loops";
  return &prepared;
}

void Contractor::execute(const Prepared *prepared, const void *lhs,
                         const void *rhs, float *out) {
  // The library's argument objects carry the addresses of the current call.
  Prepared &mine = const_cast<Prepared &>(*prepared);
  if (auto [left, right] = mine.widened; left > 0) {
    float *second = state->wide + left;
    widen(static_cast<const uint16_t *>(lhs), state->wide, left);
    widen(static_cast<const uint16_t *>(rhs), second, right);
    lhs = state->wide;
    rhs = second;
  }
  const auto *a = static_cast<const float *>(lhs);
  const auto *b = static_cast<const float *>(rhs);
  switch (mine.kind) {
  case Prepared::Nothing:
    return;
  case Prepared::Zero:
    return zero(mine.shape, out);
  case Prepared::Nest:
    return runNest(mine.nest, a, b, out);
  case Prepared::Matmul:
    return state->runMatmul(mine, lhs, rhs, out);
  case Prepared::InOrder:
    return runOrdered(mine.ordered, a, b, out, state->packs,
                      reinterpret_cast<double *>(state->scratch));
  }
}

const char *Contractor::describe(const Prepared *prepared) {
  return prepared->description.c_str();
}

void Contractor::enterThread() {
  // The library's own OpenMP runtime, whichever it was built with.
  using SetThreads = void (*)(int);
  static SetThreads set = reinterpret_cast<SetThreads>(
      ::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) {
    set(1);
  }
}

} // namespace cleave::contraction
