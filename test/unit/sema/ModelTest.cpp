// Models as a whole: repeats, regions, leaves, functions of the module.
#include "Harness.h"

#include "dialects/clv/Clv.h"

using namespace cleave;
using namespace cleave::test;

namespace {

TEST(Model, RepeatCarriesAndIndexes) {
  Elaborated e("fn scale(x) using embed {\n"
               "  param w: f32[embed] ~ ones\n"
               "  return x * w\n"
               "}\n"
               "model m() {\n"
               "  dim embed = 2\n"
               "  param start: f32[embed] ~ zeros\n"
               "  var x, total = start, 0 * sum(start)\n"
               "  repeat layer = 3 {\n"
               "    x = scale(x) + f32(layer)\n"
               "    region inner { total = total + sum(x) }\n"
               "  }\n"
               "  let y = x\n"
               "  output y, total\n"
               "  minimize total\n"
               "}\n");
  Elaborated::Values values = {{"start", {1, 2}},
                               {"layer/scale/w", {1, 2, 3, 4, 5, 6}}};
  double x0 = 1, x1 = 2, total = 0;
  for (int i = 0; i < 3; ++i) {
    x0 = x0 * values["layer/scale/w"][2 * i] + i;
    x1 = x1 * values["layer/scale/w"][2 * i + 1] + i;
    total += x0 + x1;
  }
  expectNear(e.output("y", values).values, {x0, x1});
  expectNear(e.output("total", values).values, {total});
  ASSERT_EQ(e.model->leaves.size(), 2u);
  EXPECT_EQ(e.model->leaves[1].path, "layer/scale/w");
  EXPECT_EQ(e.model->leaves[1].dims,
            (std::vector<std::string>{"layer", "embed"}));
  EXPECT_EQ(e.model->leaves[1].repeatDim, "layer");
}

TEST(Model, RepeatsNest) {
  Elaborated e("model m() {\n"
               "  dim embed = 2\n"
               "  param start: f32[embed] ~ zeros\n"
               "  var x = start\n"
               "  repeat outer = 2 {\n"
               "    repeat inner = 3 {\n"
               "      param w: f32[embed] ~ ones\n"
               "      x = x * 2 + w * f32(outer * 10 + inner)\n"
               "    }\n"
               "  }\n"
               "  let y = x\n"
               "  output y\n"
               "  minimize sum(x)\n"
               "}\n");
  auto w = e.sequence("outer/inner/w", 12);
  auto x = e.sequence("start", 2);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 2; ++k) {
        x[k] = x[k] * 2 + w[(i * 3 + j) * 2 + k] * (i * 10 + j);
      }
    }
  }
  expectNear(e.output("y").values, x);
}

TEST(Model, ConditionOnTheIndexMakesSegments) {
  Elaborated e("fn scale(x) using embed {\n"
               "  param w: f32[embed] ~ ones\n"
               "  return x * w\n"
               "}\n"
               "model m(dense = 2) {\n"
               "  dim embed = 2\n"
               "  param start: f32[embed] ~ zeros\n"
               "  var x = start\n"
               "  repeat layer = 5 {\n"
               "    x = scale(x) + f32(layer)\n"
               "    if layer < dense or layer == 4 { x = x + 100 }\n"
               "    else { param b: f32[embed] ~ zeros\n"
               "           x = x + b }\n"
               "  }\n"
               "  let y = x\n"
               "  output y\n"
               "  minimize sum(x)\n"
               "}\n");
  std::vector<std::string> paths;
  for (const auto &leaf : e.model->leaves) {
    paths.push_back(leaf.path);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{
                       "start", "layer[0..2]/scale/w", "layer[2..4]/scale/w",
                       "layer[2..4]/b", "layer[4..5]/scale/w"}));
  auto x = e.sequence("start", 2), b = e.sequence("layer[2..4]/b", 4);
  std::vector<double> w;
  for (const char *path :
       {"layer[0..2]/scale/w", "layer[2..4]/scale/w", "layer[4..5]/scale/w"}) {
    for (double v : e.sequence(path, path[6] == '4' ? 2 : 4)) {
      w.push_back(v);
    }
  }
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 2; ++k) {
      x[k] = x[k] * w[2 * i + k] + i;
      x[k] += i < 2 || i == 4 ? 100 : b[2 * (i - 2) + k];
    }
  }
  expectNear(e.output("y").values, x);
}

TEST(Model, ScopesAndEdges) {
  Elaborated e("fn twice(x) { return 2 * x }\n"
               "model m() {\n"
               "  dim a = 2\n"
               "  param w: f32[a] ~ ones\n"
               "  region outer {\n"
               "    let u = w + 1\n"
               "    region inner { let v = u * u + w }\n"
               "  }\n"
               "  let t = twice(v) as called\n"
               "  minimize sum(t) + sum(v)\n"
               "}\n");
  std::vector<std::string> seen;
  e.function("loss").walk([&](mlir::Operation *op) {
    clv::ScopeAttr scope = clv::scopeOf(op);
    if (auto edge = mlir::dyn_cast<clv::EdgeOp>(op)) {
      seen.push_back("edge " + scope.getPath().str() + " by " +
                     edge.getInner().str() +
                     (scope.getLabel() ? " as " + scope.getLabel().str() : ""));
    }
    if (mlir::isa<clv::WeightOp>(op)) {
      seen.push_back("weight " + scope.getPath().str() + " in " +
                     scope.getReader().str());
    }
  });
  // One edge for each value and region, and one weight for each reader.
  EXPECT_EQ(seen, (std::vector<std::string>{
                      "weight w in outer",
                      "edge outer/inner by outer/inner as u",
                      "weight w in outer/inner",
                      "edge outer by outer/inner",
                      "edge  by outer",
                      "edge called by called as x",
                      "edge  by called as t",
                  }));
  auto w = e.sequence("w", 2);
  double wanted = 0;
  for (double x : w) {
    wanted += 3 * ((x + 1) * (x + 1) + x);
  }
  expectNear(e.run("eval")[0].values, {wanted});
}

TEST(Model, DimsInputsAndEntries) {
  Elaborated e("use std.nn\n"
               "model m(width = 8, heads = 2) {\n"
               "  dim batch = up to 4, seq = 3, embed = width, vocab = 5,\n"
               "      kv = heads, group = 3, head of kv * group,\n"
               "      qkv of q: head * embed + k: kv, half = 2 like seq\n"
               "  input ids: i32[batch, seq] from tokens(shift: 0)\n"
               "  input labels: i32[batch, seq] from tokens(shift: 1)\n"
               "  input unused: f32[seq]\n"
               "  param table: f32[vocab, embed] ~ normal(0.5, 1)\n"
               "  param out: f32[embed, vocab] ~ uniform(-1, 2)\n"
               "  let h = dropout(lookup(table, vocab: ids), 0.5)\n"
               "  let logits = dot(h, out, over: embed)\n"
               "  output logits\n"
               "  minimize mean(nn.cross_entropy(logits, labels,\n"
               "                                 over: vocab))\n"
               "}\n");
  ASSERT_EQ(e.model->dims.size(), 9u);
  EXPECT_EQ(e.model->dims[6].factors,
            (std::vector<std::string>{"kv", "group"}));
  EXPECT_EQ(e.model->dims[6].size, 6);
  EXPECT_EQ(e.model->dims[7].size, 50);
  EXPECT_EQ(e.model->dims[7].parts[0].second,
            (std::vector<std::string>{"kv", "group", "embed"}));
  EXPECT_EQ(e.model->dims[8].like, "seq");
  ASSERT_EQ(e.model->inputs.size(), 3u);
  EXPECT_EQ(e.model->inputs[1].shift, 1);
  EXPECT_EQ(e.model->inputs[0].bound, 5);
  EXPECT_EQ(e.model->inputs[1].bound, 5);
  EXPECT_EQ(e.model->inputs[2].source, sema::InputInfo::Source::None);
  EXPECT_EQ(e.model->leaves[0].init.a, 1);
  EXPECT_EQ(e.model->leaves[0].init.b, 0.5);
  EXPECT_EQ(e.model->leaves[1].init.kind, sema::Init::Kind::Uniform);
  EXPECT_EQ(e.function("loss").getNumArguments(), 7u);
  EXPECT_EQ(e.function("eval").getNumArguments(), 5u) << "no seed, no step";
  EXPECT_EQ(e.function("forward").getNumArguments(), 3u) << "ids and params";
  EXPECT_EQ(e.function("forward").getNumResults(), 1u);
}

TEST(Model, GptElaboratesAtEverySize) {
  // Depth adds no operations.
  auto count = [](int layers) {
    SourceManager sources;
    DiagnosticEngine diags(sources);
    auto program = loadProgram(CLEAVE_SOURCE_DIR "/examples/gpt/gpt.clv",
                               {{CLEAVE_SOURCE_DIR "/stdlib"}}, sources, diags);
    EXPECT_TRUE(program) << diags.text();
    sema::ElaborateOptions options;
    options.model = "gpt";
    ast::NumberExpr number;
    number.isInteger = true;
    number.integer = layers;
    options.overrides.push_back({"layers", &number, {}});
    options.defaultOptimizer = true;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto model = sema::elaborateModel(*program, options, context, diags);
    EXPECT_TRUE(model) << diags.text();
    int operations = 0;
    model->module->walk([&](mlir::Operation *) { ++operations; });
    return operations;
  };
  EXPECT_EQ(count(1), count(100));
}

} // namespace
