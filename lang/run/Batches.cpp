#include "lang/run/Run.h"

#include <algorithm>
#include <set>

using namespace cleave;
using namespace cleave::ast;
using namespace cleave::run;

static const char *const rampForm = "write `vary batch = ramp(from: 192, to: "
                                    "2048, by: 16, samples: 9_765_625)`";

// The arguments of `ramp`, all named, each once.
static bool readArguments(const CallExpr &call,
                          const std::vector<std::string> &names,
                          const Context &context,
                          std::map<std::string, int64_t> &values,
                          DiagnosticEngine &diags) {
  for (const Arg &arg : call.args) {
    std::string name = arg.name ? arg.name->text : "";
    if (std::find(names.begin(), names.end(), name) == names.end() ||
        values.count(name)) {
      diags
          .error(Diag::BadVary, arg.range,
                 name.empty() ? "the arguments of `ramp` have names"
                              : "`ramp` does not take `" + name + "` here")
          .help(suggestion(name, names))
          .help(rampForm);
      return false;
    }
    std::optional<int64_t> value = sema::evaluateInteger(
        *arg.value, context.parameters, diags, "`" + name + "` of a ramp");
    if (!value) {
      return false;
    }
    if (*value < 1) {
      diags.error(Diag::BadVary, arg.value->range,
                  "`" + name + "` of a ramp is at least 1, not " +
                      std::to_string(*value));
      return false;
    }
    values[name] = *value;
  }
  for (const std::string &name : names) {
    if (!values.count(name)) {
      diags
          .error(Diag::BadVary, call.range,
                 "`ramp` does not say `" + name + "`")
          .help(rampForm);
      return false;
    }
  }
  return true;
}

// i * samples / steps, which may not fit into 64 bits on the way.
static int64_t partOf(int64_t samples, int64_t i, int64_t steps) {
  return static_cast<int64_t>(static_cast<__int128>(samples) * i / steps);
}

static bool addRamp(const CallExpr &call, const Context &context,
                    Elaborated &result, DiagnosticEngine &diags) {
  std::map<std::string, int64_t> values;
  if (!readArguments(call, {"from", "to", "by", "samples"}, context, values,
                     diags)) {
    return false;
  }
  int64_t from = values["from"], to = values["to"], by = values["by"];
  int64_t samples = values["samples"];
  if (from >= to || to > result.bound) {
    diags
        .error(Diag::BadVary, call.range,
               from >= to ? "a ramp from " + std::to_string(from) + " to " +
                                std::to_string(to) + " does not grow"
                          : "the ramp ends at " + std::to_string(to) +
                                ", and the model says `up to " +
                                std::to_string(result.bound) + "`")
        .help(from >= to ? "leave `vary` out where the batch is constant"
                         : "let it end at the bound, or raise the bound");
    return false;
  }
  int64_t steps = (to - from + by - 1) / by;
  if (steps >= mostBatches || steps > samples) {
    diags
        .error(Diag::BadVary, call.range,
               "the ramp has " + std::to_string(steps + 1) + " batches" +
                   (steps > samples ? ", more than samples" : ""))
        .help("let it grow by more at a time");
    return false;
  }
  for (int64_t i = 0; i <= steps; ++i) {
    result.run->batches.emplace_back(partOf(samples, i, steps),
                                     std::min(from + i * by, to));
  }
  return true;
}

bool run::elaborateVary(const VaryStmt &stmt, const Context &context,
                        Elaborated &result, DiagnosticEngine &diags) {
  auto bound = context.bounds.find(stmt.what.text);
  if (bound == context.bounds.end()) {
    std::vector<std::string> names;
    for (const auto &[name, size] : context.bounds) {
      names.push_back(name);
    }
    diags
        .error(Diag::BadVary, stmt.what.range,
               "`" + stmt.what.text + "` is no dim with a bound")
        .help(suggestion(stmt.what.text, names))
        .help("declare it in the model with `dim " + stmt.what.text +
              " = up to 2048`");
    return false;
  }
  if (stmt.what.text != context.sampleDim) {
    diags.error(Diag::BadVary, stmt.what.range,
                "`" + stmt.what.text +
                    "` is not the dim of the samples of the model's inputs");
    return false;
  }
  if (!result.varies.empty()) {
    diags.error(Diag::BadVary, stmt.range,
                "`" + stmt.what.text + "` varies twice");
    return false;
  }
  result.varies = stmt.what.text;
  result.bound = bound->second;
  if (stmt.value->callee.text() != "ramp") {
    diags
        .error(Diag::BadVary, stmt.value->range,
               "a batch cannot vary as `" + stmt.value->callee.text() + "`")
        .help(rampForm);
    return false;
  }
  if (!addRamp(*stmt.value, context, result, diags)) {
    return false;
  }
  std::set<int64_t> batches;
  for (const format::BatchChange &change : result.run->batches) {
    batches.insert(change.batch());
  }
  result.batches.assign(batches.begin(), batches.end());
  return true;
}
