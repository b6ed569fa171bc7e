// Operators and built-in functions against plain arithmetic.
#include "Harness.h"

using namespace cleave::test;

namespace {

// A model with x[a: 2, b: 3], y[b: 3] and `let r = EXPRESSION`.
std::vector<double> valueOf(const std::string &expression,
                            const std::string &more = "") {
  Elaborated e("model m() {\n"
               "  dim a = 2, b = 3, c = 3, ab of a * b, six = 6, five = 5,\n"
               "      two = 2\n"
               "  param x: f32[a, b] ~ zeros\n"
               "  param y: f32[b] ~ zeros\n"
               "  input n: i32[b]\n" +
               more + "  let r = " + expression +
               "\n  output r\n"
               "  minimize sum(x) + sum(y) + 0 * sum(f32(r))\n"
               "}\n");
  return e
      .output(
          "r",
          {{"x", {1, 2, 3, 4, 5, 6}}, {"y", {10, 20, 30}}, {"n", {0, 1, -1}}})
      .values;
}

TEST(Operations, Arithmetic) {
  expectNear(valueOf("x + y"), {11, 22, 33, 14, 25, 36});
  expectNear(valueOf("y - x"), {9, 18, 27, 6, 15, 24});
  expectNear(valueOf("-x * 2 + 1"), {-1, -3, -5, -7, -9, -11});
  expectNear(valueOf("1 / y"), {0.1, 0.05, 1.0 / 30});
  expectNear(valueOf("y ** 2"), {100, 400, 900});
  expectNear(valueOf("y ** 3"), {1000, 8000, 27000});
  expectNear(valueOf("y ** 0.5"),
             {std::sqrt(10), std::sqrt(20), std::sqrt(30)});
  expectNear(valueOf("y ** -0.5"),
             {1 / std::sqrt(10), 1 / std::sqrt(20), 1 / std::sqrt(30)});
  expectNear(valueOf("pow(y, 1.5)"),
             {std::pow(10, 1.5), std::pow(20, 1.5), std::pow(30, 1.5)});
  expectNear(valueOf("2 ** f32(n)"), {1, 2, 0.5});
  expectNear(valueOf("n * 2 + 1"), {1, 3, -1});
  expectNear(valueOf("-n"), {0, -1, 1});
  expectNear(valueOf("i32(y / 7)"), {1, 2, 4});
  expectNear(valueOf("maximum(y, 15) + minimum(y, 25)"), {25, 40, 55});
}

TEST(Operations, Comparison) {
  auto as01 = [](const std::string &condition) {
    return valueOf("where(" + condition + ", 1.0, 0.0)");
  };
  expectNear(as01("y > 20"), {0, 0, 1});
  expectNear(as01("y >= 20"), {0, 1, 1});
  expectNear(as01("y < 20"), {1, 0, 0});
  expectNear(as01("y <= 20"), {1, 1, 0});
  expectNear(as01("n == 1"), {0, 1, 0});
  expectNear(as01("n != 1"), {1, 0, 1});
  expectNear(as01("n >= 0 and not (y == 10) or n == -1"), {0, 1, 1});
  // A condition with fewer dims is repeated, in the order of the values.
  expectNear(valueOf("where(n == 0, x, 0)"), {1, 0, 0, 4, 0, 0});
  expectNear(as01("index(b) >= index(c)"), {1, 0, 0, 1, 1, 0, 1, 1, 1});
}

TEST(Operations, Functions) {
  auto check = [](const std::string &name, double (*f)(double)) {
    expectNear(valueOf(name + "(y / 20)"), {f(0.5), f(1.0), f(1.5)});
    // The same of a constant.
    expectNear(valueOf(name + "(0.5) + 0 * y"), {f(0.5), f(0.5), f(0.5)});
  };
  check("exp", [](double x) { return std::exp(x); });
  check("log", [](double x) { return std::log(x); });
  check("sqrt", [](double x) { return std::sqrt(x); });
  check("rsqrt", [](double x) { return 1 / std::sqrt(x); });
  check("sin", [](double x) { return std::sin(x); });
  check("cos", [](double x) { return std::cos(x); });
  check("tanh", [](double x) { return std::tanh(x); });
  check("erf", [](double x) { return std::erf(x); });
  check("gelu",
        [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; });
  check("silu", [](double x) { return x / (1 + std::exp(-x)); });
  check("sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); });
  expectNear(valueOf("relu(y - 20)"), {0, 0, 10});
  expectNear(valueOf("abs(y - 20)"), {10, 0, 10});
  expectNear(valueOf("stop_gradient(y)"), {10, 20, 30});
}

TEST(Operations, Reductions) {
  expectNear(valueOf("sum(x, over: b)"), {6, 15});
  expectNear(valueOf("mean(x, over: [a])"), {2.5, 3.5, 4.5});
  expectNear(valueOf("mean(x)"), {3.5});
  expectNear(valueOf("max(x, over: b)"), {3, 6});
  expectNear(valueOf("min(x, over: ab)"), {1});
  expectNear(valueOf("sum(n)"), {0});
  expectNear(valueOf("logsumexp(x, over: b)"),
             {std::log(std::exp(1) + std::exp(2) + std::exp(3)),
              std::log(std::exp(4) + std::exp(5) + std::exp(6))});
  expectNear(valueOf("cumsum(x, over: b)"), {1, 3, 6, 4, 9, 15});
  expectNear(valueOf("cumsum(x, over: a)"), {1, 2, 3, 5, 7, 9});
  double total = std::exp(-2) + std::exp(-1) + 1;
  expectNear(valueOf("softmax(x, over: b)"),
             {std::exp(-2) / total, std::exp(-1) / total, 1 / total,
              std::exp(-2) / total, std::exp(-1) / total, 1 / total});
  expectNear(valueOf("dot(x, y, over: b)"), {140, 320});
  expectNear(valueOf("dot(x, x, over: ab)"), {91});
  expectNear(valueOf("dot(x, rename(x, b: c), over: a)"),
             {17, 22, 27, 22, 29, 36, 27, 36, 45});
}

TEST(Operations, Lookups) {
  // y[i] by n; an id outside the table gives zero.
  expectNear(valueOf("lookup(rename(y, b: c), c: n)"), {10, 20, 0});
  expectNear(valueOf("lookup(rename(x, b: c), c: n)"), {1, 4, 2, 5, 0, 0});
  expectNear(valueOf("pick(rename(x, b: c), c: n)"), {1, 2, 0, 4, 5, 0});
}

TEST(Operations, Shapes) {
  expectNear(valueOf("index(b)"), {0, 1, 2});
  expectNear(valueOf("index(ab)"), {0, 1, 2, 3, 4, 5});
  expectNear(valueOf("y * size(ab)"), {60, 120, 180});
  expectNear(valueOf("merge(split(x, ab), ab)"), {1, 2, 3, 4, 5, 6});
  expectNear(valueOf("slice(y, b: 1 .. 3, to: two)"), {20, 30});
  expectNear(valueOf("slice(y, b: .. 2, to: two)"), {10, 20});
  expectNear(valueOf("concat(slice(y, b: 1 .. , to: two), y, "
                     "over: [two, b], to: five)"),
             {20, 30, 10, 20, 30});
  expectNear(valueOf("concat(y, y, over: b, to: six)"),
             {10, 20, 30, 10, 20, 30});
  expectNear(valueOf("stack(y, y + 1, over: two)"), {10, 20, 30, 11, 21, 31});
  expectNear(valueOf("p - q", "  let p, q = unstack(x, over: a)\n"),
             {-3, -3, -3});
  expectNear(valueOf("unstack(x, over: a)[1]"), {4, 5, 6});
  expectNear(valueOf("zeros([a]) + ones(dims: a) + full(2.5, like: x, "
                     "without: b)"),
             {3.5, 3.5});
}

TEST(Operations, Random) {
  Elaborated e("model m() {\n"
               "  dim row = 2000\n"
               "  param w: f32[row] ~ ones\n"
               "  let u = uniform(2, 4, like: w)\n"
               "  let z = normal([row], 2, 1)\n"
               "  let d = dropout(w, 0.25)\n"
               "  let d2 = dropout(w, rate: 0.25) as again\n"
               "  output u, z, d, d2\n"
               "  minimize mean(w)\n"
               "}\n");
  Elaborated::Values values = {{"w", std::vector<double>(2000, 1)}};
  auto moments = [](const std::vector<double> &v) {
    double mean = 0, square = 0;
    for (double x : v) {
      mean += x / static_cast<double>(v.size());
      square += x * x / static_cast<double>(v.size());
    }
    return std::pair(mean, std::sqrt(square - mean * mean));
  };
  auto results = e.run("loss", values);
  auto [uniformMean, uniformDeviation] = moments(results[1].values);
  EXPECT_NEAR(uniformMean, 3, 0.05);
  EXPECT_NEAR(uniformDeviation, 2 / std::sqrt(12), 0.05);
  auto [normalMean, normalDeviation] = moments(results[2].values);
  EXPECT_NEAR(normalMean, 1, 0.2);
  EXPECT_NEAR(normalDeviation, 2, 0.15);
  auto [keptMean, keptDeviation] = moments(results[3].values);
  EXPECT_NEAR(keptMean, 1, 0.05);
  for (double x : results[3].values) {
    EXPECT_TRUE(x == 0 || std::fabs(x - 4.0 / 3) < 1e-6) << x;
  }
  EXPECT_NE(results[3].values, results[4].values) << "two sites";
  // Another step, other numbers.
  auto later = values;
  later["step"] = {2};
  EXPECT_NE(e.run("loss", later)[3].values, results[3].values);
  // Nothing is dropped when evaluating.
  EXPECT_EQ(e.output("d", values).values, values["w"]);
}

} // namespace
