//===- Contraction.h - Sums of products over named dims ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   out[...] = sum over the dims that are not in out of lhs[...] * rhs[...]
//
// for tensors with any strides, of f32; lhs and rhs may be bf16. Products are
// added in f32. Each dim is in any of the three; what an operand lacks is
// broadcast. Any size may be 0: then the result is empty, or, where a summed
// dim is, zero. Memory must not overlap between `out` and the operands.
//
// A device prepares each concrete shape once and then executes it any number
// of times. The same shape gives the same bits on every run and thread.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CONTRACTION_CONTRACTION_H
#define CLEAVE_RUNTIME_CONTRACTION_CONTRACTION_H

#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::contraction {

/// One dim: its size, and its stride in elements in each tensor.
struct Dim {
  static constexpr int64_t absent = -1;
  int64_t size = 1;
  int64_t lhs = absent;
  int64_t rhs = absent;
  int64_t out = absent;

  bool operator==(const Dim &) const = default;
  auto operator<=>(const Dim &) const = default;
};

using Shape = std::vector<Dim>;

/// How the terms of an element are added.
enum class Order : uint8_t {
  Any,          ///< as is fastest; the same for the same shape
  Ordered,      ///< by index, whatever the shape (Ordered.h)
  OrderedTerms, ///< so too, and rhs, which is not read, is one everywhere
};

/// The type of lhs and rhs.
enum class Factor : uint8_t { F32, BF16 };

/// Whether the processor multiplies matrices of bf16 faster than those of f32:
/// if it has AMX. Without it the library's bf16 is no faster, so bf16 is
/// widened to f32, which is exact, and multiplied as that.
bool multipliesBfloat16();

/// A shape made ready; of the contractor that prepared it.
class Prepared;

/// The contractions of one device. Used by one thread at a time; after
/// `prepare` nothing allocates but what the library does inside.
class Contractor {
public:
  /// `widens`: whether bf16 is widened before it is multiplied.
  explicit Contractor(bool widens = !multipliesBfloat16());
  ~Contractor();
  Contractor(Contractor &&) noexcept;
  Contractor &operator=(Contractor &&) = delete;

  /// Equal shapes give the same object. Lives as long as the contractor.
  const Prepared *prepare(const Shape &shape, Order order = Order::Any,
                          Factor factor = Factor::F32);
  void execute(const Prepared *prepared, const void *lhs, const void *rhs,
               float *out);

  /// How a shape is executed, for tests and benchmarks: `loops`, `matmul
  /// brg:avx512_core`, with what is packed.
  static const char *describe(const Prepared *prepared);

  /// Must be called once by each thread that prepares or executes: makes the
  /// library run in that thread alone.
  static void enterThread();

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace cleave::contraction

#endif // CLEAVE_RUNTIME_CONTRACTION_CONTRACTION_H
