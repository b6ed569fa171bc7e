//===- Print.cpp - A plan's programs as text ------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/Emit.h"
#include "runtime/format/Convert.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;

namespace {

class Printer {
public:
  Printer(const format::PlanT &plan, const format::ProgramT &program,
          const std::vector<std::string> &symbols, llvm::raw_ostream &stream)
      : plan(plan), program(program), symbols(symbols), stream(stream) {}

  void print();

private:
  const format::PlanT &plan;
  const format::ProgramT &program;
  const std::vector<std::string> &symbols;
  llvm::raw_ostream &stream;
  unsigned depth = 1;

  using Body = std::vector<std::unique_ptr<format::InstructionT>>;
  llvm::raw_ostream &line() { return stream.indent(2 * depth); }
  std::string view(const format::View &view);
  std::string integer(const format::Integer &integer);
  void print(const format::ValueT &value);
  void print(const Body &body);
  void print(const format::KernelT &kernel);
  void print(const format::ContractionT &contraction);
  void print(const format::CollectiveT &collective);
};

} // namespace

std::string Printer::view(const format::View &view) {
  std::string text = "v" + std::to_string(view.value());
  if (view.loop() >= 0) {
    text += "[" + std::to_string(view.loop()) + "]";
  }
  return text;
}

std::string Printer::integer(const format::Integer &integer) {
  std::string number = std::to_string(integer.value());
  switch (integer.kind()) {
  case format::IntegerKind::Literal:
    return number;
  case format::IntegerKind::ExtentSize:
    return "size " + plan.extents[integer.value()]->dim;
  case format::IntegerKind::ExtentBegin:
    return "begin " + plan.extents[integer.value()]->dim;
  case format::IntegerKind::Iteration:
    return "iteration " + number;
  }
  return "?";
}

void Printer::print(const format::ValueT &value) {
  switch (value.storage) {
  case format::Storage::Arena:
    stream << "arena " << value.offset << " + " << value.bytes;
    break;
  case format::Storage::Leaf:
    stream << "leaf " << value.index;
    break;
  case format::Storage::Input:
    stream << "input " << value.index;
    break;
  }
  stream << ": " << format::nameOf(value.type) << "["
         << llvm::join(llvm::map_range(value.extents,
                                       [&](uint32_t extent) {
                                         return plan.extents[extent]->dim;
                                       }),
                       ", ")
         << "]\n";
}

void Printer::print(const format::KernelT &kernel) {
  stream << "kernel " << symbols[kernel.symbol] << "(";
  llvm::interleaveComma(kernel.views, stream,
                        [&](const format::View &v) { stream << view(v); });
  stream << "; ";
  llvm::interleaveComma(kernel.integers, stream, [&](const format::Integer &i) {
    stream << integer(i);
  });
  stream << ")\n";
}

void Printer::print(const format::ContractionT &contraction) {
  stream << view(*contraction.out) << " = dot(" << view(*contraction.lhs)
         << ", " << view(*contraction.rhs) << ") over";
  for (const format::ContractedDim &dim : contraction.dims) {
    if (dim.out() < 0) {
      stream << " " << plan.extents[dim.extent()]->dim;
    }
  }
  stream << "\n";
}

void Printer::print(const format::CollectiveT &collective) {
  stream << "start " << collective.id << " = "
         << format::nameOf(collective.kind) << " " << view(*collective.source)
         << " -> " << view(*collective.target) << " over [";
  llvm::interleaveComma(collective.group, stream);
  stream << "]\n";
}

void Printer::print(const Body &body) {
  for (const auto &instruction : body) {
    const format::ActionUnion &action = instruction->action;
    line();
    switch (action.type) {
    case format::Action::Kernel:
      print(*action.AsKernel());
      break;
    case format::Action::Contraction:
      print(*action.AsContraction());
      break;
    case format::Action::Fill:
      stream << "fill " << view(*action.AsFill()->target) << "\n";
      break;
    case format::Action::Move:
      stream << "move " << view(*action.AsMove()->source) << " -> "
             << view(*action.AsMove()->target) << "\n";
      break;
    case format::Action::Collective:
      print(*action.AsCollective());
      break;
    case format::Action::Wait:
      stream << "wait " << action.AsWait()->id << "\n";
      break;
    case format::Action::Loop:
      stream << "loop " << action.AsLoop()->first << " .. "
             << action.AsLoop()->first + action.AsLoop()->count
             << (action.AsLoop()->reverse ? " reverse" : "") << "\n";
      ++depth;
      print(action.AsLoop()->body);
      --depth;
      break;
    default:
      stream << "?\n";
    }
  }
}

void Printer::print() {
  stream << "program " << program.name << ", arena " << program.arena_bytes
         << "\n";
  for (auto [i, value] : llvm::enumerate(program.values)) {
    line() << "v" << i << " = ";
    print(*value);
  }
  print(program.body);
  for (const auto &output : program.outputs) {
    line() << "output v" << output->value << "\n";
  }
}

void emit::print(const format::PlanT &plan,
                 const std::vector<std::string> &symbols,
                 llvm::raw_ostream &stream) {
  for (const auto &program : plan.programs) {
    Printer(plan, *program, symbols, stream).print();
  }
}
