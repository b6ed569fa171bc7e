// The updates and rates of stdlib/optim.clv against their formulas.
#include "Harness.h"

using namespace cleave::test;

namespace {

std::string source(const std::string &with) {
  return "use std.optim\n"
         "model m() {\n"
         "  dim a = 3\n"
         "  param w: f32[a] ~ ones\n"
         "  minimize sum(w * w)\n"
         "}\n"
         "run r of m with " +
         with + " { }\n";
}

const Elaborated::Values values = {
    {"param", {1, -2, 0.5}},        {"gradient", {0.1, 0.2, -0.3}},
    {"first", {0.01, -0.02, 0.03}}, {"second", {0.001, 0.002, 0.003}},
    {"velocity", {0.5, 0.25, 1}},   {"step", {3}}};

TEST(Optimizers, Sgd) {
  Elaborated e(source("sgd(0.5)"));
  expectNear(e.run("update.0", values)[0].values, {0.95, -2.1, 0.65});
  EXPECT_EQ(e.model->leaves.size(), 1u);
}

TEST(Optimizers, Momentum) {
  Elaborated e(source("momentum(rate: 0.5, beta: 0.8)"));
  auto results = e.run("update.0", values);
  expectNear(results[1].values, {0.5, 0.4, 0.5});
  expectNear(results[0].values, {0.75, -2.2, 0.25});
  Elaborated n(source("momentum(rate: 0.5, beta: 0.8, nesterov: true)"));
  auto ahead = n.run("update.0", values);
  expectNear(ahead[1].values, {0.5, 0.4, 0.5});
  expectNear(ahead[0].values, {0.75, -2.26, 0.45});
}

TEST(Optimizers, AdamW) {
  Elaborated e(source("adamw(rate: 0.01, decay: 0.1), clip(1.5)"));
  auto results = e.run("update.0", values);
  auto p = values.at("param"), g = values.at("gradient"),
       m = values.at("first"), v = values.at("second");
  for (int i = 0; i < 3; ++i) {
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
    double mh = m[i] / (1 - std::pow(0.9, 3));
    double vh = v[i] / (1 - std::pow(0.95, 3));
    p[i] -= 0.01 * (mh / (std::sqrt(vh) + 1e-8) + 0.1 * p[i]);
  }
  expectNear(results[0].values, p);
  expectNear(results[1].values, m);
  expectNear(results[2].values, v);
  ASSERT_EQ(e.model->leaves.size(), 3u);
  EXPECT_EQ(e.model->leaves[2].path, "w");
  EXPECT_EQ(e.model->leaves[2].state, "second");
  auto module = *e.model->module;
  EXPECT_EQ(
      module->getAttrOfType<mlir::FloatAttr>("clv.clip").getValueAsDouble(),
      1.5);
}

TEST(Optimizers, Lion) {
  Elaborated e(source("lion(rate: 0.01, decay: 0.1)"));
  auto results = e.run("update.0", values);
  expectNear(results[0].values, {1 - 0.01 * (1 + 0.1), -2 - 0.01 * (1 - 0.2),
                                 0.5 - 0.01 * (-1 + 0.05)});
  expectNear(results[1].values,
             {0.99 * 0.01 + 0.001, -0.99 * 0.02 + 0.002, 0.99 * 0.03 - 0.003});
}

// The rate at a step, by sgd on a gradient of one.
double rateAt(const std::string &rate, double step) {
  Elaborated e("use std.optim\n"
               "model m() {\n"
               "  param w: f32 ~ ones\n"
               "  minimize w * w\n"
               "}\n"
               "run r of m with sgd(optim." +
               rate + ") { }\n");
  return -e.run("update.0",
                {{"param", {0}}, {"gradient", {1}}, {"step", {step}}})[0]
              .values[0];
}

TEST(Optimizers, Rates) {
  std::string cosine = "warmup_cosine(1.0, warmup: 10, steps: 110, floor: 0.2)";
  EXPECT_NEAR(rateAt(cosine, 1), 0.1, 1e-6);
  EXPECT_NEAR(rateAt(cosine, 10), 1.0, 1e-6);
  EXPECT_NEAR(rateAt(cosine, 60), 0.6, 1e-6);
  EXPECT_NEAR(rateAt(cosine, 110), 0.2, 1e-6);
  EXPECT_NEAR(rateAt(cosine, 1000), 0.2, 1e-6);
  EXPECT_NEAR(rateAt("warmup(2.0, 4)", 3), 1.5, 1e-6);
  EXPECT_NEAR(rateAt("warmup(2.0, 4)", 9), 2.0, 1e-6);
  EXPECT_NEAR(rateAt("warmup_linear(1.0, 10, 110, 0.2)", 60), 0.6, 1e-6);
  EXPECT_NEAR(rateAt("inverse_sqrt(1.0, 16)", 8), 0.5, 1e-6);
  EXPECT_NEAR(rateAt("inverse_sqrt(1.0, 16)", 64), 0.5, 1e-6);
}

} // namespace
