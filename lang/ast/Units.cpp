#include "lang/ast/Units.h"

#include <utility>

namespace cleave::ast {

namespace {

std::vector<std::pair<std::string, Unit>> makeTable() {
  std::vector<std::pair<std::string, Unit>> table = {
      {"%", {Quantity::Plain, 0.01}},    {"ns", {Quantity::Seconds, 1e-9}},
      {"us", {Quantity::Seconds, 1e-6}}, {"ms", {Quantity::Seconds, 1e-3}},
      {"s", {Quantity::Seconds, 1}},     {"min", {Quantity::Seconds, 60}},
      {"h", {Quantity::Seconds, 3600}},  {"step", {Quantity::Steps, 1}},
      {"steps", {Quantity::Steps, 1}}};
  auto add = [&](const std::string &prefix, double scale) {
    table.push_back({prefix + "B", {Quantity::Bytes, scale}});
    table.push_back({prefix + "B/s", {Quantity::BytesPerSecond, scale}});
  };
  double decimal = 1, binary = 1;
  add("", 1);
  for (const char *prefix : {"K", "M", "G", "T", "P"}) {
    decimal *= 1000;
    binary *= 1024;
    add(prefix, decimal);
    add(std::string(prefix) + "i", binary);
  }
  double flops = 1;
  for (const char *prefix : {"", "K", "M", "G", "T", "P", "E"}) {
    table.push_back({std::string(prefix) + "FLOP", {Quantity::Flops, flops}});
    table.push_back(
        {std::string(prefix) + "FLOP/s", {Quantity::FlopsPerSecond, flops}});
    flops *= 1000;
  }
  return table;
}

const std::vector<std::pair<std::string, Unit>> &table() {
  static const auto units = makeTable();
  return units;
}

} // namespace

std::optional<Unit> findUnit(std::string_view unit) {
  if (unit.empty()) {
    return Unit{};
  }
  for (const auto &[name, value] : table()) {
    if (name == unit) {
      return value;
    }
  }
  return std::nullopt;
}

const std::vector<std::string> &allUnits() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto &[name, value] : table()) {
      all.push_back(name);
    }
    return all;
  }();
  return names;
}

} // namespace cleave::ast
