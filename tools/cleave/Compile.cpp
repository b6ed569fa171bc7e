//===- Compile.cpp - From a source file to a plan set ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Compile.h"

#include "compiler/codegen/KernelLibrary.h"
#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Recompute.h"
#include "compiler/emit/Emit.h"
#include "compiler/exec/Exec.h"
#include "compiler/partition/Partition.h"
#include "compiler/partition/Record.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/reproducible/Reproducible.h"
#include "lang/plan/Elaborate.h"
#include "lang/plan/Expect.h"
#include "runtime/format/PlanFile.h"
#include "runtime/format/Verify.h"
#include "tools/cleave/Facts.h"
#include "tools/cleave/Pipelines.h"
#include "tools/cleave/RecordPipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;

namespace cleave::tools {

namespace {

/// Runs the steps; every member reports to the frontend's engine.
class Compiler {
public:
  Compiler(Frontend &frontend, const CompileOptions &options)
      : frontend(frontend), options(options) {}

  std::optional<Compilation> run();

private:
  bool makeEntries();
  bool makeEntry(const EntryRequest &request);
  bool makePlan(const PlanRequest &request);
  OwningOpRef<ModuleOp> partitionEntries(const plan::Elaborated &elaborated,
                                         const Pipelined &pipelined,
                                         PlanReport &report);
  bool partitionEntry(ModuleOp module, const layout::Plan &plan,
                      PlanReport &report);
  bool outlineEntries(ModuleOp module, const Pipelined &pipelined);
  bool fitsFile(const layout::Plan &plan);
  bool lowerPlan(ModuleOp module, const Pipelined &pipelined,
                 PlanReport &report);
  std::string sampleDim() const;
  void describeShared();
  bool orderSums(ModuleOp module);
  void chooseAttention(ModuleOp module);
  bool fitsReproducible(const layout::Plan &plan);
  bool passThroughExec();
  bool finishKernels();
  bool endPhase(StringRef phase, StringRef of, Operation *module);
  void internal(const std::string &message);

  Frontend &frontend;
  const CompileOptions &options;
  Compilation result;
  plan::ModelFacts facts;
  std::optional<codegen::KernelLibrary> library;
  std::vector<format::LeafT> leaves;
  std::vector<format::InputT> inputs;
  std::set<std::string> reported; ///< errors of values, each once
};

} // namespace

/// Keeps one function of a module.
static void keepOnly(ModuleOp module, StringRef name) {
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (function.getName() != name) {
      function.erase();
    }
  }
}

void Compiler::internal(const std::string &message) {
  frontend.diags.error(Diag::Internal, {}, message)
      .help("this is a defect of the compiler; `cleave build --dump` shows the "
            "program that led to it");
}

/// Prints a phase's program; true if the build ends here.
bool Compiler::endPhase(StringRef phase, StringRef of, Operation *module) {
  bool last = options.stopAfter == phase;
  if (last || options.dump) {
    llvm::raw_ostream &out = last ? llvm::outs() : llvm::errs();
    out << "// " << phase << (of.empty() ? "" : " of ") << of << "\n";
    module->print(out);
    out << "\n";
    out.flush();
  }
  return last;
}

/// What the compiler says of a program, with the line of the model it says it
/// of.
static void addMessage(std::string &message, mlir::Diagnostic &diagnostic) {
  llvm::raw_string_ostream out(message);
  out << (message.empty() ? "" : "; ") << diagnostic;
  layout::SourcePoint point = partitioning::pointOf(diagnostic.getLocation());
  if (point.line > 0) {
    out << " (" << point.where() << ")";
  }
}

/// In blocks, but for reproducible runs: blocks add in an order of their own.
void Compiler::chooseAttention(ModuleOp module) {
  if (!frontend.isReproducible()) {
    blockAttention(module);
  }
}

/// Fixes the order of every sum of a reproducible run.
bool Compiler::orderSums(ModuleOp module) {
  std::string message;
  ScopedDiagnosticHandler handler(&frontend.context,
                                  [&](mlir::Diagnostic &diagnostic) {
                                    addMessage(message, diagnostic);
                                    return success();
                                  });
  if (succeeded(makeReproducible(module))) {
    return true;
  }
  frontend.diags
      .error(Diag::CannotPartition, frontend.run->range,
             "the run cannot be reproducible: " + message)
      .help("drop `reproducible`");
  return false;
}

bool Compiler::makeEntry(const EntryRequest &request) {
  std::vector<sema::Override> overrides = options.overrides;
  overrides.insert(overrides.end(), request.overrides.begin(),
                   request.overrides.end());
  std::unique_ptr<sema::Model> model = frontend.elaborate(overrides);
  if (!model) {
    return false;
  }
  ModuleOp module = *model->module;
  if (!module.lookupSymbol<func::FuncOp>(
          request.name == "train" ? "loss" : request.name)) {
    return true; // a model without outputs has no forward
  }
  if (request.name == "train") {
    facts = modelFacts(*model);
    result.source = OwningOpRef<ModuleOp>(module.clone());
    if (endPhase("clv", "", module)) {
      result.stopped = true;
      return true;
    }
    chooseAttention(module);
    StepOptions step;
    step.probe = options.probe;
    if (failed(buildStep(module, step))) {
      internal("the model could not be differentiated");
      return false;
    }
  }
  keepOnly(module, request.name);
  if (request.name != "train") {
    chooseAttention(module);
  }
  decompose(module);
  simplify(module);
  if (frontend.isReproducible() && !orderSums(module)) {
    return false;
  }
  if (request.name == "train" && endPhase("step", "", module)) {
    result.stopped = true;
  }
  result.entries.push_back({request.name, std::move(model)});
  return true;
}

bool Compiler::makeEntries() {
  for (const EntryRequest &request : frontend.entries) {
    if (options.trainOnly && request.name != "train") {
      continue;
    }
    if (!makeEntry(request)) {
      return false;
    }
    if (result.stopped) {
      return true;
    }
  }
  // The state is one: entries may differ in batch, not in parameters.
  const std::vector<sema::LeafInfo> &state = result.model().leaves;
  for (const EntryProgram &entry : result.entries) {
    for (size_t i = 0; i < state.size(); ++i) {
      if (entry.model->leaves[i].sizes != state[i].sizes) {
        frontend.diags
            .error(Diag::EntryChangesState, state[i].range,
                   "`" + state[i].path + "` has another shape in `" +
                       entry.name + "` than in training")
            .help("an entry may set only what no parameter depends on, such as "
                  "the number of sequences");
        return false;
      }
    }
  }
  return true;
}

/// Partitions one entry's program; what is wrong is reported.
bool Compiler::partitionEntry(ModuleOp module, const layout::Plan &plan,
                              PlanReport &report) {
  std::vector<layout::Resolved> errors;
  std::string message;
  ScopedDiagnosticHandler handler(&frontend.context,
                                  [&](mlir::Diagnostic &diagnostic) {
                                    addMessage(message, diagnostic);
                                    return success();
                                  });
  if (succeeded(partition(module, plan, &report.programs, &errors)) &&
      (!frontend.isReproducible() || succeeded(verifyReproducible(module)))) {
    return true;
  }
  for (const layout::Resolved &error : errors) {
    if (reported.insert(error.error).second) {
      frontend.diags
          .error(Diag::AxisTakenTwice, plan::rangeOf(error.errorAt),
                 error.error)
          .note(plan::rangeOf(error.errorOther), "the other statement");
    }
  }
  if (errors.empty()) {
    frontend.diags.error(Diag::CannotPartition, plan::rangeOf(plan.source),
                         "plan `" + plan.name +
                             "` cannot be partitioned: " + message);
  }
  return false;
}

/// What a reproducible program would be if its sums were made in parts:
/// what a plan expects is said of that. Nothing where it cannot be partitioned:
/// that error comes with its own.
static std::optional<layout::ProgramRecord>
ordinaryRecord(ModuleOp module, const layout::Plan &plan) {
  OwningOpRef<ModuleOp> ordinary(module.clone());
  forgetOrder(*ordinary);
  std::vector<layout::ProgramRecord> records;
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](mlir::Diagnostic &) { return success(); });
  if (failed(partition(*ordinary, plan, &records))) {
    return std::nullopt;
  }
  return std::move(records.front());
}

OwningOpRef<ModuleOp>
Compiler::partitionEntries(const plan::Elaborated &elaborated,
                           const Pipelined &pipelined, PlanReport &report) {
  OwningOpRef<ModuleOp> whole;
  for (const EntryProgram &entry : result.entries) {
    OwningOpRef<ModuleOp> module(entry.model->module->clone());
    if (entry.name == "train") {
      if (failed(recompute(*module, elaborated.plan))) {
        internal("what plan `" + elaborated.plan.name +
                 "` computes again could not be found");
        return nullptr;
      }
      if (pipelined.isOutlined(entry.name)) {
        sinkGradients(*module);
      }
    }
    if (entry.name == "train" && frontend.isReproducible()) {
      report.ordinary = ordinaryRecord(*module, pipelined.planOf(entry.name));
    }
    if (!partitionEntry(*module, pipelined.planOf(entry.name), report)) {
      return nullptr;
    }
    if (!whole) {
      whole = std::move(module);
      continue;
    }
    for (auto function :
         llvm::make_early_inc_range(module->getOps<func::FuncOp>())) {
      function->moveBefore(whole->getBody(), whole->getBody()->end());
    }
  }
  return whole;
}

/// Puts programs into the order of their schedule, those that have one.
bool Compiler::outlineEntries(ModuleOp module, const Pipelined &pipelined) {
  llvm::StringMap<PipelinedFunction> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    std::string name = function.getName().str();
    if (pipelined.isOutlined(name)) {
      functions[name] = {&pipelined.planOf(name), pipelined.streamsOf(name)};
    }
  }
  if (functions.empty()) {
    return true;
  }
  std::string message;
  ScopedDiagnosticHandler handler(&frontend.context,
                                  [&](mlir::Diagnostic &diagnostic) {
                                    addMessage(message, diagnostic);
                                    return success();
                                  });
  if (failed(outlinePipeline(module, functions))) {
    const layout::Plan &plan = pipelined.train;
    frontend.diags.error(Diag::CannotPartition,
                         plan::rangeOf(plan.pipeline ? plan.pipeline->source
                                                     : plan.micro->source),
                         "plan `" + plan.name +
                             "` cannot be run so: " + message);
    return false;
  }
  if (failed(verify(module))) {
    internal("the pipelined program would be wrong: " + message);
    return false;
  }
  return true;
}

/// The dim of samples of the model's inputs.
std::string Compiler::sampleDim() const {
  for (const sema::InputInfo &input : result.model().inputs) {
    if (!input.dims.empty()) {
      return input.dims.front();
    }
  }
  return "";
}

/// Whether a plan file can hold a mesh with its microbatches and chunks.
bool Compiler::fitsFile(const layout::Plan &plan) {
  int64_t devices = plan.mesh.devices(), instants = plan.mesh.instants();
  if (devices <= format::largestMesh &&
      instants <= format::largestTime / devices) {
    return true;
  }
  std::string what = std::to_string(devices) + " devices";
  std::string most = std::to_string(format::largestMesh);
  if (devices <= format::largestMesh) {
    what += " times " + std::to_string(instants) + " microbatches and chunks";
    most = std::to_string(format::largestTime);
  }
  frontend.diags
      .error(Diag::CannotPartition, plan::rangeOf(plan.source),
             "plan `" + plan.name + "` has " + what +
                 ", and a plan file takes " + most)
      .help("fewer of them; `cleave check` takes the plan as it is");
  return false;
}

/// The terms of a sum over microbatches come one after the other, and stages
/// have microbatches.
bool Compiler::fitsReproducible(const layout::Plan &plan) {
  if (!frontend.isReproducible() || (plan.mesh.times == 0 && !plan.pipeline)) {
    return true;
  }
  frontend.diags
      .error(Diag::LaterStatement, plan::rangeOf(plan.source),
             "plan `" + plan.name +
                 "` has microbatches or stages, which a `reproducible` run "
                 "cannot have yet")
      .help("leave the plan out of the run, or drop `reproducible`");
  return false;
}

/// From local programs to instruction streams, as far as they are wanted.
bool Compiler::lowerPlan(ModuleOp module, const Pipelined &pipelined,
                         PlanReport &report) {
  const std::string &name = report.plan.name;
  if (endPhase("spmd", name, module)) {
    result.stopped = true;
    return true;
  }
  if (!outlineEntries(module, pipelined)) {
    return false;
  }
  recordPipeline(module, pipelined, report);
  if (endPhase("pipe", name, module)) {
    result.stopped = true;
    return true;
  }
  if (!options.emit) {
    return true;
  }
  if (!fitsFile(pipelined.train)) {
    return false;
  }
  emit::Shared shared{leaves, inputs};
  auto emitted = emit::emitPlan(module, name, shared, *library);
  if (!emitted) {
    internal("plan `" + name + "`: " + llvm::toString(emitted.takeError()));
    return false;
  }
  recordMemory(**emitted, report);
  result.set.plans.push_back(std::move(*emitted));
  return true;
}

bool Compiler::makePlan(const PlanRequest &request) {
  plan::PlanOptions planOptions;
  planOptions.overrides = frontend.planDefines;
  std::optional<plan::Elaborated> elaborated =
      request.call ? plan::elaboratePlan(frontend.program->files, *request.call,
                                         facts, planOptions, frontend.diags)
                   : plan::elaboratePlan(frontend.program->files,
                                         request.decl->name.text, facts,
                                         planOptions, frontend.diags);
  if (!elaborated) {
    return false;
  }
  elaborated->plan.name = request.name;
  std::optional<Pipelined> pipelined =
      makePipelined(frontend, *elaborated, sampleDim());
  if (!pipelined) {
    return false;
  }
  if (!fitsReproducible(pipelined->train)) {
    return false;
  }
  PlanReport report;
  report.model = result.model().name;
  report.plan = pipelined->train;
  OwningOpRef<ModuleOp> module =
      partitionEntries(*elaborated, *pipelined, report);
  if (!module) {
    return false;
  }
  if (!lowerPlan(*module, *pipelined, report)) {
    return false;
  }
  // Reduced sizes are for verify: a plan's figures are of its real ones.
  bool kept = true;
  if (options.overrides.empty()) {
    plan::ExpectFacts known;
    known.model = &facts;
    known.train =
        report.ordinary ? &*report.ordinary : &report.programs.front();
    known.peak = report.peak();
    if (report.pipeline) {
      known.bubble = report.pipeline->bubble;
      known.simulatedBubble = report.pipeline->timeline.bubble;
    }
    kept = plan::checkExpectations(elaborated->plan, elaborated->expectations,
                                   known, frontend.diags);
  }
  result.reports.push_back(std::move(report));
  return kept;
}

void Compiler::describeShared() {
  const sema::Model &model = result.model();
  leaves = leafTable(model);
  inputs = inputTable(model);
  result.set.model = model.name;
  result.set.producer = "cleave " CLEAVE_VERSION;
  result.set.start = static_cast<uint32_t>(frontend.start);
  result.set.eval_every = frontend.evalEvery;
  for (const format::LeafT &leaf : leaves) {
    result.set.leaves.push_back(std::make_unique<format::LeafT>(leaf));
  }
  codegen::TargetOptions target;
  target.native = frontend.options.target == "host";
  library.emplace(frontend.context, target);
}

/// The set that is written is made of the module that is printed.
bool Compiler::passThroughExec() {
  auto module = toExec(frontend.context, result.set);
  if (!module) {
    internal(llvm::toString(module.takeError()));
    return false;
  }
  std::string message;
  ScopedDiagnosticHandler handler(&frontend.context,
                                  [&](mlir::Diagnostic &diagnostic) {
                                    addMessage(message, diagnostic);
                                    return success();
                                  });
  if (failed(verify(**module))) {
    internal("the plan file would be wrong: " + message);
    return false;
  }
  if (endPhase("exec", "", **module)) {
    result.stopped = true;
    return true;
  }
  llvm::Expected<format::PlanSetT> set = fromExec(**module);
  if (!set) {
    internal(llvm::toString(set.takeError()));
    return false;
  }
  if (format::encodePlanFile(*set, {}) !=
      format::encodePlanFile(result.set, {})) {
    internal("the exec dialect does not say all that the plan file says");
    return false;
  }
  result.set = std::move(*set);
  return true;
}

bool Compiler::finishKernels() {
  llvm::Expected<std::vector<uint8_t>> image = library->finish();
  if (!image) {
    internal(llvm::toString(image.takeError()));
    return false;
  }
  result.kernels.assign(image->begin(), image->end());
  return true;
}

std::optional<Compilation> Compiler::run() {
  if (!makeEntries()) {
    return std::nullopt;
  }
  if (result.stopped) {
    return std::move(result);
  }
  describeShared();
  bool good = true;
  for (const PlanRequest &request : frontend.plans) {
    good &= makePlan(request);
  }
  if (!good) {
    return std::nullopt;
  }
  if (result.stopped || !options.emit || !options.objectCode) {
    return std::move(result);
  }
  if (endPhase("kernels", "", library->getModule())) {
    result.stopped = true;
    return std::move(result);
  }
  result.set.symbols = library->symbols();
  result.set.target_features = library->targetFeatures();
  if (!passThroughExec() || (!result.stopped && !finishKernels())) {
    return std::nullopt;
  }
  return std::move(result);
}

std::optional<Compilation> compile(Frontend &frontend,
                                   const CompileOptions &options) {
  return Compiler(frontend, options).run();
}

} // namespace cleave::tools
