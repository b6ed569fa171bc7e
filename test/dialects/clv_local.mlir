// RUN: cleave-opt %s | cleave-opt | FileCheck %s

// A repeat on local types: the index has an encoding too.
// CHECK: clv.repeat %{{.*}} : tensor<i32, #spmd.local<[]>> of "a" from 0 count 2 carried(%{{.*}} = %{{.*}} : tensor<3xf32, #spmd.local<[b = 5 on [0]]>>) stacked(

!x = tensor<3xf32, #spmd.local<[b = 5 on [0]]>>
!w = tensor<2x3xf32, #spmd.local<[a = 2, b = 5 on [0]]>>
!i = tensor<i32, #spmd.local<[]>>
module attributes {spmd.mesh = #spmd.mesh<[data = 2], []>} {
func.func @f(%x: !x, %w: !w) -> !x {
  %r = clv.repeat %i : !i of "a" from 0 count 2 carried(%c = %x : !x) stacked(%s = %w : !w slice !x) -> !x {
    %n = clv.mul %c, %s : (!x, !x) -> !x
    clv.yield %n : !x
  }
  return %r : !x
}
}
