// RUN: cleave-opt %s --clv-decompose | FileCheck %s

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!a = tensor<2xf32, #clv.dims<a>>

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: (%[[X:.*]]: tensor
func.func @softmax(%x: !ab) -> !ab {
  // CHECK: %[[M:.*]] = clv.reduce max %[[X]] over ["b"] {clv.scope = #clv.scope<activations, forward, path = "r">}
  // CHECK: %[[D:.*]] = clv.sub %[[X]], %[[M]]
  // CHECK: %[[E:.*]] = clv.exp %[[D]]
  // CHECK: %[[S:.*]] = clv.reduce sum %[[E]] over ["b"]
  // CHECK: %[[I:.*]] = clv.div %{{.*}}, %[[S]]
  // CHECK: clv.mul %[[E]], %[[I]] {clv.scope = #clv.scope<activations, forward, path = "r", label = "p">}
  // CHECK-NOT: clv.softmax
  %0 = clv.softmax %x over ["b"] {clv.scope = #clv.scope<activations, forward, path = "r", label = "p">} : (!ab) -> !ab
  return %0 : !ab
}

// CHECK-LABEL: func.func @logsumexp
// CHECK-SAME: (%[[X:.*]]: tensor
func.func @logsumexp(%x: !ab) -> !a {
  // CHECK: %[[M:.*]] = clv.reduce max %[[X]] over ["b"]
  // CHECK: %[[D:.*]] = clv.sub %[[X]], %[[M]]
  // CHECK: %[[E:.*]] = clv.exp %[[D]]
  // CHECK: %[[S:.*]] = clv.reduce sum %[[E]] over ["b"]
  // CHECK: %[[L:.*]] = clv.log %[[S]]
  // CHECK: clv.add %[[L]], %[[M]]
  // CHECK-NOT: clv.logsumexp
  %0 = clv.logsumexp %x over ["b"] : (!ab) -> !a
  return %0 : !a
}
