//===- Program.h - The instructions of one function -------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between operations and the plan file: actions in their final order, what they
// read and write, and where every value lies.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_PROGRAM_H
#define CLEAVE_COMPILER_EMIT_PROGRAM_H

#include "compiler/codegen/Kernel.h"
#include "compiler/emit/Arena.h"
#include "compiler/emit/Emit.h"
#include <memory>

namespace cleave::emit {

struct Action;
using Actions = std::vector<std::unique_ptr<Action>>;

/// Values are *roots*: what renames lead back to.
struct Action {
  enum Kind : uint8_t {
    Kernel,
    Contraction,
    Move,
    Start,
    Wait,
    Loop,
    Frame, ///< of a section, or of what only some stages do: once where it is
    Micro  ///< its body, sections, for each microbatch
  };
  Kind kind = Kernel;
  mlir::Operation *op = nullptr; ///< null for kernels of groups
  codegen::Kernel kernel;
  mlir::Location loc;
  clv::ScopeAttr scope;
  Action *start = nullptr;  ///< of a wait
  Actions body;             ///< of a loop, a frame, a micro
  int64_t begin = 0;        ///< position; of what has a body, before it
  int64_t end = 0;          ///< equal to begin where there is no body
  bool isUpdate = false;    ///< of the function's block: see updatesOf
  Action *parent = nullptr; ///< what has it in its body

  bool hasBody() const { return kind >= Loop; }

  explicit Action(mlir::Location loc) : loc(loc) {}
};

/// A piece of memory: of the arena, a leaf, an input, or what a stage keeps for
/// a microbatch.
struct Buffer {
  format::Storage storage = format::Storage::Arena;
  unsigned index = 0; ///< of a leaf, an input or a group of slots
  int64_t bytes = 0;
  int64_t begin = INT64_MAX, end = -1; ///< positions where it is alive
  int64_t offset = 0;
  bool hasChunks = false; ///< all of a stage's, one after the other

  void cover(int64_t position) {
    begin = std::min(begin, position);
    end = std::max(end, position);
  }
};

/// Where a value lies: a whole buffer, or one slice of it for each iteration.
struct Place {
  int buffer = -1;
  int loop = -1;         ///< depth of the loop
  codegen::Extent stack; ///< the dim of the slices

  explicit operator bool() const { return buffer >= 0; }
};

/// A copy between places of values of one type.
struct Copy {
  mlir::Value value; ///< for its type
  Place source, target;
};

/// What the positions [begin, end) keep for a microbatch. Where activations
/// arrive, and gradients, is apart: it is taken when a receive is posted, long
/// before the rest.
struct SlotGroup {
  enum Kind : uint8_t { Made, Activations, Gradients };
  Kind kind = Made;
  int64_t begin = 0, end = 0;
  int64_t bytes = 0; ///< for each microbatch
};

/// Where everything of a function lies, and the copies that this needs.
struct Placement {
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, Place> places; ///< of roots
  llvm::DenseMap<const Action *, llvm::SmallVector<int>> scratch;
  llvm::DenseMap<const Action *, std::vector<Copy>> before; ///< of loops
  llvm::DenseMap<const Action *, std::vector<Copy>> atEnd;  ///< of iterations
  std::vector<Copy> last; ///< at the end of the function
  int64_t arenaBytes = 0;
  std::vector<SlotGroup> slots;

  Place placeOf(mlir::Value value) const;
};

/// The value whose memory `value` is: behind renames, and inside frames.
mlir::Value rootOf(mlir::Value value);

/// The values that an action reads itself, its body not included.
llvm::SmallVector<mlir::Value> readsOf(const Action &action);
llvm::SmallVector<mlir::Value> writesOf(const Action &action);

/// The actions of a function, numbered, and their kernels.
llvm::Expected<Actions> buildActions(mlir::func::FuncOp function,
                                     codegen::KernelLibrary &library);

/// Places every value. `leafOf` and `inputOf` say which leaf or input an
/// argument is, or -1; `resultLeafOf` which leaf a result replaces, or -1.
Placement place(mlir::func::FuncOp function, const Actions &actions,
                llvm::function_ref<int(unsigned)> leafOf,
                llvm::function_ref<int(unsigned)> inputOf,
                llvm::function_ref<int(unsigned)> resultLeafOf);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_PROGRAM_H
