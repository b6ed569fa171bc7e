#include "lang/plan/Expect.h"

#include "layout/Stored.h"

#include <algorithm>
#include <set>

using namespace cleave::ast;

namespace cleave::plan {

using layout::CollectiveRecord;
using layout::NamedDim;
using layout::Resolved;
using layout::ValueInfo;

static bool isRepeated(const layout::Plan &plan, const std::string &name) {
  return std::any_of(plan.dims.begin(), plan.dims.end(),
                     [&](const layout::DimInfo &dim) {
                       return dim.name == name && dim.repeated;
                     });
}

std::vector<const CollectiveRecord *>
matchingCollectives(const Comm &comm, const Expectation &expectation,
                    const layout::ProgramRecord &train) {
  std::vector<const CollectiveRecord *> found;
  for (const CollectiveRecord &record : train.collectives) {
    auto runsOn = [&](const std::vector<layout::AtomId> &axis) {
      return std::any_of(axis.begin(), axis.end(), [&](layout::AtomId atom) {
        return std::find(record.atoms.begin(), record.atoms.end(), atom) !=
               record.atoms.end();
      });
    };
    bool onAxis =
        std::all_of(expectation.axes.begin(), expectation.axes.end(), runsOn);
    if ((comm.kind == CommKind::Collectives ||
         record.kind == spelling(comm.kind)) &&
        onAxis && matches(expectation.selection, record.value)) {
      found.push_back(&record);
    }
  }
  return found;
}

namespace {

class ContractChecker {
public:
  ContractChecker(const layout::Plan &plan, const ExpectFacts &facts,
                  DiagnosticEngine &diags)
      : plan(plan), facts(facts), diags(diags) {}

  void check(const Expectation &expectation);

private:
  void checkWithin(const Expectation &expectation);
  void checkCollectives(const Expectation &expectation);
  void checkHolds(const Expectation &expectation);
  void notChecked(const Expectation &expectation, const std::string &why);
  void addChain(DiagnosticBuilder &builder,
                const std::vector<const CollectiveRecord *> &found);

  sema::Value bubble(std::optional<double> known);
  sema::Environment environmentFor(const Expectation &expectation);
  std::optional<sema::Value> call(const CallExpr &call, const Scope &scope,
                                  bool &handled);
  std::optional<sema::Value> local(const CallExpr &call, const Scope &scope);
  std::optional<sema::Value> layers(const CallExpr &call);
  std::optional<layout::Selection> argument(const CallExpr &call,
                                            const Scope &scope);
  std::string valuesIn(const Expr &expr, const sema::Environment &environment);

  const layout::Plan &plan;
  const ExpectFacts &facts;
  DiagnosticEngine &diags;
  std::string unknown; // why a part of the contract is not known here, or empty
};

//===----------------------------------------------------------------------===//
// Axes within hardware
//===----------------------------------------------------------------------===//

void ContractChecker::checkWithin(const Expectation &expectation) {
  const ExpectStmt &stmt = *expectation.statement;
  const layout::Axis *axis = plan.mesh.findAxis(stmt.inner.text);
  if (!axis) {
    std::vector<std::string> known;
    for (const layout::Axis &each : plan.mesh.axes) {
      known.push_back(each.name);
    }
    diags
        .error(Diag::UnknownAxis, stmt.inner.range,
               "unknown axis `" + stmt.inner.text + "`")
        .help(suggestion(stmt.inner.text, known));
    return;
  }
  std::vector<std::string> levels;
  int64_t block = plan.mesh.devices();
  bool found = false;
  for (const layout::HardwareLevel &level : plan.hardware) {
    levels.push_back(level.name);
    if (!found) {
      block /= level.size;
      found = level.name == stmt.outer.text;
    }
  }
  if (!found) {
    diags
        .error(Diag::BadContract, stmt.outer.range,
               levels.empty()
                   ? "the mesh has no hardware levels"
                   : "unknown hardware level `" + stmt.outer.text + "`")
        .help(levels.empty() ? "say them after the mesh: `on [node: 8, gpu: 8]`"
                             : suggestion(stmt.outer.text, levels));
    return;
  }
  // Devices that differ along the axis alone lie within `span` consecutive
  // ones, and every span begins at a multiple of itself.
  int64_t span = 1, step = 1;
  for (size_t i = plan.mesh.atoms.size() - plan.mesh.times; i-- > 0;) {
    step *= plan.mesh.atoms[i].size;
    if (std::find(axis->atoms.begin(), axis->atoms.end(), i) !=
        axis->atoms.end()) {
      span = step;
    }
  }
  if (axis->atoms.empty() || block % span == 0) {
    return;
  }
  diags
      .error(Diag::ContractFails, stmt.claim,
             "`" + stmt.inner.text + "` does not lie within a `" +
                 stmt.outer.text + "`: its groups span " +
                 std::to_string(span) + " devices in a row, a `" +
                 stmt.outer.text + "` has " + std::to_string(block))
      .help("put `" + stmt.inner.text +
            "` later in the mesh, or make it "
            "smaller");
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

void ContractChecker::notChecked(const Expectation &expectation,
                                 const std::string &why) {
  diags.note(Diag::ContractNotChecked, expectation.statement->claim,
             "not checked here: " + why);
}

void ContractChecker::addChain(
    DiagnosticBuilder &builder,
    const std::vector<const CollectiveRecord *> &found) {
  constexpr size_t most = 12;
  for (size_t i = 0; i < found.size() && i < most; ++i) {
    const CollectiveRecord &record = *found[i];
    std::string text =
        record.kind + " on `" + plan.mesh.describe(record.atoms) + "`";
    if (record.iterations != 1) {
      text += ", " + std::to_string(record.iterations) + " times a step";
    }
    if (!record.operation.empty()) {
      text += ", at " + record.operation;
    }
    if (!record.reason.empty()) {
      text += ": " + record.reason;
    }
    SourceRange range = rangeOf(record.source);
    if (!range.isValid() && record.source.line) {
      text = record.source.where() + ": " + text;
    }
    builder.note(range, text);
  }
  if (found.size() > most) {
    builder.note("and " + std::to_string(found.size() - most) + " more");
  }
  if (!found.empty() && !found[0]->avoid.empty()) {
    builder.help(found[0]->avoid);
  }
}

void ContractChecker::checkCollectives(const Expectation &expectation) {
  const ExpectStmt &stmt = *expectation.statement;
  // An axis of size 1 has no collectives, whoever partitions.
  bool empty = std::any_of(expectation.axes.begin(), expectation.axes.end(),
                           [](const auto &axis) { return axis.empty(); });
  if (!facts.train && !empty) {
    notChecked(expectation, "the plan's collectives are not known");
    return;
  }
  std::vector<const CollectiveRecord *> found;
  if (!empty) {
    found = matchingCollectives(stmt.comm, expectation, *facts.train);
  }
  // Counts are of the program as written; bytes are what is sent.
  if (stmt.form != ExpectStmt::Bytes) {
    std::erase_if(found, [](const CollectiveRecord *record) {
      return record->recomputed;
    });
  }
  int64_t amount = 0;
  layout::BusiestDevice busiest;
  for (const CollectiveRecord *record : found) {
    amount += record->iterations;
    busiest.add(*record);
  }
  if (stmt.form == ExpectStmt::Bytes) {
    amount = busiest.bytes();
  }
  if (stmt.form == ExpectStmt::No) {
    if (!found.empty()) {
      auto builder = diags.error(Diag::ContractFails, stmt.claim,
                                 "the plan has " + std::to_string(amount) +
                                     " " + expectation.description +
                                     " a step, and promises none");
      addChain(builder, found);
    }
    return;
  }
  Quantity quantity =
      stmt.form == ExpectStmt::Bytes ? Quantity::Bytes : Quantity::Plain;
  sema::Value have =
      amount % expectation.divisor == 0
          ? sema::Value::ofInteger(amount / expectation.divisor, quantity)
          : sema::Value::ofReal(static_cast<double>(amount) /
                                    static_cast<double>(expectation.divisor),
                                quantity);
  std::optional<sema::Value> holds =
      sema::apply(stmt.compare, have, expectation.wanted, stmt.claim, diags);
  if (!holds || holds->boolean) {
    return;
  }
  std::string per =
      expectation.perLoop.empty() && !expectation.perMicro ? "a step" : "";
  if (!expectation.perLoop.empty()) {
    per = "per " + expectation.perLoop;
  }
  if (expectation.perMicro) {
    per += std::string(per.empty() ? "" : " ") + "per micro";
  }
  auto builder =
      diags.error(Diag::ContractFails, stmt.claim,
                  (stmt.form == ExpectStmt::Bytes ? "bytes of " : "") +
                      expectation.description + ": found " + have.text() + " " +
                      per + ", wanted " + spelling(stmt.compare) + " " +
                      expectation.wanted.text());
  addChain(builder, found);
  if (found.empty()) {
    builder.note("no collective of the plan matches");
  }
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

std::optional<layout::Selection> ContractChecker::argument(const CallExpr &call,
                                                           const Scope &scope) {
  if (call.args.size() != 1 || call.args[0].name) {
    diags.error(Diag::BadArguments, call.range,
                "`" + call.callee.text() + "` takes one argument");
    return std::nullopt;
  }
  std::optional<Selection> written = asSelection(*call.args[0].value);
  if (!written) {
    diags
        .error(Diag::BadContract, call.args[0].range,
               "`" + call.callee.text() + "` takes a selection")
        .help("write `params`, `optimizer in layer`, or a path");
    return std::nullopt;
  }
  Devices none;
  return Names(*facts.model, none, diags).selection(*written, scope);
}

std::optional<sema::Value> ContractChecker::local(const CallExpr &call,
                                                  const Scope &scope) {
  std::optional<layout::Selection> selection = argument(call, scope);
  if (!selection) {
    return std::nullopt;
  }
  // A parameter, else an activation, of that name; several of one shape are
  // one answer.
  std::vector<ValueInfo> candidates;
  for (const LeafFact &leaf : facts.model->leaves) {
    ValueInfo value;
    value.role = layout::Role::Params;
    value.path = leaf.path;
    value.dims = leaf.dims;
    if (matches(*selection, value)) {
      candidates.push_back(std::move(value));
    }
  }
  if (candidates.empty()) {
    for (const ValueInfo &value : facts.model->values) {
      if (!value.label.empty() && matches(*selection, value)) {
        candidates.push_back(value);
      }
    }
  }
  std::optional<std::vector<int64_t>> sizes;
  for (const ValueInfo &value : candidates) {
    Resolved resolved = resolve(plan, value);
    std::vector<int64_t> own;
    for (size_t i = 0; i < value.dims.size(); ++i) {
      if (!isRepeated(plan, value.dims[i].name)) {
        own.push_back(layout::largestPiece(value.dims[i].size,
                                           resolved.layout.dims[i], plan.mesh));
      }
    }
    if (sizes && *sizes != own) {
      diags
          .error(Diag::BadContract, call.args[0].range,
                 "values of several shapes match")
          .note("`" + candidates[0].path + "` and `" + value.path + "`")
          .help("name one: `local(" + value.path + ")`");
      return std::nullopt;
    }
    sizes = own;
  }
  if (!sizes) {
    diags
        .error(Diag::BadContract, call.args[0].range,
               "no parameter or named value matches")
        .help("name a `param`, or a `let` of the model");
    return std::nullopt;
  }
  std::vector<sema::Value> items;
  for (int64_t size : *sizes) {
    items.push_back(sema::Value::ofInteger(size));
  }
  return sema::Value::ofList(std::move(items));
}

// `a` in `f(a)` where it is a plain name, else "".
static std::string nameArgument(const CallExpr &call) {
  if (call.args.size() != 1) {
    return "";
  }
  auto *name = dynCast<NameExpr>(call.args[0].value);
  return name ? name->name : "";
}

// The layers of each stage, of all repeats, `layers(pipe) == [15, 16, 15]`, or
// of each chunk in the order of the model, `layers(chunk) == [7, 8, 8, 7]`.
std::optional<sema::Value> ContractChecker::layers(const CallExpr &call) {
  std::string name = nameArgument(call);
  const layout::Axis *axis = plan.mesh.findAxis(name);
  bool ofStages = plan.pipeline && axis && axis->atoms == plan.pipeline->atoms;
  if (!plan.pipeline || (!ofStages && (axis || name != "chunk"))) {
    diags
        .error(Diag::BadContract, call.range,
               plan.pipeline ? "`layers` is of the axis of the stages, or of "
                               "each `chunk`"
                             : "`layers` speaks of stages, and the plan has no "
                               "pipeline")
        .help(plan.pipeline
                  ? "write `layers(" +
                        plan.mesh.describe(plan.pipeline->atoms) + ")`"
                  : "say `pipeline layer on pipe with one_f_one_b`");
    return std::nullopt;
  }
  int64_t stages = plan.mesh.sizeOf(plan.pipeline->atoms);
  int64_t chunks = stages * plan.pipeline->chunks;
  std::vector<int64_t> sizes(ofStages ? stages : chunks, 0);
  for (const layout::DimInfo &dim : plan.dims) {
    if (!plan.pipeline->cuts(dim.name)) {
      continue;
    }
    ValueInfo value;
    value.role = layout::Role::Params;
    value.dims = {{dim.name, dim.size}};
    layout::Split split = resolve(plan, value).layout.dims.at(0);
    for (int64_t i = 0; i < chunks; ++i) {
      int64_t size = split.cuts.empty()
                         ? layout::splitRule(dim.size, chunks, i).size()
                         : split.cuts[i + 1] - split.cuts[i];
      sizes[!ofStages || split.places.empty() ? i : split.places[i]] += size;
    }
  }
  std::vector<sema::Value> items;
  for (int64_t size : sizes) {
    items.push_back(sema::Value::ofInteger(size));
  }
  return sema::Value::ofList(std::move(items));
}

static bool speaksOf(const layout::Selection &selection, layout::Role role) {
  return (selection.kind == layout::Selection::Kind::Role &&
          selection.role == role) ||
         std::any_of(selection.children.begin(), selection.children.end(),
                     [&](const layout::Selection &child) {
                       return speaksOf(child, role);
                     });
}

std::optional<sema::Value>
ContractChecker::call(const CallExpr &call, const Scope &scope, bool &handled) {
  std::string name = call.callee.text();
  handled = true;
  if (name == "size") {
    // A dim's, where an axis has the same name.
    for (const layout::DimInfo &dim : plan.dims) {
      if (dim.name == nameArgument(call)) {
        return sema::Value::ofInteger(dim.size);
      }
    }
    handled = false;
    return std::nullopt;
  }
  if (name == "local") {
    return local(call, scope);
  }
  if (name == "layers") {
    return layers(call);
  }
  if (name == "peak") {
    if (nameArgument(call) != "memory") {
      diags.error(Diag::BadContract, call.range, "write `peak(memory)`");
      return std::nullopt;
    }
    if (facts.peak < 0) {
      unknown = "the peak is known once buffers are planned";
      return std::nullopt;
    }
    return sema::Value::ofInteger(facts.peak, Quantity::Bytes);
  }
  if (name == "bubble") {
    if (nameArgument(call) != "simulated") {
      diags
          .error(Diag::BadContract, call.range,
                 "a bubble is the schedule's own or the simulated one")
          .help("write `bubble` or `bubble(simulated)`");
      return std::nullopt;
    }
    return bubble(facts.simulatedBubble);
  }
  if (name != "memory" && name != "unsharded") {
    handled = false;
    return std::nullopt;
  }
  std::optional<layout::Selection> selection = argument(call, scope);
  if (!selection) {
    return std::nullopt;
  }
  for (layout::Role role : {layout::Role::Weights, layout::Role::Activations,
                            layout::Role::Inputs}) {
    if (speaksOf(*selection, role)) {
      diags
          .error(Diag::BadContract, call.range,
                 "only what is stored between steps has a size here")
          .help("say `params`, `gradients` or `optimizer`; `peak(memory)` "
                "has all");
      return std::nullopt;
    }
  }
  if (name == "memory") {
    return sema::Value::ofInteger(
        storedBytes(plan, *facts.model, *selection, facts.train),
        Quantity::Bytes);
  }
  return sema::Value::ofReal(unshardedShare(plan, *facts.model, *selection));
}

sema::Value ContractChecker::bubble(std::optional<double> known) {
  if (plan.pipeline && !known) {
    unknown = "the plan's timeline is not known";
  }
  return sema::Value::ofReal(known.value_or(0));
}

sema::Environment
ContractChecker::environmentFor(const Expectation &expectation) {
  sema::Environment environment;
  const Scope &scope = *expectation.scope;
  environment.parent = &scope.environment;
  environment.resolve =
      [this, &scope](std::string_view name) -> std::optional<sema::Value> {
    if (scope.environment.lookup(name)) {
      return std::nullopt;
    }
    if (name == "micros") {
      return sema::Value::ofInteger(plan.micros());
    }
    if (name == "stages") {
      return sema::Value::ofInteger(
          plan.pipeline ? plan.mesh.sizeOf(plan.pipeline->atoms) : 1);
    }
    if (name == "bubble") {
      return bubble(facts.bubble);
    }
    return std::nullopt;
  };
  environment.call = [this, &scope](const CallExpr &expr, bool &handled) {
    return call(expr, scope, handled);
  };
  environment.resolvable = {"micros", "stages", "bubble",    "local", "layers",
                            "memory", "peak",   "unsharded", "size"};
  return environment;
}

// "batch = 32, data = 8": the names in `expr` that have a value, each once.
std::string ContractChecker::valuesIn(const Expr &expr,
                                      const sema::Environment &environment) {
  std::string text;
  std::set<std::string> seen;
  std::vector<const Expr *> work{&expr};
  for (size_t i = 0; i < work.size(); ++i) {
    const Expr *at = work[i];
    if (auto *binary = dynCast<BinaryExpr>(at)) {
      work.push_back(binary->left.get());
      work.push_back(binary->right.get());
    } else if (auto *unary = dynCast<UnaryExpr>(at)) {
      work.push_back(unary->operand.get());
    } else if (at->kind == ExprKind::Name || at->kind == ExprKind::Member ||
               at->kind == ExprKind::Call) {
      std::string name(diags.sourceManager().text(at->range));
      DiagnosticEngine quiet(diags.sourceManager());
      std::optional<sema::Value> value =
          at->kind == ExprKind::Call ? std::nullopt
                                     : sema::evaluate(*at, environment, quiet);
      if (value && seen.insert(name).second) {
        text += (text.empty() ? "" : ", ") + name + " = " + value->text();
      }
      if (auto *inner = dynCast<CallExpr>(at)) {
        for (const Arg &arg : inner->args) {
          work.push_back(arg.value.get());
        }
      }
    }
  }
  return text;
}

void ContractChecker::checkHolds(const Expectation &expectation) {
  const ExpectStmt &stmt = *expectation.statement;
  sema::Environment environment = environmentFor(expectation);
  unknown.clear();
  auto *compared = dynCast<BinaryExpr>(stmt.value);
  if (!compared || !isComparison(compared->op)) {
    std::optional<bool> holds =
        sema::evaluateBool(*stmt.value, environment, diags, "a contract");
    if (!unknown.empty()) {
      notChecked(expectation, unknown);
    } else if (holds && !*holds) {
      diags
          .error(Diag::ContractFails, stmt.claim,
                 "`" + std::string(diags.sourceManager().text(stmt.claim)) +
                     "` does not hold")
          .label(valuesIn(*stmt.value, environment));
    }
    return;
  }
  std::optional<sema::Value> left =
      sema::evaluate(*compared->left, environment, diags);
  std::optional<sema::Value> right =
      left ? sema::evaluate(*compared->right, environment, diags)
           : std::nullopt;
  if (!unknown.empty()) {
    notChecked(expectation, unknown);
    return;
  }
  if (!right) {
    return;
  }
  std::optional<sema::Value> holds =
      sema::apply(compared->op, *left, *right, stmt.claim, diags);
  if (!holds || holds->boolean) {
    return;
  }
  diags
      .error(Diag::ContractFails, stmt.claim,
             "`" + std::string(diags.sourceManager().text(stmt.claim)) +
                 "` does not hold: found " + left->text() + ", wanted " +
                 spelling(compared->op) + " " + right->text())
      .label(valuesIn(*stmt.value, environment));
}

void ContractChecker::check(const Expectation &expectation) {
  switch (expectation.statement->form) {
  case ExpectStmt::Within:
    return checkWithin(expectation);
  case ExpectStmt::No:
  case ExpectStmt::Count:
  case ExpectStmt::Bytes:
    return checkCollectives(expectation);
  case ExpectStmt::Holds:
    return checkHolds(expectation);
  }
}

} // namespace

bool checkExpectations(const layout::Plan &plan,
                       const std::vector<Expectation> &expectations,
                       const ExpectFacts &facts, DiagnosticEngine &diags) {
  size_t before = diags.errorCount();
  ContractChecker checker(plan, facts, diags);
  for (const Expectation &expectation : expectations) {
    checker.check(expectation);
  }
  return diags.errorCount() == before;
}

} // namespace cleave::plan
