//===- Compile.cpp - From a source file to a plan set ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Compile.h"

#include "compiler/codegen/KernelLibrary.h"
#include "compiler/differentiate/Differentiate.h"
#include "compiler/differentiate/Mathematics.h"
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
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
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
  std::unique_ptr<sema::Model> prepareTrain(std::unique_ptr<sema::Model> model);
  std::optional<PlanReport> addPlan(const plan::Elaborated &elaborated);
  std::optional<layout::ProgramRecord>
  ordinaryRecord(const plan::Elaborated &elaborated);
  bool makePlan(const PlanRequest &request);
  std::optional<std::set<std::string>> axesOfPlans();
  bool elaborateRun();
  void findVaried();
  bool makeVariants();
  bool makeVariantsAt(int64_t batch);
  bool makeVariant(const PlanRequest &request, int64_t batch, int64_t micros);
  std::optional<plan::Elaborated> elaboratePlan(const PlanRequest &request,
                                                const plan::ModelFacts &facts,
                                                std::optional<int64_t> micros,
                                                DiagnosticEngine &diags);
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
  int64_t sampleCount() const; ///< its size, 0 where there is none
  void describeShared();
  bool orderSums(ModuleOp module);
  void chooseAttention(ModuleOp module);
  void choosePrecision(ModuleOp module);
  bool passThroughExec();
  bool finishKernels();
  bool endPhase(StringRef phase, StringRef of, Operation *module);
  void internal(const std::string &message);

  Frontend &frontend;
  const CompileOptions &options;
  Compilation result;
  plan::ModelFacts facts;
  std::optional<codegen::KernelLibrary> library;
  /// Of a reproducible run: the program of a step before its sums were ordered.
  OwningOpRef<ModuleOp> ordinary;
  std::vector<format::LeafT> leaves;
  std::vector<format::InputT> inputs;
  std::set<std::string> reported; ///< errors of values, each once
  int64_t variantsInAll = 0;      ///< and the plans themselves
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

/// Contractions multiply what the run says.
void Compiler::choosePrecision(ModuleOp module) {
  if (auto type = module->getAttrOfType<TypeAttr>(kCompute)) {
    narrowContractions(module, type.getValue());
    castEarly(module);
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

/// Takes what plans need to know of a model, and makes its module the program
/// of a step.
std::unique_ptr<sema::Model>
Compiler::prepareTrain(std::unique_ptr<sema::Model> model) {
  ModuleOp module = *model->module;
  facts = modelFacts(*model);
  chooseAttention(module);
  choosePrecision(module);
  StepOptions step;
  step.probe = options.probe;
  if (failed(buildStep(module, step))) {
    internal("the model could not be differentiated");
    return nullptr;
  }
  keepOnly(module, "train");
  castEarly(module); // of gradients
  decompose(module);
  simplify(module);
  if (frontend.isReproducible()) {
    if (!ordinary) {
      ordinary = OwningOpRef<ModuleOp>(module.clone());
    }
    if (!orderSums(module)) {
      return nullptr;
    }
  }
  return model;
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
    result.source = OwningOpRef<ModuleOp>(module.clone());
    if (endPhase("clv", "", module)) {
      result.stopped = true;
      return true;
    }
    model = prepareTrain(std::move(model));
    if (!model) {
      return false;
    }
    result.stopped = endPhase("step", "", *model->module);
  } else {
    keepOnly(module, request.name);
    chooseAttention(module);
    choosePrecision(module);
    decompose(module);
    simplify(module);
    if (frontend.isReproducible() && !orderSums(module)) {
      return false;
    }
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

OwningOpRef<ModuleOp>
Compiler::partitionEntries(const plan::Elaborated &elaborated,
                           const Pipelined &pipelined, PlanReport &report) {
  OwningOpRef<ModuleOp> whole;
  for (const EntryProgram &entry : result.entries) {
    OwningOpRef<ModuleOp> module(entry.model->module->clone());
    bool isTrain = entry.name == "train";
    if (isTrain && failed(recompute(*module, elaborated.plan))) {
      internal("what plan `" + elaborated.plan.name +
               "` computes again could not be found");
      return nullptr;
    }
    // A reproducible run keeps the order of sums.
    if (pipelined.isOutlined(entry.name) && !frontend.isReproducible()) {
      separateSums(*module, pipelined.planOf(entry.name).micro->dim);
    }
    if (isTrain && pipelined.isOutlined(entry.name)) {
      sinkGradients(*module);
    }
    if (frontend.isReproducible() && pipelined.isOutlined(entry.name)) {
      deferSums(*module, pipelined.planOf(entry.name).micro->dim);
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

/// The functions that a plan puts into the order of a schedule.
static llvm::StringMap<PipelinedFunction>
outlinedFunctions(ModuleOp module, const Pipelined &pipelined) {
  llvm::StringMap<PipelinedFunction> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    std::string name = function.getName().str();
    if (pipelined.isOutlined(name)) {
      functions[name] = {&pipelined.planOf(name), pipelined.streamsOf(name)};
    }
  }
  return functions;
}

/// Puts programs into the order of their schedule, those that have one.
bool Compiler::outlineEntries(ModuleOp module, const Pipelined &pipelined) {
  llvm::StringMap<PipelinedFunction> functions =
      outlinedFunctions(module, pipelined);
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

int64_t Compiler::sampleCount() const {
  for (const layout::DimInfo &dim : result.model().dims) {
    if (dim.name == sampleDim()) {
      return dim.size;
    }
  }
  return 0;
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
  emit::LeastArenas least; // for reports alone
  auto emitted = emit::emitPlan(module, name, shared, *library,
                                options.objectCode ? nullptr : &least);
  if (!emitted) {
    internal("plan `" + name + "`: " + llvm::toString(emitted.takeError()));
    return false;
  }
  recordMemory(**emitted, report);
  for (StageMemory &stage : report.memory) {
    stage.leastArena = least.count("train") ? least["train"] : -1;
  }
  result.set.plans.push_back(std::move(*emitted));
  return true;
}

std::optional<plan::Elaborated> Compiler::elaboratePlan(
    const PlanRequest &request, const plan::ModelFacts &facts,
    std::optional<int64_t> micros, DiagnosticEngine &diags) {
  plan::PlanOptions planOptions;
  planOptions.overrides = frontend.planDefines;
  planOptions.micros = micros;
  return request.call
             ? plan::elaboratePlan(frontend.program->files, *request.call,
                                   facts, planOptions, diags)
             : plan::elaboratePlan(frontend.program->files,
                                   request.decl->name.text, facts, planOptions,
                                   diags);
}

/// Adds a plan, or a variant of one, to the set.
std::optional<PlanReport>
Compiler::addPlan(const plan::Elaborated &elaborated) {
  std::optional<Pipelined> pipelined =
      makePipelined(frontend, elaborated, sampleDim());
  if (!pipelined) {
    return std::nullopt;
  }
  PlanReport report;
  report.model = result.model().name;
  ModuleOp program = *result.model().module;
  if (auto type = program->getAttrOfType<TypeAttr>(kCompute)) {
    report.compute.clear();
    llvm::raw_string_ostream(report.compute) << type.getValue();
  }
  report.plan = pipelined->train;
  OwningOpRef<ModuleOp> module =
      partitionEntries(elaborated, *pipelined, report);
  if (!module || !lowerPlan(*module, *pipelined, report)) {
    return std::nullopt;
  }
  if (!result.stopped && options.emit) {
    format::PlanT &plan = *result.set.plans.back();
    plan.batch = sampleCount();
    plan.traffic = trafficTable(report.plan.mesh, report.programs.front());
  }
  return report;
}

/// What the plan's step would send if its sums were made in parts: what a plan
/// expects is said of that. Nothing where it cannot be compiled: its errors are
/// those of the reproducible one.
std::optional<layout::ProgramRecord>
Compiler::ordinaryRecord(const plan::Elaborated &elaborated) {
  if (!ordinary) {
    return std::nullopt; // it is: the run is not reproducible
  }
  std::optional<Pipelined> pipelined =
      makePipelined(frontend, elaborated, sampleDim());
  if (!pipelined) {
    return std::nullopt;
  }
  OwningOpRef<ModuleOp> module(ordinary->clone());
  ScopedDiagnosticHandler silent(&frontend.context,
                                 [](mlir::Diagnostic &) { return success(); });
  if (failed(recompute(*module, elaborated.plan))) {
    return std::nullopt;
  }
  if (pipelined->isOutlined("train")) {
    sinkGradients(*module);
  }
  PlanReport report;
  report.plan = pipelined->train;
  if (failed(partition(*module, pipelined->train, &report.programs)) ||
      failed(
          outlinePipeline(*module, outlinedFunctions(*module, *pipelined)))) {
    return std::nullopt;
  }
  recordPipeline(*module, *pipelined, report);
  return std::move(report.programs.front());
}

bool Compiler::makePlan(const PlanRequest &request) {
  std::optional<plan::Elaborated> elaborated =
      elaboratePlan(request, facts, std::nullopt, frontend.diags);
  if (!elaborated) {
    return false;
  }
  elaborated->plan.name = request.name;
  std::optional<PlanReport> added = addPlan(*elaborated);
  if (!added) {
    return false;
  }
  PlanReport &report = *added;
  report.ordinary = ordinaryRecord(*elaborated);
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

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// The names of all axes; nothing where a plan is wrong, which is reported when
/// it is made.
std::optional<std::set<std::string>> Compiler::axesOfPlans() {
  std::set<std::string> axes;
  for (const PlanRequest &request : frontend.plans) {
    DiagnosticEngine scratch(frontend.sources);
    auto elaborated = elaboratePlan(request, facts, std::nullopt, scratch);
    if (!elaborated) {
      return std::nullopt;
    }
    for (const layout::Axis &axis : elaborated->plan.mesh.axes) {
      axes.insert(axis.name);
    }
  }
  return axes;
}

/// Reduced sizes are for verify: a run speaks of real ones.
bool Compiler::elaborateRun() {
  if (!frontend.run || !options.overrides.empty()) {
    return true;
  }
  const sema::Model &model = result.model();
  run::Context context;
  context.plans = frontend.plansOfRun;
  context.sampleDim = sampleDim();
  for (const std::string &name : model.bounded) {
    for (const layout::DimInfo &dim : model.dims) {
      if (dim.name == name) {
        context.bounds[name] = dim.size;
      }
    }
  }
  for (const auto &[name, value] : model.parameters) {
    context.parameters.values[name] = value;
  }
  if (auto limit = (*result.source)->getAttrOfType<FloatAttr>("clv.clip")) {
    context.clips = true;
    if (auto mean = gradientMeanOf(*result.source)) {
      context.gradientMean.emplace();
      context.gradientMean->state = mean->state;
      context.gradientMean->keep = mean->keep;
      context.gradientMean->limit = limit.getValueAsDouble();
    }
  }
  if (frontend.plans.size() == frontend.plansOfRun.size()) {
    context.axes = axesOfPlans();
  }
  result.run = run::elaborateRun(*frontend.run, context, frontend.diags);
  if (!result.run) {
    return false;
  }
  result.set.run = std::make_unique<format::RunT>(*result.run->run);
  // Of a set with one plan only, what goes to others goes.
  auto &rules = result.set.run->rules;
  rules.erase(std::remove_if(rules.begin(), rules.end(),
                             [&](const auto &rule) {
                               return rule->action == format::RuleAction::Go &&
                                      std::none_of(
                                          frontend.plans.begin(),
                                          frontend.plans.end(),
                                          [&](const PlanRequest &plan) {
                                            return plan.name == rule->plan;
                                          });
                             }),
              rules.end());
  return true;
}

/// At most a dozen of the run's batches, from the first to the last.
static std::vector<int64_t> someOf(const std::vector<int64_t> &batches) {
  constexpr size_t most = 12;
  if (batches.size() <= most) {
    return batches;
  }
  std::vector<int64_t> result;
  for (size_t i = 0; i < most; ++i) {
    result.push_back(batches[i * (batches.size() - 1) / (most - 1)]);
  }
  return result;
}

/// Plans alone, without their programs: for reports.
void Compiler::findVaried() {
  for (const PlanRequest &request : frontend.plans) {
    result.varied.push_back({request.name, {}});
  }
  for (int64_t batch : someOf(result.run->batches)) {
    std::unique_ptr<sema::Model> model =
        frontend.elaborate({}, {{result.run->varies, batch}});
    if (!model) {
      return;
    }
    plan::ModelFacts varied = modelFacts(*model);
    for (size_t i = 0; i < frontend.plans.size(); ++i) {
      DiagnosticEngine scratch(frontend.sources);
      auto elaborated =
          elaboratePlan(frontend.plans[i], varied, std::nullopt, scratch);
      result.varied[i].micros.emplace_back(
          batch, elaborated ? elaborated->plan.micros() : 0);
    }
  }
}

/// `deep@batch=32,micro=8`.
static std::string variantName(const std::string &plan, int64_t batch,
                               int64_t micros) {
  std::string name = plan + "@";
  if (batch > 0) {
    name += "batch=" + std::to_string(batch);
  }
  if (micros > 0) {
    name += (batch > 0 ? ",micro=" : "micro=") + std::to_string(micros);
  }
  return name;
}

/// A batch of 0 is the model's own, as are 0 microbatches the plan's.
bool Compiler::makeVariant(const PlanRequest &request, int64_t batch,
                           int64_t micros) {
  std::string name = variantName(request.name, batch, micros);
  if (options.progress) {
    llvm::errs() << "\r\033[K" << result.set.plans.size() + 1 << "/"
                 << variantsInAll << " " << name;
  }
  DiagnosticEngine scratch(frontend.sources);
  std::optional<plan::Elaborated> elaborated =
      elaboratePlan(request, facts,
                    micros > 0 ? std::optional(micros) : std::nullopt, scratch);
  bool lacksMicro = elaborated && micros > 1 && !elaborated->plan.micro;
  if (!elaborated || lacksMicro) {
    std::string why = lacksMicro ? "it has no `micro` statement" : "";
    for (const Diagnostic &diagnostic : scratch.all()) {
      if (why.empty() && diagnostic.severity == Severity::Error) {
        why = diagnostic.message;
      }
    }
    frontend.diags.error(lacksMicro ? Diag::BadRunAction : Diag::BadVary,
                         frontend.run->name.range,
                         "plan `" + request.name + "` cannot be built as `" +
                             name + "`: " + why);
    return false;
  }
  elaborated->plan.name = name;
  if (!addPlan(*elaborated)) {
    return false;
  }
  if (!result.stopped) {
    format::PlanT &plan = *result.set.plans.back();
    plan.of = request.name;
    plan.micros = micros;
  }
  return true;
}

/// All plans at one batch, of which the plans themselves may be one.
bool Compiler::makeVariantsAt(int64_t batch) {
  bool good = true;
  for (const PlanRequest &request : frontend.plans) {
    if (batch > 0) {
      good &= makeVariant(request, batch, 0);
    }
    for (int64_t micros : result.run->micros) {
      good = good && makeVariant(request, batch, micros);
    }
  }
  return good;
}

bool Compiler::makeVariants() {
  const run::Elaborated &run = *result.run;
  int64_t others = static_cast<int64_t>(
      std::count_if(run.batches.begin(), run.batches.end(),
                    [&](int64_t batch) { return batch != run.bound; }));
  int64_t plans = static_cast<int64_t>(frontend.plans.size()) * (others + 1) *
                  (static_cast<int64_t>(run.micros.size()) + 1);
  if (plans > mostPlans) {
    frontend.diags
        .error(Diag::TooManyVariants, frontend.run->name.range,
               "the run needs " + std::to_string(plans) +
                   " plans: " + std::to_string(frontend.plans.size()) + " at " +
                   std::to_string(others + 1) + " batches" +
                   (run.micros.empty()
                        ? ""
                        : " and " + std::to_string(run.micros.size() + 1) +
                              " numbers of microbatches"))
        .help("a set has at most " + std::to_string(mostPlans) +
              ": let the batch grow by more at a time, or build fewer plans");
    return false;
  }
  variantsInAll = plans;
  auto clear = llvm::make_scope_exit([this] {
    if (options.progress) {
      llvm::errs() << "\r\033[K";
    }
  });
  if (!makeVariantsAt(0)) {
    return false;
  }
  for (int64_t batch : run.batches) {
    if (batch == run.bound) {
      continue;
    }
    std::unique_ptr<sema::Model> model =
        frontend.elaborate({}, {{run.varies, batch}});
    if (!model || !(model = prepareTrain(std::move(model)))) {
      return false;
    }
    inputs = inputTable(*model);
    result.entries.front().model.swap(model);
    bool good = makeVariantsAt(batch);
    result.entries.front().model.swap(model);
    if (!good) {
      return false;
    }
  }
  return true;
}

void Compiler::describeShared() {
  const sema::Model &model = result.model();
  leaves = leafTable(model);
  inputs = inputTable(model);
  result.set.model = model.name;
  result.set.producer = "cleave " CLEAVE_VERSION;
  result.set.start = static_cast<uint32_t>(frontend.start);
  result.set.eval_every = frontend.evalEvery;
  Mathematics mathematics = mathematicsOf(*result.source);
  result.set.loss_hash = mathematics.loss;
  result.set.update_hash = mathematics.update;
  for (const format::LeafT &leaf : leaves) {
    result.set.leaves.push_back(std::make_unique<format::LeafT>(leaf));
  }
  codegen::TargetOptions target;
  target.native = frontend.options.target == "host";
  const std::string &cache = frontend.options.kernelCache;
  target.cache = cache.empty()    ? codegen::defaultCacheFolder()
                 : cache == "off" ? ""
                                  : cache;
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
  result.kernelsInCache = library->found();
  result.keepsKernels = library->keepsKernels();
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
  if (!elaborateRun()) {
    return std::nullopt;
  }
  bool good = true;
  for (const PlanRequest &request : frontend.plans) {
    good &= makePlan(request);
  }
  if (!good) {
    return std::nullopt;
  }
  if (result.run && !result.run->batches.empty() && !options.variants) {
    findVaried();
  }
  if (result.stopped || !options.emit || !options.objectCode) {
    return std::move(result);
  }
  if (result.run && options.variants && !makeVariants()) {
    return std::nullopt;
  }
  if (result.stopped) {
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
