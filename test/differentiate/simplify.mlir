// RUN: cleave-opt %s --clv-simplify | FileCheck %s

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
!s = tensor<f32>
#f = #clv.scope<activations, forward, path = "r">
#g = #clv.scope<activations, backward, path = "r">
#q = #clv.scope<activations, forward, path = "q">

// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[X:.*]]: tensor
func.func @identities(%p: !ab) -> (!ab, !ab, !ab, !ab, !ab) {
  // CHECK-NEXT: %[[E:.*]] = clv.exp %[[X]]
  // CHECK-NEXT: return %[[E]], %[[E]], %[[E]], %[[E]], %[[E]]
  %x = clv.exp %p {clv.scope = #f} : (!ab) -> !ab
  %zero = clv.constant 0.0 : f32 {clv.scope = #f} -> !s
  %one = clv.constant 1.0 : f32 {clv.scope = #f} -> !s
  %ones = clv.broadcast %one {clv.scope = #f} : (!s) -> !ab
  %0 = clv.add %x, %zero {clv.scope = #f} : (!ab, !s) -> !ab
  %1 = clv.mul %ones, %x {clv.scope = #f} : (!ab, !ab) -> !ab
  %2 = clv.div %x, %one {clv.scope = #f} : (!ab, !s) -> !ab
  %n = clv.neg %x {clv.scope = #f} : (!ab) -> !ab
  %3 = clv.neg %n {clv.scope = #f} : (!ab) -> !ab
  %4 = clv.sub %x, %zero {clv.scope = #f} : (!ab, !s) -> !ab
  return %0, %1, %2, %3, %4 : !ab, !ab, !ab, !ab, !ab
}

// A sum that has more dims than its operand is no identity.
// CHECK-LABEL: func.func @not_identities
func.func @not_identities(%x: !b, %y: !ab) -> (!ab, !ab) {
  // CHECK: clv.add
  // CHECK: clv.mul
  %zero = clv.constant 0.0 : f32 {clv.scope = #f} -> !s
  %zeros = clv.broadcast %zero {clv.scope = #f} : (!s) -> !ab
  %e = clv.exp %x {clv.scope = #f} : (!b) -> !b
  %0 = clv.add %zeros, %e {clv.scope = #f} : (!ab, !b) -> !ab
  %one = clv.constant 1.0 : f32 {clv.scope = #q} -> !s
  %f = clv.exp %y {clv.scope = #f} : (!ab) -> !ab
  // Of another region, where the layout may differ.
  %1 = clv.mul %f, %one {clv.scope = #q} : (!ab, !s) -> !ab
  return %0, %1 : !ab, !ab
}

// CHECK-LABEL: func.func @constants
func.func @constants(%x: !ab) -> !ab {
  // CHECK-NEXT: %[[C:.*]] = clv.constant 2.500000e+00 : f32
  // CHECK-NEXT: clv.mul %{{.*}}, %[[C]]
  %i = clv.constant 4 : i32 {clv.scope = #f} -> tensor<i32>
  %f = clv.cast %i {clv.scope = #f} : (tensor<i32>) -> !s
  %r = clv.sqrt %f {clv.scope = #f} : (!s) -> !s
  %h = clv.constant 0.5 : f32 {clv.scope = #f} -> !s
  %s = clv.add %r, %h {clv.scope = #f} : (!s, !s) -> !s
  %0 = clv.mul %x, %s {clv.scope = #f} : (!ab, !s) -> !ab
  return %0 : !ab
}

// CHECK-LABEL: func.func @broadcasts
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32, #clv.dims<b>>, %[[Y:.*]]: tensor
func.func @broadcasts(%x: !b, %y: !ab) -> (!ab, !ab) {
  // An operand is repeated anyway, where the order of dims stays.
  // CHECK-NEXT: %[[B:.*]] = clv.broadcast %[[X]]
  // CHECK-NEXT: %[[M:.*]] = clv.mul %[[Y]], %[[X]]
  // CHECK-NEXT: %[[N:.*]] = clv.mul %[[B]], %[[Y]]
  // CHECK-NEXT: return %[[M]], %[[N]]
  %0 = clv.broadcast %x {clv.scope = #f} : (!b) -> !ab
  %1 = clv.mul %y, %0 {clv.scope = #f} : (!ab, !ab) -> !ab
  %2 = clv.mul %0, %y {clv.scope = #f} : (!ab, !ab) -> !ab
  return %1, %2 : !ab, !ab
}

// CHECK-LABEL: func.func @equal
func.func @equal(%x: !ab) -> (!ab, !ab, !ab, !ab) {
  // One region and one phase: merged, whatever the label. Else not.
  // CHECK-NEXT: %[[A:.*]] = clv.exp %{{.*}} path = "r", label = "h"
  // CHECK-NEXT: %[[B:.*]] = clv.exp %{{.*}} backward, path = "r"
  // CHECK-NEXT: %[[C:.*]] = clv.exp %{{.*}} path = "q"
  // CHECK-NEXT: return %[[A]], %[[A]], %[[B]], %[[C]]
  %0 = clv.exp %x {clv.scope = #clv.scope<activations, forward, path = "r", label = "h">} : (!ab) -> !ab
  %1 = clv.exp %x {clv.scope = #f} : (!ab) -> !ab
  %2 = clv.exp %x {clv.scope = #g} : (!ab) -> !ab
  %3 = clv.exp %x {clv.scope = #q} : (!ab) -> !ab
  return %0, %1, %2, %3 : !ab, !ab, !ab, !ab
}

// CHECK-LABEL: func.func @unused
func.func @unused(%x: !b, %w: !ab, %v: !ab) -> !b {
  // CHECK: clv.repeat %{{.*}} of "a" from 0 count 2 carried(%[[C:.*]] = %{{.*}} : tensor<3xf32, #clv.dims<b>>) stacked(%[[S:.*]] = %{{.*}} slice tensor<3xf32, #clv.dims<b>>) -> tensor<3xf32, #clv.dims<b>> {
  // CHECK-NEXT: %[[A:.*]] = clv.add %[[C]], %[[S]]
  // CHECK-NEXT: clv.yield %[[A]] :
  %r:3 = clv.repeat %i of "a" from 0 count 2 carried(%c = %x : !b, %d = %x : !b) stacked(%s = %w : !ab slice !b, %t = %v : !ab slice !b) -> (!b, !b, !ab) {
    %0 = clv.add %c, %s : (!b, !b) -> !b
    %1 = clv.mul %0, %0 : (!b, !b) -> !b
    clv.yield %0, %d, %1 : !b, !b, !b
  }
  return %r#0 : !b
}
