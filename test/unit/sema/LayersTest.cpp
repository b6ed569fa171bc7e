// The layers of stdlib/nn.clv against plain loops.
#include "Harness.h"

using namespace cleave::test;

namespace {

// A three-index view of a flat array: rows of the last dims.
double at(const std::vector<double> &v, std::initializer_list<int> index,
          std::initializer_list<int> shape) {
  int64_t flat = 0;
  auto size = shape.begin();
  for (int i : index) {
    flat = flat * *size++ + i;
  }
  return v[flat];
}

TEST(Layers, Norms) {
  Elaborated e("use std.nn\n"
               "model m() {\n"
               "  dim row = 3, embed = 4\n"
               "  param x: f32[row, embed] ~ zeros\n"
               "  let a = nn.norm(x)\n"
               "  let b = nn.shifted_norm(x)\n"
               "  let c = nn.rmsnorm(x)\n"
               "  output a, b, c\n"
               "  minimize mean(a + b + c)\n"
               "}\n");
  auto x = e.sequence("x", 12), g = e.sequence("norm/gain", 4),
       h = e.sequence("shifted_norm/gain", 4),
       s = e.sequence("shifted_norm/shift", 4),
       r = e.sequence("rmsnorm/gain", 4);
  std::vector<double> a, b, c;
  for (int i = 0; i < 3; ++i) {
    double mean = 0, variance = 0, square = 0;
    for (int j = 0; j < 4; ++j) {
      mean += x[i * 4 + j] / 4;
      square += x[i * 4 + j] * x[i * 4 + j] / 4;
    }
    for (int j = 0; j < 4; ++j) {
      variance += (x[i * 4 + j] - mean) * (x[i * 4 + j] - mean) / 4;
    }
    for (int j = 0; j < 4; ++j) {
      double n = (x[i * 4 + j] - mean) / std::sqrt(variance + 1e-5);
      a.push_back(n * g[j]);
      b.push_back(n * h[j] + s[j]);
      c.push_back(x[i * 4 + j] / std::sqrt(square + 1e-5) * r[j]);
    }
  }
  expectNear(e.output("a").values, a);
  expectNear(e.output("b").values, b);
  expectNear(e.output("c").values, c);
}

// Causal attention with grouped queries, by loops. Shapes: x[B, S, E],
// wq[E, V, G, K], wk and wv[E, V, K], wo[V, G, K, E]; `turn` is applied to
// queries and keys at a position.
constexpr int B = 2, S = 3, E = 4, V = 2, G = 3, K = 4;
using Turn = std::function<void(std::vector<double> &, int)>;
std::vector<double> attention(const std::vector<double> &x,
                              const std::vector<double> &wq,
                              const std::vector<double> &wk,
                              const std::vector<double> &wv,
                              const std::vector<double> &wo, const Turn &turn) {
  std::vector<double> result(B * S * E);
  for (int b = 0; b < B; ++b) {
    for (int v = 0; v < V; ++v) {
      for (int g = 0; g < G; ++g) {
        for (int s = 0; s < S; ++s) {
          std::vector<double> q(K);
          for (int k = 0; k < K; ++k) {
            for (int e = 0; e < E; ++e) {
              q[k] += at(x, {b, s, e}, {B, S, E}) *
                      at(wq, {e, v, g, k}, {E, V, G, K});
            }
          }
          turn(q, s);
          std::vector<double> weight(s + 1), context(K);
          double total = 0;
          for (int t = 0; t <= s; ++t) {
            std::vector<double> key(K);
            for (int k = 0; k < K; ++k) {
              for (int e = 0; e < E; ++e) {
                key[k] +=
                    at(x, {b, t, e}, {B, S, E}) * at(wk, {e, v, k}, {E, V, K});
              }
            }
            turn(key, t);
            for (int k = 0; k < K; ++k) {
              weight[t] += q[k] * key[k] / std::sqrt(K);
            }
            weight[t] = std::exp(weight[t]);
            total += weight[t];
          }
          for (int t = 0; t <= s; ++t) {
            for (int k = 0; k < K; ++k) {
              for (int e = 0; e < E; ++e) {
                context[k] += weight[t] / total * at(x, {b, t, e}, {B, S, E}) *
                              at(wv, {e, v, k}, {E, V, K});
              }
            }
          }
          for (int k = 0; k < K; ++k) {
            for (int e = 0; e < E; ++e) {
              result[(b * S + s) * E + e] +=
                  context[k] * at(wo, {v, g, k, e}, {V, G, K, E});
            }
          }
        }
      }
    }
  }
  return result;
}

const char *attentionModel = "use std.nn\n"
                             "model m() {\n"
                             "  dim batch = 2, seq = 3, keys = 3, embed = 4,\n"
                             "      kv = 2, group = 3, head of kv * group,\n"
                             "      key = 4,\n"
                             "      qkv of q: head * key + k: kv * key\n"
                             "             + v: kv * key\n"
                             "  param x: f32[batch, seq, embed] ~ zeros\n"
                             "  let y = nn.CALL(x) as layer\n"
                             "  output y\n"
                             "  minimize mean(y)\n"
                             "}\n";

std::string replaced(std::string text, const std::string &from,
                     const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Layers, Attention) {
  Elaborated e(replaced(attentionModel, "CALL", "attention"));
  auto wanted = attention(
      e.sequence("x", B * S * E), e.sequence("layer/wq", E * V * G * K),
      e.sequence("layer/wk", E * V * K), e.sequence("layer/wv", E * V * K),
      e.sequence("layer/wo", V * G * K * E), [](std::vector<double> &, int) {});
  expectNear(e.output("y").values, wanted);
}

TEST(Layers, PackedAttention) {
  Elaborated e(replaced(attentionModel, "CALL", "packed_attention"));
  ASSERT_EQ(e.model->leaves.size(), 5u);
  EXPECT_EQ(e.model->leaves[1].path, "layer/wqkv.q");
  EXPECT_EQ(e.model->leaves[3].path, "layer/wqkv.v");
  auto wanted = attention(
      e.sequence("x", B * S * E), e.sequence("layer/wqkv.q", E * V * G * K),
      e.sequence("layer/wqkv.k", E * V * K),
      e.sequence("layer/wqkv.v", E * V * K),
      e.sequence("layer/wo", V * G * K * E), [](std::vector<double> &, int) {});
  expectNear(e.output("y").values, wanted);
}

TEST(Layers, RotaryAttention) {
  std::string text = replaced(attentionModel, "CALL", "rotary_attention");
  text = replaced(text, "key = 4", "pair = 2, half = 2, key of pair * half");
  Elaborated e(text);
  // Element k of `key` is [pair, half] major first: a pair is (h, h + 2).
  auto turn = [](std::vector<double> &v, int position) {
    for (int h = 0; h < 2; ++h) {
      double angle = position * std::pow(10000.0, -h / 2.0);
      double a = v[h], b = v[2 + h];
      v[h] = a * std::cos(angle) - b * std::sin(angle);
      v[2 + h] = b * std::cos(angle) + a * std::sin(angle);
    }
  };
  auto wanted = attention(
      e.sequence("x", B * S * E), e.sequence("layer/wq", E * V * G * K),
      e.sequence("layer/wk", E * V * K), e.sequence("layer/wv", E * V * K),
      e.sequence("layer/wo", V * G * K * E), turn);
  expectNear(e.output("y").values, wanted, 1e-5);
}

TEST(Layers, FeedForward) {
  Elaborated e("use std.nn\n"
               "model m() {\n"
               "  dim row = 2, embed = 3, ff = 4\n"
               "  param x: f32[row, embed] ~ zeros\n"
               "  let a = nn.mlp(x)\n"
               "  let b = nn.swiglu(x)\n"
               "  let c = nn.linear(x, from: embed, to: ff)\n"
               "  let d = nn.affine(x, from: embed, to: ff)\n"
               "  output a, b, c, d\n"
               "  minimize mean(a + b) + mean(c + d)\n"
               "}\n");
  auto x = e.sequence("x", 6);
  auto product = [](const std::vector<double> &a, const std::vector<double> &b,
                    int rows, int inner, int columns) {
    std::vector<double> c(rows * columns);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        for (int k = 0; k < inner; ++k) {
          c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
        }
      }
    }
    return c;
  };
  auto hidden = product(x, e.sequence("mlp/up", 12), 2, 3, 4);
  for (double &h : hidden) {
    h = h * (1 + std::erf(h / std::sqrt(2.0))) / 2;
  }
  expectNear(e.output("a").values,
             product(hidden, e.sequence("mlp/down", 12), 2, 4, 3));
  auto gate = product(x, e.sequence("swiglu/gate", 12), 2, 3, 4);
  auto up = product(x, e.sequence("swiglu/up", 12), 2, 3, 4);
  for (size_t i = 0; i < gate.size(); ++i) {
    gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  }
  expectNear(e.output("b").values,
             product(gate, e.sequence("swiglu/down", 12), 2, 4, 3));
  auto linear = product(x, e.sequence("linear/weight", 12), 2, 3, 4);
  expectNear(e.output("c").values, linear);
  auto affine = product(x, e.sequence("affine/weight", 12), 2, 3, 4);
  auto bias = e.sequence("affine/bias", 4);
  for (int i = 0; i < 8; ++i) {
    affine[i] += bias[i % 4];
  }
  expectNear(e.output("d").values, affine);
}

TEST(Layers, CrossEntropy) {
  Elaborated e(
      "use std.nn\n"
      "model m() {\n"
      "  dim row = 3, vocab = 4\n"
      "  input labels: i32[row]\n"
      "  param logits: f32[row, vocab] ~ zeros\n"
      "  let plain = nn.cross_entropy(logits, labels, over: vocab)\n"
      "  let smooth = nn.cross_entropy(logits, labels, over: vocab,\n"
      "                                smoothing: 0.1)\n"
      "  let valid = nn.mean_cross_entropy(logits, labels, over: vocab)\n"
      "  output plain, smooth, valid\n"
      "  minimize mean(plain + smooth)\n"
      "}\n");
  EXPECT_EQ(e.model->inputs[0].bound, 4);
  Elaborated::Values values = {{"labels", {2, -1, 0}}};
  auto logits = e.sequence("logits", 12);
  std::vector<double> plain, smooth;
  for (int i = 0; i < 3; ++i) {
    double total = 0, mean = 0;
    for (int j = 0; j < 4; ++j) {
      total += std::exp(logits[i * 4 + j]);
      mean += logits[i * 4 + j] / 4;
    }
    int label = static_cast<int>(values["labels"][i]);
    double wanted = label < 0 ? 0 : logits[i * 4 + label];
    plain.push_back(label < 0 ? 0 : std::log(total) - wanted);
    smooth.push_back(label < 0 ? 0
                               : std::log(total) - 0.9 * wanted - 0.1 * mean);
  }
  expectNear(e.output("plain", values).values, plain);
  expectNear(e.output("smooth", values).values, smooth);
  expectNear(e.output("valid", values).values, {(plain[0] + plain[2]) / 2});
  values["labels"] = {-1, -1, -1};
  expectNear(e.output("valid", values).values, {0});
}

} // namespace
