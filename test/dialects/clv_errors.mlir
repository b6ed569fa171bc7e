// RUN: cleave-opt %s --split-input-file --verify-diagnostics

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab, %y: tensor<4xf32, #clv.dims<b>>) {
  // expected-error@+1 {{'clv.add' op has dim `b` with size 3 and with size 4}}
  %0 = clv.add %x, %y : (!ab, tensor<4xf32, #clv.dims<b>>) -> !ab
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{'clv.neg' op needs names for the dims of 'tensor<2xf32>': `#clv.dims<...>`}}
  %0 = clv.neg %x : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// expected-error@+1 {{dim `a` appears twice in one type}}
func.func private @f(tensor<2x2xf32, #clv.dims<a, a>>)

// -----

// expected-error@+1 {{a type of rank 2 has 1 dim names}}
func.func private @f(tensor<2x2xf32, #clv.dims<a>>)

// -----

!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%x: !a) {
  // expected-error@+1 {{`clv.scope` must be a `#clv.scope` attribute}}
  %0 = clv.neg %x {clv.scope = "layer"} : (!a) -> !a
  return
}

// -----

!a = tensor<2xf32, #clv.dims<a>>
!b = tensor<3xf32, #clv.dims<b>>
!ba = tensor<3x2xf32, #clv.dims<b, a>>
func.func @f(%x: !a, %y: !b) {
  // expected-error@+1 {{'clv.mul' op gives dims [a, b], but its result has [b, a]}}
  %0 = clv.mul %x, %y : (!a, !b) -> !ba
  return
}

// -----

func.func @f(%x: tensor<i1>) {
  // expected-error@+1 {{'clv.add' op does not take i1}}
  %0 = clv.add %x, %x : (tensor<i1>, tensor<i1>) -> tensor<i1>
  return
}

// -----

func.func @f(%x: tensor<f32>, %y: tensor<i32>) {
  // expected-error@+1 {{'clv.add' op every operand must have element type 'i32', not 'f32'}}
  %0 = clv.add %x, %y : (tensor<f32>, tensor<i32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{'clv.less' op the result must have element type 'i1', not 'f32'}}
  %0 = clv.less %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.constant' op the result must be a scalar}}
  %0 = clv.constant 1.0 : f32 -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!a = tensor<2xf32, #clv.dims<a>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !a) {
  // expected-error@+1 {{'clv.broadcast' op result lacks dim `a` of its operand}}
  %0 = clv.broadcast %x : (!a) -> !b
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.index' op result must have one dim}}
  %0 = clv.index -> tensor<2x2xi32, #clv.dims<a, b>>
  return
}

// -----

func.func @f(%s: tensor<i32>, %x: tensor<2xi32, #clv.dims<a>>) {
  // expected-error@+1 {{'clv.random' op the iteration must be a scalar}}
  %0 = clv.random %s, %s, %x at "here" : (tensor<i32>, tensor<i32>, tensor<2xi32, #clv.dims<a>>) -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%x: !a) {
  // expected-error@+1 {{'clv.reduce' op is over dim `b`, which an operand lacks; it has [a]}}
  %0 = clv.reduce sum %x over ["b"] : (!a) -> !a
  return
}

// -----

!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%x: !a) {
  // expected-error@+1 {{'clv.reduce' op is over dim `a` twice}}
  %0 = clv.reduce sum %x over ["a", "a"] : (!a) -> tensor<f32>
  return
}

// -----

!a = tensor<2xi1, #clv.dims<a>>
func.func @f(%x: !a) {
  // expected-error@+1 {{'clv.reduce' op does not take 'i1'}}
  %0 = clv.reduce max %x over ["a"] : (!a) -> tensor<i1>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !ab, %y: !b) {
  // expected-error@+1 {{'clv.dot' op gives dims [a], but its result has [b]}}
  %0 = clv.dot %x, %y over ["b"] : (!ab, !b) -> !b
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!ai = tensor<2xi32, #clv.dims<a>>
func.func @f(%x: !ab, %ids: !ai) {
  // expected-error@+1 {{'clv.lookup' op has dim `a` in both table and ids}}
  %0 = clv.lookup %x, %ids along "b" : (!ab, !ai) -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!b = tensor<3xf32, #clv.dims<b>>
!ai = tensor<2xi32, #clv.dims<a>>
func.func @f(%x: !b, %ids: !ai) {
  // expected-error@+1 {{'clv.scatter_add' op has ids with dim `a`, which the updates lack}}
  %0 = clv.scatter_add %x, %ids along "v" : (!b, !ai) -> tensor<4x3xf32, #clv.dims<v, b>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!ai = tensor<2xi32, #clv.dims<a>>
func.func @f(%x: !ab, %ids: !ai) {
  // expected-error@+1 {{'clv.scatter_add' op has updates with dim `b`, along which it adds}}
  %0 = clv.scatter_add %x, %ids along "b" : (!ab, !ai) -> tensor<3xf32, #clv.dims<b>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !ab, %m: !b) {
  // expected-error@+1 {{'clv.extreme' op needs a value with dims [a], but it has [b]}}
  %0 = clv.extreme %x, %m along "b" : (!ab, !b) -> tensor<2xi32, #clv.dims<a>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.cumsum' op is over dim `c`, which an operand lacks; it has [a, b]}}
  %0 = clv.cumsum %x along "c" : (!ab) -> !ab
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.cumsum' op gives dims [a, b], but its result has [a]}}
  %0 = clv.cumsum %x along "b" : (!ab) -> !a
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.softmax' op gives dims [a, b], but its result has [a]}}
  %0 = clv.softmax %x over ["b"] : (!ab) -> !a
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.logsumexp' op gives dims [a], but its result has [b]}}
  %0 = clv.logsumexp %x over ["b"] : (!ab) -> !b
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.rename' op must keep the sizes of its dims in order}}
  %0 = clv.rename %x : (!ab) -> tensor<3x2xf32, #clv.dims<c, d>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.slice' op takes elements [2, 4) of 3}}
  %0 = clv.slice %x from "b" to "c" at 2 : (!ab) -> tensor<2x2xf32, #clv.dims<a, c>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.pad' op takes elements [-1, 2) of 5}}
  %0 = clv.pad %x from "b" to "c" at -1 : (!ab) -> tensor<2x5xf32, #clv.dims<a, c>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.edge' op gives dims [a, b], but its result has [b, a]}}
  %0 = clv.edge %x {inner = "r"} : (!ab) -> tensor<3x2xf32, #clv.dims<b, a>>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.repeat' op must have a positive count}}
  clv.repeat %i of "a" from 0 count 0 {
    clv.yield
  }
  return
}

// -----

!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !b) {
  // expected-error@+1 {{'clv.repeat' op body needs 2 arguments: the index, the carried values and a slice of each stacked operand}}
  %0 = "clv.repeat"(%x) <{dim = "a", count = 2 : i64, first = 0 : i64, operandSegmentSizes = array<i32: 1, 0>}> ({
  ^bb0(%i: tensor<i32>):
    clv.yield %x : !b
  }) : (!b) -> !b
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.repeat' op body's first argument must be an i32 scalar}}
  "clv.repeat"() <{dim = "a", count = 2 : i64, first = 0 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({
  ^bb0(%i: tensor<f32>):
    clv.yield
  }) : () -> ()
  return
}

// -----

!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !b) {
  // expected-error@+1 {{'clv.repeat' op body yields 0 values for 1 results, 1 of them carried}}
  %0 = clv.repeat %i of "a" from 0 count 2 carried(%c = %x : !b) -> !b {
    clv.yield
  }
  return
}

// -----

!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !b) {
  // expected-error@+1 {{'clv.repeat' op carried value 0 must have one type as operand, argument, yielded value and result}}
  %0 = clv.repeat %i of "a" from 0 count 2 carried(%c = %x : !b) -> !b {
    %r = clv.reduce sum %c over ["b"] : (!b) -> tensor<f32>
    clv.yield %r : tensor<f32>
  }
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !ab) {
  // expected-error@+1 {{'clv.repeat' op stacked operand 0 must be its argument's type with `a` of size 4 first}}
  clv.repeat %i of "a" from 0 count 4 stacked(%s = %x : !ab slice !b) {
    clv.yield
  }
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!b = tensor<3xf32, #clv.dims<b>>
func.func @f(%x: !b) {
  // expected-error@+1 {{'clv.repeat' op stacked result 0 must be the yielded type with `c` of size 2 first}}
  %0 = clv.repeat %i of "c" from 0 count 2 -> !ab {
    clv.yield %x : !b
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.repeat' op body must end in `clv.yield`}}
  clv.repeat %i of "a" from 0 count 2 {
    %0 = clv.constant 1.0 : f32 -> tensor<f32>
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{'clv.yield' op expects parent op 'clv.repeat'}}
  clv.yield
}

// -----

func.func @f(%x: tensor<f32>, %y: tensor<f64>) {
  // expected-error@+1 {{'clv.dot' op rhs must have element type 'f32', not 'f64'}}
  %0 = clv.dot %x, %y over [] : (tensor<f32>, tensor<f64>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<bf16>) {
  // expected-error@+1 {{'clv.dot' op the result must have element type 'f32', not 'f64'}}
  %0 = clv.dot %x, %x over [] : (tensor<bf16>, tensor<bf16>) -> tensor<f64>
  return
}

// -----

func.func @f(%x: tensor<bf16>, %y: tensor<f32>) {
  // expected-error@+1 {{'clv.dot' op rhs must have element type 'bf16', not 'f32'}}
  %0 = clv.dot %x, %y over [] : (tensor<bf16>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<bf16>) {
  // expected-error@+1 {{'clv.add' op does not compute with bf16: cast to f32}}
  %0 = clv.add %x, %x : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  return
}

// -----

func.func @f(%x: tensor<i32>) {
  // expected-error@+1 {{'clv.cast' op is between bf16 and f32, not from 'i32' to 'bf16'}}
  %0 = clv.cast %x : (tensor<i32>) -> tensor<bf16>
  return
}

// -----

!h = tensor<2xbf16, #clv.dims<a>>
func.func @f(%x: !h) {
  // expected-error@+1 {{'clv.reduce' op does not take 'bf16'}}
  %0 = clv.reduce sum %x over ["a"] : (!h) -> tensor<bf16>
  return
}

// -----

!ah = tensor<2x3xbf16, #clv.dims<a, b>>
!ab = tensor<2x3xf32, #clv.dims<a, b>>
!cb = tensor<4x3xf32, #clv.dims<c, b>>
func.func @f(%q: !ah, %k: !cb) {
  // expected-error@+1 {{'clv.attention_sum' op every factor must have element type 'bf16', not 'f32'}}
  %0 = clv.attention_sum %q, %k {seq = "a", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ah, !cb) -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!cb = tensor<4x3xf32, #clv.dims<c, b>>
func.func @f(%q: !ab, %k: !cb) {
  // expected-error@+1 {{'clv.attention_sum' op is over dim `c`, which an operand lacks; it has [a, b]}}
  %0 = clv.attention_sum %q, %k {seq = "c", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ab, !cb) -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!acb = tensor<2x4x3xf32, #clv.dims<a, c, b>>
func.func @f(%q: !ab, %k: !acb) {
  // expected-error@+1 {{'clv.attention_sum' op needs `a` in the query alone and `c` in the key alone}}
  %0 = clv.attention_sum %q, %k {seq = "a", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ab, !acb) -> tensor<2xf32, #clv.dims<a>>
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!cb = tensor<4x3xf32, #clv.dims<c, b>>
func.func @f(%q: !ab, %k: !cb, %n: tensor<4xf32, #clv.dims<c>>) {
  // expected-error@+1 {{'clv.attention' op needs sums with dims [a], not [c]}}
  %0 = clv.attention %q, %k, %k, %n {seq = "a", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ab, !cb, !cb, tensor<4xf32, #clv.dims<c>>) -> !ab
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!cb = tensor<4x3xf32, #clv.dims<c, b>>
!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%q: !ab, %k: !cb, %n: !a) {
  // expected-error@+1 {{'clv.attention' op needs `c` and not `a` in its values}}
  %0 = clv.attention %q, %k, %q, %n {seq = "a", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ab, !cb, !ab, !a) -> !ab
  return
}

// -----

!ab = tensor<2x3xf32, #clv.dims<a, b>>
!cb = tensor<4x3xf32, #clv.dims<c, b>>
!a = tensor<2xf32, #clv.dims<a>>
func.func @f(%q: !ab, %k: !cb, %n: !a) {
  // expected-error@+1 {{'clv.attention_key_gradient' op needs a gradient with dims [a, b], not [c, b]}}
  %0 = clv.attention_key_gradient %q, %k, %k, %n, %n, %k {seq = "a", keys = "c", over = ["b"], scale = 1.0 : f64} : (!ab, !cb, !cb, !a, !a, !cb) -> !cb
  return
}
