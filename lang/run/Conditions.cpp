#include "lang/run/Run.h"

#include "lang/ast/Units.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::ast;
using namespace cleave::run;
using format::Metric;
using format::Statistic;
using format::TermKind;
using format::TrafficKind;

namespace {

struct MetricInfo {
  const char *name;
  Metric metric;
  Quantity quantity;
};

// Those that are written as a word.
constexpr MetricInfo metrics[] = {
    {"step", Metric::Step, Quantity::Plain},
    {"loss", Metric::Loss, Quantity::Plain},
    {"tokens", Metric::Tokens, Quantity::Plain},
    {"samples", Metric::Samples, Quantity::Plain},
    {"batch", Metric::Batch, Quantity::Plain},
    {"step_time", Metric::StepTime, Quantity::Seconds},
    {"gradient_norm", Metric::GradientNorm, Quantity::Plain},
    {"free_memory", Metric::FreeMemory, Quantity::Bytes},
    {"wall_time", Metric::WallTime, Quantity::Seconds},
};

// A ratio of two measures: see buildNoise.
constexpr const char *noiseScale = "noise_scale";
// One for each stage: only a statistic over the stages is a number.
constexpr const char *stageTime = "stage_time";

// A part of a condition: a number of some quantity, or what is true or false.
struct Part {
  bool isBool = false;
  Quantity quantity = Quantity::Plain;
  std::optional<double> constant;            // a truth is 1 or 0
  const format::MeasureT *measure = nullptr; // where it is just that
  std::string text;                          // of the measure
};

class Builder {
public:
  Builder(const Context &context, DiagnosticEngine &diags)
      : context(context), diags(diags) {}

  std::optional<Condition> run(const Expr &expr);

private:
  std::optional<Part> build(const Expr &expr);
  std::optional<Part> buildConstant(const Expr &expr);
  std::optional<Part> buildName(const NameExpr &name);
  std::optional<Part> buildCall(const CallExpr &call);
  std::optional<Part> buildStatistic(const CallExpr &call, Statistic statistic);
  std::optional<Part> buildOverStages(const CallExpr &call,
                                      Statistic statistic);
  std::optional<Part> buildTraffic(const CallExpr &call);
  std::optional<Part> buildNoise(const Expr &expr, Statistic statistic,
                                 uint32_t window);
  std::optional<uint32_t> windowOf(const CallExpr &call, Statistic statistic);
  std::optional<Part> buildUnary(const UnaryExpr &unary);
  std::optional<Part> buildBinary(const BinaryExpr &binary);
  std::optional<Part> arithmetic(const BinaryExpr &binary, const Part &left,
                                 const Part &right);
  std::optional<Part> comparison(const BinaryExpr &binary, const Part &left,
                                 const Part &right);
  std::optional<Part> logic(const BinaryExpr &binary, const Part &left,
                            const Part &right);
  bool isMeasure(const Arg &arg) const;
  bool haveSame(const BinaryExpr &binary, const Part &left, const Part &right);
  std::optional<Part> refuse(SourceRange range, const std::string &message,
                             const std::string &help = "");
  void add(TermKind kind);
  Part addNumber(double value, Quantity quantity);
  Part addMeasure(Metric metric, Quantity quantity, const std::string &text);
  void collect(const Expr &expr);
  std::string textOf(const Expr &expr) const {
    return std::string(diags.sourceManager().text(expr.range));
  }

  const Context &context;
  DiagnosticEngine &diags;
  Condition result;
  /// What comparisons of a measure with a constant say, by expression.
  std::map<const Expr *, Condition::Bounds> known;
};

} // namespace

std::optional<Part> Builder::refuse(SourceRange range,
                                    const std::string &message,
                                    const std::string &help) {
  diags.error(Diag::BadCondition, range, message).help(help);
  return std::nullopt;
}

void Builder::add(TermKind kind) {
  result.terms.push_back(std::make_unique<format::TermT>());
  result.terms.back()->kind = kind;
}

Part Builder::addNumber(double value, Quantity quantity) {
  add(TermKind::Number);
  result.terms.back()->number = value;
  Part part;
  part.quantity = quantity == Quantity::Steps ? Quantity::Plain : quantity;
  part.constant = value;
  return part;
}

Part Builder::addMeasure(Metric metric, Quantity quantity,
                         const std::string &text) {
  add(TermKind::Measure);
  auto measure = std::make_unique<format::MeasureT>();
  measure->metric = metric;
  Part part;
  part.quantity = quantity;
  part.measure = measure.get();
  part.text = text;
  result.terms.back()->measure = std::move(measure);
  return part;
}

std::optional<Part> Builder::buildConstant(const Expr &expr) {
  std::optional<sema::Value> value =
      sema::evaluate(expr, context.parameters, diags);
  if (!value) {
    return std::nullopt;
  }
  if (value->kind == sema::Value::Kind::Bool) {
    Part part = addNumber(value->boolean ? 1 : 0, Quantity::Plain);
    part.isBool = true;
    return part;
  }
  if (!value->isNumber()) {
    return refuse(expr.range, "a condition compares numbers, and this is " +
                                  value->describe());
  }
  return addNumber(value->number(), value->quantity);
}

static std::vector<std::string> metricNames() {
  std::vector<std::string> names;
  for (const MetricInfo &info : metrics) {
    names.push_back(info.name);
  }
  names.push_back(noiseScale);
  return names;
}

// `noise_scale` is noise / signal, each with its own mean over the window: a
// mean of ratios would be far off where the signal is now and then near zero.
// A signal that is not positive is lost in the noise, and the scale not known:
// signal * (signal > 0) is then zero, and the ratio nothing.
std::optional<Part> Builder::buildNoise(const Expr &expr, Statistic statistic,
                                        uint32_t window) {
  if (!context.clips || !context.gradientMean) {
    diags
        .error(Diag::MetricNotThere, expr.range,
               "the run does not know `noise_scale`")
        .help(
            context.clips
                ? "it is estimated from the optimizer's mean of gradients: "
                  "`adamw` and `lion` keep one"
                : "add `clip(LIMIT)` to `with`: it needs the gradient's norm");
    return std::nullopt;
  }
  auto measure = [&](Metric metric) {
    Part part = addMeasure(metric, Quantity::Plain, textOf(expr));
    result.terms.back()->measure->statistic = statistic;
    result.terms.back()->measure->window = window;
    return part;
  };
  Part part = measure(Metric::GradientNoise);
  measure(Metric::GradientSignal);
  measure(Metric::GradientSignal);
  addNumber(0, Quantity::Plain);
  add(TermKind::Greater);
  add(TermKind::Multiply);
  add(TermKind::Divide);
  result.readsNoise = true;
  return part;
}

// `bytes(all_reduce on data)`, `time(send)`.
std::optional<Part> Builder::buildTraffic(const CallExpr &call) {
  std::string name = call.callee.text();
  const auto *word = call.args.size() == 1 && !call.args[0].name
                         ? dynCast<NameExpr>(call.args[0].value)
                         : nullptr;
  if (!word) {
    return refuse(call.range,
                  "`" + name + "` takes a kind of what devices send",
                  "write `" + name + "(all_reduce)`, or `" + name +
                      "(all_reduce on AXIS)`");
  }
  std::optional<TrafficKind> kind;
  std::vector<std::string> known;
  for (TrafficKind one : format::EnumValuesTrafficKind()) {
    known.push_back(format::nameOf(one));
    if (word->name == known.back()) {
      kind = one;
    }
  }
  if (!kind) {
    diags
        .error(Diag::UnknownMetric, word->range,
               "devices send nothing called `" + word->name + "`")
        .help(suggestion(word->name, known));
    return std::nullopt;
  }
  std::string axis = call.args[0].axis ? call.args[0].axis->text() : "";
  if (!axis.empty() && context.axes && !context.axes->contains(axis)) {
    diags
        .error(Diag::UnknownAxis, call.args[0].axis->range,
               "no plan of the run has an axis `" + axis + "`")
        .help(suggestion(axis, {context.axes->begin(), context.axes->end()}));
    return std::nullopt;
  }
  bool isTime = name == "time";
  Part part =
      addMeasure(isTime ? Metric::Time : Metric::Bytes,
                 isTime ? Quantity::Seconds : Quantity::Bytes, textOf(call));
  result.terms.back()->measure->traffic = *kind;
  result.terms.back()->measure->axis = axis;
  return part;
}

std::optional<Part> Builder::buildName(const NameExpr &name) {
  for (const MetricInfo &info : metrics) {
    if (name.name != info.name) {
      continue;
    }
    if (info.metric == Metric::GradientNorm && !context.clips) {
      diags
          .error(Diag::MetricNotThere, name.range,
                 "the run does not compute `gradient_norm`")
          .help("add `clip(LIMIT)` to `with`: clipping needs the norm");
      return std::nullopt;
    }
    return addMeasure(info.metric, info.quantity, name.name);
  }
  if (name.name == stageTime) {
    return refuse(name.range, "`stage_time` is one number for each stage",
                  "write `spread(stage_time)`, the largest by the smallest, or "
                  "`max` or `mean` of it");
  }
  if (name.name == noiseScale) {
    return buildNoise(name, Statistic::Last, 1);
  }
  if (context.parameters.lookup(name.name)) {
    return buildConstant(name);
  }
  diags
      .error(Diag::UnknownMetric, name.range,
             "unknown metric `" + name.name + "`")
      .help(suggestion(name.name, metricNames()));
  return std::nullopt;
}

static bool isWord(const Arg &arg, const char *word) {
  const auto *name = dynCast<NameExpr>(arg.value);
  return !arg.name && name && name->name == word;
}

static bool isStageTime(const Arg &arg) { return isWord(arg, stageTime); }

static bool isTraffic(const CallExpr &call) {
  return call.callee.text() == "bytes" || call.callee.text() == "time";
}

// `spread(stage_time)`: of the last step.
std::optional<Part> Builder::buildOverStages(const CallExpr &call,
                                             Statistic statistic) {
  if (call.args.size() != 1) {
    return refuse(call.args[1].range,
                  "`" + call.callee.text() +
                      "` of `stage_time` is over the stages of one step",
                  "`for N` after the condition asks for it N steps in a row");
  }
  Part part = addMeasure(Metric::StageTime, Quantity::Seconds, textOf(call));
  result.terms.back()->measure->statistic = statistic;
  if (statistic == Statistic::Spread) {
    part.quantity = Quantity::Plain;
  }
  return part;
}

std::optional<uint32_t> Builder::windowOf(const CallExpr &call,
                                          Statistic statistic) {
  std::optional<int64_t> window =
      sema::evaluateInteger(*call.args[1].value, context.parameters, diags,
                            "the window of `" + call.callee.text() + "`");
  if (!window) {
    return std::nullopt;
  }
  constexpr int64_t most = 100'000;
  if (*window < (statistic == Statistic::Spread ? 2 : 1) || *window > most) {
    refuse(call.args[1].range,
           "a window of " + std::to_string(*window) + " steps");
    return std::nullopt;
  }
  return static_cast<uint32_t>(*window);
}

// `mean(loss, 20)`.
std::optional<Part> Builder::buildStatistic(const CallExpr &call,
                                            Statistic statistic) {
  std::string name = call.callee.text();
  if (!call.args.empty() && isStageTime(call.args.front())) {
    return buildOverStages(call, statistic);
  }
  if (call.args.size() != 2 || call.args[0].name || call.args[1].name) {
    return refuse(call.range,
                  "`" + name + "` takes a metric and a number of steps",
                  "write `" + name + "(loss, 20)`");
  }
  if (isWord(call.args[0], noiseScale)) {
    if (statistic != Statistic::Mean) {
      return refuse(call.range, "`noise_scale` has a mean alone",
                    "write `mean(noise_scale, 50)`");
    }
    std::optional<uint32_t> window = windowOf(call, statistic);
    return window ? buildNoise(call, statistic, *window) : std::nullopt;
  }
  std::optional<Part> part = build(*call.args[0].value);
  if (!part) {
    return std::nullopt;
  }
  format::MeasureT *measure = nullptr;
  if (part->measure) {
    measure = result.terms.back()->measure.get();
  }
  if (!measure || measure->statistic != Statistic::Last) {
    return refuse(call.args[0].range,
                  "`" + name + "` takes one metric, and this is more");
  }
  std::optional<uint32_t> window = windowOf(call, statistic);
  if (!window) {
    return std::nullopt;
  }
  measure->statistic = statistic;
  measure->window = *window;
  // A spread is a ratio.
  if (statistic == Statistic::Spread) {
    part->quantity = Quantity::Plain;
  }
  part->text = textOf(call);
  return part;
}

// Something that is measured; else `max` is of two constants.
bool Builder::isMeasure(const Arg &arg) const {
  if (const auto *call = dynCast<CallExpr>(arg.value)) {
    return isTraffic(*call);
  }
  const auto *name = dynCast<NameExpr>(arg.value);
  return name && !context.parameters.lookup(name->name);
}

std::optional<Part> Builder::buildCall(const CallExpr &call) {
  std::string name = call.callee.text();
  if (name == "mean") {
    return buildStatistic(call, Statistic::Mean);
  }
  if (name == "max" && !call.args.empty() && isStageTime(call.args.front())) {
    return buildOverStages(call, Statistic::Max);
  }
  if (name == "max" && call.args.size() == 2 && isMeasure(call.args[0])) {
    return buildStatistic(call, Statistic::Max);
  }
  if (name == "spread") {
    return buildStatistic(call, Statistic::Spread);
  }
  if (isTraffic(call)) {
    return buildTraffic(call);
  }
  if (name == "lost") {
    diags.error(Diag::MetricNotThere, call.range,
                "`lost` in a condition is not built yet");
    return std::nullopt;
  }
  if (sema::isCompileTimeFunction(name)) {
    return buildConstant(call);
  }
  diags.error(Diag::UnknownMetric, call.range, "unknown metric `" + name + "`")
      .help(suggestion(name, {"mean", "max", "spread", "bytes", "time"}));
  return std::nullopt;
}

std::optional<Part> Builder::buildUnary(const UnaryExpr &unary) {
  std::optional<Part> part = build(*unary.operand);
  if (!part) {
    return std::nullopt;
  }
  bool negates = unary.op == UnaryOp::Negate;
  if (part->isBool == negates) {
    return refuse(unary.range, negates ? "what is true or false has no sign"
                                       : "`not` takes a comparison");
  }
  add(negates ? TermKind::Negate : TermKind::Not);
  part->measure = nullptr;
  if (part->constant) {
    part->constant = negates ? -*part->constant : 1 - *part->constant;
  }
  return part;
}

bool Builder::haveSame(const BinaryExpr &binary, const Part &left,
                       const Part &right) {
  auto isZero = [](const Part &part) { return part.constant == 0.0; };
  if (left.isBool || right.isBool) {
    refuse(binary.range, "what is true or false is no number to compute with");
    return false;
  }
  if (left.quantity == right.quantity || isZero(left) || isZero(right)) {
    return true;
  }
  auto describe = [](const Part &part) {
    return part.quantity == Quantity::Bytes     ? "bytes"
           : part.quantity == Quantity::Seconds ? "seconds"
           : part.quantity == Quantity::Plain   ? "a plain number"
                                                : "another quantity";
  };
  refuse(binary.range,
         std::string(describe(left)) + " and " + describe(right) +
             " do not go together",
         "give both the same unit, as in `step_time > 2 s` or `free_memory < 8 "
         "GiB`");
  return false;
}

static std::optional<double> fold(BinaryOp op, const Part &left,
                                  const Part &right) {
  if (!left.constant || !right.constant) {
    return std::nullopt;
  }
  double a = *left.constant, b = *right.constant;
  switch (op) {
  case BinaryOp::Add:
    return a + b;
  case BinaryOp::Subtract:
    return a - b;
  case BinaryOp::Multiply:
    return a * b;
  case BinaryOp::Divide:
    return a / b;
  case BinaryOp::Equal:
    return a == b;
  case BinaryOp::NotEqual:
    return a != b;
  case BinaryOp::Less:
    return a < b;
  case BinaryOp::LessEqual:
    return a <= b;
  case BinaryOp::Greater:
    return a > b;
  case BinaryOp::GreaterEqual:
    return a >= b;
  default:
    return std::nullopt;
  }
}

std::optional<Part> Builder::arithmetic(const BinaryExpr &binary,
                                        const Part &left, const Part &right) {
  Part part;
  bool product =
      binary.op == BinaryOp::Multiply || binary.op == BinaryOp::Divide;
  if (!product) {
    if (!haveSame(binary, left, right)) {
      return std::nullopt;
    }
    part.quantity =
        left.quantity == Quantity::Plain ? right.quantity : left.quantity;
  } else {
    bool ratio =
        binary.op == BinaryOp::Divide && left.quantity == right.quantity;
    bool scaled =
        right.quantity == Quantity::Plain ||
        (binary.op == BinaryOp::Multiply && left.quantity == Quantity::Plain);
    if (left.isBool || right.isBool || (!ratio && !scaled)) {
      return refuse(binary.range, "these cannot be multiplied or divided");
    }
    part.quantity = ratio                              ? Quantity::Plain
                    : left.quantity == Quantity::Plain ? right.quantity
                                                       : left.quantity;
  }
  if (binary.op == BinaryOp::Divide && right.constant == 0.0) {
    return refuse(binary.right->range, "this divides by zero");
  }
  add(binary.op == BinaryOp::Add        ? TermKind::Add
      : binary.op == BinaryOp::Subtract ? TermKind::Subtract
      : binary.op == BinaryOp::Multiply ? TermKind::Multiply
                                        : TermKind::Divide);
  part.constant = fold(binary.op, left, right);
  return part;
}

// The values for which `x OP limit` is true.
static Interval intervalOf(BinaryOp op, double limit) {
  Interval interval;
  if (op != BinaryOp::Less && op != BinaryOp::LessEqual) {
    interval.low = limit;
    interval.lowOpen = op == BinaryOp::Greater;
  }
  if (op != BinaryOp::Greater && op != BinaryOp::GreaterEqual) {
    interval.high = limit;
    interval.highOpen = op == BinaryOp::Less;
  }
  return interval;
}

static BinaryOp mirrored(BinaryOp op) {
  switch (op) {
  case BinaryOp::Less:
    return BinaryOp::Greater;
  case BinaryOp::LessEqual:
    return BinaryOp::GreaterEqual;
  case BinaryOp::Greater:
    return BinaryOp::Less;
  case BinaryOp::GreaterEqual:
    return BinaryOp::LessEqual;
  default:
    return op;
  }
}

static TermKind termOf(BinaryOp op) {
  switch (op) {
  case BinaryOp::Less:
    return TermKind::Less;
  case BinaryOp::LessEqual:
    return TermKind::LessEqual;
  case BinaryOp::Greater:
    return TermKind::Greater;
  case BinaryOp::GreaterEqual:
    return TermKind::GreaterEqual;
  case BinaryOp::NotEqual:
    return TermKind::NotEqual;
  default:
    return TermKind::Equal;
  }
}

std::optional<Part> Builder::comparison(const BinaryExpr &binary,
                                        const Part &left, const Part &right) {
  if (!haveSame(binary, left, right)) {
    return std::nullopt;
  }
  add(termOf(binary.op));
  Part part;
  part.isBool = true;
  part.constant = fold(binary.op, left, right);
  const Part &measured = left.measure ? left : right;
  const Part &limit = left.measure ? right : left;
  if (measured.measure && limit.constant && binary.op != BinaryOp::NotEqual) {
    BinaryOp op = left.measure ? binary.op : mirrored(binary.op);
    known[&binary] = {measured.text, measured.measure->metric,
                      intervalOf(op, *limit.constant)};
  }
  return part;
}

std::optional<Part> Builder::logic(const BinaryExpr &binary, const Part &left,
                                   const Part &right) {
  if (!left.isBool || !right.isBool) {
    return refuse(binary.range, std::string("`") + spelling(binary.op) +
                                    "` takes comparisons on both sides");
  }
  bool isAnd = binary.op == BinaryOp::And;
  add(isAnd ? TermKind::And : TermKind::Or);
  Part part;
  part.isBool = true;
  // One side may decide for both.
  double deciding = isAnd ? 0 : 1;
  if (left.constant == deciding || right.constant == deciding) {
    part.constant = deciding;
  } else if (left.constant && right.constant) {
    part.constant = 1 - deciding;
  }
  return part;
}

std::optional<Part> Builder::buildBinary(const BinaryExpr &binary) {
  std::optional<Part> left = build(*binary.left);
  std::optional<Part> right = build(*binary.right);
  if (!left || !right) {
    return std::nullopt;
  }
  switch (binary.op) {
  case BinaryOp::Add:
  case BinaryOp::Subtract:
  case BinaryOp::Multiply:
  case BinaryOp::Divide:
    return arithmetic(binary, *left, *right);
  case BinaryOp::Remainder:
  case BinaryOp::Power:
    return refuse(binary.opRange, std::string("a condition has no `") +
                                      spelling(binary.op) + "`");
  case BinaryOp::And:
  case BinaryOp::Or:
    return logic(binary, *left, *right);
  default:
    return comparison(binary, *left, *right);
  }
}

std::optional<Part> Builder::build(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Name:
    return buildName(static_cast<const NameExpr &>(expr));
  case ExprKind::Call:
    return buildCall(static_cast<const CallExpr &>(expr));
  case ExprKind::Unary:
    return buildUnary(static_cast<const UnaryExpr &>(expr));
  case ExprKind::Binary:
    return buildBinary(static_cast<const BinaryExpr &>(expr));
  default:
    return buildConstant(expr);
  }
}

static void intersect(Interval &to, const Interval &other) {
  if (other.low > to.low || (other.low == to.low && other.lowOpen)) {
    to.low = other.low;
    to.lowOpen = other.lowOpen;
  }
  if (other.high < to.high || (other.high == to.high && other.highOpen)) {
    to.high = other.high;
    to.highOpen = other.highOpen;
  }
}

// What all of it asks of each measure.
void Builder::collect(const Expr &expr) {
  const auto *binary = dynCast<BinaryExpr>(&expr);
  if (binary && binary->op == BinaryOp::And) {
    collect(*binary->left);
    collect(*binary->right);
    return;
  }
  auto found = known.find(&expr);
  if (found == known.end()) {
    result.isPartly = true;
    return;
  }
  for (Condition::Bounds &bounds : result.bounds) {
    if (bounds.what == found->second.what) {
      intersect(bounds.interval, found->second.interval);
      return;
    }
  }
  result.bounds.push_back(found->second);
}

std::optional<Condition> Builder::run(const Expr &expr) {
  std::optional<Part> part = build(expr);
  if (!part) {
    return std::nullopt;
  }
  if (!part->isBool) {
    refuse(expr.range, "a condition is true or false, and this is a number",
           "compare it, as in `step >= 200`");
    return std::nullopt;
  }
  if (part->constant) {
    result.constant = *part->constant != 0;
  }
  collect(expr);
  return std::move(result);
}

std::optional<Condition> run::elaborateCondition(const Expr &expr,
                                                 const Context &context,
                                                 DiagnosticEngine &diags) {
  return Builder(context, diags).run(expr);
}
