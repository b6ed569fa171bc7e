// RUN: cleave-opt %s --spmd-kernels | FileCheck %s

// One loop over rows, three vector loops over columns: the sum, the sum of
// squares, the result. Each has its tail under a mask.

!b = tensor<4xf32, #clv.dims<b>>
!be = tensor<4x32xf32, #clv.dims<b, e>>

// CHECK: func.func @mul_{{[0-9a-f]+}}(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK: scf.for
// CHECK:   scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// CHECK:     llvm.load
// CHECK:     arith.addf
// CHECK:   scf.if
// CHECK:     llvm.intr.masked.load
// CHECK:   vector.shuffle
// CHECK:   scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// CHECK:   math.sqrt
// CHECK:   scf.for
// CHECK:     llvm.store
// CHECK:   scf.if
// CHECK:     llvm.intr.masked.store
// CHECK: return
func.func @f(%x: !be) -> !be {
  %s = clv.reduce sum %x over ["e"] : (!be) -> !b
  %d = clv.sub %x, %s : (!be, !b) -> !be
  %q = clv.mul %d, %d : (!be, !be) -> !be
  %v = clv.reduce sum %q over ["e"] : (!be) -> !b
  %r = clv.rsqrt %v : (!b) -> !b
  %h = clv.mul %d, %r : (!be, !b) -> !be
  return %h : !be
}
