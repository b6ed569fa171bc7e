// RUN: cleave-opt %s --clv-build-step=probe=true

!x = tensor<5x8xf32, #clv.dims<batch, embed>>
!w = tensor<8x8xf32, #clv.dims<embed, out>>
!ws = tensor<3x8x8xf32, #clv.dims<layer, embed, out>>
!y = tensor<5x8xf32, #clv.dims<batch, out>>
!s = tensor<f32>
!i = tensor<i32>

#top = #clv.scope<activations, forward, path = "">
#layer = #clv.scope<activations, forward, path = "layer">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">

module attributes {clv.clip = 1.0 : f64} {
  func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                  %ws: !ws {clv.role = "param", clv.path = "layer/mlp/w"},
                  %tied: !w {clv.role = "param", clv.path = "tied"},
                  %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
    %t0 = clv.weight %tied {clv.scope = #clv.scope<weights, forward, path = "tied", reader = "">} : (!w) -> !w
    %d0 = clv.dot %x, %t0 over ["embed"] {clv.scope = #top} : (!x, !w) -> !y
    %x0 = clv.rename %d0 {clv.scope = #top} : (!y) -> !x
    %r = clv.repeat %i of "layer" from 0 count 3 carried(%c = %x0 : !x) stacked(%wp = %ws : !ws slice !w) -> !x attributes {clv.scope = #top} {
      %in = clv.edge %c {inner = "layer/mlp", clv.scope = #mlp} : (!x) -> !x
      %w = clv.weight %wp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/w", reader = "layer/mlp">} : (!w) -> !w
      %h = clv.dot %in, %w over ["embed"] {clv.scope = #mlp} : (!x, !w) -> !y
      %g = clv.gelu %h {clv.scope = #mlp} : (!y) -> !y
      %t = clv.weight %tied {clv.scope = #clv.scope<weights, forward, path = "tied", reader = "layer/mlp">} : (!w) -> !w
      %o = clv.dot %g, %t over ["out"] {clv.scope = #mlp} : (!y, !w) -> !x
      %e = clv.edge %o {inner = "layer/mlp", clv.scope = #layer} : (!x) -> !x
      %n = clv.add %c, %e {clv.scope = #layer} : (!x, !x) -> !x
      clv.yield %n : !x
    }
    %sq = clv.mul %r, %r {clv.scope = #top} : (!x, !x) -> !x
    %l = clv.reduce sum %sq over ["batch", "embed"] {clv.scope = #top} : (!x) -> !s
    return %l : !s
  }
  func.func private @update.0(%p: !ws, %g: !ws, %m: !ws {clv.state = "m"}, %step: !i) -> (!ws, !ws) attributes {clv.param = "layer/mlp/w"} {
    %n = clv.add %m, %g : (!ws, !ws) -> !ws
    %q = clv.sub %p, %n : (!ws, !ws) -> !ws
    return %q, %n : !ws, !ws
  }
  func.func private @update.1(%p: !w, %g: !w, %step: !i) -> !w attributes {clv.param = "tied"} {
    %q = clv.sub %p, %g : (!w, !w) -> !w
    return %q : !w
  }
}
