// A model as a whole: its parameters, and the functions of its module.
#include "lang/sema/Elaborator.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/ErrorHandling.h"
#include <set>

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

Elaborator::Elaborator(const Program &program, const ElaborateOptions &options,
                       Mode mode, mlir::MLIRContext &context,
                       DiagnosticEngine &diags)
    : program(program), options(options), mode(mode), context(context),
      diags(diags), builder(&context) {}

Elaborator::~Elaborator() = default;

bool Elaborator::bindParameters(const ModelDecl &model) {
  std::map<std::string, const Override *> given;
  bool good = true;
  for (const Override &override : options.overrides) {
    Strings known;
    for (const Param &param : model.params) {
      known.push_back(param.name.text);
    }
    if (!llvm::is_contained(known, override.name)) {
      diags
          .error(Diag::UnknownParameter, override.range,
                 quoted(model.name.text) + " has no parameter " +
                     quoted(override.name))
          .note(model.name.range, "the model is declared here")
          .help(suggestion(override.name, known));
      good = false;
    }
    given[override.name] = &override;
  }
  for (const Param &param : model.params) {
    const Override *override = given[param.name.text];
    const Expr *expr = override ? override->value : param.defaultValue.get();
    if (!expr) {
      diags
          .error(Diag::MissingArgument, param.name.range,
                 "parameter " + quoted(param.name.text) + " of " +
                     quoted(model.name.text) + " has no value")
          .help("give it with `-D " + param.name.text + "=...`");
      good = false;
      declare(param.name, {}, false);
      continue;
    }
    Val value = visitConstant(*expr);
    if (param.type && !value.isError()) {
      const std::string &type = param.type->text;
      bool fits = type == "int"     ? value.constant.isInteger()
                  : type == "bytes" ? value.constant.isNumber()
                                    : false;
      if (!fits) {
        diags.error(Diag::WrongKind, expr->range,
                    quoted(param.name.text) + " is declared as " +
                        quoted(type) + " and cannot be " +
                        value.constant.describe());
        value = {};
      }
    }
    good &= !value.isError();
    if (!value.isError()) {
      parameters.push_back({param.name.text, value.constant});
    }
    declare(param.name, value, false);
  }
  return good;
}

void Elaborator::bindOutputs() {
  for (const auto &[name, range] : outputNames) {
    Binding *binding = find(name.text);
    if (!binding) {
      diags
          .error(Diag::UnknownName, name.range,
                 "unknown name " + quoted(name.text))
          .help(suggestion(name.text, visibleNames()));
      continue;
    }
    // An output stays a value of the region that made it: no edge is crossed
    // that a plan would have to give a layout.
    RegionNode *here = node;
    if (binding->home && !binding->home->isRepeat) {
      node = binding->home;
    }
    Val value = read(name.text, *binding, name.range);
    Tensor tensor = materialize(value, name.range);
    node = here;
    if (tensor) {
      outputs.push_back(name.text);
      outputValues.push_back(tensor);
    }
  }
}

void Elaborator::noteBound(Tensor ids, int64_t size) {
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(ids)) {
    for (size_t i = 0; i < inputArguments.size(); ++i) {
      if (inputArguments[i] == ids) {
        int64_t &bound = inputs[i].bound;
        bound = bound == 0 ? size : std::min(bound, size);
      }
    }
    return;
  }
  // Through operations whose result holds elements of their operands.
  mlir::Operation *op = ids.getDefiningOp();
  if (mlir::isa<clv::EdgeOp, clv::RenameOp, clv::BroadcastOp, clv::SliceOp,
                clv::StopGradientOp, clv::MaximumOp, clv::MinimumOp,
                clv::SelectOp>(op)) {
    for (Tensor operand : op->getOperands()) {
      if (operand.getType() == ids.getType() || !mlir::isa<clv::SelectOp>(op)) {
        noteBound(operand, size);
      }
    }
  }
}

bool Elaborator::runModel() {
  context.loadDialect<clv::ClvDialect, mlir::func::FuncDialect>();
  Found<ModelDecl> model = findModel(program, options.model);
  if (!model) {
    diags
        .error(Diag::UnknownDeclaredName, {},
               "there is no model " + quoted(options.model))
        .help(
            suggestion(options.model, declaredNames(program, DeclKind::Model)));
    return false;
  }
  modelName = options.model;
  body.push_back(new mlir::Block());
  root = node = &nodes.emplace_back();
  root->block = &body.front();

  Frame model_;
  model_.kind = Frame::Kind::Model;
  model_.file = model.file;
  model_.scope = &scopes.emplace_back();
  model_.home = root;
  frame = &model_;
  size_t before = diags.errorCount();
  if (bindParameters(*model.decl)) {
    runBlock(model.decl->body);
    if (!dimsFailed) {
      bindOutputs();
    }
  }
  frame = nullptr;
  if (diags.errorCount() != before) {
    return false;
  }
  if (loss && leaves.empty()) {
    diags.error(Diag::MissingLoss, minimizeRange,
                "the model has no parameter to minimize with");
    return false;
  }
  return true;
}

/// Erases what nothing reads.
static void eraseDead(mlir::Block &block) {
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (mlir::isOpTriviallyDead(&op)) {
      op.erase();
      continue;
    }
    for (mlir::Region &region : op.getRegions()) {
      for (mlir::Block &inner : region) {
        eraseDead(inner);
      }
    }
  }
}

mlir::DictionaryAttr sema::initAttr(mlir::Builder &builder, const Init &init) {
  const char *kind = init.kind == Init::Kind::Normal    ? "normal"
                     : init.kind == Init::Kind::Uniform ? "uniform"
                                                        : "constant";
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("kind", builder.getStringAttr(kind)),
       builder.getNamedAttr("a", builder.getF64FloatAttr(init.a)),
       builder.getNamedAttr("b", builder.getF64FloatAttr(init.b))});
}

void Elaborator::finish(mlir::ModuleOp module, llvm::StringRef name,
                        Entry entry) {
  // The order of arguments is that of declarations, whatever was met first.
  struct Argument {
    Tensor old;
    mlir::Type type;
    const char *role;
    std::string path;
    mlir::Attribute init;
    bool mayGo;
  };
  std::vector<Argument> arguments;
  for (auto [value, input] : llvm::zip(inputArguments, inputs)) {
    arguments.push_back({value,
                         value.getType(),
                         "input",
                         input.name,
                         {},
                         entry == Entry::Forward});
  }
  for (auto [value, leaf] : llvm::zip(leafArguments, leaves)) {
    arguments.push_back({value, value.getType(), "param", leaf.path,
                         initAttr(builder, leaf.init), false});
  }
  mlir::Type scalar = mlir::RankedTensorType::get({}, builder.getI32Type());
  arguments.push_back({seed, scalar, "seed", "", {}, entry != Entry::Loss});
  arguments.push_back({step, scalar, "step", "", {}, entry != Entry::Loss});

  llvm::SmallVector<Tensor> results;
  llvm::SmallVector<mlir::Attribute> resultAttrs;
  auto result = [&](Tensor value, const char *kind, const std::string &path) {
    results.push_back(value);
    llvm::SmallVector<mlir::NamedAttribute> attrs = {
        builder.getNamedAttr("clv.result", builder.getStringAttr(kind))};
    if (!path.empty()) {
      attrs.push_back(
          builder.getNamedAttr("clv.path", builder.getStringAttr(path)));
    }
    resultAttrs.push_back(builder.getDictionaryAttr(attrs));
  };
  if (entry != Entry::Forward) {
    result(loss, "loss", "");
  }
  for (auto [value, output] : llvm::zip(outputValues, outputs)) {
    result(value, "output", output);
  }

  llvm::SmallVector<mlir::Type> types;
  for (const Argument &argument : arguments) {
    types.push_back(argument.type);
  }
  builder.setInsertionPointToEnd(module.getBody());
  mlir::Location loc = minimizeRange.isValid() ? location(minimizeRange)
                                               : builder.getUnknownLoc();
  auto function = builder.create<mlir::func::FuncOp>(
      loc, name,
      builder.getFunctionType(types, mlir::ValueRange(results).getTypes()));
  mlir::Block *block = function.addEntryBlock();
  mlir::IRMapping mapping;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (argument.old) {
      mapping.map(argument.old, block->getArgument(i));
      block->getArgument(i).setLoc(argument.old.getLoc());
    }
    function.setArgAttr(i, "clv.role", builder.getStringAttr(argument.role));
    if (!argument.path.empty()) {
      function.setArgAttr(i, "clv.path", builder.getStringAttr(argument.path));
    }
    if (argument.init) {
      function.setArgAttr(i, "clv.init", argument.init);
    }
  }
  function.setAllResultAttrs(resultAttrs);
  builder.setInsertionPointToEnd(block);
  for (mlir::Operation &op : body.front()) {
    builder.clone(op, mapping);
  }
  llvm::SmallVector<Tensor> mapped;
  for (Tensor value : results) {
    mapped.push_back(mapping.lookup(value));
  }
  builder.create<mlir::func::ReturnOp>(loc, mapped);
  if (entry == Entry::Loss) {
    return;
  }
  eraseDead(*block);
  llvm::BitVector gone(arguments.size());
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (argument.mayGo && block->getArgument(i).use_empty()) {
      gone.set(i);
    }
  }
  function.eraseArguments(gone);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

std::unique_ptr<Model> sema::elaborateModel(const Program &program,
                                            const ElaborateOptions &options,
                                            mlir::MLIRContext &context,
                                            DiagnosticEngine &diags) {
  Elaborator train(program, options, Elaborator::Mode::Loss, context, diags);
  if (!train.runModel()) {
    return nullptr;
  }
  auto model = std::make_unique<Model>();
  model->module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  mlir::ModuleOp module = *model->module;
  mlir::Builder builder(&context);
  module->setAttr("clv.model", builder.getStringAttr(options.model));
  if (train.hasLoss()) {
    train.finish(module, "loss", Elaborator::Entry::Loss);
  }
  if (!train.runUpdates(module)) {
    return nullptr;
  }
  if (train.hasLoss() || !train.outputs.empty()) {
    // Again without dropout.
    Elaborator eval(program, options, Elaborator::Mode::Eval, context, diags);
    bool good = eval.runModel();
    assert(good && "a model elaborates twice or not at all");
    (void)good;
    if (eval.hasLoss()) {
      eval.finish(module, "eval", Elaborator::Entry::Eval);
    }
    if (!eval.outputs.empty()) {
      eval.finish(module, "forward", Elaborator::Entry::Forward);
    }
  }
  model->name = options.model;
  model->parameters = std::move(train.parameters);
  model->dims = train.dims.all();
  model->bounded = std::move(train.bounded);
  model->leaves = std::move(train.leaves);
  model->leaves.insert(model->leaves.end(), train.states.begin(),
                       train.states.end());
  model->inputs = std::move(train.inputs);
  model->outputs = std::move(train.outputs);
  model->regions = train.regions();

  std::string trouble;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diag) {
    trouble += diag.str() + "\n";
    return mlir::success();
  });
  if (mlir::failed(mlir::verify(module))) {
    llvm::report_fatal_error(llvm::Twine(
        "the elaborated model `" + options.model +
        "` does not verify; please report this source: " + trouble));
  }
  return model;
}

std::vector<RegionInfo> Elaborator::regions() const {
  std::vector<RegionInfo> result;
  std::set<std::string> seen;
  for (const RegionNode &region : nodes) {
    if (!region.path.empty() && seen.insert(region.path).second) {
      result.push_back({region.path, region.function});
    }
  }
  return result;
}

std::vector<Override> sema::reducedOverrides(const Program &program,
                                             std::string_view model) {
  std::vector<Override> result;
  for (auto file = program.files.rbegin(); file != program.files.rend();
       ++file) {
    for (const auto &decl : (*file)->decls) {
      auto *reduced = dynCast<ReducedDecl>(decl);
      if (!reduced || reduced->name.text != model) {
        continue;
      }
      for (const Arg &arg : reduced->args) {
        result.push_back({arg.name ? arg.name->text : "", arg.value.get(),
                          arg.name ? arg.name->range : arg.range});
      }
      return result;
    }
  }
  return result;
}

std::vector<const ModelDecl *> sema::modelsOf(const Program &program) {
  std::vector<const ModelDecl *> result;
  for (const auto &file : program.files) {
    for (const auto &decl : file->decls) {
      if (auto *model = dynCast<ModelDecl>(decl)) {
        result.push_back(model);
      }
    }
  }
  return result;
}

std::vector<std::string> sema::valuePaths(mlir::ModuleOp module) {
  std::set<std::string> result;
  module.walk([&](mlir::Operation *op) {
    if (clv::ScopeAttr scope = clv::scopeOf(op)) {
      std::string path = scope.getPath().str();
      result.insert(path);
      if (scope.getLabel()) {
        result.insert((path.empty() ? "" : path + "/") +
                      scope.getLabel().str());
      }
    }
    if (auto function = mlir::dyn_cast<mlir::func::FuncOp>(op)) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        if (auto path =
                function.getArgAttrOfType<mlir::StringAttr>(i, "clv.path")) {
          result.insert(path.str());
        }
      }
    }
  });
  result.erase("");
  return {result.begin(), result.end()};
}
