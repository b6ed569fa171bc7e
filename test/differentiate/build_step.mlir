// RUN: cleave-opt %s --clv-build-step | FileCheck %s
// RUN: cleave-opt %s --clv-build-step=probe=true | FileCheck %s --check-prefix=PROBE

// One layer of an mlp under its own region, and a parameter of plain descent.

!x = tensor<5x8xf32, #clv.dims<batch, embed>>
!w = tensor<8x6xf32, #clv.dims<embed, ff>>
!ws = tensor<3x8x6xf32, #clv.dims<layer, embed, ff>>
!h = tensor<5x6xf32, #clv.dims<batch, ff>>
!s = tensor<f32>
!i = tensor<i32>
#layer = #clv.scope<activations, forward, path = "layer">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">

// CHECK: func.func @loss
// CHECK-LABEL: func.func @train
// CHECK-SAME: {clv.path = "x", clv.role = "input"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<3x8x6xf32, #clv.dims<layer, embed, ff>> {clv.init = "normal", clv.path = "layer/mlp/w", clv.role = "param"}
// CHECK-SAME: {clv.init = "zeros", clv.path = "layer/mlp/w", clv.role = "optimizer", clv.state = "first"}
// CHECK-SAME: {clv.role = "seed"}
// CHECK-SAME: {clv.role = "step"}
// CHECK-SAME: -> (tensor<f32> {clv.result = "loss"}
// CHECK-SAME: {clv.path = "layer/mlp/w", clv.result = "param"}
// CHECK-SAME: {clv.path = "layer/mlp/w", clv.result = "optimizer", clv.state = "first"})

// The forward loop keeps what the backward one reads: the value outside the
// region, and the result of relu (twice read).
// CHECK: %[[F:.*]]:3 = clv.repeat %{{.*}} of "layer" from 0 count 3 carried(%[[C:.*]] = %{{.*}}) stacked(%{{.*}} = %[[W]] : {{.*}}) -> (tensor<5x8xf32, #clv.dims<batch, embed>>, tensor<3x5x6xf32, #clv.dims<layer, batch, ff>>, tensor<3x5x8xf32, #clv.dims<layer, batch, embed>>)
// CHECK: %[[H:.*]] = clv.relu {{.*}} #clv.scope<activations, forward, path = "layer/mlp">
// CHECK: clv.yield %{{.*}}, %[[H]], %[[C]]

// CHECK: %{{.*}}:{{[0-9]+}} = clv.repeat %{{.*}} of "layer" from 0 count 3 reverse carried(
// CHECK-DAG: clv.edge %{{.*}} {clv.scope = #clv.scope<activations, backward, path = "layer/mlp">, inner = "layer/mlp"}
// CHECK-DAG: clv.weight %{{.*}} {clv.scope = #clv.scope<weights, backward, path = "layer/mlp/w", reader = "layer/mlp">}
// CHECK: %[[G:.*]] = clv.gradient %{{.*}} {clv.scope = #clv.scope<gradients, backward, path = "layer/mlp/w">}
// CHECK: clv.yield %{{.*}}, %[[G]]
// CHECK-NOT: func.func private @update

// PROBE-LABEL: func.func @train
// PROBE-SAME: {clv.path = "layer/mlp/w", clv.result = "gradient"}
// PROBE-SAME: {clv.path = "start", clv.result = "gradient"})

func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                %ws: !ws {clv.role = "param", clv.path = "layer/mlp/w", clv.init = "normal"},
                %p: !x {clv.role = "param", clv.path = "start"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %pw = clv.weight %p {clv.scope = #clv.scope<weights, forward, path = "start", reader = "">} : (!x) -> !x
  %x0 = clv.add %x, %pw {clv.scope = #clv.scope<activations, forward, path = "">} : (!x, !x) -> !x
  %r = clv.repeat %i of "layer" from 0 count 3 carried(%c = %x0 : !x) stacked(%wp = %ws : !ws slice !w) -> !x
      attributes {clv.scope = #clv.scope<activations, forward, path = "">} {
    %in = clv.edge %c {inner = "layer/mlp", clv.scope = #mlp} : (!x) -> !x
    %w = clv.weight %wp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">} : (!w) -> !w
    %h = clv.dot %in, %w over ["embed"] {clv.scope = #mlp} : (!x, !w) -> !h
    %g = clv.relu %h {clv.scope = #mlp} : (!h) -> !h
    %o = clv.dot %g, %w over ["ff"] {clv.scope = #mlp} : (!h, !w) -> !x
    %e = clv.edge %o {inner = "layer/mlp", clv.scope = #layer} : (!x) -> !x
    %n = clv.add %c, %e {clv.scope = #layer} : (!x, !x) -> !x
    clv.yield %n : !x
  }
  %l = clv.reduce sum %r over ["batch", "embed"] {clv.scope = #clv.scope<activations, forward, path = "">} : (!x) -> !s
  return %l : !s
}

func.func private @update.0(%p: !ws, %g: !ws, %m: !ws {clv.state = "first", clv.init = "zeros"}, %step: !i) -> (!ws, !ws)
    attributes {clv.param = "layer/mlp/w"} {
  %n = clv.add %m, %g : (!ws, !ws) -> !ws
  %q = clv.sub %p, %n : (!ws, !ws) -> !ws
  return %q, %n : !ws, !ws
}
func.func private @update.1(%p: !x, %g: !x, %step: !i) -> !x attributes {clv.param = "start"} {
  %q = clv.sub %p, %g : (!x, !x) -> !x
  return %q : !x
}
