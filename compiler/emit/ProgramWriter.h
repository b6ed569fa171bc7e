//===- ProgramWriter.h - Writes one function as a program -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_PROGRAMWRITER_H
#define CLEAVE_COMPILER_EMIT_PROGRAMWRITER_H

#include "compiler/emit/Handover.h"

#include <map>

namespace cleave::emit {

/// The format's name of a value's element type.
format::ElementType elementTypeOf(mlir::Value value);

/// Triples of an atom, and begin and end of coordinates, as the format has it.
std::vector<std::unique_ptr<format::ResidenceT>>
residencesOf(llvm::ArrayRef<int64_t> triples);

/// What all programs of a plan number together.
class PlanTables {
public:
  explicit PlanTables(format::PlanT &plan) : plan(plan) {}

  uint32_t extent(const codegen::Extent &extent);
  layout::Split pieces(uint32_t extent) const;
  uint32_t site(mlir::Location loc, clv::ScopeAttr scope, llvm::StringRef name,
                llvm::StringRef reason);

private:
  format::PlanT &plan;
  llvm::DenseMap<codegen::Extent, uint32_t> extents;
  std::map<std::string, uint32_t> sites;
};

/// Writes one function.
class ProgramWriter {
public:
  ProgramWriter(mlir::func::FuncOp function, const Shared &shared,
                codegen::KernelLibrary &library, PlanTables &tables)
      : function(function), shared(shared), library(library), tables(tables) {}

  llvm::Expected<std::unique_ptr<format::ProgramT>> write(LeastArenas *least);
  /// The layouts of the leaves that the function has.
  llvm::DenseMap<int, layout::Layout> leafLayouts();

private:
  mlir::func::FuncOp function;
  const Shared &shared;
  codegen::KernelLibrary &library;
  PlanTables &tables;
  std::unique_ptr<format::ProgramT> program =
      std::make_unique<format::ProgramT>();
  llvm::SmallVector<int> leaves, inputs, resultLeaves;
  Placement placement;
  std::map<std::vector<int64_t>, uint32_t> values;
  llvm::DenseMap<const Action *, uint32_t> collectives;
  llvm::SmallVector<Handover> handovers;

  using Body = std::vector<std::unique_ptr<format::InstructionT>>;

  llvm::StringRef attribute(bool ofResult, unsigned index,
                            llvm::StringRef name);
  int findLeaf(llvm::StringRef path, llvm::StringRef state);
  llvm::Error readArguments();
  llvm::Error addInput(unsigned index, llvm::StringRef role);
  llvm::Error readResults();
  void writeOutputs();
  std::unique_ptr<format::OutputT> outputOf(mlir::Value value);
  void writeUpdate(const Actions &actions);

  uint32_t value(mlir::Value value, const Place &place);
  format::View view(mlir::Value value, const Place &place);
  format::View view(mlir::Value v) { return view(v, placement.placeOf(v)); }
  uint32_t siteOf(const Action &action, llvm::StringRef name,
                  llvm::StringRef reason = "");
  template <typename T> void push(Body &body, T &&action);
  void writeActions(const Actions &actions, Body &body);
  void writeAction(const Action &action, Body &body);
  void writeKernel(const Action &action, Body &body);
  void writeContraction(const Action &action, Body &body);
  void writeMove(const Action &action, Body &body);
  void writeStart(const Action &action, Body &body);
  void writeLoop(const Action &action, Body &body);
  void writeOnly(const Action &action, Body &body);
  void writeShare(const Action &action, Body &body);
  void writeMicro(const Action &action, Body &body);
  void writeFrame(const Action &action, Body &body);
  void writeCopies(const std::vector<Copy> &copies, uint32_t site, Body &body);
};

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_PROGRAMWRITER_H
