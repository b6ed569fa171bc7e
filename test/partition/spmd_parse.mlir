// RUN: cleave-opt %s | cleave-opt | FileCheck %s

// CHECK-DAG: #spmd.mesh<[data = 2, tensor = 4], [#spmd.axis<"data" = [0]>, #spmd.axis<"tensor" = [1]>, #spmd.axis<"all" = [0, 1]>, #spmd.axis<"one" = []>]>
module attributes {spmd.mesh = #spmd.mesh<[data = 2, tensor = 4],
    [#spmd.axis<"data" = [0]>, #spmd.axis<"tensor" = [1]>,
     #spmd.axis<"all" = [0, 1]>, #spmd.axis<"one" = []>]>} {
  // CHECK-LABEL: @layouts
  // CHECK-SAME: tensor<3x7xf32, #spmd.local<[batch = 5 on [0], ff = 28 on [1]]>>
  // CHECK-SAME: tensor<f32, #spmd.local<[], max over [0, 1]>>
  // CHECK-SAME: tensor<4x4xf32, #spmd.local<[a = 6 on #spmd.split<[0], unit = 2>, b = 5 on #spmd.split<[1], cuts = [0, 0, 1, 1, 5], places = [3, 2, 1, 0]>]>>
  func.func private @layouts(
    tensor<3x7xf32, #spmd.local<[batch = 5 on [0], ff = 28 on [1]]>>,
    tensor<f32, #spmd.local<[], max over [0, 1]>>,
    tensor<4x4xf32, #spmd.local<[a = 6 on #spmd.split<[0], unit = 2>,
      b = 5 on #spmd.split<[1], cuts = [0, 0, 1, 1, 5], places = [3, 2, 1, 0]>]>>)

  // CHECK-LABEL: @collectives
  func.func @collectives(%x: tensor<5x8xf32, #spmd.local<[a = 5, b = 8], sum over [0, 1]>>) {
    // CHECK: spmd.reduce_scatter %{{.*}} over [0] {avoid = "that", reason = "this"} :
    %0 = spmd.reduce_scatter %x over [0] {reason = "this", avoid = "that"}
      : (tensor<5x8xf32, #spmd.local<[a = 5, b = 8], sum over [0, 1]>>)
      -> tensor<3x8xf32, #spmd.local<[a = 5 on [0], b = 8], sum over [1]>>
    // CHECK: spmd.all_reduce %{{.*}} over [1] :
    %1 = spmd.all_reduce %0 over [1]
      : (tensor<3x8xf32, #spmd.local<[a = 5 on [0], b = 8], sum over [1]>>)
      -> tensor<3x8xf32, #spmd.local<[a = 5 on [0], b = 8]>>
    // CHECK: spmd.local_slice
    %2 = spmd.local_slice %1 over [1]
      : (tensor<3x8xf32, #spmd.local<[a = 5 on [0], b = 8]>>)
      -> tensor<1x8xf32, #spmd.local<[a = 5 on [0, 1], b = 8]>>
    // CHECK: spmd.all_to_all
    %3 = spmd.all_to_all %2 over [1]
      : (tensor<1x8xf32, #spmd.local<[a = 5 on [0, 1], b = 8]>>)
      -> tensor<3x2xf32, #spmd.local<[a = 5 on [0], b = 8 on [1]]>>
    // CHECK: spmd.shift %{{.*}} over [0] :
    %5 = spmd.shift %3 over [0]
      : (tensor<3x2xf32, #spmd.local<[a = 5 on [0], b = 8 on [1]]>>)
      -> tensor<4x2xf32, #spmd.local<[a = 5 on #spmd.split<[0], cuts = [0, 1, 5]>, b = 8 on [1]]>>
    // CHECK: spmd.shift %{{.*}} over [1] {by = 7 : i64, dim = "b"} :
    %6 = spmd.shift %3 over [1] {dim = "b", by = 7 : i64}
      : (tensor<3x2xf32, #spmd.local<[a = 5 on [0], b = 8 on [1]]>>)
      -> tensor<3x2xf32, #spmd.local<[a = 5 on [0], b = 8 on [1]]>>
    // CHECK: spmd.all_gather
    %4 = spmd.all_gather %3 over [0, 1]
      : (tensor<3x2xf32, #spmd.local<[a = 5 on [0], b = 8 on [1]]>>)
      -> tensor<5x8xf32, #spmd.local<[a = 5, b = 8]>>
    return
  }
}
