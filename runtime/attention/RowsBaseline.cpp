//===- RowsBaseline.cpp - Rows.h for any x86-64 ---------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define CLEAVE_PROCESSOR baseline
#include "runtime/attention/RowsOf.inc"
