//===- KernelsTest.cpp - Compiled kernels against the reference -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

const int64_t widths[] = {0, 1, 15, 16, 17, 100};

TEST(Kernels, Elementwise) {
  for (int64_t n : widths) {
    check(R"(func.func @f(%x: tensor<3x$nxf32, #clv.dims<b, e>>,
                          %y: tensor<$nxf32, #clv.dims<e>>) ->
        tensor<3x$nxf32, #clv.dims<b, e>> {
      %0 = clv.add %x, %y : (tensor<3x$nxf32, #clv.dims<b, e>>,
        tensor<$nxf32, #clv.dims<e>>) -> tensor<3x$nxf32, #clv.dims<b, e>>
      %1 = clv.gelu %0 : (tensor<3x$nxf32, #clv.dims<b, e>>)
        -> tensor<3x$nxf32, #clv.dims<b, e>>
      return %1 : tensor<3x$nxf32, #clv.dims<b, e>>
    })",
          {{"n", n}});
  }
}

} // namespace
