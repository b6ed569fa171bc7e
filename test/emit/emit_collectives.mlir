// RUN: cleave-opt %s --spmd-to-exec | FileCheck %s

!p = tensor<4x8xf32, #spmd.local<[b = 4, e = 8], sum over [0]>>
!w = tensor<4x8xf32, #spmd.local<[b = 4, e = 8]>>
!x = tensor<4x8xf32, #spmd.local<[b = 4, e = 8]>>

module attributes {spmd.mesh = #spmd.mesh<[data = 2], [#spmd.axis<"data" = [0]>]>} {
// A collective starts when its source is there and is waited for right before
// its first reader; it works in place, since nobody else reads the source.
// CHECK-LABEL: exec.program @overlap
// CHECK: exec.kernel @exp_{{[0-9a-f]+}}(%overlap.argument0, %[[P:[0-9]+]])
// CHECK-NEXT: %c0 = exec.start 0 all_reduce %[[P]] -> %[[P]] among [0], sum over [0] at %at.all_reduce_data
// CHECK-NEXT: exec.contract
// CHECK-NEXT: exec.wait %c0
// CHECK-NEXT: exec.kernel @tanh_{{[0-9a-f]+}}(%[[P]],
func.func @overlap(%a: !p, %b: !w) -> (!x, tensor<f32, #spmd.local<[]>>) {
  %e = clv.exp %a : (!p) -> !p
  %d = clv.dot %b, %b over ["b", "e"] : (!w, !w) -> tensor<f32, #spmd.local<[]>>
  %r = spmd.all_reduce %e over [0] : (!p) -> !x
  %t = clv.tanh %r : (!x) -> !x
  return %t, %d : !x, tensor<f32, #spmd.local<[]>>
}
}
