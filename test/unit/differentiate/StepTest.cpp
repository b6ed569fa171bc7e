//===- StepTest.cpp - Whole training steps --------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/differentiate/Check.h"

using namespace cleave::test;

namespace {

/// Attention, a gated mlp, a tied table, a parameter that all layers share, a
/// captured activation, dropout, and a mask made outside the loop.
const char *kTransformer = R"(
!bse = tensor<3x4x4xf32, #clv.dims<batch, seq, embed>>
!bs = tensor<3x4xf32, #clv.dims<batch, seq>>
!ids = tensor<3x4xi32, #clv.dims<batch, seq>>
!table = tensor<5x4xf32, #clv.dims<vocab, embed>>
!e = tensor<4xf32, #clv.dims<embed>>
!es = tensor<2x4xf32, #clv.dims<layer, embed>>
!q = tensor<4x2x2xf32, #clv.dims<embed, head, key>>
!qs = tensor<2x4x2x2xf32, #clv.dims<layer, embed, head, key>>
!o = tensor<2x2x4xf32, #clv.dims<head, key, embed>>
!os = tensor<2x2x2x4xf32, #clv.dims<layer, head, key, embed>>
!up = tensor<4x6xf32, #clv.dims<embed, ff>>
!ups = tensor<2x4x6xf32, #clv.dims<layer, embed, ff>>
!down = tensor<6x4xf32, #clv.dims<ff, embed>>
!downs = tensor<2x6x4xf32, #clv.dims<layer, ff, embed>>
!bsf = tensor<3x4x6xf32, #clv.dims<batch, seq, ff>>
!bshk = tensor<3x4x2x2xf32, #clv.dims<batch, seq, head, key>>
!bkhk = tensor<3x4x2x2xf32, #clv.dims<batch, keys, head, key>>
!scores = tensor<3x4x2x4xf32, #clv.dims<batch, seq, head, keys>>
!mask = tensor<4x4xi1, #clv.dims<keys, seq>>
!maskf = tensor<4x4xf32, #clv.dims<keys, seq>>
!logits = tensor<3x4x5xf32, #clv.dims<batch, seq, vocab>>
!hit = tensor<5x3x4xi1, #clv.dims<vocab, batch, seq>>
!hitf = tensor<5x3x4xf32, #clv.dims<vocab, batch, seq>>
!vi = tensor<5xi32, #clv.dims<vocab>>
!si = tensor<4xi32, #clv.dims<seq>>
!ki = tensor<4xi32, #clv.dims<keys>>
!dm = tensor<3x4x4xi1, #clv.dims<batch, seq, embed>>
!s = tensor<f32>
!i = tensor<i32>
#top = #clv.scope<activations, forward, path = "">
#layer = #clv.scope<activations, forward, path = "layer">
#att = #clv.scope<activations, forward, path = "layer/attention">
#mlp = #clv.scope<activations, forward, path = "layer/mlp">
func.func @loss(
    %ids: !ids {clv.role = "input", clv.path = "ids", test.limit = 4.0 : f64},
    %labels: !ids {clv.role = "input", clv.path = "labels", test.limit = 4.0 : f64},
    %table: !table {clv.role = "param", clv.path = "table"},
    %scales: !es {clv.role = "param", clv.path = "layer/scale"},
    %wqs: !qs {clv.role = "param", clv.path = "layer/attention/wq"},
    %wks: !qs {clv.role = "param", clv.path = "layer/attention/wk"},
    %wvs: !qs {clv.role = "param", clv.path = "layer/attention/wv"},
    %wos: !os {clv.role = "param", clv.path = "layer/attention/wo"},
    %ups: !ups {clv.role = "param", clv.path = "layer/mlp/up"},
    %downs: !downs {clv.role = "param", clv.path = "layer/mlp/down"},
    %shared: !e {clv.role = "param", clv.path = "shared"},
    %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> (!s, !logits) {
  %t0 = clv.weight %table {clv.scope = #clv.scope<weights, forward, path = "table", reader = "embedding">} : (!table) -> !table
  %x0 = clv.lookup %t0, %ids along "vocab" {clv.scope = #top} : (!table, !ids) -> !bse
  %si = clv.index {clv.scope = #top} -> !si
  %ki = clv.index {clv.scope = #top} -> !ki
  %mask = clv.less_equal %ki, %si {clv.scope = #top} : (!ki, !si) -> !mask
  %low = clv.constant -1.0e+30 : f32 {clv.scope = #top} -> !s
  %sq0 = clv.mul %x0, %x0 {clv.scope = #top} : (!bse, !bse) -> !bse
  %x = clv.repeat %i of "layer" from 0 count 2 carried(%c = %x0 : !bse)
      stacked(%sc = %scales : !es slice !e, %wqp = %wqs : !qs slice !q,
              %wkp = %wks : !qs slice !q, %wvp = %wvs : !qs slice !q,
              %wop = %wos : !os slice !o, %upp = %ups : !ups slice !up,
              %downp = %downs : !downs slice !down) -> !bse attributes {clv.scope = #top} {
    %s = clv.weight %sc {clv.scope = #clv.scope<weights, forward, path = "layer/scale", reader = "layer">} : (!e) -> !e
    %sq = clv.mul %c, %c {clv.scope = #layer} : (!bse, !bse) -> !bse
    %ms = clv.reduce sum %sq over ["embed"] {clv.scope = #layer} : (!bse) -> !bs
    %eps = clv.constant 1.0 : f32 {clv.scope = #layer} -> !s
    %mse = clv.add %ms, %eps {clv.scope = #layer} : (!bs, !s) -> !bs
    %inv = clv.rsqrt %mse {clv.scope = #layer} : (!bs) -> !bs
    %n0 = clv.mul %c, %inv {clv.scope = #layer} : (!bse, !bs) -> !bse
    %n = clv.mul %n0, %s {clv.scope = #layer} : (!bse, !e) -> !bse
    %in = clv.edge %n {inner = "layer/attention", clv.scope = #att} : (!bse) -> !bse
    %wq = clv.weight %wqp {clv.scope = #clv.scope<weights, forward, path = "layer/attention/wq", reader = "layer/attention">} : (!q) -> !q
    %wk = clv.weight %wkp {clv.scope = #clv.scope<weights, forward, path = "layer/attention/wk", reader = "layer/attention">} : (!q) -> !q
    %wv = clv.weight %wvp {clv.scope = #clv.scope<weights, forward, path = "layer/attention/wv", reader = "layer/attention">} : (!q) -> !q
    %wo = clv.weight %wop {clv.scope = #clv.scope<weights, forward, path = "layer/attention/wo", reader = "layer/attention">} : (!o) -> !o
    %q = clv.dot %in, %wq over ["embed"] {clv.scope = #att} : (!bse, !q) -> !bshk
    %k0 = clv.dot %in, %wk over ["embed"] {clv.scope = #att} : (!bse, !q) -> !bshk
    %k = clv.rename %k0 {clv.scope = #att} : (!bshk) -> !bkhk
    %v0 = clv.dot %in, %wv over ["embed"] {clv.scope = #att} : (!bse, !q) -> !bshk
    %v = clv.rename %v0 {clv.scope = #att} : (!bshk) -> !bkhk
    %sc0 = clv.dot %q, %k over ["key"] {clv.scope = #att} : (!bshk, !bkhk) -> !scores
    %zero = clv.constant 0.0 : f32 {clv.scope = #att} -> !s
    %bias = clv.select %mask, %zero, %low {clv.scope = #att} : (!mask, !s, !s) -> !maskf
    %sc1 = clv.add %sc0, %bias {clv.scope = #att} : (!scores, !maskf) -> !scores
    %p = clv.softmax %sc1 over ["keys"] {clv.scope = #att} : (!scores) -> !scores
    %a = clv.dot %p, %v over ["keys"] {clv.scope = #att} : (!scores, !bkhk) -> !bshk
    %o = clv.dot %a, %wo over ["head", "key"] {clv.scope = #att} : (!bshk, !o) -> !bse
    %out = clv.edge %o {inner = "layer/attention", clv.scope = #layer} : (!bse) -> !bse
    %u = clv.random %seed, %step, %i at "layer/drop" {clv.scope = #layer} : (!i, !i, !i) -> !bse
    %rate = clv.constant 0.25 : f32 {clv.scope = #layer} -> !s
    %keep = clv.less %rate, %u {clv.scope = #layer} : (!s, !bse) -> !dm
    %zero1 = clv.constant 0.0 : f32 {clv.scope = #layer} -> !s
    %dropped = clv.select %keep, %out, %zero1 {clv.scope = #layer} : (!dm, !bse, !s) -> !bse
    %y = clv.add %c, %dropped {clv.scope = #layer} : (!bse, !bse) -> !bse
    %b = clv.weight %shared {clv.scope = #clv.scope<weights, forward, path = "shared", reader = "layer">} : (!e) -> !e
    %y1 = clv.mul %y, %b {clv.scope = #layer} : (!bse, !e) -> !bse
    %y2 = clv.add %y1, %sq0 {clv.scope = #layer} : (!bse, !bse) -> !bse
    %in2 = clv.edge %y2 {inner = "layer/mlp", clv.scope = #mlp} : (!bse) -> !bse
    %up = clv.weight %upp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/up", reader = "layer/mlp">} : (!up) -> !up
    %down = clv.weight %downp {clv.scope = #clv.scope<weights, forward, path = "layer/mlp/down", reader = "layer/mlp">} : (!down) -> !down
    %h = clv.dot %in2, %up over ["embed"] {clv.scope = #mlp} : (!bse, !up) -> !bsf
    %g = clv.gelu %h {clv.scope = #mlp} : (!bsf) -> !bsf
    %d = clv.dot %g, %down over ["ff"] {clv.scope = #mlp} : (!bsf, !down) -> !bse
    %out2 = clv.edge %d {inner = "layer/mlp", clv.scope = #layer} : (!bse) -> !bse
    %z = clv.add %y, %out2 {clv.scope = #layer} : (!bse, !bse) -> !bse
    clv.yield %z : !bse
  }
  %b = clv.weight %shared {clv.scope = #clv.scope<weights, forward, path = "shared", reader = "">} : (!e) -> !e
  %xb = clv.add %x, %b {clv.scope = #top} : (!bse, !e) -> !bse
  %t1 = clv.weight %table {clv.scope = #clv.scope<weights, forward, path = "table", reader = "output">} : (!table) -> !table
  %logits = clv.dot %xb, %t1 over ["embed"] {clv.scope = #top} : (!bse, !table) -> !logits
  %lse = clv.logsumexp %logits over ["vocab"] {clv.scope = #top} : (!logits) -> !bs
  %vi = clv.index {clv.scope = #top} -> !vi
  %hit = clv.equal %vi, %labels {clv.scope = #top} : (!vi, !ids) -> !hit
  %zero = clv.constant 0.0 : f32 {clv.scope = #top} -> !s
  %pick = clv.select %hit, %logits, %zero {clv.scope = #top} : (!hit, !logits, !s) -> !hitf
  %at = clv.reduce sum %pick over ["vocab"] {clv.scope = #top} : (!hitf) -> !bs
  %nll = clv.sub %lse, %at {clv.scope = #top} : (!bs, !bs) -> !bs
  %sum = clv.reduce sum %nll over ["batch", "seq"] {clv.scope = #top} : (!bs) -> !s
  %count = clv.constant 12.0 : f32 {clv.scope = #top} -> !s
  %loss = clv.div %sum, %count {clv.scope = #top} : (!s, !s) -> !s
  %further = clv.mul %logits, %logits {clv.scope = #top} : (!logits, !logits) -> !logits
  return %loss, %further : !s, !logits
}
)";

cleave::clv::RepeatOp repeatOf(Program &program, unsigned index) {
  auto repeats = llvm::to_vector(
      program.function("train").getOps<cleave::clv::RepeatOp>());
  EXPECT_EQ(repeats.size(), 2u);
  return repeats[index];
}

} // namespace

TEST(Step, TransformerGradientsAreThoseOfFiniteDifferences) {
  Program program(kTransformer);
  checkGradients(program, -1, 1, 5e-6);
}

/// A program whose contractions multiply bf16.
static std::string mixed(const std::string &text) {
  mlir::MLIRContext context;
  context.loadDialect<cleave::clv::ClvDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      text, mlir::ParserConfig(&context));
  EXPECT_TRUE(module) << text;
  cleave::narrowContractions(*module, mlir::BFloat16Type::get(&context));
  cleave::castEarly(*module);
  EXPECT_TRUE(succeeded(mlir::verify(*module)));
  std::string after;
  llvm::raw_string_ostream(after) << *module;
  return after;
}

static std::vector<Tensor> argumentsOf(Program &program, double low,
                                       double high, bool whole) {
  uint32_t state = 3;
  std::vector<Tensor> arguments;
  auto types = program.function("loss").getArgumentTypes().drop_back(2);
  for (mlir::Type type : types) {
    bool isInteger =
        mlir::cast<mlir::RankedTensorType>(type).getElementType().isInteger(32);
    arguments.push_back(isInteger ? fill(type, 0, 4.9, state)
                                  : fill(type, low, high, state));
    for (double &x : arguments.back().values) {
      x = isInteger || whole ? std::floor(x) : x;
    }
  }
  return arguments;
}

TEST(Step, OfSmallIntegersMixedPrecisionIsExact) {
  // Products of sums of products: none has more than eight digits.
  std::string text = textOf("%z = clv.rename %y : (!ab) -> !cb\n"
                            "%d = clv.dot %x, %z over [\"b\"] : (!ab, !cb) -> "
                            "!ac\n"
                            "%r = clv.dot %d, %z over [\"c\"] : (!ac, !cb) -> "
                            "!ab\n",
                            "!ab", false);
  Program plain(text), narrow(mixed(text));
  std::vector<Tensor> arguments = argumentsOf(plain, -3, 4, true);
  auto wanted = plain.gradients(arguments), found = narrow.gradients(arguments);
  ASSERT_EQ(wanted.size(), 2u);
  for (auto [a, b] : llvm::zip(wanted, found)) {
    EXPECT_EQ(a.values, b.values);
  }
}

TEST(Step, MixedPrecisionStaysNear) {
  Program plain(kTransformer), narrow(mixed(kTransformer));
  std::vector<Tensor> arguments = argumentsOf(plain, -1, 1, false);
  auto wanted = plain.gradients(arguments), found = narrow.gradients(arguments);
  ASSERT_EQ(wanted.size(), found.size());
  for (auto [a, b] : llvm::zip(wanted, found)) {
    EXPECT_NE(a.values, b.values); // something was rounded
    double largest = 0;
    for (double x : a.values) {
      largest = std::max(largest, std::fabs(x));
    }
    for (auto [x, y] : llvm::zip(a.values, b.values)) {
      EXPECT_NEAR(x, y, 0x1p-5 * largest);
    }
  }
}

TEST(Step, StaysRolledAndSavesNoWeights) {
  Program program(kTransformer);
  ASSERT_TRUE(program.module);
  auto forward = repeatOf(program, 0), backward = repeatOf(program, 1);
  EXPECT_FALSE(forward.getReverse());
  EXPECT_TRUE(backward.getReverse());
  auto yielded = forward.getYield()->getOperands().drop_front(1);
  for (mlir::Value value : yielded) {
    mlir::Operation *op = value.getDefiningOp();
    auto element =
        mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
    EXPECT_TRUE(element.isF32()) << "masks and positions are made again";
    bool isCheap =
        op && mlir::isa<cleave::clv::WeightOp, cleave::clv::ConstantOp,
                        cleave::clv::RandomOp, cleave::clv::BroadcastOp,
                        cleave::clv::RenameOp>(op);
    EXPECT_FALSE(isCheap) << op->getName().getStringRef().str();
  }
  // Weights are read again, in the backward phase, from the parameters.
  unsigned weights = 0;
  backward.getBlock()->walk([&](cleave::clv::WeightOp weight) {
    auto scope = cleave::clv::scopeOf(weight);
    EXPECT_EQ(scope.getPhase(), cleave::clv::Phase::Backward);
    EXPECT_EQ(scope.getRole(), cleave::clv::Role::Weights);
    ++weights;
  });
  EXPECT_EQ(weights, 8u);
  // One gradient for each stacked parameter, inside.
  unsigned gradients = 0;
  backward.getBlock()->walk([&](cleave::clv::GradientOp) { ++gradients; });
  EXPECT_EQ(gradients, 7u);
  unsigned outside = 0;
  for (auto op : program.function("train").getOps<cleave::clv::GradientOp>()) {
    EXPECT_EQ(cleave::clv::scopeOf(op).getRole(), cleave::clv::Role::Gradients);
    ++outside;
  }
  EXPECT_EQ(outside, 2u) << "the tied table and the shared parameter";
}

TEST(Step, RegionsAreEnteredAgainBackward) {
  Program program(kTransformer);
  ASSERT_TRUE(program.module);
  // Into each region: the argument again, and the gradient of the result; out
  // of it: the gradient of the argument.
  unsigned in = 0, out = 0;
  repeatOf(program, 1).getBlock()->walk([&](cleave::clv::EdgeOp edge) {
    auto scope = cleave::clv::scopeOf(edge);
    EXPECT_EQ(scope.getPhase(), cleave::clv::Phase::Backward);
    (scope.getPath() == edge.getInner() ? in : out)++;
  });
  EXPECT_EQ(in, 4u);
  EXPECT_EQ(out, 2u);
}

namespace {

/// Momentum with clipping, on two parameters, one of them without effect.
const char *kClipped = R"(
!a = tensor<3xf32, #clv.dims<a>>
!s = tensor<f32>
!i = tensor<i32>
module attributes {clv.clip = 0.5 : f64} {
  func.func @loss(%x: !a {clv.role = "input", clv.path = "x"},
                  %p: !a {clv.role = "param", clv.path = "p", clv.init = "kept"},
                  %unused: !a {clv.role = "param", clv.path = "unused"},
                  %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
    %w = clv.weight %p : (!a) -> !a
    %m = clv.mul %w, %x : (!a, !a) -> !a
    %l = clv.reduce sum %m over ["a"] : (!a) -> !s
    return %l : !s
  }
  func.func private @update.0(%p: !a, %g: !a, %m: !a {clv.state = "first", clv.init = "zeros"}, %step: !i) -> (!a, !a)
      attributes {clv.param = "p"} {
    %n = clv.add %m, %g : (!a, !a) -> !a
    %f = clv.cast %step : (!i) -> !s
    %r = clv.div %n, %f : (!a, !s) -> !a
    %q = clv.sub %p, %r : (!a, !a) -> !a
    return %q, %n : !a, !a
  }
  func.func private @update.1(%p: !a, %g: !a, %step: !i) -> !a
      attributes {clv.param = "unused"} {
    %q = clv.sub %p, %g : (!a, !a) -> !a
    return %q : !a
  }
})";

} // namespace

TEST(Step, ClipsByTheGlobalNormAndUpdates) {
  Program program(kClipped, /*withUpdates=*/false);
  ASSERT_TRUE(program.module);
  auto train = program.function("train");
  auto attr = [&](mlir::DictionaryAttr attrs, llvm::StringRef name) {
    auto value = attrs.getAs<mlir::StringAttr>(name);
    return value ? value.getValue().str() : std::string();
  };
  std::string arguments, results;
  for (unsigned i = 0; i < train.getNumArguments(); ++i) {
    auto attrs = train.getArgAttrDict(i);
    arguments += attr(attrs, "clv.role") + ":" + attr(attrs, "clv.path") + ":" +
                 attr(attrs, "clv.state") + ":" + attr(attrs, "clv.init") + " ";
  }
  for (unsigned i = 0; i < train.getNumResults(); ++i) {
    auto attrs = train.getResultAttrDict(i);
    results += attr(attrs, "clv.result") + ":" + attr(attrs, "clv.path") + ":" +
               attr(attrs, "clv.state") + " ";
  }
  EXPECT_EQ(arguments, "input:x:: param:p::kept param:unused:: "
                       "optimizer:p:first:zeros seed::: step::: ");
  EXPECT_EQ(results, "loss:: gradient_norm:: param:p: param:unused: "
                     "optimizer:p:first gradient:p: gradient:unused: ");
  EXPECT_FALSE(program.module->lookupSymbol("update.0"));
  EXPECT_TRUE(program.module->lookupSymbol("loss"));

  std::vector<Tensor> at = {{{3}, {3, 4, 0}},   {{3}, {1, 1, 1}},
                            {{3}, {7, 8, 9}},   {{3}, {0.5, 0, 0}},
                            Tensor::scalar(11), Tensor::scalar(2)};
  auto out = program.evaluate("train", at);
  ASSERT_EQ(out.size(), 7u);
  using Values = std::vector<double>;
  EXPECT_EQ(out[0].values, (Values{7}));
  EXPECT_EQ(out[1].values, (Values{5}));
  // The gradient (3, 4, 0), clipped to norm 0.5: (0.3, 0.4, 0).
  EXPECT_NEAR(out[4].values[0], 0.8, 1e-12);
  EXPECT_NEAR(out[4].values[1], 0.4, 1e-12);
  EXPECT_NEAR(out[2].values[0], 0.6, 1e-12);
  EXPECT_NEAR(out[2].values[1], 0.8, 1e-12);
  EXPECT_EQ(out[2].values[2], 1);
  EXPECT_EQ(out[3].values, (Values{7, 8, 9}));
  EXPECT_EQ(out[5].values, (Values{3, 4, 0}));
  EXPECT_EQ(out[6].values, (Values{0, 0, 0}));

  at[0].values = {0.03, 0.04, 0}; // below the limit: as it is
  out = program.evaluate("train", at);
  EXPECT_NEAR(out[4].values[0], 0.53, 1e-12);
  at[0].values = {0, 0, 0}; // a zero norm is no division by zero
  out = program.evaluate("train", at);
  EXPECT_EQ(out[4].values, (Values{0.5, 0, 0}));
}

namespace {

/// A loop in a loop; the inner one's slices come from the outer one's.
const char *kNested = R"(
!x = tensor<2xf32, #clv.dims<a>>
!ws = tensor<3x2x2xf32, #clv.dims<outer, inner, a>>
!w = tensor<2x2xf32, #clv.dims<inner, a>>
!s = tensor<f32>
!i = tensor<i32>
#t = #clv.scope<activations, forward, path = "">
func.func @loss(%ws: !ws {clv.role = "param", clv.path = "w"},
                %p: !x {clv.role = "param", clv.path = "p"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %x = clv.weight %p : (!x) -> !x
  %r = clv.repeat %i of "outer" from 0 count 3 REVERSE carried(%c = %x : !x)
      stacked(%wo = %ws : !ws slice !w) -> !x attributes {clv.scope = #t} {
    %k = clv.sin %c {clv.scope = #t} : (!x) -> !x
    %fi = clv.cast %i {clv.scope = #t} : (!i) -> !s
    %n:2 = clv.repeat %j of "inner" from 1 count 2 carried(%d = %k : !x)
        stacked(%wi = %wo : !w slice !x) -> (!x, !w) attributes {clv.scope = #t} {
      %v = clv.weight %wi : (!x) -> !x
      %fj = clv.cast %j {clv.scope = #t} : (!i) -> !s
      %e = clv.mul %d, %v {clv.scope = #t} : (!x, !x) -> !x
      %f = clv.mul %e, %k {clv.scope = #t} : (!x, !x) -> !x
      %ff = clv.mul %f, %fj {clv.scope = #t} : (!x, !s) -> !x
      %g = clv.add %ff, %c {clv.scope = #t} : (!x, !x) -> !x
      %h = clv.tanh %g {clv.scope = #t} : (!x) -> !x
      clv.yield %h, %e : !x, !w_slice
    }
    %m = clv.reduce sum %n#1 over ["inner"] {clv.scope = #t} : (!w) -> !x
    %o = clv.add %n#0, %m {clv.scope = #t} : (!x, !x) -> !x
    %oi = clv.mul %o, %fi {clv.scope = #t} : (!x, !s) -> !x
    %oo = clv.add %oi, %k {clv.scope = #t} : (!x, !x) -> !x
    clv.yield %oo : !x
  }
  %l = clv.reduce sum %r over ["a"] {clv.scope = #t} : (!x) -> !s
  return %l : !s
}
)";

std::string nested(bool reverse) {
  std::string text = kNested;
  text.replace(text.find("REVERSE"), 7, reverse ? "reverse" : "");
  text.replace(text.find("!w_slice"), 8, "!x");
  return text;
}

} // namespace

TEST(Step, LoopsInLoops) {
  Program program(nested(false));
  checkGradients(program);
}

TEST(Step, LoopsThatRunDown) {
  Program program(nested(true));
  checkGradients(program);
}

TEST(Step, CarriedValuesThatDependOnEachOther) {
  // %q's result is not used, but its value reaches %p two iterations later.
  Program program(R"(
!x = tensor<2xf32, #clv.dims<a>>
!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%a: !x {clv.role = "param", clv.path = "a"},
                %b: !x {clv.role = "param", clv.path = "b"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %p0 = clv.weight %a : (!x) -> !x
  %q0 = clv.weight %b : (!x) -> !x
  %one = clv.constant 1.0 : f32 -> !s
  %k0 = clv.broadcast %one : (!s) -> !x
  %r:3 = clv.repeat %i of "n" from 0 count 5 carried(%p = %p0 : !x, %q = %q0 : !x, %k = %k0 : !x) -> (!x, !x, !x) {
    %t = clv.mul %q, %k : (!x, !x) -> !x
    %u = clv.sin %p : (!x) -> !x
    %v = clv.add %t, %u : (!x, !x) -> !x
    clv.yield %v, %p, %q : !x, !x, !x
  }
  %l = clv.reduce sum %r#0 over ["a"] : (!x) -> !s
  return %l : !s
})");
  checkGradients(program);
}

TEST(Step, AParameterReadInALoopAndOutside) {
  // Stacked and read whole as well: its gradient is finished outside.
  Program program(R"(
!x = tensor<2xf32, #clv.dims<a>>
!ws = tensor<3x2xf32, #clv.dims<n, a>>
!s = tensor<f32>
!i = tensor<i32>
func.func @loss(%ws: !ws {clv.role = "param", clv.path = "w"},
                %p: !x {clv.role = "param", clv.path = "p"},
                %seed: !i {clv.role = "seed"}, %step: !i {clv.role = "step"}) -> !s {
  %x = clv.weight %p : (!x) -> !x
  %r = clv.repeat %i of "n" from 0 count 3 carried(%c = %x : !x) stacked(%wi = %ws : !ws slice !x) -> !x {
    %v = clv.weight %wi : (!x) -> !x
    %e = clv.mul %c, %v : (!x, !x) -> !x
    clv.yield %e : !x
  }
  %w = clv.weight %ws : (!ws) -> !ws
  %m = clv.mul %w, %r : (!ws, !x) -> !ws
  %l = clv.reduce sum %m over ["n", "a"] : (!ws) -> !s
  return %l : !s
})");
  checkGradients(program);
  unsigned count = 0;
  program.function("train").walk([&](cleave::clv::GradientOp op) {
    EXPECT_TRUE(mlir::isa<mlir::func::FuncOp>(op->getParentOp()));
    ++count;
  });
  EXPECT_EQ(count, 2u);
}
