// RUN: cleave-opt %s --clv-build-step --clv-recompute="select=layer" | FileCheck %s
// RUN: cleave-opt %s --clv-build-step --clv-recompute="select=layer except=layer/mlp/h" | FileCheck %s --check-prefix=EXCEPT
// RUN: cleave-opt %s --clv-build-step --clv-recompute | FileCheck %s --check-prefix=NOTHING

!x = tensor<5x8xf32, #clv.dims<batch, embed>>
!w = tensor<8x6xf32, #clv.dims<embed, ff>>
!ws = tensor<3x8x6xf32, #clv.dims<layer, embed, ff>>
!h = tensor<5x6xf32, #clv.dims<batch, ff>>
!s = tensor<f32>
!i = tensor<i32>
#layer = #clv.scope<activations, forward, path = "layer">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">

// The forward loop keeps what it carries, and nothing else.
// CHECK-LABEL: func.func @train
// CHECK: %[[F:.*]]:2 = clv.repeat %{{.*}} of "layer" from 0 count 3 carried(%[[C:.*]] = %{{.*}}) stacked({{.*}}) -> (tensor<5x8xf32, #clv.dims<batch, embed>>, tensor<3x5x8xf32, #clv.dims<layer, batch, embed>>)
// CHECK: clv.yield %{{.*}}, %[[C]]

// The backward loop makes the rest, in the backward phase and its own region.
// What it makes without recomputation too, the edge and the weight, is made once
// and not marked.
// CHECK: clv.repeat %{{.*}} of "layer" from 0 count 3 reverse
// CHECK-SAME: %[[A:arg[0-9]+]] = %[[F]]#1 :
// CHECK: %[[W:.*]] = clv.weight %{{.*}} {clv.scope = #clv.scope<weights, backward, path = "layer/mlp/w", reader = "layer/mlp">}
// CHECK: %[[E:.*]] = clv.edge %[[A]] {clv.scope = #clv.scope<activations, backward, path = "layer/mlp">, inner = "layer/mlp"}
// CHECK: %[[H:.*]] = clv.dot %[[E]], %[[W]] over ["embed"] {clv.recomputed, clv.scope = #clv.scope<activations, backward, path = "layer/mlp", label = "h">}
// CHECK-NEXT: clv.gelu %[[H]] {clv.recomputed, clv.scope = #clv.scope<activations, backward, path = "layer/mlp">}
// CHECK-NOT: clv.recomputed
// CHECK: clv.yield

// EXCEPT-LABEL: func.func @train
// EXCEPT: %[[F:.*]]:3 = clv.repeat
// EXCEPT: clv.repeat {{.*}} reverse
// EXCEPT: clv.gelu {{.*}} {clv.recomputed,
// EXCEPT-NOT: clv.recomputed

// NOTHING-LABEL: func.func @train
// NOTHING: %{{.*}}:4 = clv.repeat
// NOTHING-NOT: clv.recomputed

func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                %ws: !ws {clv.role = "param", clv.path = "layer/mlp/w"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %r = clv.repeat %i of "layer" from 0 count 3 carried(%c = %x : !x) stacked(%wp = %ws : !ws slice !w) -> !x
      attributes {clv.scope = #clv.scope<activations, forward, path = "">} {
    %in = clv.edge %c {inner = "layer/mlp", clv.scope = #mlp} : (!x) -> !x
    %w = clv.weight %wp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">} : (!w) -> !w
    %h = clv.dot %in, %w over ["embed"] {clv.scope = #clv.scope<activations, forward, path = "layer/mlp", label = "h">} : (!x, !w) -> !h
    %g = clv.gelu %h {clv.scope = #mlp} : (!h) -> !h
    %o = clv.dot %g, %w over ["ff"] {clv.scope = #mlp} : (!h, !w) -> !x
    %e = clv.edge %o {inner = "layer/mlp", clv.scope = #layer} : (!x) -> !x
    %n = clv.add %c, %e {clv.scope = #layer} : (!x, !x) -> !x
    clv.yield %n : !x
  }
  %l = clv.reduce sum %r over ["batch", "embed"] {clv.scope = #clv.scope<activations, forward, path = "">} : (!x) -> !s
  return %l : !s
}

func.func private @update.0(%p: !ws, %g: !ws, %step: !i) -> !ws
    attributes {clv.param = "layer/mlp/w"} {
  %q = clv.sub %p, %g : (!ws, !ws) -> !ws
  return %q : !ws
}
