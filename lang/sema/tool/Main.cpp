// cleave-elaborate FILE [MODEL] [--run NAME] [--reduced] [-D name=value]...
//                  [--leaves]
//
// Prints the `clv` module of a model, or what is wrong with it: for tests and
// for people who work on the front end.
#include "lang/sema/Elaborate.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <iostream>

using namespace cleave;
namespace cl = llvm::cl;

static cl::opt<std::string> file(cl::Positional, cl::Required,
                                 cl::desc("FILE"));
static cl::opt<std::string> modelName(cl::Positional, cl::desc("[MODEL]"));
static cl::opt<std::string> runName("run",
                                    cl::desc("with this run's optimizer"));
static cl::opt<bool> reduced("reduced", cl::desc("at the reduced sizes"));
static cl::opt<bool> leaves("leaves", cl::desc("list leaves, inputs and dims"));
static cl::opt<bool> json("json", cl::desc("diagnostics as JSON"));
static cl::opt<bool> adamw("adamw",
                           cl::desc("train with the default optimizer"));
static cl::list<std::string> defines("D", cl::Prefix, cl::desc("name=value"));

static const char *spelling(sema::Element element) {
  return element == sema::Element::F32   ? "f32"
         : element == sema::Element::I32 ? "i32"
                                         : "bool";
}

static void printType(sema::Element element,
                      const std::vector<std::string> &dims,
                      const std::vector<int64_t> &sizes) {
  llvm::outs() << spelling(element) << "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    llvm::outs() << (i ? ", " : "") << dims[i] << ": " << sizes[i];
  }
  llvm::outs() << "]";
}

static void printLeaves(const sema::Model &model) {
  for (const auto &[name, value] : model.parameters) {
    llvm::outs() << "parameter " << name << " = " << value.text() << "\n";
  }
  for (const layout::DimInfo &dim : model.dims) {
    llvm::outs() << "dim " << dim.name << " = " << dim.size;
    for (size_t i = 0; i < dim.factors.size(); ++i) {
      llvm::outs() << (i ? " * " : " of ") << dim.factors[i];
    }
    for (const auto &[part, factors] : dim.parts) {
      llvm::outs() << " + " << part << ":";
      for (const std::string &factor : factors) {
        llvm::outs() << " " << factor;
      }
    }
    llvm::outs() << (dim.like.empty() ? "" : " like " + dim.like)
                 << (dim.repeated ? " repeated" : "") << "\n";
  }
  for (const sema::InputInfo &input : model.inputs) {
    llvm::outs() << "input " << input.name << ": ";
    printType(input.element, input.dims, input.sizes);
    if (input.source == sema::InputInfo::Source::Tokens) {
      llvm::outs() << " from tokens(shift: " << input.shift << ")";
    }
    llvm::outs() << " below " << input.bound << "\n";
  }
  static const char *kinds[] = {"constant", "normal", "uniform"};
  for (const sema::LeafInfo &leaf : model.leaves) {
    llvm::outs() << (leaf.state.empty() ? "param " : "state ") << leaf.path
                 << (leaf.state.empty() ? "" : ":" + leaf.state) << ": ";
    printType(leaf.element, leaf.dims, leaf.sizes);
    llvm::outs() << " ~ " << kinds[static_cast<int>(leaf.init.kind)] << "("
                 << llvm::format("%g", leaf.init.a) << ", "
                 << llvm::format("%g", leaf.init.b) << ")\n";
  }
  for (const std::string &output : model.outputs) {
    llvm::outs() << "output " << output << "\n";
  }
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "prints the clv module of a model\n");
  SourceManager sources;
  DiagnosticEngine diags(sources);
  auto fail = [&] {
    json ? diags.renderJson(std::cerr) : diags.renderText(std::cerr);
    return 1;
  };
  std::unique_ptr<Program> program =
      loadProgram(file, {{CLEAVE_STDLIB}}, sources, diags);
  if (!program) {
    return fail();
  }
  sema::ElaborateOptions options;
  options.model = modelName;
  const ast::RunDecl *run = nullptr;
  for (const auto &decl : program->root().decls) {
    auto *found = ast::dynCast<ast::RunDecl>(decl);
    run = found && found->name.text == runName ? found : run;
  }
  if (!runName.empty() && !run) {
    llvm::errs() << "no run `" << runName << "`\n";
    return 2;
  }
  if (run) {
    options.model = run->model.text;
    for (const auto &call : run->with) {
      options.with.push_back(call.get());
    }
  }
  if (options.model.empty()) {
    auto models = sema::modelsOf(*program);
    if (models.empty()) {
      llvm::errs() << "the file has no model\n";
      return 2;
    }
    options.model = models.back()->name.text;
  }
  if (reduced) {
    options.overrides = sema::reducedOverrides(*program, options.model);
  }
  options.defaultOptimizer = adamw;
  std::vector<std::unique_ptr<ast::NumberExpr>> values;
  for (const std::string &define : defines) {
    size_t equal = define.find('=');
    auto value = std::make_unique<ast::NumberExpr>();
    value->isInteger = true;
    value->integer = std::stoll(define.substr(equal + 1));
    options.overrides.push_back({define.substr(0, equal), value.get(), {}});
    values.push_back(std::move(value));
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::unique_ptr<sema::Model> model =
      sema::elaborateModel(*program, options, context, diags);
  if (!model) {
    return fail();
  }
  if (leaves) {
    printLeaves(*model);
  } else {
    model->module->print(llvm::outs());
    llvm::outs() << "\n";
  }
  diags.renderText(std::cerr);
  return 0;
}
