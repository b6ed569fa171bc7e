// From the syntax tree of a model to its global program in the `clv` dialect.
//
// The module of a model holds
//   @loss     (inputs, params, seed, step) -> (loss, outputs...), to
//             differentiate;
//   @eval     the same values without dropout: what held-out text is scored by;
//   @forward  (the inputs that outputs need, params) -> (outputs...), without
//             dropout; absent where the model has no `output`;
//   @update.k one private function for each parameter leaf, where an optimizer
//             was given: (param, gradient, states..., step) -> (param,
//             states...).
// Functions other than @loss have `seed` and `step` only where they are used.
// Argument attributes: `clv.role` (input, param, seed, step, gradient,
// optimizer), `clv.path` (an input's name or a parameter's path), `clv.init`
// on params, `clv.state` on the states of updates. Result attributes:
// `clv.result` (loss, output) and, of outputs, `clv.path`. Module attributes:
// `clv.clip` (f64) where the run clips, `clv.compute` (a type) where its
// contractions multiply another type than f32, `clv.model` (its name).
//
// What MLIR types never show: products of dims stand as their factors, a value
// with a sum of dims is one value per part.
#pragma once

#include "lang/parse/Loader.h"
#include "lang/sema/Evaluate.h"
#include "layout/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cleave::sema {

enum class Element : uint8_t { F32, I32, Bool };

// How the elements of a leaf begin.
struct Init {
  enum class Kind : uint8_t {
    Constant, // a
    Normal,   // mean a, standard deviation b
    Uniform   // in [a, b)
  };
  Kind kind = Kind::Constant;
  double a = 0, b = 0;
};

// A tensor that is kept between steps: a parameter, or one optimizer state of
// a parameter.
struct LeafInfo {
  std::string path;              // of the parameter: `layer/attention/wq`
  std::string state;             // of an optimizer leaf: `first`; else empty
  std::vector<std::string> dims; // a repeated one's repeat first
  std::vector<int64_t> sizes;
  Element element = Element::F32;
  Init init;
  std::string repeatDim; // of the innermost repeat, or empty
  SourceRange range;     // where it is declared
};

struct InputInfo {
  std::string name;
  Element element = Element::I32;
  std::vector<std::string> dims;
  std::vector<int64_t> sizes;
  enum class Source : uint8_t { None, Tokens } source = Source::None;
  int64_t shift = 0; // of Tokens
  // The size of the dim that it indexes (by lookup, pick or the like); 0 where
  // that cannot be told. Ids are in [0, bound), or negative for ignored labels.
  int64_t bound = 0;
  SourceRange range;
};

// A region of the model: a `region` block, a call, or a repeat.
struct RegionInfo {
  std::string path;     // `layer/attention`
  std::string function; // of a call: `packed_attention`; else empty
};

struct Model {
  std::string name;
  std::vector<std::pair<std::string, Value>> parameters; // in order, resolved
  std::vector<layout::DimInfo> dims; // in the order of declaration
  std::vector<std::string> bounded;  // those declared with `up to`
  std::vector<LeafInfo> leaves;      // params, then optimizer leaves
  std::vector<InputInfo> inputs;
  std::vector<std::string> outputs;
  std::vector<RegionInfo> regions;          // each path once
  mlir::OwningOpRef<mlir::ModuleOp> module; // verified
};

// A parameter of the model set from outside: an argument of `reduced`, or
// `-D name=value` after parsing. The last one of a name stands. Expressions see
// the parameters before theirs.
struct Override {
  std::string name;
  const ast::Expr *value = nullptr;
  SourceRange range; // of the name
};

struct ElaborateOptions {
  std::string model;
  std::vector<Override> overrides;
  // After `with` in a run: an optimizer, `clip(limit)`, `precision(...)`.
  std::vector<const ast::CallExpr *> with;
  // Without an optimizer in `with`: `adamw(rate: 1e-4)`, which std.optim must
  // declare. Else a model without one has no updates.
  bool defaultOptimizer = false;
  // Sizes of dims that are declared with `up to`; without, they are as large as
  // they may be. At most that, and at least 1.
  std::map<std::string, int64_t> sizes;
};

// Null after errors were reported. Loads the dialects it needs.
std::unique_ptr<Model> elaborateModel(const Program &program,
                                      const ElaborateOptions &options,
                                      mlir::MLIRContext &context,
                                      DiagnosticEngine &diags);

// The overrides that `reduced MODEL(...)` declares; empty where there is none.
std::vector<Override> reducedOverrides(const Program &program,
                                       std::string_view model);

// All models of a program, the root's last.
std::vector<const ast::ModelDecl *> modelsOf(const Program &program);

// The regions and labels of all values of a module, each once, for selections:
// paths of regions, of parameters, and `path/label`.
std::vector<std::string> valuePaths(mlir::ModuleOp module);

} // namespace cleave::sema
