//===- Order.h - The order of dims in memory --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dims have names, so the order in which an operation's result lists them says
// nothing about the program: `where(mask[seq, keys], scores[batch, seq, head,
// keys], …)` begins with seq because the mask comes first. In memory the order
// decides whether loops walk contiguous rows and contractions are single matrix
// products. Here it is chosen, before code is generated:
//
//  * arguments and results of the function keep theirs;
//  * values that are the same memory, or copies of one another (renames,
//    collectives, slices, what a repeat carries and stacks), have one order;
//  * an elementwise result is ordered like an operand that has all its dims, a
//    reduction like its operand;
//  * a contraction or scatter as elementwise readers meet it with an argument
//    (the gradient like the parameter), else like an earlier value with the
//    same dims, else lhs first, then what rhs adds.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_COMPILER_EMIT_ORDER_H
#define CLEAVE_COMPILER_EMIT_ORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::emit {

/// Gives the function's values the types of their order in memory. The types
/// of elementwise operations then no longer follow the operands' order, which
/// the dialect's verifier demands: do not verify afterwards. Attention gets
/// copies of what has its inner dims not last.
void chooseOrders(mlir::func::FuncOp function);

} // namespace cleave::emit

#endif // CLEAVE_COMPILER_EMIT_ORDER_H
