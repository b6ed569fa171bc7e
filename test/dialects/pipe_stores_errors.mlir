// RUN: cleave-opt %s --split-input-file --verify-diagnostics

module attributes {spmd.mesh = #spmd.mesh<[pipe = 2, time = 2], [#spmd.axis<"pipe" = [0]>] times 1>} {
  func.func @dims(%part: tensor<3x4xf32, #spmd.local<[batch = 5 on [1], embed = 4]>>,
                  %whole: tensor<5x4xf32, #spmd.local<[batch = 5, ff = 4]>>) {
    // expected-error @below {{between values of two tensors}}
    %0 = pipe.store %part into %whole : tensor<3x4xf32, #spmd.local<[batch = 5 on [1], embed = 4]>> into tensor<5x4xf32, #spmd.local<[batch = 5, ff = 4]>>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<[pipe = 2, time = 2], [#spmd.axis<"pipe" = [0]>] times 1>} {
  func.func @pending(%layers: tensor<2xf32, #spmd.local<[layer = 4 on [0]]>>) {
    // expected-error @below {{gives the first dim whole, pending over its atoms}}
    %0 = pipe.spread %layers : tensor<2xf32, #spmd.local<[layer = 4 on [0]]>> -> tensor<4xf32, #spmd.local<[layer = 4]>>
    return
  }
}

// -----

module attributes {spmd.mesh = #spmd.mesh<[pipe = 2, time = 2], [#spmd.axis<"pipe" = [0]>] times 1>} {
  func.func @scalar(%x: tensor<f32, #spmd.local<[]>>) {
    // expected-error @below {{needs a dim of layers}}
    %0 = pipe.spread %x : tensor<f32, #spmd.local<[]>> -> tensor<f32, #spmd.local<[], sum over [0]>>
    return
  }
}
