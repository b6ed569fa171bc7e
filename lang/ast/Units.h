// The units that numbers may carry, as in `80 GiB`, `450 GB/s`, `1.5%`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::ast {

enum class Quantity {
  Plain,          // no unit, or `%` (a hundredth)
  Bytes,          // B, KB = 1000 B, KiB = 1024 B, …
  Seconds,        // ns, us, ms, s, min, h
  BytesPerSecond, // GB/s
  Flops,          // FLOP, GFLOP, …
  FlopsPerSecond, // TFLOP/s
  Steps           // `step`, `steps`: of training
};

struct Unit {
  Quantity quantity = Quantity::Plain;
  double scale = 1; // to the quantity's base: bytes, seconds, FLOP, steps
};

// Of "" too (Plain, 1). Nothing for an unknown one.
std::optional<Unit> findUnit(std::string_view unit);
const std::vector<std::string> &allUnits();

} // namespace cleave::ast
