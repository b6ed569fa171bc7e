// RUN: cleave-opt %s | cleave-opt | FileCheck %s

// What microbatches store of a value, and layers that go to their places.
// CHECK-LABEL: @stores
module attributes {spmd.mesh = #spmd.mesh<[pipe = 2, time = 2], [#spmd.axis<"pipe" = [0]>] times 1>} {
  func.func @stores(%part: tensor<3x4xf32, #spmd.local<[batch = 5 on [1], embed = 4]>>,
                    %whole: tensor<5x4xf32, #spmd.local<[batch = 5, embed = 4]>>,
                    %layers: tensor<2xf32, #spmd.local<[layer = 4 on #spmd.split<[0], cuts = [0, 1, 2, 3, 4], places = [0, 1, 1, 0]>]>>) {
    // CHECK: pipe.store %{{.*}} into %{{.*}} : tensor<3x4xf32, {{.*}}> into tensor<5x4xf32
    %0 = pipe.store %part into %whole : tensor<3x4xf32, #spmd.local<[batch = 5 on [1], embed = 4]>> into tensor<5x4xf32, #spmd.local<[batch = 5, embed = 4]>>
    // CHECK: pipe.spread %{{.*}} -> tensor<4xf32, #spmd.local<[layer = 4], sum over [0]>>
    %1 = pipe.spread %layers : tensor<2xf32, #spmd.local<[layer = 4 on #spmd.split<[0], cuts = [0, 1, 2, 3, 4], places = [0, 1, 1, 0]>]>> -> tensor<4xf32, #spmd.local<[layer = 4], sum over [0]>>
    return
  }
}
