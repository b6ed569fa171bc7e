// The walk that turns a model's statements into operations. Internal to
// lang/sema; the entry point is Elaborate.h.
//
// Terms. A *node* is an instance of a region: of the model itself, a `region`
// block, a call of a function, or the body of a `repeat`. Nodes form a tree,
// and every name is bound to a value that lives in one node. Reading a name
// from another node passes the value through `clv.edge`s along the tree, once
// per node; bodies of repeats have no edges. A *frame* is what a function sees:
// its file, its dims and its names. A *scope* is a set of names: a frame's, or
// a repeat's inside it (regions are no scopes).
//
// Functions are expanded where they are called. Operations are always added at
// the end of their node's block, so a value made for a node (an edge, a weight)
// can be reused by everything that follows in it. The body of a repeat is a
// detached block until it is finished.
//
// After an error a name or value is of kind Error, and whatever reads it is
// silent, so that one run reports independent errors.
#pragma once

#include "dialects/clv/Clv.h"
#include "lang/sema/Declarations.h"
#include "lang/sema/Dims.h"
#include "lang/sema/Elaborate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <functional>
#include <map>
#include <set>

namespace cleave::sema {

using clv::Elementwise;
using Tensor = mlir::Value;
using Strings = std::vector<std::string>;

struct RegionNode {
  RegionNode *parent = nullptr;
  std::string path;      // of its region: `layer/attention`
  std::string function;  // of a call: `packed_attention`; for Model::regions
  std::string paramPath; // of its parameters: names the segment, where split
  mlir::Block *block = nullptr;
  bool isRepeat = false;
  Tensor index; // of a repeat
  int64_t count = 1, first = 0;
  std::string dim; // of a repeat
  // Of a detached repeat: what its stacked arguments are slices of.
  std::vector<Tensor> stacked;
  llvm::DenseMap<Tensor, Tensor> edges;   // values of other nodes, here
  llvm::DenseMap<Tensor, Tensor> weights; // parameters, as read here
  bool owns = false; // has parameters or draws random numbers
  // Steps of paths that own something below this node, and where.
  struct Step {
    SourceRange range;
    bool isCall = false;
  };
  std::map<std::string, Step> steps;
};

// What an expression gives.
struct Val {
  enum class Kind { Error, Constant, Tensor, Sum, Tuple } kind = Kind::Error;
  Value constant;
  sema::Tensor tensor;
  std::string sumDim; // of Sum: one tensor for each part
  std::vector<std::pair<std::string, sema::Tensor>> parts;
  std::vector<Val> items; // of Tuple

  static Val of(Value constant);
  static Val of(sema::Tensor tensor);
  bool isError() const { return kind == Kind::Error; }
  bool isTensor() const { return kind == Kind::Tensor; }
  bool isConstant() const { return kind == Kind::Constant; }
  bool isSum() const { return kind == Kind::Sum; }
  bool isTuple() const { return kind == Kind::Tuple; }
};

struct Binding {
  Val value;
  RegionNode *home = nullptr;
  bool isVar = false;
  std::string paramPath; // of a parameter: reading it makes weights
  SourceRange range;
};

struct Scope {
  Scope *parent = nullptr;
  std::map<std::string, Binding> bindings;
};

struct Frame {
  enum class Kind { Model, Fn, Optimizer } kind = Kind::Model;
  const ast::File *file = nullptr;
  const ast::FnDecl *fn = nullptr;         // of Fn
  std::map<std::string, std::string> dims; // local name -> the model's
  Scope *scope = nullptr;
  RegionNode *home = nullptr; // of its statements, outside region blocks
  bool returned = false;
  std::vector<Val> results;
  SourceRange returnRange;
};

// A call's arguments, sorted: by position, and by name.
struct Arguments {
  const ast::CallExpr &call;
  std::vector<const ast::Arg *> positional;
  std::vector<const ast::Arg *> named;
  explicit Arguments(const ast::CallExpr &call);
  const ast::Arg *find(std::string_view name) const;
};

// `{kind, a, b}`, the value of `clv.init`.
mlir::DictionaryAttr initAttr(mlir::Builder &builder, const Init &init);

class Elaborator {
public:
  enum class Mode { Loss, Eval };

  Elaborator(const Program &program, const ElaborateOptions &options, Mode mode,
             mlir::MLIRContext &context, DiagnosticEngine &diags);
  ~Elaborator();

  // Walks the model. False after errors.
  bool runModel();
  // After runModel: adds the function of that name and kind to `module`.
  enum class Entry { Loss, Eval, Forward };
  void finish(mlir::ModuleOp module, llvm::StringRef name, Entry entry);
  // After runModel, in any order with `finish`: one update per leaf, if there
  // is an optimizer; and `clip`.
  bool runUpdates(mlir::ModuleOp module);
  bool hasLoss() const { return static_cast<bool>(loss); }

  std::string modelName;
  std::vector<std::pair<std::string, Value>> parameters;
  DimTable dims;
  std::vector<LeafInfo> leaves; // params
  std::vector<LeafInfo> states;
  std::vector<InputInfo> inputs;
  Strings outputs;
  Strings bounded; // dims declared with `up to`
  std::optional<double> clip;
  mlir::Type compute; // what contractions multiply; null: f32

  // Of the elaborated function, each path once.
  std::vector<RegionInfo> regions() const;

private:
  friend class BuiltinCall;

  // Model.cpp
  bool bindParameters(const ast::ModelDecl &model);
  void bindOutputs();
  // `ids` indexes a dim of that size: what an input's bound is known by.
  void noteBound(Tensor ids, int64_t size);

  // Update.cpp
  struct Optimizer {
    const ast::CallExpr *call = nullptr;
    Found<ast::OptimizerDecl> found;
  };
  bool resolveWith(Optimizer &optimizer);
  bool resolvePrecision(const ast::CallExpr &call);
  bool runUpdateOf(mlir::ModuleOp module, size_t leaf,
                   const Optimizer &optimizer);
  bool bindOptimizerArguments(const Optimizer &optimizer, Frame &frame);
  void runUpdate(const ast::UpdateStmt &stmt);

  // Statements.cpp
  void runBlock(const ast::Block &block);
  void run(const ast::Stmt &stmt);
  void runDim(const ast::DimStmt &stmt);
  void runInput(const ast::InputStmt &stmt);
  void runOutput(const ast::OutputStmt &stmt);
  void runParam(const ast::ParamStmt &stmt);
  void runLet(const ast::Stmt &stmt, const std::vector<ast::Name> &names,
              const std::vector<ast::ExprPtr> &values, bool isVar);
  void runAssign(const ast::AssignStmt &stmt);
  void runRegion(const ast::RegionStmt &stmt);
  void runIf(const ast::IfStmt &stmt);
  void runReturn(const ast::ReturnStmt &stmt);
  void runMinimize(const ast::MinimizeStmt &stmt);
  std::optional<std::vector<Val>>
  evaluateList(const std::vector<ast::ExprPtr> &values, size_t names,
               SourceRange range);
  bool declare(const ast::Name &name, Val value, bool isVar);
  void label(const Val &value, const std::string &name);
  bool isIn(Frame::Kind kind, const ast::Stmt &stmt, const char *where);

  // Repeat.cpp
  struct Segment {
    int64_t first = 0, count = 0;
    std::map<const ast::IfStmt *, bool> choices;
  };
  void runRepeat(const ast::RepeatStmt &stmt);
  std::optional<std::vector<Segment>> segmentsOf(const ast::RepeatStmt &stmt,
                                                 int64_t count);
  bool runSegment(const ast::RepeatStmt &stmt, const Segment &segment,
                  bool isWhole, const std::vector<std::string> &carried);

  // Leaves.cpp
  struct TypeInfo {
    Element element = Element::F32;
    std::string sumDim;
    std::vector<std::pair<std::string, Strings>> parts; // one, "", if no sum
  };
  std::optional<TypeInfo> resolveType(const ast::TypeRef &type);
  std::optional<Init> resolveInit(const ast::CallExpr &call);
  mlir::Type elementType(Element element);
  mlir::RankedTensorType typeOf(Element element, const Strings &dims);
  Tensor addLeaf(const ast::Name &name, const std::string &path,
                 const TypeInfo &type, const Strings &leafDims,
                 const Init &init);
  bool own(RegionNode &node, const std::string &step, SourceRange range,
           bool isCall, bool isNamed);

  // Nodes.cpp
  RegionNode &addNode(RegionNode &parent, const std::string &step);
  clv::Build at(SourceRange range);
  clv::Build atEndOf(RegionNode &node, SourceRange range);
  mlir::Location location(SourceRange range);
  clv::ScopeAttr scopeOf(const RegionNode &node);
  Tensor bring(Tensor value, RegionNode &from, RegionNode &to,
               const std::string &label, SourceRange range);
  Val bring(const Val &value, RegionNode &from, RegionNode &to,
            const std::string &label, SourceRange range);
  // A parameter's value as node `to` reads it.
  Tensor weight(Tensor value, const std::string &path, RegionNode &to,
                SourceRange range);
  Tensor conform(Tensor value, mlir::RankedTensorType type, SourceRange range);

  // Expressions.cpp
  Val visit(const ast::Expr &expr);
  Val visitName(const ast::Expr &expr, const std::string &name);
  Val visitMember(const ast::MemberExpr &expr);
  Val visitIndex(const ast::IndexExpr &expr);
  Val visitUnary(const ast::UnaryExpr &expr);
  Val visitBinary(const ast::BinaryExpr &expr);
  Val visitConstant(const ast::Expr &expr);
  Binding *find(const std::string &name);
  Val read(const std::string &name, Binding &binding, SourceRange range);
  Environment environment();
  Strings visibleNames();
  // As a tensor: a constant becomes one of `element`, by default f32.
  Tensor materialize(const Val &value, SourceRange range,
                     mlir::Type element = {});
  Val binary(ast::BinaryOp op, const Val &left, const Val &right,
             const ast::Expr &leftExpr, const ast::Expr &rightExpr,
             SourceRange range);
  Tensor binaryTensor(ast::BinaryOp op, Tensor left, Tensor right,
                      SourceRange range);
  Tensor power(Tensor base, const Val &exponent, SourceRange range);
  // Elementwise, with the dims of the largest operand first. `swapped` says
  // that the second operand is written first.
  Tensor elementwise(Elementwise function, llvm::SmallVector<Tensor> operands,
                     SourceRange range, bool swapped = false);
  // Both operands as tensors of one element type; false after an error.
  bool unify(const Val &left, const Val &right, const ast::Expr &leftExpr,
             const ast::Expr &rightExpr, SourceRange range, Tensor &a,
             Tensor &b);
  // For each part of the values with a sum of dims (the same one), else once.
  Val lift(llvm::ArrayRef<Val> values, SourceRange range,
           llvm::function_ref<Tensor(llvm::ArrayRef<Val>)> function);
  std::string describe(const Val &value);

  // Calls.cpp
  Val visitCall(const ast::CallExpr &call);
  Val callFunction(const ast::CallExpr &call, Found<ast::FnDecl> function);
  std::string resolveDim(const ast::Expr &expr, bool report = true);
  std::string resolveDim(const std::string &name, SourceRange range,
                         bool report = true);
  Strings dimNames();

  // Builtins.cpp
  Val callBuiltin(const ast::CallExpr &call);
  static bool isBuiltin(const std::string &name);
  static Strings builtinNames();

  const Program &program;
  const ElaborateOptions &options;
  const Mode mode;
  mlir::MLIRContext &context;
  DiagnosticEngine &diags;
  mlir::OpBuilder builder;

  mlir::Region body; // of the function: its entry block's arguments are in the
                     // order of discovery
  std::deque<RegionNode> nodes;
  std::deque<Scope> scopes;
  RegionNode *root = nullptr, *node = nullptr;
  Frame *frame = nullptr;
  std::vector<const ast::FnDecl *> callStack;
  std::set<const ast::FnDecl *> failed; // functions with errors inside
  size_t calls = 0;
  bool dimsFailed = false; // then only further dims are looked at
  std::map<const ast::IfStmt *, bool> choices; // of segments of repeats
  std::vector<Tensor> leafArguments, inputArguments;
  std::map<std::string, size_t> leafByPath;
  std::vector<std::pair<ast::Name, SourceRange>> outputNames;
  Tensor seed, step; // arguments; null until something draws
  Tensor loss;
  std::vector<Tensor> outputValues;
  SourceRange minimizeRange;
  // While an optimizer runs: the path of its parameter, the step as f32, and
  // the new value.
  std::string updatePath;
  Tensor updateStep, updated;
  mlir::RankedTensorType updateType;
  std::vector<std::unique_ptr<ast::CallExpr>> madeCalls;
};

} // namespace cleave::sema
