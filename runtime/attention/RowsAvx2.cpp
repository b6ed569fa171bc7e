//===- RowsAvx2.cpp - Rows.h for AVX2 and FMA -----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define CLEAVE_PROCESSOR avx2
#include "runtime/attention/RowsOf.inc"
