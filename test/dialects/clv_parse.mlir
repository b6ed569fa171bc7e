// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --mlir-print-op-generic %s | cleave-opt | FileCheck %s

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!a = tensor<2xf32, #clv.dims<a>>
!b = tensor<3xf32, #clv.dims<b>>
!ai = tensor<2xi32, #clv.dims<a>>
!s = tensor<f32>
!i = tensor<i32>

// CHECK-LABEL: func.func @ops
func.func @ops(%x: !ab, %y: !a, %p: !b, %ids: !ai, %n: !i) -> !ab {
  // A name that is no keyword is written as a string.
  // CHECK: clv.constant 1.500000e+00 : f32 -> tensor<f32>
  %c = clv.constant 1.5 : f32 -> !s
  // CHECK: clv.mul %{{.*}}, %{{.*}} {clv.scope = #clv.scope<activations, forward, path = "layer/mlp", label = "h">}
  %0 = clv.mul %x, %c {clv.scope = #clv.scope<activations, forward, path = "layer/mlp", label = "h">} : (!ab, !s) -> !ab
  // CHECK: #clv.scope<weights, backward, path = "layer/wq", reader = "layer">
  %1 = clv.weight %0 {clv.scope = #clv.scope<weights, backward, path = "layer/wq", reader = "layer">} : (!ab) -> !ab
  // CHECK: clv.reduce max %{{.*}} over ["b"]
  %2 = clv.reduce max %1 over ["b"] : (!ab) -> !a
  // CHECK: clv.dot %{{.*}}, %{{.*}} over ["a"]
  %3 = clv.dot %1, %2 over ["a"] : (!ab, !a) -> !b
  // CHECK: clv.index {first = 2 : i64} -> tensor<3xi32, #clv.dims<b>>
  %4 = clv.index {first = 2 : i64} -> tensor<3xi32, #clv.dims<b>>
  // CHECK: clv.random %{{.*}}, %{{.*}}, %{{.*}} at "drop"
  %5 = clv.random %n, %n, %n at "drop" : (!i, !i, !i) -> !ab
  // CHECK: clv.lookup %{{.*}}, %{{.*}} along "b"
  %6 = clv.lookup %3, %ids along "b" : (!b, !ai) -> !a
  // CHECK: clv.scatter_add %{{.*}}, %{{.*}} along "b"
  %7 = clv.scatter_add %6, %ids along "b" : (!a, !ai) -> !b
  // CHECK: clv.extreme %{{.*}}, %{{.*}} along "b"
  %8 = clv.extreme %1, %2 along "b" : (!ab, !a) -> !ai
  // CHECK: clv.slice %{{.*}} from "b" to "c" at 1
  %9 = clv.slice %7 from "b" to "c" at 1 : (!b) -> tensor<2xf32, #clv.dims<c>>
  // CHECK: clv.pad %{{.*}} from "c" to "b" at 1
  %10 = clv.pad %9 from "c" to "b" at 1 : (tensor<2xf32, #clv.dims<c>>) -> !b
  // CHECK: clv.edge %{{.*}} {inner = "layer/mlp"}
  %11 = clv.edge %10 {inner = "layer/mlp"} : (!b) -> !b
  // CHECK: clv.softmax %{{.*}} over ["a", "b"]
  %12 = clv.softmax %5 over ["a", "b"] : (!ab) -> !ab
  // CHECK: clv.cumsum %{{.*}} along "b" : (
  %13 = clv.cumsum %12 along "b" : (!ab) -> !ab
  // CHECK: clv.cumsum %{{.*}} along "a" reverse : (
  %14 = clv.cumsum %13 along "a" reverse : (!ab) -> !ab
  %15 = clv.add %14, %11 : (!ab, !b) -> !ab
  // CHECK: clv.attention_sum %{{.*}}, %{{.*}} {ahead = 2 : i64, causal, keys = "c", over = ["b"], scale = 5.000000e-01 : f64, seq = "a"}
  %16 = clv.rename %15 : (!ab) -> tensor<2x3xf32, #clv.dims<c, b>>
  %17 = clv.attention_sum %15, %16 {seq = "a", keys = "c", over = ["b"], scale = 0.5 : f64, causal, ahead = 2 : i64} : (!ab, tensor<2x3xf32, #clv.dims<c, b>>) -> !a
  return %15 : !ab
}

// CHECK-LABEL: func.func @names
// CHECK-SAME: #clv.dims<"kv heads", key>
func.func @names(%x: tensor<2x3xf32, #clv.dims<"kv heads", "key">>) {
  return
}

// CHECK-LABEL: func.func @repeat
func.func @repeat(%x: !b, %w: !ab) -> (!b, !ab) {
  // CHECK: %[[R:.*]]:2 = clv.repeat %[[I:.*]] of "a" from 4 count 2 reverse carried(%{{.*}} = %{{.*}} : tensor<3xf32, #clv.dims<b>>) stacked(%{{.*}} = %{{.*}} : tensor<2x3xf32, #clv.dims<a, b>> slice tensor<3xf32, #clv.dims<b>>) -> (tensor<3xf32, #clv.dims<b>>, tensor<2x3xf32, #clv.dims<a, b>>) attributes {clv.scope = #clv.scope<activations, forward, path = "a">} {
  %r:2 = clv.repeat %i of "a" from 4 count 2 reverse carried(%c = %x : !b) stacked(%s = %w : !ab slice !b) -> (!b, !ab)
      attributes {clv.scope = #clv.scope<activations, forward, path = "a">} {
    // CHECK: clv.cast %[[I]]
    %f = clv.cast %i : (!i) -> !s
    %n = clv.mul %c, %f : (!b, !s) -> !b
    // CHECK: clv.yield %{{.*}}, %{{.*}} : tensor<3xf32, #clv.dims<b>>, tensor<3xf32, #clv.dims<b>>
    clv.yield %n, %s : !b, !b
  }
  // Nothing carried, nothing stacked.
  // CHECK: clv.repeat %{{.*}} of "a" from 0 count 2 {
  clv.repeat %i of "a" from 0 count 2 {
    // CHECK: clv.yield
    clv.yield
  }
  return %r#0, %r#1 : !b, !ab
}
