// RUN: cleave-opt %s --clv-build-step --split-input-file --verify-diagnostics

// expected-error@+1 {{has no function @loss that returns a loss}}
module {
}

// -----

!s = tensor<f32>
// expected-error@+1 {{argument 0 needs `clv.role`: input, param, seed or step}}
func.func @loss(%x: !s) -> !s {
  return %x : !s
}

// -----

!s = tensor<f32>
// expected-error@+1 {{argument 0 needs `clv.path`}}
func.func @loss(%x: !s {clv.role = "input"}) -> !s {
  return %x : !s
}

// -----

!s = tensor<f32>
// expected-error@+1 {{has no argument with `clv.role` = "step"}}
func.func @loss(%x: !s {clv.role = "input", clv.path = "x"}) -> !s {
  return %x : !s
}

// -----

!s = tensor<f32>
!i = tensor<i32>
// expected-error@+1 {{parameter `x` has no update function}}
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  return %x : !s
}

// -----

!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  return %x : !s
}
// expected-error@+1 {{must take and give 'tensor<f32>', the type of `x`}}
func.func private @update.0(%p: !i, %g: !i, %step: !i) -> !i attributes {clv.param = "x"} {
  return %p : !i
}

// -----

!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  return %x : !s
}
// expected-error@+1 {{gives 1 values for a parameter and 1 states}}
func.func private @update.0(%p: !s, %g: !s, %m: !s {clv.state = "m"}, %step: !i) -> !s attributes {clv.param = "x"} {
  return %p : !s
}

// -----

!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  return %x : !s
}
// expected-error@+1 {{needs `clv.state` on argument 2}}
func.func private @update.0(%p: !s, %g: !s, %m: !s, %step: !i) -> (!s, !s) attributes {clv.param = "x"} {
  return %p, %m : !s, !s
}

// -----

!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  return %x : !s
}
func.func private @update.0(%p: !s, %g: !s, %step: !i) -> !s attributes {clv.param = "x"} {
  return %p : !s
}
// expected-error@+1 {{updates `x`, which another function updates too}}
func.func private @update.1(%p: !s, %g: !s, %step: !i) -> !s attributes {clv.param = "x"} {
  return %p : !s
}

// -----

!a = tensor<2xf32, #clv.dims<a>>
!i = tensor<i32>
// expected-error@+1 {{the loss must be a float scalar}}
func.func @loss(%x: !a {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !a {
  return %x : !a
}
func.func private @update.0(%p: !a, %g: !a, %step: !i) -> !a attributes {clv.param = "x"} {
  return %p : !a
}

// -----

!s = tensor<f32>
!i = tensor<i32>
!n = tensor<2xf32, #clv.dims<n>>
func.func @loss(%x: !s {clv.role = "param", clv.path = "x"}, %step: !i {clv.role = "step"}) -> !s {
  %w = clv.weight %x : (!s) -> !s
  // expected-error@+1 {{a value with dim `n` inside the repeat over it cannot be kept for the backward pass}}
  %r = clv.repeat %i of "n" from 0 count 2 carried(%c = %w : !s) -> !s {
    %j = clv.index -> tensor<2xi32, #clv.dims<n>>
    %f = clv.cast %j : (tensor<2xi32, #clv.dims<n>>) -> !n
    %b = clv.mul %f, %c : (!n, !s) -> !n
    %e = clv.exp %b : (!n) -> !n
    %t = clv.reduce sum %e over ["n"] : (!n) -> !s
    clv.yield %t : !s
  }
  return %r : !s
}
func.func private @update.0(%p: !s, %g: !s, %step: !i) -> !s attributes {clv.param = "x"} {
  return %p : !s
}
