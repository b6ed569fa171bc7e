//===- Emit.h - From a partitioned module to a plan -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_EMIT_H
#define CLEAVE_COMPILER_EMIT_EMIT_H

#include "compiler/codegen/KernelLibrary.h"
#include "runtime/format/Plan_generated.h"
#include "llvm/ADT/ArrayRef.h"

#include <map>

namespace cleave::emit {

/// What all plans of a set share, as the plan file says it.
struct Shared {
  /// In the order of PlanSet.leaves.
  llvm::ArrayRef<format::LeafT> leaves;
  /// Name, source, shift and bound of each input; types and sizes are taken
  /// from the functions.
  llvm::ArrayRef<format::InputT> inputs;
};

/// Of a program, by its name: what Least.h says.
using LeastArenas = std::map<std::string, int64_t>;

/// The plan of a partitioned module. Each public function is a program: `train`
/// (or `loss`, called `eval`, or `forward`), whose arguments carry `clv.role`
/// and `clv.path`, and whose results carry `clv.result`. Operations that are
/// compositions (softmax, logsumexp) must be gone. The module is changed:
/// identities and dead operations are removed. `least` is filled where it is
/// not null.
llvm::Expected<std::unique_ptr<format::PlanT>>
emitPlan(mlir::ModuleOp module, llvm::StringRef name, const Shared &shared,
         codegen::KernelLibrary &library, LeastArenas *least = nullptr);

/// Registers `spmd-prepare`, `spmd-kernels` and `spmd-to-exec`.
void registerEmitPasses();

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_EMIT_H
