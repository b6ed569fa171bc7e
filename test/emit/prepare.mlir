// RUN: cleave-opt %s --spmd-prepare | FileCheck %s

!x = tensor<4x8xf32, #clv.dims<b, e>>

// What only says where a value is read, and what nobody reads, is gone.
// CHECK-LABEL: @f
// CHECK-NEXT: %[[Y:.*]] = clv.exp %arg0
// CHECK-NEXT: return %[[Y]]
func.func @f(%x: !x) -> !x {
  %e = clv.edge %x {inner = "layer"} : (!x) -> !x
  %dead = clv.tanh %e : (!x) -> !x
  %y = clv.exp %e : (!x) -> !x
  return %y : !x
}
