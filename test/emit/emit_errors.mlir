// RUN: split-file %s %t
// RUN: not cleave-opt --spmd-to-exec %t/softmax.mlir 2>&1 | FileCheck --check-prefix=SOFTMAX %s
// RUN: not cleave-opt --spmd-to-exec %t/double.mlir 2>&1 | FileCheck --check-prefix=DOUBLE %s
// RUN: not cleave-opt --spmd-to-exec %t/pow.mlir 2>&1 | FileCheck --check-prefix=POW %s

//--- softmax.mlir
// SOFTMAX: error: `clv.softmax` must be decomposed before code generation
func.func @f(%x: tensor<4xf32, #clv.dims<b>>) -> tensor<4xf32, #clv.dims<b>> {
  %y = clv.softmax %x over ["b"] : (tensor<4xf32, #clv.dims<b>>) -> tensor<4xf32, #clv.dims<b>>
  return %y : tensor<4xf32, #clv.dims<b>>
}

//--- double.mlir
// DOUBLE: error: code generation has no f64 tensors
func.func @f(%x: tensor<4xf64, #clv.dims<b>>) -> tensor<4xf64, #clv.dims<b>> {
  %y = clv.exp %x : (tensor<4xf64, #clv.dims<b>>) -> tensor<4xf64, #clv.dims<b>>
  return %y : tensor<4xf64, #clv.dims<b>>
}

//--- pow.mlir
// POW: error: clv.pow has no kernel for {{.*}}i32
func.func @f(%x: tensor<4xi32, #clv.dims<b>>) -> tensor<4xi32, #clv.dims<b>> {
  %y = clv.pow %x, %x : (tensor<4xi32, #clv.dims<b>>, tensor<4xi32, #clv.dims<b>>) -> tensor<4xi32, #clv.dims<b>>
  return %y : tensor<4xi32, #clv.dims<b>>
}
