// RUN: cleave-opt %s --spmd-to-exec | FileCheck %s

!e = tensor<32xf32, #clv.dims<e>>
!be = tensor<4x32xf32, #clv.dims<b, e>>
!le = tensor<3x32xf32, #clv.dims<l, e>>
!lbe = tensor<3x4x32xf32, #clv.dims<l, b, e>>
!f = tensor<f32>

// A new parameter is written over the old one.
// CHECK-LABEL: exec.program @update arena 0
// CHECK: exec.kernel @sub_{{[0-9a-f]+}}(%w, %update.argument1, %w)
// CHECK-NOT: move
func.func @update(%p: !be {clv.role = "param", clv.path = "w"}, %g: !be) -> (!be {clv.result = "param", clv.path = "w"}) {
  %n = clv.sub %p, %g : (!be, !be) -> !be
  return %n : !be
}

// Not where the old one is still read: then it is copied at the end.
// CHECK-LABEL: exec.program @keep
// CHECK: exec.kernel @sub_{{[0-9a-f]+}}(%w, %keep.argument1, %[[N:[0-9]+]])
// CHECK: exec.contract %w, %[[N]] ->
// CHECK: exec.move %[[N]] -> %w
func.func @keep(%p: !be {clv.role = "param", clv.path = "w"}, %g: !be) -> (!be {clv.result = "param", clv.path = "w"}, !f) {
  %n = clv.sub %p, %g : (!be, !be) -> !be
  %d = clv.dot %p, %n over ["b", "e"] : (!be, !be) -> !f
  return %n, %d : !be, !f
}

// What a loop carries stays in one buffer, what it stacks is written as slices.
// CHECK-LABEL: exec.program @loop
// CHECK: exec.move %loop.argument1 -> %[[C:[0-9]+]]
// CHECK: exec.loop %i from 0 count 3 reverse
// CHECK-NEXT: exec.kernel {{.*}}(%[[C]], %loop.argument2[%i], %[[C]], %[[S:[0-9]+]][%i])
// CHECK-NOT: exec.move
// CHECK: exec.output output "" = %[[C]]
// CHECK: exec.output output "" = %[[S]]
func.func @loop(%i: tensor<i32>, %x: !be, %w: !le) -> (!be, !lbe) {
  %r:2 = clv.repeat %j of "l" from 0 count 3 reverse carried(%c = %x : !be) stacked(%s = %w : !le slice !e) -> (!be, !lbe) {
    %y = clv.mul %c, %s : (!be, !e) -> !be
    %t = clv.tanh %y : (!be) -> !be
    clv.yield %y, %t : !be, !be
  }
  return %r#0, %r#1 : !be, !lbe
}

// Dims are ordered in memory as the largest operand has them, whatever the
// order in the type: the mask comes first here, the scores decide.
// CHECK-LABEL: exec.program @order
// CHECK: exec.value arena {{.*}} : f32[%b, %e]
// CHECK-NOT: f32[%e, %b]
func.func @order(%m: tensor<32xi1, #clv.dims<e>>, %x: !be, %w: tensor<32x8xf32, #clv.dims<e, k>>) -> tensor<4x8xf32, #clv.dims<b, k>> {
  %no = clv.constant 0.0 : f32 -> !f
  %y = clv.select %m, %x, %no : (tensor<32xi1, #clv.dims<e>>, !be, !f) -> tensor<32x4xf32, #clv.dims<e, b>>
  %d = clv.dot %y, %w over ["e"] : (tensor<32x4xf32, #clv.dims<e, b>>, tensor<32x8xf32, #clv.dims<e, k>>) -> tensor<4x8xf32, #clv.dims<b, k>>
  return %d : tensor<4x8xf32, #clv.dims<b, k>>
}

// Running sums have their operand's order, whatever the order in the type.
// CHECK-LABEL: exec.program @sums
// CHECK-NOT: f32[%e, %b]
// CHECK: exec.kernel @cumsum_
func.func @sums(%x: !be, %w: tensor<32x8xf32, #clv.dims<e, k>>) -> tensor<4x8xf32, #clv.dims<b, k>> {
  %c = clv.cumsum %x along "b" : (!be) -> tensor<32x4xf32, #clv.dims<e, b>>
  %d = clv.dot %c, %w over ["e"] : (tensor<32x4xf32, #clv.dims<e, b>>, tensor<32x8xf32, #clv.dims<e, k>>) -> tensor<4x8xf32, #clv.dims<b, k>>
  return %d : tensor<4x8xf32, #clv.dims<b, k>>
}

// They are written over it where nothing else reads it.
// CHECK-LABEL: exec.program @sum_in_place arena 0
// CHECK: exec.kernel @cumsum_{{[0-9a-f]+}}(%w, %w)
// CHECK-NOT: exec.move
func.func @sum_in_place(%p: !be {clv.role = "param", clv.path = "w"}) -> (!be {clv.result = "param", clv.path = "w"}) {
  %n = clv.cumsum %p along "e" : (!be) -> !be
  return %n : !be
}
