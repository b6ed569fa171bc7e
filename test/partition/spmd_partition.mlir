// RUN: cleave-opt %s --spmd-partition="mesh=data:2,tensor:4 shard=batch:data,ff:tensor,embed:data@params" | FileCheck %s
// RUN: not cleave-opt %s --spmd-partition="mesh=data" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not cleave-opt %s --spmd-partition="mesh=data:2 shard=batch:model" 2>&1 | FileCheck %s --check-prefix=SHARD
// RUN: not cleave-opt %s --spmd-partition="mesh=data:2 shard=batch:data@biases" 2>&1 | FileCheck %s --check-prefix=ROLE

// AXIS: error: `data` is no axis: say `name:size`
// SHARD: error: `batch:model` is no shard statement: say `dim:axis`, with axes of the mesh
// ROLE: error: `batch:data@biases` is no shard statement

!x = tensor<5x8xf32, #clv.dims<batch, embed>>
!w = tensor<8x6xf32, #clv.dims<embed, ff>>
!h = tensor<5x6xf32, #clv.dims<batch, ff>>
!s = tensor<f32>
#top = #clv.scope<activations, forward, path = "">

// CHECK: module attributes {spmd.mesh = #spmd.mesh<[data = 2, tensor = 4], [#spmd.axis<"data" = [0]>, #spmd.axis<"tensor" = [1]>]>}
// CHECK-LABEL: func.func @loss
// CHECK-SAME: tensor<3x8xf32, #spmd.local<[batch = 5 on [0], embed = 8]>>
// CHECK-SAME: tensor<4x2xf32, #spmd.local<[embed = 8 on [0], ff = 6 on [1]]>>
// CHECK: %[[W:.*]] = spmd.all_gather %{{.*}} over [0]
// CHECK: %[[H:.*]] = clv.dot %{{.*}}, %[[W]] over ["embed"]
// CHECK: clv.reduce sum %[[H]] over ["batch", "ff"]
// CHECK: spmd.all_reduce %{{.*}} over [0, 1]
func.func @loss(%x: !x {clv.role = "input", clv.path = "x"},
                %p: !w {clv.role = "param", clv.path = "w"}) -> !s {
  %w = clv.weight %p {clv.scope = #clv.scope<weights, forward, path = "w", reader = "">} : (!w) -> !w
  %h = clv.dot %x, %w over ["embed"] {clv.scope = #top} : (!x, !w) -> !h
  %l = clv.reduce sum %h over ["batch", "ff"] {clv.scope = #top} : (!h) -> !s
  return %l : !s
}
