// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --mlir-print-op-generic %s | cleave-opt | FileCheck %s

exec.set "toy" starts @deep {
  exec.kernels ["mix"]
  %w = exec.leaf "w" : f32[layer = 3] init constant(0.0, 0.0)
  %bias = exec.leaf "bias" : f32[] init constant(0.0, 0.0)
  // CHECK: exec.plan @deep mesh <[pipe = 2, micro = 3, chunk = 2], [#spmd.axis<"pipe" = [0]>] times 2> {
  exec.plan @deep mesh <[pipe = 2, micro = 3, chunk = 2], [#spmd.axis<"pipe" = [0]>] times 2> {
    exec.layout %w [whole]
    // CHECK: exec.layout %leaf.bias [] residing [0, 0, 1, 0, 1, 2]
    exec.layout %bias [] residing [0, 0, 1, 0, 1, 2]
    %layer = exec.extent "layer" = 3
    %batch = exec.extent "batch" = 5 on <[1]>
    exec.program @train arena 64 {
      // CHECK: %slots = exec.slots 128 at 0 to 4
      %all = exec.slots 128 at 0 to 4
      // CHECK-NEXT: %slots_{{[0-9]}} = exec.slots 64 at 3 to 4
      %end = exec.slots 64 at 3 to 4
      // CHECK-NEXT: %[[X:.*]] = exec.value slots %slots at 0 bytes 64 : f32[%batch]
      %x = exec.value slots %all at 0 bytes 64 : f32[%batch]
      // CHECK-NEXT: %[[Y:.*]] = exec.value slots %slots at 64 bytes 64 : f32[%batch]
      %y = exec.value slots %all at 64 bytes 64 : f32[%batch]
      %z = exec.value slots %end at 0 bytes 64 : f32[%batch]
      %loss = exec.value arena 0 bytes 4 : f32[]
      %v = exec.value leaf %w bytes 12 : f32[%layer]
      // CHECK: exec.pipeline among [0] micro [1] chunk [2] folded {
      exec.pipeline among [0] micro [1] chunk [2] folded {
        // CHECK-NEXT: exec.section forward 0 to 1 {
        exec.section forward 0 to 1 {
          exec.fill %y
        }
        // CHECK: exec.section forward 0 to 4 {
        exec.section forward 0 to 4 {
          // CHECK-NEXT: exec.loop %i over %layer reverse {
          exec.loop %i over %layer reverse {
            // CHECK-NEXT: exec.only [0, 0, 1] {
            exec.only [0, 0, 1] {
              // CHECK-NEXT: exec.loop %i_{{[0-9]}} over %layer count 3 {
              exec.loop %j over %layer count 3 {
                // CHECK-NEXT: exec.kernel @mix(%w[%i], %w[%i_{{[0-9]}}], %[[Y]]) with [%i, %i_{{[0-9]}}]
                exec.kernel @mix(%v[%i], %v[%j], %y) with [%i, %j]
              }
            }
          }
        }
        // CHECK: exec.section backward 3 to 4 {
        exec.section backward 3 to 4 {
          exec.fill %z
        }
        // CHECK: exec.section weight_gradient 0 to 4 {
        exec.section weight_gradient 0 to 4 {
        }
        // CHECK: exec.message activation 0 to 1 %[[X]] -> %[[Y]]
        exec.message activation 0 to 1 %x -> %y
        // CHECK-NEXT: exec.message gradient 0 to 1 %[[Y]] -> %[[X]]
        exec.message gradient 0 to 1 %y -> %x
        // CHECK-NEXT: exec.stream [forward 0, send_activation 2, backward 1 in 1]
        exec.stream [forward 0, send_activation 2, backward 1 in 1]
        // CHECK-NEXT: exec.stream []
        exec.stream []
      }
      // CHECK: %c4 = exec.start 4 broadcast %[[L:.*]] -> %[[L]] among [0] from [0, 1, 2]
      %c = exec.start 4 broadcast %loss -> %loss among [0] from [0, 1, 2]
      exec.wait %c
      // CHECK: exec.output loss "loss" = %[[L]] : [] residing [0, 1, 2]
      exec.output loss "loss" = %loss : [] residing [0, 1, 2]
    }
  }
}
