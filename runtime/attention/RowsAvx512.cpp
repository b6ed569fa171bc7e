//===- RowsAvx512.cpp - Rows.h for AVX-512 --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define CLEAVE_PROCESSOR avx512
#include "runtime/attention/RowsOf.inc"
