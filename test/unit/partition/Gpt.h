//===- Gpt.h - A transformer of any size, built in memory -------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_PARTITION_GPT_H
#define CLEAVE_TEST_UNIT_PARTITION_GPT_H

#include "compiler/differentiate/Differentiate.h"
#include "compiler/reference/Reference.h"
#include "dialects/clv/Clv.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <random>

namespace cleave::test {

struct GptSizes {
  int64_t layers = 2, embed = 8, heads = 4, key = 2, ff = 12, vocab = 10,
          batch = 4, seq = 6;
  bool clip = false;
  bool dropout = false;
  bool shared = false; ///< a parameter that all layers read
};

/// A decoder with a tied embedding and nine parameters a layer: qkv in one,
/// output, up, down, gains and shifts of two norms, one bias. Adam without
/// bias correction. @loss, @train (with gradients) in a module.
class Gpt {
public:
  Gpt(mlir::MLIRContext &context, const GptSizes &sizes, bool probe = true)
      : context(context), sizes(sizes), builder(&context),
        loc(mlir::FileLineColLoc::get(&context, "gpt.clv", 1, 1)) {
    context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
    module = mlir::ModuleOp::create(loc);
    build();
    StepOptions options;
    options.probe = probe;
    ok = mlir::succeeded(buildStep(*module, options));
    decompose(*module);
    simplify(*module);
    ok = ok && mlir::succeeded(mlir::verify(*module));
  }

  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }

  /// Numbers for each argument of a function on global types.
  static std::vector<reference::Tensor> arguments(mlir::func::FuncOp function,
                                                  int64_t vocab) {
    std::mt19937 random(7);
    std::vector<reference::Tensor> tensors;
    for (mlir::BlockArgument argument : function.getArguments()) {
      auto type = llvm::cast<mlir::RankedTensorType>(argument.getType());
      auto role = function.getArgAttrOfType<mlir::StringAttr>(
          argument.getArgNumber(), "clv.role");
      reference::Tensor tensor;
      tensor.shape.assign(type.getShape().begin(), type.getShape().end());
      for (int64_t i = 0; i < type.getNumElements(); ++i) {
        double unit = static_cast<double>(random()) / 4294967296.0;
        double value = 0.5 * (unit - 0.5);
        if (type.getElementType().isInteger(32)) {
          value = type.getRank() == 0
                      ? 3
                      : static_cast<double>(static_cast<int64_t>(
                            unit * static_cast<double>(vocab)));
        } else if (role && role.getValue() == "optimizer") {
          value = 0.1 + 0.1 * unit;
        }
        tensor.values.push_back(value);
      }
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  mlir::MLIRContext &context;
  GptSizes sizes;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  bool ok = false;

private:
  using Value = mlir::Value;
  using Names = llvm::SmallVector<llvm::StringRef>;

  struct Param {
    std::string path;
    mlir::RankedTensorType type; ///< stacked where in a layer
  };

  int64_t sizeOf(llvm::StringRef dim) const {
    return llvm::StringSwitch<int64_t>(dim)
        .Case("layer", sizes.layers)
        .Case("embed", sizes.embed)
        .Case("head", sizes.heads)
        .Case("key", sizes.key)
        .Case("ff", sizes.ff)
        .Case("vocab", sizes.vocab)
        .Case("batch", sizes.batch)
        .Cases("seq", "keys", sizes.seq)
        .Case("part", 3);
  }
  mlir::RankedTensorType type(const Names &dims, bool isInteger = false) {
    llvm::SmallVector<int64_t> extents;
    for (llvm::StringRef dim : dims) {
      extents.push_back(sizeOf(dim));
    }
    mlir::Type element = isInteger ? mlir::Type(builder.getI32Type())
                                   : mlir::Type(builder.getF32Type());
    return clv::tensorType(element, dims, extents);
  }
  clv::ScopeAttr scope(llvm::StringRef path, llvm::StringRef label = "") {
    return clv::ScopeAttr::get(
        &context, clv::Role::Activations, clv::Phase::Forward, path,
        label.empty() ? mlir::StringAttr() : builder.getStringAttr(label),
        mlir::StringAttr());
  }
  clv::Build in(llvm::StringRef path) {
    return clv::Build(builder, loc, scope(path));
  }
  Value weight(Value param, llvm::StringRef path, llvm::StringRef reader) {
    clv::Build build(builder, loc,
                     clv::ScopeAttr::get(&context, clv::Role::Weights,
                                         clv::Phase::Forward, path,
                                         mlir::StringAttr(),
                                         builder.getStringAttr(reader)));
    return build.weight(param);
  }

  void build() {
    builder.setInsertionPointToEnd(module->getBody());
    params = {{"embedding/table", type({"vocab", "embed"})}};
    auto layer = [&](llvm::StringRef path, Names dims) {
      dims.insert(dims.begin(), "layer");
      params.push_back({"layer/" + path.str(), type(dims)});
    };
    layer("norm1/gain", {"embed"});
    layer("norm1/shift", {"embed"});
    layer("attention/wqkv", {"embed", "part", "head", "key"});
    layer("attention/wo", {"head", "key", "embed"});
    layer("norm2/gain", {"embed"});
    layer("norm2/shift", {"embed"});
    layer("mlp/up", {"embed", "ff"});
    layer("mlp/down", {"ff", "embed"});
    layer("mlp/bias", {"ff"});
    if (sizes.shared) {
      params.push_back({"shared", type({"embed"})});
    }

    llvm::SmallVector<mlir::Type> types = {type({"batch", "seq"}, true),
                                           type({"batch", "seq"}, true)};
    for (const Param &param : params) {
      types.push_back(param.type);
    }
    mlir::Type scalar = mlir::RankedTensorType::get({}, builder.getI32Type());
    types.append({scalar, scalar});
    mlir::Type loss = mlir::RankedTensorType::get({}, builder.getF32Type());
    auto function = builder.create<mlir::func::FuncOp>(
        loc, "loss", builder.getFunctionType(types, loss));
    auto mark = [&](unsigned index, llvm::StringRef role,
                    llvm::StringRef path) {
      function.setArgAttr(index, "clv.role", builder.getStringAttr(role));
      if (!path.empty()) {
        function.setArgAttr(index, "clv.path", builder.getStringAttr(path));
      }
    };
    mark(0, "input", "ids");
    mark(1, "input", "labels");
    unsigned count = params.size();
    for (unsigned i = 0; i < count; ++i) {
      mark(2 + i, "param", params[i].path);
    }
    mark(2 + count, "seed", "");
    mark(3 + count, "step", "");
    mlir::Block *body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    Value result = forward(body->getArguments());
    builder.create<mlir::func::ReturnOp>(loc, result);
    for (unsigned i = 0; i < count; ++i) {
      update(i);
    }
    if (sizes.clip) {
      (*module)->setAttr("clv.clip", builder.getF64FloatAttr(0.05));
    }
  }

  Value norm(Value x, Value gain, Value shift, llvm::StringRef name) {
    std::string path = "layer/" + name.str();
    clv::Build b = in(path);
    Value inside = b.edge(x, path);
    Value scale = b.constant(1.0 / static_cast<double>(sizes.embed));
    Value mean = b.mul(b.reduce(clv::Reduction::Sum, inside, {"embed"}), scale);
    Value centred = b.sub(inside, mean);
    Value variance =
        b.mul(b.reduce(clv::Reduction::Sum, b.mul(centred, centred), {"embed"}),
              scale);
    Value inverse = b.elementwise(clv::Elementwise::Rsqrt,
                                  b.add(variance, b.constant(1e-5)));
    Value normal = b.mul(centred, inverse);
    Value out = b.add(b.mul(normal, weight(gain, path + "/gain", path)),
                      weight(shift, path + "/shift", path));
    return in("layer").edge(out, path);
  }

  Value attention(Value x, Value wqkv, Value wo) {
    const char *path = "layer/attention";
    clv::Build b = in(path);
    Value inside = b.edge(x, path);
    Value qkv =
        b.dot(inside, weight(wqkv, "layer/attention/wqkv", path), {"embed"});
    auto part = [&](int64_t at) {
      Value one = b.slice(qkv, "part", "one", at, 1);
      return b.reduce(clv::Reduction::Sum, one, {"one"});
    };
    Value q = part(0), k = b.rename(part(1), "seq", "keys"),
          v = b.rename(part(2), "seq", "keys");
    Value scores =
        b.mul(b.dot(q, k, {"key"}),
              b.constant(1.0 / std::sqrt(static_cast<double>(sizes.key))));
    Value mask =
        b.elementwise(clv::Elementwise::LessEqual,
                      {b.index("keys", sizes.seq), b.index("seq", sizes.seq)});
    Value masked = b.select(mask, scores, b.constant(-1e30));
    Value p = b.softmax(masked, {"keys"});
    Value mixed = b.dot(p, v, {"keys"});
    Value out =
        b.dot(mixed, weight(wo, "layer/attention/wo", path), {"head", "key"});
    return in("layer").edge(out, path);
  }

  Value mlp(Value x, Value up, Value down, Value bias) {
    const char *path = "layer/mlp";
    clv::Build b = in(path);
    Value inside = b.edge(x, path);
    Value h = b.add(b.dot(inside, weight(up, "layer/mlp/up", path), {"embed"}),
                    weight(bias, "layer/mlp/bias", path));
    Value g = b.elementwise(clv::Elementwise::Gelu, h);
    Value out = b.dot(g, weight(down, "layer/mlp/down", path), {"ff"});
    return in("layer").edge(out, path);
  }

  Value forward(mlir::Block::BlockArgListType arguments) {
    clv::Build top = in(""), embedding = in("embedding");
    Value table = weight(arguments[2], params[0].path, "embedding");
    Value x =
        top.edge(embedding.lookup(table, arguments[0], "vocab"), "embedding");
    llvm::SmallVector<Value> stacked(arguments.begin() + 3,
                                     arguments.begin() + 12);
    mlir::OperationState state(loc, "clv.repeat");
    state.addOperands(x);
    state.addOperands(stacked);
    state.addTypes(x.getType());
    state.addAttribute("dim", builder.getStringAttr("layer"));
    state.addAttribute("count", builder.getI64IntegerAttr(sizes.layers));
    state.addAttribute("first", builder.getI64IntegerAttr(0));
    state.addAttribute("operandSegmentSizes",
                       builder.getDenseI32ArrayAttr(
                           {1, static_cast<int32_t>(stacked.size())}));
    state.addRegion();
    auto repeat = mlir::cast<clv::RepeatOp>(builder.create(state));
    clv::setScope(repeat, scope(""));
    mlir::Block *body = &repeat.getBody().emplaceBlock();
    body->addArgument(mlir::RankedTensorType::get({}, builder.getI32Type()),
                      loc);
    body->addArgument(x.getType(), loc);
    for (Value stack : stacked) {
      auto full = llvm::cast<mlir::RankedTensorType>(stack.getType());
      Names dims = clv::dimsOf(full);
      dims.erase(dims.begin());
      body->addArgument(type(dims), loc);
    }
    {
      mlir::OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(body);
      auto p = [&](unsigned i) { return body->getArgument(2 + i); };
      Value y = body->getArgument(1);
      Value a = attention(norm(y, p(0), p(1), "norm1"), p(2), p(3));
      if (sizes.dropout) {
        clv::Build b = in("layer");
        auto aType = llvm::cast<mlir::RankedTensorType>(a.getType());
        auto random = builder.create<clv::RandomOp>(
            loc, aType, arguments[2 + params.size()],
            arguments[3 + params.size()], body->getArgument(0), "layer/drop");
        clv::setScope(random, scope("layer"));
        Value keep = b.elementwise(clv::Elementwise::Less,
                                   {b.constant(0.25), random.getResult()});
        a = b.select(keep, a, b.constant(0));
      }
      y = in("layer").add(y, a);
      Value m = mlp(norm(y, p(4), p(5), "norm2"), p(6), p(7), p(8));
      y = in("layer").add(y, m);
      if (sizes.shared) {
        y = in("layer").mul(y, weight(arguments[12], "shared", "layer"));
      }
      builder.create<clv::YieldOp>(loc, y);
    }
    clv::Build b = in("output");
    Value inside = b.edge(repeat.getResult(0), "output");
    Value logits = b.dot(inside, weight(arguments[2], params[0].path, "output"),
                         {"embed"});
    Value hit = b.elementwise(clv::Elementwise::Equal,
                              {arguments[1], b.index("vocab", sizes.vocab)});
    Value at = b.reduce(clv::Reduction::Sum,
                        b.select(hit, logits, b.constant(0)), {"vocab"});
    Value each = b.sub(b.logsumexp(logits, {"vocab"}), at);
    Value sum = b.reduce(clv::Reduction::Sum, each, {"batch", "seq"});
    return b.mul(
        sum, b.constant(1.0 / static_cast<double>(sizes.batch * sizes.seq)));
  }

  void update(unsigned index) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(module->getBody());
    const Param &param = params[index];
    mlir::Type scalar = mlir::RankedTensorType::get({}, builder.getI32Type());
    mlir::Type t = param.type;
    auto function = builder.create<mlir::func::FuncOp>(
        loc, "update." + std::to_string(index),
        builder.getFunctionType({t, t, t, t, scalar}, {t, t, t}));
    function.setPrivate();
    function->setAttr("clv.param", builder.getStringAttr(param.path));
    function.setArgAttr(2, "clv.state", builder.getStringAttr("first"));
    function.setArgAttr(3, "clv.state", builder.getStringAttr("second"));
    mlir::Block *body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    clv::Build b(builder, loc,
                 clv::ScopeAttr::get(&context, clv::Role::Optimizer,
                                     clv::Phase::Update, param.path,
                                     mlir::StringAttr(), mlir::StringAttr()));
    Value p = body->getArgument(0), g = body->getArgument(1);
    Value first = b.add(b.mul(b.constant(0.9), body->getArgument(2)),
                        b.mul(b.constant(0.1), g));
    Value second = b.add(b.mul(b.constant(0.95), body->getArgument(3)),
                         b.mul(b.constant(0.05), b.mul(g, g)));
    Value direction =
        b.div(first, b.add(b.elementwise(clv::Elementwise::Sqrt, second),
                           b.constant(1e-3)));
    Value next = b.sub(p, b.mul(b.constant(0.01),
                                b.add(direction, b.mul(b.constant(0.1), p))));
    builder.create<mlir::func::ReturnOp>(loc,
                                         mlir::ValueRange{next, first, second});
  }

  mlir::OpBuilder builder;
  mlir::Location loc;
  std::vector<Param> params;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PARTITION_GPT_H
