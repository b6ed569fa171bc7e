// RUN: cleave-opt %s --spmd-to-exec | FileCheck %s

// What becomes one kernel, what does not.

!b = tensor<4xf32, #clv.dims<b>>
!e = tensor<32xf32, #clv.dims<e>>
!k = tensor<8xf32, #clv.dims<k>>
!be = tensor<4x32xf32, #clv.dims<b, e>>
!bk = tensor<4x8xf32, #clv.dims<b, k>>
!ek = tensor<32x8xf32, #clv.dims<e, k>>
!f = tensor<f32>

// A norm: two sums over a row and what follows are one kernel.
// CHECK-LABEL: exec.program @norm
// CHECK: exec.kernel @mul_{{[0-9a-f]+}}(
// CHECK-NOT: exec.kernel
func.func @norm(%x: !be, %g: !e) -> !be {
  %n = clv.constant 0.03125 : f32 -> !f
  %s = clv.reduce sum %x over ["e"] : (!be) -> !b
  %m = clv.mul %s, %n : (!b, !f) -> !b
  %d = clv.sub %x, %m : (!be, !b) -> !be
  %q = clv.mul %d, %d : (!be, !be) -> !be
  %v = clv.reduce sum %q over ["e"] : (!be) -> !b
  %r = clv.rsqrt %v : (!b) -> !b
  %h = clv.mul %d, %r : (!be, !b) -> !be
  %y = clv.mul %h, %g : (!be, !e) -> !be
  return %y : !be
}

// A sum over rows joins what reads the same rows, but what reads the sum
// comes after.
// CHECK-LABEL: exec.program @columns
// CHECK: exec.kernel @exp_reduce_{{[0-9a-f]+}}(
// CHECK: exec.kernel @sub_{{[0-9a-f]+}}(
// CHECK-NOT: exec.kernel
func.func @columns(%x: !be) -> (!be, !be) {
  %y = clv.exp %x : (!be) -> !be
  %s = clv.reduce sum %x over ["b"] : (!be) -> !e
  %z = clv.sub %x, %s : (!be, !e) -> !be
  return %y, %z : !be, !be
}

// The kernel after a contraction does not join the one before it.
// CHECK-LABEL: exec.program @around
// CHECK: exec.kernel @exp_{{[0-9a-f]+}}(
// CHECK: exec.contract
// CHECK: exec.kernel @mul_{{[0-9a-f]+}}(
// CHECK-NOT: exec.kernel
func.func @around(%x: !be, %w: !ek) -> (!be, !bk) {
  %a = clv.exp %x : (!be) -> !be
  %d = clv.dot %a, %w over ["e"] : (!be, !ek) -> !bk
  %s = clv.reduce sum %d over ["k"] : (!bk) -> !b
  %c = clv.mul %a, %s : (!be, !b) -> !be
  return %c, %d : !be, !bk
}

// A mask is computed where it is read: it has no memory.
// CHECK-LABEL: exec.program @mask
// CHECK-NOT: i1
// CHECK: exec.kernel @select_{{[0-9a-f]+}}(%mask.argument0, %{{[0-9]+}}) with [size %e, size %b, begin %b, begin %e]
// CHECK-NOT: exec.kernel
func.func @mask(%x: !be) -> !be {
  %i = clv.index -> tensor<4xi32, #clv.dims<b>>
  %j = clv.index -> tensor<32xi32, #clv.dims<e>>
  %ok = clv.less_equal %i, %j : (tensor<4xi32, #clv.dims<b>>, tensor<32xi32, #clv.dims<e>>) -> tensor<4x32xi1, #clv.dims<b, e>>
  %no = clv.constant 0.0 : f32 -> !f
  %y = clv.select %ok, %x, %no : (tensor<4x32xi1, #clv.dims<b, e>>, !be, !f) -> !be
  return %y : !be
}

// Equal groups share one kernel.
// CHECK-LABEL: exec.program @twice
// CHECK: exec.kernel @[[K:tanh_[0-9a-f]+]](
// CHECK: exec.contract
// CHECK: exec.kernel @[[K]](
func.func @twice(%x: !be, %w: !ek) -> !bk {
  %a = clv.tanh %x : (!be) -> !be
  %d = clv.dot %a, %w over ["e"] : (!be, !ek) -> !bk
  %t = clv.tanh %d : (!bk) -> !bk
  return %t : !bk
}
