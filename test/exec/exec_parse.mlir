// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --mlir-print-op-generic %s | cleave-opt | FileCheck %s

// CHECK: exec.set "toy" by "cleave" needs ["avx2", "fma"] starts @wide evaluates every 50 {
exec.set "toy" by "cleave" needs ["avx2", "fma"] starts @wide evaluates every 50 {
  // CHECK-NEXT: exec.kernels ["mix", "k 2"]
  exec.kernels ["mix", "k 2"]
  // CHECK-NEXT: %leaf.layer.w = exec.leaf "layer/w" : f32[layer = 3, in = 4, out = 7] init normal(0.000000e+00, 2.000000e-02)
  %leaf = exec.leaf "layer/w" : f32[layer = 3, in = 4, out = 7] init normal(0.0, 0.02)
  // CHECK-NEXT: %leaf.layer.w.first = exec.leaf "layer/w" state "first" : f32["a b" = 4] init constant(0.000000e+00, 0.000000e+00)
  %state = exec.leaf "layer/w" state "first" : f32["a b" = 4] init constant(0.0, 0.0)
  // CHECK-NEXT: exec.plan @wide mesh <[data = 2, tensor = 4], [#spmd.axis<"data" = [0]>, #spmd.axis<"all" = [0, 1]>]> {
  exec.plan @wide mesh <[data = 2, tensor = 4], [#spmd.axis<"data" = [0]>, #spmd.axis<"all" = [0, 1]>]> {
    // CHECK-NEXT: exec.layout %leaf.layer.w [whole, <[0]>, <[1], unit = 2, cuts = [0, 0, 1, 2, 7], places = [3, 2, 1, 0]>]
    exec.layout %leaf [whole, <[0]>, <[1], unit = 2, cuts = [0, 0, 1, 2, 7], places = [3, 2, 1, 0]>]
    // CHECK-NEXT: exec.layout %leaf.layer.w.first [whole] residing [1, 0, 3]
    exec.layout %state [<[]>] residing [1, 0, 3]
    // CHECK-NEXT: %layer = exec.extent "layer" = 3
    %layer = exec.extent "layer" = 3
    // CHECK-NEXT: %in = exec.extent "in" = 4
    %in = exec.extent "in" = 4
    // CHECK-NEXT: %in_0 = exec.extent "in" = 4 on <[0]>
    %split = exec.extent "in" = 4 on <[0]>
    // CHECK-NEXT: %out = exec.extent "out" = 7 on <[1], unit = 7>
    %out = exec.extent "out" = 7 on <[1], unit = 7>
    // CHECK-NEXT: %a_b = exec.extent "a b" = 4
    %odd = exec.extent "a b" = 4
    // CHECK-NEXT: %at.dot_over_in = exec.site "dot over in" in "layer/mlp" at "toy.clv":12 because "it \22is\22"
    %dot = exec.site "dot over in" in "layer/mlp" at "toy.clv":12 because "it \"is\""
    // CHECK-NEXT: %at.copy_all = exec.site "copy * all"
    %copy = exec.site "copy * all"
    // CHECK-NEXT: exec.program @train arena 192 {
    exec.program @train arena 192 {
      // CHECK-NEXT: %input.ids = exec.input "ids" tokens shift 1 below 65 : i32[batch = 5, seq = 6]
      %ids = exec.input "ids" tokens shift 1 below 65 : i32[batch = 5, seq = 6]
      // CHECK-NEXT: %input.step = exec.input "step" step : i32[]
      %step = exec.input "step" step : i32[]
      // CHECK-NEXT: %step = exec.value input %input.step bytes 4 : i32[]
      %s = exec.value input %step bytes 4 : i32[]
      // CHECK-NEXT: %layer.w = exec.value leaf %leaf.layer.w bytes 336 : f32[%layer, %in_0, %out]
      %w = exec.value leaf %leaf bytes 336 : f32[%layer, %split, %out]
      // CHECK-NEXT: %[[X:.*]] = exec.value arena 0 bytes 16 : f32[%in_0]
      %x = exec.value arena 0 bytes 16 : f32[%split]
      // CHECK-NEXT: %[[H:.*]] = exec.value arena 64 bytes 28 : f32[%out]
      %h = exec.value arena 64 bytes 28 : f32[%out]
      // CHECK-NEXT: %[[MASK:.*]] = exec.value arena 128 bytes 1 : i1[]
      %mask = exec.value arena 128 bytes 1 : i1[]
      // CHECK-NEXT: %[[LOSS:.*]] = exec.value arena 128 bytes 4 : f32[]
      %loss = exec.value arena 128 bytes 4 : f32[]
      // CHECK-NEXT: exec.fill %[[X]]
      exec.fill %x
      // CHECK-NEXT: exec.loop %i from 0 count 3 reverse {
      exec.loop %i from 0 count 3 reverse {
        // CHECK-NEXT: exec.contract %[[X]], %layer.w[%i] -> %[[H]] with [%in_0(0, 0, _), %out(_, 1, 0)] at %at.dot_over_in
        exec.contract %x, %w[%i] -> %h with [%split(0, 0, _), %out(_, 1, 0)] at %dot
        // CHECK-NEXT: %c7 = exec.start 7 all_reduce %[[H]] -> %[[H]] among [0, 1], max over [0] at %at.copy_all
        %c = exec.start 7 all_reduce %h -> %h among [0, 1], max over [0] at %copy
        // CHECK-NEXT: exec.loop %i_1 from 1 count 2 {
        exec.loop %j from 1 count 2 {
          // CHECK-NEXT: exec.kernel @mix(%layer.w[%i], %layer.w[%i_1], %[[MASK]]) with [size %out, begin %in_0, %i, %i_1, -5] at %at.copy_all
          exec.kernel @mix(%w[%i], %w[%j], %mask) with [size %out, begin %split, %i, %j, -5] at %copy
        }
        // CHECK: exec.wait %c7
        exec.wait %c
      }
      // CHECK: %c0 = exec.start 0 all_gather %[[X]] -> %[[X]] among [0]
      %d = exec.start 0 all_gather %x -> %x among [0]
      // CHECK-NEXT: exec.wait %c0
      exec.wait %d
      // CHECK-NEXT: %c1 = exec.start 1 shift %[[X]] -> %[[X]] by [3] among [0, 1] at %at.copy_all
      %e = exec.start 1 shift %x -> %x by [3] among [0, 1] at %copy
      // CHECK-NEXT: exec.wait %c1
      exec.wait %e
      // CHECK-NEXT: exec.kernel @"k 2"() with []
      exec.kernel @"k 2"() with []
      // CHECK-NEXT: exec.move %[[X]] -> %[[X]] by [-1] at %at.copy_all
      exec.move %x -> %x by [-1] at %copy
      // CHECK-NEXT: exec.output loss "loss" = %[[LOSS]] : []
      exec.output loss "loss" = %loss : []
      // CHECK-NEXT: exec.output gradient "w" = %[[X]] : [in = 4]
      exec.output gradient "w" = %x : [in = 4]
    }
    // CHECK: exec.program @eval arena 0 {
    exec.program @eval arena 0 {
    }
  }
}
