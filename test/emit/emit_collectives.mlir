// RUN: cleave-emit %s | FileCheck %s

!p = tensor<4x8xf32, #spmd.local<[b = 4, e = 8], sum over [0]>>
!w = tensor<4x8xf32, #spmd.local<[b = 4, e = 8]>>
!x = tensor<4x8xf32, #spmd.local<[b = 4, e = 8]>>

module attributes {spmd.mesh = #spmd.mesh<[data = 2], [#spmd.axis<"data" = [0]>]>} {
// A collective starts when its source is there and is waited for right before
// its first reader; it works in place, since nobody else reads the source.
// CHECK-LABEL: program overlap
// CHECK: kernel {{.*}}_exp({{v[0-9]+}}, [[P:v[0-9]+]];
// CHECK-NEXT: start 0 = all_reduce [[P]] -> [[P]] over [0]
// CHECK-NEXT: = dot(
// CHECK-NEXT: wait 0
// CHECK-NEXT: kernel {{.*}}_tanh([[P]],
func.func @overlap(%a: !p, %b: !w) -> (!x, tensor<f32, #spmd.local<[]>>) {
  %e = clv.exp %a : (!p) -> !p
  %d = clv.dot %b, %b over ["b", "e"] : (!w, !w) -> tensor<f32, #spmd.local<[]>>
  %r = spmd.all_reduce %e over [0] : (!p) -> !x
  %t = clv.tanh %r : (!x) -> !x
  return %t, %d : !x, tensor<f32, #spmd.local<[]>>
}
}
