// RUN: cleave-opt %s --clv-narrow | FileCheck %s --check-prefix=NARROW
// RUN: cleave-opt %s --clv-narrow --clv-cast-early --clv-build-step --clv-cast-early --clv-simplify | FileCheck %s

// One layer of an mlp under its own region, in mixed precision.

!x = tensor<5x8xf32, #clv.dims<batch, embed>>
!w = tensor<8x6xf32, #clv.dims<embed, ff>>
!ws = tensor<3x8x6xf32, #clv.dims<layer, embed, ff>>
!h = tensor<5x6xf32, #clv.dims<batch, ff>>
!s = tensor<f32>
!i = tensor<i32>
#top = #clv.scope<activations, forward, path = "">
#layer = #clv.scope<activations, forward, path = "layer">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">

// Every value is cast once, in its own region; sums are f32, and so is all else.
// NARROW-LABEL: func.func @loss
// NARROW: %[[IN:.*]] = clv.edge
// NARROW-NEXT: %[[INH:.*]] = clv.cast %[[IN]] {clv.scope = #clv.scope<activations, forward, path = "layer/mlp">}
// NARROW: %[[W:.*]] = clv.weight
// NARROW-NEXT: %[[WH:.*]] = clv.cast %[[W]] {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">}
// NARROW: %[[H:.*]] = clv.dot %[[INH]], %[[WH]] {{.*}}xbf16{{.*}}xbf16{{.*}} -> tensor<5x6xf32,
// NARROW: %[[G:.*]] = clv.relu %[[H]]
// NARROW-NEXT: %[[GH:.*]] = clv.cast %[[G]]
// NARROW-NOT: clv.cast
// NARROW: clv.dot %[[GH]], %[[WH]] {{.*}} -> tensor<5x8xf32,
// NARROW-NOT: clv.cast

// Casts come before edges into regions and before weights are gathered; what the
// backward pass reads of them is saved as bf16, and gradients are f32.
// CHECK-LABEL: func.func @train
// CHECK: clv.repeat {{.*}} -> (tensor<5x8xf32, #clv.dims<batch, embed>>, tensor<3x5x6xbf16, #clv.dims<layer, batch, ff>>, tensor<3x5x6xf32, #clv.dims<layer, batch, ff>>, tensor<3x5x8xbf16, #clv.dims<layer, batch, embed>>)
// CHECK-DAG: clv.cast %{{.*}} {clv.scope = #clv.scope<activations, forward, path = "layer">} : {{.*}}xbf16
// CHECK-DAG: clv.cast %{{.*}} {clv.scope = #clv.scope<params, forward, path = "layer/mlp/w">} : {{.*}}xbf16
// CHECK-DAG: clv.edge {{.*}}xbf16
// CHECK-DAG: clv.weight {{.*}}xbf16
// CHECK: clv.yield
// CHECK: clv.repeat {{.*}} reverse
// The gradient of the result is cast before it enters the region.
// CHECK: %[[DH:.*]] = clv.cast %{{.*}} {clv.scope = #clv.scope<activations, backward, path = "layer">} : {{.*}}xbf16
// CHECK: clv.edge %[[DH]] {{.*}}backward, path = "layer/mlp"{{.*}}xbf16
// CHECK: clv.dot {{.*}}xbf16{{.*}}xbf16{{.*}} -> tensor<{{.*}}xf32
// CHECK: clv.gradient {{.*}}xf32
// CHECK-NOT: f32{{.*}}clv.dot {{.*}}xf32{{.*}}xf32

func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                %ws: !ws {clv.role = "param", clv.path = "layer/mlp/w", clv.init = "normal"},
                %p: !x {clv.role = "param", clv.path = "start"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %pw = clv.weight %p {clv.scope = #clv.scope<weights, forward, path = "start", reader = "">} : (!x) -> !x
  %x0 = clv.add %x, %pw {clv.scope = #top} : (!x, !x) -> !x
  %r = clv.repeat %i of "layer" from 0 count 3 carried(%c = %x0 : !x) stacked(%wp = %ws : !ws slice !w) -> !x
      attributes {clv.scope = #top} {
    %in = clv.edge %c {inner = "layer/mlp", clv.scope = #mlp} : (!x) -> !x
    %w = clv.weight %wp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">} : (!w) -> !w
    %h = clv.dot %in, %w over ["embed"] {clv.scope = #mlp} : (!x, !w) -> !h
    %g = clv.relu %h {clv.scope = #mlp} : (!h) -> !h
    %o = clv.dot %g, %w over ["ff"] {clv.scope = #mlp} : (!h, !w) -> !x
    %e = clv.edge %o {inner = "layer/mlp", clv.scope = #layer} : (!x) -> !x
    %n = clv.add %c, %e {clv.scope = #layer} : (!x, !x) -> !x
    clv.yield %n : !x
  }
  %l = clv.reduce sum %r over ["batch", "embed"] {clv.scope = #top} : (!x) -> !s
  return %l : !s
}

func.func private @update.0(%p: !ws, %g: !ws, %step: !i) -> !ws attributes {clv.param = "layer/mlp/w"} {
  %n = clv.sub %p, %g {clv.scope = #clv.scope<optimizer, update, path = "layer/mlp/w">} : (!ws, !ws) -> !ws
  return %n : !ws
}
func.func private @update.1(%p: !x, %g: !x, %step: !i) -> !x attributes {clv.param = "start"} {
  %n = clv.sub %p, %g {clv.scope = #clv.scope<optimizer, update, path = "start">} : (!x, !x) -> !x
  return %n : !x
}
