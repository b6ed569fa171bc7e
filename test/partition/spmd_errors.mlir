// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{atom 0 is used twice in one layout}}
func.func private @f(tensor<2x2xf32, #spmd.local<[a = 4 on [0], b = 4 on [0]]>>)

// -----

// expected-error@+1 {{dim `a` appears twice in one type}}
func.func private @f(tensor<2x2xf32, #spmd.local<[a = 4, a = 4]>>)

// -----

// expected-error@+1 {{a local type of rank 2 has 1 dim names}}
func.func private @f(tensor<2x2xf32, #spmd.local<[a = 4]>>)

// -----

// expected-error@+1 {{the local extent 5 of dim `a` is larger than the global size 4}}
func.func private @f(tensor<5xf32, #spmd.local<[a = 4]>>)

// -----

// expected-error@+1 {{expected `sum`, `max` or `min`}}
func.func private @f(tensor<4xf32, #spmd.local<[a = 4], mean over [0]>>)

// -----

// expected-error@+1 {{expected `unit`, `cuts` or `places`}}
func.func private @f(tensor<2xf32, #spmd.local<[a = 4 on #spmd.split<[0], width = 2>]>>)

// -----

func.func @f(%x: tensor<4xf32, #clv.dims<a>>) {
  // expected-error@+1 {{'spmd.all_reduce' op needs local types}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #clv.dims<a>>) -> tensor<4xf32, #clv.dims<a>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op must keep the element type}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<4xi32, #spmd.local<[a = 4]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op must keep the dims and their global sizes}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<4xf32, #spmd.local<[b = 4]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op needs an atom to run over}}
  %0 = spmd.all_reduce %x over [] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<4xf32, #spmd.local<[a = 4]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op names an atom twice}}
  %0 = spmd.all_reduce %x over [0, 0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<4xf32, #spmd.local<[a = 4]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], max over [0, 1]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op must keep the kind of a pending reduction}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], max over [0, 1]>>) -> tensor<4xf32, #spmd.local<[a = 4], sum over [1]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0, 1]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op must reduce exactly the atoms that it runs over, all pending before}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0, 1]>>) -> tensor<4xf32, #spmd.local<[a = 4]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.all_reduce' op must not change how dims are split}}
  %0 = spmd.all_reduce %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<2xf32, #spmd.local<[a = 4 on [1]]>>
  return
}

// -----

func.func @f(%x: tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) {
  // expected-error@+1 {{'spmd.reduce_scatter' op must split dims further on exactly the atoms that it reduces}}
  %0 = spmd.reduce_scatter %x over [0] : (tensor<4xf32, #spmd.local<[a = 4], sum over [0]>>) -> tensor<2xf32, #spmd.local<[a = 4 on [1]]>>
  return
}

// -----

func.func @f(%x: tensor<2xf32, #spmd.local<[a = 4 on [0]], sum over [1]>>) {
  // expected-error@+1 {{'spmd.all_gather' op must not change the pending reduction}}
  %0 = spmd.all_gather %x over [0] : (tensor<2xf32, #spmd.local<[a = 4 on [0]], sum over [1]>>) -> tensor<4xf32, #spmd.local<[a = 4]>>
  return
}

// -----

// The pieces over (0, 1) nest in those over 0, not in those over 1.
func.func @f(%x: tensor<1xf32, #spmd.local<[a = 4 on [0, 1]]>>) {
  // expected-error@+1 {{'spmd.all_gather' op must gather exactly the minor atoms that it runs over}}
  %0 = spmd.all_gather %x over [0] : (tensor<1xf32, #spmd.local<[a = 4 on [0, 1]]>>) -> tensor<2xf32, #spmd.local<[a = 4 on [1]]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.all_to_all' op must keep the atoms that split dims}}
  %0 = spmd.all_to_all %x over [0] : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<4x2xf32, #spmd.local<[a = 4, b = 4 on [1]]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.all_to_all' op must run over atoms that split a dim}}
  %0 = spmd.all_to_all %x over [1] : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<4x2xf32, #spmd.local<[a = 4, b = 4 on [0]]>>
  return
}

// -----

func.func @f(%x: tensor<2xf32, #spmd.local<[a = 4 on [0]]>>) {
  // expected-error@+1 {{'spmd.local_slice' op must split dims further on exactly the atoms that it runs over}}
  %0 = spmd.local_slice %x over [1] : (tensor<2xf32, #spmd.local<[a = 4 on [0]]>>) -> tensor<1xf32, #spmd.local<[a = 4 on [1, 0]]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.shift' op must keep the atoms of each dim}}
  %0 = spmd.shift %x over [0] : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<4x2xf32, #spmd.local<[a = 4, b = 4 on [0]]>>
  return
}

// -----

func.func @f(%x: tensor<2xf32, #spmd.local<[a = 4 on [0]]>>) {
  // expected-error@+1 {{'spmd.shift' op must run over atoms that split a dim}}
  %0 = spmd.shift %x over [1] : (tensor<2xf32, #spmd.local<[a = 4 on [0]]>>) -> tensor<3xf32, #spmd.local<[a = 4 on #spmd.split<[0], cuts = [0, 1, 4]>]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.shift' op moves dim `c`, which its operand lacks}}
  %0 = spmd.shift %x over [0] {dim = "c", by = 1 : i64} : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.shift' op moves by 4 around 4}}
  %0 = spmd.shift %x over [0] {dim = "a", by = 4 : i64} : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.shift' op moves by -1 around 4}}
  %0 = spmd.shift %x over [0] {dim = "b", by = -1 : i64} : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) {
  // expected-error@+1 {{'spmd.shift' op moves by 1 along no dim}}
  %0 = spmd.shift %x over [0] {by = 1 : i64} : (tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>) -> tensor<2x4xf32, #spmd.local<[a = 4 on [0], b = 4]>>
  return
}
