// Runs small models in the reference, with values by path.
#pragma once

#include "compiler/reference/Reference.h"
#include "lang/sema/Elaborate.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace cleave::test {

// A source text, elaborated; and the functions of its module.
class Elaborated {
public:
  using Tensor = reference::Tensor;
  using Values = std::map<std::string, std::vector<double>>;

  explicit Elaborated(const std::string &text, const std::string &runName = "")
      : context(mlir::MLIRContext::Threading::DISABLED), diags(sources) {
    program = loadText("test.clv", text, {{CLEAVE_SOURCE_DIR "/stdlib"}},
                       sources, diags);
    if (program) {
      sema::ElaborateOptions options;
      options.model = sema::modelsOf(*program).back()->name.text;
      for (const auto &decl : program->root().decls) {
        if (auto *run = ast::dynCast<ast::RunDecl>(decl)) {
          for (const auto &call : run->with) {
            options.with.push_back(call.get());
          }
        }
      }
      model = sema::elaborateModel(*program, options, context, diags);
    }
    EXPECT_TRUE(model) << diags.text();
  }

  mlir::func::FuncOp function(llvm::StringRef name) {
    if (!model) {
      return {};
    }
    return model->module->lookupSymbol<mlir::func::FuncOp>(name);
  }

  // The results of a function. An argument's values are those of its path, of
  // its role for others ("gradient"), or of its state; absent ones are drawn
  // from a simple sequence, the same for a path in every call.
  std::vector<Tensor> run(llvm::StringRef name, const Values &values = {}) {
    mlir::func::FuncOp f = function(name);
    EXPECT_TRUE(f) << name.str();
    if (!f) {
      return std::vector<Tensor>(8);
    }
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < f.getNumArguments(); ++i) {
      auto type =
          mlir::cast<mlir::RankedTensorType>(f.getArgument(i).getType());
      Tensor tensor;
      tensor.shape.assign(type.getShape().begin(), type.getShape().end());
      std::string key = keyOf(f, i);
      if (auto it = values.find(key); it != values.end()) {
        EXPECT_EQ(static_cast<int64_t>(it->second.size()),
                  type.getNumElements())
            << key;
        tensor.values = it->second;
      } else if (key == "seed" || key == "step") {
        tensor.values = {1};
      } else {
        tensor.values = sequence(key, type.getNumElements());
      }
      arguments.push_back(std::move(tensor));
    }
    auto results = reference::evaluate(f, arguments);
    EXPECT_TRUE(static_cast<bool>(results));
    return results ? *results : std::vector<Tensor>();
  }

  // The output of that name, of @eval.
  Tensor output(const std::string &name, const Values &values = {}) {
    std::vector<Tensor> results = run("eval", values);
    for (size_t i = 0; model && i < model->outputs.size(); ++i) {
      if (model->outputs[i] == name) {
        return results[i + 1];
      }
    }
    ADD_FAILURE() << "no output " << name;
    return {};
  }

  // Numbers in about [-1, 1] that depend on the name.
  static std::vector<double> sequence(const std::string &name, int64_t count) {
    double phase = 0;
    for (char c : name) {
      phase = phase * 1.7 + c;
    }
    std::vector<double> result;
    for (int64_t i = 0; i < count; ++i) {
      result.push_back(std::sin(phase + 1.3 * static_cast<double>(i * i) +
                                0.7 * static_cast<double>(i)));
    }
    return result;
  }

  mlir::MLIRContext context;
  SourceManager sources;
  DiagnosticEngine diags;
  std::unique_ptr<Program> program;
  std::unique_ptr<sema::Model> model;

private:
  static std::string keyOf(mlir::func::FuncOp f, unsigned i) {
    for (const char *attr : {"clv.path", "clv.state", "clv.role"}) {
      if (auto text = f.getArgAttrOfType<mlir::StringAttr>(i, attr)) {
        return text.str();
      }
    }
    return "";
  }
};

inline void expectNear(const std::vector<double> &found,
                       const std::vector<double> &wanted,
                       double tolerance = 1e-6) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], tolerance * (1 + std::fabs(wanted[i])))
        << "element " << i;
  }
}

} // namespace cleave::test
